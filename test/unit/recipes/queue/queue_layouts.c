/*
 * Queues of other libraries on one path: their names and bytes, what is taken and put, delayed items, items with ids.
 */
#include "support/queue_user.h"

#include "base/clock.h"
#include "recipes/queue/curator_items.h"

static const enum conclave_queue_layout all_layouts[] = {
    CONCLAVE_QUEUE_LAYOUT_NATIVE,        CONCLAVE_QUEUE_LAYOUT_PLAIN,
    CONCLAVE_QUEUE_LAYOUT_KAZOO,         CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING,
    CONCLAVE_QUEUE_LAYOUT_CURATOR,       CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY,
    CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY,
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static int64_t now_ms(void)
{
    return clock_wall_ms(clock_system());
}

static struct conclave_queue_options layout_options(enum conclave_queue_layout layout)
{
    struct conclave_queue_options options = queue_options();
    options.layout = layout;
    return options;
}

static void layout_open(struct queue_user *u, struct fake_zk *zk, int endpoint,
                        enum conclave_queue_layout layout)
{
    struct conclave_queue_options options = layout_options(layout);
    queue_user_open(u, zk, endpoint, &options);
    assert_int_equal(conclave_client_wait_connected(u->link.client, PATIENCE_MS), 0);
}

static int put_with(struct queue_user *u, int64_t not_before_ms, const char *id, const char *text)
{
    struct conclave_put_options options = CONCLAVE_PUT_OPTIONS_INIT;
    options.not_before_ms = not_before_ms;
    options.id = id;
    return conclave_queue_put_with(u->queue, &options, text, strlen(text), PATIENCE_MS, NULL);
}

static void assert_empty(struct queue_user *u)
{
    struct conclave_item *item = NULL;
    assert_int_equal(conclave_queue_take(u->queue, 0, &item), CONCLAVE_EEMPTY);
}

/* --- names and bytes --------------------------------------------------------------------- */

/* Of the dead letter of an item whose name was taken: as the item's. */
static void assert_dead_name(const struct queue_naming *naming, const struct queue_name *item)
{
    const struct queue_naming dead = {naming->layout, naming->prefix, true};
    struct queue_name parsed;
    char *name = queue_name_make_dead(item->name);
    assert_non_null(name);
    assert_true(queue_name_parse(&dead, name, &parsed));
    assert_ptr_equal(parsed.name, name);
    assert_string_equal(queue_name_of_dead(name), item->name);
    assert_int_equal(parsed.priority, item->priority);
    assert_int_equal(parsed.sequence, item->sequence);
    assert_int_equal(parsed.due_ms, item->due_ms);
    assert_int_equal(parsed.id_len, item->id_len);
    assert_true(queue_name_parse(&dead, item->name, &parsed)); /* the first one has no mark */
    assert_string_equal(queue_name_of_dead(item->name), item->name);
    free(name);
}

static void names_of_every_layout_are_read_as_they_were_made(void **state)
{
    (void)state;
    static const int32_t numbers[] = {0, 7, INT32_MAX, -1, INT32_MIN};
    static const struct queue_label labels[] = {
        {500, 0, NULL},
        {0, 0, NULL},
        {999, 0, NULL},
        {-10, 0, NULL},
        {INT32_MAX, 0, NULL},
        {INT32_MIN, 0, NULL},
        {500, 0, "alice-q_0000"},
        {500, 1, NULL},
        {500, 1700000000000, NULL},
        {3, 1700000000000, "bob"},
    };
    size_t valid = 0;
    for (size_t l = 0; l < COUNT_OF(all_layouts); l++) {
        for (size_t i = 0; i < COUNT_OF(labels); i++) {
            const struct queue_naming naming = {all_layouts[l], NULL, false};
            const struct queue_label *label = &labels[i];
            char prefix[CONCLAVE_QUEUE_NAME_MAX];
            if (!queue_label_valid(&naming, label)) {
                continue;
            }
            valid++;
            queue_name_make_prefix(&naming, label, prefix);
            for (size_t n = 0; n < COUNT_OF(numbers); n++) {
                char name[CONCLAVE_QUEUE_NAME_MAX + 16];
                struct queue_name parsed;
                (void)snprintf(name, sizeof name, "%s%010d", prefix, numbers[n]);
                assert_true(queue_name_parse(&naming, name, &parsed));
                assert_int_equal(parsed.priority, label->priority);
                assert_int_equal(parsed.sequence, numbers[n]);
                assert_int_equal(parsed.due_ms, label->due_ms);
                assert_int_equal(parsed.id_len, label->id == NULL ? 0 : strlen(label->id));
                assert_memory_equal(parsed.id_len > 0 ? parsed.id : "",
                                    label->id == NULL ? "" : label->id, parsed.id_len);
                assert_dead_name(&naming, &parsed);
            }
        }
    }
    assert_int_equal(valid, 25);
}

/* Written down from the sources of Curator 5.4 and kazoo 2.8. */
static void names_of_other_libraries_are_those_of_their_sources(void **state)
{
    (void)state;
    static const struct {
        enum conclave_queue_layout layout;
        struct queue_label label;
        const char *prefix;
    } rows[] = {
        {CONCLAVE_QUEUE_LAYOUT_PLAIN, {500, 0, NULL}, "qn-"},
        {CONCLAVE_QUEUE_LAYOUT_KAZOO, {100, 0, NULL}, "entry-100-"},
        {CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING, {7, 0, NULL}, "entry-007-"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR, {500, 0, NULL}, "queue-"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR, {500, 0, "a"}, "queue-|a|"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY, {30, 0, NULL}, "queue-10000001E"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY, {-10, 0, NULL}, "queue-0FFFFFFF6"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY, {500, 1700000000000, NULL}, "queue-|18BCFE56800|"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY, {500, 1, NULL}, "queue-|00000001|"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct queue_naming naming = {rows[i].layout, NULL, false};
        char prefix[CONCLAVE_QUEUE_NAME_MAX];
        queue_name_make_prefix(&naming, &rows[i].label, prefix);
        assert_string_equal(prefix, rows[i].prefix);
    }
}

static void names_that_are_no_items_are_ignored(void **state)
{
    (void)state;
    static const struct {
        enum conclave_queue_layout layout;
        const char *name;
    } rows[] = {
        {CONCLAVE_QUEUE_LAYOUT_NATIVE, "entry-100-0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_NATIVE, "d0018bcfe5680500-x-q_0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_NATIVE, "d018bcfe5680-50-x-q_0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_NATIVE, "d"},
        {CONCLAVE_QUEUE_LAYOUT_PLAIN, "config"},
        {CONCLAVE_QUEUE_LAYOUT_PLAIN, ""},
        {CONCLAVE_QUEUE_LAYOUT_PLAIN, "queue-x23456789"},
        {CONCLAVE_QUEUE_LAYOUT_KAZOO, "entry-10-0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_KAZOO, "entry-100-000000001"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR, "queue-"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR, "queue-|a0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR, "queue-10000001E0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY, "queue-0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY, "queue-"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY, "queue-00000001E0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY, "queue-||0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY, "queue-|xyz|0000000001"},
        {CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY, "queue-|FFFFFFFFFFFFFFFF|0000000001"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct queue_naming naming = {rows[i].layout, NULL, false};
        struct queue_name parsed;
        assert_false(queue_name_parse(&naming, rows[i].name, &parsed));
    }
    const struct queue_naming mine = {CONCLAVE_QUEUE_LAYOUT_PLAIN, "queue_", false};
    struct queue_name parsed;
    assert_true(queue_name_parse(&mine, "queue_0000000001", &parsed));
    assert_false(queue_name_parse(&mine, "qn-0000000001", &parsed));
}

static void items_that_are_due_come_first_by_their_order(void **state)
{
    (void)state;
    static const struct queue_naming naming = {CONCLAVE_QUEUE_LAYOUT_NATIVE, NULL, false};
    static const struct queue_naming delay = {CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY, NULL, false};
    static const char *const children[] = {"d00000000bb8-000-a-q_0000000001", "500-a-q_0000000002",
                                           "d00000000001-400-a-q_0000000003",
                                           "d000000007d0-999-a-q_0000000004"};
    static const char *const order[] = {"d00000000001-400-a-q_0000000003", "500-a-q_0000000002",
                                        "d000000007d0-999-a-q_0000000004",
                                        "d00000000bb8-000-a-q_0000000001"};
    static const char *const timed[] = {"queue-|00000BB8|0000000001", "queue-|00000010|0000000002",
                                        "queue-|00000001|0000000003", "queue-0000000000"};
    static const char *const by_time[] = {"queue-0000000000", "queue-|00000001|0000000003",
                                          "queue-|00000010|0000000002",
                                          "queue-|00000BB8|0000000001"};
    struct queue_name *list;
    size_t count;
    size_t due;
    assert_int_equal(queue_names_order(&naming, children, 4, 1000, &list, &count, &due), 0);
    assert_int_equal(count, 4);
    assert_int_equal(due, 2);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(list[i].name, order[i]);
    }
    free(list);
    assert_int_equal(queue_names_order(&delay, timed, 4, 1000, &list, &count, &due), 0);
    assert_int_equal(due, 3);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(list[i].name, by_time[i]);
    }
    free(list);
}

static void the_bytes_of_curator_are_read_and_others_refused(void **state)
{
    (void)state;
    static const uint8_t two[] = {0, 1, 0, 1, 1, 0, 0, 0, 1, 'a', 1, 0, 0, 0, 0, 2};
    size_t len;
    uint8_t *made = curator_item_make("a", 1);
    assert_non_null(made);
    assert_memory_equal(made, two, 10);
    assert_int_equal(made[10], 2);
    free(made);
    uint32_t starts[2];
    assert_int_equal(curator_items_count(two, sizeof two, starts), 2);
    assert_int_equal(starts[0], CURATOR_FIRST_ITEM);
    assert_memory_equal(curator_item_at(two, starts[0], &len), "a", 1);
    assert_int_equal(len, 1);
    assert_ptr_equal(curator_item_at(two, starts[1], &len), two + sizeof two - 1);
    assert_int_equal(len, 0);
    for (size_t cut = 0; cut < sizeof two; cut++) { /* in a block of its own, for the sanitizers */
        uint8_t *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, two, cut);
        uint8_t *exact = realloc(part, cut > 0 ? cut : 1);
        assert_int_equal(curator_items_count(exact, cut, NULL), 0);
        free(exact);
    }
}

/* --- taking what others put, putting what others take ------------------------------------------- */

static void E140_items_of_other_producers_are_taken_in_order(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    fake_zk_create(zk, QUEUE_PATH "/queue_0000000002", "b", 0);
    fake_zk_create(zk, QUEUE_PATH "/queue_0000000001", "a", 0);
    fake_zk_create(zk, QUEUE_PATH "/config", "x", 0);
    layout_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_PLAIN);
    take_text(&u, "a");
    take_text(&u, "b");
    assert_empty(&u);
    assert_int_equal(items_in(zk, QUEUE_PATH), 1);
    put_text(&u, CONCLAVE_QUEUE_PRIORITY_DEFAULT, "c");
    assert_true(fake_zk_exists(zk, QUEUE_PATH "/qn-0000000003"));
    take_text(&u, "c");
    queue_user_finish(&u);
}

static void E140_claims_are_where_the_other_consumers_look(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = layout_options(CONCLAVE_QUEUE_LAYOUT_CURATOR);
    fake_zk_create(zk, "/app", "", 0);
    layout_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING);
    put_text(&u, 100, "a");
    put_text(&u, 100, "b");
    fake_zk_create(zk, QUEUE_PATH "/taken", "", 0);
    fake_zk_create(zk, QUEUE_PATH "/taken/entry-100-0000000000", "0123",
                   0); /* by a consumer of kazoo */
    struct conclave_item *item = take_one(&u);
    assert_true(item_is(item, "b"));
    assert_string_equal(conclave_item_claim(item), QUEUE_PATH "/taken/entry-100-0000000001");
    assert_true(fake_zk_exists(zk, conclave_item_claim(item)));
    assert_empty(&u);
    fake_zk_delete(zk, QUEUE_PATH "/taken/entry-100-0000000000");
    take_text(&u, "a");
    ack_one(item);
    assert_int_equal(items_in(zk, QUEUE_PATH "/entries"), 0);
    assert_int_equal(items_in(zk, QUEUE_PATH "/taken"), 0);
    queue_user_finish(&u);
    options.path = "/app/curator";
    options.claims_path = "/app/locks";
    queue_user_open(&u, zk, 1, &options);
    put_text(&u, CONCLAVE_QUEUE_PRIORITY_DEFAULT, "c");
    item = take_one(&u);
    assert_string_equal(conclave_item_claim(item), "/app/locks/queue-0000000000");
    ack_one(item);
    queue_user_finish(&u);
}

static void E140_an_item_of_curator_has_its_parts(void **state)
{
    static const struct {
        uint8_t bytes[16];
    } two = {{0, 1, 0, 1, 1, 0, 0, 0, 1, 'a', 1, 0, 0, 0, 0, 2}};
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_entry **entries;
    size_t count;
    size_t len;
    char text[64];
    queue_make(zk);
    layout_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_CURATOR);
    put_text(&u, CONCLAVE_QUEUE_PRIORITY_DEFAULT, "mine");
    assert_int_equal(
        conclave_queue_list(u.queue, CONCLAVE_QUEUE_ITEMS, 0, true, PATIENCE_MS, &entries, &count),
        0);
    assert_int_equal(count, 1);
    assert_int_equal(entries[0]->data_len, 4);
    assert_memory_equal(entries[0]->data, "mine", 4);
    conclave_queue_entries_free(entries, count);
    struct conclave_op op =
        conclave_op_create(QUEUE_PATH "/queue-", &two, sizeof two, CONCLAVE_PERSISTENT_SEQUENTIAL);
    assert_int_equal(conclave_call(u.link.client, &op, NULL), 0);
    fake_zk_create(zk, QUEUE_PATH "/queue-0000000009", "foreign", 0);
    struct conclave_item *item = take_one(&u);
    assert_int_equal(conclave_item_count(item), 1);
    assert_int_equal(conclave_item_copy(item, text, 3, &len), CONCLAVE_ENOBUFS);
    assert_int_equal(conclave_item_copy(item, text, sizeof text, &len), 0);
    assert_int_equal(len, 4);
    ack_one(item);
    item = take_one(&u);
    assert_int_equal(conclave_item_count(item), 2);
    assert_true(item_is(item, "a"));
    assert_non_null(conclave_item_part(item, 1, &len));
    assert_int_equal(len, 0);
    ack_one(item);
    item = take_one(&u);
    assert_int_equal(conclave_item_count(item), 0);
    assert_true(item_is(item, "foreign"));
    ack_one(item);
    queue_user_finish(&u);
}

static void E140_an_item_that_another_removes_is_lost_not_acknowledged(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct queue_user other;
    queue_make(zk);
    layout_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_KAZOO);
    layout_open(&other, zk, 1, CONCLAVE_QUEUE_LAYOUT_KAZOO);
    put_text(&u, 100, "a");
    struct conclave_item *item = take_one(&u);
    assert_empty(&other);                                   /* consumers of ours see the claim */
    fake_zk_delete(zk, QUEUE_PATH "/entry-100-0000000000"); /* kazoo's Queue does not */
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_ELOST);
    conclave_item_free(item);
    queue_user_finish(&u);
    queue_user_finish(&other);
}

static void E140_an_item_with_a_child_is_not_acknowledged(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    queue_make(zk);
    layout_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_KAZOO);
    put_text(&u, 100, "a");
    struct conclave_item *item = take_one(&u);
    fake_zk_create(zk, QUEUE_PATH "/entry-100-0000000000/child", "", 0);
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), CONCLAVE_NOT_EMPTY);
    fake_zk_delete(zk, QUEUE_PATH "/entry-100-0000000000/child");
    ack_one(item);
    queue_user_finish(&u);
}

static void E141_a_put_whose_answer_is_lost_is_there_once_in_every_layout(void **state)
{
    struct fake_zk *zk = *state;
    queue_make(zk);
    for (size_t i = 0; i < COUNT_OF(all_layouts); i++) {
        struct conclave_queue_options options = layout_options(all_layouts[i]);
        struct queue_user u;
        char path[64];
        char name[CONCLAVE_QUEUE_NAME_MAX] = "?";
        bool native = all_layouts[i] == CONCLAVE_QUEUE_LAYOUT_NATIVE;
        (void)snprintf(path, sizeof path, "/app/queue%zu", i);
        options.path = path;
        queue_user_open(&u, zk, 0, &options);
        put_text(&u, CONCLAVE_QUEUE_PRIORITY_DEFAULT, "first");
        take_text(&u, "first");
        fake_zk_hook(zk, &(struct fake_hook){
                             .endpoint = 0, .op = WIRE_MULTI, .nth = 1, .action = FAKE_DROP_REPLY});
        assert_int_equal(
            conclave_queue_put(u.queue, CONCLAVE_QUEUE_PRIORITY_DEFAULT, "a", 1, PATIENCE_MS, name),
            0);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        assert_int_equal(name[0] != '\0', native);
        take_text(&u, "a");
        assert_empty(&u);
        queue_user_finish(&u);
    }
}

/* The others would not make it again when it is reaped. */
static void nodes_that_others_need_are_no_containers(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_options options = layout_options(CONCLAVE_QUEUE_LAYOUT_CURATOR);
    options.claims_path = "/app/locks";
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_count_reset(zk);
    queue_user_open(&u, zk, 0, &options);
    put_text(&u, CONCLAVE_QUEUE_PRIORITY_DEFAULT, "a");
    size_t containers = fake_zk_count(zk, 0, WIRE_CREATE_CONTAINER);
    assert_int_equal(containers, 1); /* .puts */
    take_text(&u, "a");
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE_CONTAINER), containers);
    assert_true(fake_zk_exists(zk, "/app/locks"));
    queue_user_finish(&u);
}

/* --- delayed items, items with ids ---------------------------------------------------------------- */

static void E142_a_delayed_item_is_taken_at_its_time(void **state)
{
    static const enum conclave_queue_layout layouts[] = {CONCLAVE_QUEUE_LAYOUT_NATIVE,
                                                         CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY};
    struct fake_zk *zk = *state;
    queue_make(zk);
    for (size_t i = 0; i < COUNT_OF(layouts); i++) {
        struct queue_user u;
        layout_open(&u, zk, 0, layouts[i]);
        int64_t due = now_ms() + 300;
        assert_int_equal(put_with(&u, due + 200, NULL, "later"), 0);
        assert_int_equal(put_with(&u, due, NULL, "sooner"), 0);
        if (now_ms() < due) {
            struct conclave_item *item = NULL;
            int error = conclave_queue_take(u.queue, 0, &item);
            assert_true(error == CONCLAVE_EEMPTY || now_ms() >= due);
            if (error == 0) {
                nack_one(item);
            }
        }
        struct conclave_item *first = take_one(&u);
        bool sooner = item_is(first, "sooner");
        assert_true(now_ms() >= due + (sooner ? 0 : 200)); /* or both were due */
        ack_one(first);
        take_text(&u, sooner ? "later" : "sooner");
        assert_true(now_ms() >= due + 200);
        queue_user_finish(&u);
    }
}

static void E142_a_delayed_item_holds_up_no_other(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue_entry **entries;
    size_t count;
    queue_user_begin(&u, zk);
    int64_t due = now_ms() + 3600000;
    assert_int_equal(put_with(&u, due, NULL, "in an hour"), 0);
    assert_empty(&u);
    put_text(&u, 999, "now");
    assert_int_equal(
        conclave_queue_list(u.queue, CONCLAVE_QUEUE_ITEMS, 0, false, PATIENCE_MS, &entries, &count),
        0);
    assert_int_equal(count, 2);
    assert_int_equal(entries[0]->not_before_ms, 0);
    assert_int_equal(entries[1]->not_before_ms, due);
    conclave_queue_entries_free(entries, count);
    take_text(&u, "now");
    struct conclave_item *item = NULL;
    fake_zk_count_reset(zk);
    assert_int_equal(conclave_queue_take(u.queue, 50, &item), CONCLAVE_ETIMEDOUT);
    assert_true(fake_zk_count(zk, 0, FAKE_ANY_OP) < 20);
    queue_user_finish(&u);
}

static void E143_items_are_removed_by_their_id_unless_claimed(void **state)
{
    static const enum conclave_queue_layout layouts[] = {CONCLAVE_QUEUE_LAYOUT_NATIVE,
                                                         CONCLAVE_QUEUE_LAYOUT_CURATOR};
    struct fake_zk *zk = *state;
    fake_zk_create(zk, "/app", "", 0);
    for (size_t i = 0; i < COUNT_OF(layouts); i++) {
        struct queue_user u;
        size_t count = 99;
        layout_open(&u, zk, 0, layouts[i]);
        assert_int_equal(conclave_queue_remove(u.queue, "a", PATIENCE_MS, &count), 0);
        assert_int_equal(count, 0);
        assert_int_equal(put_with(&u, 0, "a", "1"), 0);
        assert_int_equal(put_with(&u, 0, "b", "2"), 0);
        assert_int_equal(put_with(&u, 0, "a", "3"), 0);
        assert_int_equal(put_with(&u, 0, "ab", "4"), 0);
        fake_zk_hook(zk, &(struct fake_hook){
                             .endpoint = 0, .op = WIRE_MULTI, .nth = 1, .action = FAKE_CUT_BEFORE});
        assert_int_equal(conclave_queue_remove(u.queue, "a", PATIENCE_MS, &count), 0);
        assert_int_equal(count, 2);
        struct conclave_item *item = take_one(&u);
        assert_true(item_is(item, "2"));
        assert_int_equal(conclave_queue_remove(u.queue, "b", PATIENCE_MS, &count), 0);
        assert_int_equal(count, 0);
        ack_one(item);
        take_text(&u, "4");
        assert_int_equal(items_in(zk, QUEUE_PATH), 0);
        assert_int_equal(items_in(zk, CLAIMS_PATH), 0);
        queue_user_finish(&u);
    }
}

static void what_a_layout_cannot_say_is_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct queue_user u;
    struct conclave_queue *wrong;
    char longer[CONCLAVE_QUEUE_ID_MAX + 2];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    queue_make(zk);
    layout_open(&u, zk, 0, CONCLAVE_QUEUE_LAYOUT_CURATOR);
    assert_int_equal(conclave_queue_put(u.queue, 3, "x", 1, PATIENCE_MS, NULL), CONCLAVE_EINVAL);
    assert_int_equal(put_with(&u, now_ms(), NULL, "x"), CONCLAVE_EINVAL);
    const char *const bad[] = {"", "a/b", "a|b", "a\n", longer};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(put_with(&u, 0, bad[i], "x"), CONCLAVE_EINVAL);
        assert_int_equal(conclave_queue_remove(u.queue, bad[i], PATIENCE_MS, NULL),
                         CONCLAVE_EINVAL);
    }
    assert_int_equal(put_with(&u, 0, longer + 1, "x"), 0);
    struct conclave_item *item = take_one(&u);
    assert_true(strlen(conclave_item_name(item)) < CONCLAVE_QUEUE_NAME_MAX);
    ack_one(item);
    queue_user_close(&u);
    struct conclave_queue_options options = queue_options();
    options.prefix = "qn-";
    assert_int_equal(conclave_queue_open(u.link.recipes, &options, NULL, NULL, &wrong),
                     CONCLAVE_EINVAL);
    options.layout = CONCLAVE_QUEUE_LAYOUT_PLAIN;
    options.prefix = "a/b";
    assert_int_equal(conclave_queue_open(u.link.recipes, &options, NULL, NULL, &wrong),
                     CONCLAVE_EINVAL);
    options.prefix = NULL;
    options.claims_path = "/app/locks";
    assert_int_equal(conclave_queue_open(u.link.recipes, &options, NULL, NULL, &wrong),
                     CONCLAVE_EINVAL);
    options.claims_path = NULL;
    options.layout = (enum conclave_queue_layout)99;
    assert_int_equal(conclave_queue_open(u.link.recipes, &options, NULL, NULL, &wrong),
                     CONCLAVE_EINVAL);
    queue_user_finish(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_every_layout_are_read_as_they_were_made),
        cmocka_unit_test(names_of_other_libraries_are_those_of_their_sources),
        cmocka_unit_test(names_that_are_no_items_are_ignored),
        cmocka_unit_test(items_that_are_due_come_first_by_their_order),
        cmocka_unit_test(the_bytes_of_curator_are_read_and_others_refused),
        E_TEST(E140_items_of_other_producers_are_taken_in_order),
        E_TEST(E140_claims_are_where_the_other_consumers_look),
        E_TEST(E140_an_item_of_curator_has_its_parts),
        E_TEST(E140_an_item_that_another_removes_is_lost_not_acknowledged),
        E_TEST(E140_an_item_with_a_child_is_not_acknowledged),
        E_TEST(E141_a_put_whose_answer_is_lost_is_there_once_in_every_layout),
        E_TEST(nodes_that_others_need_are_no_containers),
        E_TEST(E142_a_delayed_item_is_taken_at_its_time),
        E_TEST(E142_a_delayed_item_holds_up_no_other),
        E_TEST(E143_items_are_removed_by_their_id_unless_claimed),
        E_TEST(what_a_layout_cannot_say_is_refused),
    };
    return RUN_TESTS(tests);
}
