/*
 * A whole program that handles its part of a set of items: start it several times under different names with the same items,
 * stop one (also with kill -9), and watch the others take its items.
 *
 *     cc partitioner.c -o partitioner $(pkg-config --cflags --libs conclave)
 *     ./partitioner /demo/set alice shard1 shard2 shard3
 *
 * The servers are those of CONCLAVE_SERVER.
 */
#include <conclave/partitioner.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void on_acquired(struct conclave_partitioner *partitioner, const char *const *items,
                        size_t count, void *ctx)
{
    (void)partitioner;
    (void)ctx;
    printf("has:");
    for (size_t i = 0; i < count; i++) {
        printf(" %s", items[i]);
    }
    printf("\n"); /* here the work begins */
}

static void on_release(struct conclave_partitioner *partitioner, int why, int64_t stop_within_ms,
                       void *ctx)
{
    (void)ctx;
    printf("releases: %s, within %lld ms\n",
           why == 0 ? "the party changed" : conclave_strerror(why),
           (long long)stop_within_ms); /* here the work ends */
    if (conclave_partitioner_release(partitioner) != 0) {
        stopping = 1;
    }
}

static int run(struct conclave_recipes *recipes, int argc, char **argv)
{
    struct conclave_partitioner_callbacks callbacks = CONCLAVE_PARTITIONER_CALLBACKS_INIT;
    struct conclave_partitioner_options options = CONCLAVE_PARTITIONER_OPTIONS_INIT;
    struct conclave_partitioner *partitioner;
    callbacks.on_acquired = on_acquired;
    callbacks.on_release = on_release;
    options.path = argv[1];
    options.id = argv[2];
    options.items = (const char *const *)(argv + 3);
    options.items_count = (size_t)argc - 3;
    options.settle_ms = 500;
    int error = conclave_partitioner_open(recipes, &options, &callbacks, NULL, &partitioner);
    if (error != 0) {
        return error;
    }
    while (stopping == 0) {
        (void)sleep(1);
    }
    error = conclave_partitioner_close_wait(partitioner, 5000);
    if (error == 0) {
        conclave_partitioner_destroy(partitioner);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 4) {
        fprintf(stderr, "usage: partitioner PATH NAME ITEM...\n");
        return 64;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argc, argv)) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "partitioner: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
