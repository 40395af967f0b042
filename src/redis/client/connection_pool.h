/*
 * The connections of a client: a fixed number of places, each used by one command at a time. A place keeps its connection
 * for the next command to the same server and epoch. Also the threads that run commands, for the end of the client.
 */
#ifndef REDIS_CLIENT_CONNECTION_POOL_H
#define REDIS_CLIENT_CONNECTION_POOL_H

#include "redis/client/command_target.h"
#include "redis/client/redis_socket.h"
#include "redis/client/thread_signals.h"

struct pooled_connection {
    struct redis_socket *socket; /* NULL: not connected */
    struct command_target target;
    bool busy; /* belongs to a command */
};

struct connection_pool {
    struct thread_signals signals;
    struct pooled_connection *places;
    size_t count;
    size_t running; /* commands */
    bool closing;
};

/* 0 or CONCLAVE_ENOMEM. */
int connection_pool_init(struct connection_pool *pool, size_t count) CONCLAVE_MUST_USE;
void connection_pool_finish(struct connection_pool *pool);

/* A command begins: 0, or CONCLAVE_ECLOSED. It ends by connection_pool_leave. */
int connection_pool_enter(struct connection_pool *pool) CONCLAVE_MUST_USE;
void connection_pool_leave(struct connection_pool *pool);

/* Takes a place for this target, with a standing connection to it if there is one; else connection->socket is NULL. 0,
 * CONCLAVE_ETIMEDOUT or CONCLAVE_ECLOSED. */
int connection_pool_take(struct connection_pool *pool, const struct command_target *target,
                         int64_t deadline_ns, struct pooled_connection **ret) CONCLAVE_MUST_USE;

/* Gives the place back, without its connection unless `keep`. */
void connection_pool_put(struct connection_pool *pool, struct pooled_connection *connection,
                         bool keep);

/* Lets time pass. 0; CONCLAVE_ETIMEDOUT: the deadline is earlier, it did not wait; CONCLAVE_ECLOSED. */
int connection_pool_pause(struct connection_pool *pool, int64_t pause_ms,
                          int64_t deadline_ns) CONCLAVE_MUST_USE;

bool connection_pool_is_closing(struct connection_pool *pool);

/* No further command begins; those that run are interrupted. */
void connection_pool_close(struct connection_pool *pool);

/* Waits until no command runs. 0 or CONCLAVE_ETIMEDOUT. */
int connection_pool_wait_end(struct connection_pool *pool, int64_t deadline_ns) CONCLAVE_MUST_USE;

#endif
