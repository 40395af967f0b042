#include "redis/sentinel/sentinel_events.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_MAX = 1600 };

struct look {
    struct sentinel_seen *seen;
    const struct sentinel_facts *facts;
    sentinel_event_fn fn;
    void *ctx;
    struct redis_node_config master; /* of the record; host "" for none */
};

static void tell(struct look *l, const char *channel, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void tell(struct look *l, const char *channel, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (l->seen->begun) {
        l->fn(l->ctx, channel, message);
    }
}

static void address_split(const char *address, struct redis_node_config *ret)
{
    if (redis_address_parse(address, strlen(address), ret) != 0) {
        *ret = (struct redis_node_config){.port = 0};
    }
}

/* "master NAME IP PORT", or "slave IP:PORT IP PORT @ NAME IP PORT" with the master at its end. */
static void tell_server(struct look *l, const char *channel, const char *address, const char *more)
{
    const struct sentinel_facts *facts = l->facts;
    struct redis_node_config at;
    address_split(address, &at);
    if (facts->current != NULL && strcmp(address, facts->current->master) == 0) {
        tell(l, channel, "master %s %s %d%s", facts->name, at.host, at.port, more);
    } else {
        tell(l, channel, "slave %s %s %d @ %s %s %d%s", at.address, at.host, at.port, facts->name,
             l->master.host, l->master.port, more);
    }
}

static void look_servers(struct look *l)
{
    const struct sentinel_facts *facts = l->facts;
    for (int i = 0; i < (int)facts->config->node_count; i++) {
        uint32_t bit = UINT32_C(1) << i;
        bool down = sentinel_s_down(facts, i);
        if (down != ((l->seen->s_down & bit) != 0)) {
            tell_server(l, down ? "+sdown" : "-sdown", facts->config->nodes[i].address, "");
            l->seen->s_down ^= bit;
        }
    }
}

static void look_o_down(struct look *l)
{
    const struct sentinel_facts *facts = l->facts;
    char quorum[64] = "";
    bool known =
        facts->in_contact && facts->current != NULL; /* the record may be deleted by hand */
    bool down = known ? sentinel_o_down(facts) : l->seen->o_down;
    if (down == l->seen->o_down) {
        return;
    }
    if (down) {
        int required = redis_config_required(facts->config);
        snprintf(quorum, sizeof quorum, " #quorum %d/%d",
                 redis_managers_fresh(facts->managers, facts->config, facts->now_ms), required);
    }
    tell_server(l, down ? "+odown" : "-odown", facts->current->master, quorum);
    l->seen->o_down = down;
}

static void look_plan(struct look *l)
{
    struct sentinel_seen *seen = l->seen;
    const struct redis_plan *plan = l->facts->plan;
    if (plan != NULL && strcmp(plan->id, seen->plan) != 0) {
        snprintf(seen->plan, sizeof seen->plan, "%s", plan->id);
        seen->target[0] = '\0';
        tell(l, "+new-epoch", "%lld", (long long)plan->epoch);
        tell_server(l, "+try-failover", plan->old, "");
    }
    if (plan != NULL && plan->target[0] != '\0' && strcmp(plan->target, seen->target) != 0) {
        snprintf(seen->target, sizeof seen->target, "%s", plan->target);
        tell_server(l, "+selected-slave", plan->target, "");
    }
}

static void look_master(struct look *l)
{
    struct sentinel_seen *seen = l->seen;
    struct redis_node_config old;
    struct redis_node_config next;
    const char *master = l->facts->writable ? sentinel_named_master(l->facts) : NULL;
    if (master == NULL || strcmp(master, seen->master) == 0) {
        return;
    }
    address_split(master, &next);
    if (seen->master[0] != '\0') {
        address_split(seen->master, &old);
        tell(l, "+switch-master", "%s %s %d %s %d", l->facts->name, old.host, old.port, next.host,
             next.port);
        seen->replicas = 0; /* Sentinel reports all replicas of a new master */
    }
    snprintf(seen->master, sizeof seen->master, "%s", master);
}

static void look_replicas(struct look *l)
{
    const struct sentinel_facts *facts = l->facts;
    uint32_t listed = 0;
    for (int i = 0; i < (int)facts->config->node_count; i++) {
        uint32_t bit = UINT32_C(1) << i;
        listed |= sentinel_is_replica(facts, i) ? bit : 0;
        if ((listed & bit & ~l->seen->replicas) != 0) {
            tell_server(l, "+slave", facts->config->nodes[i].address, "");
        }
    }
    l->seen->replicas = listed;
}

static void look_plan_end(struct look *l)
{
    if (l->facts->plan == NULL && l->seen->plan[0] != '\0' && l->facts->in_contact &&
        l->facts->current != NULL) {
        tell_server(l, "+failover-end", l->facts->current->master, "");
        l->seen->plan[0] = '\0';
        l->seen->target[0] = '\0';
    }
}

static void look_peers(struct look *l)
{
    struct sentinel_seen *seen = l->seen;
    const struct redis_managers *managers = l->facts->managers;
    for (size_t i = 0; i < managers->count; i++) {
        const struct redis_report *report = &managers->views[i].report;
        struct redis_node_config at;
        char id[SENTINEL_ID_SIZE];
        size_t place = 0;
        while (place < seen->peer_count && strcmp(seen->peers[place], report->sentinel) != 0) {
            place++;
        }
        if (place < seen->peer_count || !sentinel_peer(report, &at)) {
            continue;
        }
        if (seen->peer_count == REDIS_MANAGERS_MAX) { /* forgets the oldest */
            memmove(seen->peers[0], seen->peers[1], sizeof seen->peers - sizeof seen->peers[0]);
            seen->peer_count--;
        }
        memcpy(seen->peers[seen->peer_count++], report->sentinel, REDIS_ADDRESS_SIZE);
        sentinel_id_of(l->facts->name, report->id, id);
        tell(l, "+sentinel", "sentinel %s %s %d @ %s %s %d", id, at.host, at.port, l->facts->name,
             l->master.host, l->master.port);
    }
}

void sentinel_events_look(struct sentinel_seen *seen, const struct sentinel_facts *facts,
                          sentinel_event_fn fn, void *ctx)
{
    struct look l = {.seen = seen, .facts = facts, .fn = fn, .ctx = ctx};
    assert(facts->config->node_count <= REDIS_NODES_MAX);
    address_split(facts->current != NULL ? facts->current->master : "", &l.master);
    if (facts->in_contact != seen->in_contact) {
        seen->in_contact = facts->in_contact;
        tell(&l, facts->in_contact ? "-tilt" : "+tilt", "#tilt mode %s",
             facts->in_contact ? "exited" : "entered");
    }
    look_servers(&l);
    look_o_down(&l);
    look_plan(&l);
    look_master(&l);
    look_replicas(&l);
    look_plan_end(&l);
    look_peers(&l);
    seen->begun = true;
}
