/* Semaphores: N at a time, who is let in, N itself. E66. */
#include "support/locker.h"

#include <conclave/semaphore.h>

#include <poll.h>

#define SEMAPHORE_PATH "/app/semaphore"

struct user {
    struct locker base; /* client and recipes; its lock is not used */
    struct conclave_semaphore *semaphore;
    _Atomic int answer;
    _Atomic int lost;
};

static void on_lost(struct conclave_semaphore *semaphore, int why, int64_t within, void *ctx)
{
    ((struct user *)ctx)->lost++;
}

static void user_create(struct user *u, int32_t permits)
{
    static const struct conclave_semaphore_callbacks callbacks = {.size = sizeof callbacks,
                                                                  .on_lost = on_lost};
    struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    options.path = SEMAPHORE_PATH;
    options.id = "user";
    options.permits = permits;
    u->answer = UNTOLD;
    u->lost = 0;
    assert_int_equal(
        conclave_semaphore_open(u->base.recipes, &options, &callbacks, u, &u->semaphore), 0);
}

static void user_open(struct user *u, struct fake_zk *zk, int endpoint, int32_t permits)
{
    locker_connect_to(&u->base, zk, endpoint, "user", NULL, usual_session_ms);
    assert_int_equal(conclave_client_wait_connected(u->base.client, PATIENCE_MS), 0);
    user_create(u, permits);
}

static void user_share(struct user *u, const struct user *with, int32_t permits)
{
    locker_share(&u->base, &with->base, "user");
    user_create(u, permits);
}

static void user_finish(struct user *u)
{
    assert_int_equal(conclave_semaphore_close_wait(u->semaphore, PATIENCE_MS), 0);
    conclave_semaphore_destroy(u->semaphore);
    locker_finish(&u->base);
}

static void on_answer(struct conclave_semaphore *semaphore, int error, struct conclave_token token,
                      void *ctx)
{
    ((struct user *)ctx)->answer = error;
}

static void user_ask(struct user *u)
{
    assert_int_equal(conclave_semaphore_acquire_async(u->semaphore, CONCLAVE_FOREVER, on_answer, u),
                     0);
}

static void *hold_one(void *arg)
{
    struct user *u = arg;
    return (void *)(intptr_t)conclave_semaphore_acquire(u->semaphore, PATIENCE_MS, NULL);
}

static void E66_the_holder_in_the_middle_dies_and_one_is_let_in(void **state)
{
    struct fake_zk *zk = *state;
    struct user u[4];
    struct user waiters[3];
    for (int i = 0; i < 3; i++) {
        user_open(&u[i], zk, i, 3);
        assert_int_equal(conclave_semaphore_acquire(u[i].semaphore, PATIENCE_MS, NULL), 0);
    }
    user_open(&u[3], zk, 3, 3);
    for (int i = 0; i < 3; i++) {
        user_share(&waiters[i], &u[3], 3);
        user_ask(&waiters[i]);
        EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == (size_t)i + 4);
    }
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    assert_int_equal(waiters[0].answer, UNTOLD);
    assert_int_equal(conclave_semaphore_acquire(u[3].semaphore, 0, NULL), CONCLAVE_EBUSY);
    fake_zk_expire(zk, locker_session(&u[1].base));
    EVENTUALLY(waiters[0].answer == 0);
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    assert_int_equal(waiters[1].answer, UNTOLD);
    assert_int_equal(waiters[2].answer, UNTOLD);
    EVENTUALLY(u[1].lost == 1);
    assert_int_equal(conclave_semaphore_release(u[1].semaphore, 0), CONCLAVE_ELOST);
    assert_int_equal(conclave_semaphore_release(u[2].semaphore, PATIENCE_MS), 0);
    EVENTUALLY(waiters[1].answer == 0);
    assert_int_equal(waiters[2].answer, UNTOLD);
    assert_int_equal(conclave_semaphore_release(u[0].semaphore, PATIENCE_MS), 0);
    EVENTUALLY(waiters[2].answer == 0);
    for (int i = 0; i < 3; i++) {
        user_finish(&waiters[i]);
    }
    for (int i = 0; i < 4; i++) {
        user_finish(&u[i]);
    }
    all_gone(zk, SEMAPHORE_PATH);
}

static void several_leave_at_once_and_as_many_are_let_in(void **state)
{
    enum { N = 4, WAITERS = 12 };
    struct fake_zk *zk = *state;
    struct user a;
    struct user h[N];
    struct user w[WAITERS];
    struct user b;
    user_open(&a, zk, 0, N);
    user_open(&b, zk, 1, N);
    for (int i = 0; i < N; i++) {
        user_share(&h[i], &a, N);
        assert_int_equal(conclave_semaphore_acquire(h[i].semaphore, PATIENCE_MS, NULL), 0);
    }
    for (int i = 0; i < WAITERS; i++) {
        user_share(&w[i], &b, N);
        user_ask(&w[i]);
        EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == (size_t)N + i + 1);
    }
    fake_zk_expire(zk, locker_session(&a.base)); /* all of them in one transaction */
    for (int i = 0; i < WAITERS; i++) {
        EVENTUALLY((i < N) == (w[i].answer == 0));
    }
    for (int i = 0; i < WAITERS; i++) {
        EVENTUALLY(w[i].answer == 0);
        assert_int_equal(conclave_semaphore_release(w[i].semaphore, PATIENCE_MS), 0);
    }
    for (int i = 0; i < WAITERS; i++) {
        user_finish(&w[i]);
    }
    for (int i = 0; i < N; i++) {
        user_finish(&h[i]);
    }
    user_finish(&a);
    user_finish(&b);
}

static void E66_another_number_of_permits_is_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct user a;
    struct user b;
    char data[32];
    user_open(&a, zk, 0, 3);
    user_open(&b, zk, 1, 2);
    assert_int_equal(conclave_semaphore_acquire(a.semaphore, PATIENCE_MS, NULL), 0);
    assert_true(fake_zk_data(zk, SEMAPHORE_PATH, data, sizeof data));
    assert_string_equal(data, "3");
    assert_int_equal(conclave_semaphore_acquire(b.semaphore, PATIENCE_MS, NULL),
                     CONCLAVE_ECONFLICT);
    EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == 1);
    assert_true(conclave_semaphore_is_held(a.semaphore));
    assert_int_equal(conclave_semaphore_acquire(a.semaphore, 0, NULL), CONCLAVE_EDEADLK);
    user_finish(&a);
    /* When the node was reaped, the number went with it. */
    EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == 0);
    fake_zk_delete(zk, SEMAPHORE_PATH);
    assert_int_equal(conclave_semaphore_acquire(b.semaphore, PATIENCE_MS, NULL), 0);
    user_finish(&b);
}

/* Two that come first with different numbers: one of them sets it. */
static void E66_two_first_contenders_with_different_numbers(void **state)
{
    struct fake_zk *zk = *state;
    for (int round = 0; round < 10; round++) {
        struct user a;
        struct user b;
        pthread_t threads[2];
        void *results[2];
        user_open(&a, zk, 0, 1);
        user_open(&b, zk, 1, 2);
        assert_int_equal(pthread_create(&threads[0], NULL, hold_one, &a), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, hold_one, &b), 0);
        assert_int_equal(pthread_join(threads[0], &results[0]), 0);
        assert_int_equal(pthread_join(threads[1], &results[1]), 0);
        bool first = results[0] == NULL;
        assert_int_equal((intptr_t)results[first ? 1 : 0], CONCLAVE_ECONFLICT);
        assert_int_equal((intptr_t)results[first ? 0 : 1], 0);
        user_finish(&a);
        user_finish(&b);
        all_gone(zk, SEMAPHORE_PATH);
        fake_zk_delete(zk, SEMAPHORE_PATH);
    }
}

/* N becomes smaller while N hold it: a later contender waits for as many as its own N needs, and no longer, though those
 * before it hold by the earlier N and report nothing but their end. */
static void E66_a_number_made_smaller_counts_for_later_contenders(void **state)
{
    struct fake_zk *zk = *state;
    struct user h[3];
    struct user w[2];
    for (int i = 0; i < 3; i++) {
        user_open(&h[i], zk, i, 3);
        assert_int_equal(conclave_semaphore_acquire(h[i].semaphore, PATIENCE_MS, NULL), 0);
    }
    fake_zk_write(zk, SEMAPHORE_PATH, "2");
    user_open(&w[0], zk, 3, 2);
    user_share(&w[1], &w[0], 2);
    for (int i = 0; i < 2; i++) {
        user_ask(&w[i]);
        EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == (size_t)i + 4);
        requests_settled(zk, FAKE_ANY_ENDPOINT);
    }
    assert_int_equal(conclave_semaphore_release(h[0].semaphore, PATIENCE_MS), 0);
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    assert_int_equal(w[0].answer, UNTOLD); /* two still hold it */
    assert_int_equal(conclave_semaphore_release(h[1].semaphore, PATIENCE_MS), 0);
    EVENTUALLY(w[0].answer == 0);
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    assert_int_equal(w[1].answer, UNTOLD);
    assert_int_equal(conclave_semaphore_release(w[0].semaphore, PATIENCE_MS), 0);
    EVENTUALLY(w[1].answer == 0);
    for (int i = 0; i < 2; i++) {
        user_finish(&w[1 - i]);
    }
    for (int i = 0; i < 3; i++) {
        user_finish(&h[i]);
    }
}

static size_t hand_over_cost(struct fake_zk *zk, int waiters)
{
    enum { MOST = 60 };
    static struct user w[MOST];
    struct user a;
    struct user b;
    locker_connect_to(&a.base, zk, 0, "a", NULL, 60000); /* no heartbeat in the meantime */
    locker_connect_to(&b.base, zk, 1, "b", NULL, 60000);
    assert_int_equal(conclave_client_wait_connected(a.base.client, PATIENCE_MS), 0);
    assert_int_equal(conclave_client_wait_connected(b.base.client, PATIENCE_MS), 0);
    user_create(&a, 2);
    user_create(&b, 2);
    assert_int_equal(conclave_semaphore_acquire(a.semaphore, PATIENCE_MS, NULL), 0);
    assert_int_equal(conclave_semaphore_acquire(b.semaphore, PATIENCE_MS, NULL), 0);
    for (int i = 0; i < waiters; i++) {
        user_share(&w[i], &b, 2);
        user_ask(&w[i]);
        EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == (size_t)i + 3);
    }
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    fake_zk_count_reset(zk);
    assert_int_equal(conclave_semaphore_release(a.semaphore, PATIENCE_MS), 0);
    EVENTUALLY(w[0].answer == 0);
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    size_t cost = fake_zk_count(zk, FAKE_ANY_ENDPOINT, FAKE_ANY_OP);
    for (int i = waiters - 1; i >= 0; i--) {
        user_finish(&w[i]);
    }
    user_finish(&a);
    user_finish(&b);
    all_gone(zk, SEMAPHORE_PATH);
    return cost;
}

static void hand_over_costs_the_same_for_few_and_many(void **state)
{
    size_t few = hand_over_cost(*state, 5);
    size_t many = hand_over_cost(*state, 60);
    print_message("%zu requests with 5 waiters, %zu with 60\n", few, many);
    assert_true(many <= few + 1);
    assert_true(many <= 14);
}

enum { AT_ONCE = 3 };

static _Atomic int inside;
static _Atomic int most;

/* The first ones go on when as many are inside as may be. */
static void *many_turns(void *arg)
{
    struct user *u = arg;
    for (int i = 0; i < 30; i++) {
        if (conclave_semaphore_acquire(u->semaphore, CONCLAVE_FOREVER, NULL) != 0) {
            return (void *)1;
        }
        int now = ++inside;
        int seen = most;
        while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now)) {}
        for (int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
             most < AT_ONCE && now_ns() < end;) {
            sleep_ms(1);
        }
        (void)usleep(300);
        inside--;
        if (conclave_semaphore_release(u->semaphore, PATIENCE_MS) != 0) {
            return (void *)2;
        }
    }
    return NULL;
}

/* Nobody is forgotten, whoever leaves when. */
static void many_turns_of_many(void **state)
{
    enum { USERS = 9 };
    struct fake_zk *zk = *state;
    struct user base[3];
    struct user u[USERS];
    pthread_t threads[USERS];
    inside = 0;
    most = 0;
    for (int i = 0; i < 3; i++) {
        locker_connect_to(&base[i].base, zk, i, "x", NULL, LONG_SESSION_MS);
        assert_int_equal(conclave_client_wait_connected(base[i].base.client, PATIENCE_MS), 0);
        user_create(&base[i], AT_ONCE);
    }
    for (int i = 0; i < USERS; i++) {
        user_share(&u[i], &base[i % 3], AT_ONCE);
        assert_int_equal(pthread_create(&threads[i], NULL, many_turns, &u[i]), 0);
    }
    for (int i = 0; i < USERS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
        user_finish(&u[i]);
    }
    assert_int_equal(most, AT_ONCE);
    for (int i = 0; i < 3; i++) {
        user_finish(&base[i]);
    }
}

/* The write that wakes the next one is lost: it is written again. */
static void the_mark_is_lost(struct fake_zk *zk, enum fake_action action)
{
    struct user h;
    struct user a;
    struct user w[2];
    locker_connect_to(&h.base, zk, 0, "h", NULL, LONG_SESSION_MS);
    locker_connect_to(&a.base, zk, 1, "a", NULL, LONG_SESSION_MS);
    assert_int_equal(conclave_client_wait_connected(h.base.client, PATIENCE_MS), 0);
    assert_int_equal(conclave_client_wait_connected(a.base.client, PATIENCE_MS), 0);
    user_create(&h, 2);
    user_create(&a, 2);
    assert_int_equal(conclave_semaphore_acquire(h.semaphore, PATIENCE_MS, NULL), 0);
    assert_int_equal(conclave_semaphore_acquire(a.semaphore, PATIENCE_MS, NULL), 0);
    user_share(&w[0], &a, 2);
    user_ask(&w[0]);
    EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == 3);
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    locker_connect_to(&w[1].base, zk, 2, "w", NULL, LONG_SESSION_MS);
    assert_int_equal(conclave_client_wait_connected(w[1].base.client, PATIENCE_MS), 0);
    user_create(&w[1], 2);
    user_ask(&w[1]);
    EVENTUALLY(fake_zk_child_count(zk, SEMAPHORE_PATH) == 4);
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    hook(zk, 1, WIRE_SET_DATA, NULL, 1, action);
    assert_int_equal(conclave_semaphore_release(h.semaphore, PATIENCE_MS), 0);
    EVENTUALLY(w[0].answer == 0);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0);
    assert_int_equal(conclave_semaphore_release(w[0].semaphore, PATIENCE_MS), 0);
    EVENTUALLY(w[1].answer == 0);
    user_finish(&w[0]);
    user_finish(&w[1]);
    user_finish(&a);
    user_finish(&h);
}

static void the_mark_never_arrives(void **state)
{
    the_mark_is_lost(*state, FAKE_CUT_BEFORE);
}

static void the_answer_of_the_mark_is_lost(void **state)
{
    the_mark_is_lost(*state, FAKE_DROP_REPLY);
}

static void a_semaphore_in_a_loop_of_ones_own(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct user u;
    memset(&u, 0, sizeof u);
    (void)pthread_mutex_init(&u.base.mutex, NULL);
    options.servers = fake_zk_address(zk, 0);
    options.session_timeout_ms = LONG_SESSION_MS;
    assert_int_equal(conclave_client_open(&options, &u.base.client), 0);
    assert_int_equal(conclave_recipes_open(u.base.client, &u.base.recipes), 0);
    user_create(&u, 2);
    user_ask(&u);
    assert_int_equal(u.answer, UNTOLD);
    for (int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
         u.answer == UNTOLD && now_ns() < end;) {
        struct pollfd fd = {.fd = conclave_client_fd(u.base.client), .events = POLLIN};
        (void)poll(&fd, 1, 2);
        assert_int_equal(conclave_client_dispatch(u.base.client), 0);
    }
    assert_int_equal(u.answer, 0);
    assert_true(conclave_semaphore_is_held(u.semaphore));
    assert_int_equal(conclave_semaphore_release(u.semaphore, PATIENCE_MS), 0);
    user_finish(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E66_the_holder_in_the_middle_dies_and_one_is_let_in),
        E_TEST(several_leave_at_once_and_as_many_are_let_in),
        E_TEST(E66_another_number_of_permits_is_refused),
        E_TEST(E66_two_first_contenders_with_different_numbers),
        E_TEST(E66_a_number_made_smaller_counts_for_later_contenders),
        E_TEST(hand_over_costs_the_same_for_few_and_many),
        E_TEST(many_turns_of_many),
        E_TEST(the_mark_never_arrives),
        E_TEST(the_answer_of_the_mark_is_lost),
        E_TEST(a_semaphore_in_a_loop_of_ones_own),
    };
    return RUN_TESTS(tests);
}
