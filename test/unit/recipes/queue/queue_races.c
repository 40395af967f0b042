/*
 * What happens between two steps of a queue: an item that another takes without a claim, a claim that outlives its item, a
 * repeated ack, a session that ends with an answer, a write that no watch shows, puts that race for the last place.
 */
#include "support/queue_user.h"

#include "recipes/queue/queue_item.h"

#define PLAIN_ITEM QUEUE_PATH "/qn-0000000000"
#define PLAIN_CLAIM CLAIMS_PATH "/qn-0000000000"
#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* Long sessions: no heartbeat comes in between, and no claim goes by itself. */
static void races_open(struct queue_user *u, struct fake_zk *zk, int endpoint,
                       enum conclave_queue_layout layout, int max_attempts)
{
    struct conclave_queue_options options = queue_options();
    options.layout = layout;
    options.max_attempts = max_attempts;
    queue_user_open_for(u, zk, endpoint, &options, 4 * PATIENCE_MS);
}

static void refuse(struct fake_zk *zk, const char *path)
{
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_MULTI,
                          .path = path,
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    fake_zk_hook(zk, &h);
}

static void delete_it(struct fake_zk *zk, void *path)
{
    fake_zk_delete_locked(zk, path);
}

static void write_it(struct fake_zk *zk, void *path)
{
    fake_zk_write_locked(zk, path, "b");
}

static void hook_call(struct fake_zk *zk, int32_t op, const char *path, int nth,
                      void (*fn)(struct fake_zk *zk, void *ctx), void *ctx)
{
    struct fake_hook h = {.endpoint = 0,
                          .op = op,
                          .path = path,
                          .nth = nth,
                          .action = FAKE_CALL,
                          .fn = fn,
                          .ctx = ctx};
    fake_zk_hook(zk, &h);
}

static void item_path(const struct conclave_item *item, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%s/%s", QUEUE_PATH, conclave_item_name(item));
}

/* --- a lost answer --------------------------------------------------------------------------- */

/* The ack never arrives, and before it is sent again a consumer of the other library removes the item. */
static void E76_a_lost_answer_does_not_hide_that_another_took_the_item(void **state)
{
    static const enum conclave_queue_layout layouts[] = {
        CONCLAVE_QUEUE_LAYOUT_PLAIN, CONCLAVE_QUEUE_LAYOUT_KAZOO, CONCLAVE_QUEUE_LAYOUT_CURATOR};
    struct fake_zk *zk = *state;
    char path[128];
    queue_make(zk);
    for (size_t i = 0; i < COUNT_OF(layouts); i++) {
        struct queue_user u;
        races_open(&u, zk, 0, layouts[i], 0);
        put_text(&u, 500, "a");
        struct conclave_item *item = take_one(&u);
        item_path(item, path, sizeof path);
        hook(zk, 0, WIRE_MULTI, path, 1, FAKE_CUT_BEFORE);
        hook_call(zk, WIRE_SYNC, path, 1, delete_it, path);
        assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        EVENTUALLY(items_in(zk, CLAIMS_PATH) == 0);
        conclave_item_free(item);
        /* The answer alone is lost. */
        put_text(&u, 500, "b");
        item = take_one(&u);
        item_path(item, path, sizeof path);
        hook(zk, 0, WIRE_MULTI, path, 1, FAKE_DROP_REPLY);
        ack_one(item);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        assert_int_equal(items_in(zk, CLAIMS_PATH), 0);
        queue_user_finish(&u);
    }
}

/* The name is given again before the ack is looked up, and somebody else has claimed the new item. */
static void reuse_name(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, PLAIN_ITEM, "a", 0);
    fake_zk_write_locked(zk, PLAIN_ITEM, "b");
    fake_zk_create_locked(zk, PLAIN_CLAIM, "x\nother", 0);
}

static void E17_a_lost_answer_does_not_hit_the_next_item_of_that_name(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    hook(zk, 0, WIRE_MULTI, PLAIN_ITEM, 1, FAKE_DROP_REPLY);
    hook_call(zk, WIRE_SYNC, PLAIN_ITEM, 1, reuse_name, NULL);
    ack_one(item);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_true(fake_zk_exists(zk, PLAIN_ITEM));
    assert_true(fake_zk_exists(zk, PLAIN_CLAIM));
    queue_user_finish(&u);
}

static void put_back(struct fake_zk *zk, void *path)
{
    fake_zk_delete_children_locked(zk, DEAD_PATH);
    fake_zk_create_locked(zk, path, "a", 0);
}

static void E81_a_dead_letter_put_back_at_once_was_one(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char path[CONCLAVE_QUEUE_NAME_MAX + 64];
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_NATIVE, 1);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    item_path(item, path, sizeof path);
    fake_zk_create(zk, DEAD_PATH, "", 0);
    hook(zk, 0, WIRE_MULTI, path, 1, FAKE_DROP_REPLY);
    hook_call(zk, WIRE_SYNC, path, 1, put_back, path);
    nack_one(item);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    take_text(&u, "a");
    queue_user_finish(&u);
}

/* Nobody can say whether the ack was carried out, and ELOST would say that nothing was changed. */
static void E76_a_session_that_ends_with_the_answer_leaves_the_outcome_open(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char path[128];
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL, PATIENCE_MS);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    item_path(item, path, sizeof path);
    hook(zk, 0, WIRE_MULTI, path, 1, FAKE_EXPIRE_AFTER);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(items_in(zk, QUEUE_PATH), 0);
    conclave_item_free(item);
    put_text(&u, 500, "b");
    item = take_one(&u);
    item_path(item, path, sizeof path);
    hook(zk, 0, WIRE_MULTI, path, 1, FAKE_EXPIRE_BEFORE);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_SESSION_EXPIRED);
    conclave_item_free(item);
    item = take_one(&u);
    assert_int_equal(conclave_item_attempt(item), 2);
    /* Given back it is in any case. */
    item_path(item, path, sizeof path);
    hook(zk, 0, WIRE_MULTI, path, 1, FAKE_EXPIRE_AFTER);
    assert_int_equal(conclave_item_nack(item, PATIENCE_MS), CONCLAVE_ELOST);
    conclave_item_free(item);
    take_text(&u, "b");
    queue_user_finish(&u);
}

static void a_requeue_whose_answer_was_lost_was_carried_out_although_the_item_is_taken(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char name[CONCLAVE_QUEUE_NAME_MAX];
    char path[CONCLAVE_QUEUE_NAME_MAX + 64];
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_NATIVE, 1);
    assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, PATIENCE_MS, name), 0);
    nack_one(take_one(&u));
    assert_int_equal(items_in(zk, DEAD_PATH), 1);
    (void)snprintf(path, sizeof path, "%s/%s", QUEUE_PATH, name);
    hook(zk, 0, WIRE_MULTI, path, 1, FAKE_DROP_REPLY);
    hook_call(zk, WIRE_MULTI, path, 1, delete_it, path);
    assert_int_equal(conclave_queue_requeue(u.queue, name, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(conclave_queue_requeue(u.queue, name, PATIENCE_MS), CONCLAVE_NO_NODE);
    queue_user_finish(&u);
}

/* The server that is asked has not learned of the session's new server yet, or is overloaded. */
static void a_blocking_request_that_was_refused_is_sent_again(void **state)
{
    static const int errors[] = {CONCLAVE_SESSION_MOVED, CONCLAVE_REQUEST_TIMEOUT,
                                 CONCLAVE_THROTTLED};
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_NATIVE, 1);
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        struct fake_hook h = {.op = WIRE_MULTI, .nth = 1, .action = FAKE_ERROR, .error = errors[i]};
        char name[CONCLAVE_QUEUE_NAME_MAX];
        assert_int_equal(conclave_queue_put(u.queue, 500, "a", 1, PATIENCE_MS, name), 0);
        nack_one(take_one(&u));
        fake_zk_hook(zk, &h);
        assert_int_equal(conclave_queue_requeue(u.queue, name, PATIENCE_MS), 0);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        take_text(&u, "a");
    }
    queue_user_finish(&u);
}

/* --- claims of lost items -------------------------------------------------------------------- */

static void a_claim_goes_with_its_item(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_delete(zk, PLAIN_ITEM);
    hook(zk, 0, WIRE_DELETE, PLAIN_CLAIM, 1, FAKE_CUT_BEFORE);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
    conclave_item_free(item);
    EVENTUALLY(items_in(zk, CLAIMS_PATH) == 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(queue_user_get(&u, &u.lost), 0);
    queue_user_finish(&u);
}

/* Somebody has written the item without a claim: the claim does not keep it from others. */
static void an_item_that_was_written_can_be_taken_after_its_loss(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    races_open(&other, zk, 1, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_write(zk, PLAIN_ITEM, "b");
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
    take_text(&other, "b");
    conclave_item_free(item);
    queue_user_finish(&u);
    queue_user_finish(&other);
}

static void claim_for_another(struct fake_zk *zk, void *session)
{
    fake_zk_delete_locked(zk, PLAIN_CLAIM);
    fake_zk_write_locked(zk, PLAIN_ITEM, "a");
    fake_zk_create_locked(zk, PLAIN_CLAIM, "x\nother", *(int64_t *)session);
}

static void E17_the_claim_of_the_next_consumer_stays(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    races_open(&other, zk, 1, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_delete(zk, PLAIN_CLAIM);
    struct conclave_item *theirs = take_one(&other);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
    conclave_item_free(item);
    nack_one(theirs);
    /* The answer to the removal of the claim is lost, and another claims the item before it is asked for again. */
    int64_t session = candidate_session(&other.link);
    item = take_one(&u);
    fake_zk_write(zk, PLAIN_ITEM, "b");
    hook(zk, 0, WIRE_DELETE, PLAIN_CLAIM, 1, FAKE_DROP_REPLY);
    hook_call(zk, WIRE_SYNC, PLAIN_ITEM, 2, claim_for_another, &session);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
    conclave_item_free(item);
    queue_user_finish(&u); /* waits until the item is done with its claim */
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_owner(zk, PLAIN_CLAIM), session);
    queue_user_finish(&other);
}

/* Freed while its ack is refused: it is given back, not kept until the end of the session. */
static void an_item_freed_while_its_ack_is_refused_is_given_back(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_create(zk, PLAIN_ITEM "/child", "", 0);
    fake_zk_hold(zk, 0, WIRE_MULTI);
    assert_int_equal(conclave_item_ack_async(item, NULL, NULL), 0);
    conclave_item_free(item);
    fake_zk_release(zk, 0);
    EVENTUALLY(items_in(zk, CLAIMS_PATH) == 0);
    fake_zk_delete(zk, PLAIN_ITEM "/child");
    take_text(&u, "a");
    queue_user_finish(&u);
}

/* --- held or not ------------------------------------------------------------------------------- */

/* Without a claim of its own, another library's consumer removes the item. */
static void an_item_that_another_removed_is_not_held(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = queue_options();
    options.layout = CONCLAVE_QUEUE_LAYOUT_KAZOO;
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, &options, 5 * SESSION_MS);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_delete(zk, QUEUE_PATH "/entry-500-0000000000");
    EVENTUALLY(queue_user_get(&u, &u.lost) == 1);
    assert_false(conclave_item_is_held(item));
    EVENTUALLY(items_in(zk, CLAIMS_PATH) == 0);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
    conclave_item_free(item);
    queue_user_finish(&u);
}

static void a_claim_of_another_on_the_same_node_proves_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    struct conclave_queue_options options = queue_options();
    options.layout = CONCLAVE_QUEUE_LAYOUT_PLAIN;
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, &options, 5 * SESSION_MS);
    races_open(&other, zk, 1, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    assert_int_equal(conclave_client_wait_connected(other.link.client, PATIENCE_MS), 0);
    int64_t session = candidate_session(&other.link);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_do(zk, claim_for_another, &session);
    EVENTUALLY(queue_user_get(&u, &u.lost) == 1);
    assert_false(conclave_item_is_held(item));
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
    conclave_item_free(item);
    queue_user_finish(&u);
    assert_int_equal(fake_zk_owner(zk, PLAIN_CLAIM), session);
    queue_user_finish(&other);
}

/* --- dead letters -------------------------------------------------------------------------------- */

static void claim_by_hand(struct fake_zk *zk, void *claim)
{
    fake_zk_create_locked(zk, claim, "x\nother", 0);
}

/* A consumer claims the item for its last attempt after another has listed the claims. */
static void E81_an_item_that_another_has_claimed_is_not_buried(void **state)
{
    static const struct {
        enum conclave_queue_layout layout;
        const char *items;
        const char *claims;
    } rows[] = {
        {CONCLAVE_QUEUE_LAYOUT_NATIVE, QUEUE_PATH, CLAIMS_PATH},
        {CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING, QUEUE_PATH "/entries", QUEUE_PATH "/taken"},
    };
    struct fake_zk *zk = *state;
    queue_make(zk);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct queue_user u;
        struct conclave_item *item;
        char name[256];
        char path[320];
        char claim[320];
        fake_zk_create(zk, rows[i].claims, "", 0);
        races_open(&u, zk, 0, rows[i].layout, 1);
        put_text(&u, 500, "a");
        assert_true(fake_zk_child(zk, rows[i].items, 0, name));
        (void)snprintf(path, sizeof path, "%s/%s", rows[i].items, name);
        (void)snprintf(claim, sizeof claim, "%s/%s", rows[i].claims, name);
        fake_zk_set_version(zk, path, 1);
        hook_call(zk, WIRE_GET_DATA, path, 1, claim_by_hand, claim);
        assert_int_equal(conclave_queue_take(u.queue, 0, &item), CONCLAVE_EEMPTY);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        assert_true(fake_zk_exists(zk, path));
        assert_int_equal(items_in(zk, DEAD_PATH), i);
        fake_zk_delete(zk, claim);
        assert_int_equal(conclave_queue_take(u.queue, 0, &item), CONCLAVE_EEMPTY);
        assert_int_equal(items_in(zk, DEAD_PATH), i + 1);
        assert_int_equal(items_in(zk, rows[i].claims), 0);
        queue_user_finish(&u);
    }
}

/* The queue's node was deleted: its items are numbered from the beginning, and have the names of dead letters. */
static void E81_a_name_that_a_dead_letter_has_stops_no_consumer(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_entry **entries;
    size_t count;
    queue_make(zk);
    fake_zk_create(zk, DEAD_PATH, "", 0);
    fake_zk_create(zk, DEAD_PATH "/qn-0000000000", "old", 0);
    fake_zk_create(zk, DEAD_PATH "/qn-0000000001", "old", 0);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 1);
    put_text(&u, 500, "new");
    put_text(&u, 500, "new");
    put_text(&u, 500, "good");
    nack_one(take_one(&u)); /* by its consumer */
    fake_zk_set_version(zk, QUEUE_PATH "/qn-0000000001", 1);
    take_text(&u, "good"); /* by the next one that looks */
    assert_int_equal(
        conclave_queue_list(u.queue, CONCLAVE_QUEUE_DEAD, 0, true, PATIENCE_MS, &entries, &count),
        0);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        bool marked = strchr(entries[i]->name, '~') != NULL;
        assert_memory_equal(entries[i]->data, marked ? "new" : "old", 3);
        bool first = i % 2 == 0; /* two have one place */
        assert_int_equal(conclave_queue_requeue(u.queue, entries[i]->name, PATIENCE_MS),
                         first ? 0 : CONCLAVE_NODE_EXISTS);
    }
    conclave_queue_entries_free(entries, count);
    assert_int_equal(items_in(zk, DEAD_PATH), 2); /* no letter was lost */
    assert_int_equal(items_in(zk, QUEUE_PATH), 2);
    queue_user_finish(&u);
}

static void E81_an_item_with_a_child_stops_no_consumer(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 1);
    put_text(&u, 500, "a");
    put_text(&u, 500, "b");
    fake_zk_create(zk, PLAIN_ITEM "/child", "", 0);
    fake_zk_set_version(zk, PLAIN_ITEM, 1); /* it would be a dead letter */
    take_text(&u, "b");
    assert_true(fake_zk_exists(zk, PLAIN_ITEM));
    queue_user_finish(&u);
}

/* --- repeated acks --------------------------------------------------------------------------------- */

/* Keeps the callbacks' thread busy, so that what is due stays due. */
struct gate {
    _Atomic bool inside;
    _Atomic bool open;
};

static void on_gate(struct conclave_queue *queue, int error, struct conclave_item *item, void *ctx)
{
    struct gate *gate = ctx;
    gate->inside = true;
    while (!gate->open) {
        sleep_ms(1);
    }
}

static void gate_shut(struct gate *gate, struct queue_user *u)
{
    *gate = (struct gate){0};
    assert_int_equal(conclave_queue_take_async(u->queue, 0, on_gate, gate), 0);
    EVENTUALLY(gate->inside);
}

struct answer {
    _Atomic int told;
    _Atomic int error;
};

static void on_answer(struct conclave_item *item, int error, void *ctx)
{
    struct answer *a = ctx;
    a->error = error;
    a->told++;
}

static bool is_due(struct queue_user *u, const bool *due)
{
    client_lock(u->link.client);
    bool value = *due;
    client_unlock(u->link.client);
    return value;
}

static void an_ack_is_in_progress_until_its_answer_was_told(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct gate gate;
    struct answer first = {0};
    struct answer second = {0};
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    gate_shut(&gate, &u);
    refuse(zk, PLAIN_ITEM);
    assert_int_equal(conclave_item_ack_async(item, on_answer, &first), 0);
    EVENTUALLY(is_due(&u, &item->done_due));
    assert_int_equal(conclave_item_ack_async(item, on_answer, &second), CONCLAVE_EBUSY);
    assert_int_equal(conclave_item_nack_async(item, NULL, NULL), CONCLAVE_EBUSY);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_EBUSY);
    gate.open = true;
    EVENTUALLY(first.told == 1);
    assert_int_equal(first.error, CONCLAVE_NO_AUTH);
    /* Now it may be tried again. */
    gate_shut(&gate, &u);
    assert_int_equal(conclave_item_ack_async(item, on_answer, &second), 0);
    EVENTUALLY(is_due(&u, &item->done_due));
    assert_int_equal(conclave_item_ack_async(item, on_answer, &first), CONCLAVE_EBUSY);
    gate.open = true;
    EVENTUALLY(second.told == 1);
    assert_int_equal(second.error, 0);
    assert_int_equal(conclave_item_ack_async(item, on_answer, &first), CONCLAVE_ENOTOWNER);
    assert_int_equal(first.told, 1);
    conclave_item_free(item);
    queue_user_finish(&u);
}

static void an_ack_at_most_once_is_answered_once_each(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = queue_options();
    struct gate gate;
    struct answer first = {0};
    struct answer second = {0};
    options.at_most_once = true;
    queue_make(zk);
    queue_user_open(&u, zk, 0, &options);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    gate_shut(&gate, &u);
    assert_int_equal(conclave_item_ack_async(item, on_answer, &first), 0);
    assert_int_equal(conclave_item_ack_async(item, on_answer, &second), CONCLAVE_EBUSY);
    gate.open = true;
    EVENTUALLY(first.told == 1);
    assert_int_equal(conclave_item_ack_async(item, on_answer, &second), 0);
    EVENTUALLY(second.told == 1);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), 0);
    conclave_item_free(item);
    queue_user_finish(&u);
}

struct giving_back {
    struct fake_zk *zk;
    struct conclave_item *item;
};

static void *give_back(void *arg)
{
    struct giving_back *g = arg;
    while (fake_zk_hooks_left(g->zk) > 0) {} /* the ack is in progress */
    while (conclave_item_nack_async(g->item, NULL, NULL) == CONCLAVE_EBUSY) {}
    return NULL;
}

/* Another thread gives the item back as soon as the refused ack lets it: the ack's answer stays what it was. */
static void the_answer_of_an_ack_is_not_that_of_the_next_nack(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    put_text(&u, 500, "a");
    for (int i = 0; i < 60; i++) {
        struct giving_back g = {zk, take_one(&u)};
        pthread_t thread;
        refuse(zk, PLAIN_ITEM);
        assert_int_equal(pthread_create(&thread, NULL, give_back, &g), 0);
        assert_int_equal(conclave_item_ack(g.item, PATIENCE_MS), CONCLAVE_NO_AUTH);
        (void)pthread_join(thread, NULL);
        conclave_item_free(g.item);
    }
    queue_user_finish(&u);
}

/* Its lease ended while no callback could run; then it was acknowledged all the same. */
static void no_word_of_a_loss_comes_after_the_answer_to_an_ack(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct gate gate;
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL, 5 * SESSION_MS);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    gate_shut(&gate, &u);
    fake_zk_hold(zk, 0, WIRE_MULTI); /* pings are answered: the session lives */
    EVENTUALLY(is_due(&u, &item->lost_due));
    fake_zk_release(zk, 0);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), 0);
    gate.open = true;
    queue_user_close(&u);
    assert_int_equal(queue_user_get(&u, &u.lost), 0);
    conclave_item_free(item);
    queue_user_finish(&u);
}

/* on_lost is called once: who was told of a loss is told of no other. */
static void what_was_lost_is_not_held_again(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    char path[128];
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, NULL, 5 * SESSION_MS);
    put_text(&u, 500, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_hold(zk, 0, WIRE_MULTI); /* pings are answered: the session lives */
    EVENTUALLY(queue_user_get(&u, &u.lost) == 1);
    fake_zk_release(zk, 0);
    item_path(item, path, sizeof path);
    refuse(zk, path);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_NO_AUTH);
    STAYS(!conclave_item_is_held(item), 100);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), 0); /* the claim is still there */
    conclave_item_free(item);
    queue_user_finish(&u);
}

/* --- parts ------------------------------------------------------------------------------------------- */

enum { PARTS = 10000, PART_BYTES = 5 + 1 };

/* In either order, and each part is overwritten with its head when it was seen: those that come later do not need it. */
static void each_of_ten_thousand_parts_is_found_without_reading_the_others(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user producer;
    struct conclave_queue_options options = queue_options();
    static uint8_t bytes[4 + PARTS * PART_BYTES + 1] = {0, 1, 0, 1};
    for (size_t i = 0; i < PARTS; i++) {
        const uint8_t part[PART_BYTES] = {1, 0, 0, 0, 1, (uint8_t)(i % 251)};
        memcpy(bytes + 4 + i * PART_BYTES, part, PART_BYTES);
    }
    bytes[sizeof bytes - 1] = 2;
    options.layout = CONCLAVE_QUEUE_LAYOUT_PLAIN; /* as Curator's putMulti */
    options.prefix = "queue-";
    queue_make(zk);
    queue_user_open_for(&producer, zk, 1, &options, 4 * PATIENCE_MS);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_CURATOR, 0);
    for (int down = 0; down <= 1; down++) {
        assert_int_equal(
            conclave_queue_put(producer.queue, 500, bytes, sizeof bytes, PATIENCE_MS, NULL), 0);
        struct conclave_item *item = take_one(&u);
        assert_int_equal(conclave_item_count(item), PARTS);
        for (size_t i = 0; i < PARTS; i++) {
            size_t index = down ? PARTS - 1 - i : i;
            size_t len = 0;
            const uint8_t *part = conclave_item_part(item, index, &len);
            assert_non_null(part);
            assert_int_equal(len, 1);
            assert_int_equal(part[0], index % 251);
            memset((uint8_t *)item->data + 4 + index * PART_BYTES, 0xff, PART_BYTES);
        }
        size_t len = 1;
        assert_null(conclave_item_part(item, PARTS, &len));
        assert_int_equal(len, 0);
        ack_one(item);
    }
    queue_user_finish(&u);
    queue_user_finish(&producer);
}

/* --- wake-ups ------------------------------------------------------------------------------------------ */

struct taken {
    _Atomic int items;
    _Atomic bool right;
};

static void on_taken(struct conclave_queue *queue, int error, struct conclave_item *item, void *ctx)
{
    struct taken *t = ctx;
    if (error == 0) {
        t->right = item_is(item, "b");
        assert_int_equal(conclave_item_ack_async(item, NULL, NULL), 0);
        conclave_item_free(item);
        t->items++;
    }
}

/* The item is written between reading and claiming it: no watch on the lists shows that. */
static void E77_an_item_written_before_its_claim_is_taken_all_the_same(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user producer;
    struct taken taken = {0};
    queue_make(zk);
    races_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    races_open(&producer, zk, 1, CONCLAVE_QUEUE_LAYOUT_PLAIN, 0);
    assert_int_equal(conclave_queue_take_async(u.queue, CONCLAVE_FOREVER, on_taken, &taken), 0);
    EVENTUALLY(items_in(zk, LINE_PATH) == 1);
    EVENTUALLY(fake_zk_watches(zk) >= 3); /* own node, claims, items */
    hook_call(zk, WIRE_MULTI, PLAIN_ITEM, 1, write_it, PLAIN_ITEM);
    put_text(&producer, 500, "a");
    EVENTUALLY(taken.items == 1);
    assert_true(taken.right);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    queue_user_finish(&u);
    queue_user_finish(&producer);
}

/* --- the last place ---------------------------------------------------------------------------------------- */

/* Puts of one handle that do not wait for each other: each asks for room when those before it are on their way. */
static void puts_of_one_handle_do_not_exceed_the_limit(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user consumer;
    struct conclave_queue_options options = queue_options();
    options.max_items = 3;
    queue_make(zk);
    queue_user_open_for(&u, zk, 0, &options, 4 * PATIENCE_MS);
    races_open(&consumer, zk, 1, CONCLAVE_QUEUE_LAYOUT_NATIVE, 0);
    assert_int_equal(conclave_client_wait_connected(u.link.client, PATIENCE_MS), 0);
    for (int i = 0; i < 12; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", i);
        assert_int_equal(
            conclave_queue_put_async(u.queue, 500, text, strlen(text), PATIENCE_MS, NULL, NULL), 0);
    }
    EVENTUALLY(items_in(zk, QUEUE_PATH ".room") == 1);
    assert_int_equal(items_in(zk, QUEUE_PATH), 3);
    assert_int_equal(conclave_queue_put(u.queue, 500, "x", 1, 0, NULL), CONCLAVE_EBUSY);
    for (int i = 0; i < 12; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", i);
        struct conclave_item *item = take_one(&consumer);
        assert_true(item_is(item, text));
        assert_true(items_in(zk, QUEUE_PATH) <= 3);
        ack_one(item);
    }
    queue_user_finish(&u);
    queue_user_finish(&consumer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E76_a_lost_answer_does_not_hide_that_another_took_the_item),
        E_TEST(E17_a_lost_answer_does_not_hit_the_next_item_of_that_name),
        E_TEST(E81_a_dead_letter_put_back_at_once_was_one),
        E_TEST(what_was_lost_is_not_held_again),
        E_TEST(E76_a_session_that_ends_with_the_answer_leaves_the_outcome_open),
        E_TEST(a_requeue_whose_answer_was_lost_was_carried_out_although_the_item_is_taken),
        E_TEST(a_blocking_request_that_was_refused_is_sent_again),
        E_TEST(a_claim_goes_with_its_item),
        E_TEST(an_item_that_was_written_can_be_taken_after_its_loss),
        E_TEST(E17_the_claim_of_the_next_consumer_stays),
        E_TEST(an_item_freed_while_its_ack_is_refused_is_given_back),
        E_TEST(an_item_that_another_removed_is_not_held),
        E_TEST(a_claim_of_another_on_the_same_node_proves_nothing),
        E_TEST(E81_an_item_that_another_has_claimed_is_not_buried),
        E_TEST(E81_a_name_that_a_dead_letter_has_stops_no_consumer),
        E_TEST(E81_an_item_with_a_child_stops_no_consumer),
        E_TEST(an_ack_is_in_progress_until_its_answer_was_told),
        E_TEST(an_ack_at_most_once_is_answered_once_each),
        E_TEST(the_answer_of_an_ack_is_not_that_of_the_next_nack),
        E_TEST(no_word_of_a_loss_comes_after_the_answer_to_an_ack),
        E_TEST(each_of_ten_thousand_parts_is_found_without_reading_the_others),
        E_TEST(E77_an_item_written_before_its_claim_is_taken_all_the_same),
        E_TEST(puts_of_one_handle_do_not_exceed_the_limit),
    };
    return RUN_TESTS(tests);
}
