/* The history of hand-overs keeps its bounds, its order, and for each recipe its own records. */
#include "admin/console/handovers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct handovers h;
static int64_t zxid;

static int setup(void **state)
{
    handovers_init(&h, &hash_key_fixed);
    zxid = 0;
    return 0;
}

static int teardown(void **state)
{
    handovers_finish(&h);
    return 0;
}

static void add(const char *path, enum handover_ring ring)
{
    struct handover *r = handovers_add(&h, slice_str(path), ring);
    assert_non_null(r);
    r->zxid = ++zxid;
}

struct seen {
    size_t count;
    size_t most;
    int64_t first;
    int64_t last;
};

/* They come newest first. */
static bool on_record(void *ctx, const struct handover *r)
{
    struct seen *seen = ctx;
    assert_true(seen->count == 0 || r->zxid < seen->last);
    seen->first = seen->count == 0 ? r->zxid : seen->first;
    seen->last = r->zxid;
    return ++seen->count < seen->most;
}

static struct seen look(const char *path, unsigned rings, size_t most)
{
    struct seen seen = {.most = most};
    const struct handover_line *line = NULL;
    if (path != NULL) {
        line = handovers_line(&h, slice_str(path));
        assert_non_null(line);
    }
    handovers_each(&h, line, rings, on_record, &seen);
    return seen;
}

static void test_order(void **state)
{
    assert_null(handovers_line(&h, slice_str("/a")));
    assert_int_equal(look(NULL, ~0u, 100).count, 0);
    add("/a", HANDOVER_LEADERS);
    add("/b", HANDOVER_ORDERLY);
    add("/b", HANDOVER_LOST);
    add("/a", HANDOVER_LEADERS);
    assert_int_equal(look(NULL, ~0u, 100).count, 4);
    assert_int_equal(look(NULL, ~0u, 3).last, 2);
    assert_int_equal(look(NULL, 1u << HANDOVER_LOST, 100).first, 3);
    struct seen seen = look("/a", ~0u, 100);
    assert_true(seen.count == 2 && seen.first == 4 && seen.last == 1);
    seen = look("/b", ~0u, 100);
    assert_true(seen.count == 2 && seen.first == 3 && seen.last == 2);
}

/* What is given back in an orderly way never pushes out what was lost, neither of the same recipe nor of another. */
static void test_bounds(void **state)
{
    char path[32];
    add("/a", HANDOVER_LOST);
    for (int i = 0; i < 3 * HANDOVERS_PER_LINE; i++) {
        add("/a", HANDOVER_ORDERLY);
    }
    struct seen seen = look("/a", ~0u, 100);
    assert_true(seen.count == HANDOVERS_PER_LINE + 1 && seen.last == 1);
    for (int i = 0; i < 2 * HANDOVERS_PER_RING; i++) {
        (void)snprintf(path, sizeof path, "/lock-%d", i);
        add(path, HANDOVER_ORDERLY);
    }
    assert_int_equal(h.count[HANDOVER_ORDERLY], HANDOVERS_PER_RING);
    assert_int_equal(look(NULL, ~0u, SIZE_MAX).count, HANDOVERS_PER_RING + 1);
    assert_int_equal(look("/a", ~0u, 100).count, 1);
    assert_int_equal(map_count(&h.lines), HANDOVERS_PER_RING + 1);
    assert_null(handovers_line(&h, slice_str("/lock-0")));
}

static void test_long_path(void **state)
{
    char path[HANDOVER_PATH_MAX + 2];
    memset(path, 'x', sizeof path);
    assert_null(handovers_add(&h, slice_make(path, HANDOVER_PATH_MAX + 1), HANDOVER_LOST));
    assert_non_null(handovers_add(&h, slice_make(path, HANDOVER_PATH_MAX), HANDOVER_LOST));
    assert_string_equal(handover_cause_name(HANDOVER_KILLED), "killed");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_order), TEST(test_bounds), TEST(test_long_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
