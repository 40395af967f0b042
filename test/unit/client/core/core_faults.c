/*
 * The connection core against bad links: the bytes of a whole conversation cut at every place,
 * delivered in pieces of every size, and damaged at random. Whatever happens each request is
 * answered once and each watch gets at most one event.
 */
#include "support/core_peer.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { REQUESTS = 7 };

/* The program's requests, ids 1 to REQUESTS, at the same time. */
static void submit_all(struct peer *p)
{
    const struct conclave_op ops[] = {
        conclave_op_create("/a", "v", 1, CONCLAVE_EPHEMERAL),
        conclave_op_path(CONCLAVE_OP_GET_ACL, "/a", 0),
        conclave_op_set("/a", "w", 1, -1),
    };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(peer_submit(p, &ops[i], i + 1), 0);
    }
    peer_watch(p, CONCLAVE_OP_GET, "/a", 4);
    peer_watch(p, CONCLAVE_OP_GET_CHILDREN, "/a", 5);
    struct conclave_op multi = conclave_op_multi(ops, 1);
    assert_int_equal(peer_submit(p, &multi, 6), 0);
    struct conclave_op read = conclave_op_path(CONCLAVE_OP_EXISTS, "/a", 0);
    read.linearizable = true;
    assert_int_equal(peer_submit(p, &read, 7), 0);
}

static void put(struct buf *out, int32_t xid, int32_t err, struct buf *body)
{
    peer_put_reply(out, xid, 100 + xid, err, buf_slice(body));
    buf_finish(body);
}

/* What a server answers to all of it, from the connect response to the reply of a closed
 * session. */
static void put_conversation(struct buf *out)
{
    struct buf b;
    buf_init(&b, 0);
    peer_put_connect(out, PEER_TIMEOUT_MS, PEER_SESSION, WIRE_PASSWD_LEN);
    wire_write_string(&b, slice_str("/a"));
    peer_put_stat(&b, 101);
    put(out, 1, 0, &b);
    wire_write_i32(&b, 1);
    struct wire_acl acl = {31, {slice_str("world"), slice_str("anyone")}};
    wire_encode_acl(&b, &acl);
    peer_put_stat(&b, 101);
    put(out, 2, 0, &b);
    peer_put_stat(&b, 103);
    put(out, 3, 0, &b);
    wire_write_buffer(&b, slice_str("w"));
    peer_put_stat(&b, 103);
    put(out, 4, 0, &b);
    wire_write_i32(&b, 2);
    wire_write_string(&b, slice_str("x"));
    wire_write_string(&b, slice_str(""));
    peer_put_stat(&b, 103);
    put(out, 5, 0, &b);
    peer_put_event(out, CONCLAVE_EVENT_DATA_CHANGED, "/a");
    struct wire_multi_header part = {WIRE_ERROR, false, CONCLAVE_NODE_EXISTS};
    wire_encode_multi_header(&b, &part);
    wire_write_i32(&b, CONCLAVE_NODE_EXISTS);
    struct wire_multi_header end = {-1, true, -1};
    wire_encode_multi_header(&b, &end);
    put(out, 6, 0, &b);
    wire_write_string(&b, slice_str("/a")); /* the sync before the last */
    put(out, 7, 0, &b);
    peer_put_stat(&b, 103);
    put(out, 8, 0, &b);
    put(out, WIRE_XID_PING, 0, &b);
    peer_put_event(out, CONCLAVE_EVENT_DELETED, "/a");
}

static void assert_each_once(const struct peer *p)
{
    for (int id = 1; id <= REQUESTS; id++) {
        assert_int_equal(peer_replies_of(p, id), 1);
        assert_true(peer_watches_of(p, id) <= 1);
    }
}

/* Takes the link away; who was not answered is now. */
static void end_link(struct peer *p)
{
    if (p->core.link != LINK_NONE) {
        core_link_down(&p->core, p->now_ns, CONCLAVE_EDISCONNECTED);
    }
}

static void test_every_piece_size(void **state)
{
    struct buf all;
    buf_init(&all, 0);
    put_conversation(&all);
    for (size_t piece = 1; piece <= all.len; piece++) {
        struct peer p;
        peer_init(&p, "");
        submit_all(&p);
        core_link_up(&p.core, p.now_ns, 1000);
        peer_feed(&p, buf_slice(&all), piece);
        assert_int_equal(p.core.link, LINK_UP);
        assert_each_once(&p);
        for (int id = 1; id <= REQUESTS; id++) {
            int error = id == 6 ? CONCLAVE_NODE_EXISTS : 0;
            assert_int_equal(peer_reply_of(&p, id)->error, error);
        }
        assert_string_equal(peer_reply_of(&p, 1)->path, "/a");
        assert_string_equal(peer_reply_of(&p, 4)->data, "w");
        assert_int_equal(peer_reply_of(&p, 5)->count, 2);
        assert_int_equal(p.watches_count, 2);
        peer_finish(&p);
    }
    buf_finish(&all);
}

static void test_cut_at_every_byte(void **state)
{
    struct buf all;
    buf_init(&all, 0);
    put_conversation(&all);
    for (size_t cut = 0; cut < all.len; cut++) {
        struct peer p;
        peer_init(&p, "");
        submit_all(&p);
        core_link_up(&p.core, p.now_ns, 1000);
        peer_feed(&p, slice_make(all.data, cut), 0);
        size_t answered = p.replies_count;
        bool attached = p.core.link == LINK_UP;
        end_link(&p);
        if (attached) {
            assert_each_once(&p);
            for (size_t i = answered; i < REQUESTS; i++) {
                assert_int_equal(p.replies[i].error, CONCLAVE_CONNECTION_LOSS);
            }
        } else {
            assert_int_equal(p.replies_count, 0); /* never sent: they wait for the next link */
        }
        peer_connect(&p, PEER_SESSION);
        assert_int_equal(p.core.link, LINK_UP);
        core_close(&p.core, p.now_ns, 0);
        assert_each_once(&p);
        peer_finish(&p);
    }
    buf_finish(&all);
}

/* Damaged bytes may be refused or, where they still make sense, believed; nothing else may
 * happen. */
static void test_damaged_bytes(void **state)
{
    struct buf all;
    buf_init(&all, 0);
    put_conversation(&all);
    struct prng rng = {20260131};
    for (int round = 0; round < 20000; round++) {
        struct buf bad;
        buf_init(&bad, 0);
        buf_append_slice(&bad, buf_slice(&all));
        for (uint64_t n = 1 + prng_next(&rng) % 4; n > 0; n--) {
            uint64_t r = prng_next(&rng);
            /* Values that lengths and counts are made of, or any byte. */
            const uint8_t special[] = {0, 1, 0x7f, 0x80, 0xff, (uint8_t)(r >> 48)};
            bad.data[r % bad.len] = special[(r >> 40) % 6];
        }
        struct peer p;
        peer_init(&p, "");
        submit_all(&p);
        core_link_up(&p.core, p.now_ns, 1000);
        peer_feed(&p, buf_slice(&bad), 1 + prng_next(&rng) % bad.len);
        end_link(&p);
        core_close(&p.core, p.now_ns, 0);
        assert_each_once(&p);
        peer_finish(&p);
        buf_finish(&bad);
    }
    buf_finish(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_piece_size),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_damaged_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
