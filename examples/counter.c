/*
 * A whole program that adds to a counter and prints what it has become: start as many as you like at once, none
 * of them misses the others' additions, whatever happens to the network.
 *
 *     cc counter.c -o counter $(pkg-config --cflags --libs conclave)
 *     ./counter /demo/count 5 127.0.0.1:2181
 */
#include <conclave/counter.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int run(struct conclave_recipes *recipes, char **argv)
{
    struct conclave_counter_options options = CONCLAVE_COUNTER_OPTIONS_INIT;
    struct conclave_counter *counter;
    int64_t value = 0;
    options.path = argv[1];
    int error = conclave_counter_open(recipes, &options, NULL, NULL, &counter);
    if (error != 0) {
        return error;
    }
    for (long times = strtol(argv[2], NULL, 10); times > 0 && error == 0; times--) {
        error = conclave_counter_add(counter, 1, 10000, &value);
        if (error == 0) {
            printf("%" PRId64 "\n", value);
        }
    }
    int closed = conclave_counter_close_wait(counter, CONCLAVE_FOREVER);
    if (closed == 0) {
        conclave_counter_destroy(counter);
    }
    return error != 0 ? error : closed;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: counter PATH TIMES [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 4 ? argv[3] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argv)) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "counter: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
