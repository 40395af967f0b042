/*
 * What the client saw of its newest lost link, for conclave_client_why: when the server was heard and asked last, whether
 * the client itself ran all the time, how the link ended, and what became of the session.
 *
 * A pause is seen by the timer of the loop: it fires late. A client that has nothing else to do pings after a third of
 * its timeout, so a pause that cost the session made the timer late by two thirds of the timeout at least.
 */
#include "client/handle.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    PAUSE_PART = 3,     /* a pause of a third of the timeout explains the loss of a link */
    PAUSE_MIN_MS = 100, /* a shorter one is not noted */
    NS_PER_MS = 1000000,
};

void loss_note_turn(struct conclave_client *client, int64_t due_ns, int64_t now_ns)
{
    struct link_loss *l = &client->loss;
    int64_t late_ns = due_ns == INT64_MAX ? 0 : now_ns - due_ns;
    if (late_ns < (int64_t)PAUSE_MIN_MS * NS_PER_MS) {
        return;
    }
    /* The server has answered a request since the old one ended. */
    bool over = l->paused_until_ns <= client->core.acked_ns;
    if (over || late_ns > l->paused_ns) {
        l->paused_ns = late_ns;
        l->paused_until_ns = now_ns;
    }
    if (l->open) { /* while it looks for a server */
        int64_t ms = late_ns / NS_PER_MS;
        l->seen.paused_ms = ms > l->seen.paused_ms ? ms : l->seen.paused_ms;
    }
}

void loss_note_attempt(struct conclave_client *client)
{
    client->loss.seen.attempts += client->loss.open;
}

static enum conclave_loss_cause cause_of_link(const struct conclave_loss *seen)
{
    if (seen->paused_ms > 0 && seen->paused_ms >= seen->timeout_ms / PAUSE_PART) {
        return CONCLAVE_LOSS_PAUSED;
    }
    switch (seen->error) {
    case 0:
        return CONCLAVE_LOSS_LEFT;
    case CONCLAVE_ETIMEDOUT:
        return CONCLAVE_LOSS_SILENT;
    case CONCLAVE_EDISCONNECTED:
        return CONCLAVE_LOSS_ENDED;
    default:
        return CONCLAVE_LOSS_FAILED;
    }
}

static int64_t ms_since(int64_t at_ns, int64_t now_ns)
{
    return at_ns > 0 && now_ns > at_ns ? (now_ns - at_ns) / NS_PER_MS : 0;
}

/* A link is lost; its core still has the facts. */
static void begin_loss(struct conclave_client *client, int64_t now_ns)
{
    const struct core *core = &client->core;
    struct link_loss *l = &client->loss;
    bool paused = l->paused_until_ns > core->acked_ns;
    l->seen = (struct conclave_loss){
        .session_id = core->session_id,
        .timeout_ms = client_timeout_ms(client),
        .heard_ms = ms_since(core->recv_ns, now_ns),
        .asked_ms = ms_since(core->sent_ns, now_ns),
        .paused_ms = paused ? l->paused_ns / NS_PER_MS : 0,
        .error = core->link_error,
    };
    snprintf(l->seen.server, sizeof l->seen.server, "%s", client->server);
    l->seen.cause = cause_of_link(&l->seen);
    l->lost_ns = now_ns;
    l->open = true;
}

/* The session is over. */
static void end_loss(struct conclave_client *client, int64_t now_ns)
{
    struct link_loss *l = &client->loss;
    if (!l->open) { /* it was one to resume */
        l->seen = (struct conclave_loss){.cause = CONCLAVE_LOSS_RESUME,
                                         .session_id = client->core.options.session_id};
        l->lost_ns = now_ns;
    } else if (l->seen.paused_ms >= l->seen.timeout_ms / PAUSE_PART) {
        l->seen.cause = CONCLAVE_LOSS_PAUSED; /* also one that came after the end of the link */
    }
    l->open = false;
    l->seen.session_lost = true;
    l->seen.refused = client->core.session_refused;
    l->seen.error = l->seen.error != 0 ? l->seen.error : CONCLAVE_SESSION_EXPIRED;
    handle_problems(client, l->seen.problems, sizeof l->seen.problems);
    assert(l->seen.cause != CONCLAVE_LOSS_NONE);
}

void loss_note_state(struct conclave_client *client, enum conclave_state state, int64_t now_ns)
{
    if (state == CONCLAVE_STATE_SUSPENDED) {
        begin_loss(client, now_ns);
    } else if (state == CONCLAVE_STATE_LOST) {
        end_loss(client, now_ns);
    } else if (state_is_attached(state) && client->loss.open) {
        client->loss.open = false;
        handle_problems(client, client->loss.seen.problems, sizeof client->loss.seen.problems);
    }
}

/* --- words ------------------------------------------------------------------------------------ */

/* "11.2 s" */
static const char *seconds(int64_t ms, char buf[32])
{
    int64_t tenths = (ms + 50) / 100;
    snprintf(buf, 32, "%" PRId64 ".%" PRId64 " s", tenths / 10, tenths % 10);
    return buf;
}

static int cause_text(const struct conclave_loss *l, char *buf, size_t len)
{
    char time[32];
    const char *server = l->server[0] != '\0' ? l->server : "the server";
    switch (l->cause) {
    case CONCLAVE_LOSS_PAUSED:
        return snprintf(buf, len,
                        "this client did not run for %s or more: its process was paused, its loop "
                        "was busy, or its machine was overloaded",
                        seconds(l->paused_ms, time));
    case CONCLAVE_LOSS_SILENT:
        return snprintf(buf, len,
                        "%s sent nothing for %s although it was asked: it stood still, or the "
                        "network was cut",
                        server, seconds(l->heard_ms, time));
    case CONCLAVE_LOSS_ENDED:
        return snprintf(buf, len, "%s ended the connection, %s after it had sent something", server,
                        seconds(l->heard_ms, time));
    case CONCLAVE_LOSS_LEFT:
        return snprintf(buf, len, "this client left %s for another server", server);
    case CONCLAVE_LOSS_RESUME:
        return snprintf(buf, len, "no link of this client had the session");
    default:
        return snprintf(buf, len, "the connection to %s failed: %s", server,
                        conclave_strerror(l->error));
    }
}

void loss_text(const struct conclave_loss *l, char *buf, size_t len)
{
    char time[32];
    int used = cause_text(l, buf, len);
    if (!l->session_lost || used < 0 || (size_t)used >= len) {
        return;
    }
    buf += used;
    len -= (size_t)used;
    if (l->refused) {
        snprintf(buf, len, "; a server then said that the session is over");
    } else {
        snprintf(buf, len,
                 "; no server could be reached within the session's timeout of %s (%" PRId64
                 " attempts%s%s)",
                 seconds(l->timeout_ms, time), l->attempts, l->problems[0] != '\0' ? ": " : "",
                 l->problems);
    }
}
