/* Compares what the servers say with `current`, and repairs the difference. */
#include "redis/planner/plan_repair.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SYNC_BUDGET_MS                                                                             \
    10000 /* a synchronization takes one of the parallel places no longer than that */
#define ATTEMPT_PAUSE_MS 3000
#define LOOK_AGAIN_MS 100
#define GUARD_PAUSES 10
#define GRACE_PERIODS 3 /* a new leader has not read the others' reports yet */

static int guard_count(const struct planner *t)
{
    int others = (int)t->config->node_count - 1;
    return t->config->min_replicas < others ? t->config->min_replicas : others;
}

/* The settings were acknowledged, and nobody was seen to turn them off: INFO counts good replicas while they are on. */
static bool guard_is_on(const struct planner *t, int master)
{
    return t->memory->guard_holds && (planner_facts(t, master)->good_replicas >= 0 ||
                                      t->now->nodes[master].facts_ms <= t->memory->guard_ms);
}

bool plan_guard(struct planner *t, int master)
{
    char count[16];
    char lag[16];
    const struct redis_memory *memory = t->memory;
    const struct redis_facts *facts = planner_facts(t, master);
    bool sent = strcmp(memory->guarded, facts->run_id) == 0;
    bool again = sent && !guard_is_on(t, master) &&
                 t->now->now_ms - memory->guard_ms > GUARD_PAUSES * t->config->period_ms;
    if (guard_count(t) <= 0 || (sent && !again)) {
        return false;
    }
    bool old_names = facts->version > 0 && facts->version < 50000;
    snprintf(count, sizeof count, "%d", guard_count(t));
    snprintf(lag, sizeof lag, "%" PRId64, t->config->min_replicas_lag_s);
    planner_command(t, REDIS_DOING_GUARD, master, "it stops by itself without %s replicas for %s s",
                    count, lag);
    planner_add(t, false, "CONFIG", "SET",
                old_names ? "min-slaves-to-write" : "min-replicas-to-write", count, NULL);
    planner_add(t, false, "CONFIG", "SET",
                old_names ? "min-slaves-max-lag" : "min-replicas-max-lag", lag, NULL);
    planner_add(t, true, "CONFIG", "REWRITE", NULL); /* or a restart undoes them */
    return true;
}

void plan_guard_record(const struct planner *t, int master, struct redis_current *record)
{
    bool holds = guard_count(t) > 0 && guard_is_on(t, master) &&
                 strcmp(t->memory->guarded, planner_facts(t, master)->run_id) == 0;
    record->lease_ms = holds ? (int64_t)t->config->min_replicas_lag_s * 1000 : 0;
    record->lease_replicas = holds ? guard_count(t) : 0;
}

static bool master_is_well(const struct planner *t)
{
    return planner_master_is_current(t) && !planner_facts(t, t->master)->loading;
}

/* Bytes that a second master has beyond the point where the histories part; -1 unknown. After a restart its second
 * history may still be the common one. */
static int64_t divergence(const struct planner *t, int node)
{
    const struct redis_facts *master = planner_facts(t, t->master);
    const struct redis_facts *facts = planner_facts(t, node);
    int64_t common = master->second_offset - 1;
    if (master->second_offset < 1 || facts->offset < 0) {
        return -1;
    }
    if (strcmp(facts->replid, master->replid2) != 0) {
        if (strcmp(facts->replid2, master->replid2) != 0 || facts->second_offset < 1) {
            return -1;
        }
        common = facts->second_offset - 1 < common ? facts->second_offset - 1 : common;
    }
    return facts->offset > common ? facts->offset - common : 0;
}

static bool demote_returned(struct planner *t, int node)
{
    int64_t bytes = divergence(t, node);
    char loss[64] = "its data are of another history";
    if (bytes >= 0) {
        snprintf(loss, sizeof loss, "%" PRId64 " bytes of its own are given up", bytes);
    }
    planner_command(t, REDIS_DOING_DEMOTE_RETURNED, node, "%s says that it is a master; %s",
                    planner_address(t, node), loss);
    planner_add_demotion(t, t->master);
    t->out->event = "demoted";
    t->out->event_bytes = bytes;
    return true;
}

static bool is_syncing(const struct planner *t, int node)
{
    int64_t attempt_ms = t->memory->attempt_ms[node];
    return planner_is(t, node, REDIS_ROLE_REPLICA) && planner_master_of(t, node) == t->master &&
           !planner_follows(t, node, t->master) && attempt_ms >= 0 &&
           t->now->now_ms - attempt_ms < SYNC_BUDGET_MS;
}

/* A replica of another server. Without a plan two readings must show it: somebody may be re-pointing it. */
static bool is_astray(struct planner *t, int node, bool at_once)
{
    int64_t *drift_ms = &t->memory->drift_ms[node];
    int64_t facts_ms = t->now->nodes[node].facts_ms;
    if (!planner_is(t, node, REDIS_ROLE_REPLICA) || planner_facts(t, node)->loading ||
        planner_master_of(t, node) == t->master) {
        *drift_ms = -1;
        return false;
    }
    if (*drift_ms < 0) {
        *drift_ms = facts_ms;
    }
    return at_once || facts_ms > *drift_ms;
}

static bool attempt_is_due(const struct planner *t, int node)
{
    int64_t attempt_ms = t->memory->attempt_ms[node];
    return attempt_ms < 0 || t->now->now_ms - attempt_ms >= ATTEMPT_PAUSE_MS;
}

/* The new master was published and is silent: the vote decides later whether it is down. */
static bool wait_for_master(struct planner *t)
{
    bool asked = t->now->now_ms - t->now->nodes[t->master].probe_ms < LOOK_AGAIN_MS;
    return asked || planner_recent(t, t->master)
               ? planner_wait(t, LOOK_AGAIN_MS, "the new master is not well")
               : planner_refresh(t, 1U << t->master, "is the new master there?");
}

bool plan_repoint(struct planner *t, enum redis_doing doing)
{
    bool in_plan = doing == REDIS_DOING_REPOINT;
    if (!master_is_well(t)) {
        return in_plan && wait_for_master(t);
    }
    uint32_t syncing = 0;
    int count = 0;
    int astray = REDIS_NONE;
    bool later = false;
    for (size_t i = 0; i < t->config->node_count; i++) {
        int node = (int)i;
        if (node == t->master || planner_same_process(t, node, t->master)) {
            continue;
        }
        if (planner_is(t, node, REDIS_ROLE_MASTER) && !planner_facts(t, node)->loading &&
            attempt_is_due(t, node)) {
            return demote_returned(t, node);
        }
        if (is_syncing(t, node)) {
            syncing |= 1U << i;
            count++;
        } else if (is_astray(t, node, in_plan)) {
            bool due = attempt_is_due(t, node);
            astray = astray == REDIS_NONE && due ? node : astray;
            later = later || !due;
        }
    }
    if (astray != REDIS_NONE && count < t->config->parallel_syncs) {
        planner_command(t, doing, astray, "%s follows %s now (it was a replica of %s)",
                        planner_address(t, astray), planner_address(t, t->master),
                        planner_facts(t, astray)->master);
        planner_add_replicaof(t, t->master);
        t->out->event = "repointed";
        return true;
    }
    if (!in_plan || (syncing == 0 && astray == REDIS_NONE && !later)) {
        return false;
    }
    bool fresh = true;
    for (size_t i = 0; i < t->config->node_count; i++) {
        fresh = fresh && ((syncing & 1U << i) == 0 ||
                          t->now->now_ms - t->now->nodes[i].probe_ms < LOOK_AGAIN_MS);
    }
    return fresh ? planner_wait(t, LOOK_AGAIN_MS, "replicas synchronize")
                 : planner_refresh(t, syncing, "are they synchronized?");
}

static bool lists_name(char (*list)[REDIS_ADDRESS_SIZE], size_t count, const char *address)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(list[i], address) == 0) {
            return true;
        }
    }
    return false;
}

/* A server that follows is a replica; a suspect one keeps its place; a forgotten one is listed when it answers. */
static void make_lists(const struct planner *t, struct redis_current *record)
{
    struct redis_current before = *record;
    record->replica_count = 0;
    record->unavailable_count = 0;
    for (size_t i = 0; i < t->config->node_count; i++) {
        int node = (int)i;
        const char *address = planner_address(t, node);
        enum redis_node_state state = t->now->nodes[i].state;
        bool was = lists_name(before.replicas, before.replica_count, address);
        bool known = was || lists_name(before.unavailable, before.unavailable_count, address);
        if (node == t->master) {
            continue;
        }
        if (state == REDIS_NODE_UP ? planner_follows(t, node, t->master)
                                   : state == REDIS_NODE_SUSPECT && was) {
            planner_copy(record->replicas[record->replica_count++], REDIS_ADDRESS_SIZE, address);
        } else if (known || redis_probe_answers(t->now->nodes[i].probe)) {
            planner_copy(record->unavailable[record->unavailable_count++], REDIS_ADDRESS_SIZE,
                         address);
        }
    }
}

static void make_state(const struct planner *t, struct redis_current *record)
{
    char why[REDIS_TEXT_SIZE] = "";
    bool early = t->now->now_ms - t->memory->term_ms < GRACE_PERIODS * t->config->period_ms;
    record->state = REDIS_STATE_OK;
    if (record->unavailable_count > 0) {
        record->state = REDIS_STATE_DEGRADED;
        snprintf(why, sizeof why, "%zu of %zu replicas do not follow", record->unavailable_count,
                 record->unavailable_count + record->replica_count);
    }
    if (!t->now->decidable && !(early && t->now->current->state == REDIS_STATE_OK)) {
        record->state = REDIS_STATE_DEGRADED;
        snprintf(why, sizeof why, "not enough managers report: no fail-over can be decided");
    }
    if (record->paused) {
        record->state = REDIS_STATE_PAUSED;
        snprintf(why, sizeof why, "paused by an operator");
    }
    planner_copy(record->reason, sizeof record->reason, why);
}

static bool same_list(const char (*a)[REDIS_ADDRESS_SIZE], size_t a_count,
                      const char (*b)[REDIS_ADDRESS_SIZE], size_t b_count)
{
    for (size_t i = 0; i < a_count && i < b_count; i++) {
        if (strcmp(a[i], b[i]) != 0) {
            return false;
        }
    }
    return a_count == b_count;
}

static bool same(const struct redis_current *a, const struct redis_current *b)
{
    return a->state == b->state && a->lease_ms == b->lease_ms &&
           a->lease_replicas == b->lease_replicas && a->second_offset == b->second_offset &&
           strcmp(a->reason, b->reason) == 0 && strcmp(a->run_id, b->run_id) == 0 &&
           strcmp(a->replid, b->replid) == 0 && strcmp(a->replid2, b->replid2) == 0 &&
           same_list(a->replicas, a->replica_count, b->replicas, b->replica_count) &&
           same_list(a->unavailable, a->unavailable_count, b->unavailable, b->unavailable_count);
}

bool plan_unguard(struct planner *t)
{
    const struct redis_current *current = t->now->current;
    const struct redis_memory *memory = t->memory;
    bool differs = current->lease_replicas != guard_count(t) ||
                   current->lease_ms != (int64_t)t->config->min_replicas_lag_s * 1000;
    if (current->lease_ms == 0 || guard_count(t) <= 0 || !differs ||
        strcmp(memory->guarded, current->run_id) == 0) {
        return false;
    }
    struct redis_current *record =
        planner_current(t, REDIS_DOING_UPDATE, NULL, "%s", "the min-replicas settings will change");
    planner_copy(record->reason, sizeof record->reason, current->reason);
    record->lease_ms = 0;
    record->lease_replicas = 0;
    return true;
}

bool plan_update(struct planner *t)
{
    const struct redis_current *current = t->now->current;
    bool well = master_is_well(t);
    struct redis_current *record =
        planner_current(t, REDIS_DOING_UPDATE, "updated", "%s", "what the servers say");
    planner_copy(record->reason, sizeof record->reason, current->reason);
    if (well) {
        planner_note_process(t, t->master, record); /* the same one, whose history goes on */
        if (!current->paused || t->memory->guard_holds) {
            plan_guard_record(t, t->master, record);
        }
        make_lists(t, record);
        make_state(t, record);
    } else if (!t->now->decidable || current->paused != (current->state == REDIS_STATE_PAUSED)) {
        make_state(t, record);
    }
    if (same(record, current)) {
        return false;
    }
    snprintf(t->out->why, sizeof t->out->why, "%s: %zu replicas, %zu unavailable%s%.120s",
             redis_state_name(record->state), record->replica_count, record->unavailable_count,
             record->reason[0] != '\0' ? ": " : "", record->reason);
    return true;
}
