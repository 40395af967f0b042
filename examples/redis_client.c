/*
 * A whole program that uses a set of Redis servers through fail-overs: it increments a counter at the master, asks that one
 * replica has it, and reads it from a replica. The library finds the servers, connects, and repeats what can be repeated.
 *
 *     cc redis_client.c -o redis_client $(pkg-config --cflags --libs conclave-redis)
 *     ./redis_client default counter 127.0.0.1:2181      # ten times a second
 */
#include <conclave/redis_client.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void write_once(struct conclave_redis_client *redis, const char *key)
{
    const char *argv[] = {"INCR", key};
    struct conclave_redis_reply *reply = NULL;
    int error = conclave_redis_command(redis, CONCLAVE_REDIS_WRITE, 2, argv, NULL, &reply);
    if (error == 0 && reply->type == CONCLAVE_REDIS_REPLY_INTEGER) {
        printf("%" PRId64 " at %s, on %s replica\n", reply->integer, reply->server,
               reply->replicas >= 1 ? "a" : "no");
    } else if (error == 0) {
        printf("refused: %s\n", reply->text); /* WRONGTYPE, NOPERM, ... */
    } else if (error == CONCLAVE_CONNECTION_LOSS) {
        /* For a value that is set, not incremented: CONCLAVE_REDIS_WRITE_IDEMPOTENT, and it is repeated. */
        printf("it is not known whether it was incremented\n");
    } else {
        char why[256];
        conclave_redis_client_problem(redis, why, sizeof why);
        printf("not incremented: %s; %s\n", conclave_strerror(error), why);
    }
    conclave_redis_reply_free(reply);
}

static void read_once(struct conclave_redis_client *redis, const char *key)
{
    const char *argv[] = {"GET", key};
    struct conclave_redis_reply *reply = NULL;
    int error = conclave_redis_command(redis, CONCLAVE_REDIS_READ, 2, argv, NULL, &reply);
    if (error == 0) {
        printf("read %s from the %s %s\n", reply->text, reply->epoch == 0 ? "replica" : "master",
               reply->server);
    } else {
        printf("not read: %s\n", conclave_strerror(error));
    }
    conclave_redis_reply_free(reply);
}

static int run(struct conclave_recipes *recipes, const char *cluster, const char *key)
{
    struct conclave_redis_client_options options = CONCLAVE_REDIS_CLIENT_OPTIONS_INIT;
    struct conclave_redis_client *redis;
    options.cluster = cluster;
    options.reads = CONCLAVE_REDIS_READS_REPLICA_OR_MASTER;
    options.max_lag_bytes = 1024 * 1024;
    options.wait_replicas = 1;
    options.wait_ms = 100;
    int error = conclave_redis_client_open(recipes, &options, &redis);
    if (error != 0) {
        return error;
    }
    while (stopping == 0) {
        write_once(redis, key);
        read_once(redis, key);
        (void)usleep(100000);
    }
    error = conclave_redis_client_close_wait(redis, 5000);
    if (error == 0) {
        conclave_redis_client_destroy(redis);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: redis_client CLUSTER KEY [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 4 ? argv[3] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argv[1], argv[2])) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "redis_client: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
