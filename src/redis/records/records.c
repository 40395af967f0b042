/* Writing the records, and the names in them. */
#include "redis/records/records.h"

#include "base/json.h"

#include <string.h>

static const char *const state_names[] = {
#define REDIS_STATE_ROW(name, text) [REDIS_STATE_##name] = text,
    REDIS_STATE_MAP(REDIS_STATE_ROW)
#undef REDIS_STATE_ROW
};

static const char *const step_names[] = {
#define REDIS_STEP_ROW(name, text) [REDIS_STEP_##name] = text,
    REDIS_STEP_MAP(REDIS_STEP_ROW)
#undef REDIS_STEP_ROW
};

static const char *const request_names[] = {
    [REDIS_REQUEST_FAILOVER] = "failover",
    [REDIS_REQUEST_PAUSE] = "pause",
    [REDIS_REQUEST_RESUME] = "resume",
    [REDIS_REQUEST_FORGET] = "forget",
};

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

static void put_addresses(struct json *j, const char *key,
                          const char (*addresses)[REDIS_ADDRESS_SIZE], size_t count)
{
    json_key(j, key);
    json_array_begin(j);
    for (size_t i = 0; i < count; i++) {
        json_string(j, addresses[i]);
    }
    json_array_end(j);
}

static void records_begin(struct json *j)
{
    json_line_begin(j);
    json_member_int(j, "version", 1);
}

static void records_end(struct json *j, struct buf *out)
{
    json_object_end(j);
    if (buf_ok(&j->out)) {
        buf_append_slice(out, buf_slice(&j->out));
    } else {
        out->failed = true;
    }
    json_finish(j);
}

void redis_current_write(struct buf *out, const struct redis_current *current)
{
    struct json j;
    records_begin(&j);
    json_member_int(&j, "epoch", current->epoch);
    json_member_hex(&j, "token", current->token);
    json_member_string(&j, "state", redis_state_name(current->state));
    json_member_string_or_null(&j, "master", current->master);
    json_member_string(&j, "run_id", current->run_id);
    json_member_string(&j, "replid", current->replid);
    json_member_string(&j, "replid2", current->replid2);
    json_member_int(&j, "second_offset", current->second_offset);
    put_addresses(&j, "replicas", current->replicas, current->replica_count);
    put_addresses(&j, "unavailable", current->unavailable, current->unavailable_count);
    json_member_int(&j, "since_ms", current->since_ms);
    json_member_int(&j, "failover_ms", current->failover_ms);
    json_member_int(&j, "lease_ms", current->lease_ms);
    json_member_int(&j, "lease_replicas", current->lease_replicas);
    json_member_bool(&j, "paused", current->paused);
    json_member_string(&j, "reason", current->reason);
    records_end(&j, out);
}

void redis_plan_write(struct buf *out, const struct redis_plan *plan)
{
    struct json j;
    records_begin(&j);
    json_member_string(&j, "id", plan->id);
    json_member_int(&j, "epoch", plan->epoch);
    json_member_string(&j, "step", redis_step_name(plan->step));
    json_member_string(&j, "reason", plan->reason);
    json_member_string(&j, "old", plan->old);
    json_member_string(&j, "old_run_id", plan->old_run_id);
    json_member_string(&j, "old_replid", plan->old_replid);
    json_member_string(&j, "old_replid2", plan->old_replid2);
    json_member_string(&j, "returned_replid", plan->returned_replid);
    json_member_int(&j, "old_second_offset", plan->old_second_offset);
    json_member_int(&j, "old_offset", plan->old_offset);
    json_member_string_or_null(&j, "target", plan->target);
    json_member_string_or_null(&j, "wanted", plan->wanted);
    put_addresses(&j, "tried", plan->tried, plan->tried_count);
    json_member_string(&j, "fenced", plan->fenced);
    json_member_string_or_null(&j, "request", plan->request);
    json_member_bool(&j, "force", plan->force);
    json_member_int(&j, "started_ms", plan->started_ms);
    records_end(&j, out);
}

void redis_request_write(struct buf *out, const struct redis_request *request)
{
    struct json j;
    records_begin(&j);
    json_member_string(&j, "kind", redis_request_kind_name(request->kind));
    json_member_string_or_null(&j, "target", request->target);
    json_member_bool(&j, "force", request->force);
    json_member_int(&j, "timeout_ms", request->timeout_ms);
    json_member_string(&j, "id", request->id);
    json_member_string(&j, "by", request->by);
    json_member_int(&j, "expires_ms", request->expires_ms);
    records_end(&j, out);
}

void redis_result_write(struct buf *out, const struct redis_result *result)
{
    struct json j;
    records_begin(&j);
    json_member_bool(&j, "ok", result->ok);
    json_member_string(&j, "text", result->text);
    json_member_string_or_null(&j, "master", result->master);
    json_member_int(&j, "epoch", result->epoch);
    json_member_int(&j, "lost_bytes", result->lost_bytes);
    records_end(&j, out);
}

static void put_report_node(struct json *j, const struct redis_report_node *node)
{
    json_key(j, node->address);
    json_object_begin(j);
    json_member_string(j, "state", redis_node_state_name(node->state));
    json_member_int(j, "failures", node->failures);
    json_member_int(j, "latency_us", node->latency_us);
    json_member_int(j, "age_ms", node->age_ms);
    if (node->age_ms >= 0) {
        json_member_string(j, "role", redis_role_name(node->role));
        json_member_string(j, "run_id", node->run_id);
        json_member_string(j, "replid", node->replid);
        json_member_string(j, "replid2", node->replid2);
        json_member_int(j, "second_offset", node->second_offset);
        json_member_int(j, "offset", node->offset);
        json_member_int(j, "priority", node->priority);
        json_member_string_or_null(j, "master", node->master);
        json_member_string(j, "link", node->link_up ? "up" : "down");
        json_member_int(j, "link_down_ms", node->link_down_ms);
    }
    json_object_end(j);
}

void redis_report_write(struct buf *out, const struct redis_report *report)
{
    struct json j;
    records_begin(&j);
    json_member_string(&j, "id", report->id);
    json_member_string(&j, "incarnation", report->incarnation);
    json_member_uint(&j, "seq", report->seq);
    json_member_int(&j, "managers", report->managers);
    json_member_int(&j, "period_ms", report->period_ms);
    json_key(&j, "nodes");
    json_object_begin(&j);
    for (size_t i = 0; i < report->node_count; i++) {
        put_report_node(&j, &report->nodes[i]);
    }
    json_object_end(&j);
    records_end(&j, out);
}

void redis_gem_nodes_write(struct buf *out, const struct redis_current *current)
{
    bool serves = current->state == REDIS_STATE_OK || current->state == REDIS_STATE_DEGRADED ||
                  current->state == REDIS_STATE_PAUSED;
    struct json j;
    json_line_begin(&j);
    json_member_string_or_null(&j, "master", serves ? current->master : "");
    put_addresses(&j, "slaves", current->replicas, current->replica_count);
    put_addresses(&j, "unavailable", current->unavailable, current->unavailable_count);
    records_end(&j, out);
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
