/*
 * Two contenders and a hand-over, with one fault at every single request of the one or the other
 * in turn; for a mutex, for a writer that downgrades before a writer, and for a semaphore with
 * one that waits. Whatever the fault: no node is left, no two hold it at once, everybody gets it in
 * the end, and no callback comes after on_closed.
 *
 * Every case has a server of its own and they run beside each other, as nearly all of their time
 * is waiting.
 */
#include "support/locker.h"

#include <conclave/semaphore.h>

enum { STEPS = 14, BESIDE = 14, TRIES = 40 };

enum fault {
    FAULT_CUT,     /* the link is cut before the request arrives */
    FAULT_LOSE,    /* the request is carried out, its answer lost */
    FAULT_EXPIRE,  /* the session is killed by force before it */
    FAULT_EXPIRED, /* the session is killed by force after it */
    FAULT_STOP,    /* nothing is answered any more until the session has expired */
    FAULTS
};

enum recipe { MUTEX, DOWNGRADE, SEMAPHORE, RECIPES };

struct sweep_case {
    pthread_t thread;
    enum fault fault;
    enum recipe recipe;
    int endpoint; /* whose requests */
    int step;
    struct fake_zk *zk;
    bool reached;      /* there was such a request */
    const char *wrong; /* NULL: all was right */
    /* Of the grants, by the clock of the test: the end is when it was let go, or when it was seen
     * that the lease is over. */
    pthread_mutex_t mutex;
    int64_t from_ns[2 * TRIES];
    int64_t to_ns[2 * TRIES];
    int64_t tokens[2 * TRIES];
    int endpoints[2 * TRIES]; /* whose turn it was */
    size_t turns;
};

struct actor {
    struct sweep_case *s;
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

static void stop_endpoint(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, ((struct sweep_case *)ctx)->endpoint, FAKE_SILENT);
}

static void set_fault(struct sweep_case *s)
{
    static const enum fake_action actions[FAULTS] = {
        FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE, FAKE_EXPIRE_AFTER, FAKE_CALL,
    };
    struct fake_hook h = {.endpoint = s->endpoint,
                          .op = FAKE_ANY_OP,
                          .nth = s->step,
                          .action = actions[s->fault],
                          .fn = stop_endpoint,
                          .ctx = s};
    fake_zk_hook(s->zk, &h);
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
    struct sweep_case *s = a->s;
    int64_t from = now_ns();
    int64_t to = from;
    for (int i = 0; i < 5 && held(a); i++) {
        if (i == 2 && s->recipe == DOWNGRADE && a->endpoint == 0) {
            int error = conclave_lock_downgrade(a->lock, 1000);
            (void)error; /* what became of it is seen by what is held */
        }
        /* It was held when the clock was read, if it still is. */
        int64_t now = now_ns();
        to = held(a) ? now : to;
        sleep_ms(2);
    }
    (void)pthread_mutex_lock(&s->mutex);
    s->from_ns[s->turns] = from;
    s->to_ns[s->turns] = to;
    s->endpoints[s->turns] = a->endpoint;
    s->tokens[s->turns++] = token.czxid;
    (void)pthread_mutex_unlock(&s->mutex);
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
        if (a->s->fault == FAULT_STOP && i > 0) {
            fake_zk_link(a->s->zk, a->s->endpoint, FAKE_UP);
        }
    }
    a->wrong = "it never had a turn";
    return NULL;
}

static bool create(struct actor *a)
{
    static const struct conclave_lock_callbacks callbacks = {on_lost, NULL, on_closed};
    static const struct conclave_semaphore_callbacks semaphore_callbacks = {NULL,
                                                                            on_semaphore_closed};
    if (a->s->recipe == SEMAPHORE) {
        struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
        options.path = LOCK_PATH;
        options.permits = 1;
        return conclave_semaphore_open(a->recipes, &options, &semaphore_callbacks, a,
                                       &a->semaphore) == 0;
    }
    struct conclave_lock_options options = locker_options("x");
    options.kind = a->s->recipe == DOWNGRADE ? CONCLAVE_LOCK_WRITE : CONCLAVE_LOCK_EXCLUSIVE;
    return conclave_lock_open(a->recipes, &options, &callbacks, a, &a->lock) == 0;
}

static bool actor_open(struct actor *a, struct sweep_case *s, int endpoint)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    a->s = s;
    a->endpoint = endpoint;
    options.servers = fake_zk_address(s->zk, endpoint);
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

static bool first_turn(const struct sweep_case *s, size_t turn)
{
    for (size_t i = 0; i < turn; i++) {
        if (s->endpoints[i] == s->endpoints[turn]) {
            return false;
        }
    }
    return true;
}

/* Turns of a session that was killed by force may overlap the next one's, or even begin after it, as
 * nobody told the holder yet; nothing else. */
static const char *check(const struct sweep_case *s)
{
    bool forced = s->fault == FAULT_EXPIRE || s->fault == FAULT_EXPIRED;
    for (size_t i = 0; i < s->turns; i++) {
        for (size_t j = 0; j < s->turns; j++) {
            if (i == j || s->from_ns[j] < s->from_ns[i]) {
                continue;
            }
            if (!forced && s->from_ns[j] < s->to_ns[i]) {
                return "two held it at once";
            }
            bool untold = forced && s->endpoints[j] == s->endpoint && first_turn(s, j);
            if (!untold && s->tokens[j] <= s->tokens[i]) {
                return "a token did not grow";
            }
        }
    }
    return NULL;
}

static const char *scenario(struct sweep_case *s, struct actor *actors)
{
    for (int i = 0; i < 2; i++) {
        if (!actor_open(&actors[i], s, i)) {
            return "no actor";
        }
    }
    set_fault(s);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&actors[i].thread, NULL, act, &actors[i]) != 0) {
            return "no thread";
        }
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(actors[i].thread, NULL);
        s->wrong = s->wrong == NULL ? actors[i].wrong : s->wrong;
    }
    s->reached = fake_zk_hooks_left(s->zk) == 0;
    fake_zk_hooks_clear(s->zk);
    fake_zk_link(s->zk, s->endpoint, FAKE_UP);
    for (int i = 0; i < 2; i++) {
        const char *wrong = actor_close(&actors[i]);
        s->wrong = s->wrong == NULL ? wrong : s->wrong;
    }
    return s->wrong;
}

static void *run_case(void *arg)
{
    struct sweep_case *s = arg;
    struct actor *actors = calloc(2, sizeof *actors);
    s->zk = fake_zk_start();
    if (actors == NULL || s->zk == NULL) {
        s->wrong = "no memory or socket";
        return NULL;
    }
    s->wrong = scenario(s, actors);
    if (s->wrong != NULL) {
        return NULL; /* what still runs may use the actors */
    }
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (fake_zk_ephemerals(s->zk) > 0 && now_ns() < end) {
        sleep_ms(1);
    }
    s->wrong = fake_zk_ephemerals(s->zk) > 0 || fake_zk_child_count(s->zk, LOCK_PATH) > 0
                   ? "a node was left"
                   : check(s);
    fake_zk_stop(s->zk);
    free(actors);
    return NULL;
}

static void sweep(enum recipe recipe, enum fault fault)
{
    static struct sweep_case cases[2 * STEPS];
    size_t count = 0;
    int reached = 0;
    int wrong = 0;
    memset(cases, 0, sizeof cases);
    for (int step = 1; step <= STEPS; step++) {
        for (int endpoint = 0; endpoint < 2; endpoint++) {
            cases[count] = (struct sweep_case){
                .recipe = recipe, .fault = fault, .endpoint = endpoint, .step = step};
            (void)pthread_mutex_init(&cases[count++].mutex, NULL);
        }
    }
    for (size_t from = 0; from < count; from += BESIDE) {
        for (size_t i = from; i < from + BESIDE && i < count; i++) {
            assert_int_equal(pthread_create(&cases[i].thread, NULL, run_case, &cases[i]), 0);
        }
        for (size_t i = from; i < from + BESIDE && i < count; i++) {
            assert_int_equal(pthread_join(cases[i].thread, NULL), 0);
        }
    }
    for (size_t i = 0; i < count; i++) {
        reached += cases[i].reached ? 1 : 0;
        if (cases[i].wrong != NULL) {
            print_error("%s, request %d: %s\n", cases[i].endpoint == 0 ? "first" : "second",
                        cases[i].step, cases[i].wrong);
            wrong++;
        }
    }
    print_message("%d of %zu faults were met\n", reached, count);
    assert_int_equal(wrong, 0);
    assert_true(reached >= 10);
}

static void link_cut_before_every_request(void **state)
{
    sweep(*(enum recipe *)*state, FAULT_CUT);
}

static void answer_lost_of_every_request(void **state)
{
    sweep(*(enum recipe *)*state, FAULT_LOSE);
}

static void session_killed_before_every_request(void **state)
{
    sweep(*(enum recipe *)*state, FAULT_EXPIRE);
}

static void session_killed_after_every_request(void **state)
{
    sweep(*(enum recipe *)*state, FAULT_EXPIRED);
}

static void silence_from_every_request_on(void **state)
{
    sweep(*(enum recipe *)*state, FAULT_STOP);
}

#define OF(recipe)                                                                                 \
    cmocka_unit_test_prestate(link_cut_before_every_request, &(recipe)),                           \
        cmocka_unit_test_prestate(answer_lost_of_every_request, &(recipe)),                        \
        cmocka_unit_test_prestate(session_killed_before_every_request, &(recipe)),                 \
        cmocka_unit_test_prestate(session_killed_after_every_request, &(recipe)),                  \
        cmocka_unit_test_prestate(silence_from_every_request_on, &(recipe))

int main(void)
{
    static enum recipe recipes[RECIPES] = {MUTEX, DOWNGRADE, SEMAPHORE};
    const struct CMUnitTest tests[] = {OF(recipes[MUTEX]), OF(recipes[DOWNGRADE]),
                                       OF(recipes[SEMAPHORE])};
    return RUN_TESTS(tests);
}
