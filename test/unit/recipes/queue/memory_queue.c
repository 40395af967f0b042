/* Every allocation of queues and barriers fails once, in turn. No item is lost, none is put twice. */
#include "support/starving.h"

#include <conclave/barrier.h>
#include <conclave/op.h>
#include <conclave/queue.h>

#define QUEUE_PATH "/app/queue"

enum { UNTOLD = 1 };

/* --- queue --------------------------------------------------------------------------------------- */

static void on_size(struct conclave_queue *queue, int64_t count, void *ctx)
{
    ((struct starving *)ctx)->told = (int)count;
}

static void on_queue_closed(struct conclave_queue *queue, int why, void *ctx)
{
    ((struct starving *)ctx)->told_closed++;
}

static int queue_open(struct starving *s, bool at_most_once, struct conclave_queue **ret)
{
    static const struct conclave_queue_callbacks callbacks = {sizeof callbacks, NULL, on_size,
                                                              on_queue_closed};
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    options.path = QUEUE_PATH;
    options.max_attempts = at_most_once ? 0 : 2;
    options.max_items = 10;
    options.at_most_once = at_most_once;
    return conclave_queue_open(s->recipes, &options, &callbacks, s, ret);
}

static int put(struct starving *s, struct conclave_queue *queue, const char *text)
{
    char name[CONCLAVE_QUEUE_NAME_MAX];
    int error;
    TWICE(error, conclave_queue_put(queue, 5, text, strlen(text), PATIENCE_MS, name));
    MUST(s, error, "put");
    CHECK(s, error == 0, "put, tried again");
    return error;
}

static int take(struct starving *s, struct conclave_queue *queue, const char *text,
                struct conclave_item **ret)
{
    int error;
    *ret = NULL;
    TWICE(error, conclave_queue_take(queue, PATIENCE_MS, ret));
    MUST(s, error, "take");
    CHECK(s, error == 0, "take, tried again");
    if (error == 0) {
        size_t len;
        const void *data = conclave_item_data(*ret, &len);
        CHECK(s, len == strlen(text) && memcmp(data, text, len) == 0, "another item was taken");
    }
    return error;
}

/* A second try may find that the first was carried out, when there was no memory for its answer. */
static void finish(struct starving *s, int error, const char *what)
{
    MUST(s, error, what);
    CHECK(s, error == 0, what);
}

static void list_both(struct starving *s, struct conclave_queue *queue, size_t items, size_t dead)
{
    struct conclave_queue_entry **list = NULL;
    size_t count = 0;
    int64_t size = 0;
    int error;
    TWICE(error, conclave_queue_size(queue, PATIENCE_MS, &size));
    finish(s, error, "size");
    CHECK(s, size == (int64_t)items, "another number of items");
    TWICE(error,
          conclave_queue_list(queue, CONCLAVE_QUEUE_ITEMS, 10, true, PATIENCE_MS, &list, &count));
    finish(s, error, "list");
    if (error == 0) {
        CHECK(s, count == items, "another list of items");
        conclave_queue_entries_free(list, count);
    }
    TWICE(error,
          conclave_queue_list(queue, CONCLAVE_QUEUE_DEAD, 10, true, PATIENCE_MS, &list, &count));
    finish(s, error, "list of the dead");
    if (error == 0) {
        CHECK(s, count == dead, "another list of the dead");
        conclave_queue_entries_free(list, count);
    }
}

/* Given back once: handed out again. Given back twice: a dead letter, which is put back. */
static void consume(struct starving *s, struct conclave_queue *queue)
{
    struct conclave_item *item;
    char name[CONCLAVE_QUEUE_NAME_MAX];
    int error;
    for (int attempt = 1; attempt <= 2; attempt++) {
        if (take(s, queue, "one", &item) != 0) {
            return;
        }
        CHECK(s, conclave_item_attempt(item) == attempt, "another attempt");
        (void)snprintf(name, sizeof name, "%s", conclave_item_name(item));
        TWICE(error, conclave_item_nack(item, PATIENCE_MS));
        finish(s, error, "given back");
        conclave_item_free(item);
    }
    if (take(s, queue, "two", &item) != 0) { /* who looks finds the first one dead */
        return;
    }
    const struct conclave_op part = conclave_op_set("/app", "x", 1, -1);
    TWICE(error, conclave_item_ack_multi(item, &part, 1));
    finish(s, error, "ack with a write");
    conclave_item_free(item);
    list_both(s, queue, 0, 1);
    error = conclave_queue_requeue(queue, name, PATIENCE_MS);
    if (error == CONCLAVE_ENOMEM) { /* it may be back, without memory for the answer */
        error = conclave_queue_requeue(queue, name, PATIENCE_MS);
        error = error == CONCLAVE_NO_NODE ? 0 : error;
    }
    finish(s, error, "put back");
    if (error == 0 && take(s, queue, "one", &item) == 0) {
        TWICE(error, conclave_item_ack(item, PATIENCE_MS));
        finish(s, error, "ack");
        conclave_item_free(item);
    }
}

static void queue_end(struct starving *s, struct conclave_queue *queue)
{
    if (queue == NULL || s->wrong != NULL) {
        return;
    }
    CHECK(s, conclave_queue_close_wait(queue, PATIENCE_MS) == 0, "did not close");
    CHECK(s, s->told_closed == 1, "the end was not told once");
    if (s->wrong == NULL) {
        conclave_queue_destroy(queue);
    }
}

static int queue_scene(struct starving *s)
{
    struct conclave_queue *queue = NULL;
    int error;
    TWICE(error, queue_open(s, false, &queue));
    MUST(s, error, "open");
    if (error == 0 && put(s, queue, "one") == 0 && put(s, queue, "two") == 0) {
        list_both(s, queue, 2, 0);
        AWAIT(s, s->told == 2, "the size was not told");
        consume(s, queue);
        list_both(s, queue, 0, 0);
    }
    queue_end(s, queue);
    return error;
}

static int at_most_once_scene(struct starving *s)
{
    struct conclave_queue *queue = NULL;
    struct conclave_item *item = NULL;
    int error;
    TWICE(error, queue_open(s, true, &queue));
    MUST(s, error, "open");
    if (error == 0 && put(s, queue, "one") == 0 && put(s, queue, "two") == 0 &&
        take(s, queue, "one", &item) == 0) {
        conclave_item_free(item);
        if (take(s, queue, "two", &item) == 0) {
            conclave_item_free(item);
        }
        list_both(s, queue, 0, 0);
    }
    queue_end(s, queue);
    return error;
}

/* Each layout has names and bytes of its own. */
static int layout_scene(struct starving *s)
{
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    struct conclave_put_options label = CONCLAVE_PUT_OPTIONS_INIT;
    struct conclave_queue *queue = NULL;
    struct conclave_item *item = NULL;
    int error;
    options.path = "/app/layout";
    options.layout = CONCLAVE_QUEUE_LAYOUT_CURATOR;
    options.claims_path = "/app/locks";
    label.id = "me";
    s->told_closed = 1; /* this handle has no callbacks */
    TWICE(error, conclave_queue_open(s->recipes, &options, NULL, NULL, &queue));
    MUST(s, error, "open");
    for (int i = 0; i < 2 && error == 0; i++) {
        TWICE(error, conclave_queue_put_with(queue, &label, "one", 3, PATIENCE_MS, NULL));
        finish(s, error, "put");
    }
    if (error == 0 && take(s, queue, "one", &item) == 0) {
        size_t count = 0;
        list_both(s, queue, 2, 0);
        TWICE(error, conclave_queue_remove(queue, "me", PATIENCE_MS, &count));
        finish(s, error, "remove");
        TWICE(error, conclave_item_ack(item, PATIENCE_MS));
        finish(s, error, "ack");
        conclave_item_free(item);
        list_both(s, queue, 0, 0);
    }
    queue_end(s, queue);
    return error;
}

/* --- barriers ------------------------------------------------------------------------------------ */

static void on_passed(struct conclave_barrier *barrier, int error, void *ctx)
{
    ((struct starving *)ctx)->told = error;
}

static int barrier_scene(struct starving *s)
{
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    struct conclave_barrier *barrier = NULL;
    int error;
    options.path = "/app/barrier";
    TWICE(error, conclave_barrier_open(s->recipes, &options, NULL, NULL, &barrier));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    TWICE(error, conclave_barrier_set(barrier, PATIENCE_MS));
    finish(s, error, "set");
    s->told = UNTOLD;
    TWICE(error, conclave_barrier_wait_async(barrier, PATIENCE_MS, on_passed, s));
    finish(s, error, "wait");
    if (error == 0) {
        AWAIT(s, s->told != UNTOLD || fake_zk_watches(s->zk) == 1, "does not wait");
        CHECK(s, s->told != 0, "passed what is closed");
        error = s->told == CONCLAVE_ENOMEM ? s->told : 0;
    }
    int removed;
    TWICE(removed, conclave_barrier_remove(barrier, PATIENCE_MS));
    finish(s, removed, "remove");
    if (error == 0) {
        AWAIT(s, s->told != UNTOLD, "never told");
        error = s->told;
        MUST(s, error, "waited");
    }
    if (s->wrong == NULL) {
        CHECK(s, conclave_barrier_close_wait(barrier, PATIENCE_MS) == 0, "did not close");
        conclave_barrier_destroy(barrier);
    }
    return error;
}

static void on_entered(struct conclave_double_barrier *barrier, int error, void *ctx)
{
    ((struct starving *)ctx)->told = error;
}

static int double_open(struct starving *s, struct conclave_recipes *recipes,
                       struct conclave_double_barrier **ret)
{
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    options.path = "/app/barrier";
    options.count = 2;
    return conclave_double_barrier_open(recipes, &options, NULL, NULL, ret);
}

static void double_end(struct starving *s, struct conclave_double_barrier *barrier)
{
    if (barrier != NULL && s->wrong == NULL) {
        CHECK(s, conclave_double_barrier_close_wait(barrier, PATIENCE_MS) == 0, "did not close");
        conclave_double_barrier_destroy(barrier);
    }
}

static void meet(struct starving *s, struct conclave_double_barrier *mine,
                 struct conclave_double_barrier *other)
{
    int error;
    s->told = UNTOLD;
    FED(s, error = conclave_double_barrier_enter_async(other, PATIENCE_MS, on_entered, s));
    CHECK(s, error == 0, "the other does not enter");
    TWICE(error, conclave_double_barrier_enter(mine, PATIENCE_MS));
    finish(s, error, "enter");
    AWAIT(s, s->told == 0, "the other has not entered");
    s->told = UNTOLD;
    FED(s, error = conclave_double_barrier_leave_async(other, PATIENCE_MS, on_entered, s));
    CHECK(s, error == 0, "the other does not leave");
    TWICE(error, conclave_double_barrier_leave(mine, PATIENCE_MS));
    finish(s, error, "leave");
    AWAIT(s, s->told == 0, "the other has not left");
}

static int double_scene(struct starving *s)
{
    struct conclave_double_barrier *mine = NULL;
    struct conclave_double_barrier *other = NULL;
    int error;
    FED(s, error = double_open(s, s->rival, &other));
    CHECK(s, error == 0, "no other");
    TWICE(error, double_open(s, s->recipes, &mine));
    MUST(s, error, "open");
    if (s->wrong == NULL && error == 0) {
        meet(s, mine, other);
    }
    double_end(s, mine);
    FED(s, double_end(s, other));
    AWAIT(s, !fake_zk_exists(s->zk, "/app/barrier/round"), "the round was left");
    return error;
}

static void on_member_lost(struct conclave_double_barrier *barrier, int why, void *ctx)
{
    ((struct starving *)ctx)->told = why;
}

/* It learns that its node was deleted, even if a request failed on the way. */
static int member_scene(struct starving *s)
{
    static const struct conclave_double_barrier_callbacks callbacks = {sizeof callbacks,
                                                                       on_member_lost, NULL};
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier *barrier = NULL;
    char name[256];
    char path[512];
    int error;
    options.path = "/app/barrier";
    options.count = 1;
    TWICE(error, conclave_double_barrier_open(s->recipes, &options, &callbacks, s, &barrier));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    TWICE(error, conclave_double_barrier_enter(barrier, PATIENCE_MS));
    finish(s, error, "enter");
    for (size_t i = 0; fake_zk_child(s->zk, "/app/barrier/round", i, name); i++) {
        if (strcmp(name, "ready") != 0) {
            (void)snprintf(path, sizeof path, "/app/barrier/round/%s", name);
            fake_zk_delete(s->zk, path);
            break;
        }
    }
    AWAIT(s, s->told == CONCLAVE_ELOST, "not told of its node's end");
    double_end(s, barrier);
    fake_zk_delete(s->zk, "/app/barrier/round/ready");
    return error;
}

static void every_allocation_of_a_queue_fails_once(void **state)
{
    starving_sweep(queue_scene, false, 150);
}

static void every_allocation_of_a_queue_at_most_once_fails_once(void **state)
{
    starving_sweep(at_most_once_scene, false, 80);
}

static void every_allocation_of_another_layout_fails_once(void **state)
{
    starving_sweep(layout_scene, false, 80);
}

static void every_allocation_of_a_barrier_fails_once(void **state)
{
    starving_sweep(barrier_scene, false, 15);
}

static void every_allocation_of_a_double_barrier_fails_once(void **state)
{
    starving_sweep(double_scene, true, 40);
}

static void every_allocation_of_a_member_fails_once(void **state)
{
    starving_sweep(member_scene, false, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_a_queue_fails_once),
        cmocka_unit_test(every_allocation_of_a_queue_at_most_once_fails_once),
        cmocka_unit_test(every_allocation_of_another_layout_fails_once),
        cmocka_unit_test(every_allocation_of_a_barrier_fails_once),
        cmocka_unit_test(every_allocation_of_a_double_barrier_fails_once),
        cmocka_unit_test(every_allocation_of_a_member_fails_once),
    };
    return RUN_TESTS(tests);
}
