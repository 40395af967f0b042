/*
 * The connection core: persistent watches. The events that they get and do not get, setting them
 * again beside one-shot ones, taking them back at the server, and links cut at every byte.
 */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void answer_number(struct peer *p, const struct peer_frame *f, int32_t number)
{
    struct buf b;
    buf_init(&b, 0);
    wire_write_i32(&b, number);
    peer_reply(p, f->xid, 10, 0, buf_slice(&b));
    buf_finish(&b);
}

/* addWatch, sent and granted. */
static void set_persistent(struct peer *p, const char *path, enum conclave_watch_kind kind, int id)
{
    peer_add_watch(p, path, kind, id);
    struct peer_frame f = peer_expect(p, WIRE_ADD_WATCH);
    answer_number(p, &f, 0);
    assert_int_equal(peer_reply_of(p, id)->error, 0);
}

static void set_once(struct peer *p, const char *path, int id)
{
    peer_watch(p, CONCLAVE_OP_EXISTS, path, id);
    struct peer_frame f = peer_expect(p, WIRE_EXISTS);
    peer_answer_stat(p, &f, 10);
}

static void cut(struct peer *p)
{
    core_link_down(&p->core, p->now_ns, CONCLAVE_EDISCONNECTED);
}

/* The next frame removes watches of this type on this path; answered with error. */
static void expect_removal(struct peer *p, const char *path, int32_t type, int32_t error)
{
    struct peer_frame f = peer_expect(p, WIRE_REMOVE_WATCHES);
    struct wire_reader rd = wire_reader_make(f.body);
    struct wire_remove_watches_request record;
    assert_int_equal(wire_decode_remove_watches_request(&rd, &record), 0);
    assert_true(slice_equal_str(record.path, path));
    assert_int_equal(record.type, type);
    peer_reply(p, f.xid, 10, error, slice_make("", 0));
}

static void expect_nothing(struct peer *p)
{
    struct peer_frame f;
    assert_false(peer_take(p, &f, false));
}

static void test_form(void **state)
{
    struct peer p;
    peer_init(&p, "/app");
    peer_connect(&p, PEER_SESSION);
    const enum conclave_watch_kind kinds[] = {CONCLAVE_WATCH_PERSISTENT, CONCLAVE_WATCH_RECURSIVE};
    for (int i = 0; i < 2; i++) {
        peer_add_watch(&p, i == 0 ? "/a" : "/", kinds[i], i + 1);
        struct peer_frame f = peer_expect(&p, WIRE_ADD_WATCH);
        struct wire_reader rd = wire_reader_make(f.body);
        struct wire_add_watch_request record;
        assert_int_equal(wire_decode_add_watch_request(&rd, &record), 0);
        assert_true(slice_equal_str(record.path, i == 0 ? "/app/a" : "/app"));
        assert_int_equal(record.mode, i);
    }
    peer_finish(&p);
    struct conclave_op op = conclave_op_add_watch("/a", CONCLAVE_WATCH_ANY, NULL, NULL);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op.watch_kind = CONCLAVE_WATCH_RECURSIVE;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL); /* no function */
}

static void test_many_events(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 1);
    set_persistent(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 2);
    set_persistent(&p, "/a", CONCLAVE_WATCH_RECURSIVE, 3);
    set_persistent(&p, "/", CONCLAVE_WATCH_RECURSIVE, 4);
    set_once(&p, "/a", 5);
    for (int round = 0; round < 3; round++) {
        for (int type = CONCLAVE_EVENT_CREATED; type <= CONCLAVE_EVENT_DATA_CHANGED; type++) {
            peer_event(&p, type, "/a");
        }
        peer_event(&p, CONCLAVE_EVENT_CHILDREN_CHANGED, "/a");
        peer_event(&p, CONCLAVE_EVENT_CREATED, "/a/b/c");
        peer_event(&p, CONCLAVE_EVENT_CREATED, "/ab");
        peer_event(&p, CONCLAVE_EVENT_DELETED, "/");
        peer_event(&p, 77, "/a");
    }
    assert_int_equal(peer_watches_of(&p, 1), 3 * 4);
    assert_int_equal(peer_watches_of(&p, 2), 3 * 4);
    assert_int_equal(peer_watches_of(&p, 3), 3 * 4); /* not its children, but /a/b/c */
    assert_int_equal(peer_watches_of(&p, 4), 3 * 6);
    assert_int_equal(peer_watches_of(&p, 5), 1);
    assert_string_equal(p.watches[0].path, "/a");
    assert_int_equal(p.watches[0].id, 5); /* one-shot ones first */
    peer_finish(&p);
}

static void test_path_of_the_event(void **state)
{
    struct peer p;
    peer_init(&p, "/app");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/", CONCLAVE_WATCH_RECURSIVE, 1);
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/app/a/b");
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/app");
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/apple");
    assert_int_equal(p.watches_count, 2);
    assert_string_equal(p.watches[0].path, "/a/b");
    assert_string_equal(p.watches[1].path, "/");
    peer_finish(&p);
}

/* A refusal sets nothing. */
static void test_refused(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    peer_add_watch(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 1);
    struct peer_frame f = peer_expect(&p, WIRE_ADD_WATCH);
    peer_reply(&p, f.xid, 4, CONCLAVE_UNIMPLEMENTED, slice_make("", 0));
    peer_add_watch(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 2);
    f = peer_expect(&p, WIRE_ADD_WATCH);
    answer_number(&p, &f, CONCLAVE_NO_AUTH);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_UNIMPLEMENTED);
    assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_NO_AUTH);
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/a");
    core_close(&p.core, p.now_ns, 0);
    assert_int_equal(p.watches_count, 0);
    peer_finish(&p);
}

static void test_lost_is_the_last(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 1);
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/a");
    peer_advance_ms(&p, PEER_TIMEOUT_MS);
    assert_int_equal(p.watches_count, 2);
    assert_int_equal(p.watches[1].type, CONCLAVE_EVENT_LOST);
    assert_string_equal(p.watches[1].path, "/a");
    peer_connect(&p, 99);
    expect_nothing(&p);
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/a");
    assert_int_equal(p.watches_count, 2);
    peer_finish(&p);
}

/* --- setting again
 * ------------------------------------------------------------------------------------ */

static void assert_paths(struct wire_vector paths, const char *one)
{
    struct slice path;
    assert_int_equal(paths.count, one != NULL);
    if (one != NULL) {
        assert_true(wire_next_string(&paths, &path) && slice_equal_str(path, one));
    }
}

static void test_set_again_mixed(void **state)
{
    struct peer p;
    peer_init(&p, "/app");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/p", CONCLAVE_WATCH_PERSISTENT, 1);
    set_persistent(&p, "/p", CONCLAVE_WATCH_PERSISTENT, 2);
    set_persistent(&p, "/r", CONCLAVE_WATCH_RECURSIVE, 3);
    set_once(&p, "/d", 4);
    cut(&p);
    assert_int_equal(p.watches_count, 0);
    peer_connect(&p, PEER_SESSION);
    struct peer_frame f = peer_expect(&p, WIRE_SET_WATCHES2);
    assert_int_equal(f.xid, WIRE_XID_SET_WATCHES);
    struct wire_reader rd = wire_reader_make(f.body);
    struct wire_set_watches2 record;
    assert_int_equal(wire_decode_set_watches2(&rd, &record), 0);
    assert_int_equal(wire_left(&rd), 0);
    assert_int_equal(record.relative_zxid, 10);
    assert_paths(record.data_watches, "/app/d");
    assert_paths(record.exist_watches, NULL);
    assert_paths(record.child_watches, NULL);
    assert_paths(record.persistent_watches, "/app/p");
    assert_paths(record.persistent_recursive_watches, "/app/r");
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/app/d"); /* missed meanwhile */
    peer_reply(&p, WIRE_XID_SET_WATCHES, 20, 0, slice_make("", 0));
    assert_int_equal(p.watches_count, 4);
    assert_int_equal(p.watches[0].id, 4);
    for (int id = 1; id <= 3; id++) {
        assert_int_equal(peer_watches_of(&p, id), 1);
        assert_int_equal(p.watches[id].type, CONCLAVE_EVENT_RESUMED);
    }
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/app/r/x");
    assert_int_equal(p.watches[4].id, 3);
    /* The one-shot watch has gone: now there are persistent ones alone. */
    cut(&p);
    peer_connect(&p, PEER_SESSION);
    f = peer_expect(&p, WIRE_SET_WATCHES2);
    rd = wire_reader_make(f.body);
    assert_int_equal(wire_decode_set_watches2(&rd, &record), 0);
    assert_paths(record.data_watches, NULL);
    peer_finish(&p);
}

static void test_old_form_where_it_suffices(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/p", CONCLAVE_WATCH_PERSISTENT, 1);
    set_once(&p, "/d", 2);
    assert_true(peer_forget_watch(&p, "/p", 1));
    cut(&p);
    peer_connect(&p, PEER_SESSION);
    peer_expect(&p, WIRE_SET_WATCHES);
    peer_reply(&p, WIRE_XID_SET_WATCHES, 20, 0, slice_make("", 0));
    assert_int_equal(p.watches_count, 0); /* nobody to resume */
    peer_finish(&p);
}

/* Many batches: RESUMED comes when the last is answered, once each. */
static void test_resumed_after_all_batches(void **state)
{
    enum { WATCHES = 2000 };
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    char path[256];
    for (int i = 0; i < WATCHES; i++) {
        snprintf(path, sizeof path, "/%0200d", i);
        set_persistent(&p, path, i % 2 ? CONCLAVE_WATCH_PERSISTENT : CONCLAVE_WATCH_RECURSIVE,
                       i + 1);
    }
    cut(&p);
    peer_connect(&p, PEER_SESSION);
    int batches = 0;
    struct peer_frame f;
    while (peer_take(&p, &f, false)) {
        assert_int_equal(f.type, WIRE_SET_WATCHES2);
        batches++;
    }
    assert_true(batches >= 3);
    for (int i = 0; i < batches; i++) {
        assert_int_equal(p.watches_count, 0);
        peer_reply(&p, WIRE_XID_SET_WATCHES, 20, 0, slice_make("", 0));
    }
    assert_int_equal(p.watches_count, WATCHES);
    for (size_t i = 0; i < WATCHES; i++) {
        assert_int_equal(p.watches[i].type, CONCLAVE_EVENT_RESUMED);
    }
    peer_finish(&p);
}

/* --- taking back
 * -------------------------------------------------------------------------------------- */

static void test_removed_with_the_last(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 1);
    set_persistent(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 2);
    set_persistent(&p, "/a", CONCLAVE_WATCH_RECURSIVE, 3);
    set_once(&p, "/a", 4);
    assert_false(peer_forget_watch(&p, "/b", 1));
    assert_true(peer_forget_watch(&p, "/a", 1));
    assert_false(peer_forget_watch(&p, "/a", 1));
    expect_nothing(&p);
    assert_true(peer_forget_watch(&p, "/a", 3));
    expect_removal(&p, "/a", CONCLAVE_WATCH_RECURSIVE, 0);
    assert_true(peer_forget_watch(&p, "/a", 2));
    expect_removal(&p, "/a", CONCLAVE_WATCH_PERSISTENT, CONCLAVE_NO_WATCHER); /* as well */
    assert_true(peer_forget_watch(&p, "/a", 4));
    expect_nothing(&p); /* a one-shot watch goes when it fires */
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/a");
    assert_int_equal(p.watches_count, 0);
    assert_int_equal(p.core.link, LINK_UP);
    peer_finish(&p);
}

/* A watch that is on its way keeps the server's: it may be granted already. */
static void test_not_removed_under_a_new_one(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 1);
    peer_add_watch(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 2);
    assert_true(peer_forget_watch(&p, "/a", 1));
    struct peer_frame f = peer_expect(&p, WIRE_ADD_WATCH);
    expect_nothing(&p);
    answer_number(&p, &f, 0);
    peer_add_watch(&p, "/a", CONCLAVE_WATCH_RECURSIVE, 3); /* another kind keeps nothing */
    assert_true(peer_forget_watch(&p, "/a", 2));
    f = peer_expect(&p, WIRE_ADD_WATCH);
    answer_number(&p, &f, 0);
    expect_removal(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 0);
    peer_finish(&p);
}

/* A server that knows no persistent kinds (before 3.9) is asked to remove all, once nobody wants
 * any. */
static void test_removed_by_any_kind(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 1);
    assert_true(peer_forget_watch(&p, "/a", 1));
    expect_removal(&p, "/a", CONCLAVE_WATCH_PERSISTENT, CONCLAVE_MARSHALLING_ERROR);
    expect_removal(&p, "/a", CONCLAVE_WATCH_ANY, 0);
    set_persistent(&p, "/a", CONCLAVE_WATCH_RECURSIVE, 2);
    set_once(&p, "/a", 3);
    assert_true(peer_forget_watch(&p, "/a", 2));
    expect_nothing(&p); /* it would take the one-shot watch, too */
    set_persistent(&p, "/b", CONCLAVE_WATCH_RECURSIVE, 4);
    peer_watch(&p, CONCLAVE_OP_EXISTS, "/b", 5);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    assert_true(peer_forget_watch(&p, "/b", 4));
    expect_nothing(&p);
    peer_answer_stat(&p, &f, 10);
    set_persistent(&p, "/c", CONCLAVE_WATCH_RECURSIVE, 6);
    assert_true(peer_forget_watch(&p, "/c", 6));
    expect_removal(&p, "/c", CONCLAVE_WATCH_ANY, CONCLAVE_MARSHALLING_ERROR);
    expect_nothing(&p); /* no end to it otherwise */
    peer_finish(&p);
}

static void test_removed_without_a_link(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_persistent(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 1);
    cut(&p);
    assert_true(peer_forget_watch(&p, "/a", 1));
    peer_connect(&p, PEER_SESSION);
    expect_nothing(&p);
    peer_finish(&p);
}

/* Granted after the program got a timeout: the server may forget it. */
static void test_granted_too_late(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    peer_add_watch(&p, "/a", CONCLAVE_WATCH_RECURSIVE, 1);
    struct peer_frame f = peer_expect(&p, WIRE_ADD_WATCH);
    struct client_request *r = CONTAINER_OF(p.core.inflight.next, struct client_request, link);
    timers_add(&p.core.timeouts, &r->timer, p.now_ns + 1000000);
    peer_advance_ms(&p, 2);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_OPERATION_TIMEOUT);
    answer_number(&p, &f, 0);
    expect_removal(&p, "/a", CONCLAVE_WATCH_RECURSIVE, 0);
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/a");
    assert_int_equal(p.watches_count, 0);
    peer_finish(&p);
}

/* --- bad links
 * ---------------------------------------------------------------------------------------- */

/* What a server says to three addWatch, an event each, and a one-shot watch. */
static void put_conversation(struct buf *out)
{
    struct buf b;
    buf_init(&b, 0);
    peer_put_connect(out, PEER_TIMEOUT_MS, PEER_SESSION, WIRE_PASSWD_LEN);
    wire_write_i32(&b, 0);
    for (int i = 1; i <= 3; i++) {
        peer_put_reply(out, i, 10 + i, 0, buf_slice(&b));
        peer_put_event(out, CONCLAVE_EVENT_CREATED, "/a");
    }
    buf_reset(&b);
    peer_put_stat(&b, 14);
    peer_put_reply(out, 4, 14, 0, buf_slice(&b));
    peer_put_event(out, CONCLAVE_EVENT_DELETED, "/a");
    peer_put_event(out, CONCLAVE_EVENT_CREATED, "/a/b");
    buf_finish(&b);
}

static void test_cut_at_every_byte(void **state)
{
    struct buf all;
    buf_init(&all, 0);
    put_conversation(&all);
    for (size_t at = 0; at <= all.len; at++) {
        struct peer p;
        peer_init(&p, "");
        peer_add_watch(&p, "/a", CONCLAVE_WATCH_PERSISTENT, 1);
        peer_add_watch(&p, "/a", CONCLAVE_WATCH_RECURSIVE, 2);
        peer_add_watch(&p, "/", CONCLAVE_WATCH_RECURSIVE, 3);
        peer_watch(&p, CONCLAVE_OP_EXISTS, "/a", 4);
        core_link_up(&p.core, p.now_ns, 1000);
        peer_feed(&p, slice_make(all.data, at), at % 7);
        cut(&p);
        peer_connect(&p, PEER_SESSION);
        struct peer_frame f;
        while (peer_take(&p, &f, false)) {
            if (f.type == WIRE_SET_WATCHES || f.type == WIRE_SET_WATCHES2) {
                peer_reply(&p, WIRE_XID_SET_WATCHES, 30, 0, slice_make("", 0));
            }
        }
        core_close(&p.core, p.now_ns, 0);
        size_t told_after = 0;
        for (int id = 1; id <= 4; id++) {
            size_t lost = 0;
            size_t resumed = 0;
            size_t last = CONCLAVE_EVENT_CREATED;
            for (size_t i = 0; i < p.watches_count; i++) {
                if (p.watches[i].id == id) {
                    lost += p.watches[i].type == CONCLAVE_EVENT_LOST;
                    resumed += p.watches[i].type == CONCLAVE_EVENT_RESUMED;
                    last = (size_t)p.watches[i].type;
                }
            }
            bool set = peer_reply_of(&p, id)->error == 0;
            if (id < 4) {
                assert_int_equal(lost, set);
                assert_int_equal(resumed, set);
                assert_true(!set || last == (size_t)CONCLAVE_EVENT_LOST);
            } else {
                assert_int_equal(peer_watches_of(&p, id), set);
            }
            told_after += peer_watches_of(&p, id);
        }
        assert_int_equal(told_after, p.watches_count);
        peer_finish(&p);
    }
    buf_finish(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_many_events),
        cmocka_unit_test(test_path_of_the_event),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lost_is_the_last),
        cmocka_unit_test(test_set_again_mixed),
        cmocka_unit_test(test_old_form_where_it_suffices),
        cmocka_unit_test(test_resumed_after_all_batches),
        cmocka_unit_test(test_removed_with_the_last),
        cmocka_unit_test(test_not_removed_under_a_new_one),
        cmocka_unit_test(test_removed_by_any_kind),
        cmocka_unit_test(test_removed_without_a_link),
        cmocka_unit_test(test_granted_too_late),
        cmocka_unit_test(test_cut_at_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
