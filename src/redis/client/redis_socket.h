/*
 * One connection to a Redis server: connecting, TLS, log-in, one command after the other. It blocks, but never beyond a
 * deadline, and asks its owner meanwhile whether to go on. For one thread at a time.
 */
#ifndef REDIS_CLIENT_REDIS_SOCKET_H
#define REDIS_CLIENT_REDIS_SOCKET_H

#include "base/buf.h"
#include "tls/context.h"

#include <conclave/redis_client.h>

enum { REDIS_PROBLEM_MAX = 256 };

/* How to log in; borrowed by the connections. */
struct redis_credentials {
    char *user;              /* NULL: AUTH with the password alone */
    char *password;          /* NULL: no AUTH */
    int database;            /* 0: no SELECT */
    struct tls_context *tls; /* NULL: without TLS */
    bool tls_any_name;
    size_t reply_max; /* bytes */
};

/* How long to wait. */
struct redis_patience {
    int64_t deadline_ns;    /* clock_monotonic_ns */
    int (*stop)(void *ctx); /* asked again and again while nothing comes: an error ends the wait */
    void *ctx;
};

struct redis_socket;

/* Connects and logs in. 0, or an error and one line in `why`: CONCLAVE_ETIMEDOUT, CONCLAVE_ERESOLVE,
 * CONCLAVE_EDISCONNECTED, CONCLAVE_ETLS, CONCLAVE_AUTH_FAILED, CONCLAVE_EPROTO, CONCLAVE_ENOMEM, or what `stop` returned. */
int redis_socket_open(const struct redis_credentials *credentials, const char *host, int port,
                      const struct redis_patience *patience, struct redis_socket **ret,
                      char why[REDIS_PROBLEM_MAX]) CONCLAVE_MUST_USE;

/* NULL does nothing. */
void redis_socket_close(struct redis_socket *s);

/* Whether an unused connection still stands, and the server has said nothing unasked. */
bool redis_socket_is_quiet(const struct redis_socket *s);

/* Sends bytes. *ret_sent: whether a part of them may have arrived. After an error the connection is of no use. */
int redis_socket_send(struct redis_socket *s, struct slice bytes,
                      const struct redis_patience *patience, bool *ret_sent) CONCLAVE_MUST_USE;

/* Waits for the next reply. After an error the connection is of no use. */
int redis_socket_receive(struct redis_socket *s, const struct redis_patience *patience,
                         struct conclave_redis_reply **ret) CONCLAVE_MUST_USE;

/* Sends a command of strings and waits for its reply. */
int redis_socket_ask(struct redis_socket *s, int argc, const char *const *argv,
                     const struct redis_patience *patience,
                     struct conclave_redis_reply **ret) CONCLAVE_MUST_USE;

/* Appends a command in Redis' protocol. 0, CONCLAVE_ETOOBIG or CONCLAVE_ENOMEM. */
int redis_command_write(struct buf *out, int argc, const char *const *argv,
                        const size_t *lens) CONCLAVE_MUST_USE;

#endif
