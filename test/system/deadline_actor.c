/*
 * A grant that arrives when the time is up: one holds, another asks with a timeout, the first lets go at about that moment;
 * a lock and a semaphore of one in turn, between two clients on different servers. Whoever is told that it holds has its
 * node; of whoever is told that the time is up no node is left. The moment of letting go follows the outcome, so that
 * both come about as often; on a slow machine, where it cannot come early enough, the timeout grows.
 *
 *   deadline_actor SERVERS_A SERVERS_B ROUNDS
 *
 * Prints what came of it, exit code 1 when something is wrong.
 */
#include <conclave/lock.h>
#include <conclave/semaphore.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    KINDS = 2,
    TIMEOUT_MS = 12,
    TIMEOUT_MAX_MS = 1500,
    WAIT_MS = 60000,
    STEP_US = 150,
    STEPS_MAX = 64,
    JITTER_US = 400,
};

#define ROOT "/deadline"

struct side {
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_lock *lock;
    struct conclave_semaphore *semaphore;
};

struct server_query {
    struct side *side;
    int kind;
    int64_t timeout_ms;
    int rc;
    bool held;
    char node[256];
};

static const char *const paths[KINDS] = {ROOT "/lock", ROOT "/semaphore"};

static void must(int rc, const char *what)
{
    if (rc != 0) {
        printf("%s: %s\n", what, conclave_strerror(rc));
        exit(1);
    }
}

static void side_open(struct side *s, const char *servers, const char *id)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_lock_options lock = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_semaphore_options semaphore = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    options.servers = servers;
    lock.path = paths[0];
    semaphore.path = paths[1];
    lock.id = semaphore.id = id;
    semaphore.permits = 1;
    must(conclave_client_open(&options, &s->client), "open");
    must(conclave_client_start(s->client), "start");
    must(conclave_client_wait_connected(s->client, WAIT_MS), "connect");
    must(conclave_recipes_open(s->client, &s->recipes), "recipes");
    must(conclave_lock_open(s->recipes, &lock, NULL, NULL, &s->lock), "lock");
    must(conclave_semaphore_open(s->recipes, &semaphore, NULL, NULL, &s->semaphore), "semaphore");
}

static void side_close(struct side *s)
{
    conclave_lock_close(s->lock);
    conclave_semaphore_close(s->semaphore);
    must(conclave_lock_close_wait(s->lock, WAIT_MS), "close");
    must(conclave_semaphore_close_wait(s->semaphore, WAIT_MS), "close");
    conclave_lock_destroy(s->lock);
    conclave_semaphore_destroy(s->semaphore);
    conclave_recipes_destroy(s->recipes);
    conclave_client_close(s->client, WAIT_MS);
}

static int acquire(struct side *s, int kind, int64_t timeout_ms)
{
    return kind == 0 ? conclave_lock_acquire(s->lock, timeout_ms, NULL)
                     : conclave_semaphore_acquire(s->semaphore, timeout_ms, NULL);
}

static int release(struct side *s, int kind)
{
    return kind == 0 ? conclave_lock_release(s->lock, WAIT_MS)
                     : conclave_semaphore_release(s->semaphore, WAIT_MS);
}

/* As of now, whatever server is asked. */
static int look(struct side *s, const char *path, int *ret_children)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    struct conclave_reply *reply = NULL;
    op.linearizable = true;
    int rc = conclave_call(s->client, &op, &reply);
    *ret_children = rc == 0 ? reply->stat.num_children : 0;
    conclave_reply_free(reply);
    return rc;
}

/* A grant is given back by the thread that got it. */
static void *ask_main(void *arg)
{
    struct server_query *a = arg;
    char name[128];
    int ignored;
    a->rc = acquire(a->side, a->kind, a->timeout_ms);
    a->held = a->kind == 0 ? conclave_lock_is_held(a->side->lock)
                           : conclave_semaphore_is_held(a->side->semaphore);
    if (a->kind == 0) {
        conclave_lock_node(a->side->lock, name, sizeof name);
    } else {
        conclave_semaphore_node(a->side->semaphore, name, sizeof name);
    }
    snprintf(a->node, sizeof a->node, "%s/%s", paths[a->kind], name);
    if (a->rc == 0) {
        must(look(a->side, a->node, &ignored), a->node);
        must(release(a->side, a->kind), "release");
    }
    return NULL;
}

/* Waits until no contender is left. */
static bool empty_soon(struct side *s, const char *path)
{
    struct timespec pause = {0, 1000000};
    int children = 1;
    for (int i = 0; i < 30000; i++) {
        int rc = look(s, path, &children);
        if (children == 0) {
            return rc == 0 || rc == CONCLAVE_NO_NODE;
        }
        nanosleep(&pause, NULL);
    }
    return false;
}

/* One round; whether b was granted. */
static bool race(struct side *a, struct side *b, int kind, int64_t timeout_ms, long after_us)
{
    struct server_query ask = {.side = b, .kind = kind, .timeout_ms = timeout_ms};
    pthread_t thread;
    must(acquire(a, kind, WAIT_MS), "acquire");
    must(pthread_create(&thread, NULL, ask_main, &ask) == 0 ? 0 : CONCLAVE_ENOMEM, "thread");
    usleep((useconds_t)after_us);
    must(release(a, kind), "release");
    pthread_join(thread, NULL);
    bool granted = ask.rc == 0;
    if (granted != ask.held || (!granted && ask.rc != CONCLAVE_ETIMEDOUT)) {
        printf("%s: %s, and holds: %d\n", paths[kind], conclave_strerror(ask.rc), ask.held);
        exit(1);
    }
    if (!empty_soon(a, paths[kind])) {
        printf("%s: a node is left (granted %d)\n", paths[kind], granted);
        exit(1);
    }
    return granted;
}

/* When a lets go, and how long b waits. */
struct aim {
    long after_us;
    long steps; /* twice as many when the outcome is the same again */
    int64_t timeout_ms;
    bool won;
};

static void aim_adjust(struct aim *t, bool won)
{
    t->steps = won != t->won ? 1 : t->steps < STEPS_MAX ? 2 * t->steps : t->steps;
    t->won = won;
    t->after_us += won ? STEP_US * t->steps : -STEP_US * t->steps;
    if (t->after_us < 0) {
        t->timeout_ms = t->timeout_ms < TIMEOUT_MAX_MS ? 2 * t->timeout_ms : t->timeout_ms;
        t->after_us = t->timeout_ms * 1000 / 2;
    }
}

int main(int argc, char **argv)
{
    struct side a;
    struct side b;
    int granted[KINDS] = {0};
    struct aim aims[KINDS];
    unsigned seed = 1;
    if (argc != 4) {
        fprintf(stderr, "usage: deadline_actor SERVERS_A SERVERS_B ROUNDS\n");
        return 64;
    }
    long rounds = strtol(argv[3], NULL, 10);
    side_open(&a, argv[1], "a");
    side_open(&b, argv[2], "b");
    for (int kind = 0; kind < KINDS; kind++) {
        aims[kind] = (struct aim){
            .after_us = TIMEOUT_MS * 1000L - 1000, .steps = 1, .timeout_ms = TIMEOUT_MS};
    }
    for (long i = 0; i < rounds; i++) {
        int kind = (int)(i % KINDS);
        long jitter = rand_r(&seed) % JITTER_US - JITTER_US / 2;
        long at = aims[kind].after_us + jitter;
        bool won = race(&a, &b, kind, aims[kind].timeout_ms, at > 0 ? at : 0);
        granted[kind] += won ? 1 : 0;
        aim_adjust(&aims[kind], won);
    }
    side_close(&a);
    side_close(&b);
    printf("%ld rounds, granted: lock %d, semaphore %d; the rest timed out\n", rounds, granted[0],
           granted[1]);
    return 0;
}
