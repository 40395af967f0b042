/*
 * Repeating requests: conclave/retry.h has the rules.
 *
 *   queued --> on the link --error that may pass, repeats are left--> pausing --its timer--> queued
 *
 * A request that pauses keeps its frame, its timeout and its place in max_pending. A number of an exactly-once write is
 * given up: the server has refused that write, so the repetition is another one. (Where an earlier try may have been
 * carried out, the link ends instead: core_once_is_unknown.)
 */
#include "client/core/core_internal.h"

#include "base/backoff.h"

#include <assert.h>
#include <stdlib.h>

bool error_is_refusal(int error)
{
    return error == CONCLAVE_THROTTLED || error == CONCLAVE_SESSION_MOVED ||
           error == CONCLAVE_NOT_READ_ONLY || error == CONCLAVE_NEW_CONFIG_NO_QUORUM ||
           error == CONCLAVE_RECONFIG_IN_PROGRESS;
}

bool core_retry_wants(const struct core *c, const struct client_request *r, int error)
{
    if (r->repeats >= r->retry.max_repeats || r->frame == NULL || c->closing ||
        c->final_error != 0) {
        return false;
    }
    bool reads = request_only_reads(r);
    return error_is_refusal(error) ||
           (error == CONCLAVE_CONNECTION_LOSS && (reads || r->conditional)) ||
           (error == CONCLAVE_SESSION_EXPIRED && reads);
}

void core_retry_pause(struct core *c, struct client_request *r, int error)
{
    const struct conclave_retry_options *o = &r->retry;
    int64_t pause_ms = backoff_longest(o->pause_min_ms, o->pause_max_ms, r->repeats);
    assert(!r->answered && !r->again.active && r->repeats < o->max_repeats);
    r->unsure = r->unsure || (error == CONCLAVE_CONNECTION_LOSS && r->conditional);
    r->repeats++;
    r->syncing = r->syncing || r->sync_xid != 0; /* its sync must be sent again, too */
    r->sync_error = 0;
    r->xid = 0;
    r->numbered = r->kept = false;
    free(r->block); /* of a try whose answer contained the refusal */
    r->block = NULL;
    r->reply = (struct conclave_reply){0};
    list_push_back(&c->pausing, &r->link);
    core_request_enter(c, r);
    timers_add(&c->pauses, &r->again,
               c->now_ns + backoff_jitter_from(pause_ms * 1000000, prng_next(&c->prng)));
}

int core_retry_queue(struct core *c, int64_t now_ns)
{
    struct timer *t;
    while ((t = timers_expire(&c->pauses, now_ns)) != NULL) {
        struct client_request *r = CONTAINER_OF(t, struct client_request, again);
        list_remove(&r->link);
        list_push_back(&c->queued, &r->link);
    }
    return c->link == LINK_UP ? core_flush_queue(c, now_ns) : 0;
}

void core_retry_lose_session(struct core *c)
{
    LIST_FOREACH (link, &c->pausing) {
        struct client_request *r = CONTAINER_OF(link, struct client_request, link);
        if (!request_only_reads(r) || c->final_error != 0) {
            core_refuse_queued(c, r, CONCLAVE_SESSION_EXPIRED);
        }
    }
}
