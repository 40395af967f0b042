/*
 * What the library's threads tell the main thread of `conclave elect`: kept under the lock, then
 * it is woken. Only on_revoked does more: it stops the child through the guardian and returns when
 * nothing of the child is left, because the library removes the candidate's node, and so lets the
 * next one lead, when it has returned.
 */
#include "cli/elect_machine.h"

#include "base/clock.h"

#include <signal.h>

void elect_on_state(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    struct elect_run *r = ctx;
    (void)client;
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

static int on_elected(struct conclave_election *election, struct conclave_token token, bool regrant,
                      void *ctx)
{
    struct elect_run *r = ctx;
    (void)regrant;
    pthread_mutex_lock(&r->lock);
    r->news.elected = true;
    r->news.token = token.czxid;
    lease_page_write(&r->page, LEASE_LEADING, conclave_election_lease_until_ns(election),
                     token.czxid);
    pthread_mutex_unlock(&r->lock);
    waiter_wake(&r->waiter);
    return 0;
}

static void on_revoked(struct conclave_election *election, int why, int64_t stop_within_ms,
                       void *ctx)
{
    struct elect_run *r = ctx;
    (void)election;
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
    while (!r->child_gone) {
        pthread_cond_wait(&r->child_gone_cond, &r->lock);
    }
    pthread_mutex_unlock(&r->lock);
}

static void on_closed(struct conclave_election *election, int why, void *ctx)
{
    struct elect_run *r = ctx;
    (void)election;
    pthread_mutex_lock(&r->lock);
    r->news.closed = true;
    r->news.closed_why = why;
    pthread_mutex_unlock(&r->lock);
    waiter_wake(&r->waiter);
}

const struct conclave_election_callbacks ELECT_CALLBACKS = {
    .on_elected = on_elected,
    .on_revoked = on_revoked,
    .on_closed = on_closed,
};

struct elect_news elect_news_read(struct elect_run *r)
{
    pthread_mutex_lock(&r->lock);
    struct elect_news news = r->news;
    pthread_mutex_unlock(&r->lock);
    return news;
}

void elect_child_is_gone(struct elect_run *r)
{
    pthread_mutex_lock(&r->lock);
    r->child_gone = true;
    pthread_cond_broadcast(&r->child_gone_cond);
    pthread_mutex_unlock(&r->lock);
    r->child = 0;
}
