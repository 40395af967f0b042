/* Every allocation of the table of watches fails once, in turn: the watch is set or it is not, and all that is there stays. */
#include "watch/watch.h"

#include "support/starve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { WATCHES = 3000, ALLOCATIONS_MOST = 100 };

static void on_told(void *ctx, struct watcher *w, enum watch_event event, struct slice path)
{
    ++*(size_t *)ctx;
}

static struct watch_stats stats_of(const struct watch_table *t)
{
    struct watch_stats stats;
    watch_stats(t, &stats);
    return stats;
}

static void test_create(void **state)
{
    struct starve *memory = starve_create();
    assert_non_null(memory);
    starve_enter(memory);
    starve_arm(memory, 0);
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    starve_leave();
    assert_null(t);
    watch_table_destroy(t);
    assert_int_equal(starve_live(memory), 0);
    starve_destroy(memory);
}

/* One after the other, each time with as many allocations failing as it needs. Returns how many failed. */
static int add_starved(struct watch_table *t, struct starve *memory, struct watcher *w,
                       enum watch_kind kind, struct slice path)
{
    const struct watch_stats before = stats_of(t);
    for (int n = 0; n < ALLOCATIONS_MOST; n++) {
        starve_arm(memory, n);
        int rc = watch_add(t, w, kind, path);
        starve_arm(memory, -1);
        const struct watch_stats now = stats_of(t);
        assert_int_equal(watch_has(t, w, kind, path), rc == 0);
        if (rc == 0) {
            assert_int_equal(now.watches, before.watches + 1);
            return n;
        }
        assert_int_equal(rc, CONCLAVE_ENOMEM);
        assert_int_equal(now.watches, before.watches);
        assert_int_equal(now.paths, before.paths);
        assert_int_equal(now.data_watches, before.data_watches);
    }
    fail();
    return 0;
}

static void test_add(void **state)
{
    struct starve *memory = starve_create();
    assert_non_null(memory);
    starve_enter(memory);
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    assert_non_null(t);
    struct watcher watchers[2];
    watcher_init(&watchers[0]);
    watcher_init(&watchers[1]);
    int refused = 0;
    char path[32];
    for (int i = 0; i < WATCHES; i++) {
        snprintf(path, sizeof path, "/n%d", i);
        enum watch_kind kind = i % 2 == 0 ? WATCH_DATA : WATCH_CHILD;
        refused += add_starved(t, memory, &watchers[0], kind, slice_str(path));
        refused += add_starved(t, memory, &watchers[1], kind, slice_str(path));
    }
    assert_true(refused > WATCHES); /* a path each, and the tables' growth */
    starve_arm(memory, 0);
    assert_int_equal(watch_add(t, &watchers[0], WATCH_DATA, slice_str("/n0")), 0); /* is there */
    size_t told = 0;
    for (int i = 0; i < WATCHES; i++) { /* needs no memory */
        snprintf(path, sizeof path, "/n%d", i);
        assert_int_equal(watch_trigger(t, WATCH_NODE_DELETED, slice_str(path), on_told, &told), 2);
    }
    assert_int_equal(told, 2 * WATCHES);
    assert_int_equal(stats_of(t).watches, 0);
    watcher_finish(t, &watchers[0]);
    watcher_finish(t, &watchers[1]);
    watch_table_destroy(t);
    starve_leave();
    assert_int_equal(starve_live(memory), 0);
    starve_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
