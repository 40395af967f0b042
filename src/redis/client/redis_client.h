/* The client of conclave/redis_client.h as its files share it. */
#ifndef REDIS_CLIENT_REDIS_CLIENT_H
#define REDIS_CLIENT_REDIS_CLIENT_H

#include "redis/client/connection_pool.h"

#include <sys/types.h>

struct conclave_redis_client {
    struct conclave_redis *redis;
    struct conclave_redis_client_options options; /* without its strings */
    struct redis_credentials credentials;
    struct command_targets targets;
    struct connection_pool pool;
    pid_t pid;

    struct thread_signals problem_signals; /* guards problem */
    char problem[REDIS_PROBLEM_MAX];
};

/* Keeps the reason why a server was not used. */
void redis_client_note(struct conclave_redis_client *c, const char *server, const char *why);

#endif
