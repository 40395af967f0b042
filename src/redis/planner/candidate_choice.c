/* Which servers may become master, and which of them is the best. */
#include "redis/planner/candidate_choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct candidate {
    int node;
    bool held;         /* beyond the limits */
    bool master;       /* it is a master already, whoever promoted it */
    int64_t offset;    /* how far it has the old master's history */
    int64_t lag_bytes; /* -1 unknown */
    const struct redis_node *seen;
};

static bool was_tried(const struct redis_plan *plan, const char *address)
{
    for (size_t i = 0; i < plan->tried_count; i++) {
        if (strcasecmp(plan->tried[i], address) == 0) {
            return true;
        }
    }
    return false;
}

/* Servers before 4.0 have no ids: a replica of the old master that has data must do. */
static bool has_history(const struct redis_plan *plan, const struct redis_facts *facts)
{
    if (facts->replid[0] == '\0' && plan->old_replid[0] == '\0') {
        return facts->offset > 0 && strcasecmp(facts->master, plan->old) == 0;
    }
    return redis_facts_of_history(facts, plan->old_replid, plan->old_replid2,
                                  plan->old_second_offset);
}

/* Why a server may not be chosen; NULL: it may. */
static const char *excluded(const struct redis_config *config, const struct redis_node *node,
                            const struct redis_choice_case *what, int place)
{
    const struct redis_plan *plan = what->plan;
    const char *address = config->nodes[place].address;
    const struct redis_facts *facts = &node->facts;
    bool is_old_master = facts->role == REDIS_ROLE_MASTER && strcasecmp(address, plan->old) == 0;
    bool takes_anything = plan->force && what->only == place;
    const struct {
        bool excludes;
        const char *why;
    } rules[] = {
        {what->only != REDIS_NONE && what->only != place, "not the one asked for"},
        {node->facts_ms < 0 || node->facts_ms < what->fresh_ms, "does not answer"},
        {is_old_master && !takes_anything, "is the old master"},
        {facts->loading, "is loading its data"},
        {facts->priority == 0 && !plan->force, "has priority 0"},
        {!takes_anything && !has_history(plan, facts), "has data of another history"},
        {was_tried(plan, address), "was tried already"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].excludes) {
            return rules[i].why;
        }
    }
    return NULL;
}

static void measure(const struct redis_config *config, const struct redis_choice_case *what,
                    struct candidate *c)
{
    const struct redis_plan *plan = what->plan;
    const struct redis_facts *facts = &c->seen->facts;
    c->master = facts->role == REDIS_ROLE_MASTER;
    c->offset = facts->offset;
    bool branch = strcmp(facts->replid, plan->old_replid) != 0 && facts->second_offset > 0 &&
                  (strcmp(facts->replid2, plan->old_replid) == 0 ||
                   strcmp(facts->replid2, plan->old_replid2) == 0);
    if (branch && facts->offset >= facts->second_offset) {
        c->offset = facts->second_offset - 1; /* the later history is its own */
    }
    c->lag_bytes = plan->old_offset < 0           ? -1
                   : plan->old_offset > c->offset ? plan->old_offset - c->offset
                                                  : 0;
    bool behind = config->max_lag_bytes >= 0 && c->lag_bytes > config->max_lag_bytes;
    bool cut_off =
        config->max_link_down_ms >= 0 && what->down_ms >= 0 && !c->master && !facts->link_up &&
        facts->link_down_ms >= 0 &&
        c->seen->facts_ms - facts->link_down_ms < what->down_ms - config->max_link_down_ms;
    c->held = behind || cut_off;
}

static int by_number(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Less than 0: a is the better one. */
static int candidate_choice_compare(const struct redis_config *config, const struct candidate *a,
                                    const struct candidate *b)
{
    int64_t a_latency = a->seen->latency_us < 0 ? INT64_MAX : a->seen->latency_us;
    int64_t b_latency = b->seen->latency_us < 0 ? INT64_MAX : b->seen->latency_us;
    bool latency_first = config->preference == REDIS_PREFER_LATENCY;
    int order[] = {
        by_number(a->held, b->held),
        by_number(a->master, b->master), /* its offsets may be of a branch */
        by_number(a->seen->facts.priority, b->seen->facts.priority),
        latency_first ? by_number(a_latency, b_latency) : 0,
        by_number(b->offset, a->offset),
        by_number(a->seen->failures, b->seen->failures),
        by_number(a_latency, b_latency),
        strcmp(a->seen->facts.run_id, b->seen->facts.run_id),
    };
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (order[i] != 0) {
            return order[i];
        }
    }
    return a->node - b->node;
}

static void say(const struct redis_config *config, const struct candidate *best, bool taken,
                struct redis_choice *ret)
{
    const char *address = config->nodes[best->node].address;
    const struct redis_facts *facts = &best->seen->facts;
    char lag[64] = "of unknown lag";
    if (best->lag_bytes >= 0) {
        snprintf(lag, sizeof lag, "%" PRId64 " bytes behind what is known", best->lag_bytes);
    }
    if (taken) {
        snprintf(ret->why, sizeof ret->why, "%s: priority %d, offset %" PRId64 ", %s", address,
                 facts->priority, best->offset, lag);
    } else {
        snprintf(ret->why, sizeof ret->why,
                 "held back: the best is %s, %s, its link down for %" PRId64
                 " ms: beyond the limits",
                 address, lag, facts->link_up ? 0 : facts->link_down_ms);
    }
}

void redis_choose(const struct redis_config *config, const struct redis_node *nodes,
                  const struct redis_choice_case *what, struct redis_choice *ret)
{
    struct candidate best = {.node = REDIS_NONE};
    bool loss_allowed = config->allow_data_loss || what->plan->force;
    *ret = (struct redis_choice){.node = REDIS_NONE, .lag_bytes = -1};
    for (size_t i = 0; i < config->node_count; i++) {
        struct candidate c = {.node = (int)i, .seen = &nodes[i]};
        const char *reason = excluded(config, &nodes[i], what, (int)i);
        if (reason != NULL) {
            snprintf(ret->reasons[i], sizeof ret->reasons[i], "%s", reason);
            continue;
        }
        measure(config, what, &c);
        snprintf(ret->reasons[i], sizeof ret->reasons[i],
                 "%s: priority %d, offset %" PRId64 ", %" PRId64 " bytes behind",
                 c.held ? "beyond the limits" : "not the best", c.seen->facts.priority, c.offset,
                 c.lag_bytes);
        if (best.node == REDIS_NONE || candidate_choice_compare(config, &c, &best) < 0) {
            best = c;
        }
    }
    if (best.node == REDIS_NONE) {
        size_t used = (size_t)snprintf(ret->why, sizeof ret->why, "nobody may become master:");
        for (size_t i = 0; i < config->node_count && used < sizeof ret->why; i++) {
            int more = snprintf(ret->why + used, sizeof ret->why - used, "%s %s %s",
                                i > 0 ? "," : "", config->nodes[i].address, ret->reasons[i]);
            used += more > 0 ? (size_t)more : 0;
        }
        return;
    }
    bool taken = !best.held || loss_allowed;
    say(config, &best, taken, ret);
    ret->held = !taken;
    ret->lag_bytes = best.lag_bytes;
    if (taken) {
        ret->node = best.node;
        ret->reasons[best.node][0] = '\0';
    }
}
