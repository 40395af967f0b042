/* Keeps the reports of other managers, and counts votes. */
#include "redis/planner/down_vote.h"

#include <conclave/error.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define STALE_PERIODS 3
#define LEAD_MAX_MS 3600000

const struct redis_manager_view *redis_managers_find(const struct redis_managers *managers,
                                                     const char *id)
{
    for (size_t i = 0; i < managers->count; i++) {
        if (strcmp(managers->views[i].report.id, id) == 0) {
            return &managers->views[i];
        }
    }
    return NULL;
}

static struct redis_manager_view *down_vote_place(struct redis_managers *managers, const char *id)
{
    const struct redis_manager_view *found = redis_managers_find(managers, id);
    return found == NULL ? NULL : &managers->views[found - managers->views];
}

int64_t redis_lead_until_ms(const struct redis_manager_view *view, int64_t since_ms)
{
    if (view == NULL || view->report.lead_ms <= 0 || view->report.lead_ms > LEAD_MAX_MS) {
        return INT64_MAX;
    }
    int64_t last_ms = view->changed_ms > since_ms ? view->changed_ms : since_ms;
    return last_ms + view->report.lead_ms * 5 / 4; /* clocks may differ in speed */
}

int redis_managers_saw(struct redis_managers *managers, const struct redis_report *report,
                       int64_t now_ms)
{
    struct redis_manager_view *view = down_vote_place(managers, report->id);
    if (managers->own[0] != '\0' && strcmp(report->incarnation, managers->own) == 0) {
        return 0;
    }
    if (view == NULL) {
        if (managers->count == REDIS_MANAGERS_MAX) {
            return CONCLAVE_ETOOMANY;
        }
        view = &managers->views[managers->count++];
        *view = (struct redis_manager_view){.fresh_once = false, .changed_ms = now_ms};
    } else if (strcmp(view->report.incarnation, report->incarnation) != 0) {
        /* A process that was restarted made this report itself. Its numbers start again. */
        view->fresh_once = true;
        view->changed_ms = now_ms;
    } else if (view->report.seq != report->seq) {
        view->fresh_once = true;
        view->changed_ms = now_ms;
    }
    view->report = *report;
    return 0;
}

void redis_managers_gone(struct redis_managers *managers, const char *id)
{
    struct redis_manager_view *view = down_vote_place(managers, id);
    if (view != NULL) {
        assert(managers->count > 0);
        *view = managers->views[--managers->count];
    }
}

bool redis_manager_is_fresh(const struct redis_manager_view *view,
                            const struct redis_config *config, int64_t now_ms)
{
    return view->fresh_once && now_ms - view->changed_ms <= STALE_PERIODS * config->period_ms;
}

int redis_managers_fresh(const struct redis_managers *managers, const struct redis_config *config,
                         int64_t now_ms)
{
    int fresh = 1;
    for (size_t i = 0; i < managers->count; i++) {
        fresh += redis_manager_is_fresh(&managers->views[i], config, now_ms) ? 1 : 0;
    }
    return fresh;
}

static void count(struct redis_verdict *verdict, enum redis_node_state state)
{
    verdict->down += state == REDIS_NODE_DOWN ? 1 : 0;
    verdict->up += state == REDIS_NODE_UP ? 1 : 0;
}

/* More than half of the master's replicas that answer say that their link to it is down. */
static bool replicas_say_down(const struct redis_config *config, const struct redis_node *own,
                              int master, int64_t now_ms)
{
    int asked = 0;
    int down = 0;
    for (size_t i = 0; i < config->node_count; i++) {
        const struct redis_node *node = &own[i];
        bool answers = node->state == REDIS_NODE_UP && node->facts_ms >= 0 &&
                       now_ms - node->facts_ms <= STALE_PERIODS * config->period_ms;
        if ((int)i != master && answers && node->facts.role == REDIS_ROLE_REPLICA &&
            redis_config_find(config, node->facts.master) == master) {
            asked++;
            down += node->facts.link_up ? 0 : 1;
        }
    }
    return asked > 0 && down * 2 > asked;
}

static bool enough_say_down(const struct redis_config *config, const struct redis_verdict *v)
{
    switch (config->strategy) {
    case REDIS_STRATEGY_CONSENSUS:
        return v->down == v->fresh;
    case REDIS_STRATEGY_SINGLE:
        return v->down > 0;
    default: /* more managers than configured do not make it easier */
        return v->down * 2 > (v->fresh > config->managers ? v->fresh : config->managers);
    }
}

static void down_vote_judge(const struct redis_config *config, const struct redis_node *own,
                            int node, int master, int64_t now_ms, bool decidable,
                            struct redis_verdict *v)
{
    int managers = (int)config->managers;
    const char *name = config->nodes[node].address;
    enum redis_node_state mine = own[node].state;
    assert(v->down + v->up <= v->fresh);
    bool down = enough_say_down(config, v);
    v->since_ms = mine == REDIS_NODE_UP ? -1 : own[node].failing_ms;
    if (down && !decidable) {
        snprintf(v->why, sizeof v->why,
                 "%s: %d say down, but only %d managers report of the %d that are needed", name,
                 v->down, v->fresh, redis_config_required(config));
    } else if (down && config->strategy == REDIS_STRATEGY_MAJORITY && mine != REDIS_NODE_DOWN &&
               !(node == master && replicas_say_down(config, own, master, now_ms))) {
        snprintf(v->why, sizeof v->why,
                 "%s: %d of %d managers say down, but neither this one nor its replicas do", name,
                 v->down, managers);
    } else if (down) {
        v->kind = REDIS_VERDICT_DOWN;
        snprintf(v->why, sizeof v->why, "%s: %d of %d managers say down (%d report)", name, v->down,
                 managers, v->fresh);
    } else if (mine == REDIS_NODE_UP) {
        v->kind = REDIS_VERDICT_UP;
        snprintf(v->why, sizeof v->why, "%s is up", name);
    } else {
        snprintf(v->why, sizeof v->why, "%s: %s here; %d of %d managers say down (%d report)", name,
                 redis_node_state_name(mine), v->down, managers, v->fresh);
    }
}

bool redis_verdicts(const struct redis_managers *managers, const struct redis_config *config,
                    const struct redis_node *own, int master, int64_t now_ms,
                    struct redis_verdict *ret)
{
    int fresh = redis_managers_fresh(managers, config, now_ms);
    bool decidable = fresh >= redis_config_required(config);
    for (size_t i = 0; i < config->node_count; i++) {
        ret[i] = (struct redis_verdict){.kind = REDIS_VERDICT_UNDECIDED, .fresh = fresh};
        count(&ret[i], own[i].state);
    }
    for (size_t m = 0; m < managers->count; m++) {
        const struct redis_manager_view *view = &managers->views[m];
        if (!redis_manager_is_fresh(view, config, now_ms)) {
            continue;
        }
        uint32_t counted = 0; /* a report that names a node twice has one vote for it */
        for (size_t n = 0; n < view->report.node_count; n++) {
            int node = redis_config_find(config, view->report.nodes[n].address);
            if (node != REDIS_NONE && (counted & (1U << node)) == 0) {
                counted |= 1U << node;
                count(&ret[node], view->report.nodes[n].state);
            }
        }
    }
    for (size_t i = 0; i < config->node_count; i++) {
        down_vote_judge(config, own, (int)i, master, now_ms, decidable, &ret[i]);
    }
    return decidable;
}
