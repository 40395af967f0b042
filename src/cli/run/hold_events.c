/*
 * Keeps the reports of the library's threads under the lock, then wakes the main thread. Only hold_revoked does more:
 * it stops the child through the guardian and returns when nothing of the child is left, because the library then
 * removes our node and lets the next contender in.
 */
#include "cli/run/hold_command.h"

#include "base/clock.h"

#include <assert.h>
#include <signal.h>

void hold_on_state(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    struct hold *r = ctx;
    pthread_mutex_lock(&r->lock);
    if (state == CONCLAVE_STATE_CONNECTED || state == CONCLAVE_STATE_NEW_SESSION ||
        state == CONCLAVE_STATE_RECONNECTED) {
        r->news.connected = true;
    } else if (state == CONCLAVE_STATE_AUTH_FAILED) {
        r->news.auth_failed = true;
    }
    pthread_mutex_unlock(&r->lock);
    waiter_wake(&r->waiter);
}

void hold_granted(struct hold *r, int64_t token, int64_t until_ns)
{
    pthread_mutex_lock(&r->lock);
    assert(!r->news.closed && token != 0);
    r->news.granted = true;
    r->news.revoked = false; /* of a term that was never reported */
    r->news.token = token;
    lease_page_write(&r->page, LEASE_LEADING, until_ns, token);
    pthread_mutex_unlock(&r->lock);
    waiter_wake(&r->waiter);
}

void hold_failed(struct hold *r, int why)
{
    pthread_mutex_lock(&r->lock);
    r->news.failed = true;
    r->news.failed_why = why;
    pthread_mutex_unlock(&r->lock);
    waiter_wake(&r->waiter);
}

void hold_answered(struct hold *r, int error, int64_t token, int64_t until_ns)
{
    if (error == 0) {
        hold_granted(r, token, until_ns);
    } else {
        hold_failed(r, error);
    }
}

void hold_revoked(struct hold *r, int why, int64_t stop_within_ms)
{
    pthread_mutex_lock(&r->lock);
    int64_t within = stop_within_ms < r->grace_ms ? stop_within_ms : r->grace_ms;
    struct supervisor_request stop = {.ask = SUPERVISOR_STOP};
    stop.kill_at_ns = clock_monotonic_ns(clock_system()) + within * 1000000;
    r->news.revoked = true;
    r->news.revoked_why = why;
    r->news.kill_at_ns = stop.kill_at_ns;
    lease_page_write(&r->page, LEASE_REVOKED, 0, r->news.token);
    waiter_wake(&r->waiter);
    if (!r->child_gone) {
        guardian_send(&r->guardian, &stop);
        if (r->guardian.pid != 0) {
            kill(r->guardian.pid, SIGCONT); /* should somebody have stopped it */
        }
    }
    while (!r->child_gone || (r->options->lasting && r->news.granted)) {
        pthread_cond_wait(&r->child_gone_cond, &r->lock);
    }
    pthread_mutex_unlock(&r->lock);
}

void hold_term_over(struct hold *r)
{
    pthread_mutex_lock(&r->lock);
    r->news.granted = false;
    r->news.revoked = false;
    pthread_cond_broadcast(&r->child_gone_cond);
    pthread_mutex_unlock(&r->lock);
}

bool hold_certain(struct hold *r)
{
    pthread_mutex_lock(&r->lock);
    bool certain = !r->doubtful;
    pthread_mutex_unlock(&r->lock);
    return certain;
}

void hold_closed(struct hold *r, int why)
{
    pthread_mutex_lock(&r->lock);
    assert(!r->news.closed);
    r->news.closed = true;
    r->news.closed_why = why;
    pthread_mutex_unlock(&r->lock);
    waiter_wake(&r->waiter);
}

const char *hold_lost_text(const struct hold *r, const struct hold_news *news)
{
    const struct hold_kind *kind = r->options->kind;
    bool handed_over = news->revoked && news->revoked_why == CONCLAVE_ECANCELED;
    return handed_over && kind->handed_over != NULL ? kind->handed_over : kind->lost;
}

struct hold_news hold_news_read(struct hold *r)
{
    pthread_mutex_lock(&r->lock);
    struct hold_news news = r->news;
    pthread_mutex_unlock(&r->lock);
    return news;
}

void hold_child_is_gone(struct hold *r)
{
    pthread_mutex_lock(&r->lock);
    assert(r->options->command != NULL);
    r->child_gone = true;
    pthread_cond_broadcast(&r->child_gone_cond);
    pthread_mutex_unlock(&r->lock);
    r->child = 0;
}
