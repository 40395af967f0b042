/*
 * A whole program that writes to whichever Redis server is the master: follows `conclave redis-failover`, has each
 * server checked before it writes there, stops at once when it may not write any more, and asks one replica to have
 * what it wrote (WAIT).
 *
 *     cc redis.c -o redis $(pkg-config --cflags --libs conclave hiredis)
 *     ./redis default counter 127.0.0.1:2181      # INCR counter, ten times a second
 */
#include <conclave/redis.h>

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

/* Only tells; the loop below asks before each write. */
static void on_change(struct conclave_redis *redis, const struct conclave_redis_view *view,
                      void *ctx)
{
    (void)redis;
    (void)ctx;
    printf("%s: epoch %" PRId64 ", master %s%s\n", conclave_redis_state_name(view->state),
           view->epoch, view->master == NULL ? "none" : view->master,
           view->stale ? ", which may be old" : "");
}

/* The server's own word: whether it is the master of this epoch. */
static int check(struct conclave_redis *redis, int64_t epoch, redisContext *server)
{
    redisReply *info = redisCommand(server, "INFO");
    int error = info == NULL || info->type != REDIS_REPLY_STRING
                    ? CONCLAVE_EPROTO
                    : conclave_redis_check(redis, epoch, info->str, (size_t)info->len);
    if (info != NULL) {
        freeReplyObject(info);
    }
    return error;
}

/* NULL: it cannot be reached, or is not the one. */
static redisContext *connect_to(struct conclave_redis *redis,
                                const struct conclave_redis_view *view)
{
    struct timeval second = {.tv_sec = 1};
    redisContext *server = redisConnectWithTimeout(view->host, view->port, second);
    int error = server == NULL || server->err != 0 || redisSetTimeout(server, second) != REDIS_OK
                    ? CONCLAVE_EDISCONNECTED
                    : check(redis, view->epoch, server);
    if (error == 0) {
        printf("connected to %s\n", view->master);
        return server;
    }
    printf("not to %s: %s\n", view->master, conclave_strerror(error));
    if (server != NULL) {
        redisFree(server);
    }
    return NULL;
}

/* One write, and how many replicas have it. False: it may have been carried out or not. */
static bool write_once(redisContext *server, const char *key)
{
    redisReply *count = redisCommand(server, "INCR %s", key);
    redisReply *copies = count == NULL ? NULL : redisCommand(server, "WAIT 1 100");
    bool done = copies != NULL && count->type == REDIS_REPLY_INTEGER;
    if (done) {
        printf("%lld, on %lld replicas\n", count->integer,
               copies->type == REDIS_REPLY_INTEGER ? copies->integer : 0);
    } else if (count != NULL && count->type == REDIS_REPLY_ERROR) {
        printf("refused: %s\n", count->str); /* READONLY, NOREPLICAS, ... */
    }
    if (count != NULL) {
        freeReplyObject(count);
    }
    if (copies != NULL) {
        freeReplyObject(copies);
    }
    return done;
}

/* Until this master is one no more. */
static void write_to(struct conclave_redis *redis, const struct conclave_redis_view *view,
                     const char *key)
{
    redisContext *server = connect_to(redis, view);
    bool written = server != NULL;
    while (written && stopping == 0 && conclave_redis_may_write(redis, view->epoch) == 0) {
        written = write_once(server, key);
        (void)usleep(100000);
    }
    if (server != NULL) {
        redisFree(server);
    }
    if (!written) {
        (void)usleep(100000); /* the same one once more, or the next */
    }
}

static int run(struct conclave_recipes *recipes, const char *cluster, const char *key)
{
    static const struct conclave_redis_callbacks callbacks = {sizeof callbacks, on_change, NULL};
    struct conclave_redis_options options = CONCLAVE_REDIS_OPTIONS_INIT;
    struct conclave_redis_view *view = NULL;
    struct conclave_redis *redis;
    options.cluster = cluster;
    int error = conclave_redis_open(recipes, &options, &callbacks, NULL, &redis);
    if (error != 0) {
        return error;
    }
    while (stopping == 0 && (error == 0 || error == CONCLAVE_ETIMEDOUT)) {
        error = conclave_redis_wait_master(redis, 1000, &view);
        if (error == 0) {
            write_to(redis, view, key);
            conclave_redis_view_free(view);
        }
    }
    int closed = conclave_redis_close_wait(redis, 5000);
    if (closed == 0) {
        conclave_redis_destroy(redis);
    }
    return error == CONCLAVE_ETIMEDOUT ? closed : error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: redis CLUSTER KEY [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 4 ? argv[3] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGPIPE, SIG_IGN);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argv[1], argv[2])) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "redis: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
