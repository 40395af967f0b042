/* Holding a lock: lease, loss, tokens, owners, revocation, several at once. E38 to E67. */
#include "support/locker.h"

static void hold(struct locker *l, struct fake_zk *zk, int endpoint, const char *name)
{
    locker_open(l, zk, endpoint, name);
    assert_int_equal(conclave_lock_acquire(l->lock, PATIENCE_MS, NULL), 0);
}

static void E38_lease_ends_before_the_session_does(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    hold(&a, zk, 0, "a");
    locker_open(&b, zk, 1, "b");
    locker_ask(&b, CONCLAVE_FOREVER);
    locker_settled(&b);
    fake_zk_link(zk, 0, FAKE_SILENT);
    int64_t from = now_ns();
    EVENTUALLY(!HELD(&a));
    int64_t over = now_ns();
    EVENTUALLY(LOST(&a) == 1);
    assert_true(over - from < (int64_t)EXPIRY_SESSION_MS * 1000000);
    assert_int_equal(a.lost_why, CONCLAVE_ELOST);
    assert_true(a.stop_within_ms > 0 && a.stop_within_ms <= EXPIRY_SESSION_MS / 3);
    assert_int_equal(ANSWER(&b), UNTOLD);
    EVENTUALLY(ANSWER(&b) == 0); /* the session has expired */
    fake_zk_link(zk, 0, FAKE_UP);
    assert_int_equal(conclave_lock_release(a.lock, 0), CONCLAVE_ELOST);
    locker_finish(&a);
    locker_finish(&b);
}

/* The creation of the waiter's node proved a lease that is nearly over at the grant: the grant has one of its own. */
static void a_grant_after_a_wait_of_half_a_timeout_lasts(void **state)
{
    enum { LONG_MS = 6000 }; /* the creation proves 4000 ms, heartbeats come every 1000 ms */
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    locker_connect_to(&a, zk, 0, "a", NULL, LONG_MS);
    locker_connect_to(&b, zk, 1, "b", NULL, LONG_MS);
    locker_create(&a);
    locker_create(&b);
    locker_ask(&a, CONCLAVE_FOREVER);
    EVENTUALLY(ANSWER(&a) == 0);
    locker_ask(&b, CONCLAVE_FOREVER);
    EVENTUALLY(locker_node(&b, (char[256]){""}, 256));
    sleep_ms(3400);
    locker_let_go(&a);
    EVENTUALLY(ANSWER(&b) == 0);
    STAYS(HELD(&b), 1700);
    assert_int_equal(LOST(&b), 0);
    locker_finish(&b);
    locker_finish(&a);
}

static void E39_revoked_though_pings_are_answered(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    hold(&a, zk, 0, "a");
    fake_zk_hold(zk, 0, WIRE_MULTI); /* writes hang, as on a server that is cut off */
    EVENTUALLY(LOST(&a) == 1);
    assert_false(HELD(&a));
    fake_zk_release(zk, 0);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), CONCLAVE_ELOST);
    EVENTUALLY(fake_zk_child_count(zk, LOCK_PATH) == 0);
    locker_finish(&a);
}

static void E42_a_short_loss_of_the_link_is_no_loss_of_the_lock(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    locker_connect_to(&a, zk, 0, "a", NULL, 5000);
    locker_connect_to(&b, zk, 1, "b", NULL, 5000);
    struct conclave_lock_options careful = locker_options("b");
    careful.path = "/app/other";
    careful.lease.stop_on_suspend = true;
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    locker_create(&a);
    locker_create_with(&b, &careful);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    assert_int_equal(conclave_lock_acquire(b.lock, PATIENCE_MS, NULL), 0);
    fake_zk_cut(zk, 0);
    fake_zk_cut(zk, 1);
    EVENTUALLY(LOST(&b) == 1);
    EVENTUALLY(!locker_suspended(&a));
    assert_true(HELD(&a));
    assert_int_equal(LOST(&a), 0);
    assert_false(HELD(&b));
    assert_int_equal(conclave_lock_release(b.lock, PATIENCE_MS), CONCLAVE_ELOST);
    locker_finish(&a);
    locker_finish(&b);
}

/* A lock that was lost keeps the others out until its owner says that it has stopped. */
static void E43_node_stays_until_the_lost_lock_is_released(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    locker_connect_to(&a, zk, 0, "a", NULL, 5000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    struct conclave_lock_options careful = locker_options("a");
    careful.lease.stop_on_suspend = true;
    locker_create_with(&a, &careful);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    locker_open(&b, zk, 1, "b");
    locker_ask(&b, CONCLAVE_FOREVER);
    locker_settled(&b);
    fake_zk_cut(zk, 0);
    EVENTUALLY(LOST(&a) == 1);
    EVENTUALLY(!locker_suspended(&a));
    STAYS(ANSWER(&b) == UNTOLD, 100);
    assert_int_equal(conclave_lock_acquire(a.lock, 0, NULL), CONCLAVE_ELOST);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), CONCLAVE_ELOST);
    EVENTUALLY(ANSWER(&b) == 0);
    locker_finish(&a);
    locker_finish(&b);
}

static void E48_tokens_grow_over_a_thousand_turns(void **state)
{
    struct fake_zk *zk = *state;
    struct locker l[3];
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        locker_connect_to(&l[i], zk, i, "x", NULL, 10000);
        assert_int_equal(conclave_client_wait_connected(l[i].client, PATIENCE_MS), 0);
        locker_create(&l[i]);
    }
    for (int turn = 0; turn < 1000; turn++) {
        struct locker *x = &l[turn % 3];
        struct conclave_token token;
        if (turn % 100 == 50) {
            fake_zk_delete(zk, LOCK_PATH); /* reaped: numbers start at 0 again */
        }
        assert_int_equal(conclave_lock_acquire(x->lock, PATIENCE_MS, &token), 0);
        assert_true(token.czxid > last);
        last = token.czxid;
        assert_int_equal(conclave_lock_release(x->lock, PATIENCE_MS), 0);
    }
    for (int i = 0; i < 3; i++) {
        locker_finish(&l[i]);
    }
}

static void drop_node(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, ctx);
}

static void E50_fenced_multi_does_nothing_without_the_lock(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    char node[256];
    struct conclave_reply *reply = NULL;
    struct conclave_op write = conclave_op_create("/app/done", "x", 1, CONCLAVE_PERSISTENT);
    locker_open(&a, zk, 0, "a");
    assert_int_equal(conclave_lock_fenced_multi(a.lock, &write, 1, &reply), CONCLAVE_EFENCED);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    assert_int_equal(conclave_lock_fenced_multi(a.lock, &write, 1, &reply), 0);
    assert_int_equal(reply->results_count, 1);
    assert_string_equal(reply->results[0]->path, "/app/done");
    conclave_reply_free(reply);
    assert_true(fake_zk_exists(zk, "/app/done"));
    fake_zk_delete(zk, "/app/done");
    assert_true(locker_node(&a, node, sizeof node));
    /* Right before it arrives, so that nobody has heard of it. A heartbeat may come first. */
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_MULTI,
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = drop_node,
                          .ctx = node};
    fake_zk_hook(zk, &h);
    int error = conclave_lock_fenced_multi(a.lock, &write, 1, NULL);
    assert_int_equal(error, CONCLAVE_EFENCED);
    assert_false(fake_zk_exists(zk, "/app/done"));
    EVENTUALLY(LOST(&a) == 1);
    assert_int_equal(a.lost_why, CONCLAVE_ELOST);
    assert_int_equal(a.stop_within_ms, 0);
    assert_int_equal(conclave_lock_release(a.lock, 0), CONCLAVE_ELOST);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    fake_zk_expire(zk, locker_session(&a));
    EVENTUALLY(LOST(&a) == 2);
    assert_int_equal(conclave_lock_fenced_multi(a.lock, &write, 1, NULL), CONCLAVE_SESSION_EXPIRED);
    locker_finish(&a);
}

/* The outcome is unknown, and the error says so, not that nothing was done. The lock stays. */
static void E50_a_fenced_multi_whose_answer_is_lost_is_unknown(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct conclave_reply *reply = NULL;
    struct conclave_op write = conclave_op_create("/app/done", "x", 1, CONCLAVE_PERSISTENT);
    struct fake_hook h = {.endpoint = 0, .op = WIRE_MULTI, .nth = 1, .action = FAKE_DROP_REPLY};
    locker_connect_to(&a, zk, 0, "a", NULL, 30000); /* no heartbeat meets the hooks */
    locker_create(&a);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    EVENTUALLY(HELD(&a));
    fake_zk_hook(zk, &h);
    int error = conclave_lock_fenced_multi(a.lock, &write, 1, &reply);
    assert_int_equal(error, CONCLAVE_CONNECTION_LOSS);
    conclave_reply_free(reply);
    assert_true(fake_zk_exists(zk, "/app/done"));
    fake_zk_delete(zk, "/app/done");
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    h.action = FAKE_CUT_BEFORE;
    fake_zk_hook(zk, &h);
    error = conclave_lock_fenced_multi(a.lock, &write, 1, NULL);
    assert_int_equal(error, CONCLAVE_CONNECTION_LOSS);
    assert_false(fake_zk_exists(zk, "/app/done"));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(conclave_lock_fenced_multi(a.lock, &write, 1, NULL), 0);
    assert_true(HELD(&a));
    assert_int_equal(LOST(&a), 0);
    locker_finish(&a);
}

static void E55_two_locks_of_one_client_are_independent(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    hold(&a, zk, 0, "a");
    locker_share(&b, &a, "b");
    struct conclave_lock_options options = locker_options("b");
    options.path = "/app/other";
    locker_create_with(&b, &options);
    assert_int_equal(conclave_lock_acquire(b.lock, PATIENCE_MS, NULL), 0);
    locker_finish(&b);
    assert_true(HELD(&a));
    locker_finish(&a);
}

static void E60_of_three_locks_only_the_one_without_a_node_is_lost(void **state)
{
    struct fake_zk *zk = *state;
    struct locker l[3];
    char name[128];
    char node[256];
    locker_connect(&l[0], zk, 0, "x");
    for (int i = 0; i < 3; i++) {
        char path[64];
        if (i > 0) {
            locker_share(&l[i], &l[0], "x");
        }
        struct conclave_lock_options options = locker_options("x");
        (void)snprintf(path, sizeof path, "/app/lock%d", i);
        options.path = path;
        options.lease.heartbeat_ms = 20;
        locker_create_with(&l[i], &options);
        assert_int_equal(conclave_lock_acquire(l[i].lock, PATIENCE_MS, NULL), 0);
    }
    conclave_lock_node(l[1].lock, name, sizeof name);
    (void)snprintf(node, sizeof node, "/app/lock1/%s", name);
    fake_zk_delete(zk, node);
    EVENTUALLY(LOST(&l[1]) == 1);
    sleep_ms(500); /* many heartbeats */
    assert_true(HELD(&l[0]) && HELD(&l[2]));
    assert_int_equal(LOST(&l[0]) + LOST(&l[2]), 0);
    for (int i = 2; i >= 0; i--) {
        locker_finish(&l[i]);
    }
}

static void E62_recursive_lock_goes_with_the_last_release(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    locker_connect(&a, zk, 0, "a");
    struct conclave_lock_options options = locker_options("a");
    options.recursive = true;
    locker_create_with(&a, &options);
    struct conclave_token first;
    struct conclave_token again;
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, &first), 0);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, &again), 0);
    assert_int_equal(conclave_lock_try(a.lock, NULL), 0);
    assert_int_equal(first.czxid, again.czxid);
    assert_int_equal(conclave_lock_release_async(a.lock, 77, NULL, NULL), CONCLAVE_ENOTOWNER);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    assert_true(HELD(&a));
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 1);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 0);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), CONCLAVE_ENOTOWNER);
    locker_finish(&a);
}

static void E62_second_acquire_without_recursion_would_wait_for_itself(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    hold(&a, zk, 0, "a");
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), CONCLAVE_EDEADLK);
    assert_true(HELD(&a));
    locker_finish(&a);
}

static int inside; /* threads that hold it */

static void *many_turns(void *arg)
{
    struct locker *l = arg;
    intptr_t wrong = 0;
    for (int i = 0; i < 20; i++) {
        if (conclave_lock_acquire(l->lock, CONCLAVE_FOREVER, NULL) != 0) {
            return (void *)1;
        }
        wrong += __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) != 1;
        (void)usleep(100);
        (void)__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
        wrong += conclave_lock_release(l->lock, PATIENCE_MS) != 0;
    }
    return (void *)wrong;
}

/* Threads that share a handle, and two handles of one session. */
static void E63_threads_and_handles_of_one_session_exclude_each_other(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    pthread_t threads[6];
    locker_connect_to(&a, zk, 0, "a", NULL, 10000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    locker_create(&a);
    locker_share(&b, &a, "b");
    locker_create(&b);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, many_turns, i % 2 == 0 ? &a : &b), 0);
    }
    for (int i = 0; i < 6; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_int_equal((intptr_t)wrong, 0);
    }
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 0);
    locker_finish(&b);
    locker_finish(&a);
}

static void E64_a_lost_lock_is_released_with_an_error_and_deletes_nobody_elses(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    hold(&a, zk, 0, "a");
    locker_open(&b, zk, 1, "b");
    locker_ask(&b, CONCLAVE_FOREVER);
    locker_settled(&b);
    fake_zk_expire(zk, locker_session(&a));
    EVENTUALLY(ANSWER(&b) == 0);
    EVENTUALLY(LOST(&a) == 1);
    assert_int_equal(a.lost_why, CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), CONCLAVE_ELOST);
    STAYS(HELD(&b), 100);
    assert_int_equal(fake_zk_child_count(zk, LOCK_PATH), 1);
    locker_finish(&a);
    locker_finish(&b);
}

static void E65_revoke_request_is_told_once_and_may_be_ignored(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    hold(&a, zk, 0, "a");
    locker_open(&b, zk, 1, "b");
    assert_int_equal(conclave_lock_request_revoke(b.lock, PATIENCE_MS), 0);
    EVENTUALLY(locker_get(&a, &a.revokes) == 1);
    STAYS(HELD(&a) && locker_get(&a, &a.revokes) == 1, 100);
    assert_int_equal(conclave_lock_request_revoke(b.lock, PATIENCE_MS), 0);
    EVENTUALLY(locker_get(&a, &a.revokes) == 2);
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    assert_int_equal(conclave_lock_request_revoke(b.lock, PATIENCE_MS), CONCLAVE_EEMPTY);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    assert_int_equal(locker_get(&a, &a.revokes), 2);
    assert_int_equal(conclave_lock_request_revoke(a.lock, PATIENCE_MS), CONCLAVE_EEMPTY);
    locker_finish(&a);
    locker_finish(&b);
}

static void E65_revoke_request_runs_out_of_time(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    hold(&a, zk, 0, "a");
    locker_open(&b, zk, 1, "b");
    fake_zk_link(zk, 1, FAKE_SILENT);
    assert_int_equal(conclave_lock_request_revoke(b.lock, 50), CONCLAVE_ETIMEDOUT);
    fake_zk_link(zk, 1, FAKE_UP);
    assert_int_equal(conclave_lock_request_revoke(b.lock, PATIENCE_MS), 0);
    locker_finish(&a);
    locker_finish(&b);
}

static void contenders_are_listed_in_their_order(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker b;
    struct locker w;
    struct locker r;
    struct conclave_contender **list;
    size_t count;
    locker_open_kind(&a, zk, 0, "a", CONCLAVE_LOCK_WRITE);
    assert_int_equal(conclave_lock_contenders(a.recipes, LOCK_PATH, PATIENCE_MS, &list, &count),
                     CONCLAVE_NO_NODE);
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    locker_open_kind(&b, zk, 1, "b", CONCLAVE_LOCK_READ);
    locker_ask(&b, CONCLAVE_FOREVER);
    locker_settled(&b);
    locker_open_kind(&w, zk, 2, "w", CONCLAVE_LOCK_WRITE);
    locker_ask(&w, CONCLAVE_FOREVER);
    locker_settled(&w);
    locker_share(&r, &a, "r");
    struct conclave_lock_options reader = locker_options("r");
    reader.kind = CONCLAVE_LOCK_READ;
    locker_create_with(&r, &reader);
    locker_ask(&r, CONCLAVE_FOREVER);
    locker_settled(&r);
    for (int downgraded = 0; downgraded < 2; downgraded++) {
        assert_int_equal(conclave_lock_contenders(b.recipes, LOCK_PATH, PATIENCE_MS, &list, &count),
                         0);
        assert_int_equal(count, 4);
        assert_string_equal(list[0]->id, "a");
        assert_string_equal(list[1]->id, "b");
        assert_string_equal(list[2]->id, "w");
        assert_string_equal(list[3]->id, "r");
        assert_true(list[0]->holds && !list[2]->holds && !list[3]->holds);
        assert_int_equal(list[1]->holds, downgraded);
        assert_int_equal(list[0]->kind, downgraded ? CONCLAVE_LOCK_READ : CONCLAVE_LOCK_WRITE);
        assert_int_equal(list[2]->kind, CONCLAVE_LOCK_WRITE);
        assert_int_equal(list[0]->token.czxid, conclave_lock_token(a.lock).czxid);
        assert_true(list[0]->session_id == locker_session(&a) && list[1]->since_ms > 0);
        conclave_contenders_free(list, count);
        if (!downgraded) {
            assert_int_equal(conclave_lock_downgrade(a.lock, PATIENCE_MS), 0);
            EVENTUALLY(ANSWER(&b) == 0);
        }
    }
    conclave_contenders_free(NULL, 0);
    locker_finish(&r);
    locker_finish(&w);
    locker_finish(&b);
    locker_finish(&a);
}

static void create_at(struct locker *l, const struct locker *with, const char *path)
{
    struct conclave_lock_options options = locker_options("x");
    options.path = path;
    locker_share(l, with, "x");
    locker_create_with(l, &options);
}

static void E67_several_locks_are_all_or_none(void **state)
{
    struct fake_zk *zk = *state;
    struct locker a;
    struct locker x;
    struct locker y;
    struct locker z;
    locker_open(&a, zk, 0, "a");
    struct locker b;
    locker_connect(&b, zk, 1, "b");
    create_at(&x, &b, "/app/x");
    create_at(&y, &b, LOCK_PATH);
    create_at(&z, &b, "/app/z");
    struct conclave_lock *all[] = {z.lock, x.lock, y.lock};
    assert_int_equal(conclave_lock_acquire(a.lock, PATIENCE_MS, NULL), 0);
    assert_int_equal(conclave_locks_acquire(all, 3, 100), CONCLAVE_ETIMEDOUT);
    assert_false(HELD(&x) || HELD(&y) || HELD(&z));
    all_gone(zk, "/app/x");
    assert_int_equal(conclave_locks_acquire(all, 3, 0), CONCLAVE_EBUSY);
    assert_false(HELD(&x));
    assert_int_equal(conclave_lock_release(a.lock, PATIENCE_MS), 0);
    assert_int_equal(conclave_locks_acquire(all, 3, PATIENCE_MS), 0);
    assert_true(HELD(&x) && HELD(&y) && HELD(&z));
    assert_int_equal(conclave_locks_release(all, 3, PATIENCE_MS), 0);
    all_gone(zk, "/app/x");
    all_gone(zk, LOCK_PATH);
    all_gone(zk, "/app/z");
    struct conclave_lock *twice[] = {x.lock, x.lock};
    assert_int_equal(conclave_locks_acquire(twice, 2, 100), CONCLAVE_EDEADLK);
    assert_int_equal(conclave_locks_acquire(all, 0, 100), 0);
    locker_finish(&x);
    locker_finish(&y);
    locker_finish(&z);
    locker_finish(&a);
    locker_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXPIRY_TEST(E38_lease_ends_before_the_session_does),
        E_TEST(a_grant_after_a_wait_of_half_a_timeout_lasts),
        EXPIRY_TEST(E39_revoked_though_pings_are_answered),
        E_TEST(E42_a_short_loss_of_the_link_is_no_loss_of_the_lock),
        E_TEST(E43_node_stays_until_the_lost_lock_is_released),
        E_TEST(E48_tokens_grow_over_a_thousand_turns),
        E_TEST(E50_fenced_multi_does_nothing_without_the_lock),
        E_TEST(E50_a_fenced_multi_whose_answer_is_lost_is_unknown),
        E_TEST(E55_two_locks_of_one_client_are_independent),
        E_TEST(E60_of_three_locks_only_the_one_without_a_node_is_lost),
        E_TEST(E62_recursive_lock_goes_with_the_last_release),
        E_TEST(E62_second_acquire_without_recursion_would_wait_for_itself),
        E_TEST(E63_threads_and_handles_of_one_session_exclude_each_other),
        E_TEST(E64_a_lost_lock_is_released_with_an_error_and_deletes_nobody_elses),
        E_TEST(E65_revoke_request_is_told_once_and_may_be_ignored),
        E_TEST(E65_revoke_request_runs_out_of_time),
        E_TEST(contenders_are_listed_in_their_order),
        E_TEST(E67_several_locks_are_all_or_none),
    };
    return RUN_TESTS(tests);
}
