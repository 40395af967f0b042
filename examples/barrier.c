/*
 * A whole program of which N copies begin together and end together: start it N times.
 *
 *     cc barrier.c -o barrier $(pkg-config --cflags --libs conclave)
 *     ./barrier /demo/barrier 3 alice 127.0.0.1:2181
 *
 * What a real program must do is here: take an error of enter for what it says (it has not entered),
 * stop what is done together when on_lost says that the others do not count on it any more, and leave.
 */
#include <conclave/barrier.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_bool lost;

static void on_lost(struct conclave_double_barrier *barrier, int why, void *ctx)
{
    (void)barrier;
    printf("%s is out: %s\n", (const char *)ctx, conclave_strerror(why));
    atomic_store(&lost, true);
}

static int meet(struct conclave_double_barrier *barrier, const char *who)
{
    printf("%s waits\n", who);
    int error = conclave_double_barrier_enter(barrier, 60000);
    if (error != 0) {
        return error;
    }
    printf("%s begins\n", who);
    for (int step = 1; step <= 3 && !atomic_load(&lost); step++) {
        printf("%s step %d\n", who, step);
    }
    error = conclave_double_barrier_leave(barrier, 60000);
    if (error == 0) {
        printf("%s ends with all others\n", who);
    }
    return error;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s PATH COUNT NAME [SERVERS]\n", argv[0]);
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);

    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier_callbacks callbacks = {.size = sizeof callbacks,
                                                          .on_lost = on_lost};
    struct conclave_client *client = NULL;
    struct conclave_recipes *recipes = NULL;
    struct conclave_double_barrier *barrier = NULL;
    client_options.servers = argc > 4 ? argv[4] : NULL;
    options.path = argv[1];
    options.count = (uint32_t)atoi(argv[2]);
    options.id = argv[3];

    int error = conclave_client_open(&client_options, &client);
    error = error != 0 ? error : conclave_client_start(client);
    error = error != 0 ? error : conclave_recipes_open(client, &recipes);
    error = error != 0
                ? error
                : conclave_double_barrier_open(recipes, &options, &callbacks, argv[3], &barrier);
    error = error != 0 ? error : meet(barrier, argv[3]);
    if (barrier != NULL && conclave_double_barrier_close_wait(barrier, CONCLAVE_FOREVER) == 0) {
        conclave_double_barrier_destroy(barrier);
    }
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, 1000);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", argv[0], conclave_strerror(error));
    }
    return error == 0 ? 0 : 1;
}
