/* Transactions of Apache ZooKeeper: read, refused when malformed, and applied to states that already have a part of
 * what they do. */
#include "state/adopt/adopt.h"
#include "state/state_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SESSION 0x100000001LL
enum { TIMEOUT_MS = 7000 };

/* An adoption under construction, and the transaction that is being written. */
struct bench {
    struct adoption *a;
    struct buf txn;
    int64_t zxid;
};

static void add_node(struct bench *b, const char *path, int64_t czxid, int32_t cversion,
                     int64_t owner, int64_t acl)
{
    struct adopted_node node = {.path = slice_str(path),
                                .record = {.data = slice_str("old"),
                                           .acl = acl,
                                           .czxid = czxid,
                                           .mzxid = czxid,
                                           .pzxid = czxid,
                                           .cversion = cversion,
                                           .ephemeral_owner = owner}};
    assert_int_equal(adoption_node(b->a, &node), 0);
}

static void bench_begin(struct bench *b)
{
    b->a = adoption_create(&hash_key_fixed);
    assert_non_null(b->a);
    buf_init(&b->txn, 0);
    add_node(b, "", 0, 1, 0, -1);
}

static void bench_end(struct bench *b)
{
    adoption_destroy(b->a);
    buf_finish(&b->txn);
}

/* Begins a transaction with the next zxid. */
static void txn_begin(struct bench *b, int32_t type)
{
    struct wire_txn_header header = {SESSION, 3, ++b->zxid, 1000 + b->zxid, type};
    buf_reset(&b->txn);
    wire_encode_txn_header(&b->txn, &header);
}

static int txn_end(struct bench *b)
{
    struct outcome o;
    int rc = outcome_read(buf_slice(&b->txn), &o);
    return rc == 0 ? adoption_apply(b->a, &o) : rc;
}

static struct wire_vector open_acl(struct buf *items)
{
    struct wire_acl acl = {.perms = 31, .id = {slice_str("world"), slice_str("anyone")}};
    wire_encode_acl(items, &acl);
    return wire_vector_make(items, 1);
}

static int create(struct bench *b, const char *path, bool ephemeral, int32_t parent_cversion)
{
    struct buf items;
    buf_init(&items, 0);
    txn_begin(b, WIRE_CREATE);
    struct wire_txn_create record = {slice_str(path), slice_str("new"), open_acl(&items), ephemeral,
                                     parent_cversion};
    wire_encode_txn_create(&b->txn, &record);
    int rc = txn_end(b);
    buf_finish(&items);
    return rc;
}

static int delete_node(struct bench *b, const char *path)
{
    txn_begin(b, WIRE_DELETE);
    wire_write_string(&b->txn, slice_str(path));
    return txn_end(b);
}

static int create_session(struct bench *b)
{
    txn_begin(b, WIRE_CREATE_SESSION);
    buf_append_i32(&b->txn, TIMEOUT_MS);
    return txn_end(b);
}

static struct state *adopted(struct bench *b, struct adoption_report *report)
{
    struct state *s = NULL;
    assert_int_equal(adoption_end(b->a, NULL, NULL, report, &s), 0);
    assert_true(state_digest(s) == state_digest_now(s));
    return s;
}

static const struct znode *node_at(const struct state *s, const char *path)
{
    return tree_find(&s->tree, slice_str(path));
}

/* --- reading ---------------------------------------------------------------------------------- */

static void test_every_cut_is_refused(void **unused)
{
    (void)unused;
    struct bench b = {0};
    bench_begin(&b);
    assert_int_equal(adoption_nodes_end(b.a, 0), 0);
    assert_int_equal(create(&b, "/a", false, 2), 0);
    for (size_t len = 0; len < b.txn.len; len++) {
        struct outcome o;
        /* What 3.3 wrote lacks the last number. */
        bool old_form = len == b.txn.len - 4;
        uint8_t *copy = malloc(len + 1); /* exact: reading behind it is noticed */
        memcpy(copy, b.txn.data, len);
        assert_int_equal(outcome_read(slice_make(copy, len), &o), old_form ? 0 : CONCLAVE_ECORRUPT);
        free(copy);
    }
    bench_end(&b);
}

static void test_paths_and_types_are_checked(void **unused)
{
    (void)unused;
    struct bench b = {0};
    bench_begin(&b);
    assert_int_equal(adoption_nodes_end(b.a, 0), 0);
    const char *const bad[] = {"", "a", "/", "/a/", "//", "/a/../b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(create(&b, bad[i], false, 1), CONCLAVE_ECORRUPT);
    }
    assert_int_equal(delete_node(&b, "/"), CONCLAVE_ECORRUPT);
    txn_begin(&b, 99);
    assert_int_equal(txn_end(&b), CONCLAVE_ECORRUPT);
    txn_begin(&b, WIRE_MULTI);
    buf_append_i32(&b.txn, 1);
    buf_append_i32(&b.txn, WIRE_CLOSE_SESSION); /* no part of a multi */
    buf_append_i32(&b.txn, 0);
    assert_int_equal(txn_end(&b), CONCLAVE_ECORRUPT);
    bench_end(&b);
}

static void test_closing_is_read_in_all_its_forms(void **unused)
{
    (void)unused;
    struct bench b = {0};
    for (int form = 0; form < 4; form++) {
        struct outcome o;
        b.zxid = 0;
        bench_begin(&b);
        txn_begin(&b, WIRE_CLOSE_SESSION);
        if (form & 1) { /* the paths, since 3.6 */
            buf_append_i32(&b.txn, 1);
            wire_write_string(&b.txn, slice_str("/e"));
        }
        if (form & 2) { /* and the digest */
            buf_append_i32(&b.txn, OUTCOME_DIGEST_VERSION);
            buf_append_i64(&b.txn, 42);
        }
        assert_int_equal(outcome_read(buf_slice(&b.txn), &o), 0);
        assert_int_equal(o.has_digest, (form & 2) != 0);
        assert_int_equal(o.has_digest ? o.digest.digest : 42, 42);
        bench_end(&b);
    }
}

/* --- applying to what a snapshot has already -------------------------------------------------- */

static void test_a_session_that_comes_after_its_node(void **unused)
{
    (void)unused;
    struct bench b = {.zxid = 4};
    struct adoption_report report;
    struct state_session session;
    uint8_t password[WIRE_PASSWD_LEN];
    bench_begin(&b);
    add_node(&b, "/e", 6, 0, SESSION, -1);
    add_node(&b, "/orphan", 6, 0, SESSION + 1, -1);
    assert_int_equal(adoption_nodes_end(b.a, 4), 0);
    assert_int_equal(create_session(&b), 0);
    assert_int_equal(create(&b, "/e", true, 2), 0);
    struct state *s = adopted(&b, &report);
    assert_int_equal(report.orphans, 1);
    assert_null(node_at(s, "/orphan"));
    assert_non_null(node_at(s, "/e"));
    assert_true(state_session_find(s, SESSION, &session) && session.timeout_ms == TIMEOUT_MS);
    outcome_password(SESSION, password);
    assert_true(state_session_passwd_is(&session, slice_make(password, sizeof password)));
    assert_false(state_session_find(s, SESSION + 1, &session));
    state_destroy(s);
    bench_end(&b);
}

static void test_a_node_of_the_same_name_again(void **unused)
{
    (void)unused;
    struct bench b = {.zxid = 4};
    struct adoption_report report;
    bench_begin(&b);
    /* The snapshot was begun at 4, and has /a and /a/b as made by 6 and 7; 5 deletes the /a before. */
    add_node(&b, "/a", 6, 1, 0, -1);
    add_node(&b, "/a/b", 7, 0, 0, -1);
    assert_int_equal(adoption_nodes_end(b.a, 4), 0);
    assert_int_equal(delete_node(&b, "/a"), 0);
    assert_int_equal(create(&b, "/a", false, 2), 0);
    assert_int_equal(create(&b, "/a/b", false, 1), 0);
    struct state *s = adopted(&b, &report);
    assert_int_equal(node_at(s, "/a")->czxid, 6);
    assert_int_equal(node_at(s, "/a/b")->czxid, 7);
    assert_int_equal(znode_cversion(node_at(s, "/a")), 1);
    assert_int_equal(znode_cversion(s->tree.root), 2);
    assert_int_equal(znode_pzxid(s->tree.root), 6);
    state_destroy(s);
    bench_end(&b);
}

static void test_counters_never_go_back(void **unused)
{
    (void)unused;
    struct bench b = {.zxid = 4};
    struct adoption_report report;
    bench_begin(&b);
    add_node(&b, "/a", 2, 9, 0, -1); /* nine creates, the last ones after 4 */
    assert_int_equal(adoption_nodes_end(b.a, 4), 0);
    assert_int_equal(create(&b, "/a/n", false, 8), 0);
    assert_int_equal(delete_node(&b, "/a/n"), 0);
    struct state *s = adopted(&b, &report);
    assert_int_equal(znode_cversion(node_at(s, "/a")), 9);
    assert_int_equal(znode_pzxid(node_at(s, "/a")), 6);
    state_destroy(s);
    bench_end(&b);
}

static void test_a_list_that_the_snapshot_lacks(void **unused)
{
    (void)unused;
    struct bench b = {.zxid = 4};
    struct adoption_report report;
    bench_begin(&b);
    add_node(&b, "/a", 5, 0, 0, 17);
    assert_int_equal(adoption_nodes_end(b.a, 4), 0);
    struct state *s = NULL;
    assert_int_equal(adoption_end(b.a, NULL, NULL, &report, &s), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(adoption_error(b.a), "number 17"));
    assert_int_equal(create(&b, "/a", false, 2), 0);
    s = adopted(&b, &report);
    assert_int_equal(node_at(s, "/a")->acl, ACL_OPEN);
    state_destroy(s);
    bench_end(&b);
}

static void test_below_an_ephemeral_node(void **unused)
{
    (void)unused;
    struct bench b = {.zxid = 4};
    bench_begin(&b);
    assert_int_equal(adoption_nodes_end(b.a, 4), 0);
    assert_int_equal(create_session(&b), 0);
    assert_int_equal(create(&b, "/e", true, 2), 0);
    assert_int_equal(create(&b, "/e/child", false, 1), CONCLAVE_ECORRUPT);
    bench_end(&b);
}

static void put_part(struct buf *out, int32_t type, const struct buf *record)
{
    buf_append_i32(out, type);
    wire_write_buffer(out, buf_slice(record));
}

static void apply_multi(struct bench *b, bool fails)
{
    struct buf part;
    struct buf items;
    buf_init(&part, 0);
    buf_init(&items, 0);
    txn_begin(b, WIRE_MULTI);
    buf_append_i32(&b->txn, 2);
    struct wire_txn_create record = {slice_str("/m"), slice_str("m"), open_acl(&items), false, 2};
    wire_encode_txn_create(&part, &record);
    put_part(&b->txn, WIRE_CREATE, &part);
    buf_reset(&part);
    if (fails) {
        buf_append_i32(&part, CONCLAVE_NO_NODE);
    } else {
        wire_write_string(&part, slice_str("/a"));
    }
    put_part(&b->txn, fails ? WIRE_ERROR : WIRE_DELETE, &part);
    assert_int_equal(txn_end(b), 0);
    buf_finish(&part);
    buf_finish(&items);
}

static void test_a_multi_applies_whole_or_not_at_all(void **unused)
{
    (void)unused;
    for (int fails = 0; fails < 2; fails++) {
        struct bench b = {.zxid = 4};
        struct adoption_report report;
        bench_begin(&b);
        add_node(&b, "/a", 2, 0, 0, -1);
        assert_int_equal(adoption_nodes_end(b.a, 4), 0);
        apply_multi(&b, fails);
        struct state *s = adopted(&b, &report);
        assert_int_equal(node_at(s, "/m") != NULL, !fails);
        assert_int_equal(node_at(s, "/a") != NULL, fails);
        assert_int_equal(state_zxid(s), 5);
        state_destroy(s);
        bench_end(&b);
    }
}

/* --- what a snapshot may not have ------------------------------------------------------------- */

static void expect_node_refused(const char *path, int64_t owner, const char *why)
{
    struct bench b = {0};
    bench_begin(&b);
    add_node(&b, "/e", 2, 0, SESSION, -1);
    struct adopted_node node = {.path = slice_str(path),
                                .record = {.acl = -1, .ephemeral_owner = owner}};
    assert_int_equal(adoption_node(b.a, &node), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(adoption_error(b.a), why));
    bench_end(&b);
}

static void test_impossible_nodes_are_refused(void **unused)
{
    (void)unused;
    expect_node_refused("/none/child", 0, "has no parent");
    expect_node_refused("/e/child", 0, "an ephemeral one");
    expect_node_refused("/e", 0, "there twice");
    expect_node_refused("", 0, "there twice");
    expect_node_refused("relative", 0, "no path");
    expect_node_refused("/ttl", (int64_t)(0xffULL << 56), "TTL of 0");
}

static void test_sessions_and_lists_come_once(void **unused)
{
    (void)unused;
    struct bench b = {0};
    bench_begin(&b);
    assert_int_equal(adoption_session(b.a, SESSION, TIMEOUT_MS), 0);
    assert_int_equal(adoption_session(b.a, SESSION, TIMEOUT_MS), CONCLAVE_ECORRUPT);
    assert_int_equal(adoption_session(b.a, 0, TIMEOUT_MS), CONCLAVE_ECORRUPT);
    assert_int_equal(adoption_session(b.a, SESSION + 1, 0), CONCLAVE_ECORRUPT);
    struct buf items;
    buf_init(&items, 0);
    struct wire_vector acl = open_acl(&items);
    assert_int_equal(adoption_acl(b.a, 1, acl), 0);
    assert_int_equal(adoption_acl(b.a, 1, acl), CONCLAVE_ECORRUPT);
    assert_int_equal(adoption_acl(b.a, -1, acl), CONCLAVE_ECORRUPT);
    assert_int_equal(adoption_acl(b.a, 2, WIRE_VECTOR_NULL), CONCLAVE_ECORRUPT);
    buf_finish(&items);
    bench_end(&b);
}

static void test_zxids_ascend(void **unused)
{
    (void)unused;
    struct bench b = {.zxid = 4};
    bench_begin(&b);
    assert_int_equal(adoption_nodes_end(b.a, 5), 0);
    assert_int_equal(create(&b, "/a", false, 2), CONCLAVE_ECORRUPT); /* zxid 5 */
    assert_int_equal(create(&b, "/a", false, 2), 0);
    bench_end(&b);
}

/* Of java.util.Random, with id 0x100000001 and seed id ^ 0xb3415c00, computed by Java itself. */
static void test_passwords_are_those_of_java(void **unused)
{
    (void)unused;
    static const uint8_t expected[WIRE_PASSWD_LEN] = {0x05, 0x4c, 0x5a, 0x64, 0x37, 0x32,
                                                      0x14, 0xa8, 0x15, 0xe7, 0x4d, 0x1d,
                                                      0x0c, 0x73, 0xdf, 0xa6};
    uint8_t password[WIRE_PASSWD_LEN];
    outcome_password(SESSION, password);
    assert_memory_equal(password, expected, sizeof expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_paths_and_types_are_checked),
        cmocka_unit_test(test_closing_is_read_in_all_its_forms),
        cmocka_unit_test(test_a_session_that_comes_after_its_node),
        cmocka_unit_test(test_a_node_of_the_same_name_again),
        cmocka_unit_test(test_counters_never_go_back),
        cmocka_unit_test(test_a_list_that_the_snapshot_lacks),
        cmocka_unit_test(test_below_an_ephemeral_node),
        cmocka_unit_test(test_a_multi_applies_whole_or_not_at_all),
        cmocka_unit_test(test_impossible_nodes_are_refused),
        cmocka_unit_test(test_sessions_and_lists_come_once),
        cmocka_unit_test(test_zxids_ascend),
        cmocka_unit_test(test_passwords_are_those_of_java),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
