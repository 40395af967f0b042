/* A fail-over, from the plan to its end. */
#include "redis/planner/plan_failover.h"

#include "redis/planner/plan_fencing.h"
#include "redis/planner/plan_handover.h"
#include "redis/planner/plan_repair.h"
#include "redis/planner/plan_requests.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LOOK_AGAIN_MS 20
#define FRESH_MS 200 /* a master is published only if it was seen within this time */

void plan_failover_about(const struct planner *t, struct redis_plan *ret)
{
    const struct redis_current *current = t->now->current;
    *ret = (struct redis_plan){.epoch = current->epoch + 1,
                               .old_second_offset = current->second_offset,
                               .old_offset = t->now->known_offset};
    planner_copy(ret->old, sizeof ret->old, current->master);
    planner_copy(ret->old_run_id, sizeof ret->old_run_id, current->run_id);
    planner_copy(ret->old_replid, sizeof ret->old_replid, current->replid);
    planner_copy(ret->old_replid2, sizeof ret->old_replid2, current->replid2);
}

static bool all_are_empty(const struct planner *t)
{
    for (size_t i = 0; i < t->config->node_count; i++) {
        const struct redis_facts *facts = planner_facts(t, (int)i);
        if (!planner_recent(t, (int)i) || facts->loading || facts->keys != 0) {
            return false;
        }
    }
    return true;
}

bool plan_failover_restart_loses(const struct planner *t, int node, int *ret_best,
                                 const char **ret_why)
{
    const struct redis_facts *facts = planner_facts(t, node);
    bool ours = planner_of_current(t, node);
    struct redis_plan about;
    struct redis_choice choice;
    plan_failover_about(t, &about);
    about.force = true; /* the lag does not matter here */
    struct redis_choice_case what = {.plan = &about,
                                     .fresh_ms = t->now->now_ms - 2 * t->config->period_ms -
                                                 t->config->op_timeout_ms,
                                     .down_ms = -1,
                                     .only = REDIS_NONE};
    redis_choose(t->config, t->now->nodes, &what, &choice);
    bool best_has_data = choice.node != REDIS_NONE && planner_facts(t, choice.node)->keys != 0;
    *ret_best = best_has_data ? choice.node : REDIS_NONE;
    if (best_has_data && (!ours || facts->offset < planner_facts(t, choice.node)->offset)) {
        *ret_why = "the master was restarted with less than its replicas have";
        return true;
    }
    bool empty = all_are_empty(t);
    *ret_why = ours               ? "with its data"
               : facts->keys != 0 ? "with data, and no other server has those of before"
               : empty            ? "all servers are empty"
                                  : "the master was restarted empty; other servers may have data";
    return !ours && facts->keys == 0 && !empty;
}

bool plan_failover_begin(struct planner *t, const struct plan_wish *wish)
{
    struct redis_plan *plan = planner_plan(t, REDIS_DOING_PLAN, "failover-begin", "%s", wish->why);
    plan_failover_about(t, plan);
    snprintf(plan->id, sizeof plan->id, "%" PRId64 "-%" PRIx64, plan->epoch,
             (uint64_t)t->now->wall_ms);
    planner_copy(plan->reason, sizeof plan->reason, wish->reason);
    planner_copy(plan->request, sizeof plan->request, wish->request);
    plan->step = wish->step;
    plan->force = wish->force;
    plan->started_ms = t->now->wall_ms;
    if (wish->target != REDIS_NONE) {
        planner_copy(plan->target, sizeof plan->target, planner_address(t, wish->target));
    }
    return true;
}

/* Whether the plan's history is the one that the old master began when it was restarted. */
static bool is_of_returned(const struct redis_plan *plan)
{
    return plan->returned_replid[0] != '\0' && strcmp(plan->returned_replid, plan->old_replid) == 0;
}

static void go_by_returned(struct redis_plan *plan)
{
    planner_copy(plan->old_replid, sizeof plan->old_replid, plan->returned_replid);
    plan->old_replid2[0] = '\0';
    plan->old_second_offset = plan->old_offset = -1;
    plan->tried_count = 0;
}

/* Bytes that the old master had and the new one lacks; -1 unknown. */
static int64_t lost_bytes(const struct planner *t, int old, int target)
{
    const struct redis_plan *plan = t->now->plan;
    const struct redis_facts *facts = planner_facts(t, target);
    const struct redis_facts *gone = planner_facts(t, old);
    assert(target != REDIS_NONE);
    int64_t known = plan->old_offset;
    if (is_of_returned(plan)) {
        return -1; /* its offsets started again */
    }
    if (t->now->nodes[old].facts_ms >= 0 && gone->replid[0] != '\0' &&
        strcmp(gone->replid, plan->old_replid) == 0 && gone->offset > known) {
        known = gone->offset;
    }
    if (known < 0 || facts->second_offset < 1 || facts->replid2[0] == '\0' ||
        (strcmp(facts->replid2, plan->old_replid) != 0 &&
         strcmp(facts->replid2, plan->old_replid2) != 0)) {
        return -1;
    }
    return known > facts->second_offset - 1 ? known - (facts->second_offset - 1) : 0;
}

static bool publish(struct planner *t, int old, int target)
{
    const struct redis_plan *plan = t->now->plan;
    int64_t lost = lost_bytes(t, old, target);
    char loss[64] = "unknown loss";
    if (lost >= 0) {
        snprintf(loss, sizeof loss, "%" PRId64 " bytes lost", lost);
    }
    struct redis_current *record =
        planner_current(t, REDIS_DOING_PUBLISH, "failover", "%.60s is master after %.60s (%s, %s)",
                        plan->target, plan->old, plan->reason, loss);
    t->out->event_bytes = lost;
    record->epoch = plan->epoch;
    planner_note_master(t, target, record);
    if (plan->request[0] == '\0') {
        record->failover_ms = t->now->wall_ms;
    }
    plan_guard_record(t, target, record);
    planner_note_nobody_follows(t, target, record);
    return true;
}

static bool undo_target(struct planner *t, const char *why)
{
    struct redis_plan *plan = planner_plan(t, REDIS_DOING_UNDO, "candidate-failed", "%.100s: %s",
                                           t->now->plan->target, why);
    if (plan->tried_count < REDIS_NODES_MAX) {
        memcpy(plan->tried[plan->tried_count++], plan->target, sizeof plan->target);
    }
    plan->target[0] = '\0';
    plan->step = REDIS_STEP_CHOOSE;
    return true;
}

/* The old master answers as a master: it becomes a replica of the target. False: the two are one process. */
static bool demote_old(struct planner *t, int old, int target)
{
    const struct redis_plan *plan = t->now->plan;
    if (planner_same_process(t, old, target)) {
        return plan->target[0] != '\0' && undo_target(t, "leads to the old master");
    }
    planner_command(t, REDIS_DOING_DEMOTE, old,
                    "%s answers as a master: it becomes a replica of %s", plan->old,
                    planner_address(t, target));
    planner_copy(t->memory->demoted, sizeof t->memory->demoted, planner_facts(t, old)->run_id);
    planner_add_demotion(t, target);
    return true;
}

/* The target is a master with the old one's data, as far as the ids show. */
static bool is_promoted(const struct planner *t, int target)
{
    const struct redis_plan *plan = t->now->plan;
    return planner_is(t, target, REDIS_ROLE_MASTER) && !planner_facts(t, target)->loading &&
           (plan->force || plan->old_replid[0] == '\0' || planner_of_plan(t, target));
}

/* Whether the old master has stopped; if not, makes an action. A master that came back as a replica may be its own
 * successor. */
static bool has_stopped(struct planner *t, int old, int target, const char **ret_by)
{
    *ret_by = "self";
    enum fence_view view = old == target ? FENCE_STOPPED : plan_fence(t, old, ret_by);
    if (view == FENCE_ANSWERS) {
        bool acted = demote_old(t, old, target);
        assert(acted); /* the target is known */
    }
    return view == FENCE_STOPPED;
}

/* After a lease only: all replicas leave the old master before the new one is published. If the old one is alive, it
 * must not find its replicas again. */
static bool leave_old(struct planner *t, int old, int target)
{
    for (size_t i = 0; i < t->config->node_count; i++) {
        int node = (int)i;
        if (strcmp(t->now->plan->fenced, "lease") == 0 && old != target && node != old &&
            node != target && planner_is(t, node, REDIS_ROLE_REPLICA) &&
            (planner_master_of(t, node) == old || planner_master_of(t, node) == REDIS_NONE)) {
            planner_command(t, REDIS_DOING_REPOINT, node, "%s leaves %s for %s",
                            planner_address(t, node), t->now->plan->old,
                            planner_address(t, target));
            planner_add_replicaof(t, target);
            return true;
        }
    }
    return false;
}

bool plan_failover_promoted(struct planner *t, int old, int target)
{
    assert(planner_is(t, target, REDIS_ROLE_MASTER));
    const char *by = NULL;
    if (!has_stopped(t, old, target, &by) || leave_old(t, old, target) || plan_guard(t, target)) {
        return true;
    }
    int64_t fresh_ms = FRESH_MS + 2 * t->now->nodes[target].latency_us / 1000;
    return t->now->now_ms - t->now->nodes[target].facts_ms > fresh_ms
               ? planner_refresh(t, 1U << target, "is it still there?")
               : publish(t, old, target);
}

static bool promote(struct planner *t, int old, int target)
{
    const struct redis_plan *plan = t->now->plan;
    struct redis_memory *memory = t->memory;
    const char *by = NULL;
    if (!has_stopped(t, old, target, &by)) {
        return true;
    }
    if (memory->promote_ms < 0) {
        memory->promote_ms = t->now->now_ms;
    }
    if (t->now->now_ms - memory->promote_ms > t->config->promote_timeout_ms) {
        return undo_target(t, "was not promoted in time");
    }
    const struct redis_node *node = &t->now->nodes[target];
    if (!planner_recent(t, target)) {
        return node->probe == REDIS_PROBE_REFUSED || node->state == REDIS_NODE_DOWN
                   ? undo_target(t, "is down")
               : t->now->now_ms - node->probe_ms < LOOK_AGAIN_MS
                   ? planner_wait(t, LOOK_AGAIN_MS, "%s does not answer", plan->target)
                   : planner_refresh(t, 1U << target, "does the candidate answer?");
    }
    if (node->facts.role == REDIS_ROLE_MASTER || node->facts.loading ||
        (!plan->force && plan->old_replid[0] != '\0' && !planner_of_plan(t, target))) {
        return undo_target(t, "has lost its data"); /* or it is a master of another history */
    }
    planner_command(t, REDIS_DOING_PROMOTE, target, "the old master has stopped (%s)", by);
    planner_add_replicaof(t, REDIS_NONE);
    return true;
}

static bool with_target(struct planner *t, int old, int target)
{
    if (!planner_probed_since(t, target, t->memory->plan_ms)) {
        return planner_refresh(t, 1U << target | 1U << old, "how is the candidate?");
    }
    return is_promoted(t, target) ? plan_failover_promoted(t, old, target)
                                  : promote(t, old, target);
}

/* Candidates that have not applied all that they received, or all that an old master that answers has sent. */
static uint32_t unsettled(struct planner *t, int old, bool old_answers)
{
    struct redis_memory *memory = t->memory;
    uint32_t set = 0;
    for (size_t i = 0; i < t->config->node_count; i++) {
        const struct redis_node *node = &t->now->nodes[i];
        const struct redis_facts *facts = &node->facts;
        if (node->facts_ms < memory->choose_ms || facts->role != REDIS_ROLE_REPLICA) {
            continue;
        }
        if (memory->settled_ms[i] < memory->choose_ms) {
            memory->settled &= ~(1U << i);
            memory->settled_ms[i] = node->facts_ms;
            memory->settled_offset[i] = facts->offset;
        } else if (memory->settled_ms[i] != node->facts_ms) {
            bool same = memory->settled_offset[i] == facts->offset;
            memory->settled = same ? memory->settled | 1U << i : memory->settled & ~(1U << i);
            memory->settled_ms[i] = node->facts_ms;
            memory->settled_offset[i] = facts->offset;
        }
        bool behind = old_answers && facts->link_up && planner_master_of(t, (int)i) == old &&
                      facts->offset < planner_facts(t, old)->offset;
        if ((memory->settled & 1U << i) == 0 || facts->read_offset > facts->offset || behind) {
            set |= 1U << i;
        }
    }
    return set;
}

static bool nobody(struct planner *t, int old, const struct redis_choice *choice)
{
    const struct redis_current *current = t->now->current;
    struct redis_memory *memory = t->memory;
    int64_t again_ms = memory->choose_ms + t->config->period_ms;
    if (current->state != REDIS_STATE_NO_CANDIDATE) {
        planner_current(t, REDIS_DOING_FAILING_OVER, "no-candidate", "%s", choice->why)->state =
            REDIS_STATE_NO_CANDIDATE;
        return true;
    }
    if (t->now->now_ms < again_ms) {
        return planner_wait(t, again_ms - t->now->now_ms, "%s", choice->why);
    }
    memory->choose_ms = -1;
    if (t->now->plan->tried_count > 0) {
        struct redis_plan *plan =
            planner_plan(t, REDIS_DOING_UNDO, NULL, "all are tried once more");
        plan->tried_count = 0;
        return true;
    }
    uint32_t all = t->config->node_count == 32 ? UINT32_MAX : (1U << t->config->node_count) - 1;
    return planner_refresh(t, all & ~(1U << old), "is there a candidate by now?");
}

/* Servers that are not waited for: a silent old master, and those that are down. */
static uint32_t out_of_reach(const struct planner *t, int old)
{
    uint32_t set = 0;
    for (size_t i = 0; i < t->config->node_count; i++) {
        bool down = (int)i == old || t->now->nodes[i].state == REDIS_NODE_DOWN;
        set |= down && !planner_recent(t, (int)i) ? 1U << i : 0;
    }
    return set;
}

/* No server has the history from before the restart, because the replicas copied the restarted master before it could be
 * stopped. Then the history that it began counts, as it does when a master is restarted without a plan. */
static bool choose_returned(const struct planner *t, const struct redis_choice_case *what,
                            struct redis_choice *ret)
{
    struct redis_plan about = *t->now->plan;
    struct redis_choice_case ours = *what;
    struct redis_choice choice;
    if (about.returned_replid[0] == '\0' || is_of_returned(&about)) {
        return false;
    }
    for (size_t i = 0; i < t->config->node_count; i++) {
        if (planner_recent(t, (int)i) && planner_facts(t, (int)i)->loading) {
            return false; /* it may have the old history */
        }
    }
    about.force = true; /* lag and earlier attempts do not matter here */
    about.tried_count = 0;
    ours.plan = &about;
    redis_choose(t->config, t->now->nodes, &ours, &choice);
    if (choice.node != REDIS_NONE) {
        return false;
    }
    about = *t->now->plan;
    go_by_returned(&about);
    ours.down_ms = -1;
    redis_choose(t->config, t->now->nodes, &ours, &choice);
    if (choice.node == REDIS_NONE ||
        (planner_facts(t, choice.node)->keys == 0 && !all_are_empty(t))) {
        return false;
    }
    *ret = choice;
    return true;
}

static bool choose(struct planner *t, int old, bool old_answers, const char *by)
{
    const struct redis_plan *plan = t->now->plan;
    struct redis_memory *memory = t->memory;
    if (memory->choose_ms < 0) {
        memory->choose_ms = t->now->now_ms;
        memory->settled = 0;
    }
    uint32_t missing = planner_unprobed(t, memory->choose_ms) & ~out_of_reach(t, old);
    if (missing != 0) {
        return planner_refresh(t, missing, "how far are they?");
    }
    uint32_t moving = unsettled(t, old, old_answers);
    if (moving != 0 && t->now->now_ms - memory->choose_ms < t->config->settle_ms) {
        int64_t newest = -1;
        for (size_t i = 0; i < t->config->node_count; i++) {
            if ((moving & 1U << i) != 0 && t->now->nodes[i].probe_ms > newest) {
                newest = t->now->nodes[i].probe_ms;
            }
        }
        bool early = t->now->now_ms - newest < LOOK_AGAIN_MS;
        return early ? planner_wait(t, LOOK_AGAIN_MS - (t->now->now_ms - newest),
                                    "candidates apply what they received")
                     : planner_refresh(t, moving, "have they applied what they received?");
    }
    struct redis_choice choice;
    struct redis_choice_case what = {
        .plan = plan,
        .fresh_ms = memory->choose_ms,
        .down_ms = t->now->nodes[old].answered_ms,
        .only = plan->wanted[0] != '\0' ? redis_config_find(t->config, plan->wanted) : REDIS_NONE,
    };
    redis_choose(t->config, t->now->nodes, &what, &choice);
    if (choice.node == REDIS_NONE && what.only != REDIS_NONE) {
        what.only = REDIS_NONE; /* now any master is better than none */
        redis_choose(t->config, t->now->nodes, &what, &choice);
    }
    bool returned = choice.node == REDIS_NONE && choose_returned(t, &what, &choice);
    if (choice.node == REDIS_NONE) {
        return nobody(t, old, &choice);
    }
    struct redis_plan *record =
        planner_plan(t, REDIS_DOING_CHOOSE, "candidate", "%.180s%s", choice.why,
                     returned ? "; nobody has the data of before the restart" : "");
    if (returned) {
        go_by_returned(record);
    }
    planner_copy(record->target, sizeof record->target, planner_address(t, choice.node));
    record->step = REDIS_STEP_PROMOTE;
    if (by != NULL && strcmp(by, "self") != 0 && strcmp(by, "loading") != 0) {
        planner_copy(record->fenced, sizeof record->fenced, by);
    }
    t->out->event_bytes = choice.lag_bytes;
    return true;
}

/* The old master is well again, before a candidate was chosen. */
static bool recovered(const struct planner *t, int old)
{
    const struct redis_plan *plan = t->now->plan;
    return strcmp(plan->reason, "down") == 0 && !plan->force &&
           t->now->verdicts[old].kind == REDIS_VERDICT_UP &&
           planner_is(t, old, REDIS_ROLE_MASTER) &&
           strcmp(planner_facts(t, old)->run_id, plan->old_run_id) == 0;
}

static bool plan_failover_give_up(struct planner *t, int old)
{
    if (planner_facts(t, old)->version >= PAUSE_VERSION && t->memory->unpaused_ms < 0) {
        planner_command(t, REDIS_DOING_ABORT, old, "it is well again");
        planner_add(t, true, "CLIENT", "UNPAUSE", NULL);
        return true;
    }
    return planner_delete_plan(t, REDIS_DOING_ABORT, "failover-aborted", "%s is well again",
                               t->now->plan->old);
}

static bool pause_old(struct planner *t, int old)
{
    char ms[32];
    const struct redis_memory *memory = t->memory;
    if (planner_facts(t, old)->version < PAUSE_VERSION ||
        (memory->paused_ms >= 0 && t->now->now_ms - memory->paused_ms < t->config->pause_ms / 2)) {
        return false;
    }
    snprintf(ms, sizeof ms, "%" PRId64, t->config->pause_ms);
    planner_command(t, REDIS_DOING_PAUSE, old,
                    "no more writes there while a successor is looked for");
    planner_add(t, false, "CLIENT", "PAUSE", ms, "WRITE", NULL);
    return true;
}

/* A master that came back without its data must not be copied. As a replica it is not: of the server that has most
 * data, or of any if there is none. */
static bool shield(struct planner *t, int old, int best)
{
    int other = best != REDIS_NONE ? best : old == 0 ? 1 : 0;
    return t->config->node_count > 1 && demote_old(t, old, other);
}

/* The old master answers as a master, and no candidate was chosen yet. */
static bool answering(struct planner *t, int old)
{
    const char *why = NULL;
    int best = REDIS_NONE;
    const struct redis_plan *plan = t->now->plan;
    if (plan->force || strcmp(planner_facts(t, old)->run_id, plan->old_run_id) == 0) {
        return pause_old(t, old);
    }
    return plan_failover_restart_loses(t, old, &best, &why)
               ? shield(t, old, best)
               : planner_delete_plan(t, REDIS_DOING_ABORT, "failover-aborted", "%.60s is back: %s",
                                     plan->old, why);
}

static bool without_target(struct planner *t, int old)
{
    const char *by = NULL;
    if (recovered(t, old)) {
        return plan_failover_give_up(t, old);
    }
    enum fence_view view = plan_fence(t, old, &by);
    if (view == FENCE_ACTED) {
        return true;
    }
    if (view == FENCE_ANSWERS && answering(t, old)) {
        return true;
    }
    return choose(t, old, view == FENCE_ANSWERS, by);
}

/* FAILOVER changes roles, but not the file of settings: a restart would undo it. */
static bool save(struct planner *t, int old, int target)
{
    bool follows = old != REDIS_NONE && planner_is(t, old, REDIS_ROLE_REPLICA) &&
                   planner_master_of(t, old) == target;
    int node = planner_is(t, target, REDIS_ROLE_MASTER) && (t->memory->saved & 1U << target) == 0
                   ? target
               : follows && (t->memory->saved & 1U << old) == 0 ? old
                                                                : REDIS_NONE;
    if (t->now->plan->step != REDIS_STEP_HANDOVER || node == REDIS_NONE) {
        return false;
    }
    planner_command(t, REDIS_DOING_SAVE, node, "%s keeps its new role when it is restarted",
                    planner_address(t, node));
    planner_add(t, true, "CONFIG", "REWRITE", NULL);
    return true;
}

/* After the publication: answers the request, re-points the others, ends the plan. */
static bool published(struct planner *t, int old, int target)
{
    const struct redis_plan *plan = t->now->plan;
    const struct redis_request *request = t->now->request;
    struct redis_memory *memory = t->memory;
    bool asked =
        plan->request[0] != '\0' && request != NULL && strcmp(request->name, plan->request) == 0;
    if (asked && !plan_request_held(t)) {
        return planner_answer(t, plan->request, true, "%s is master", plan->target);
    }
    if (t->now->verdicts[target].kind == REDIS_VERDICT_DOWN && !t->now->current->paused) {
        struct plan_wish wish = {.reason = "down",
                                 .step = REDIS_STEP_FENCE,
                                 .target = REDIS_NONE,
                                 .why = t->now->verdicts[target].why};
        return plan_failover_begin(t, &wish);
    }
    if (planner_is(t, target, REDIS_ROLE_MASTER) &&
        strcmp(planner_facts(t, target)->run_id, t->now->current->run_id) != 0) {
        return planner_delete_plan(t, REDIS_DOING_FINISH, "failover-end",
                                   "%s was restarted since it became master", plan->target);
    }
    if (memory->repoint_ms < 0) {
        memory->repoint_ms = t->now->now_ms;
    }
    bool over = t->now->now_ms - memory->repoint_ms > t->config->repoint_timeout_ms;
    if (save(t, old, target) || (!over && plan_repoint(t, REDIS_DOING_REPOINT))) {
        return true;
    }
    if (asked) { /* or it would count as a new one */
        return planner_wait(t, t->config->period_ms, "the request could not be answered yet");
    }
    return planner_delete_plan(t, REDIS_DOING_FINISH, "failover-end",
                               over ? "%s is master; some replicas are not re-pointed yet"
                                    : "%s is master, the others follow",
                               plan->target);
}

static void remember_plan(struct planner *t)
{
    const struct redis_plan *plan = t->now->plan;
    struct redis_memory *memory = t->memory;
    if (strcmp(memory->plan_id, plan->id) != 0) {
        planner_copy(memory->plan_id, sizeof memory->plan_id, plan->id);
        memory->plan_ms = t->now->now_ms;
        memory->paused_ms = memory->unpaused_ms = memory->choose_ms = -1;
        memory->handover_ms = memory->repoint_ms = memory->lease_from_ms = -1;
        memory->handover_refused = false;
        memory->plan_target[0] = memory->demoted[0] = memory->returned[0] = '\0';
        memory->promote_ms = -1;
        memory->saved = 0;
    }
    if (strcmp(memory->plan_target, plan->target) != 0) {
        planner_copy(memory->plan_target, sizeof memory->plan_target, plan->target);
        memory->promote_ms = memory->choose_ms = -1;
    }
}

/* An old master that was restarted began a new history, which replicas may have copied before it was demoted. It shows
 * this history until it has copied from another server, so the plan records it. */
static bool note_returned(struct planner *t, int old)
{
    const struct redis_plan *plan = t->now->plan;
    const struct redis_facts *facts = planner_facts(t, old);
    struct redis_memory *memory = t->memory;
    if (memory->demoted[0] != '\0' && planner_is(t, old, REDIS_ROLE_REPLICA) &&
        strcmp(memory->demoted, facts->run_id) == 0) {
        bool other = strcmp(facts->run_id, plan->old_run_id) != 0;
        planner_copy(memory->returned, sizeof memory->returned, other ? facts->replid : NULL);
        memory->demoted[0] = '\0';
    }
    if (memory->returned[0] == '\0' || strcmp(memory->returned, plan->old_replid) == 0 ||
        strcmp(memory->returned, plan->returned_replid) == 0) {
        return false;
    }
    struct redis_plan *record =
        planner_plan(t, REDIS_DOING_RETURNED, NULL, "%.100s was restarted", plan->old);
    planner_copy(record->returned_replid, sizeof record->returned_replid, memory->returned);
    return true;
}

bool plan_failover_next(struct planner *t)
{
    const struct redis_plan *plan = t->now->plan;
    const struct redis_current *current = t->now->current;
    int old = redis_config_find(t->config, plan->old);
    int target = plan->target[0] == '\0' ? REDIS_NONE : redis_config_find(t->config, plan->target);
    remember_plan(t);
    if (current == NULL || current->epoch > plan->epoch ||
        (current->epoch == plan->epoch && strcasecmp(current->master, plan->target) != 0)) {
        return planner_delete_plan(t, REDIS_DOING_ABORT, NULL, "it is of an epoch that is over");
    }
    if (current->epoch == plan->epoch && target != REDIS_NONE) {
        return published(t, old, target);
    }
    if (old == REDIS_NONE ||
        current->epoch == plan->epoch) { /* plan_start reports what is missing */
        return planner_delete_plan(t, REDIS_DOING_ABORT, "failover-aborted",
                                   "%.100s is not one of the servers any more",
                                   old == REDIS_NONE ? plan->old : plan->target);
    }
    if (plan->target[0] != '\0' && target == REDIS_NONE) {
        return undo_target(t, "is not one of the servers any more");
    }
    if (current->state != REDIS_STATE_FAILING_OVER && current->state != REDIS_STATE_NO_CANDIDATE &&
        current->state != REDIS_STATE_NEEDS_OPERATOR) {
        planner_current(t, REDIS_DOING_FAILING_OVER, NULL, "%s: %s", plan->reason, plan->old)
            ->state = REDIS_STATE_FAILING_OVER;
        return true;
    }
    if (note_returned(t, old)) {
        return true;
    }
    if (plan->step == REDIS_STEP_HANDOVER && target != REDIS_NONE) {
        return plan_handover(t, old, target);
    }
    return target == REDIS_NONE ? without_target(t, old) : with_target(t, old, target);
}
