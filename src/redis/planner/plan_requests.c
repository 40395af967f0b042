/* Checks requests, answers them, begins their plans. */
#include "redis/planner/plan_requests.h"

#include "redis/planner/plan_failover.h"
#include "redis/planner/plan_handover.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool set_paused(struct planner *t, bool paused)
{
    const struct redis_request *request = t->now->request;
    if (t->now->current == NULL) {
        return planner_answer(t, request->name, false, "there is no master yet");
    }
    if (t->now->current->paused == paused) {
        return planner_answer(t, request->name, true, "%s", paused ? "paused" : "resumed");
    }
    struct redis_current *record =
        planner_current(t, REDIS_DOING_UPDATE, paused ? "paused" : "resumed", "%s by %.100s",
                        paused ? "paused" : "resumed", request->by);
    record->paused = paused;
    record->state = paused ? REDIS_STATE_PAUSED : REDIS_STATE_DEGRADED;
    return true;
}

static bool plan_requests_forget(struct planner *t)
{
    const struct redis_request *request = t->now->request;
    const struct redis_current *current = t->now->current;
    int node = redis_config_find(t->config, request->target);
    size_t place = 0;
    while (current != NULL && place < current->unavailable_count &&
           strcasecmp(current->unavailable[place], request->target) != 0) {
        place++;
    }
    if (node != REDIS_NONE && redis_probe_answers(t->now->nodes[node].probe)) {
        return planner_answer(t, request->name, false, "%s answers: it would be back at once",
                              request->target);
    }
    if (current == NULL || place == current->unavailable_count) {
        return planner_answer(t, request->name, true, "%s is not listed as unavailable",
                              request->target);
    }
    struct redis_current *record =
        planner_current(t, REDIS_DOING_UPDATE, "forgotten", "%s is forgotten", request->target);
    planner_copy(record->reason, sizeof record->reason, current->reason);
    record->unavailable_count--;
    memmove(record->unavailable[place], record->unavailable[place + 1],
            (record->unavailable_count - place) * sizeof record->unavailable[0]);
    return true;
}

/* Why this server cannot take over from a master that is well; NULL: it can. */
static const char *unfit(const struct planner *t, int node)
{
    const struct redis_facts *facts = planner_facts(t, node);
    if (!planner_is(t, node, REDIS_ROLE_REPLICA)) {
        return "is no replica that answers";
    }
    if (facts->loading || !planner_follows(t, node, t->master)) {
        return "does not follow the master";
    }
    return facts->priority == 0 ? "has priority 0" : NULL;
}

/* The replica that is nearest to a master that is well, or REDIS_NONE. */
static int nearest(const struct planner *t)
{
    int best = REDIS_NONE;
    for (size_t i = 0; i < t->config->node_count; i++) {
        if ((int)i == t->master || unfit(t, (int)i) != NULL) {
            continue;
        }
        const struct redis_facts *facts = planner_facts(t, (int)i);
        const struct redis_facts *other = best == REDIS_NONE ? NULL : planner_facts(t, best);
        if (other == NULL || facts->priority < other->priority ||
            (facts->priority == other->priority && facts->offset > other->offset)) {
            best = (int)i;
        }
    }
    return best;
}

static bool plan_requests_begin(struct planner *t, enum redis_step step, int target, bool force)
{
    const struct redis_request *request = t->now->request;
    struct plan_wish wish = {.reason = "manual",
                             .step = step,
                             .target = step == REDIS_STEP_HANDOVER ? target : REDIS_NONE,
                             .force = force,
                             .request = request->name,
                             .why = "an operator asked for it"};
    plan_failover_begin(t, &wish);
    struct redis_plan *plan = &t->out->u.plan.record;
    if (target != REDIS_NONE) {
        planner_copy(plan->wanted, sizeof plan->wanted, planner_address(t, target));
    }
    return true;
}

/* It is too early to refuse because of these servers: a new leader has not asked one yet, or the next answer of one shows
 * whether it is down. */
static bool in_doubt(struct planner *t, uint32_t nodes)
{
    uint32_t unasked = planner_unprobed(t, 0) & nodes;
    if (unasked != 0) {
        return planner_refresh(t, unasked,
                               "an operator asks for a fail-over: how are the servers?");
    }
    for (size_t i = 0; i < t->config->node_count; i++) {
        if ((nodes & 1U << i) != 0 && t->now->nodes[i].state == REDIS_NODE_SUSPECT) {
            return planner_wait(t, t->config->period_ms / 4, "%s is asked again",
                                planner_address(t, (int)i));
        }
    }
    return false;
}

static bool failover(struct planner *t)
{
    const struct redis_request *request = t->now->request;
    const char *name = request->name;
    int target = REDIS_NONE;
    if (request->target[0] != '\0') {
        target = redis_config_find(t->config, request->target);
        if (target == REDIS_NONE) {
            return planner_answer(t, name, false, "%s is not one of the servers", request->target);
        }
    }
    if (t->now->current == NULL || t->master == REDIS_NONE) {
        return planner_answer(t, name, false, "there is no master yet");
    }
    if (target == t->master && !request->force) {
        return planner_answer(t, name, true, "%s is master already", request->target);
    }
    bool down = t->now->verdicts[t->master].kind == REDIS_VERDICT_DOWN;
    if (down || !planner_master_is_current(t)) {
        if (down || request->force) {
            return plan_requests_begin(t, REDIS_STEP_FENCE, target, request->force);
        }
        return in_doubt(t, 1U << t->master) ||
               planner_answer(t, name, false, "the master is not well, and not down for all: %s",
                              t->now->verdicts[t->master].why);
    }
    if (target == REDIS_NONE) {
        target = nearest(t);
        if (target == REDIS_NONE) {
            return in_doubt(t, UINT32_MAX) ||
                   planner_answer(t, name, false, "no replica is fit to become master");
        }
    }
    const char *why = unfit(t, target);
    if (why != NULL && !request->force) {
        return in_doubt(t, 1U << target) ||
               planner_answer(t, name, false, "%s %s", planner_address(t, target), why);
    }
    if (planner_facts(t, t->master)->version < HANDOVER_VERSION || why != NULL) {
        return request->force
                   ? plan_requests_begin(t, REDIS_STEP_FENCE, target, true)
                   : planner_answer(t, name, false,
                                    "before Redis 6.2 there is no hand-over without loss");
    }
    return plan_requests_begin(t, REDIS_STEP_HANDOVER, target, false);
}

static bool expired(struct planner *t)
{
    const struct redis_request *request = t->now->request;
    return request->expires_ms > 0 && t->now->wall_ms > request->expires_ms &&
           planner_answer(t, request->name, false, "it expired before it could be carried out");
}

bool plan_request_held(const struct planner *t)
{
    int64_t unanswered_ms = t->memory->unanswered_ms;
    return unanswered_ms >= 0 && t->now->now_ms - unanswered_ms < t->config->period_ms;
}

bool plan_request(struct planner *t)
{
    if (t->now->request == NULL) {
        return false;
    }
    if (expired(t)) {
        return true;
    }
    switch (t->now->request->kind) {
    case REDIS_REQUEST_PAUSE:
        return set_paused(t, true);
    case REDIS_REQUEST_RESUME:
        return set_paused(t, false);
    case REDIS_REQUEST_FORGET:
        return plan_requests_forget(t);
    default:
        return failover(t);
    }
}

bool plan_request_amid(struct planner *t)
{
    const struct redis_request *request = t->now->request;
    const struct redis_current *current = t->now->current;
    const struct redis_plan *plan = t->now->plan;
    bool stuck =
        current->state == REDIS_STATE_NO_CANDIDATE || current->state == REDIS_STATE_NEEDS_OPERATOR;
    if (request == NULL || !stuck || current->epoch >= plan->epoch) {
        return false;
    }
    if (request->expires_ms > 0 && t->now->wall_ms > request->expires_ms) {
        return expired(t);
    }
    if (request->kind == REDIS_REQUEST_PAUSE) {
        return planner_delete_plan(t, REDIS_DOING_ABORT, "failover-aborted", "paused by %.100s",
                                   request->by);
    }
    if (request->kind != REDIS_REQUEST_FAILOVER || !request->force || plan->force) {
        return false;
    }
    int target = redis_config_find(t->config, request->target);
    if (request->target[0] != '\0' && target == REDIS_NONE) {
        return planner_answer(t, request->name, false, "%s is not one of the servers",
                              request->target);
    }
    struct redis_plan *record = planner_plan(t, REDIS_DOING_PLAN, "forced", "%.100s forces it",
                                             request->by[0] != '\0' ? request->by : "an operator");
    record->force = true;
    record->target[0] = '\0';
    record->tried_count = 0;
    record->step = REDIS_STEP_FENCE;
    planner_copy(record->request, sizeof record->request, request->name);
    planner_copy(record->wanted, sizeof record->wanted, request->target);
    return true;
}
