/*
 * What a cache costs, measured from a program that uses the library as its users do.
 *
 *     cache load  HOST:PORT NODES RUNS
 *     cache reach HOST:PORT CACHES CLIENTS CHANGES
 *
 * load: so many nodes of 100 bytes, 1,000 below each parent, are read into a new cache of a new client, again and again.
 * reach: so many caches of one node, shared out to so many clients, each a session; another client writes the node, and
 * each cache reports the change. All run in one thread, by the programs' own loop. The time of a change is from before the
 * write is sent until a cache's callback runs.
 *
 * Promise: one line of JSON on stdout.
 */
#define _GNU_SOURCE
#include <conclave/cache.h>
#include <conclave/op.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    SESSION_MS = 40000,
    PATIENCE_MS = 600000,
    BATCH = 500,
    FAN = 1000,
    DATA_LEN = 100,
    READY = 256
};

static const char *host;

static void must(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "cache: %s: %s\n", what, conclave_strerror(error));
        exit(1);
    }
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const double *sorted, size_t count, double q)
{
    size_t at = (size_t)(q * (double)count);
    return sorted[at < count ? at : count - 1];
}

static struct conclave_client *open_client(bool threads)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    options.servers = host;
    options.session_timeout_ms = SESSION_MS;
    must("open", conclave_client_open(&options, &client));
    if (threads) {
        must("start", conclave_client_start(client));
        must("connect", conclave_client_wait_connected(client, PATIENCE_MS));
    }
    return client;
}

/* --- loading ------------------------------------------------------------------------------------ */

static char data[DATA_LEN];

static void create_nodes(long nodes)
{
    static struct conclave_op ops[BATCH];
    static char paths[BATCH][64];
    struct conclave_client *client = open_client(true);
    struct conclave_op root = conclave_op_create("/bench-cache", "", 0, CONCLAVE_PERSISTENT);
    int error = conclave_call(client, &root, NULL);
    if (error == CONCLAVE_NODE_EXISTS) {
        conclave_client_close(client, 5000);
        return; /* an earlier run's */
    }
    must("create", error);
    size_t count = 0;
    for (long i = 1; i < nodes; i++) {
        long parent = i / (FAN + 1);
        if (i % (FAN + 1) == 1) {
            (void)snprintf(paths[count], sizeof paths[0], "/bench-cache/p%ld", parent);
        } else {
            (void)snprintf(paths[count], sizeof paths[0], "/bench-cache/p%ld/n%ld",
                           i % (FAN + 1) == 0 ? parent - 1 : parent, i);
        }
        ops[count] = conclave_op_create(paths[count], data, sizeof data, CONCLAVE_PERSISTENT);
        if (++count == BATCH || i + 1 == nodes) {
            struct conclave_op multi = conclave_op_multi(ops, count);
            must("create", conclave_call(client, &multi, NULL));
            count = 0;
        }
    }
    conclave_client_close(client, 5000);
}

static void load(long nodes, long runs)
{
    double *times = calloc((size_t)runs, sizeof *times);
    struct conclave_cache_status status = CONCLAVE_CACHE_STATUS_INIT;
    double lookup_ns = 0;
    create_nodes(nodes);
    for (long i = 0; i < runs; i++) {
        struct conclave_cache_options options = CONCLAVE_CACHE_OPTIONS_INIT;
        struct conclave_client *client = open_client(true);
        struct conclave_recipes *recipes;
        struct conclave_cache *cache;
        const struct conclave_cache_node *node;
        options.path = "/bench-cache";
        must("recipes", conclave_recipes_open(client, &recipes));
        double began = now();
        must("open", conclave_cache_open(recipes, &options, NULL, NULL, &cache));
        must("load", conclave_cache_wait(cache, 0, PATIENCE_MS));
        times[i] = now() - began;
        must("status", conclave_cache_status(cache, &status));
        began = now();
        for (int k = 0; k < 100000; k++) {
            must("look up", conclave_cache_get(cache, "/bench-cache/p0/n2", &node));
            conclave_cache_node_free(node);
        }
        lookup_ns = (now() - began) * 1e6 / 100000;
        must("close", conclave_cache_close_wait(cache, PATIENCE_MS));
        conclave_cache_destroy(cache);
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 5000);
    }
    qsort(times, (size_t)runs, sizeof *times, by_size);
    printf(
        "{\"nodes\": %zu, \"runs\": %ld, \"p50_ms\": %.1f, \"max_ms\": %.1f, \"bytes_per_node\": %.0f, "
        "\"lookup_ns\": %.0f}\n",
        status.nodes, runs, quantile(times, (size_t)runs, 0.5), times[runs - 1],
        (double)status.bytes / (double)status.nodes, lookup_ns);
}

/* --- a change ------------------------------------------------------------------------------------- */

static double sent_ms;
static double *times;
static size_t reported; /* in `times` */
static long left;       /* caches that have not reported the change */
static long unloaded;
static int64_t
    change_zxid; /* of the change that is being measured, once it was reported; 0: not yet */
static int64_t last_zxid; /* of the change before it */

/* Each cache reports each change once, and not the one before it. */
static void on_event(struct conclave_cache *cache, const struct conclave_cache_event *event,
                     void *ctx)
{
    if (event->change == CONCLAVE_CACHE_CHANGED) {
        int64_t zxid = event->after->stat->mzxid;
        bool right = left > 0 && zxid > last_zxid && (change_zxid == 0 || zxid == change_zxid);
        must("count", right ? 0 : CONCLAVE_EPROTO);
        change_zxid = zxid;
        times[reported++] = now() - sent_ms;
        left--;
    }
}

static void on_loaded(struct conclave_cache *cache, void *ctx)
{
    unloaded--;
}

/* Runs all clients until *until is 0. */
static void turn(int poll, struct conclave_client **clients, long count, const long *until)
{
    struct epoll_event ready[READY];
    double looked = 0;
    while (*until > 0) {
        int found = epoll_wait(poll, ready, READY, 5);
        for (int i = 0; i < found; i++) {
            (void)conclave_client_dispatch(ready[i].data.ptr);
        }
        if (found == 0 || now() - looked > 50) { /* those whose timeout has passed */
            for (long i = 0; i < count; i++) {
                if (conclave_client_timeout_ms(clients[i]) == 0) {
                    (void)conclave_client_dispatch(clients[i]);
                }
            }
            looked = now();
        }
    }
}

static void reach(long caches, long client_count, long changes)
{
    struct conclave_client **clients =
        calloc((size_t)client_count, sizeof(struct conclave_client *));
    struct conclave_recipes **recipes =
        calloc((size_t)client_count, sizeof(struct conclave_recipes *));
    struct conclave_client *writer = open_client(true);
    double *last = calloc((size_t)changes, sizeof *last);
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct conclave_op create =
        conclave_op_create("/bench-change", data, sizeof data, CONCLAVE_PERSISTENT);
    int error = conclave_call(writer, &create, NULL);
    must("create", error == CONCLAVE_NODE_EXISTS ? 0 : error);
    times = calloc((size_t)(caches * changes), sizeof *times);
    unloaded = caches;
    for (long i = 0; i < caches; i++) {
        struct conclave_cache_options options = CONCLAVE_CACHE_OPTIONS_INIT;
        struct conclave_cache_callbacks callbacks = CONCLAVE_CACHE_CALLBACKS_INIT;
        struct conclave_cache *cache;
        long at = i % client_count;
        if (clients[at] == NULL) {
            clients[at] = open_client(false);
            struct epoll_event event = {.events = EPOLLIN, .data.ptr = clients[at]};
            must("recipes", conclave_recipes_open(clients[at], &recipes[at]));
            must("epoll", epoll_ctl(poll, EPOLL_CTL_ADD, conclave_client_fd(clients[at]), &event));
        }
        options.path = "/bench-change";
        callbacks.on_event = on_event;
        callbacks.on_loaded = on_loaded;
        must("open", conclave_cache_open(recipes[at], &options, &callbacks, NULL, &cache));
    }
    turn(poll, clients, client_count, &unloaded);
    for (long i = 0; i < changes; i++) {
        struct conclave_op set = conclave_op_set("/bench-change", data, sizeof data, -1);
        left = caches;
        sent_ms = now();
        must("set", conclave_submit(writer, &set, NULL, NULL));
        turn(poll, clients, client_count, &left);
        last[i] = times[reported - 1];
        last_zxid = change_zxid;
        change_zxid = 0;
    }
    qsort(times, reported, sizeof *times, by_size);
    qsort(last, (size_t)changes, sizeof *last, by_size);
    printf(
        "{\"caches\": %ld, \"clients\": %ld, \"changes\": %ld, \"p50_ms\": %.2f, \"p99_ms\": %.2f, \"max_ms\": %.2f, "
        "\"all_p50_ms\": %.2f, \"all_p99_ms\": %.2f}\n",
        caches, client_count, changes, quantile(times, reported, 0.5),
        quantile(times, reported, 0.99), times[reported - 1], quantile(last, (size_t)changes, 0.5),
        quantile(last, (size_t)changes, 0.99));
    (void)fflush(stdout);
    _exit(0); /* the sessions end by themselves */
}

int main(int argc, char **argv)
{
    host = argc > 2 ? argv[2] : "";
    if (argc == 5 && strcmp(argv[1], "load") == 0) {
        load(strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10));
    } else if (argc == 6 && strcmp(argv[1], "reach") == 0) {
        reach(strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10), strtol(argv[5], NULL, 10));
    } else {
        fprintf(
            stderr,
            "usage: cache load HOST:PORT NODES RUNS | reach HOST:PORT CACHES CLIENTS CHANGES\n");
        return 64;
    }
    return 0;
}
