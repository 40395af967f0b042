/* Waiting for a lock: who is woken, what ends it, and what is left then. E21 to E37, E57 to E61. */
#include "support/locker.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/wait.h>

static void holder_and_waiter(struct fake_zk *zk, struct locker *a, struct locker *b)
{
    locker_open(a, zk, 0, "a");
    locker_open(b, zk, 1, "b");
    locker_ask(a, CONCLAVE_FOREVER);
    EVENTUALLY(ANSWER(a) == 0);
    locker_ask(b, CONCLAVE_FOREVER);
    locker_settled(b);
    assert_int_equal(ANSWER(b), UNTOLD);
}

static void E21_a_departure_wakes_one_of_many(void **state)
{
    enum { MANY = 100 };
    struct fake_zk *zk = *state;
    static struct locker l[MANY];
    locker_connect_to(&l[0], zk, 0, "x", NULL, 30000);
    for (int i = 0; i < MANY; i++) {
        if (i > 0) {
            locker_share(&l[i], &l[0], "x");
        }
        locker_create(&l[i]);
        locker_ask(&l[i], CONCLAVE_FOREVER);
        EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == (size_t)i + 1);
    }
    locker_settled(&l[MANY - 1]);
    EVENTUALLY(ANSWER(&l[0]) == 0);
    fake_zk_count_reset(zk);
    locker_let_go(&l[0]);
    EVENTUALLY(ANSWER(&l[1]) == 0);
    sleep_ms(50);
    assert_int_equal(ANSWER(&l[2]), UNTOLD);
    assert_true(fake_zk_count_events(zk) <= 2); /* the next one's, and that of its own node */
    assert_int_equal(fake_zk_count(zk, 0, WIRE_GET_CHILDREN2), 0);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_GET_DATA), 1); /* of the one that is gone */
    for (int i = MANY - 1; i >= 0; i--) {
        locker_finish(&l[i]);
    }
}

static void E21_a_word_of_the_one_before_is_no_departure(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    char node[96];
    char path[160];
    holder_and_waiter(zk, &a, &b);
    conclave_lock_node(a.lock, node, sizeof node);
    (void)snprintf(path, sizeof path, "%s/%s", LOCK_PATH, node);
    fake_zk_count_reset(zk);
    for (int i = 0; i < 3; i++) {
        fake_zk_write(zk, path, i == 0 ? "__REVOKE__" : "a word");
        EVENTUALLY(fake_zk_count(zk, 1, WIRE_GET_DATA) == (size_t)i + 1);
        locker_settled(&b);
    }
    assert_int_equal(ANSWER(&b), UNTOLD);
    assert_int_equal(fake_zk_count(zk, 1, WIRE_GET_CHILDREN2), 0);
    locker_let_go(&a);
    EVENTUALLY(ANSWER(&b) == 0);
    locker_finish(&a);
    locker_finish(&b);
}

static void E22_the_one_in_the_middle_goes(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    struct locker c;
    holder_and_waiter(zk, &a, &b);
    locker_open(&c, zk, 2, "c");
    locker_ask(&c, CONCLAVE_FOREVER);
    locker_settled(&c);
    assert_int_equal(conclave_lock_cancel(b.lock), 0);
    EVENTUALLY(ANSWER(&b) == CONCLAVE_ECANCELED);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 2);
    STAYS(ANSWER(&c) == UNTOLD && !HELD(&c), 100);
    locker_let_go(&a);
    EVENTUALLY(ANSWER(&c) == 0);
    locker_finish(&a);
    locker_finish(&b);
    locker_finish(&c);
}

static void delete_first(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, ctx);
}

static void E23_the_one_before_goes_between_list_and_watch(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    static char first[] = LOCK_PATH "/0123456789abcdef0123456789abcdef-n_-000000009";
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, LOCK_PATH, "", 0);
    fake_zk_create(zk, first, "", 0x99);
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_GET_DATA,
                          .path = "-n_-000000009",
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = delete_first,
                          .ctx = first};
    fake_zk_hook(zk, &h);
    locker_open(&a, zk, 0, "a");
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    locker_finish(&a);
}

static void E24_the_one_before_goes_while_the_link_is_away(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    locker_open(&a, zk, 0, "a");
    locker_connect_to(&b, zk, 1, "b", NULL, 5000);
    assert_int_equal(conclave_client_wait_connected(b.client, PATIENCE_MS), 0);
    locker_create(&b);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    locker_ask(&b, CONCLAVE_FOREVER);
    locker_settled(&b);
    size_t creates = fake_zk_count(zk, 1, WIRE_CREATE2);
    fake_zk_link(zk, 1, FAKE_REFUSE);
    EVENTUALLY(locker_suspended(&b));
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    STAYS(ANSWER(&b) == UNTOLD, 50);
    fake_zk_link(zk, 1, FAKE_UP);
    EVENTUALLY(ANSWER(&b) == 0);
    assert_int_equal(fake_zk_count(zk, 1, WIRE_CREATE2), creates);
    locker_finish(&a);
    locker_finish(&b);
}

static void E26_session_ends_while_it_waits(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    holder_and_waiter(zk, &a, &b);
    fake_zk_expire(zk, locker_session(&b));
    EVENTUALLY(ANSWER(&b) == CONCLAVE_SESSION_EXPIRED); /* long before a lets go */
    assert_true(HELD(&a));
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 1);
    locker_finish(&a);
    locker_finish(&b);
}

static void E27_own_node_deleted_while_it_waits(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    char node[256];
    holder_and_waiter(zk, &a, &b);
    assert_true(locker_node(&b, node, sizeof node));
    fake_zk_delete(zk, node);
    EVENTUALLY(ANSWER(&b) == CONCLAVE_ELOST);
    assert_true(HELD(&a));
    locker_finish(&a);
    locker_finish(&b);
}

static void delete_both(struct fake_zk *zk, void *ctx)
{
    char(*nodes)[256] = ctx;
    fake_zk_delete_locked(zk, nodes[0]);
    fake_zk_delete_locked(zk, nodes[1]);
}

static void E28_own_node_and_the_one_before_deleted_at_once(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    char nodes[2][256];
    holder_and_waiter(zk, &a, &b);
    assert_true(locker_node(&a, nodes[0], sizeof nodes[0]));
    assert_true(locker_node(&b, nodes[1], sizeof nodes[1]));
    fake_zk_do(zk, delete_both, nodes);
    EVENTUALLY(ANSWER(&b) == CONCLAVE_ELOST);
    EVENTUALLY(LOST(&a) == 1);
    assert_false(HELD(&b));
    locker_finish(&a);
    locker_finish(&b);
}

static void E31_list_larger_than_the_client_takes_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_connect_to(&a, zk, 0, "a", NULL, 10000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    locker_create(&a);
    hook(zk, 0, WIRE_GET_CHILDREN2, NULL, 1, FAKE_OVERSIZED);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), CONCLAVE_ETOOBIG);
    all_gone(zk, LOCK_PATH);
    locker_finish(&a);
}

static void E32_a_thousand_turns_leave_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_connect_to(&a, zk, 0, "a", NULL, 10000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    locker_create(&a);
    int64_t last = 0;
    for (int i = 0; i < 1000; i++) {
        struct conclave_token token;
        assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, &token), 0);
        assert_true(token.czxid > last);
        last = token.czxid;
        assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    }
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 0);
    EVENTUALLY(fake_zk_watches(zk) == 0);
    locker_finish(&a);
}

static void E33_times_of_every_size(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    holder_and_waiter(zk, &a, &b);
    assert_int_equal(conclave_lock_cancel(b.lock), 0);
    EVENTUALLY(ANSWER(&b) == CONCLAVE_ECANCELED);
    int64_t from = now_ns();
    assert_int_equal(conclave_lock_acquire(b.lock, 60, NULL), CONCLAVE_ETIMEDOUT);
    assert_true(now_ns() - from >= INT64_C(60) * 1000000);
    assert_int_equal(conclave_lock_acquire(b.lock, 0, NULL), CONCLAVE_EBUSY);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 1);
    locker_let_go(&a);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 0);
    assert_int_equal(conclave_lock_acquire(b.lock, INT64_MAX, NULL), 0);
    locker_finish(&a);
    locker_finish(&b);
}

static atomic_bool answer_is_late;

static void answer_late(struct fake_zk *zk, void *ctx)
{
    answer_is_late = true;
    sleep_ms(150);
}

/* Equal numbers: each node's czxid is asked for. It is canceled while such an answer is on its way. */
static void E33_canceled_while_the_order_is_looked_up(void **state)
{
    struct fake_zk *zk = *state;
    struct locker b;
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, LOCK_PATH, "", 0);
    fake_zk_create(zk, LOCK_PATH "/aa-n_0000000000", "x", 0x99);
    fake_zk_create(zk, LOCK_PATH "/bb-n_0000000000", "x", 0x99);
    locker_open(&b, zk, 1, "b");
    struct fake_hook hook = {
        .endpoint = 1, .op = WIRE_EXISTS, .nth = 1, .action = FAKE_CALL, .fn = answer_late};
    fake_zk_hook(zk, &hook);
    answer_is_late = false;
    locker_ask(&b, CONCLAVE_FOREVER);
    EVENTUALLY(answer_is_late);
    assert_int_equal(conclave_lock_cancel(b.lock), 0);
    EVENTUALLY(ANSWER(&b) == CONCLAVE_ECANCELED);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 2);
    locker_finish(&b);
}

/* The grant comes about when the time is up. */
static void E34_time_is_up_when_it_is_granted(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    int granted = 0;
    locker_connect_to(&a, zk, 0, "a", NULL, 10000);
    locker_connect_to(&b, zk, 1, "b", NULL, 10000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    assert_int_equal(conclave_client_wait_connected(b.client, PATIENCE_MS), 0);
    locker_create(&a);
    locker_create(&b);
    for (int i = 0; i < 300; i++) {
        struct conclave_token token;
        assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
        a.answer = UNTOLD;
        b.answer = UNTOLD;
        locker_ask(&b, 4 + i % 3);
        sleep_ms(4);
        assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
        EVENTUALLY(ANSWER(&b) != UNTOLD);
        if (ANSWER(&b) == 0) {
            granted++;
            assert_true(HELD(&b));
            assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 1);
            locker_let_go(&b);
        } else {
            assert_int_equal(ANSWER(&b), CONCLAVE_ETIMEDOUT);
            assert_false(HELD(&b));
        }
        /* A node of b may still come and go: its time was up while the request was on its way. */
        int error;
        while ((error = conclave_lock_try(a.lock, &token)) == CONCLAVE_EBUSY) {
            sleep_ms(1);
        }
        assert_int_equal(error, 0);
        assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
        EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 0);
    }
    print_message("%d of 300 were granted\n", granted);
    locker_finish(&a);
    locker_finish(&b);
}

static void mark_met(struct fake_zk *zk, void *ctx)
{
    *(_Atomic bool *)ctx = true;
}

/* Canceled at every request of it, by another thread. */
static void E35_cancel_at_every_step(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    locker_open(&a, zk, 0, "a");
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    for (int step = 1; step <= 5; step++) {
        _Atomic bool met = false;
        locker_open(&b, zk, 1, "b");
        struct fake_hook h = {.endpoint = 1,
                              .op = FAKE_ANY_OP,
                              .nth = step,
                              .action = FAKE_CALL,
                              .fn = mark_met,
                              .ctx = &met};
        fake_zk_hook(zk, &h);
        locker_ask(&b, CONCLAVE_FOREVER);
        for (int i = 0; i < 200 && !met; i++) {
            sleep_ms(1);
        }
        assert_int_equal(conclave_lock_cancel(b.lock), 0);
        EVENTUALLY(ANSWER(&b) == CONCLAVE_ECANCELED);
        assert_int_equal(ANSWERS(&b), 1);
        EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 1);
        fake_zk_hooks_clear(zk);
        locker_finish(&b);
    }
    assert_true(HELD(&a));
    locker_finish(&a);
}

static void E36_released_and_closed_inside_its_callback(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_open(&a, zk, 0, "a");
    a.release_in = true;
    locker_ask(&a, CONCLAVE_FOREVER);
    EVENTUALLY(locker_get(&a, &a.releases) == 1);
    assert_int_equal(a.inside_error, CONCLAVE_EDEADLK); /* the one that would block */
    all_gone(zk, LOCK_PATH);
    locker_finish(&a);
}

static void E37_closed_while_its_watches_stand(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    holder_and_waiter(zk, &a, &b);
    locker_close(&b);
    assert_int_equal(ANSWER(&b), CONCLAVE_ECLOSED);
    locker_let_go(&a); /* fires what b had asked for */
    all_gone(zk, LOCK_PATH);
    sleep_ms(50);
    locker_finish(&b);
    locker_finish(&a);
}

static void E57_nothing_is_granted_on_a_server_that_cannot_write(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_open(&a, zk, 0, "a");
    fake_zk_read_only(zk, 0, true);
    assert_int_not_equal(conclave_lock_acquire(a.lock, 200, NULL), 0);
    assert_false(HELD(&a));
    fake_zk_read_only(zk, 0, false);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    locker_finish(&a);
}

static void E58_refused_credentials_end_what_waits(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    holder_and_waiter(zk, &a, &b);
    fake_zk_refuse_auth(zk, true);
    assert_int_equal(conclave_client_add_auth(b.client, "digest", "u:p", 3), 0);
    EVENTUALLY(ANSWER(&b) == CONCLAVE_AUTH_FAILED);
    EVENTUALLY(locker_get(&b, &b.closed) == 1);
    assert_int_equal(conclave_lock_acquire(b.lock, PATIENCE_MS, NULL), CONCLAVE_AUTH_FAILED);
    locker_finish(&b);
    locker_finish(&a);
}

static void *acquire_in_thread(void *arg)
{
    struct locker *l = arg;
    return (void *)(intptr_t)conclave_lock_acquire(l->lock, CONCLAVE_FOREVER, NULL);
}

static void E59_the_end_of_the_handle_unblocks_all_that_wait(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    pthread_t threads[4];
    locker_open(&a, zk, 0, "a");
    locker_open(&b, zk, 1, "b");
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, acquire_in_thread, &b), 0);
    }
    locker_settled(&b);
    conclave_lock_close(b.lock);
    for (int i = 0; i < 4; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_int_equal((intptr_t)result, CONCLAVE_ECLOSED);
    }
    locker_finish(&b);
    locker_finish(&a);
}

static void E59_the_end_of_the_client_unblocks_all_that_wait(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    holder_and_waiter(zk, &a, &b);
    conclave_client_close(b.client, 1000);
    EVENTUALLY(ANSWER(&b) == CONCLAVE_ECLOSED);
    EVENTUALLY(locker_get(&b, &b.closed) == 1);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 1);
    locker_finish(&a);
    conclave_lock_destroy(b.lock);
    conclave_recipes_destroy(b.recipes);
}

static void E61_the_child_of_a_fork_holds_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    int status;
    locker_open(&a, zk, 0, "a");
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    pid_t child = fork();
    if (child == 0) {
        bool right = !HELD(&a) && conclave_lock_token(a.lock).czxid == 0 &&
                     conclave_lock_acquire(a.lock, 0, NULL) == CONCLAVE_EFORK &&
                     conclave_lock_release(a.lock, 0) == CONCLAVE_EFORK &&
                     conclave_lock_fenced_multi(a.lock, NULL, 0, NULL) == CONCLAVE_EFORK;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(HELD(&a));
    locker_finish(&a);
}

static void turn(struct conclave_client *client, int64_t ms)
{
    for (int64_t end = now_ns() + ms * 1000000; now_ns() < end;) {
        struct pollfd fd = {.fd = conclave_client_fd(client), .events = POLLIN};
        (void)poll(&fd, 1, 2);
        assert_int_equal(conclave_client_dispatch(client), 0);
    }
}

static void a_lock_in_a_loop_of_ones_own(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct locker a;
    memset(&a, 0, sizeof a);
    a.zk = zk;
    a.name = "a";
    a.answer = UNTOLD;
    (void)pthread_mutex_init(&a.mutex, NULL);
    options.servers = fake_zk_address(zk, 0);
    options.session_timeout_ms = EXPIRY_SESSION_MS;
    assert_int_equal(conclave_client_open(&options, &a.client), 0);
    assert_int_equal(conclave_recipes_open(a.client, &a.recipes), 0);
    locker_create(&a);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0); /* turns the loop */
    turn(a.client, EXPIRY_SESSION_MS * 2L);
    assert_true(HELD(&a));
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    locker_ask(&a, CONCLAVE_FOREVER);
    assert_int_equal(a.answer, UNTOLD); /* never called back inside the call */
    EVENTUALLY((turn(a.client, 5), a.answer != UNTOLD));
    assert_int_equal(a.answer, 0);
    fake_zk_expire(zk, locker_session(&a));
    EVENTUALLY((turn(a.client, 5), a.lost == 1));
    assert_int_equal(conclave_lock_release_async(a.lock, 1, NULL, NULL), CONCLAVE_ELOST);
    locker_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E21_a_departure_wakes_one_of_many),
        E_TEST(E21_a_word_of_the_one_before_is_no_departure),
        E_TEST(E22_the_one_in_the_middle_goes),
        E_TEST(E23_the_one_before_goes_between_list_and_watch),
        E_TEST(E24_the_one_before_goes_while_the_link_is_away),
        E_TEST(E26_session_ends_while_it_waits),
        E_TEST(E27_own_node_deleted_while_it_waits),
        E_TEST(E28_own_node_and_the_one_before_deleted_at_once),
        E_TEST(E31_list_larger_than_the_client_takes_is_told),
        E_TEST(E32_a_thousand_turns_leave_nothing),
        E_TEST(E33_times_of_every_size),
        E_TEST(E33_canceled_while_the_order_is_looked_up),
        E_TEST(E34_time_is_up_when_it_is_granted),
        E_TEST(E35_cancel_at_every_step),
        E_TEST(E36_released_and_closed_inside_its_callback),
        E_TEST(E37_closed_while_its_watches_stand),
        E_TEST(E57_nothing_is_granted_on_a_server_that_cannot_write),
        E_TEST(E58_refused_credentials_end_what_waits),
        E_TEST(E59_the_end_of_the_handle_unblocks_all_that_wait),
        E_TEST(E59_the_end_of_the_client_unblocks_all_that_wait),
        E_TEST(E61_the_child_of_a_fork_holds_nothing),
        E_TEST(a_lock_in_a_loop_of_ones_own),
    };
    return RUN_TESTS(tests);
}
