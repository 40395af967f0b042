/*
 * One connection to a Redis server on a libuv loop: it sends commands and delivers their answers in order. It connects
 * (TCP, TLS, AUTH) when there is something to send, and again after a loss; it never blocks.
 *
 * Every command is answered exactly once, not before the call that sent it returns. A command that misses its deadline
 * ends the connection, and all others that wait: later answers could not be assigned to commands. The time to connect
 * counts against the deadline of the commands that wait for it. Pushed messages are dropped: they come only after
 * SUBSCRIBE, and a link in SUBSCRIBE serves only to notice its end.
 *
 * Limits: an answer of REDIS_ANSWER_MAX bytes or REDIS_ANSWER_ITEMS items ends the connection.
 */
#ifndef REDIS_MANAGER_REDIS_CONNECTION_H
#define REDIS_MANAGER_REDIS_CONNECTION_H

#include "net/stream.h"
#include "redis/records/server_state.h"

enum {
    REDIS_ANSWER_MAX = 4 * 1024 * 1024,
    REDIS_ANSWER_ITEMS = 1024,
};

/* How to log in to servers; borrowed by the links. The password is sent to servers only. */
struct redis_access {
    const char *user;        /* NULL: AUTH with a password alone */
    const char *password;    /* NULL: no AUTH */
    struct tls_context *tls; /* NULL: without TLS */
    bool tls_any_name;       /* the certificate's name is not compared with the host */
};

struct redis_answer {
    /* OK: the server answered without an error; LOADING to ERROR: with one; else: no answer. NONE: the owner closed the
     * link */
    enum redis_probe outcome;
    /* the string, the status, the error, or what is wrong; "" for other answers; with NUL; never NULL */
    const char *text;
    size_t len;
    int64_t sent_ms;    /* when the command was given to the link (redis_link_now_ms) */
    int64_t latency_us; /* from sending, after connecting, to the answer; -1 without one */
};

/* The answer is valid until this returns. The callee may send, drop and close. */
typedef void (*redis_answer_fn)(void *ctx, const struct redis_answer *answer);

struct redis_link_settings {
    uv_loop_t *loop;
    struct stream_buffer *read_buffer; /* shared */
    const struct redis_access *access; /* outlives the link */
    const char *host;
    int port;
    int64_t silence_ms; /* TCP_USER_TIMEOUT, and keep-alive within about that time */
    /* A ready connection ended while no command waited for an answer. May be NULL. */
    void (*on_cut)(void *ctx, enum redis_probe why, const char *text);
    void *ctx;
};

struct redis_link;

/* Does not connect yet. 0 or CONCLAVE_ENOMEM, CONCLAVE_EINVAL (host too long). */
int redis_link_create(const struct redis_link_settings *settings,
                      struct redis_link **ret) CONCLAVE_MUST_USE;

/* 0; CONCLAVE_ENOMEM: fn is never called. */
int redis_link_send(struct redis_link *link, int argc, const char *const *argv, int64_t timeout_ms,
                    redis_answer_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Ends the connection; commands that wait are answered CUT soon. The next command connects again. */
void redis_link_drop(struct redis_link *link);

/* Whether a command waits for its answer. */
bool redis_link_waits(const struct redis_link *link);

/* Whether it is connected and logged in. */
bool redis_link_stands(const struct redis_link *link);

/* The IP address at the other end of a ready connection; "" without one. */
const char *redis_link_peer(const struct redis_link *link);

/* This machine's address on a ready connection. False: it is not ready. */
bool redis_link_local(const struct redis_link *link, struct net_address *ret);

/* Commands that wait are answered NONE, then closed (may be NULL) is called from the loop. */
void redis_link_close(struct redis_link *link, void (*closed)(void *ctx), void *ctx);

/* Milliseconds of the monotonic clock that this room uses. */
int64_t redis_link_now_ms(void);

#endif
