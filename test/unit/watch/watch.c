/* Watches: which event fires what, order, one telling per deletion, and memory that stays flat. */
#include "watch/watch.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ALL_PATHS "/a"

struct told {
    struct watcher *watcher[64];
    enum watch_event event[64];
    size_t count;
};

static void on_told(void *ctx, struct watcher *w, enum watch_event event, struct slice path)
{
    struct told *told = ctx;
    assert_true(slice_equal_str(path, ALL_PATHS));
    if (told->count < 64) {
        told->watcher[told->count] = w;
        told->event[told->count] = event;
    }
    told->count++;
}

static void on_counted(void *ctx, struct watcher *w, enum watch_event event, struct slice path)
{
    ++*(size_t *)ctx;
}

static size_t count_watches(const struct watch_table *t)
{
    struct watch_stats stats;
    watch_stats(t, &stats);
    return stats.watches;
}

static void add(struct watch_table *t, struct watcher *w, enum watch_kind kind, const char *path)
{
    assert_int_equal(watch_add(t, w, kind, slice_str(path)), 0);
}

static void test_what_fires_what(void **state)
{
    static const struct {
        enum watch_event event;
        bool fires[WATCH_KINDS];
    } rows[] = {
        {WATCH_NODE_CREATED, {true, false, true, true}},
        {WATCH_NODE_DELETED, {true, true, true, true}},
        {WATCH_NODE_DATA_CHANGED, {true, false, true, true}},
        {WATCH_NODE_CHILDREN_CHANGED, {false, true, true, false}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int kind = 0; kind < WATCH_KINDS; kind++) {
            struct watch_table *t = watch_table_create(&hash_key_fixed);
            struct watcher w;
            struct told told = {.count = 0};
            watcher_init(&w);
            add(t, &w, (enum watch_kind)kind, "/a");
            add(t, &w, (enum watch_kind)kind, "/ab");
            add(t, &w, (enum watch_kind)kind, "/");
            bool stays = kind == WATCH_PERSISTENT || kind == WATCH_RECURSIVE;
            size_t want = rows[i].fires[kind] ? 1 : 0;
            assert_int_equal(watch_trigger(t, rows[i].event, slice_str("/a"), on_told, &told),
                             want);
            assert_int_equal(told.count, want);
            assert_int_equal(watch_has(t, &w, (enum watch_kind)kind, slice_str("/a")),
                             stays || want == 0);
            assert_int_equal(w.count, stays ? 3 : 3 - want);
            if (want == 1) {
                assert_ptr_equal(told.watcher[0], &w);
                assert_int_equal(told.event[0], rows[i].event);
            }
            /* One-shot: not a second time; the others once again. */
            size_t again = stays ? want : want == 0 && rows[i].fires[kind];
            assert_int_equal(watch_trigger(t, rows[i].event, slice_str("/a"), on_told, &told),
                             again);
            watcher_finish(t, &w);
            assert_int_equal(count_watches(t), 0);
            watch_table_destroy(t);
        }
    }
}

static void test_deletion_tells_once(void **state)
{
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w[3];
    for (int i = 0; i < 3; i++) {
        watcher_init(&w[i]);
    }
    add(t, &w[0], WATCH_CHILD, "/a");
    add(t, &w[1], WATCH_DATA, "/a");
    add(t, &w[2], WATCH_CHILD, "/a");
    add(t, &w[2], WATCH_DATA, "/a");
    add(t, &w[0], WATCH_DATA, "/a");
    struct told told = {.count = 0};
    assert_int_equal(watch_trigger(t, WATCH_NODE_DELETED, slice_str("/a"), on_told, &told), 3);
    assert_int_equal(told.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(told.watcher[i], &w[i]); /* in the order of setting, across the kinds */
        assert_int_equal(w[i].count, 0);
    }
    /* The next deletion tells it again. */
    add(t, &w[1], WATCH_CHILD, "/a");
    assert_int_equal(watch_trigger(t, WATCH_NODE_DELETED, slice_str("/a"), on_told, &told), 1);
    for (int i = 0; i < 3; i++) {
        watcher_finish(t, &w[i]);
    }
    watch_table_destroy(t);
}

static void test_order_of_setting(void **state)
{
    enum { N = 50 };
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w[N];
    for (int i = 0; i < N; i++) {
        watcher_init(&w[i]);
        add(t, &w[i], WATCH_DATA, "/a");
    }
    /* Setting again keeps the first place; taking back and setting again goes to the end. */
    add(t, &w[10], WATCH_DATA, "/a");
    assert_true(watch_remove(t, &w[20], WATCH_DATA, slice_str("/a")));
    assert_false(watch_remove(t, &w[20], WATCH_DATA, slice_str("/a")));
    assert_false(watch_remove(t, &w[10], WATCH_CHILD, slice_str("/a")));
    assert_false(watch_remove(t, &w[10], WATCH_DATA, slice_str("/b")));
    add(t, &w[20], WATCH_DATA, "/a");
    watcher_finish(t, &w[0]);
    struct told told = {.count = 0};
    assert_int_equal(watch_trigger(t, WATCH_NODE_DATA_CHANGED, slice_str("/a"), on_told, &told),
                     N - 1);
    size_t at = 0;
    for (int i = 1; i < N; i++) {
        if (i != 20) {
            assert_ptr_equal(told.watcher[at++], &w[i]);
        }
    }
    assert_ptr_equal(told.watcher[at], &w[20]);
    watch_table_destroy(t);
}

static void test_setting_twice(void **state)
{
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w;
    watcher_init(&w);
    for (int i = 0; i < 5; i++) {
        add(t, &w, WATCH_DATA, "/a");
    }
    assert_int_equal(w.count, 1);
    assert_int_equal(count_watches(t), 1);
    struct told told = {.count = 0};
    assert_int_equal(watch_trigger(t, WATCH_NODE_CREATED, slice_str("/a"), on_told, &told), 1);
    assert_int_equal(w.count, 0);
    watcher_finish(t, &w);
    watcher_finish(t, &w);
    watch_table_destroy(t);
}

/* A watcher that moves on to another table gets events there, too. */
static void test_two_tables(void **state)
{
    struct watch_table *t[2] = {watch_table_create(&hash_key_fixed),
                                watch_table_create(&hash_key_fixed)};
    struct watcher w;
    watcher_init(&w);
    for (int i = 0; i < 2; i++) {
        struct told told = {.count = 0};
        add(t[i], &w, WATCH_DATA, "/a");
        assert_int_equal(watch_trigger(t[i], WATCH_NODE_CREATED, slice_str("/a"), on_told, &told),
                         1);
    }
    watch_table_destroy(t[0]);
    watch_table_destroy(t[1]);
    watch_table_destroy(NULL);
}

struct listed {
    char text[64];
};

static void on_path(void *ctx, struct watcher *w, enum watch_event event, struct slice path)
{
    struct listed *listed = ctx;
    size_t n = strlen(listed->text);
    (void)snprintf(listed->text + n, sizeof listed->text - n, "%d%.*s ", event, SLICE_FMT(path));
}

/* From the watched path down, at component borders only; the event has the path of the change. */
static void test_recursive_reach(void **state)
{
    static const char *const told[] = {"/a/b", "/a/b/c", "/a/b/c/d"};
    static const char *const not_told[] = {"/", "/a", "/a/bc", "/a/b2/c", "/b/a/b", "/c"};
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w;
    struct watch_stats stats;
    watcher_init(&w);
    add(t, &w, WATCH_RECURSIVE, "/a/b");
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        struct listed listed = {""};
        char want[32];
        (void)snprintf(want, sizeof want, "2%s ", told[i]);
        assert_int_equal(watch_trigger(t, WATCH_NODE_DELETED, slice_str(told[i]), on_path, &listed),
                         1);
        assert_string_equal(listed.text, want);
        assert_int_equal(
            watch_trigger(t, WATCH_NODE_CHILDREN_CHANGED, slice_str(told[i]), on_path, &listed), 0);
    }
    for (size_t i = 0; i < sizeof not_told / sizeof not_told[0]; i++) {
        struct listed listed = {""};
        assert_int_equal(
            watch_trigger(t, WATCH_NODE_CREATED, slice_str(not_told[i]), on_path, &listed), 0);
    }
    watch_stats(t, &stats);
    assert_int_equal(stats.recursive, 1);
    add(t, &w, WATCH_RECURSIVE, "/");
    for (size_t i = 0; i < sizeof not_told / sizeof not_told[0]; i++) {
        struct listed listed = {""};
        assert_int_equal(
            watch_trigger(t, WATCH_NODE_CREATED, slice_str(not_told[i]), on_path, &listed), 1);
    }
    assert_true(watch_remove(t, &w, WATCH_RECURSIVE, slice_str("/")));
    assert_false(watch_remove(t, &w, WATCH_PERSISTENT, slice_str("/a/b")));
    watcher_finish(t, &w);
    watch_stats(t, &stats);
    assert_int_equal(stats.recursive, 0);
    watch_table_destroy(t);
}

/* All four kinds at a path and a recursive one above: one event, and only the one-shot ones go. */
static void test_kinds_beside_each_other(void **state)
{
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w;
    watcher_init(&w);
    add(t, &w, WATCH_RECURSIVE, "/");
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        add(t, &w, (enum watch_kind)kind, "/a");
    }
    struct watcher other;
    size_t counts[WATCH_KINDS];
    watcher_init(&other);
    add(t, &other, WATCH_CHILD, "/a");
    watch_count(t, slice_str("/a"), 10, counts);
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        assert_int_equal(counts[kind], kind == WATCH_CHILD ? 2 : 1);
    }
    watch_count(t, slice_str("/a"), 1, counts);
    assert_int_equal(counts[WATCH_CHILD], 1);
    watch_count(t, slice_str("/b"), 10, counts);
    assert_int_equal(counts[WATCH_CHILD], 0);
    watcher_finish(t, &other);
    for (int round = 0; round < 3; round++) {
        struct told told = {.count = 0};
        assert_int_equal(watch_trigger(t, WATCH_NODE_DELETED, slice_str("/a"), on_told, &told), 1);
        assert_int_equal(told.count, 1);
        assert_int_equal(w.count, 3);
        assert_false(watch_has(t, &w, WATCH_DATA, slice_str("/a")));
        assert_false(watch_has(t, &w, WATCH_CHILD, slice_str("/a")));
    }
    watcher_finish(t, &w);
    watch_table_destroy(t);
}

static void test_list_of_a_watcher(void **state)
{
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w, other;
    watcher_init(&w);
    watcher_init(&other);
    add(t, &w, WATCH_DATA, "/b");
    add(t, &other, WATCH_DATA, "/x");
    add(t, &w, WATCH_CHILD, "/a");
    add(t, &w, WATCH_CHILD, "/b");
    struct watch_stats stats;
    watch_stats(t, &stats);
    assert_int_equal(stats.watches, 4);
    assert_int_equal(stats.paths, 3);
    assert_int_equal(stats.watchers, 2);
    watcher_finish(t, &w);
    watch_stats(t, &stats);
    assert_int_equal(stats.watches, 1);
    assert_int_equal(stats.paths, 1);
    assert_int_equal(stats.watchers, 1);
    watcher_finish(t, &other);
    watch_table_destroy(t);
}

/* A million times set and fired: as much memory at the end as after the first hundred. */
static void test_flat_memory(void **state)
{
    enum { WATCHERS = 100 };
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w[WATCHERS];
    for (int i = 0; i < WATCHERS; i++) {
        watcher_init(&w[i]);
    }
    /* One that stays, so that the table is never empty and gives nothing back by itself. */
    add(t, &w[0], WATCH_CHILD, "/stays");
    size_t told = 0, heap = 0, own = 0;
    struct watch_stats stats;
    for (int round = 0; round < 1000000 / WATCHERS; round++) {
        char path[64];
        for (int i = 0; i < WATCHERS; i++) {
            (void)snprintf(path, sizeof path, "/services/%d/%02d", 1000000 + round, i % 5);
            add(t, &w[i], WATCH_DATA, path);
        }
        for (int i = 0; i < 5; i++) {
            (void)snprintf(path, sizeof path, "/services/%d/%02d", 1000000 + round, i);
            (void)watch_trigger(t, WATCH_NODE_DELETED, slice_str(path), on_counted, &told);
        }
        watch_stats(t, &stats);
        if (round == 100) {
            heap = mallinfo2().uordblks;
            own = stats.memory;
        }
    }
    assert_int_equal(told, 1000000);
    assert_int_equal(stats.watches, 1);
    assert_int_equal(stats.memory, own);
    assert_int_equal(mallinfo2().uordblks, heap);
    watcher_finish(t, &w[0]);
    watch_table_destroy(t);
}

/* Set many, fire all: the memory is back. */
static void test_memory_comes_back(void **state)
{
    enum { PATHS = 50000 };
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w;
    struct watch_stats stats;
    watcher_init(&w);
    for (int round = 0; round < 3; round++) {
        char path[64];
        for (int i = 0; i < PATHS; i++) {
            (void)snprintf(path, sizeof path, "/n%d", i);
            add(t, &w, WATCH_DATA, path);
        }
        watch_stats(t, &stats);
        assert_true(stats.memory > (size_t)PATHS * 50);
        if (round == 1) {
            watcher_finish(t, &w);
        } else {
            size_t told = 0;
            for (int i = PATHS; i-- > 0;) {
                (void)snprintf(path, sizeof path, "/n%d", i);
                (void)watch_trigger(t, WATCH_NODE_CREATED, slice_str(path), on_counted, &told);
            }
            assert_int_equal(told, PATHS);
        }
        watch_stats(t, &stats);
        assert_true(stats.memory < 1000);
    }
    watch_table_destroy(t);
}

/* The promise of compactness: a hundred bytes for a watch, paths shared by four watchers. */
static void test_bytes_per_watch(void **state)
{
    enum { WATCHERS = 1000, EACH = 200, PATHS = 50000 };
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher *w = calloc(WATCHERS, sizeof *w);
    assert_non_null(w);
    for (int i = 0; i < WATCHERS; i++) {
        watcher_init(&w[i]);
        for (int j = 0; j < EACH; j++) {
            char path[64];
            (void)snprintf(path, sizeof path, "/services/group/%08d/node", (i * EACH + j) % PATHS);
            add(t, &w[i], WATCH_DATA, path);
        }
    }
    struct watch_stats stats;
    watch_stats(t, &stats);
    assert_int_equal(stats.watches, WATCHERS * EACH);
    assert_int_equal(stats.paths, PATHS);
    assert_true(stats.memory / stats.watches < 100);
    for (int i = 0; i < WATCHERS; i++) {
        watcher_finish(t, &w[i]);
    }
    free(w);
    watch_table_destroy(t);
}

/* A path that only one watcher watches: its name, and a hundred bytes. */
static void test_bytes_per_path(void **state)
{
    enum { PATHS = 100000, PATH_LEN = 21 };
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher w;
    watcher_init(&w);
    for (int i = 0; i < PATHS; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/dir%06d/node%06d", i % 1000, i);
        assert_int_equal(strlen(path), PATH_LEN);
        add(t, &w, WATCH_DATA, path);
    }
    struct watch_stats stats;
    watch_stats(t, &stats);
    assert_true(stats.memory / PATHS < 100 + PATH_LEN);
    watcher_finish(t, &w);
    watch_table_destroy(t);
}

static bool on_data(void *ctx, struct slice path, struct watcher *w)
{
    struct {
        size_t left;
        size_t bytes;
        struct watcher *last;
    } *seen = ctx;
    seen->bytes += path.len;
    seen->last = w;
    return --seen->left > 0;
}

static void expect_data(const struct watch_table *t, size_t watchers, size_t paths, size_t watches)
{
    struct watch_stats stats;
    watch_stats(t, &stats);
    assert_int_equal(stats.data_watchers, watchers);
    assert_int_equal(stats.data_paths, paths);
    assert_int_equal(stats.data_watches, watches);
}

/* Other watches than child watches are counted and listed apart. */
static void test_data_watches(void **state)
{
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    struct watcher a;
    struct watcher b;
    struct {
        size_t left;
        size_t bytes;
        struct watcher *last;
    } seen = {.left = 100};
    watcher_init(&a);
    watcher_init(&b);
    add(t, &a, WATCH_CHILD, "/a");
    expect_data(t, 0, 0, 0);
    watch_each_data(t, on_data, &seen);
    assert_int_equal(seen.bytes, 0);
    add(t, &a, WATCH_DATA, "/a");
    add(t, &a, WATCH_PERSISTENT, "/a");
    add(t, &b, WATCH_RECURSIVE, "/a");
    add(t, &b, WATCH_DATA, "/long");
    expect_data(t, 2, 2, 4);
    watch_each_data(t, on_data, &seen);
    assert_int_equal(seen.bytes, 2 + 2 + 5);
    seen.left = 1;
    seen.bytes = 0;
    watch_each_data(t, on_data, &seen);
    assert_int_equal(seen.left, 0);
    assert_true(watch_remove(t, &a, WATCH_DATA, slice_str("/a")));
    expect_data(t, 2, 2, 3);
    assert_true(watch_remove(t, &a, WATCH_PERSISTENT, slice_str("/a")));
    expect_data(t, 1, 2, 2);
    watcher_finish(t, &b);
    expect_data(t, 0, 0, 0);
    watcher_finish(t, &a);
    watch_table_destroy(t);
}

struct data_list {
    char text[4096];
    size_t len;
};

static bool on_data_listed(void *ctx, struct slice path, struct watcher *w)
{
    struct data_list *l = ctx;
    l->len += (size_t)snprintf(l->text + l->len, sizeof l->text - l->len, "%.*s %zu;",
                               SLICE_FMT(path), w->count);
    return true;
}

/* The order of a list does not depend on the table's key. */
static void test_order_without_key(void **state)
{
    enum { PATHS = 100 };
    static const struct hash_key keys[] = {{{1, 2}}, {{3, 4}}};
    static struct data_list listed[2];
    for (int k = 0; k < 2; k++) {
        struct watch_table *t = watch_table_create(&keys[k]);
        struct watcher w[3];
        char path[16];
        for (int i = 0; i < 3; i++) {
            watcher_init(&w[i]);
        }
        for (int i = 0; i < PATHS; i++) {
            (void)snprintf(path, sizeof path, "/n%d", i);
            add(t, &w[i % 3], (enum watch_kind)(i % WATCH_KINDS), path);
            add(t, &w[0], WATCH_DATA, path);
        }
        for (int i = 0; i < PATHS; i += 7) {
            (void)snprintf(path, sizeof path, "/n%d", i);
            (void)watch_remove(t, &w[0], WATCH_DATA, slice_str(path));
        }
        watch_each_data(t, on_data_listed, &listed[k]);
        for (int i = 0; i < 3; i++) {
            watcher_finish(t, &w[i]);
        }
        watch_table_destroy(t);
    }
    assert_true(listed[0].len > 500);
    assert_string_equal(listed[0].text, listed[1].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fires_what),  cmocka_unit_test(test_deletion_tells_once),
        cmocka_unit_test(test_order_of_setting), cmocka_unit_test(test_setting_twice),
        cmocka_unit_test(test_two_tables),       cmocka_unit_test(test_list_of_a_watcher),
        cmocka_unit_test(test_recursive_reach),  cmocka_unit_test(test_kinds_beside_each_other),
        cmocka_unit_test(test_flat_memory),      cmocka_unit_test(test_memory_comes_back),
        cmocka_unit_test(test_bytes_per_watch),  cmocka_unit_test(test_bytes_per_path),
        cmocka_unit_test(test_data_watches),     cmocka_unit_test(test_order_without_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
