#include "support/starving.h"

#include <stdatomic.h>

enum { BESIDE = 12, ALLOCATIONS_MAX = 5000 };

struct sweep {
    starving_scene scene;
    bool rival;
    atomic_long next;
    atomic_long last_failed;
    atomic_int wrong;
};

static bool connect(struct fake_zk *zk, int endpoint, struct conclave_client **ret_client,
                    struct conclave_recipes **ret_recipes)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.servers = fake_zk_address(zk, endpoint);
    options.session_timeout_ms = SESSION_MS * 10L;
    return conclave_client_open(&options, ret_client) == 0 &&
           conclave_client_start(*ret_client) == 0 &&
           conclave_recipes_open(*ret_client, ret_recipes) == 0 &&
           conclave_client_wait_connected(*ret_client, PATIENCE_MS) == 0;
}

static void disconnect(struct conclave_client *client, struct conclave_recipes *recipes)
{
    if (client != NULL) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 1000);
    }
}

static void play(struct starving *s, starving_scene scene, long n)
{
    starve_arm(s->memory, n);
    int error = scene(s);
    bool failed = starve_failed(s->memory);
    if (s->wrong == NULL && error == CONCLAVE_ENOMEM && failed) {
        s->told = 0;
        s->told_closed = 0;
        error = scene(s);
    }
    if (s->wrong == NULL && error != 0) {
        print_error("ended with %s\n", conclave_errname(error));
        s->wrong = "did not succeed";
    }
}

/* Runs the scene with the nth allocation failing. Returns whether one failed. */
static bool run_once(struct starving *s, struct sweep *sweep, long n)
{
    struct starve *memory = s->memory;
    memset(s, 0, sizeof *s);
    s->memory = memory;
    s->zk = fake_zk_start();
    if (s->zk == NULL || (sweep->rival && !connect(s->zk, 1, &s->rival_client, &s->rival))) {
        s->wrong = "no server";
        return false;
    }
    long before = starve_live(memory);
    starve_arm(memory, -1);
    starve_enter(memory);
    if (!connect(s->zk, 0, &s->client, &s->recipes)) {
        s->wrong = "not connected";
    } else {
        play(s, sweep->scene, n);
    }
    bool failed = starve_failed(memory);
    AWAIT(s, fake_zk_ephemerals(s->zk) == 0, "a node was left");
    if (s->wrong == NULL) {
        disconnect(s->client, s->recipes);
    }
    starve_leave();
    if (s->wrong != NULL) {
        return false; /* running threads may use it */
    }
    disconnect(s->rival_client, s->rival);
    fake_zk_stop(s->zk);
    /* A detached thread frees its memory shortly after it has released the handle. */
    AWAIT(s, n < 0 || starve_live(memory) <= before, "leaked");
    if (s->wrong != NULL) {
        starve_print_live(memory);
    }
    return failed;
}

/* Runs the scene with growing n until n is beyond the last allocation. */
static void *worker(void *arg)
{
    struct sweep *sweep = arg;
    struct starving *s = calloc(1, sizeof *s);
    if (s == NULL || (s->memory = starve_create()) == NULL) {
        atomic_fetch_add(&sweep->wrong, 1);
        free(s);
        return NULL;
    }
    (void)run_once(s, sweep, -1); /* libraries allocate their permanent memory now */
    if (s->wrong != NULL) {
        print_error("no allocation failed: %s\n", s->wrong);
    }
    for (bool failed = true; failed && s->wrong == NULL;) {
        long n = atomic_fetch_add(&sweep->next, 1);
        failed = run_once(s, sweep, n);
        if (s->wrong != NULL) {
            print_error("allocation %ld: %s\n", n, s->wrong);
        } else if (failed && n > atomic_load(&sweep->last_failed)) {
            atomic_store(&sweep->last_failed, n);
        }
    }
    if (s->wrong != NULL) {
        atomic_fetch_add(&sweep->wrong, 1);
        return s; /* running threads may use it */
    }
    starve_destroy(s->memory);
    free(s);
    return NULL;
}

void starving_sweep(starving_scene scene, bool rival, long at_least)
{
    struct sweep sweep = {.scene = scene, .rival = rival, .last_failed = -1};
    pthread_t threads[BESIDE];
    const char *only = getenv("CONCLAVE_ALLOCATION");
    if (only != NULL) {
        atomic_store(&sweep.next, strtol(only, NULL, 10));
        at_least = 0;
    }
    int beside = only != NULL ? 1 : BESIDE;
    for (int i = 0; i < beside; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, worker, &sweep), 0);
    }
    for (int i = 0; i < beside; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    print_message("%ld allocations failed\n", atomic_load(&sweep.last_failed) + 1);
    assert_int_equal(atomic_load(&sweep.wrong), 0);
    assert_in_range(atomic_load(&sweep.last_failed), at_least, ALLOCATIONS_MAX);
}
