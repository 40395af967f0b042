/*
 * The server for a command: the master, as the follower of the record knows it, or a replica, by the managers' reports.
 * Any thread.
 */
#ifndef REDIS_CLIENT_COMMAND_TARGET_H
#define REDIS_CLIENT_COMMAND_TARGET_H

#include "redis/client/thread_signals.h"

#include <conclave/redis.h>

enum { TARGET_HOST_MAX = 256, TARGET_SERVER_MAX = TARGET_HOST_MAX + 16 };

struct command_target {
    char server[TARGET_SERVER_MAX]; /* "host:port" */
    char host[TARGET_HOST_MAX];
    int port;
    int64_t epoch; /* of this master; 0: a replica */
};

struct command_targets {
    struct conclave_redis *redis; /* borrowed */
    int64_t max_lag_bytes;
    int64_t stale_ns; /* with a limit of lag, replicas are not chosen by reports older than this */

    struct thread_signals signals;
    struct command_target master;             /* the last one */
    struct conclave_redis_replicas *replicas; /* NULL: not known yet */
    int64_t read_ns;                          /* when the replicas were read */
    int64_t next_ns;                          /* when to read them again */
    bool reading;                             /* a thread does so */
    uint64_t turn;
};

void command_targets_init(struct command_targets *t, struct conclave_redis *redis,
                          int64_t max_lag_bytes, int64_t stale_ms);
void command_targets_finish(struct command_targets *t);

/* Waits for a master that may be written to. 0, CONCLAVE_ETIMEDOUT, or what conclave_redis_wait_master says. */
int command_target_master(struct command_targets *t, int64_t deadline_ns,
                          struct command_target *ret) CONCLAVE_MUST_USE;

/* The next replica that is fit. 0, CONCLAVE_EEMPTY: there is none; or what conclave_redis_list_replicas says. */
int command_target_replica(struct command_targets *t, int64_t deadline_ns,
                           struct command_target *ret) CONCLAVE_MUST_USE;

/* A replica was not what the reports say: reads them again before the next choice. */
void command_targets_doubt(struct command_targets *t);

#endif
