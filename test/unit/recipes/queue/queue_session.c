/*
 * Queue and barrier when answers are lost at the end of something, when nodes stand that should not,
 * and when servers lag: what E06 to E37 say of every recipe, shown of these two.
 */
#include "support/queue_user.h"

#include <conclave/barrier.h>

struct taken {
    _Atomic int items;
    _Atomic int errors;
};

static void on_taken(struct conclave_queue *queue, int error, struct conclave_item *item, void *ctx)
{
    struct taken *t = ctx;
    if (error == 0) {
        assert_int_equal(conclave_item_ack_async(item, NULL, NULL), 0);
        conclave_item_free(item);
        t->items++;
    } else {
        t->errors++;
    }
}

static void E06_a_server_that_lags_hands_out_nothing_twice(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user owner;
    struct queue_user other;
    struct conclave_item *second = NULL;
    queue_make(zk);
    queue_user_open(&owner, zk, 0, NULL);
    queue_user_open(&other, zk, 1, NULL);
    assert_int_equal(conclave_client_wait_connected(other.link.client, PATIENCE_MS), 0);
    put_text(&owner, 500, "a");
    fake_zk_freeze(zk, 1); /* shows the item, and nobody's claim on it */
    struct conclave_item *item = take_one(&owner);
    assert_int_equal(conclave_queue_take(other.queue, 100, &second), CONCLAVE_ETIMEDOUT);
    assert_true(conclave_item_is_held(item));
    assert_int_equal(conclave_item_attempt(item), 1);
    assert_int_equal(items_in(zk, CLAIMS_PATH), 1);
    fake_zk_thaw(zk, 1);
    ack_one(item);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    queue_user_finish(&owner);
    queue_user_finish(&other);
}

static void lose_link(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

static void E07_of_two_nodes_with_one_guid_in_the_line_the_first_is_kept(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct taken taken = {0};
    char first[256];
    char second[320];
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL, 5000);
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_CREATE,
                          .path = "-n_",
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = lose_link};
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_queue_take_async(u.queue, CONCLAVE_FOREVER, on_taken, &taken), 0);
    EVENTUALLY(fake_zk_child(zk, LINE_PATH, 0, first));
    (void)snprintf(second, sizeof second, "%s/%.35s0000000001", LINE_PATH, first);
    fake_zk_create(zk, second, "", candidate_session(&u.link));
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(fake_zk_child_count(zk, LINE_PATH) == 1);
    assert_true(fake_zk_child(zk, LINE_PATH, 0, second));
    assert_string_equal(second, first);
    put_text(&u, 500, "a");
    EVENTUALLY(taken.items == 1);
    queue_user_finish(&u);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void E13_equal_numbers_in_the_line_are_ordered_by_czxid(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u[3];
    struct queue_user producer;
    struct taken taken[3] = {0};
    queue_make(zk);
    fake_zk_stick_sequence(zk, true);
    fake_zk_set_sequence(zk, LINE_PATH, INT32_MAX);
    for (int i = 0; i < 3; i++) {
        queue_user_open(&u[i], zk, i, NULL);
        assert_int_equal(
            conclave_queue_take_async(u[i].queue, CONCLAVE_FOREVER, on_taken, &taken[i]), 0);
        EVENTUALLY(items_in(zk, LINE_PATH) == (size_t)i + 1);
    }
    queue_user_open(&producer, zk, 3, NULL);
    for (int i = 0; i < 3; i++) { /* the first caller gets the first item */
        put_text(&producer, 500, "a");
        EVENTUALLY(taken[i].items == 1);
        EVENTUALLY(items_in(zk, LINE_PATH) == (size_t)(2 - i));
    }
    for (int i = 0; i < 3; i++) {
        queue_user_finish(&u[i]);
    }
    queue_user_finish(&producer);
}

static void E13_items_with_equal_numbers_are_each_handed_out_once(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    unsigned seen = 0;
    queue_make(zk);
    fake_zk_stick_sequence(zk, true);
    fake_zk_set_sequence(zk, QUEUE_PATH, INT32_MAX - 1);
    queue_user_open(&u, zk, 0, NULL);
    for (int i = 0; i < 5; i++) {
        char text[2] = {(char)('0' + i), '\0'};
        put_text(&u, 500, text);
    }
    for (int i = 0; i < 5; i++) {
        size_t len;
        struct conclave_item *item = take_one(&u);
        const char *data = conclave_item_data(item, &len);
        assert_int_equal(len, 1);
        assert_true(i > 0 || data[0] == '0'); /* the one before the number stuck */
        assert_int_equal(seen & (1U << (data[0] - '0')), 0);
        seen |= 1U << (data[0] - '0');
        assert_int_equal(conclave_item_ack(item, PATIENCE_MS), 0);
        conclave_item_free(item);
    }
    assert_int_equal(seen, 31);
    queue_user_finish(&u);
}

static void E15_the_answer_to_leaving_the_line_is_lost(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u[2];
    struct queue_user producer;
    struct taken taken[2] = {0};
    queue_make(zk);
    for (int i = 0; i < 2; i++) {
        queue_user_open(&u[i], zk, i, NULL);
        assert_int_equal(
            conclave_queue_take_async(u[i].queue, CONCLAVE_FOREVER, on_taken, &taken[i]), 0);
        EVENTUALLY(items_in(zk, LINE_PATH) == (size_t)i + 1);
    }
    queue_user_open(&producer, zk, 2, NULL);
    hook(zk, 0, WIRE_DELETE, NULL, 1, FAKE_DROP_REPLY);
    put_text(&producer, 500, "a");
    EVENTUALLY(taken[0].items == 1);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0);
    put_text(&producer, 500, "b");
    EVENTUALLY(taken[1].items == 1);
    EVENTUALLY(items_in(zk, LINE_PATH) == 0);
    assert_int_equal(taken[0].items, 1);
    for (int i = 0; i < 2; i++) {
        queue_user_finish(&u[i]);
    }
    queue_user_finish(&producer);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void on_settled(struct conclave_item *item, int error, void *ctx)
{
    *(_Atomic int *)ctx = error;
}

static void E16_given_back_without_a_link_is_told_later_and_held_no_more(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    _Atomic int error = 1;
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL, 5000);
    queue_user_open(&other, zk, 1, NULL);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    assert_int_equal(conclave_item_nack_async(item, on_settled, (void *)&error), 0);
    assert_false(conclave_item_is_held(item));
    assert_int_equal(conclave_item_nack(item, 0), CONCLAVE_EBUSY);
    STAYS(error == 1, 60);
    assert_true(fake_zk_exists(zk, conclave_item_claim(item)));
    fake_zk_link(zk, 0, FAKE_UP);
    take_text(&other, "a");
    EVENTUALLY(error == 0);
    conclave_item_free(item);
    queue_user_finish(&u);
    queue_user_finish(&other);
}

static void E17_giving_back_late_does_not_hit_the_next_claim(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    _Atomic int error = 1;
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL, 5000);
    put_text(&u, 500, "a");
    struct conclave_item *first = take_one(&u);
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY); /* carried out: the claim is gone */
    assert_int_equal(conclave_item_nack_async(first, on_settled, (void *)&error), 0);
    struct conclave_item *second = take_one(&u); /* its claim has the same name */
    EVENTUALLY(error == 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_string_equal(conclave_item_claim(first), conclave_item_claim(second));
    assert_int_equal(conclave_item_attempt(second), 2);
    conclave_item_free(first);
    STAYS(fake_zk_exists(zk, conclave_item_claim(second)), 60);
    EVENTUALLY(conclave_item_is_held(second));
    ack_one(second);
    queue_user_finish(&u);
}

static void E37_closed_while_its_watches_stand(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    struct taken taken = {0};
    queue_user_begin(&u, zk);
    queue_user_share(&other, &u, NULL);
    assert_int_equal(conclave_queue_take_async(u.queue, CONCLAVE_FOREVER, on_taken, &taken), 0);
    EVENTUALLY(items_in(zk, LINE_PATH) == 1);
    EVENTUALLY(fake_zk_watches(zk) >= 3); /* own node, claims, items */
    queue_user_close(&u);
    assert_int_equal(taken.errors, 1);
    put_text(&other, 500, "a"); /* fires them on the same link */
    take_text(&other, "a");
    assert_int_equal(taken.items + taken.errors, 1);
    queue_user_finish(&other);
    queue_user_finish(&u);
}

/* --- the barrier -------------------------------------------------------------------------------- */

static void on_waited(struct conclave_barrier *barrier, int error, void *ctx)
{
    *(_Atomic int *)ctx = error;
}

static void E37_a_barrier_closed_while_its_watch_stands(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate link;
    struct conclave_barrier *barrier;
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    _Atomic int error = 1;
    options.path = "/gate";
    fake_zk_create(zk, "/gate", "", 0);
    candidate_connect(&link, zk, 0, "a");
    assert_int_equal(conclave_barrier_open(link.recipes, &options, NULL, NULL, &barrier), 0);
    assert_int_equal(
        conclave_barrier_wait_async(barrier, CONCLAVE_FOREVER, on_waited, (void *)&error), 0);
    EVENTUALLY(fake_zk_watches(zk) >= 1);
    assert_int_equal(conclave_barrier_close_wait(barrier, PATIENCE_MS), 0);
    conclave_barrier_destroy(barrier);
    assert_int_equal(error, CONCLAVE_ECLOSED);
    fake_zk_delete(zk, "/gate"); /* fires it */
    assert_int_equal(conclave_client_wait_connected(link.client, PATIENCE_MS), 0);
    STAYS(error == CONCLAVE_ECLOSED, 30);
    candidate_finish(&link);
}

/* Both are inside; the answer to the last one's removal is lost: both have left all the same. */
static void E15_the_answer_to_leaving_a_barrier_is_lost(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate link;
    struct conclave_double_barrier *barrier;
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    options.path = "/app/barrier";
    options.count = 1;
    candidate_connect(&link, zk, 0, "a");
    assert_int_equal(conclave_double_barrier_open(link.recipes, &options, NULL, NULL, &barrier), 0);
    for (int i = 0; i < 2; i++) { /* the second time the round is made again */
        assert_int_equal(conclave_double_barrier_enter(barrier, PATIENCE_MS), 0);
        hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
        assert_int_equal(conclave_double_barrier_leave(barrier, PATIENCE_MS), 0);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        assert_false(fake_zk_exists(zk, "/app/barrier/round"));
    }
    assert_int_equal(conclave_double_barrier_close_wait(barrier, PATIENCE_MS), 0);
    conclave_double_barrier_destroy(barrier);
    candidate_finish(&link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E06_a_server_that_lags_hands_out_nothing_twice),
        E_TEST(E07_of_two_nodes_with_one_guid_in_the_line_the_first_is_kept),
        E_TEST(E13_equal_numbers_in_the_line_are_ordered_by_czxid),
        E_TEST(E13_items_with_equal_numbers_are_each_handed_out_once),
        E_TEST(E15_the_answer_to_leaving_the_line_is_lost),
        E_TEST(E15_the_answer_to_leaving_a_barrier_is_lost),
        E_TEST(E16_given_back_without_a_link_is_told_later_and_held_no_more),
        E_TEST(E17_giving_back_late_does_not_hit_the_next_claim),
        E_TEST(E37_closed_while_its_watches_stand),
        E_TEST(E37_a_barrier_closed_while_its_watch_stands),
    };
    return RUN_TESTS(tests);
}
