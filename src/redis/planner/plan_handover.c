/* Sends FAILOVER TO and watches both servers until they have changed roles. */
#include "redis/planner/plan_handover.h"

#include "redis/planner/plan_failover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOK_AGAIN_MS 50
#define GRACE_MS 2000 /* the server's own timeout comes first */

static int64_t timeout_of(const struct planner *t)
{
    const struct redis_request *request = t->now->request;
    bool ours = request != NULL && strcmp(request->name, t->now->plan->request) == 0;
    return ours && request->timeout_ms > 0 ? request->timeout_ms : t->config->request_timeout_ms;
}

static bool is_waiting(const struct planner *t)
{
    const struct redis_request *request = t->now->request;
    return t->now->plan->request[0] == '\0' ||
           (request != NULL && strcmp(request->name, t->now->plan->request) == 0);
}

/* Nothing has changed: answers the request first, then deletes the plan. */
static bool plan_handover_give_up(struct planner *t, const char *why)
{
    const struct redis_plan *plan = t->now->plan;
    if (plan->request[0] != '\0' && is_waiting(t)) {
        return planner_answer(t, plan->request, false, "%s stays master: %s", plan->old, why);
    }
    return planner_delete_plan(t, REDIS_DOING_ABORT, "failover-aborted", "%.60s stays master: %s",
                               plan->old, why);
}

/* Goes on as a fail-over: a server must become master. */
static bool go_on(struct planner *t, const char *why)
{
    struct redis_plan *plan = planner_plan(t, REDIS_DOING_UNDO, "handover-failed", "%s", why);
    plan->step = REDIS_STEP_FENCE;
    plan->target[0] = '\0';
    return true;
}

static bool look_again(struct planner *t, int old, int target, const char *why)
{
    int64_t seen_ms = t->now->nodes[old].probe_ms < t->now->nodes[target].probe_ms
                          ? t->now->nodes[old].probe_ms
                          : t->now->nodes[target].probe_ms;
    int64_t age_ms = t->now->now_ms - seen_ms;
    return age_ms < LOOK_AGAIN_MS ? planner_wait(t, LOOK_AGAIN_MS - age_ms, "%s", why)
                                  : planner_refresh(t, 1U << old | 1U << target, why);
}

/* The name under which the master knows the target: FAILOVER compares texts. A master knows a replica by the address
 * that it connects from, or by the one that it announces. False: several replicas are possible. */
static bool name_of(const struct planner *t, int old, int target, char ret_host[REDIS_HOST_SIZE])
{
    const struct redis_facts *facts = planner_facts(t, old);
    const struct redis_node_config *node = &t->config->nodes[target];
    const char *peer = t->now->nodes[target].peer;
    struct redis_node_config read;
    size_t with_port = 0;
    bool met = false;
    planner_copy(ret_host, REDIS_HOST_SIZE, node->host);
    for (size_t i = 0; i < facts->replica_count; i++) {
        const char *address = facts->replicas[i];
        if (strcmp(address, node->address) == 0) {
            planner_copy(ret_host, REDIS_HOST_SIZE, node->host);
            return true;
        }
        if (redis_address_parse(address, strlen(address), &read) != 0 || read.port != node->port) {
            continue;
        }
        with_port++;
        if (!met) {
            met = strcmp(read.host, peer) == 0;
            planner_copy(ret_host, REDIS_HOST_SIZE, read.host);
        }
    }
    return met || with_port <= 1;
}

static bool plan_handover_ask(struct planner *t, int old, int target)
{
    char host[REDIS_HOST_SIZE];
    char port[16];
    char ms[32];
    if (!name_of(t, old, target, host)) {
        return plan_handover_give_up(
            t, "it knows its replicas by other addresses: set replica-announce-ip");
    }
    snprintf(port, sizeof port, "%d", t->config->nodes[target].port);
    snprintf(ms, sizeof ms, "%" PRId64, timeout_of(t));
    planner_command(t, REDIS_DOING_HANDOVER, old, "%s asked for it", t->now->plan->request);
    planner_add(t, false, "FAILOVER", "TO", host, port, "TIMEOUT", ms, NULL);
    return true;
}

/* The old master still says that it is one. */
static bool still_master(struct planner *t, int old, int target)
{
    const struct redis_memory *memory = t->memory;
    bool running = planner_facts(t, old)->handover != REDIS_HANDOVER_NONE;
    int64_t since_ms = memory->handover_ms >= 0 ? memory->handover_ms : memory->plan_ms;
    if (running && t->now->now_ms - since_ms > timeout_of(t) + GRACE_MS) {
        planner_command(t, REDIS_DOING_ABORT, old, "the hand-over took too long");
        planner_add(t, false, "FAILOVER", "ABORT", NULL);
        return true;
    }
    if (running) {
        return look_again(t, old, target, "the hand-over is under way");
    }
    if (memory->handover_refused) {
        return plan_handover_give_up(t, memory->last_error);
    }
    if (memory->handover_ms >= 0) {
        return t->now->nodes[old].facts_ms <= memory->handover_ms
                   ? look_again(t, old, target, "has the hand-over begun?")
                   : plan_handover_give_up(t, "the replica did not catch up in time");
    }
    return is_waiting(t) ? plan_handover_ask(t, old, target)
                         : plan_handover_give_up(t, "nobody waits for it any more");
}

bool plan_handover(struct planner *t, int old, int target)
{
    int64_t since_ms = t->memory->handover_ms >= 0 ? t->memory->handover_ms : t->memory->plan_ms;
    if (!planner_probed_since(t, target, t->memory->plan_ms) ||
        !planner_probed_since(t, old, t->memory->plan_ms)) {
        return planner_refresh(t, 1U << old | 1U << target, "how are the two?");
    }
    if (planner_is(t, target, REDIS_ROLE_MASTER) && planner_of_plan(t, target)) {
        return plan_failover_promoted(t, old, target);
    }
    if (planner_is(t, old, REDIS_ROLE_MASTER)) {
        return still_master(t, old, target);
    }
    bool gone = !planner_recent(t, old) && t->now->verdicts[old].kind == REDIS_VERDICT_DOWN;
    bool late = planner_recent(t, old) && t->now->now_ms - since_ms > timeout_of(t) + GRACE_MS;
    return gone || late ? go_on(t, gone ? "the master died during the hand-over"
                                        : "neither of the two is a master")
                        : look_again(t, old, target, "the two are changing places");
}
