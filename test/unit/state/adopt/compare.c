/* Two states compared: every field, every node and every session that differs is named, and nothing else. */
#include "state/adopt/compare.h"

#include "state/adopt/adopt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SESSION 0x100000001LL

struct built {
    struct adopted_node node; /* the one node that varies */
    int32_t timeout_ms;
    bool more; /* another node */
};

static const struct built usual = {
    .node = {.path = {(const uint8_t *)"/a", 2},
             .record = {.data = {(const uint8_t *)"data", 4},
                        .acl = -1,
                        .czxid = 3,
                        .mzxid = 4,
                        .pzxid = 5,
                        .ctime = 6,
                        .mtime = 7,
                        .version = 8,
                        .cversion = 9,
                        .aversion = 10}},
    .timeout_ms = 5000,
};

static struct state *build(const struct built *b)
{
    struct adoption *a = adoption_create(&hash_key_fixed);
    struct adoption_report report;
    struct state *s = NULL;
    struct adopted_node root = {.path = slice_str(""),
                                .record = {.data = slice_str(""), .acl = -1}};
    struct adopted_node more = {.path = slice_str("/b"),
                                .record = {.data = slice_str(""), .acl = -1}};
    assert_int_equal(adoption_session(a, SESSION, b->timeout_ms), 0);
    assert_int_equal(adoption_node(a, &root), 0);
    assert_int_equal(adoption_node(a, &b->node), 0);
    if (b->more) {
        assert_int_equal(adoption_node(a, &more), 0);
    }
    assert_int_equal(adoption_nodes_end(a, 100), 0);
    assert_int_equal(adoption_end(a, NULL, NULL, &report, &s), 0);
    adoption_destroy(a);
    return s;
}

struct found {
    size_t count;
    char what[64];
    char path[64];
};

static void on_difference(void *ctx, const struct state_difference *d)
{
    struct found *f = ctx;
    f->count++;
    (void)snprintf(f->what, sizeof f->what, "%s", d->what);
    (void)snprintf(f->path, sizeof f->path, "%.*s", slice_is_null(d->path) ? 0 : (int)d->path.len,
                   (const char *)d->path.data);
}

static struct found differing(const struct built *one, const struct built *two)
{
    struct state *a = build(one);
    struct state *b = build(two);
    struct state_comparison c;
    struct found f = {0};
    assert_int_equal(state_compare(a, b, on_difference, &f, &c), 0);
    assert_int_equal(c.differences, f.count);
    assert_int_equal(c.sessions, 1);
    state_destroy(a);
    state_destroy(b);
    return f;
}

static void test_equal(void **state)
{
    assert_int_equal(differing(&usual, &usual).count, 0);
}

static void test_each_field(void **state)
{
    struct built other[10];
    static const char *const names[] = {"data",     "czxid",         "mzxid",   "pzxid",
                                        "ctime",    "mtime",         "version", "cversion",
                                        "aversion", "ephemeralOwner"};
    for (size_t i = 0; i < 10; i++) {
        other[i] = usual;
    }
    other[0].node.record.data = slice_str("date");
    other[1].node.record.czxid++;
    other[2].node.record.mzxid++;
    other[3].node.record.pzxid++;
    other[4].node.record.ctime++;
    other[5].node.record.mtime++;
    other[6].node.record.version++;
    other[7].node.record.cversion++;
    other[8].node.record.aversion++;
    other[9].node.record.ephemeral_owner = SESSION;
    for (size_t i = 0; i < 10; i++) {
        struct found f = differing(&usual, &other[i]);
        assert_int_equal(f.count, 1);
        assert_string_equal(f.what, names[i]);
        assert_string_equal(f.path, "/a");
    }
}

static void test_nodes_and_sessions(void **state)
{
    struct built other = usual;
    other.more = true;
    struct found f = differing(&usual, &other);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.what, "only in the second");
    assert_string_equal(f.path, "/b");
    f = differing(&other, &usual);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.what, "only in the first");
    other = usual;
    other.timeout_ms++;
    f = differing(&usual, &other);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.what, "timeout");
    /* Null data are not empty data. */
    other = usual;
    other.node.record.data = slice_str("");
    struct built null = usual;
    null.node.record.data = SLICE_NULL;
    f = differing(&other, &null);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.what, "data");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_each_field),
        cmocka_unit_test(test_nodes_and_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
