/* Finds out whether the old master has stopped: from its answer, a refused connection, methods, the lease. */
#include "redis/planner/plan_fencing.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Added to the lease: the server counts once a second, and in whole seconds. */
#define LEASE_MARGIN_MS 2000
#define DETACH_PAUSE_MS 1000
#define METHOD_PAUSES 5
#define REFUSED_PERIODS 2

/* The number of replicas that may keep an old master writable; *ret_linked: one that reports a link, or REDIS_NONE. A
 * replica whose master has a name outside of the list may be linked to the old master. So may replicas that the old
 * master listed beyond the number of known servers. */
static int possible_replicas(const struct planner *t, int old, int *ret_linked)
{
    size_t others = t->config->node_count - 1;
    size_t listed = planner_facts(t, old)->replica_count;
    int possible = listed > others ? (int)(listed - others) : 0;
    *ret_linked = REDIS_NONE;
    for (size_t i = 0; i < t->config->node_count; i++) {
        int node = (int)i;
        if (node == old) {
            continue;
        }
        int master = planner_master_of(t, node);
        if (!planner_recent(t, node)) {
            possible += t->now->nodes[i].probe == REDIS_PROBE_REFUSED ? 0 : 1;
        } else if (planner_is(t, node, REDIS_ROLE_REPLICA) && planner_facts(t, node)->link_up &&
                   (master == old || master == REDIS_NONE)) {
            possible++;
            *ret_linked = node;
        }
    }
    return possible;
}

/* The lease holds if the master acknowledged the settings and may have too few replicas for them. */
static bool lease_possible(struct planner *t, int old, int *ret_linked)
{
    const struct redis_current *current = t->now->current;
    return possible_replicas(t, old, ret_linked) < current->lease_replicas;
}

static enum fence_view blocked(struct planner *t, const char *why)
{
    const struct redis_current *current = t->now->current;
    const struct redis_plan *plan = t->now->plan;
    if (current->state != REDIS_STATE_NEEDS_OPERATOR || strcmp(current->reason, why) != 0) {
        planner_current(t, REDIS_DOING_FAILING_OVER, "unfenceable", "%s", why)->state =
            REDIS_STATE_NEEDS_OPERATOR;
    } else {
        planner_wait(t, t->config->period_ms, "%s cannot be fenced", plan->old);
    }
    return FENCE_ACTED;
}

static enum fence_view note_fenced(struct planner *t, const char *by, const char *event)
{
    assert(t->now->plan->fenced[0] == '\0' || strcmp(t->now->plan->fenced, by) != 0);
    struct redis_plan *plan =
        planner_plan(t, REDIS_DOING_FENCED, event, "%s has stopped: %s", t->now->plan->old, by);
    planner_copy(plan->fenced, sizeof plan->fenced, by);
    return FENCE_ACTED;
}

/* The plan's note is no longer true: the old master must be stopped again. */
static enum fence_view unnote_fenced(struct planner *t, const char *why)
{
    struct redis_plan *plan =
        planner_plan(t, REDIS_DOING_FENCED, NULL, "%.100s %s", t->now->plan->old, why);
    plan->fenced[0] = '\0';
    t->memory->lease_from_ms = -1;
    return FENCE_ACTED;
}

static enum fence_view wait_lease(struct planner *t, int old)
{
    const struct redis_current *current = t->now->current;
    struct redis_memory *memory = t->memory;
    char why[REDIS_TEXT_SIZE];
    int linked = REDIS_NONE;
    if (t->config->unfenceable == REDIS_UNFENCEABLE_BLOCK || current->lease_ms <= 0) {
        snprintf(why, sizeof why, "%.200s does not answer and cannot be fenced", t->now->plan->old);
        return blocked(t, why);
    }
    const struct redis_node *node = &t->now->nodes[old];
    if (node->refused_ms > node->facts_ms) { /* the process with the settings is gone */
        snprintf(why, sizeof why, "%.120s was stopped; what runs there now cannot be reached",
                 t->now->plan->old);
        return blocked(t, why);
    }
    if (!lease_possible(t, old, &linked)) {
        memory->lease_from_ms = -1;
        if (strcmp(t->now->plan->fenced, "lease") == 0) {
            return unnote_fenced(t, "may have found replicas again");
        }
        if (linked != REDIS_NONE &&
            (memory->attempt_ms[linked] < 0 ||
             t->now->now_ms - memory->attempt_ms[linked] >= DETACH_PAUSE_MS)) {
            planner_command(t, REDIS_DOING_DETACH, linked,
                            "%s lets go of %s, which would accept writes as long as it is linked",
                            planner_address(t, linked), t->now->plan->old);
            planner_add(t, false, "CLIENT", "KILL", "TYPE", "master", NULL);
            return FENCE_ACTED;
        }
        snprintf(
            why, sizeof why,
            "%.100s cannot be reached, and replicas may keep it writable (min-replicas-to-write %d)",
            t->now->plan->old, current->lease_replicas);
        return blocked(t, why);
    }
    if (memory->lease_from_ms < 0) {
        memory->lease_from_ms = t->now->now_ms;
    }
    int64_t over_ms = memory->lease_from_ms + current->lease_ms + LEASE_MARGIN_MS;
    if (t->now->now_ms >= over_ms) {
        return note_fenced(t, "lease", "fenced");
    }
    int64_t rest = over_ms - t->now->now_ms;
    planner_wait(t, rest < t->config->period_ms ? rest : t->config->period_ms,
                 "%s stops itself without replicas in at most %" PRId64 " ms", t->now->plan->old,
                 rest);
    return FENCE_ACTED;
}

/* A refused connection shows that the process has ended. Another one may start soon, unseen. */
static bool was_refused_lately(const struct planner *t, const struct redis_node *node)
{
    return node->refused_ms > node->answered_ms &&
           t->now->now_ms - node->refused_ms <=
               REFUSED_PERIODS * t->config->period_ms + t->config->op_timeout_ms;
}

static enum fence_view unreachable(struct planner *t, int old, const char **ret_by)
{
    const struct redis_plan *plan = t->now->plan;
    const struct redis_fence *fence = &t->now->fence;
    int linked = REDIS_NONE;
    if (plan->force) {
        *ret_by = "forced";
        return FENCE_STOPPED;
    }
    if (strcmp(plan->fenced, "method") == 0 ||
        (strcmp(plan->fenced, "refused") == 0 && was_refused_lately(t, &t->now->nodes[old])) ||
        (strcmp(plan->fenced, "lease") == 0 && lease_possible(t, old, &linked))) {
        *ret_by = plan->fenced;
        return FENCE_STOPPED;
    }
    if (t->config->fence_methods) {
        bool ours = fence->node == old && fence->at_ms >= t->memory->plan_ms &&
                    fence->at_ms >= t->now->nodes[old].answered_ms;
        if (ours && fence->state == REDIS_FENCE_CONFIRMED) {
            return note_fenced(t, "method", "fenced");
        }
        if (!ours || fence->state == REDIS_FENCE_NONE ||
            t->now->now_ms - fence->at_ms >= METHOD_PAUSES * t->config->period_ms) {
            planner_fence(t, old, "it does not answer");
            return FENCE_ACTED;
        }
    }
    return wait_lease(t, old);
}

enum fence_view plan_fence(struct planner *t, int old, const char **ret_by)
{
    const struct redis_node *node = &t->now->nodes[old];
    int64_t old_ms = t->now->now_ms - 2 * t->config->period_ms - t->config->op_timeout_ms;
    int64_t since_ms = old_ms > t->memory->plan_ms ? old_ms : t->memory->plan_ms;
    if (!planner_probed_since(t, old, since_ms)) {
        planner_refresh(t, 1U << old, "is the old master still there?");
        return FENCE_ACTED;
    }
    bool answers = planner_recent(t, old);
    if (answers && node->facts.role == REDIS_ROLE_REPLICA) {
        *ret_by = "self";
        return FENCE_STOPPED;
    }
    bool loading = node->probe == REDIS_PROBE_LOADING;
    if ((answers || loading) && t->now->plan->fenced[0] != '\0') {
        return unnote_fenced(t, "answers: a process is there again");
    }
    if (loading || node->probe == REDIS_PROBE_REFUSED) {
        *ret_by = loading ? "loading" : "refused";
        return FENCE_STOPPED;
    }
    return answers ? FENCE_ANSWERS : unreachable(t, old, ret_by);
}
