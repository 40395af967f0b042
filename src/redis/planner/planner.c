/* The order of work: start-up, the plan, requests, the master's health, repairs. */
#include "redis/planner/planner.h"

#include "redis/planner/plan_discovery.h"
#include "redis/planner/plan_failover.h"
#include "redis/planner/plan_repair.h"
#include "redis/planner/plan_requests.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define RETRY_MS 100 /* after an action that failed */
#define BACK_PERIODS 3

void redis_memory_init(struct redis_memory *memory)
{
    *memory = (struct redis_memory){
        .plan_ms = -1,
        .paused_ms = -1,
        .unpaused_ms = -1,
        .choose_ms = -1,
        .promote_ms = -1,
        .handover_ms = -1,
        .repoint_ms = -1,
        .lease_from_ms = -1,
        .term_ms = -1,
        .failed_ms = -1,
        .unanswered_ms = -1,
        .epoch_seen = -1,
        .guard_ms = -1,
    };
    for (size_t i = 0; i < REDIS_NODES_MAX; i++) {
        memory->attempt_ms[i] = memory->drift_ms[i] = memory->settled_ms[i] = -1;
    }
}

static void command_done(struct redis_memory *memory, const struct redis_action *action,
                         const struct redis_outcome *outcome, int64_t now_ms)
{
    const char *step = action->step;
    if (strcmp(step, planner_doing_name(REDIS_DOING_SAVE)) == 0) {
        memory->saved |= 1U << action->node; /* even if it was refused: there may be no file */
        return;
    }
    memory->attempt_ms[action->node] = now_ms;
    if (strcmp(step, planner_doing_name(REDIS_DOING_PAUSE)) == 0) {
        memory->paused_ms = now_ms; /* even if it was refused: REPLICAOF comes anyway */
    } else if (strcmp(step, planner_doing_name(REDIS_DOING_ABORT)) == 0) {
        memory->unpaused_ms = now_ms;
    } else if (strcmp(step, planner_doing_name(REDIS_DOING_HANDOVER)) == 0) {
        memory->handover_ms = now_ms;
        memory->handover_refused = !outcome->ok && outcome->failed >= 0;
    } else if (strcmp(step, planner_doing_name(REDIS_DOING_GUARD)) == 0) {
        memory->guard_ms = now_ms;
        memory->guard_holds = outcome->ok;
        planner_copy(memory->guarded, sizeof memory->guarded, action->run_id);
    }
}

void redis_steps_done(struct redis_memory *memory, const struct redis_action *action,
                      const struct redis_outcome *outcome, int64_t now_ms)
{
    if (action->kind == REDIS_ACTION_COMMAND) {
        command_done(memory, action, outcome, now_ms);
    }
    if (action->kind == REDIS_ACTION_ANSWER) {
        memory->unanswered_ms = outcome->ok ? -1 : now_ms;
    }
    memory->failed_ms = outcome->ok ? -1 : now_ms;
    if (!outcome->ok) {
        planner_copy(memory->last_error, sizeof memory->last_error, outcome->text);
    }
}

static bool cooling_down(struct planner *t)
{
    const struct redis_current *current = t->now->current;
    int64_t since_ms = t->now->wall_ms - current->failover_ms;
    if (since_ms < 0) {
        since_ms = t->now->now_ms -
                   t->memory->epoch_ms; /* another manager's clock, or a jump of the clock */
    }
    if (current->failover_ms == 0 || since_ms >= t->config->cooldown_ms) {
        return false;
    }
    char why[REDIS_TEXT_SIZE];
    snprintf(why, sizeof why, "%.100s is down; the last fail-over was too recent for another one",
             current->master);
    if (strcmp(current->reason, why) != 0) {
        planner_current(t, REDIS_DOING_UPDATE, "held", "%s", why)->state = REDIS_STATE_DEGRADED;
        return true;
    }
    return planner_wait(t, t->config->period_ms, "held for %" PRId64 " ms more",
                        t->config->cooldown_ms - since_ms);
}

static bool planner_begin(struct planner *t, const char *reason, const char *why)
{
    struct plan_wish wish = {
        .reason = reason, .step = REDIS_STEP_FENCE, .target = REDIS_NONE, .why = why};
    return plan_failover_begin(t, &wish);
}

static bool accept_process(struct planner *t, const char *why)
{
    struct redis_current *record = planner_current(
        t, REDIS_DOING_UPDATE, "restarted", "%s was restarted: %s", t->now->current->master, why);
    planner_copy(record->reason, sizeof record->reason, t->now->current->reason);
    planner_note_process(t, t->master, record);
    record->lease_ms = 0;
    record->lease_replicas = 0;
    return true;
}

/* The master was restarted: it has all that the best replica has, or it is replaced. */
static bool restarted(struct planner *t)
{
    const char *why = NULL;
    int best = REDIS_NONE;
    if (plan_failover_restart_loses(t, t->master, &best, &why)) {
        return planner_begin(t, "restarted", why);
    }
    /* The others may have more than at the last look, so an empty master is not accepted before they are asked. */
    uint32_t earlier = planner_unprobed(t, t->now->nodes[t->master].state_ms);
    return earlier != 0 && planner_facts(t, t->master)->keys == 0
               ? planner_refresh(t, earlier, "the master came back empty: what do the others have?")
               : accept_process(t, why);
}

/* The master says that it is a replica: an operator handed over by hand, or it was restarted as one. */
static bool became_replica(struct planner *t)
{
    int64_t *drift_ms = &t->memory->drift_ms[t->master];
    int other = planner_master_of(t, t->master);
    if (*drift_ms < 0) {
        *drift_ms = t->now->nodes[t->master].facts_ms;
    }
    if (t->now->nodes[t->master].facts_ms <= *drift_ms) {
        return planner_wait(t, t->config->period_ms, "the master says that it is a replica");
    }
    if (other == REDIS_NONE || !planner_is(t, other, REDIS_ROLE_MASTER) ||
        !planner_of_current(t, other)) {
        return planner_begin(t, "role", "the master has become a replica");
    }
    struct redis_current *record =
        planner_current(t, REDIS_DOING_PUBLISH, "adopted", "%s follows %s, which is master now",
                        t->now->current->master, planner_address(t, other));
    record->epoch++;
    planner_note_master(t, other, record);
    return true;
}

/* Whether the master answers, and is still the same process. */
static bool look_at_master(struct planner *t)
{
    const struct redis_verdict *verdict = &t->now->verdicts[t->master];
    const struct redis_node *node = &t->now->nodes[t->master];
    const struct redis_facts *facts = &node->facts;
    /* it answers this manager, and the others have not seen it for long enough */
    bool coming_back = planner_recent(t, t->master) &&
                       (node->state == REDIS_NODE_DOWN ||
                        t->now->now_ms - node->state_ms < BACK_PERIODS * t->config->period_ms);
    if (verdict->kind == REDIS_VERDICT_DOWN && !coming_back) {
        return cooling_down(t) || planner_begin(t, "down", verdict->why);
    }
    if (!planner_recent(t, t->master) || facts->loading) {
        return false;
    }
    if (facts->role == REDIS_ROLE_REPLICA) {
        return became_replica(t);
    }
    t->memory->drift_ms[t->master] = -1;
    return strcmp(facts->run_id, t->now->current->run_id) != 0 && restarted(t);
}

static bool settled(struct planner *t)
{
    bool paused = t->now->current->paused;
    if ((!plan_request_held(t) && plan_request(t)) || (!paused && look_at_master(t))) {
        return true;
    }
    if (!paused && planner_master_is_current(t) &&
        (plan_unguard(t) || plan_guard(t, t->master) || plan_repoint(t, REDIS_DOING_RECONCILE))) {
        return true;
    }
    return plan_update(t) || planner_wait(t, t->config->period_ms, "all is as it should be");
}

/* A record of `current` continues the one that was read. A server is published as the master only if it says that it is
 * one. */
static void planner_check_current(const struct planner *t, int32_t version,
                                  const struct redis_current *record)
{
    if (t->out->step == planner_doing_name(REDIS_DOING_PUBLISH)) {
        assert(planner_is(t, redis_config_find(t->config, record->master), REDIS_ROLE_MASTER));
    }
    const struct redis_current *current = t->now->current;
    assert(record->replica_count <= REDIS_NODES_MAX);
    assert(record->unavailable_count <= REDIS_NODES_MAX);
    if (current == NULL) {
        assert(version == -1);
        return;
    }
    assert(version == t->now->current_version);
    assert(record->epoch >= current->epoch);
    assert(record->epoch > current->epoch || strcasecmp(record->master, current->master) == 0);
}

static void planner_check_plan(const struct planner *t, int32_t version,
                               const struct redis_plan *record)
{
    assert(t->now->current != NULL);
    assert(version == (t->now->plan == NULL ? -1 : t->now->plan_version));
    assert(t->now->plan != NULL || record->epoch == t->now->current->epoch + 1);
    assert(record->id[0] != '\0');
    assert(record->old[0] != '\0');
    assert(record->tried_count <= REDIS_NODES_MAX);
    assert(record->target[0] == '\0' || redis_config_find(t->config, record->target) != REDIS_NONE);
}

/* The conditions of every action, from any file. */
static void planner_check(const struct planner *t)
{
    const struct redis_action *a = t->out;
    bool about_node = a->kind == REDIS_ACTION_COMMAND || a->kind == REDIS_ACTION_FENCE;
    assert(a->step != NULL);
    assert(about_node == (a->node != REDIS_NONE));
    assert(!about_node || (a->node >= 0 && (size_t)a->node < t->config->node_count));
    switch (a->kind) {
    case REDIS_ACTION_WAIT:
        assert(a->u.until_ms > t->now->now_ms);
        break;
    case REDIS_ACTION_REFRESH:
        assert(a->u.refresh != 0);
        assert(((uint64_t)a->u.refresh >> t->config->node_count) == 0);
        break;
    case REDIS_ACTION_COMMAND:
        assert(a->u.commands.count > 0);
        break;
    case REDIS_ACTION_FENCE:
        assert(t->config->fence_methods);
        break;
    case REDIS_ACTION_WRITE_CURRENT:
        planner_check_current(t, a->u.current.version, &a->u.current.record);
        break;
    case REDIS_ACTION_WRITE_PLAN:
        planner_check_plan(t, a->u.plan.version, &a->u.plan.record);
        break;
    case REDIS_ACTION_DELETE_PLAN:
        assert(t->now->plan != NULL);
        break;
    case REDIS_ACTION_ANSWER:
        assert(a->u.answer.name[0] != '\0');
        break;
    }
}

void redis_steps_next(const struct redis_situation *now, struct redis_memory *memory,
                      struct redis_action *ret)
{
    struct planner t = {.now = now, .config = now->config, .memory = memory, .out = ret};
    const struct redis_current *current = now->current;
    t.master = current == NULL ? REDIS_NONE : redis_config_find(now->config, current->master);
    if (memory->term_ms < 0) {
        memory->term_ms = now->now_ms;
    }
    if (current != NULL && current->epoch != memory->epoch_seen) {
        memory->epoch_seen = current->epoch;
        memory->epoch_ms = now->now_ms;
    }
    if (memory->failed_ms >= 0 && now->now_ms - memory->failed_ms < RETRY_MS) {
        planner_wait(&t, RETRY_MS - (now->now_ms - memory->failed_ms), "%.200s",
                     memory->last_error);
    } else if (now->plan != NULL) {
        (void)((current != NULL && !plan_request_held(&t) && plan_request_amid(&t)) ||
               plan_failover_next(&t));
    } else if (t.master == REDIS_NONE) {
        (void)plan_start(&t);
    } else {
        (void)settled(&t);
    }
    planner_check(&t);
}

static int64_t furthest(int64_t so_far, const struct redis_current *current, const char *replid,
                        int64_t offset)
{
    return current->replid[0] != '\0' && strcmp(replid, current->replid) == 0 && offset > so_far
               ? offset
               : so_far;
}

int64_t redis_known_offset(const struct redis_managers *managers, const struct redis_config *config,
                           const struct redis_node *own, const struct redis_current *current)
{
    int master = redis_config_find(config, current->master);
    int64_t offset = -1;
    if (master != REDIS_NONE && own[master].facts_ms >= 0) {
        offset = furthest(offset, current, own[master].facts.replid, own[master].facts.offset);
    }
    for (size_t m = 0; m < managers->count; m++) {
        const struct redis_report *report = &managers->views[m].report;
        for (size_t n = 0; n < report->node_count; n++) {
            const struct redis_report_node *node = &report->nodes[n];
            if (redis_config_find(config, node->address) == master && node->age_ms >= 0) {
                offset = furthest(offset, current, node->replid, node->offset);
            }
        }
    }
    return offset;
}
