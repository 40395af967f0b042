/*
 * Two contenders and a hand-over, with one fault at every single request (support/sweep.h); for a mutex, for a
 * writer that downgrades before a writer, and for a semaphore of each layout. Whatever the fault: no node is left,
 * no two hold it at once, everybody gets it in the end, and no callback comes after on_closed.
 */
#include "support/locker.h"
#include "support/sweep.h"

#include <conclave/semaphore.h>

enum { STEPS = 14, POOL_STEPS = 24, TRIES = 40 };

enum recipe { MUTEX, PLAIN, DOWNGRADE, SEMAPHORE, CURATOR_SEMAPHORE, KAZOO_SEMAPHORE, RECIPES };

struct actor {
    struct play *play;
    int endpoint;
    pthread_t thread;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_lock *lock;
    struct conclave_semaphore *semaphore;
    _Atomic bool closed;
    _Atomic bool late; /* a callback came after on_closed */
    const char *wrong;
};

/* One case. */
struct play {
    struct sweep_case *s;
    struct actor actors[2];
    /* Of the grants, by the clock of the test: the end is when it was let go, or when it was seen
     * that the lease is over. */
    pthread_mutex_t mutex;
    int64_t from_ns[2 * TRIES];
    int64_t to_ns[2 * TRIES];
    int64_t tokens[2 * TRIES];
    int endpoints[2 * TRIES]; /* whose turn it was */
    size_t turns;
};

static bool is_recipe(const struct play *p, enum recipe recipe)
{
    return p->s->scene == (int)recipe;
}

static void on_lost(struct conclave_lock *lock, int why, int64_t within, void *ctx)
{
    struct actor *a = ctx;
    a->late = a->late || a->closed || conclave_lock_is_held(lock);
}

static void on_closed(struct conclave_lock *lock, int why, void *ctx)
{
    struct actor *a = ctx;
    a->late = a->late || a->closed;
    a->closed = true;
}

static void on_semaphore_closed(struct conclave_semaphore *semaphore, int why, void *ctx)
{
    on_closed(NULL, why, ctx);
}

static int acquire(struct actor *a, struct conclave_token *token)
{
    return a->semaphore != NULL ? conclave_semaphore_acquire(a->semaphore, 1000, token)
                                : conclave_lock_acquire(a->lock, 1000, token);
}

static bool held(const struct actor *a)
{
    return a->semaphore != NULL ? conclave_semaphore_is_held(a->semaphore)
                                : conclave_lock_is_held(a->lock);
}

static int release(struct actor *a)
{
    return a->semaphore != NULL ? conclave_semaphore_release(a->semaphore, 1000)
                                : conclave_lock_release(a->lock, 1000);
}

/* Holds it for a moment. Whether the lease lasted. */
static bool take_turn(struct actor *a, struct conclave_token token)
{
    struct play *p = a->play;
    int64_t from = now_ns();
    int64_t to = from;
    for (int i = 0; i < 5 && held(a); i++) {
        if (i == 2 && is_recipe(p, DOWNGRADE) && a->endpoint == 0) {
            int error = conclave_lock_downgrade(a->lock, 1000);
            (void)error; /* what became of it is seen by what is held */
        }
        /* It was held when the clock was read, if it still is. */
        int64_t now = now_ns();
        to = held(a) ? now : to;
        sleep_ms(2);
    }
    (void)pthread_mutex_lock(&p->mutex);
    p->from_ns[p->turns] = from;
    p->to_ns[p->turns] = to;
    p->endpoints[p->turns] = a->endpoint;
    p->tokens[p->turns++] = token.czxid;
    (void)pthread_mutex_unlock(&p->mutex);
    int error = release(a);
    if (error != 0 && error != CONCLAVE_ELOST && error != CONCLAVE_ETIMEDOUT) {
        a->wrong = "a release failed";
    }
    return error != CONCLAVE_ELOST;
}

/* Until it has had a whole turn. */
static void *act(void *arg)
{
    struct actor *a = arg;
    for (int i = 0; i < TRIES; i++) {
        struct conclave_token token;
        int error = acquire(a, &token);
        if (error == 0 && take_turn(a, token)) {
            return NULL;
        }
        if (error != 0 && error != CONCLAVE_SESSION_EXPIRED && error != CONCLAVE_ETIMEDOUT &&
            error != CONCLAVE_ELOST) {
            a->wrong = conclave_errname(error);
            return NULL;
        }
        /* A silence ends when the session has. */
        if (a->play->s->fault == FAULT_STOP && i > 0) {
            fake_zk_link(a->play->s->zk, a->play->s->endpoint, FAKE_UP);
        }
    }
    a->wrong = "it never had a turn";
    return NULL;
}

static bool create(struct actor *a)
{
    static const struct conclave_lock_callbacks callbacks = {sizeof callbacks, on_lost, NULL,
                                                             on_closed, NULL};
    static const struct conclave_semaphore_callbacks semaphore_callbacks = {
        sizeof semaphore_callbacks, NULL, on_semaphore_closed};
    if (a->play->s->scene >= SEMAPHORE) {
        struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
        options.path = LOCK_PATH;
        options.permits = 1;
        options.naming = is_recipe(a->play, CURATOR_SEMAPHORE) ? CONCLAVE_NAMING_CURATOR_LOCK
                         : is_recipe(a->play, KAZOO_SEMAPHORE) ? CONCLAVE_NAMING_KAZOO
                                                               : CONCLAVE_NAMING_NATIVE;
        return conclave_semaphore_open(a->recipes, &options, &semaphore_callbacks, a,
                                       &a->semaphore) == 0;
    }
    struct conclave_lock_options options = locker_options("x");
    options.naming = is_recipe(a->play, PLAIN) ? CONCLAVE_NAMING_PLAIN : CONCLAVE_NAMING_NATIVE;
    options.kind = is_recipe(a->play, DOWNGRADE) ? CONCLAVE_LOCK_WRITE : CONCLAVE_LOCK_EXCLUSIVE;
    return conclave_lock_open(a->recipes, &options, &callbacks, a, &a->lock) == 0;
}

static bool actor_open(struct actor *a, struct play *p, int endpoint)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    a->play = p;
    a->endpoint = endpoint;
    options.servers = fake_zk_address(p->s->zk, endpoint);
    options.session_timeout_ms = SESSION_MS;
    return conclave_client_open(&options, &a->client) == 0 &&
           conclave_client_start(a->client) == 0 &&
           conclave_recipes_open(a->client, &a->recipes) == 0 &&
           conclave_client_wait_connected(a->client, PATIENCE_MS) == 0 && create(a);
}

static const char *actor_close(struct actor *a)
{
    int error = a->semaphore != NULL ? conclave_semaphore_close_wait(a->semaphore, PATIENCE_MS)
                                     : conclave_lock_close_wait(a->lock, PATIENCE_MS);
    if (error != 0) {
        return "it did not close";
    }
    conclave_semaphore_destroy(a->semaphore);
    conclave_lock_destroy(a->lock);
    conclave_recipes_destroy(a->recipes);
    conclave_client_close(a->client, 1000);
    return a->late ? "a callback came after the end" : NULL;
}

static bool first_turn(const struct play *p, size_t turn)
{
    for (size_t i = 0; i < turn; i++) {
        if (p->endpoints[i] == p->endpoints[turn]) {
            return false;
        }
    }
    return true;
}

/* Turns of a session that was killed by force may overlap the next one's, or even begin after it, as
 * nobody told the holder yet; nothing else. */
static const char *check(const struct play *p)
{
    bool forced = fault_is_forced(p->s);
    for (size_t i = 0; i < p->turns; i++) {
        for (size_t j = 0; j < p->turns; j++) {
            if (i == j || p->from_ns[j] < p->from_ns[i]) {
                continue;
            }
            if (!forced && p->from_ns[j] < p->to_ns[i]) {
                return "two held it at once";
            }
            bool untold = forced && p->endpoints[j] == p->s->endpoint && first_turn(p, j);
            if (!untold && p->tokens[j] <= p->tokens[i]) {
                return "a token did not grow";
            }
        }
    }
    return NULL;
}

static const char *scenario(struct play *p)
{
    struct sweep_case *s = p->s;
    const char *wrong = NULL;
    for (int i = 0; i < 2; i++) {
        if (!actor_open(&p->actors[i], p, i)) {
            return "no actor";
        }
    }
    sweep_set_fault(s);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&p->actors[i].thread, NULL, act, &p->actors[i]) != 0) {
            return "no thread";
        }
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(p->actors[i].thread, NULL);
        wrong = wrong == NULL ? p->actors[i].wrong : wrong;
    }
    sweep_end_fault(s);
    fake_zk_link(s->zk, s->endpoint, FAKE_UP);
    for (int i = 0; i < 2; i++) {
        const char *end = actor_close(&p->actors[i]);
        wrong = wrong == NULL ? end : wrong;
    }
    return wrong == NULL ? check(p) : wrong;
}

static const char *turns(struct sweep_case *s)
{
    struct play *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return "no memory";
    }
    p->s = s;
    (void)pthread_mutex_init(&p->mutex, NULL);
    const char *wrong = scenario(p);
    if (wrong == NULL) {
        free(p);
    }
    return wrong;
}

int main(void)
{
    static const char *const names[RECIPES] = {
        "mutex",     "mutex of gozk",        "downgrade",
        "semaphore", "semaphore of Curator", "semaphore of kazoo"};
    static struct sweep_plan plans[RECIPES];
    for (int i = 0; i < RECIPES; i++) {
        plans[i] = (struct sweep_plan){
            .names = names,
            .first_scene = i,
            .scenes = 1,
            .endpoints = 2,
            .steps = i >= CURATOR_SEMAPHORE ? POOL_STEPS : STEPS,
            .beside = 16,
            .least = 10,
            .parent = i == CURATOR_SEMAPHORE ? LOCK_PATH "/leases" : LOCK_PATH,
            .sets_fault = true,
            .play = turns,
        };
    }
    const struct CMUnitTest tests[] = {SWEEP_TESTS(&plans[MUTEX]),
                                       SWEEP_TESTS(&plans[PLAIN]),
                                       SWEEP_TESTS(&plans[DOWNGRADE]),
                                       SWEEP_TESTS(&plans[SEMAPHORE]),
                                       SWEEP_TESTS(&plans[CURATOR_SEMAPHORE]),
                                       SWEEP_TESTS(&plans[KAZOO_SEMAPHORE])};
    return RUN_TESTS(tests);
}
