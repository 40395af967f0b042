/* The tables of the records. */
#include "redis/records/records.h"

#include <stddef.h>
#include <string.h>

static const char *const state_names[] = {
#define REDIS_STATE_ROW(name, text) [REDIS_STATE_##name] = text,
    REDIS_STATE_MAP(REDIS_STATE_ROW)
#undef REDIS_STATE_ROW
        NULL,
};

static const char *const step_names[] = {
#define REDIS_STEP_ROW(name, text) [REDIS_STEP_##name] = text,
    REDIS_STEP_MAP(REDIS_STEP_ROW)
#undef REDIS_STEP_ROW
        NULL,
};

static const char *const request_names[] = {
    [REDIS_REQUEST_FAILOVER] = "failover",
    [REDIS_REQUEST_PAUSE] = "pause",
    [REDIS_REQUEST_RESUME] = "resume",
    [REDIS_REQUEST_FORGET] = "forget",
    NULL,
};

static const char *const link_names[] = {"down", "up", NULL}; /* of link_up */

const char *redis_state_name(enum redis_state state)
{
    return state_names[state];
}

const char *redis_step_name(enum redis_step step)
{
    return step_names[step];
}

const char *redis_request_kind_name(enum redis_request_kind kind)
{
    return request_names[kind];
}

/* Where a field is, and its size. */
#define AT(type, field)                                                                            \
    .offset = offsetof(struct type, field), .size = sizeof(((struct type *)0)->field)
/* The same of a list, and where the number of its elements is. */
#define LIST_AT(type, field, count)                                                                \
    .offset = offsetof(struct type, field), .size = sizeof(((struct type *)0)->field[0]),          \
    .max = REDIS_NODES_MAX, .count_at = offsetof(struct type, count)

static const struct record_field CURRENT[] = {
    {"epoch", RECORD_INT, AT(redis_current, epoch), .flags = RECORD_NEEDED},
    {"token", RECORD_HEX, AT(redis_current, token)},
    {"state", RECORD_NAME, AT(redis_current, state), .flags = RECORD_NEEDED, .names = state_names},
    {"master", RECORD_ADDRESS, AT(redis_current, master), .flags = RECORD_NULL},
    {"run_id", RECORD_TEXT, AT(redis_current, run_id)},
    {"replid", RECORD_TEXT, AT(redis_current, replid)},
    {"replid2", RECORD_TEXT, AT(redis_current, replid2)},
    {"second_offset", RECORD_INT, AT(redis_current, second_offset), .otherwise = -1},
    {"replicas", RECORD_ADDRESSES, LIST_AT(redis_current, replicas, replica_count)},
    {"unavailable", RECORD_ADDRESSES, LIST_AT(redis_current, unavailable, unavailable_count)},
    {"since_ms", RECORD_INT, AT(redis_current, since_ms)},
    {"failover_ms", RECORD_INT, AT(redis_current, failover_ms)},
    {"lease_ms", RECORD_INT, AT(redis_current, lease_ms)},
    {"lease_replicas", RECORD_SMALL, AT(redis_current, lease_replicas)},
    {"paused", RECORD_BOOL, AT(redis_current, paused)},
    {"reason", RECORD_NOTE, AT(redis_current, reason)},
    {.key = NULL},
};

static const struct record_field PLAN[] = {
    {"id", RECORD_TEXT, AT(redis_plan, id), .flags = RECORD_NEEDED},
    {"epoch", RECORD_INT, AT(redis_plan, epoch), .flags = RECORD_NEEDED},
    {"step", RECORD_NAME, AT(redis_plan, step), .flags = RECORD_NEEDED, .names = step_names},
    {"reason", RECORD_NOTE, AT(redis_plan, reason)},
    {"old", RECORD_ADDRESS, AT(redis_plan, old), .flags = RECORD_NEEDED},
    {"old_run_id", RECORD_TEXT, AT(redis_plan, old_run_id)},
    {"old_replid", RECORD_TEXT, AT(redis_plan, old_replid)},
    {"old_replid2", RECORD_TEXT, AT(redis_plan, old_replid2)},
    {"returned_replid", RECORD_TEXT, AT(redis_plan, returned_replid)},
    {"old_second_offset", RECORD_INT, AT(redis_plan, old_second_offset), .otherwise = -1},
    {"old_offset", RECORD_INT, AT(redis_plan, old_offset), .otherwise = -1},
    {"target", RECORD_ADDRESS, AT(redis_plan, target), .flags = RECORD_NULL},
    {"wanted", RECORD_ADDRESS, AT(redis_plan, wanted), .flags = RECORD_NULL},
    {"tried", RECORD_ADDRESSES, LIST_AT(redis_plan, tried, tried_count)},
    {"fenced", RECORD_TEXT, AT(redis_plan, fenced)},
    {"request", RECORD_TEXT, AT(redis_plan, request), .flags = RECORD_NULL},
    {"force", RECORD_BOOL, AT(redis_plan, force)},
    {"started_ms", RECORD_INT, AT(redis_plan, started_ms)},
    {.key = NULL},
};

static const struct record_field REQUEST[] = {
    {"kind", RECORD_NAME, AT(redis_request, kind), .flags = RECORD_NEEDED, .names = request_names},
    {"target", RECORD_ADDRESS, AT(redis_request, target), .flags = RECORD_NULL},
    {"force", RECORD_BOOL, AT(redis_request, force)},
    {"timeout_ms", RECORD_INT, AT(redis_request, timeout_ms)},
    {"id", RECORD_NOTE, AT(redis_request, id)},
    {"by", RECORD_NOTE, AT(redis_request, by)},
    {"expires_ms", RECORD_INT, AT(redis_request, expires_ms)},
    {.key = NULL},
};

static const struct record_field RESULT[] = {
    {"ok", RECORD_BOOL, AT(redis_result, ok), .flags = RECORD_NEEDED},
    {"text", RECORD_NOTE, AT(redis_result, text)},
    {"master", RECORD_NOTE, AT(redis_result, master), .flags = RECORD_NULL},
    {"epoch", RECORD_INT, AT(redis_result, epoch)},
    {"lost_bytes", RECORD_INT, AT(redis_result, lost_bytes), .otherwise = -1},
    {.key = NULL},
};

/* No row is strict: a report counts even if this version cannot read all of it. */
static const struct record_field REPORT_NODE[] = {
    {"state", RECORD_NAME, AT(redis_report_node, state), .names = REDIS_NODE_STATES},
    {"failures", RECORD_SMALL, AT(redis_report_node, failures)},
    {"latency_us", RECORD_INT, AT(redis_report_node, latency_us), .otherwise = -1},
    {"age_ms", RECORD_INT, AT(redis_report_node, age_ms), .otherwise = -1,
     .flags = RECORD_LAST_IF_NO},
    {"role", RECORD_NAME, AT(redis_report_node, role), .names = REDIS_ROLES},
    {"run_id", RECORD_NOTE, AT(redis_report_node, run_id)},
    {"replid", RECORD_NOTE, AT(redis_report_node, replid)},
    {"replid2", RECORD_NOTE, AT(redis_report_node, replid2)},
    {"second_offset", RECORD_INT, AT(redis_report_node, second_offset), .otherwise = -1},
    {"offset", RECORD_INT, AT(redis_report_node, offset), .otherwise = -1},
    {"priority", RECORD_SMALL, AT(redis_report_node, priority), .otherwise = 100},
    {"master", RECORD_NOTE, AT(redis_report_node, master), .flags = RECORD_NULL},
    {"link", RECORD_NAME, AT(redis_report_node, link_up), .names = link_names},
    {"link_down_ms", RECORD_INT, AT(redis_report_node, link_down_ms), .otherwise = -1},
    {.key = NULL},
};

static const struct record_table REPORT_NODE_TABLE = {.fields = REPORT_NODE};

static const struct record_field REPORT[] = {
    {"id", RECORD_TEXT, AT(redis_report, id), .flags = RECORD_NEEDED},
    {"incarnation", RECORD_TEXT, AT(redis_report, incarnation), .flags = RECORD_NEEDED},
    {"seq", RECORD_INT, AT(redis_report, seq), .flags = RECORD_NEEDED},
    {"managers", RECORD_SMALL, AT(redis_report, managers)},
    {"period_ms", RECORD_INT, AT(redis_report, period_ms)},
    {"lead_ms", RECORD_INT, AT(redis_report, lead_ms)},
    {"sentinel", RECORD_NOTE, AT(redis_report, sentinel), .flags = RECORD_OMIT},
    {"nodes", RECORD_MAP, LIST_AT(redis_report, nodes, node_count), .below = &REPORT_NODE_TABLE},
    {.key = NULL},
};

static const struct record_field EVENT[] = {
    {"event", RECORD_TEXT, AT(redis_event, name), .flags = RECORD_NEEDED},
    {"text", RECORD_NOTE, AT(redis_event, text)},
    {"node", RECORD_NOTE, AT(redis_event, node), .flags = RECORD_OMIT},
    {"manager", RECORD_NOTE, AT(redis_event, manager)},
    {"epoch", RECORD_INT, AT(redis_event, epoch)},
    {"bytes", RECORD_INT, AT(redis_event, bytes), .otherwise = -1, .flags = RECORD_OMIT},
    {"at_ms", RECORD_INT, AT(redis_event, at_ms)},
    {.key = NULL},
};

static const struct record_field CONFIG[] = {
    {"nodes", RECORD_ADDRESSES, LIST_AT(redis_config, nodes, node_count)},
    {"managers", RECORD_INT, AT(redis_config, managers)},
    {"required_managers", RECORD_INT, AT(redis_config, required_managers)},
    {"node_strategy", RECORD_NAME, AT(redis_config, strategy), .names = REDIS_STRATEGIES},
    {"failover_strategy", RECORD_NAME, AT(redis_config, preference), .names = REDIS_PREFERENCES},
    {"period_ms", RECORD_INT, AT(redis_config, period_ms)},
    {"op_timeout_ms", RECORD_INT, AT(redis_config, op_timeout_ms)},
    {"max_failures", RECORD_INT, AT(redis_config, max_failures)},
    {"min_down_ms", RECORD_INT, AT(redis_config, min_down_ms)},
    {"max_lag_bytes", RECORD_INT, AT(redis_config, max_lag_bytes)},
    {"allow_data_loss", RECORD_BOOL, AT(redis_config, allow_data_loss)},
    {"cooldown_ms", RECORD_INT, AT(redis_config, cooldown_ms)},
    {"parallel_syncs", RECORD_INT, AT(redis_config, parallel_syncs)},
    {"min_replicas", RECORD_INT, AT(redis_config, min_replicas)},
    {"min_replicas_max_lag", RECORD_INT, AT(redis_config, min_replicas_lag_s)},
    {"unfenceable", RECORD_NAME, AT(redis_config, unfenceable), .names = REDIS_UNFENCEABLES},
    {.key = NULL},
};

static const struct record_field GEM_NODES[] = {
    {"master", RECORD_ADDRESS, AT(redis_current, master), .flags = RECORD_NULL},
    {"slaves", RECORD_ADDRESSES, LIST_AT(redis_current, replicas, replica_count)},
    {"unavailable", RECORD_ADDRESSES, LIST_AT(redis_current, unavailable, unavailable_count)},
    {.key = NULL},
};

_Static_assert(sizeof(struct redis_report) <= RECORD_SIZE_MAX, "the largest record");

const struct record_table REDIS_CURRENT = {CURRENT, sizeof(struct redis_current), true};
const struct record_table REDIS_PLAN = {PLAN, sizeof(struct redis_plan), true};
const struct record_table REDIS_REQUEST = {REQUEST, sizeof(struct redis_request), true};
const struct record_table REDIS_RESULT = {RESULT, sizeof(struct redis_result), true};
const struct record_table REDIS_REPORT = {REPORT, sizeof(struct redis_report), true};
const struct record_table REDIS_EVENT = {EVENT, sizeof(struct redis_event), false};
const struct record_table REDIS_CONFIG = {CONFIG, sizeof(struct redis_config), false};
const struct record_table REDIS_GEM_NODES = {GEM_NODES, sizeof(struct redis_current), false};

int redis_request_read(const void *json, size_t len, const char *name, struct redis_request *ret)
{
    struct redis_request request;
    if (strlen(name) >= sizeof request.name ||
        record_read(&REDIS_REQUEST, json, len, &request) != 0) {
        return CONCLAVE_ECORRUPT;
    }
    memcpy(request.name, name, strlen(name) + 1);
    *ret = request;
    return 0;
}

struct redis_current redis_gem_nodes_of(const struct redis_current *current)
{
    struct redis_current shown = *current;
    if (current->state != REDIS_STATE_OK && current->state != REDIS_STATE_DEGRADED &&
        current->state != REDIS_STATE_PAUSED) {
        shown.master[0] = '\0';
    }
    return shown;
}

bool redis_gem_request_read(const void *data, size_t len, struct redis_request *ret)
{
    struct redis_node_config node = {.address = ""};
    if (len == 0) {
        return false;
    }
    *ret = (struct redis_request){.kind = REDIS_REQUEST_FAILOVER, .by = "manual_failover"};
    bool any = len == 9 && memcmp(data, "ANY_SLAVE", 9) == 0;
    if (!any && redis_address_parse(data, len, &node) != 0) {
        node.address[0] = '?'; /* refused as an unknown server, not taken for any */
    }
    memcpy(ret->target, node.address, sizeof ret->target);
    return true;
}

void redis_report_make(struct redis_report *ret, const struct redis_config *config,
                       const struct redis_node *nodes, int64_t now_ms)
{
    ret->managers = config->managers;
    ret->period_ms = config->period_ms;
    ret->node_count = config->node_count;
    for (size_t i = 0; i < config->node_count; i++) {
        const struct redis_node *node = &nodes[i];
        const struct redis_facts *facts = &node->facts;
        struct redis_report_node *out = &ret->nodes[i];
        *out = (struct redis_report_node){
            .state = node->state,
            .failures = node->failures,
            .latency_us = node->latency_us,
            .age_ms = node->facts_ms < 0 ? -1 : now_ms - node->facts_ms,
            .second_offset = -1,
            .offset = -1,
            .link_down_ms = -1,
        };
        memcpy(out->address, config->nodes[i].address, sizeof out->address);
        if (node->facts_ms >= 0) {
            out->role = facts->role;
            out->second_offset = facts->second_offset;
            out->offset = facts->offset;
            out->priority = facts->priority;
            out->link_up = facts->link_up;
            out->link_down_ms = facts->link_down_ms;
            memcpy(out->run_id, facts->run_id, sizeof out->run_id);
            memcpy(out->replid, facts->replid, sizeof out->replid);
            memcpy(out->replid2, facts->replid2, sizeof out->replid2);
            memcpy(out->master, facts->master, sizeof out->master);
        }
    }
}
