/* Finds the master for the first `current`. */
#include "redis/planner/plan_discovery.h"

#include "redis/planner/plan_requests.h"

#include <stdio.h>
#include <string.h>

#define GRACE_PERIODS 3 /* requests are not refused at once for want of a master */

/* The servers' answers. */
struct survey {
    int answers;  /* nodes with recent facts */
    int masters;  /* ... of which say that they are masters */
    int master;   /* the last of them */
    int real;     /* ... of which have keys or replicas */
    int real_one; /* the last of these */
    int first;    /* first master of the list */
    bool waiting; /* a server may still answer */
};

static bool has_replicas(const struct planner *t, int node)
{
    for (size_t i = 0; i < t->config->node_count; i++) {
        if ((int)i != node && planner_is(t, (int)i, REDIS_ROLE_REPLICA) &&
            planner_master_of(t, (int)i) == node) {
            return true;
        }
    }
    return planner_facts(t, node)->replica_count > 0;
}

static struct survey survey(const struct planner *t)
{
    struct survey s = {.master = REDIS_NONE, .real_one = REDIS_NONE, .first = REDIS_NONE};
    for (size_t i = 0; i < t->config->node_count; i++) {
        int node = (int)i;
        const struct redis_node *seen = &t->now->nodes[i];
        if (!planner_recent(t, node)) {
            s.waiting =
                s.waiting || (seen->state != REDIS_NODE_DOWN && seen->state != REDIS_NODE_NOAUTH);
            continue;
        }
        s.waiting = s.waiting || seen->facts.loading;
        s.answers++;
        if (seen->facts.role == REDIS_ROLE_MASTER) {
            s.masters++;
            s.master = node;
            s.first = s.first == REDIS_NONE ? node : s.first;
            if (seen->facts.keys != 0 || has_replicas(t, node)) {
                s.real++;
                s.real_one = node;
            }
        }
    }
    return s;
}

/* A replica that answers follows another server, which may have more data. */
static bool contradicted(const struct planner *t, int master)
{
    for (size_t i = 0; i < t->config->node_count; i++) {
        if (planner_is(t, (int)i, REDIS_ROLE_REPLICA) && planner_master_of(t, (int)i) != master) {
            return true;
        }
    }
    return false;
}

static bool name_master(struct planner *t, int master, const char *why)
{
    struct redis_current *record =
        planner_current(t, REDIS_DOING_START, "started", "%s %s", planner_address(t, master), why);
    record->epoch++;
    planner_note_master(t, master, record);
    planner_note_nobody_follows(t, master, record);
    return true;
}

static bool ask_operator(struct planner *t, const char *why)
{
    const struct redis_current *current = t->now->current;
    if (current != NULL && current->state == REDIS_STATE_NEEDS_OPERATOR &&
        strcmp(current->reason, why) == 0) {
        return planner_wait(t, t->config->period_ms, "%s", why);
    }
    planner_current(t, REDIS_DOING_START, "needs-operator", "%s", why)->state =
        REDIS_STATE_NEEDS_OPERATOR;
    return true;
}

/* There is no master, all servers answer and share one history: the one that has most of it. A replica whose link to a
 * server outside of the list is up has a master that is alive. */
static int furthest(const struct planner *t)
{
    int best = REDIS_NONE;
    for (size_t i = 0; i < t->config->node_count; i++) {
        const struct redis_facts *facts = planner_facts(t, (int)i);
        if (facts->replid[0] == '\0' || strcmp(facts->replid, planner_facts(t, 0)->replid) != 0) {
            return REDIS_NONE;
        }
        if (facts->link_up && planner_master_of(t, (int)i) == REDIS_NONE) {
            return REDIS_NONE;
        }
        if (facts->priority != 0 &&
            (best == REDIS_NONE || facts->offset > planner_facts(t, best)->offset)) {
            best = (int)i;
        }
    }
    return best;
}

bool plan_start(struct planner *t)
{
    struct survey s = survey(t);
    bool all = s.answers == (int)t->config->node_count;
    /* The published master is not in the list: it may be alive, so an operator must decide. */
    bool unlisted = t->now->current != NULL && t->now->current->master[0] != '\0';
    if (t->now->now_ms - t->memory->term_ms > GRACE_PERIODS * t->config->period_ms &&
        !plan_request_held(t) && plan_request(t)) {
        return true;
    }
    if (s.waiting) {
        return planner_wait(t, t->config->period_ms / 2, "not all servers were heard yet");
    }
    if (s.answers == 0) {
        return ask_operator(t, "no server answers");
    }
    int master = s.masters == 1 ? s.master : s.real == 1 ? s.real_one : REDIS_NONE;
    if (unlisted && (master == REDIS_NONE ||
                     (planner_facts(t, master)->keys == 0 && !planner_of_current(t, master)))) {
        return ask_operator(t, "the master of the record is not one of the servers");
    }
    if (master != REDIS_NONE) {
        return contradicted(t, master)
                   ? ask_operator(t, "replicas follow another server than the one master")
                   : name_master(t, master, "is the master");
    }
    if (s.masters > 1) {
        return s.real == 0 && all
                   ? name_master(t, s.first, "is the first of a cluster that is empty")
                   : ask_operator(t, "several servers say that they are the master");
    }
    int best = all ? furthest(t) : REDIS_NONE;
    return best != REDIS_NONE ? name_master(t, best, "has most of the data, and nobody is master")
                              : ask_operator(t, "no server says that it is the master");
}
