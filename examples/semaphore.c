/*
 * A whole program that works only while it has one of N places: start it several times, and N of
 * them work at a time; stop one, also with kill -9, and the one that waits longest takes its place.
 *
 *     cc semaphore.c -o semaphore $(pkg-config --cflags --libs conclave)
 *     ./semaphore /demo/semaphore 2 alice 127.0.0.1:2181
 *
 * It waits without blocking, by a callback, so that it can end while it waits.
 */
#include <conclave/semaphore.h>

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;
static atomic_int failed; /* why there will be no place, 0: none */

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void on_acquired(struct conclave_semaphore *semaphore, int error,
                        struct conclave_token token, void *ctx)
{
    (void)semaphore;
    if (error == 0) {
        printf("%s has a place, token %" PRId64 "\n", (const char *)ctx, token.czxid);
    } else if (error != CONCLAVE_ECLOSED) {
        atomic_store(&failed, error);
    }
}

/* The work has to be over within stop_within_ms. */
static void on_lost(struct conclave_semaphore *semaphore, int why, int64_t stop_within_ms,
                    void *ctx)
{
    (void)semaphore;
    printf("%s lost its place: %s; %" PRId64 " ms to stop in\n", (const char *)ctx,
           conclave_strerror(why), stop_within_ms);
    atomic_store(&failed, why);
}

static int run(struct conclave_recipes *recipes, char **argv)
{
    static const struct conclave_semaphore_callbacks callbacks = {.size = sizeof callbacks,
                                                                  .on_lost = on_lost};
    struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    struct conclave_semaphore *semaphore;
    options.path = argv[1];
    options.permits = atoi(argv[2]);
    options.id = argv[3];
    int error = conclave_semaphore_open(recipes, &options, &callbacks, argv[3], &semaphore);
    if (error != 0) {
        return error;
    }
    error = conclave_semaphore_acquire_async(semaphore, CONCLAVE_FOREVER, on_acquired, argv[3]);
    while (error == 0 && stopping == 0 && atomic_load(&failed) == 0) {
        if (conclave_semaphore_is_held(semaphore)) {
            printf("%s works\n", argv[3]);
        }
        (void)usleep(200000);
    }
    int closed = conclave_semaphore_close_wait(semaphore, 5000); /* gives the place back */
    if (closed == 0) {
        conclave_semaphore_destroy(semaphore);
    }
    error = error == 0 ? atomic_load(&failed) : error;
    return error == 0 ? closed : error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client = NULL;
    struct conclave_recipes *recipes = NULL;
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: semaphore PATH N NAME [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 5 ? argv[4] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int error = conclave_client_open(&options, &client);
    error = error == 0 ? conclave_client_start(client) : error;
    error = error == 0 ? conclave_recipes_open(client, &recipes) : error;
    error = error == 0 ? run(recipes, argv) : error;
    if (error != 0) {
        fprintf(stderr, "semaphore: %s\n", conclave_strerror(error));
        return 1; /* the session ends by itself: the process does */
    }
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, 2000);
    return 0;
}
