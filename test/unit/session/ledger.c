/* The bounded records: the oldest of a ring goes, orderly ends do not push out the others, one record per session. */
#include "session/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MAX = 4 };

struct ids {
    int64_t items[3 * MAX];
    size_t count;
    size_t most;
};

static bool add_id(void *ctx, const struct ledger_record *r)
{
    struct ids *ids = ctx;
    ids->items[ids->count++] = r->id;
    return ids->count < ids->most;
}

static void expect_ring(const struct session_ledger *l, enum ledger_ring ring, const int64_t *want,
                        size_t count)
{
    struct ids ids = {.most = 2 * MAX};
    session_ledger_each(l, ring, add_id, &ids);
    assert_int_equal(ids.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ids.items[i], want[i]);
        assert_int_equal(session_ledger_find(l, want[i])->ring, ring);
    }
}

static void put(struct session_ledger *l, int64_t id, enum ledger_ring ring)
{
    struct ledger_record *r = session_ledger_put(l, id, ring);
    assert_non_null(r);
    assert_int_equal(r->id, id);
}

static void test_bounded(void **state)
{
    struct session_ledger *l = session_ledger_create(MAX);
    put(l, 1, LEDGER_LOST);
    for (int64_t id = 2; id <= 100; id++) {
        put(l, id, LEDGER_ORDERLY);
    }
    expect_ring(l, LEDGER_LOST, (const int64_t[]){1}, 1);
    expect_ring(l, LEDGER_ORDERLY, (const int64_t[]){100, 99, 98, 97}, MAX);
    assert_null(session_ledger_find(l, 96));
    for (int64_t id = 201; id <= 300; id++) {
        put(l, id, LEDGER_UNLINKED); /* clients that come and go push out nothing */
    }
    assert_int_equal(session_ledger_count(l, LEDGER_UNLINKED), MAX);
    expect_ring(l, LEDGER_LOST, (const int64_t[]){1}, 1);
    for (int64_t id = 101; id <= 104; id++) {
        put(l, id, LEDGER_LOST);
    }
    expect_ring(l, LEDGER_LOST, (const int64_t[]){104, 103, 102, 101}, MAX);
    assert_int_equal(session_ledger_count(l, LEDGER_LOST) + session_ledger_count(l, LEDGER_ORDERLY),
                     2 * MAX);
    session_ledger_destroy(l);
}

/* A record that changes becomes the newest of its ring, keeps its facts, and may change the ring. */
static void test_changes(void **state)
{
    struct session_ledger *l = session_ledger_create(MAX);
    for (int64_t id = 1; id <= MAX; id++) {
        put(l, id, LEDGER_LOST);
        put(l, 10 + id, LEDGER_ORDERLY);
    }
    session_ledger_find(l, 2)->facts.timeout_ms = 77;
    put(l, 2, LEDGER_LOST);
    expect_ring(l, LEDGER_LOST, (const int64_t[]){2, 4, 3, 1}, MAX);
    put(l, 2, LEDGER_ORDERLY); /* 11 is the oldest there */
    expect_ring(l, LEDGER_LOST, (const int64_t[]){4, 3, 1}, MAX - 1);
    expect_ring(l, LEDGER_ORDERLY, (const int64_t[]){2, 14, 13, 12}, MAX);
    assert_int_equal(session_ledger_find(l, 2)->facts.timeout_ms, 77);
    session_ledger_forget(l, 13);
    session_ledger_forget(l, 13);
    expect_ring(l, LEDGER_ORDERLY, (const int64_t[]){2, 14, 12}, MAX - 1);
    assert_int_equal(session_ledger_count(l, LEDGER_LOST) + session_ledger_count(l, LEDGER_ORDERLY),
                     2 * MAX - 2);
    session_ledger_destroy(l);
}

static void test_each_stops(void **state)
{
    struct session_ledger *l = session_ledger_create(1);
    struct ids ids = {.most = 1};
    put(l, 1, LEDGER_LOST);
    put(l, 2, LEDGER_LOST);
    session_ledger_each(l, LEDGER_LOST, add_id, &ids);
    assert_int_equal(ids.count, 1);
    assert_int_equal(ids.items[0], 2);
    session_ledger_destroy(l);
    session_ledger_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_each_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
