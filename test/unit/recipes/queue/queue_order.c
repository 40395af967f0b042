/*
 * The puts of one handle, sent without waiting for answers: their items stand in the order of the
 * calls, each once, whatever is missing, lost or cut on the way.
 */
#include "support/queue_user.h"

enum { PUTS = 12, STEPS = 10 };

struct puts {
    _Atomic int answered;
    _Atomic int error; /* the last one that was not 0 */
};

static void on_put(struct conclave_queue *queue, int error, const char *name, void *ctx)
{
    struct puts *p = ctx;
    p->error = error != 0 ? error : p->error;
    p->answered++;
}

static void put_all(struct queue_user *u, struct puts *puts)
{
    assert_int_equal(conclave_client_wait_connected(u->link.client, PATIENCE_MS), 0);
    for (int i = 0; i < PUTS; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", i);
        assert_int_equal(
            conclave_queue_put_async(u->queue, 500, text, strlen(text), PATIENCE_MS, on_put, puts),
            0);
    }
}

static void take_all(struct queue_user *u)
{
    for (int i = 0; i < PUTS; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", i);
        take_text(u, text);
    }
}

/* All are put, and taken in order; nothing is there twice, nothing is left. */
static void check_order(struct fake_zk *zk, struct queue_user *u, struct puts *puts)
{
    put_all(u, puts);
    EVENTUALLY(puts->answered == PUTS);
    assert_int_equal(puts->error, 0);
    assert_int_equal(items_in(zk, QUEUE_PATH), PUTS);
    take_all(u);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    assert_int_equal(items_in(zk, PUTS_PATH), 1);
}

static void nothing_is_there_yet(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct puts puts = {0};
    queue_user_open(&u, zk, 0, NULL);
    check_order(zk, &u, &puts);
    queue_user_finish(&u);
    assert_int_equal(items_in(zk, PUTS_PATH), 0);
}

static void make_queue(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, QUEUE_PATH, "", 0);
}

/* Another producer makes the queue after the first put has failed for want of it, and before the
 * second arrives. */
static void another_makes_the_queue_between_two_puts(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct puts puts = {0};
    queue_user_begin(&u, zk);
    fake_zk_delete(zk, QUEUE_PATH);
    struct fake_hook h = {
        .endpoint = 0, .op = WIRE_MULTI, .nth = 2, .action = FAKE_CALL, .fn = make_queue};
    fake_zk_hook(zk, &h);
    check_order(zk, &u, &puts);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    queue_user_finish(&u);
}

static void remove_markers(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_children_locked(zk, PUTS_PATH);
}

static void the_marker_is_removed_at_any_moment(void **state)
{
    for (int step = 1; step <= STEPS; step++) {
        struct fake_zk *zk = fake_zk_start();
        struct queue_user u;
        struct puts puts = {0};
        assert_non_null(zk);
        queue_make(zk);
        queue_user_open(&u, zk, 0, NULL);
        struct fake_hook h = {.endpoint = 0,
                              .op = WIRE_MULTI,
                              .nth = step,
                              .action = FAKE_CALL,
                              .fn = remove_markers};
        fake_zk_hook(zk, &h);
        check_order(zk, &u, &puts);
        queue_user_finish(&u);
        fake_zk_stop(zk);
    }
}

static void a_fault_at_any_moment(enum fake_action action)
{
    for (int step = 1; step <= STEPS; step++) {
        struct fake_zk *zk = fake_zk_start();
        struct queue_user u;
        struct puts puts = {0};
        assert_non_null(zk);
        queue_make(zk);
        queue_user_open(&u, zk, 0, NULL);
        hook(zk, 0, WIRE_MULTI, NULL, step, action);
        check_order(zk, &u, &puts);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        queue_user_finish(&u);
        fake_zk_stop(zk);
    }
}

static void E03_the_link_is_cut_before_any_of_them(void **state)
{
    a_fault_at_any_moment(FAKE_CUT_BEFORE);
}

static void E73_the_answer_of_any_of_them_is_lost(void **state)
{
    a_fault_at_any_moment(FAKE_DROP_REPLY);
}

static void they_wait_for_room_in_order(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user consumer;
    struct puts puts = {0};
    struct conclave_queue_options options = queue_options();
    options.max_items = 2;
    queue_make(zk);
    queue_user_open(&u, zk, 0, &options);
    queue_user_open(&consumer, zk, 1, NULL);
    put_text(&u, 500, "full");
    put_text(&u, 500, "full");
    put_all(&u, &puts);
    assert_int_equal(conclave_queue_put(u.queue, 500, "x", 1, 0, NULL), CONCLAVE_EBUSY);
    take_text(&consumer, "full");
    take_text(&consumer, "full");
    take_all(&consumer);
    EVENTUALLY(puts.answered == PUTS);
    assert_int_equal(puts.error, 0);
    queue_user_finish(&u);
    queue_user_finish(&consumer);
}

/* One whose time is over while it waits behind others holds up nobody. */
static void one_that_gives_up_lets_the_others_pass(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct puts late = {0};
    struct puts puts = {0};
    struct conclave_queue_options options = queue_options();
    options.max_items = 1;
    queue_make(zk);
    queue_user_open(&u, zk, 0, &options);
    put_text(&u, 500, "full");
    assert_int_equal(conclave_queue_put_async(u.queue, 500, "late", 4, 80, on_put, &late), 0);
    put_all(&u, &puts);
    EVENTUALLY(late.answered == 1);
    assert_int_equal(late.error, CONCLAVE_ETIMEDOUT);
    take_text(&u, "full");
    take_all(&u);
    EVENTUALLY(puts.answered == PUTS);
    assert_int_equal(puts.error, 0);
    queue_user_finish(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(nothing_is_there_yet),
        E_TEST(another_makes_the_queue_between_two_puts),
        cmocka_unit_test(the_marker_is_removed_at_any_moment),
        cmocka_unit_test(E03_the_link_is_cut_before_any_of_them),
        cmocka_unit_test(E73_the_answer_of_any_of_them_is_lost),
        E_TEST(they_wait_for_room_in_order),
        E_TEST(one_that_gives_up_lets_the_others_pass),
    };
    return RUN_TESTS(tests);
}
