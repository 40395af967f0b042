/*
 * Putting: exactly once whatever is lost, order, limits, errors.
 */
#include "support/queue_user.h"

static void E73_a_put_whose_answer_was_lost_makes_one_item(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char name[CONCLAVE_QUEUE_NAME_MAX];
    char child[256];
    queue_user_begin(&u, zk);
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, PATIENCE_MS, name), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    assert_true(fake_zk_child(zk, QUEUE_PATH, 0, child));
    assert_string_equal(child, name);
    put_text(&u, 500, "b"); /* its marker serves again */
    assert_int_equal(items_in(zk, QUEUE_PATH), 2);
    assert_int_equal(items_in(zk, PUTS_PATH), 1);
    queue_user_finish(&u);
    assert_int_equal(items_in(zk, PUTS_PATH), 0);
}

static void E73_an_item_taken_before_the_answer_was_missed_is_not_put_twice(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user producer;
    struct queue_user consumer;
    char name[CONCLAVE_QUEUE_NAME_MAX] = "?";
    queue_make(zk);
    queue_user_open(&producer, zk, 0, NULL);
    queue_user_open(&consumer, zk, 1, NULL);
    put_text(&producer, 500, "first"); /* the marker exists: the next put writes it */
    take_text(&consumer, "first");
    for (int round = 0; round < 2; round++) {
        hook(zk, 0, WIRE_MULTI, QUEUE_PATH, 1, FAKE_DROP_REPLY);
        /* The producer comes back only after the item is gone. */
        fake_zk_hold(zk, 0, WIRE_SYNC);
        assert_int_equal(
            conclave_queue_put_async(producer.queue, 500, "x", 1, PATIENCE_MS, NULL, NULL), 0);
        struct conclave_item *item = take_one(&consumer);
        assert_int_equal(conclave_item_ack(item, PATIENCE_MS), 0);
        conclave_item_free(item);
        fake_zk_release(zk, 0);
        assert_int_equal(conclave_queue_put(producer.queue, 500, "y", 1, PATIENCE_MS, name), 0);
        take_text(&consumer, "y");
        assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    }
    queue_user_finish(&producer);
    queue_user_finish(&consumer);
}

static void E03_a_put_that_never_arrived_is_sent_once_more(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_user_begin(&u, zk);
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_CUT_BEFORE);
    put_text(&u, 500, "a");
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    queue_user_finish(&u);
}

static void E02_a_server_that_lags_does_not_hide_the_item(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = queue_options();
    queue_make(zk);
    memset(&u, 0, sizeof u);
    char servers[128];
    (void)snprintf(servers, sizeof servers, "%s", fake_zk_address(zk, 2));
    queue_user_open(&u, zk, 2, &options);
    put_text(&u, 500, "a");
    /* It sees the tree of before the next put, until it syncs. */
    hook(zk, 2, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
    fake_zk_freeze(zk, 2);
    put_text(&u, 500, "b");
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(items_in(zk, QUEUE_PATH), 2);
    queue_user_finish(&u);
}

static void E05_a_put_whose_session_ended_is_found_by_its_name(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char name[CONCLAVE_QUEUE_NAME_MAX];
    queue_user_begin(&u, zk);
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_EXPIRE_AFTER);
    assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, PATIENCE_MS, name), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    assert_true(name[0] != '\0');
    /* Not carried out, and nothing of it is there: nobody can say whether it was taken. */
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_EXPIRE_BEFORE);
    assert_int_equal(conclave_queue_put(u.queue, 500, "b", 1, PATIENCE_MS, name),
                     CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    put_text(&u, 500, "c");
    assert_int_equal(items_in(zk, QUEUE_PATH), 2);
    queue_user_finish(&u);
}

static void E08_what_is_missing_is_made_with_the_acl_given(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = queue_options();
    struct conclave_acl acl = {CONCLAVE_PERM_ALL, "digest", "me:secret"};
    char text[256];
    char name[CONCLAVE_QUEUE_NAME_MAX];
    char path[320];
    options.acl = &acl;
    options.acl_count = 1;
    queue_user_open(&u, zk, 0, &options);
    assert_int_equal(conclave_queue_put(u.queue, 7, "a", 1, PATIENCE_MS, name), 0);
    struct conclave_item *item = take_one(&u);
    (void)snprintf(path, sizeof path, "%s/%s", QUEUE_PATH, name);
    const char *paths[] = {"/app", QUEUE_PATH, path, CLAIMS_PATH, conclave_item_claim(item)};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_true(fake_zk_acl(zk, paths[i], text));
        assert_string_equal(text, "digest:me:secret:31");
    }
    conclave_item_free(item);
    queue_user_finish(&u);
}

static void reap(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, QUEUE_PATH);
}

static void E09_a_queue_reaped_before_the_put_is_made_again(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct fake_hook h = {
        .endpoint = 0, .op = WIRE_MULTI, .nth = 1, .action = FAKE_CALL, .fn = reap};
    queue_user_begin(&u, zk);
    fake_zk_hook(zk, &h);
    put_text(&u, 500, "a");
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    queue_user_finish(&u);
}

static void E18_a_put_that_is_not_permitted_fails_once(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct fake_hook h = {
        .endpoint = 0, .op = WIRE_MULTI, .nth = 1, .action = FAKE_ERROR, .error = CONCLAVE_NO_AUTH};
    queue_user_begin(&u, zk);
    fake_zk_count_reset(zk);
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, PATIENCE_MS, NULL), CONCLAVE_NO_AUTH);
    sleep_ms(50);
    assert_int_equal(fake_zk_count(zk, 0, FAKE_ANY_OP), 1);
    queue_user_finish(&u);
}

static void E19_bad_paths_priorities_and_sizes_are_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_MULTI,
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_QUOTA_EXCEEDED};
    static const char *const bad[] = {"", "/", "a", "/a/", "/a//b", NULL};
    struct conclave_queue_options options = queue_options();
    struct conclave_queue *queue;
    queue_user_begin(&u, zk);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.path = bad[i];
        assert_int_equal(conclave_queue_open(u.link.recipes, &options, NULL, NULL, &queue),
                         CONCLAVE_EINVAL);
    }
    options = queue_options();
    options.size = 8;
    assert_int_equal(conclave_queue_open(u.link.recipes, &options, NULL, NULL, &queue),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_queue_put(u.queue, -1, "a", 1, 0, NULL), CONCLAVE_EINVAL);
    assert_int_equal(conclave_queue_put(u.queue, 1000, "a", 1, 0, NULL), CONCLAVE_EINVAL);
    char *big = calloc(1, 1 << 20);
    assert_non_null(big);
    assert_int_equal(conclave_queue_put(u.queue, 500, big, 1 << 20, PATIENCE_MS, NULL),
                     CONCLAVE_ETOOBIG);
    /* The largest that is taken can be claimed and acknowledged. */
    size_t most = (1 << 20) - 1 - 4096 - 2 * strlen(QUEUE_PATH);
    assert_int_equal(conclave_queue_put(u.queue, 500, big, most, PATIENCE_MS, NULL), 0);
    struct conclave_item *item = take_one(&u);
    size_t len;
    (void)conclave_item_data(item, &len);
    assert_int_equal(len, most);
    ack_one(item);
    free(big);
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, PATIENCE_MS, NULL),
                     CONCLAVE_QUOTA_EXCEEDED);
    queue_user_finish(&u);
}

static enum conclave_state user_state(struct queue_user *u)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(u->link.client, &session);
    return session.state;
}

static void E33_timeouts_of_a_put(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_user_begin(&u, zk);
    assert_int_equal(conclave_client_wait_connected(u.link.client, PATIENCE_MS), 0);
    assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, 0, NULL), 0);
    assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, INT64_MAX, NULL), 0);
    assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, -5, NULL), 0); /* without end */
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(user_state(&u) == CONCLAVE_STATE_SUSPENDED);
    int64_t before = now_ns();
    assert_int_equal(conclave_queue_put(u.queue, 500, "b", 1, 100, NULL), CONCLAVE_ETIMEDOUT);
    assert_true(now_ns() - before >= (int64_t)100 * 1000000);
    fake_zk_link(zk, 0, FAKE_UP);
    put_text(&u, 500, "c");
    assert_int_equal(items_in(zk, QUEUE_PATH), 4);
    queue_user_finish(&u);
}

static void E57_a_server_that_is_read_only_is_no_link(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL, PATIENCE_MS); /* it does not keep the session alive */
    put_text(&u, 500, "a");
    fake_zk_read_only(zk, 0, true);
    EVENTUALLY(user_state(&u) == CONCLAVE_STATE_SUSPENDED);
    assert_int_equal(conclave_queue_put(u.queue, 500, "b", 1, 300, NULL), CONCLAVE_ETIMEDOUT);
    fake_zk_read_only(zk, 0, false);
    put_text(&u, 500, "c");
    assert_int_equal(items_in(zk, QUEUE_PATH), 2);
    queue_user_finish(&u);
}

static void a_full_queue_refuses_or_waits_until_there_is_room(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    struct conclave_queue_options options = queue_options();
    queue_make(zk);
    options.max_items = 2;
    queue_user_open(&u, zk, 0, &options);
    queue_user_open(&other, zk, 1, &options);
    put_text(&u, 500, "a");
    put_text(&u, 500, "b");
    assert_int_equal(conclave_queue_put(u.queue, 500, "c", 1, 0, NULL), CONCLAVE_EBUSY);
    assert_int_equal(conclave_queue_put(u.queue, 500, "c", 1, 60, NULL), CONCLAVE_ETIMEDOUT);
    assert_int_equal(items_in(zk, QUEUE_PATH), 2);
    assert_int_equal(conclave_queue_put_async(u.queue, 500, "c", 1, PATIENCE_MS, NULL, NULL), 0);
    STAYS(items_in(zk, QUEUE_PATH) == 2, 60);
    take_text(&other, "a");
    EVENTUALLY(items_in(zk, QUEUE_PATH) == 2);
    take_text(&other, "b");
    take_text(&other, "c");
    EVENTUALLY(items_in(zk, QUEUE_PATH ".room") == 0);
    queue_user_finish(&u);
    queue_user_finish(&other);
}

struct put_result {
    _Atomic int done;
    _Atomic int error;
};

static void on_put(struct conclave_queue *queue, int error, const char *name, void *ctx)
{
    struct put_result *r = ctx;
    r->error = error;
    r->done++;
}

static void E35_closing_ends_what_waits_and_leaves_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = queue_options();
    struct put_result r = {0};
    queue_make(zk);
    options.max_items = 1;
    queue_user_open(&u, zk, 0, &options);
    put_text(&u, 500, "a");
    assert_int_equal(conclave_queue_put_async(u.queue, 500, "b", 1, CONCLAVE_FOREVER, on_put, &r),
                     0);
    EVENTUALLY(items_in(zk, QUEUE_PATH ".room") == 1);
    queue_user_close(&u);
    EVENTUALLY(r.done == 1);
    assert_int_equal(r.error, CONCLAVE_ECLOSED);
    EVENTUALLY(fake_zk_ephemerals(zk) == 0);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    queue_user_finish(&u);
}

static void many_puts_at_once_keep_their_order(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct put_result r = {0};
    char text[16];
    queue_user_begin(&u, zk);
    assert_int_equal(conclave_client_wait_connected(u.link.client, PATIENCE_MS), 0);
    for (int i = 0; i < 50; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        assert_int_equal(
            conclave_queue_put_async(u.queue, 500, text, strlen(text), PATIENCE_MS, on_put, &r), 0);
    }
    EVENTUALLY(r.done == 50);
    for (int i = 0; i < 50; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        take_text(&u, text);
    }
    queue_user_finish(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E73_a_put_whose_answer_was_lost_makes_one_item),
        E_TEST(E73_an_item_taken_before_the_answer_was_missed_is_not_put_twice),
        E_TEST(E03_a_put_that_never_arrived_is_sent_once_more),
        E_TEST(E02_a_server_that_lags_does_not_hide_the_item),
        E_TEST(E05_a_put_whose_session_ended_is_found_by_its_name),
        E_TEST(E08_what_is_missing_is_made_with_the_acl_given),
        E_TEST(E09_a_queue_reaped_before_the_put_is_made_again),
        E_TEST(E18_a_put_that_is_not_permitted_fails_once),
        E_TEST(E19_bad_paths_priorities_and_sizes_are_refused),
        E_TEST(E33_timeouts_of_a_put),
        E_TEST(E57_a_server_that_is_read_only_is_no_link),
        E_TEST(a_full_queue_refuses_or_waits_until_there_is_room),
        E_TEST(E35_closing_ends_what_waits_and_leaves_nothing),
        E_TEST(many_puts_at_once_keep_their_order),
    };
    return RUN_TESTS(tests);
}
