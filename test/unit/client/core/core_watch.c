/* The connection core: watches, their events, and setting them again after a reconnect. */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void answer_children(struct peer *p, const struct peer_frame *f, int64_t zxid)
{
    struct buf b;
    buf_init(&b, 0);
    wire_write_i32(&b, 2);
    wire_write_string(&b, slice_str("x"));
    wire_write_string(&b, slice_str("y"));
    peer_put_stat(&b, zxid);
    peer_reply(p, f->xid, zxid, 0, buf_slice(&b));
    buf_finish(&b);
}

static void answer_data(struct peer *p, const struct peer_frame *f, int64_t zxid)
{
    struct buf b;
    buf_init(&b, 0);
    wire_write_buffer(&b, slice_str("v"));
    peer_put_stat(&b, zxid);
    peer_reply(p, f->xid, zxid, 0, buf_slice(&b));
    buf_finish(&b);
}

static void set_watch(struct peer *p, enum conclave_op_type type, const char *path, int id)
{
    peer_watch(p, type, path, id);
    struct peer_frame f;
    assert_true(peer_take(p, &f, false));
    if (type == CONCLAVE_OP_GET_CHILDREN) {
        answer_children(p, &f, 10);
    } else if (type == CONCLAVE_OP_GET) {
        answer_data(p, &f, 10);
    } else {
        peer_answer_stat(p, &f, 10);
    }
    assert_int_equal(peer_reply_of(p, id)->error, 0);
}

static void test_event_kinds(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_watch(&p, CONCLAVE_OP_GET, "/a", 1);
    set_watch(&p, CONCLAVE_OP_GET, "/a", 2);
    set_watch(&p, CONCLAVE_OP_GET_CHILDREN, "/a", 3);
    set_watch(&p, CONCLAVE_OP_EXISTS, "/b", 4);
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/a");
    assert_int_equal(p.watches_count, 2); /* each function, in the order of setting */
    assert_int_equal(p.watches[0].id, 1);
    assert_int_equal(p.watches[1].id, 2);
    assert_string_equal(p.watches[1].path, "/a");
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/a"); /* once only */
    assert_int_equal(p.watches_count, 2);
    set_watch(&p, CONCLAVE_OP_EXISTS, "/a", 5);
    peer_event(&p, CONCLAVE_EVENT_DELETED, "/a");
    assert_int_equal(p.watches_count, 4);
    assert_int_equal(peer_watches_of(&p, 3), 1);
    assert_int_equal(peer_watches_of(&p, 5), 1);
    peer_event(&p, 77, "/b"); /* a type that nobody set */
    assert_int_equal(p.watches_count, 4);
    assert_int_equal(p.core.link, LINK_UP);
    peer_finish(&p);
}

/* exists sets its watch also where there is no node; getData and getChildren do not. */
static void test_no_node(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    const enum conclave_op_type types[] = {CONCLAVE_OP_EXISTS, CONCLAVE_OP_GET,
                                           CONCLAVE_OP_GET_CHILDREN};
    for (int i = 0; i < 3; i++) {
        peer_watch(&p, types[i], "/n", i + 1);
        struct peer_frame f;
        assert_true(peer_take(&p, &f, false));
        peer_reply(&p, f.xid, 4, CONCLAVE_NO_NODE, slice_make("", 0));
        assert_int_equal(peer_reply_of(&p, i + 1)->error, CONCLAVE_NO_NODE);
    }
    peer_event(&p, CONCLAVE_EVENT_CREATED, "/n");
    assert_int_equal(p.watches_count, 1);
    assert_int_equal(p.watches[0].id, 1);
    peer_finish(&p);
}

static void test_lost_with_the_session(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_watch(&p, CONCLAVE_OP_GET, "/a", 1);
    set_watch(&p, CONCLAVE_OP_GET_CHILDREN, "/a", 2);
    peer_advance_ms(&p, PEER_TIMEOUT_MS);
    assert_int_equal(p.watches_count, 2);
    assert_int_equal(p.watches[0].type, CONCLAVE_EVENT_LOST);
    assert_true(p.watches[0].order > p.state_order[2]); /* the state first */
    peer_connect(&p, 99);
    struct peer_frame f;
    assert_false(peer_take(&p, &f, false)); /* nothing to set again */
    peer_finish(&p);
}

static void test_chroot(void **state)
{
    struct peer p;
    peer_init(&p, "/app");
    peer_connect(&p, PEER_SESSION);
    peer_watch(&p, CONCLAVE_OP_GET, "/a", 1);
    struct peer_frame f = peer_expect(&p, WIRE_GET_DATA);
    struct wire_reader rd = wire_reader_make(f.body);
    assert_true(slice_equal_str(wire_read_string(&rd), "/app/a"));
    answer_data(&p, &f, 3);
    set_watch(&p, CONCLAVE_OP_GET_CHILDREN, "/", 2);
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/appendix/a");
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/a");
    assert_int_equal(p.watches_count, 0);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    peer_connect(&p, PEER_SESSION);
    f = peer_expect(&p, WIRE_SET_WATCHES);
    rd = wire_reader_make(f.body);
    struct wire_set_watches sw;
    struct slice path;
    assert_int_equal(wire_decode_set_watches(&rd, &sw), 0);
    assert_true(wire_next_string(&sw.data_watches, &path) && slice_equal_str(path, "/app/a"));
    assert_true(wire_next_string(&sw.child_watches, &path) && slice_equal_str(path, "/app"));
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/app/a");
    peer_event(&p, CONCLAVE_EVENT_CHILDREN_CHANGED, "/app");
    assert_int_equal(p.watches_count, 2);
    assert_string_equal(p.watches[0].path, "/a");
    assert_string_equal(p.watches[1].path, "/");
    peer_finish(&p);
}

enum { MANY = 10000 };

static void many_path(char *buf, size_t len, int i)
{
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(buf, len, "/%s/%d", name, i);
}

/* Thousands of long paths go out in batches that every server takes, and before any request. */
static void test_set_again_in_batches(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    for (int i = 0; i < MANY; i++) {
        char path[256];
        many_path(path, sizeof path, i);
        peer_watch(&p, i % 2 == 0 ? CONCLAVE_OP_GET : CONCLAVE_OP_EXISTS, path, i + 1);
        struct peer_frame f;
        assert_true(peer_take(&p, &f, false));
        if (i % 2 == 0) {
            answer_data(&p, &f, 10);
        } else {
            peer_reply(&p, f.xid, 10, CONCLAVE_NO_NODE, slice_make("", 0));
        }
    }
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, "/", 0);
    assert_int_equal(peer_submit(&p, &op, MANY + 1), 0);
    peer_connect(&p, PEER_SESSION);
    size_t data = 0;
    size_t exist = 0;
    size_t frames = 0;
    struct peer_frame f;
    while (peer_take(&p, &f, false) && f.type == WIRE_SET_WATCHES) {
        assert_int_equal(f.xid, WIRE_XID_SET_WATCHES);
        assert_true(f.body.len <= 128 * 1024 + 64);
        struct wire_reader rd = wire_reader_make(f.body);
        struct wire_set_watches sw;
        assert_int_equal(wire_decode_set_watches(&rd, &sw), 0);
        assert_int_equal(sw.relative_zxid, 10);
        data += (size_t)sw.data_watches.count;
        exist += (size_t)sw.exist_watches.count;
        frames++;
    }
    assert_int_equal(f.type, WIRE_SYNC);
    assert_int_equal(data, MANY / 2);
    assert_int_equal(exist, MANY / 2);
    assert_true(frames >= 16);
    peer_finish(&p);
}

/* The link is lost again when only the first of two batches was answered, with a newer zxid: the
 * watches of the second still have to be reckoned from the old one. */
static void test_zxid_of_watches_waits_for_all(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    for (int i = 0; i < 1000; i++) {
        char path[256];
        many_path(path, sizeof path, i);
        set_watch(&p, CONCLAVE_OP_GET, path, i + 1);
    }
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    peer_connect(&p, PEER_SESSION);
    peer_expect(&p, WIRE_SET_WATCHES);
    peer_expect(&p, WIRE_SET_WATCHES);
    peer_reply(&p, WIRE_XID_SET_WATCHES, 20, 0, slice_make("", 0));
    assert_int_equal(p.core.last_zxid, 20);
    assert_int_equal(p.core.watch_zxid, 10);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    peer_connect(&p, PEER_SESSION);
    struct peer_frame f = peer_expect(&p, WIRE_SET_WATCHES);
    struct wire_reader rd = wire_reader_make(f.body);
    assert_int_equal(wire_read_i64(&rd), 10);
    peer_reply(&p, WIRE_XID_SET_WATCHES, 21, 0, slice_make("", 0));
    peer_reply(&p, WIRE_XID_SET_WATCHES, 22, 0, slice_make("", 0));
    assert_int_equal(p.core.watch_zxid, 22);
    peer_finish(&p);
}

/* An event's own zxid must not count as seen: another event of that transaction may be still to
 * come. */
static void test_events_do_not_move_the_zxid(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_watch(&p, CONCLAVE_OP_GET, "/a", 1);
    set_watch(&p, CONCLAVE_OP_GET, "/b", 2);
    struct buf body;
    buf_init(&body, 0);
    struct wire_watcher_event event = {CONCLAVE_EVENT_DATA_CHANGED, 3, slice_str("/a")};
    wire_encode_watcher_event(&body, &event);
    peer_reply(&p, WIRE_XID_NOTIFICATION, 30, 0, buf_slice(&body));
    buf_finish(&body);
    assert_int_equal(p.watches_count, 1);
    assert_int_equal(p.core.last_zxid, 10);
    peer_finish(&p);
}

static void test_event_before_reply(void **state)
{
    struct peer p;
    peer_init(&p, "");
    peer_connect(&p, PEER_SESSION);
    set_watch(&p, CONCLAVE_OP_GET, "/a", 1);
    struct conclave_op op = conclave_op_set("/a", "w", 1, -1);
    assert_int_equal(peer_submit(&p, &op, 2), 0);
    struct peer_frame f = peer_expect(&p, WIRE_SET_DATA);
    peer_event(&p, CONCLAVE_EVENT_DATA_CHANGED, "/a");
    peer_answer_stat(&p, &f, 11);
    assert_true(p.watches[0].order < peer_reply_of(&p, 2)->order);
    peer_finish(&p);
}

static void test_taking_back(void **state)
{
    struct watches ws;
    assert_int_equal(watches_init(&ws), 0);
    int marks[3];
    for (int i = 0; i < 3; i++) {
        struct client_watch *w = watch_create("/a", NULL, &marks[i]);
        assert_non_null(w);
        watches_add_take(&ws, w, WATCH_DATA);
    }
    assert_int_equal(watches_count(&ws), 1);
    for (int i = 0; i < 3; i++) { /* the first each time: another one takes its place */
        struct client_watch *w = watches_take(&ws, "/a", NULL, &marks[i], false);
        assert_non_null(w);
        assert_ptr_equal(w->ctx, &marks[i]);
        free(w);
        assert_null(watches_take(&ws, "/a", NULL, &marks[i], false));
        assert_int_equal(watches_count(&ws), i < 2);
    }
    assert_null(watches_take(&ws, "/b", NULL, NULL, false));
    watches_finish(&ws);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_kinds),
        cmocka_unit_test(test_no_node),
        cmocka_unit_test(test_lost_with_the_session),
        cmocka_unit_test(test_chroot),
        cmocka_unit_test(test_set_again_in_batches),
        cmocka_unit_test(test_zxid_of_watches_waits_for_all),
        cmocka_unit_test(test_events_do_not_move_the_zxid),
        cmocka_unit_test(test_event_before_reply),
        cmocka_unit_test(test_taking_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
