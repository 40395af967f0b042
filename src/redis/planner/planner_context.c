/* Functions that make actions, and that answer questions about servers. */
#include "redis/planner/planner_context.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define RECENT_PERIODS 2

static const char *const doing_names[] = {
#define REDIS_DOING_ROW(name, text) [REDIS_DOING_##name] = text,
    REDIS_DOING_MAP(REDIS_DOING_ROW)
#undef REDIS_DOING_ROW
        NULL,
};

const char *planner_doing_name(enum redis_doing doing)
{
    return doing_names[doing];
}

const char *const *redis_step_names(void)
{
    return doing_names;
}

void planner_copy(char *ret, size_t size, const char *text)
{
    snprintf(ret, size, "%s", text == NULL ? "" : text);
}

static void planner_context_begin(struct planner *t, enum redis_action_kind kind,
                                  enum redis_doing doing, int node, const char *event)
{
    memset(t->out, 0, sizeof *t->out);
    t->out->kind = kind;
    t->out->step = doing_names[doing];
    t->out->node = node;
    t->out->event = event;
    t->out->event_bytes = -1;
}

#define SAY(t, why)                                                                                \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, why);                                                                       \
        vsnprintf((t)->out->why, sizeof(t)->out->why, why, args);                                  \
        va_end(args);                                                                              \
    } while (0)

bool planner_wait(struct planner *t, int64_t ms, const char *why, ...)
{
    planner_context_begin(t, REDIS_ACTION_WAIT, REDIS_DOING_WAIT, REDIS_NONE, NULL);
    SAY(t, why);
    t->out->u.until_ms = t->now->now_ms + (ms > 0 ? ms : 1);
    return true;
}

bool planner_refresh(struct planner *t, uint32_t nodes, const char *why)
{
    planner_context_begin(t, REDIS_ACTION_REFRESH, REDIS_DOING_REFRESH, REDIS_NONE, NULL);
    planner_copy(t->out->why, sizeof t->out->why, why);
    t->out->u.refresh = nodes;
    return true;
}

bool planner_fence(struct planner *t, int node, const char *why)
{
    planner_context_begin(t, REDIS_ACTION_FENCE, REDIS_DOING_FENCE, node, NULL);
    planner_copy(t->out->why, sizeof t->out->why, why);
    return true;
}

bool planner_command(struct planner *t, enum redis_doing doing, int node, const char *why, ...)
{
    planner_context_begin(t, REDIS_ACTION_COMMAND, doing, node, NULL);
    planner_copy(t->out->run_id, sizeof t->out->run_id, planner_facts(t, node)->run_id);
    t->out->role = planner_facts(t, node)->role;
    SAY(t, why);
    return true;
}

void planner_add(struct planner *t, bool optional, const char *word, ...)
{
    assert(t->out->kind == REDIS_ACTION_COMMAND);
    assert(t->out->u.commands.count < REDIS_COMMANDS_MAX);
    struct redis_command *command = &t->out->u.commands.list[t->out->u.commands.count++];
    va_list args;
    va_start(args, word);
    for (; word != NULL && command->argc < REDIS_ARGS_MAX; word = va_arg(args, const char *)) {
        planner_copy(command->argv[command->argc], sizeof command->argv[0], word);
        command->argc++;
    }
    assert(word == NULL && command->argc > 0);
    va_end(args);
    command->optional = optional;
}

struct redis_current *planner_current(struct planner *t, enum redis_doing doing, const char *event,
                                      const char *why, ...)
{
    planner_context_begin(t, REDIS_ACTION_WRITE_CURRENT, doing, REDIS_NONE, event);
    SAY(t, why);
    struct redis_current *record = &t->out->u.current.record;
    t->out->u.current.version = -1;
    record->second_offset = -1;
    if (t->now->current != NULL) {
        *record = *t->now->current;
        t->out->u.current.version = t->now->current_version;
    }
    record->token = t->now->token;
    planner_copy(record->reason, sizeof record->reason, t->out->why);
    return record;
}

struct redis_plan *planner_plan(struct planner *t, enum redis_doing doing, const char *event,
                                const char *why, ...)
{
    planner_context_begin(t, REDIS_ACTION_WRITE_PLAN, doing, REDIS_NONE, event);
    SAY(t, why);
    struct redis_plan *record = &t->out->u.plan.record;
    t->out->u.plan.version = -1;
    if (t->now->plan != NULL) {
        *record = *t->now->plan;
        t->out->u.plan.version = t->now->plan_version;
    }
    return record;
}

bool planner_delete_plan(struct planner *t, enum redis_doing doing, const char *event,
                         const char *why, ...)
{
    planner_context_begin(t, REDIS_ACTION_DELETE_PLAN, doing, REDIS_NONE, event);
    SAY(t, why);
    t->out->u.plan_version = t->now->plan_version;
    return true;
}

bool planner_answer(struct planner *t, const char *request, bool ok, const char *why, ...)
{
    planner_context_begin(t, REDIS_ACTION_ANSWER, REDIS_DOING_ANSWER, REDIS_NONE,
                          ok ? "request-done" : "request-refused");
    SAY(t, why);
    planner_copy(t->out->u.answer.name, sizeof t->out->u.answer.name, request);
    struct redis_result *result = &t->out->u.answer.result;
    result->ok = ok;
    result->lost_bytes = -1;
    planner_copy(result->text, sizeof result->text, t->out->why);
    if (t->now->current != NULL) {
        planner_copy(result->master, sizeof result->master, t->now->current->master);
        result->epoch = t->now->current->epoch;
    }
    return true;
}

const struct redis_facts *planner_facts(const struct planner *t, int node)
{
    assert(node >= 0 && (size_t)node < t->config->node_count);
    return &t->now->nodes[node].facts;
}

bool planner_recent(const struct planner *t, int node)
{
    if (node == REDIS_NONE) {
        return false;
    }
    const struct redis_node *seen = &t->now->nodes[node];
    return seen->facts_ms >= 0 && seen->facts_ms >= seen->probe_ms &&
           t->now->now_ms - seen->facts_ms <=
               RECENT_PERIODS * t->config->period_ms + t->config->op_timeout_ms;
}

bool planner_is(const struct planner *t, int node, enum redis_role role)
{
    return planner_recent(t, node) && planner_facts(t, node)->role == role;
}

bool planner_same_process(const struct planner *t, int a, int b)
{
    const char *run_id = planner_facts(t, a)->run_id;
    return a != b && run_id[0] != '\0' && strcmp(run_id, planner_facts(t, b)->run_id) == 0;
}

int planner_master_of(const struct planner *t, int node)
{
    const struct redis_facts *facts = planner_facts(t, node);
    if (facts->role != REDIS_ROLE_REPLICA) {
        return REDIS_NONE;
    }
    int master = redis_config_find(t->config, facts->master);
    for (size_t i = 0; master == REDIS_NONE && facts->link_up && i < t->config->node_count; i++) {
        const struct redis_facts *other = planner_facts(t, (int)i);
        if ((int)i != node && planner_is(t, (int)i, REDIS_ROLE_MASTER) &&
            facts->replid[0] != '\0' && strcmp(other->replid, facts->replid) == 0) {
            master = (int)i;
        }
    }
    return master;
}

bool planner_follows(const struct planner *t, int node, int master)
{
    return planner_is(t, node, REDIS_ROLE_REPLICA) && planner_facts(t, node)->link_up &&
           !planner_facts(t, node)->sync_in_progress && planner_master_of(t, node) == master;
}

bool planner_of_current(const struct planner *t, int node)
{
    const struct redis_current *current = t->now->current;
    return redis_facts_of_history(planner_facts(t, node), current->replid, current->replid2,
                                  current->second_offset);
}

const char *planner_address(const struct planner *t, int node)
{
    assert(node >= 0 && (size_t)node < t->config->node_count);
    return t->config->nodes[node].address;
}

bool planner_probed_since(const struct planner *t, int node, int64_t ms)
{
    return t->now->nodes[node].probe_ms >= ms;
}

uint32_t planner_unprobed(const struct planner *t, int64_t ms)
{
    uint32_t set = 0;
    for (size_t i = 0; i < t->config->node_count; i++) {
        set |= planner_probed_since(t, (int)i, ms) ? 0 : 1U << i;
    }
    return set;
}

bool planner_master_is_current(const struct planner *t)
{
    return planner_is(t, t->master, REDIS_ROLE_MASTER) &&
           strcmp(planner_facts(t, t->master)->run_id, t->now->current->run_id) == 0;
}

bool planner_of_plan(const struct planner *t, int node)
{
    const struct redis_plan *plan = t->now->plan;
    return redis_facts_of_history(planner_facts(t, node), plan->old_replid, plan->old_replid2,
                                  plan->old_second_offset);
}

void planner_note_process(const struct planner *t, int node, struct redis_current *record)
{
    const struct redis_facts *facts = planner_facts(t, node);
    planner_copy(record->run_id, sizeof record->run_id, facts->run_id);
    planner_copy(record->replid, sizeof record->replid, facts->replid);
    planner_copy(record->replid2, sizeof record->replid2, facts->replid2);
    record->second_offset = facts->second_offset;
}

void planner_note_master(const struct planner *t, int node, struct redis_current *record)
{
    planner_note_process(t, node, record);
    planner_copy(record->master, sizeof record->master, planner_address(t, node));
    record->state = REDIS_STATE_DEGRADED; /* until its replicas are there */
    record->since_ms = t->now->wall_ms;
    record->lease_ms = 0;
    record->lease_replicas = 0;
}

void planner_note_nobody_follows(const struct planner *t, int master, struct redis_current *record)
{
    record->replica_count = 0;
    record->unavailable_count = 0;
    for (size_t i = 0; i < t->config->node_count; i++) {
        if ((int)i != master) {
            planner_copy(record->unavailable[record->unavailable_count++], REDIS_ADDRESS_SIZE,
                         planner_address(t, (int)i));
        }
    }
}

void planner_add_replicaof(struct planner *t, int master)
{
    char port[16] = "ONE";
    int version = planner_facts(t, t->out->node)->version;
    if (master != REDIS_NONE) {
        snprintf(port, sizeof port, "%d", t->config->nodes[master].port);
    }
    planner_add(t, false, version > 0 && version < 50000 ? "SLAVEOF" : "REPLICAOF",
                master != REDIS_NONE ? t->config->nodes[master].host : "NO", port, NULL);
    planner_add(t, true, "CONFIG", "REWRITE", NULL); /* or a restart undoes it */
}

void planner_add_demotion(struct planner *t, int master)
{
    planner_add_replicaof(t, master);
    if (planner_facts(t, t->out->node)->version >= PAUSE_VERSION) {
        planner_add(t, true, "CLIENT", "UNPAUSE", NULL);
    }
    planner_add(t, true, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes", NULL);
    planner_add(t, true, "CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes", NULL);
}
