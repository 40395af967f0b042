/*
 * Taking: claims, acks, losses, dead letters, waiting without a herd.
 */
#include "support/queue_user.h"

/* --- at least once -------------------------------------------------------------------- */

static void E75_an_item_of_a_dead_consumer_is_handed_out_again(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user dies;
    struct queue_user heir;
    queue_make(zk);
    queue_user_open(&dies, zk, 0, NULL);
    queue_user_open_for(&heir, zk, 1, NULL, LONG_SESSION_MS);
    put_text(&dies, 500, "a");
    struct conclave_item *lost = take_one(&dies);
    assert_int_equal(conclave_item_attempt(lost), 1);
    assert_true(conclave_item_is_held(lost));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    struct conclave_item *again = take_one(&heir); /* waits for the session's end */
    assert_int_equal(conclave_item_attempt(again), 2);
    assert_true(item_is(again, "a"));
    assert_false(conclave_item_is_held(lost));
    EVENTUALLY(queue_user_get(&dies, &dies.lost) == 1);
    fake_zk_link(zk, 0, FAKE_UP);
    assert_int_equal(conclave_item_ack(lost, PATIENCE_MS), CONCLAVE_ELOST);
    assert_true(conclave_item_is_held(again));
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    assert_int_equal(conclave_item_ack(again, PATIENCE_MS), 0);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    assert_int_equal(items_in(zk, CLAIMS_PATH), 0);
    conclave_item_free(lost);
    conclave_item_free(again);
    queue_user_finish(&dies);
    queue_user_finish(&heir);
}

static void E76_an_ack_after_the_claim_was_lost_changes_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    queue_user_begin(&u, zk);
    queue_user_open(&other, zk, 1, NULL);
    put_text(&u, 500, "a");
    /* An operator removes the claim while the session lives; another consumer takes the item. */
    struct conclave_item *mine = take_one(&u);
    fake_zk_delete(zk, conclave_item_claim(mine));
    struct conclave_item *theirs = take_one(&other);
    assert_int_equal(conclave_item_ack(mine, PATIENCE_MS), CONCLAVE_ELOST);
    assert_int_equal(conclave_item_nack(mine, PATIENCE_MS), CONCLAVE_ELOST);
    assert_true(fake_zk_exists(zk, conclave_item_claim(theirs)));
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    assert_int_equal(conclave_item_ack(theirs, PATIENCE_MS), 0);
    assert_int_equal(conclave_item_ack(theirs, PATIENCE_MS), CONCLAVE_ENOTOWNER);
    conclave_item_free(mine);
    conclave_item_free(theirs);
    /* Nobody has it yet: still not mine to remove. */
    put_text(&u, 500, "b");
    mine = take_one(&u);
    fake_zk_expire(zk, candidate_session(&u.link));
    EVENTUALLY(queue_user_get(&u, &u.lost) >= 1);
    assert_int_equal(conclave_item_ack(mine, PATIENCE_MS), CONCLAVE_ELOST);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    conclave_item_free(mine);
    queue_user_finish(&u);
    queue_user_finish(&other);
}

static void E01_a_claim_whose_answer_was_lost_is_found_again(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_user_begin(&u, zk);
    put_text(&u, 500, "a");
    hook(zk, 0, WIRE_MULTI, CLAIMS_PATH, 1, FAKE_DROP_REPLY);
    struct conclave_item *item = take_one(&u);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(conclave_item_attempt(item), 1);
    EVENTUALLY(conclave_item_is_held(item)); /* proved again */
    hook(zk, 0, WIRE_MULTI, CLAIMS_PATH, 1, FAKE_DROP_REPLY);
    ack_one(item);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    assert_int_equal(items_in(zk, CLAIMS_PATH), 0);
    queue_user_finish(&u);
}

static void E03_a_claim_that_never_arrived_is_made_once_more(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_user_begin(&u, zk);
    put_text(&u, 500, "a");
    hook(zk, 0, WIRE_MULTI, CLAIMS_PATH, 1, FAKE_CUT_BEFORE);
    struct conclave_item *item = take_one(&u);
    assert_int_equal(conclave_item_attempt(item), 1);
    hook(zk, 0, WIRE_MULTI, CLAIMS_PATH, 1, FAKE_CUT_BEFORE);
    ack_one(item);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    queue_user_finish(&u);
}

static void what_is_given_back_comes_again_also_by_free_and_close(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    queue_user_begin(&u, zk);
    queue_user_open(&other, zk, 1, NULL);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    hook(zk, 0, WIRE_MULTI, CLAIMS_PATH, 1, FAKE_DROP_REPLY);
    nack_one(item);
    item = take_one(&other);
    assert_int_equal(conclave_item_attempt(item), 2);
    conclave_item_free(item); /* not acknowledged */
    item = take_one(&u);
    assert_int_equal(conclave_item_attempt(item), 3);
    queue_user_close(&u);
    struct conclave_item *last = take_one(&other);
    assert_int_equal(conclave_item_attempt(last), 4);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ENOTOWNER);
    assert_int_equal(conclave_item_ack(last, PATIENCE_MS), 0);
    conclave_item_free(item);
    conclave_item_free(last);
    queue_user_finish(&u);
    queue_user_finish(&other);
}

static void E81_an_item_that_is_never_acknowledged_becomes_a_dead_letter(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = queue_options();
    struct conclave_queue_entry **entries;
    size_t count;
    char name[CONCLAVE_QUEUE_NAME_MAX];
    char child[256];
    queue_make(zk);
    options.max_attempts = 2;
    queue_user_open(&u, zk, 0, &options);
    assert_int_equal(conclave_queue_put(u.queue, 7, "poison", 6, PATIENCE_MS, name), 0);
    put_text(&u, 500, "good");
    struct conclave_item *item = take_one(&u);
    nack_one(item);
    item = take_one(&u); /* its consumer dies with the last attempt */
    assert_int_equal(conclave_item_attempt(item), 2);
    fake_zk_expire(zk, candidate_session(&u.link));
    take_text(&u, "good");
    conclave_item_free(item);
    assert_true(fake_zk_child(zk, DEAD_PATH, 0, child));
    assert_string_equal(child, name); /* the same name, no longer than it was */
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);

    assert_int_equal(
        conclave_queue_list(u.queue, CONCLAVE_QUEUE_DEAD, 0, true, PATIENCE_MS, &entries, &count),
        0);
    assert_int_equal(count, 1);
    assert_int_equal(entries[0]->priority, 7);
    assert_int_equal(entries[0]->data_len, 6);
    assert_memory_equal(entries[0]->data, "poison", 6);
    conclave_queue_entries_free(entries, count);
    fake_zk_delete(zk, QUEUE_PATH); /* reaped meanwhile */
    assert_int_equal(conclave_queue_requeue(u.queue, name, PATIENCE_MS), 0);
    assert_int_equal(conclave_queue_requeue(u.queue, name, PATIENCE_MS), CONCLAVE_NO_NODE);
    assert_int_equal(conclave_queue_requeue(u.queue, "x", PATIENCE_MS), CONCLAVE_EINVAL);
    item = take_one(&u);
    assert_int_equal(conclave_item_attempt(item), 1);
    nack_one(item);
    item = take_one(&u); /* given back with the last attempt */
    nack_one(item);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    assert_int_equal(items_in(zk, DEAD_PATH), 1);
    assert_int_equal(conclave_queue_take(u.queue, 0, &item), CONCLAVE_EEMPTY);
    queue_user_finish(&u);
}

static void effects_in_the_tree_happen_with_the_ack_or_not_at_all(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char data[64];
    queue_make(zk);
    fake_zk_create(zk, "/sum", "0", 0);
    queue_user_open(&u, zk, 0, NULL);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    struct conclave_op wrong = conclave_op_set("/sum", "x", 1, 7);
    struct conclave_op right = conclave_op_set("/sum", "1", 1, 0);
    assert_int_equal(conclave_item_ack_multi(item, &wrong, 1), CONCLAVE_BAD_VERSION);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    EVENTUALLY(conclave_item_is_held(item)); /* still claimed */
    hook(zk, 0, WIRE_MULTI, "/sum", 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_item_ack_multi(item, &right, 1), 0);
    conclave_item_free(item);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    put_text(&u, 500, "b");
    item = take_one(&u);
    struct conclave_reply *reply = NULL;
    struct conclave_op more = conclave_op_set("/sum", "2", 1, -1);
    assert_int_equal(conclave_item_fenced_multi(item, &more, 1, &reply), 0);
    assert_int_equal(reply->results_count, 1);
    conclave_reply_free(reply);
    fake_zk_delete(zk, conclave_item_claim(item));
    more = conclave_op_set("/sum", "3", 1, -1);
    int error = conclave_item_fenced_multi(item, &more, 1, NULL);
    assert_int_equal(error, CONCLAVE_EFENCED);
    assert_int_equal(conclave_item_ack_multi(item, &more, 1), CONCLAVE_ELOST);
    assert_true(fake_zk_data(zk, "/sum", data, sizeof data));
    assert_string_equal(data, "2");
    conclave_item_free(item);
    queue_user_finish(&u);
}

/* --- at most once ------------------------------------------------------------------------ */

static void E74_at_most_once_gives_nothing_twice(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    struct conclave_queue_options options = queue_options();
    struct conclave_item *item;
    queue_make(zk);
    options.at_most_once = true;
    queue_user_open(&u, zk, 0, &options);
    queue_user_open(&other, zk, 1, &options);
    put_text(&u, 500, "a");
    hook(zk, 0, WIRE_MULTI, CLAIMS_PATH, 1, FAKE_DROP_REPLY); /* recognized by its claim */
    item = take_one(&u);
    assert_true(item_is(item, "a"));
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    ack_one(item);
    EVENTUALLY(items_in(zk, CLAIMS_PATH) == 0);
    put_text(&u, 500, "b");
    hook(zk, 0, WIRE_MULTI, CLAIMS_PATH, 1, FAKE_EXPIRE_AFTER); /* gone with its taker */
    assert_int_equal(conclave_queue_take(u.queue, SESSION_MS, &item), CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_queue_take(other.queue, 0, &item), CONCLAVE_EEMPTY);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    queue_user_finish(&u);
    queue_user_finish(&other);
}

/* --- order --------------------------------------------------------------------------------- */

static void E79_a_higher_priority_that_comes_later_is_taken_next(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_user_begin(&u, zk);
    put_text(&u, 500, "b1");
    put_text(&u, 500, "b2");
    put_text(&u, 900, "c");
    take_text(&u, "b1");
    put_text(&u, 10, "a");
    take_text(&u, "a");
    take_text(&u, "b2");
    take_text(&u, "c");
    queue_user_finish(&u);
}

static void E12_numbers_that_wrap_keep_their_order(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char text[8];
    queue_user_begin(&u, zk);
    fake_zk_set_sequence(zk, QUEUE_PATH, INT32_MAX - 1);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        put_text(&u, 500, text);
    }
    for (int i = 0; i < 5; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        take_text(&u, text);
    }
    queue_user_finish(&u);
}

static void E10_foreign_nodes_are_ignored(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_item *item;
    static const char *const foreign[] = {
        "abc",
        "x-",
        "q_",
        "500-",
        "500-q_",
        "queue-0000000001",
        "500-x-q_12345678901",
        "-00-x-q_0000000001",
        "\xc3\xa4",
        "500-x-q_+000000001",
        "_",
        "000-_0000000001",
    };
    char path[128];
    queue_make(zk);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", QUEUE_PATH, foreign[i]);
        fake_zk_create(zk, path, "x", 0);
    }
    queue_user_open(&u, zk, 0, NULL);
    assert_int_equal(conclave_client_wait_connected(u.link.client, PATIENCE_MS), 0);
    assert_int_equal(conclave_queue_take(u.queue, 0, &item), CONCLAVE_EEMPTY);
    put_text(&u, 500, "a");
    take_text(&u, "a");
    queue_user_finish(&u);
}

/* A put by a session that is just ending may have to say that nobody knows. */
static void put_after_loss(struct queue_user *u, const char *text)
{
    int error;
    do {
        error = conclave_queue_put(u->queue, 500, text, strlen(text), PATIENCE_MS, NULL);
    } while (error == CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(error, 0);
}

/* --- waiting ---------------------------------------------------------------------------------- */

struct taken {
    _Atomic int items;
    _Atomic int errors;
    _Atomic int last_error;
};

static void on_taken(struct conclave_queue *queue, int error, struct conclave_item *item, void *ctx)
{
    struct taken *t = ctx;
    if (error == 0) {
        t->items++;
        assert_int_equal(conclave_item_ack_async(item, NULL, NULL), 0);
        conclave_item_free(item);
    } else {
        t->last_error = error;
        t->errors++;
    }
}

static void settle(struct fake_zk *zk)
{
    for (size_t quiet = 0, last = SIZE_MAX; quiet < 60;) {
        size_t now = fake_zk_count(zk, FAKE_ANY_ENDPOINT, FAKE_ANY_OP);
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        sleep_ms(2);
    }
}

static size_t lists_of(struct fake_zk *zk)
{
    return fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_GET_CHILDREN2) +
           fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_GET_CHILDREN);
}

static void E80_one_put_wakes_one_of_fifty_that_wait(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u[2];
    struct queue_user producer;
    struct taken taken = {0};
    queue_make(zk);
    for (int i = 0; i < 2; i++) {
        queue_user_open(&u[i], zk, i, NULL);
        for (int j = 0; j < 25; j++) {
            assert_int_equal(
                conclave_queue_take_async(u[i].queue, CONCLAVE_FOREVER, on_taken, &taken), 0);
        }
    }
    queue_user_open(&producer, zk, 2, NULL);
    EVENTUALLY(items_in(zk, LINE_PATH) == 50);
    settle(zk);
    fake_zk_count_reset(zk);
    put_text(&producer, 500, "a");
    EVENTUALLY(taken.items == 1);
    EVENTUALLY(items_in(zk, LINE_PATH) == 49);
    settle(zk);
    /* The one in front lists claims and items, and again as its own claim is one; the next one
     * takes its place: the line, claims, items, and again for each of claim and ack. */
    print_message("lists: %zu, events: %zu\n", lists_of(zk), fake_zk_count_events(zk));
    assert_true(lists_of(zk) <= 12);
    assert_true(fake_zk_count_events(zk) <= 10);
    for (int i = 0; i < 10; i++) {
        put_text(&producer, 500, "b");
    }
    EVENTUALLY(taken.items == 11);
    EVENTUALLY(items_in(zk, LINE_PATH) == 39);
    for (int i = 0; i < 2; i++) {
        queue_user_finish(&u[i]);
    }
    assert_int_equal(taken.errors, 39);
    assert_int_equal(taken.last_error, CONCLAVE_ECLOSED);
    queue_user_finish(&producer);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void E77_a_put_wakes_a_consumer_although_the_queue_was_reaped(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user producer;
    struct taken taken = {0};
    queue_user_begin(&u, zk);
    queue_user_open(&producer, zk, 1, NULL);
    assert_int_equal(conclave_queue_take_async(u.queue, CONCLAVE_FOREVER, on_taken, &taken), 0);
    EVENTUALLY(items_in(zk, LINE_PATH) == 1);
    settle(zk);
    fake_zk_delete(zk, QUEUE_PATH);
    fake_zk_delete(zk, CLAIMS_PATH);
    EVENTUALLY(fake_zk_exists(zk, QUEUE_PATH)); /* made again, and watched */
    put_text(&producer, 500, "a");
    EVENTUALLY(taken.items == 1);
    queue_user_finish(&u);
    queue_user_finish(&producer);
}

static void E18_a_line_that_is_not_permitted_ends_the_take(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_item *item;
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_CREATE,
                          .path = "-n_",
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    queue_user_begin(&u, zk);
    fake_zk_hook(zk, &h); /* joining */
    assert_int_equal(conclave_queue_take(u.queue, PATIENCE_MS, &item), CONCLAVE_NO_AUTH);
    h.op = WIRE_GET_DATA; /* reading its own node there */
    h.path = NULL;
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_queue_take(u.queue, PATIENCE_MS, &item), CONCLAVE_NO_AUTH);
    EVENTUALLY(items_in(zk, LINE_PATH) == 0);
    queue_user_finish(&u);
}

static void E78_a_buffer_too_small_leaves_the_item_as_it_is(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char small[3];
    char large[64];
    size_t len;
    queue_user_begin(&u, zk);
    put_text(&u, 500, "four");
    struct conclave_item *item = take_one(&u);
    assert_int_equal(conclave_item_copy(item, small, sizeof small, &len), CONCLAVE_ENOBUFS);
    assert_int_equal(len, 4);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    assert_true(conclave_item_is_held(item));
    assert_int_equal(conclave_item_copy(item, large, sizeof large, &len), 0);
    assert_memory_equal(large, "four", 4);
    conclave_item_free(item);
    queue_user_finish(&u);
}

static void E31_a_listing_that_is_too_large_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_item *item;
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL, 10000); /* so much takes its time */
    put_text(&u, 500, "a");
    hook(zk, 0, WIRE_GET_CHILDREN2, QUEUE_PATH, 1, FAKE_OVERSIZED);
    assert_int_equal(conclave_queue_take(u.queue, PATIENCE_MS, &item), CONCLAVE_ETOOBIG);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    take_text(&u, "a");
    queue_user_finish(&u);
}

static void E30_everything_lost_is_made_anew(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user producer;
    struct taken taken = {0};
    queue_user_begin(&u, zk);
    queue_user_open(&producer, zk, 1, NULL);
    put_text(&producer, 500, "lost");
    take_text(&u, "lost");
    assert_int_equal(conclave_queue_take_async(u.queue, CONCLAVE_FOREVER, on_taken, &taken), 0);
    EVENTUALLY(items_in(zk, LINE_PATH) == 1);
    fake_zk_reset(zk);
    put_after_loss(&producer, "a");
    EVENTUALLY(taken.items == 1);
    queue_user_finish(&u);
    queue_user_finish(&producer);
}

static void E33_timeouts_of_a_take(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_item *item;
    queue_user_begin(&u, zk);
    assert_int_equal(conclave_client_wait_connected(u.link.client, PATIENCE_MS), 0);
    assert_int_equal(conclave_queue_take(u.queue, 0, &item), CONCLAVE_EEMPTY);
    int64_t before = now_ns();
    assert_int_equal(conclave_queue_take(u.queue, 80, &item), CONCLAVE_ETIMEDOUT);
    assert_true(now_ns() - before >= (int64_t)80 * 1000000);
    EVENTUALLY(items_in(zk, LINE_PATH) == 0);
    put_text(&u, 500, "a");
    assert_int_equal(conclave_queue_take(u.queue, 0, &item), 0);
    conclave_item_free(item);
    assert_int_equal(conclave_queue_take(u.queue, INT64_MAX, &item), 0);
    conclave_item_free(item);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    assert_int_equal(conclave_queue_take(u.queue, 50, &item), CONCLAVE_ETIMEDOUT);
    fake_zk_link(zk, 0, FAKE_UP);
    queue_user_finish(&u);
}

struct answer {
    _Atomic bool come;
    int error;
    struct conclave_item *item;
};

static void on_answer(struct conclave_queue *queue, int error, struct conclave_item *item,
                      void *ctx)
{
    struct answer *a = ctx;
    a->error = error;
    a->item = item;
    a->come = true;
}

/* The item comes about when the time is over. ROUNDS in the environment: so many instead. */
static void E34_an_item_at_the_deadline_is_taken_or_left(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user producer;
    const char *rounds = getenv("ROUNDS");
    long wanted = rounds != NULL ? strtol(rounds, NULL, 10) : 300;
    int got = 0;
    int late = 0;
    queue_user_begin(&u, zk);
    queue_user_open(&producer, zk, 1, NULL);
    assert_int_equal(conclave_client_wait_connected(u.link.client, PATIENCE_MS), 0);
    for (long i = 0; i < wanted; i++) {
        struct answer a = {.error = 1};
        /* on a slow machine later, until one came in time */
        int64_t time_ms = i > 100 && got == 0 ? 2 + (i - 100) / 4 : 2;
        assert_int_equal(conclave_queue_take_async(u.queue, time_ms, on_answer, &a), 0);
        (void)usleep((useconds_t)(1000 + i * 97 % 1500));
        put_text(&producer, 500, "a");
        EVENTUALLY(a.come);
        if (a.error == 0) {
            got++;
            assert_true(item_is(a.item, "a"));
            assert_int_equal(conclave_item_ack(a.item, PATIENCE_MS), 0);
            conclave_item_free(a.item);
        } else {
            assert_int_equal(a.error, CONCLAVE_ETIMEDOUT);
            assert_null(a.item);
            late++;
            take_text(&u, "a"); /* untouched */
        }
    }
    print_message("%d taken, %d left\n", got, late);
    assert_true(got > 0 && late > 0);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    assert_int_equal(items_in(zk, CLAIMS_PATH), 0);
    EVENTUALLY(items_in(zk, LINE_PATH) == 0);
    queue_user_finish(&u);
    queue_user_finish(&producer);
}

/* --- the handle ------------------------------------------------------------------------------- */

static _Atomic int blocked_error;
static _Atomic int acked_error;

static void on_acked(struct conclave_item *item, int error, void *ctx)
{
    acked_error = error;
    conclave_item_free(item);
}

static void on_taken_block(struct conclave_queue *queue, int error, struct conclave_item *item,
                           void *ctx)
{
    struct conclave_item *another;
    blocked_error = conclave_item_ack(item, 100);
    if (blocked_error == CONCLAVE_EDEADLK) {
        blocked_error = conclave_queue_take(queue, 100, &another);
    }
    assert_int_equal(conclave_item_ack_async(item, on_acked, NULL), 0);
    conclave_queue_close(queue);
}

static void E36_a_callback_may_close_and_may_not_block(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    acked_error = 1;
    queue_user_begin(&u, zk);
    put_text(&u, 500, "a");
    assert_int_equal(conclave_queue_take_async(u.queue, PATIENCE_MS, on_taken_block, NULL), 0);
    EVENTUALLY(queue_user_get(&u, &u.closed) == 1);
    EVENTUALLY(acked_error == 0);
    assert_int_equal(blocked_error, CONCLAVE_EDEADLK);
    queue_user_finish(&u);
}

static void E55_two_queues_of_a_client_are_apart(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user second;
    struct conclave_queue_options options = queue_options();
    struct conclave_item *item;
    queue_user_begin(&u, zk);
    options.path = "/app/second";
    queue_user_share(&second, &u, &options);
    put_text(&u, 500, "a");
    assert_int_equal(conclave_queue_take(second.queue, 0, &item), CONCLAVE_EEMPTY);
    item = take_one(&u);
    queue_user_close(&second);
    assert_true(conclave_item_is_held(item));
    ack_one(item);
    queue_user_finish(&second);
    queue_user_finish(&u);
}

static void the_size_is_watched(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user watcher;
    int64_t count;
    queue_user_open(&u, zk, 0, NULL);
    queue_user_share(&watcher, &u, NULL);
    EVENTUALLY(queue_user_get(&watcher, &watcher.sizes) == 1);
    for (int i = 0; i < 20; i++) {
        put_text(&u, 500, "a");
    }
    EVENTUALLY(watcher.size == 20);
    assert_int_equal(conclave_queue_size(u.queue, PATIENCE_MS, &count), 0);
    assert_int_equal(count, 20);
    take_text(&u, "a");
    EVENTUALLY(watcher.size == 19);
    fake_zk_expire(zk, 0);
    put_after_loss(&u, "a");
    EVENTUALLY(watcher.size == 20);
    assert_true(queue_user_get(&watcher, &watcher.sizes) <= 24);
    queue_user_finish(&watcher);
    queue_user_finish(&u);
}

static void a_list_tells_who_has_what(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = queue_options();
    struct conclave_queue_entry **entries = NULL;
    size_t count = 1;
    options.id = "worker-7";
    queue_user_open(&u, zk, 0, &options);
    assert_int_equal(
        conclave_queue_list(u.queue, CONCLAVE_QUEUE_ITEMS, 0, false, PATIENCE_MS, &entries, &count),
        0);
    assert_int_equal(count, 0);
    put_text(&u, 500, "second");
    put_text(&u, 1, "first");
    struct conclave_item *item = take_one(&u);
    assert_int_equal(
        conclave_queue_list(u.queue, CONCLAVE_QUEUE_ITEMS, 0, true, PATIENCE_MS, &entries, &count),
        0);
    assert_int_equal(count, 2);
    assert_string_equal(entries[0]->name, conclave_item_name(item));
    assert_string_equal(entries[0]->holder, "worker-7");
    assert_int_equal(entries[0]->session_id, candidate_session(&u.link));
    assert_int_equal(entries[0]->attempts, 1);
    assert_int_equal(entries[1]->session_id, 0);
    assert_int_equal(entries[1]->priority, 500);
    assert_memory_equal(entries[1]->data, "second", 6);
    conclave_queue_entries_free(entries, count);
    conclave_item_free(item);
    queue_user_finish(&u);
}

static void E59_closing_the_client_ends_everything(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct taken taken = {0};
    queue_user_begin(&u, zk);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(conclave_queue_take_async(u.queue, CONCLAVE_FOREVER, on_taken, &taken), 0);
    }
    conclave_client_close(u.link.client, 1000);
    EVENTUALLY(taken.errors == 3);
    assert_int_equal(taken.last_error, CONCLAVE_ECLOSED);
    EVENTUALLY(queue_user_get(&u, &u.closed) == 1);
    assert_false(conclave_item_is_held(item));
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
    conclave_item_free(item);
    conclave_queue_destroy(u.queue);
    conclave_recipes_destroy(u.link.recipes);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void E32_many_takes_leave_no_watch_behind(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_item *item;
    queue_user_begin(&u, zk);
    for (int i = 0; i < 200; i++) {
        put_text(&u, 500, "a");
        take_text(&u, "a");
        if (i % 20 == 0) {
            assert_int_equal(conclave_queue_take(u.queue, 3, &item), CONCLAVE_ETIMEDOUT);
        }
    }
    EVENTUALLY(items_in(zk, LINE_PATH) == 0);
    print_message("watches at the server: %zu\n", fake_zk_watches(zk));
    assert_true(fake_zk_watches(zk) <= 4); /* of the last one that waited */
    queue_user_finish(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXPIRY_TEST(E75_an_item_of_a_dead_consumer_is_handed_out_again),
        E_TEST(E76_an_ack_after_the_claim_was_lost_changes_nothing),
        E_TEST(E01_a_claim_whose_answer_was_lost_is_found_again),
        E_TEST(E03_a_claim_that_never_arrived_is_made_once_more),
        E_TEST(what_is_given_back_comes_again_also_by_free_and_close),
        E_TEST(E81_an_item_that_is_never_acknowledged_becomes_a_dead_letter),
        E_TEST(effects_in_the_tree_happen_with_the_ack_or_not_at_all),
        E_TEST(E74_at_most_once_gives_nothing_twice),
        E_TEST(E79_a_higher_priority_that_comes_later_is_taken_next),
        E_TEST(E12_numbers_that_wrap_keep_their_order),
        E_TEST(E10_foreign_nodes_are_ignored),
        E_TEST(E80_one_put_wakes_one_of_fifty_that_wait),
        E_TEST(E77_a_put_wakes_a_consumer_although_the_queue_was_reaped),
        E_TEST(E18_a_line_that_is_not_permitted_ends_the_take),
        E_TEST(E78_a_buffer_too_small_leaves_the_item_as_it_is),
        E_TEST(E31_a_listing_that_is_too_large_is_told),
        E_TEST(E30_everything_lost_is_made_anew),
        E_TEST(E33_timeouts_of_a_take),
        E_TEST(E34_an_item_at_the_deadline_is_taken_or_left),
        E_TEST(E36_a_callback_may_close_and_may_not_block),
        E_TEST(E55_two_queues_of_a_client_are_apart),
        E_TEST(the_size_is_watched),
        E_TEST(a_list_tells_who_has_what),
        E_TEST(E59_closing_the_client_ends_everything),
        E_TEST(E32_many_takes_leave_no_watch_behind),
    };
    return RUN_TESTS(tests);
}
