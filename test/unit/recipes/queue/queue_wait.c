/*
 * A take that waits, and something that happens right before one of its requests, each of them in
 * turn: whatever it is and whenever it comes, an item that may be taken is taken.
 */
#include "support/queue_user.h"

enum { STEPS = 14, APART = 4 };

struct taken {
    _Atomic int items;
    _Atomic int errors;
};

struct happening {
    char claim[256];
    bool line; /* first the consumer loses its place in the line */
    int then;  /* the other event, this number of requests later */
    _Atomic bool happened;
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

static void settle(struct fake_zk *zk)
{
    for (size_t quiet = 0, last = SIZE_MAX; quiet < 20;) {
        size_t now = fake_zk_count(zk, 0, FAKE_ANY_OP);
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        sleep_ms(1);
    }
}

/* --- the events ---------------------------------------------------------------------------- */

static void put_item(struct fake_zk *zk, void *ctx)
{
    struct happening *h = ctx;
    fake_zk_create_locked(zk, QUEUE_PATH "/500-x-q_0000000007", "a", 0);
    h->happened = true;
}

static void free_claim(struct fake_zk *zk, void *ctx)
{
    struct happening *h = ctx;
    fake_zk_delete_locked(zk, h->claim);
    h->happened = true;
}

/* The claims' node, too, is gone: as a server does with a container that is empty. */
static void reap_claims(struct fake_zk *zk, void *ctx)
{
    free_claim(zk, ctx);
    fake_zk_delete_locked(zk, CLAIMS_PATH);
}

static void lose_place(struct fake_zk *zk, void *ctx)
{
    struct happening *h = ctx;
    struct fake_hook later = {.endpoint = 0,
                              .op = FAKE_ANY_OP,
                              .nth = h->then,
                              .action = FAKE_CALL,
                              .fn = free_claim,
                              .ctx = h};
    fake_zk_delete_children_locked(zk, LINE_PATH);
    fake_zk_hook_locked(zk, &later);
}

/* --- one case -------------------------------------------------------------------------------- */

static void check_taken(struct fake_zk *zk, struct queue_user *u, struct taken *taken,
                        struct happening *h, int step, void (*fn)(struct fake_zk *zk, void *ctx))
{
    struct fake_hook hook = {
        .endpoint = 0, .op = FAKE_ANY_OP, .nth = step, .action = FAKE_CALL, .fn = fn, .ctx = h};
    assert_int_equal(conclave_client_wait_connected(u->link.client, PATIENCE_MS), 0);
    fake_zk_hook(zk, &hook);
    assert_int_equal(conclave_queue_take_async(u->queue, CONCLAVE_FOREVER, on_taken, taken), 0);
    settle(zk);
    fake_zk_hooks_clear(zk); /* it came to rest before */
    if (!h->happened) {
        fake_zk_do(zk, h->line ? free_claim : fn, h);
    }
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (taken->items == 0 && now_ns() < end) {
        sleep_ms(1);
    }
    if (taken->items != 1) {
        fail_msg("request %d, then %d: %d items taken", step, h->then, taken->items);
    }
}

static void wait_through(int step, int then, bool claimed,
                         void (*fn)(struct fake_zk *zk, void *ctx))
{
    struct fake_zk *zk = fake_zk_start();
    struct queue_user u;
    struct queue_user owner;
    struct conclave_item *item = NULL;
    struct taken taken = {0};
    struct happening h = {.line = then > 0, .then = then};
    assert_non_null(zk);
    queue_user_begin(&u, zk);
    queue_user_open(&owner, zk, 1, NULL);
    if (claimed) {
        put_text(&owner, 500, "a");
        item = take_one(&owner);
        (void)snprintf(h.claim, sizeof h.claim, "%s", conclave_item_claim(item));
    }
    check_taken(zk, &u, &taken, &h, step, fn);
    conclave_item_free(item);
    queue_user_finish(&owner);
    queue_user_finish(&u);
    assert_int_equal(taken.items + taken.errors, 1);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
    fake_zk_stop(zk);
}

/* --- the cases --------------------------------------------------------------------------------- */

static void an_item_that_is_put_at_any_moment_is_taken(void **state)
{
    for (int step = 1; step <= STEPS; step++) {
        wait_through(step, 0, false, put_item);
    }
}

static void an_item_whose_claim_goes_at_any_moment_is_taken(void **state)
{
    for (int step = 1; step <= STEPS; step++) {
        wait_through(step, 0, true, free_claim);
    }
}

static void an_item_is_taken_though_the_claims_node_goes_too(void **state)
{
    for (int step = 1; step <= STEPS; step++) {
        wait_through(step, 0, true, reap_claims);
    }
}

static void an_item_is_taken_by_who_lost_the_place_in_the_line(void **state)
{
    for (int step = 1; step <= STEPS; step++) {
        for (int then = 1; then <= APART; then++) {
            wait_through(step, then, true, lose_place);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_that_is_put_at_any_moment_is_taken),
        cmocka_unit_test(an_item_whose_claim_goes_at_any_moment_is_taken),
        cmocka_unit_test(an_item_is_taken_though_the_claims_node_goes_too),
        cmocka_unit_test(an_item_is_taken_by_who_lost_the_place_in_the_line),
    };
    return RUN_TESTS(tests);
}
