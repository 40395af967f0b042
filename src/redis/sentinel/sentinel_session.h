/*
 * One client of Sentinel's protocol, without its socket: bytes in, answers out. It knows the client's version of the
 * protocol, whether it has logged in, and its subscriptions.
 *
 * Answers come in the order of the requests. A request for a fail-over is answered when it is stored; until then the session
 * takes no further bytes. An HTTP request gets one answer and ends the session. A line that begins with POST or Host: ends
 * it without an answer, as in Redis: a web page can make a browser send such lines, and commands behind them.
 *
 * Limits: those of sentinel_request.h; SENTINEL_CHANNELS_MAX subscriptions of SENTINEL_CHANNEL_MAX bytes; the
 * SENTINEL_TRIES_MAX-th wrong password ends the session.
 */
#ifndef REDIS_SENTINEL_SENTINEL_SESSION_H
#define REDIS_SENTINEL_SENTINEL_SESSION_H

#include "redis/sentinel/sentinel_facts.h"
#include "redis/sentinel/sentinel_out.h"
#include "redis/sentinel/sentinel_users.h"

enum {
    SENTINEL_CHANNELS_MAX = 64,
    SENTINEL_CHANNEL_MAX = 128,
    SENTINEL_ANSWERS_MAX = 32 * 1024,
    SENTINEL_TURN_REQUESTS = 4, /* requests that are answered at once */
    SENTINEL_TRIES_MAX = 3,     /* wrong passwords */
};

/* What sessions ask of the manager. */
struct sentinel_backend {
    void (*facts)(void *ctx, struct sentinel_facts *ret);
    /* Stores a request for a fail-over; sentinel_session_requested follows with this id, not before this returns. 0 or an
     * error. */
    int (*failover)(void *ctx, uint64_t session_id);
    const struct sentinel_users *users; /* NULL: nobody logs in */
    bool failover_allowed;
    void *ctx;
};

enum sentinel_session_state {
    SENTINEL_OPEN,
    SENTINEL_WAITING, /* for sentinel_session_requested */
    SENTINEL_OVER,    /* send what was written, then close the connection */
};

struct sentinel_session {
    const struct sentinel_backend *backend;
    uint64_t id;
    enum sentinel_session_state state;
    const char *refusal; /* the session is over because of this, for the log; NULL: no */
    bool resp3;
    bool logged_in;
    unsigned wrong_tries; /* to log in */
    unsigned answered;    /* requests of the last sentinel_session_take */
    bool has_name;
    char name[SENTINEL_CHANNEL_MAX]; /* by CLIENT SETNAME */
    size_t channel_count;
    struct sentinel_channel {
        bool pattern;
        uint8_t len;
        uint8_t text[SENTINEL_CHANNEL_MAX];
    } * channels; /* NULL: none */
};

/* id: not 0, unique among the sessions. */
void sentinel_session_init(struct sentinel_session *s, const struct sentinel_backend *backend,
                           uint64_t id);
void sentinel_session_finish(struct sentinel_session *s);

/* Answers the whole requests of bytes into out, which records a failure: at most SENTINEL_TURN_REQUESTS, and until out has
 * SENTINEL_ANSWERS_MAX bytes. Returns the number of bytes it took. */
size_t sentinel_session_take(struct sentinel_session *s, struct slice bytes, struct buf *out);

/* The outcome of the stored request: 0 or an error. */
void sentinel_session_requested(struct sentinel_session *s, int error, struct buf *out);

/* An event: appends it once for each subscription that it matches. */
void sentinel_session_publish(const struct sentinel_session *s, const char *channel,
                              const char *message, struct buf *out);

/* Whether a text matches a pattern: "*", "?", "[a-z]", "[^a]", and "\" before a character that means itself. */
bool sentinel_pattern_matches(struct slice pattern, struct slice text);

#endif
