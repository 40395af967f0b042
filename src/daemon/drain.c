#include "daemon/drain.h"

#include "base/log.h"
#include "front/connection.h"
#include "front/service.h"

#include <assert.h>

enum { STEP_MS = 100, RESIGN_AGAIN_MS = 2000 };

void drain_begin(struct drain *d, struct service *s, int64_t now_ms, int64_t within_ms)
{
    assert(within_ms >= 0 && within_ms <= DRAIN_WITHIN_MAX_MS);
    if (!d->on) {
        log_always("server", "drain",
                   "clients=%zu text=\"an operator empties this server before a restart\"",
                   map_count(&s->by_session));
    }
    *d = (struct drain){
        .on = true, .until_ms = now_ms + within_ms, .next_ms = now_ms, .resign_ms = now_ms};
    s->standing.drained = true;
}

void drain_end(struct drain *d, struct service *s)
{
    if (d->on) {
        log_always("server", "drain-undone", "clients=%zu", map_count(&s->by_session));
    }
    *d = (struct drain){.on = false};
    s->standing.drained = false;
}

/* Sends away as many of the clients that stay as are due in this step. */
static void drain_clients(const struct drain *d, struct service *s, int64_t now_ms)
{
    int64_t steps = d->until_ms > now_ms ? (d->until_ms - now_ms + STEP_MS - 1) / STEP_MS : 1;
    size_t stay = 0;
    for (struct map_node *n = map_next(&s->by_session, NULL); n != NULL;
         n = map_next(&s->by_session, n)) {
        stay += !CONTAINER_OF(n, struct connection, by_id)->sent_away;
    }
    size_t due = (stay + (size_t)steps - 1) / (size_t)steps;
    assert(due <= stay);
    for (struct map_node *n = map_next(&s->by_session, NULL); n != NULL && due > 0;
         n = map_next(&s->by_session, n)) {
        struct connection *c = CONTAINER_OF(n, struct connection, by_id);
        if (!c->sent_away) {
            connection_send_away(c);
            due--;
        }
    }
}

bool drain_tick(struct drain *d, struct service *s, bool leads, int64_t now_ms)
{
    if (!d->on || now_ms < d->next_ms) {
        return false;
    }
    d->next_ms = now_ms + STEP_MS;
    bool resign = leads && now_ms >= d->resign_ms;
    if (resign) {
        d->resign_ms = now_ms + RESIGN_AGAIN_MS;
    }
    drain_clients(d, s, now_ms);
    return resign;
}

int64_t drain_deadline(const struct drain *d)
{
    return d->on ? d->next_ms : INT64_MAX;
}
