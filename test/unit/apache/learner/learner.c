/* The observer's side of the protocol between Apache's servers: whole states, transactions, breaks, and hostile leaders. */
#include "apache/learner/learner.h"
#include "apache/learner/learner_link.h"

#include "wire/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SESSION 0x100000001LL
enum {
    REQUEST = 1,
    PROPOSAL,
    ACK,
    COMMIT,
    PING,
    INFORM = 8,
    NEWLEADER = 10,
    UPTODATE = 12,
    DIFF,
    TRUNC,
    SNAP,
    OBSERVERINFO,
    LEADERINFO,
    ACKEPOCH,
    INFORMANDACTIVATE
};

/* A leader's bytes, and what the learner makes of them. */
struct bench {
    struct learner *l;
    struct buf in;
    struct state *state;
    int64_t zxids[16];
    size_t count;
    int busy; /* so many transactions are refused for now */
    int live;
    int64_t seen;
    int64_t barrier;
};

static int on_state(void *ctx, struct state *state_take)
{
    struct bench *b = ctx;
    state_destroy(b->state);
    b->state = state_take;
    return 0;
}

static int on_transaction(void *ctx, int64_t previous_zxid, int64_t zxid, struct slice bytes)
{
    struct bench *b = ctx;
    assert_true(previous_zxid < zxid && bytes.len > 0 && b->count < 16);
    if (b->busy > 0) {
        b->busy--;
        return CONCLAVE_EBUSY;
    }
    b->zxids[b->count++] = zxid;
    return 0;
}

static void on_live(void *ctx)
{
    ((struct bench *)ctx)->live++;
}

static void on_seen(void *ctx, int64_t zxid)
{
    ((struct bench *)ctx)->seen = zxid;
}

static void on_barrier(void *ctx, int64_t zxid)
{
    ((struct bench *)ctx)->barrier = zxid;
}

static void bench_begin(struct bench *b, int64_t last_zxid)
{
    const struct learner_options options = {
        .server_id = 77, .last_zxid = last_zxid, .key = &hash_key_fixed};
    const struct learner_callbacks callbacks = {b,       on_state, on_transaction,
                                                on_live, on_seen,  on_barrier};
    *b = (struct bench){.l = learner_create(&options, &callbacks)};
    buf_init(&b->in, 0);
    assert_non_null(b->l);
}

static void bench_end(struct bench *b)
{
    learner_destroy(b->l);
    state_destroy(b->state);
    buf_finish(&b->in);
}

static void put_packet(struct bench *b, int32_t type, int64_t zxid, struct slice data)
{
    buf_append_i32(&b->in, type);
    buf_append_i64(&b->in, zxid);
    wire_write_buffer(&b->in, data);
    buf_append_i32(&b->in, -1);
}

static void put_leader_info(struct bench *b, int64_t epoch)
{
    static const uint8_t version[] = {0, 1, 0, 0};
    put_packet(b, LEADERINFO, epoch << 32, slice_make(version, sizeof version));
}

/* A setData of /a, as a record. */
static void put_set(struct bench *b, int32_t type, int64_t zxid)
{
    struct buf data;
    buf_init(&data, 0);
    const struct wire_txn_header header = {SESSION, 1, zxid, 1000, WIRE_SET_DATA};
    const struct wire_set_data_request record = {slice_str("/a"), slice_str("x"), 1};
    if (type == INFORMANDACTIVATE) {
        buf_append_i64(&data, 3);
    }
    wire_encode_txn_header(&data, &header);
    wire_encode_set_data_request(&data, &record);
    put_packet(b, type, zxid, buf_slice(&data));
    buf_finish(&data);
}

static void put_node(struct bench *b, const char *path, const char *data)
{
    wire_write_string(&b->in, slice_str(path));
    const struct wire_file_node node = {.data = slice_str(data), .acl = -1};
    wire_encode_file_node(&b->in, &node);
}

/* SNAP with a session, two nodes, and as `digest` and `last` say. */
static void put_snapshot(struct bench *b, int64_t zxid, bool digest, bool last)
{
    put_packet(b, SNAP, zxid, SLICE_NULL);
    buf_append_i32(&b->in, 1);
    buf_append_i64(&b->in, SESSION);
    buf_append_i32(&b->in, 9000);
    buf_append_i32(&b->in, 0);
    put_node(b, "", "");
    put_node(b, "/a", "one");
    wire_write_string(&b->in, slice_str("/"));
    if (digest) {
        buf_append_i64(&b->in, 0); /* none was computed */
        buf_append_i32(&b->in, 2);
        buf_append_i64(&b->in, 0);
    }
    if (last) {
        buf_append_i64(&b->in, zxid);
    }
    wire_write_string(&b->in, slice_str("BenWasHere"));
}

/* Offers what is there, `step` bytes more each time. The last outcome. */
static int feed(struct bench *b, size_t step)
{
    size_t shown = 0;
    int rc = 0;
    while (rc == 0 && shown < b->in.len) {
        size_t taken;
        shown = shown + step < b->in.len ? shown + step : b->in.len;
        rc = learner_input(b->l, slice_make(b->in.data, shown), &taken);
        assert_true(taken <= shown);
        buf_consume(&b->in, taken);
        shown -= taken;
    }
    return rc;
}

/* The types of the packets that the learner sent. */
static size_t sent(struct bench *b, int32_t ret[8])
{
    struct wire_reader r = wire_reader_make(buf_slice(learner_out(b->l)));
    size_t n = 0;
    while (wire_left(&r) > 0) {
        assert_true(n < 8);
        ret[n++] = wire_read_i32(&r);
        (void)wire_read_i64(&r);
        (void)wire_read_buffer(&r);
        (void)wire_read_i32(&r);
        assert_false(r.failed);
    }
    buf_reset(learner_out(b->l));
    return n;
}

static void test_a_snapshot(void **state)
{
    for (int form = 0; form < 4; form++) {
        for (size_t step = 1; step < 2000; step = step * 7 + 1) {
            struct bench b;
            int32_t types[8];
            bench_begin(&b, 0);
            put_leader_info(&b, 3);
            put_snapshot(&b, 0x200000005, (form & 1) != 0, (form & 2) != 0);
            put_set(&b, INFORM, 0x200000005); /* in the snapshot */
            put_set(&b, INFORM, 0x200000006);
            put_packet(&b, NEWLEADER, 0x300000000, slice_str("server.1=..."));
            put_packet(&b, UPTODATE, -1, SLICE_NULL);
            put_set(&b, INFORM, 0x300000001);
            put_set(&b, INFORMANDACTIVATE, 0x300000002);
            put_packet(&b, PING, 0x300000002, SLICE_NULL);
            assert_int_equal(feed(&b, step), 0);
            assert_int_equal(b.in.len, 0);
            assert_non_null(b.state);
            assert_int_equal(state_zxid(b.state), 0x200000006);
            struct state_session session;
            assert_true(state_session_find(b.state, SESSION, &session));
            assert_int_equal(session.timeout_ms, 9000);
            assert_int_equal(b.count, 2);
            assert_int_equal(b.zxids[0], 0x300000001);
            assert_int_equal(b.live, 1);
            assert_int_equal(b.seen, 0x300000002);
            assert_true(learner_is_live(b.l));
            static const int32_t expected[] = {OBSERVERINFO, ACKEPOCH, ACK, ACK, PING};
            assert_int_equal(sent(&b, types), 5);
            assert_memory_equal(types, expected, sizeof expected);
            bench_end(&b);
        }
    }
}

static void test_a_difference(void **state)
{
    struct bench b;
    bench_begin(&b, 0x200000005);
    put_leader_info(&b, 2);
    put_packet(&b, DIFF, 0x200000007, SLICE_NULL);
    put_set(&b, PROPOSAL, 0x200000006);
    put_packet(&b, COMMIT, 0x200000006, SLICE_NULL);
    put_set(&b, PROPOSAL, 0x200000007);
    put_packet(&b, COMMIT, 0x200000007, SLICE_NULL);
    put_packet(&b, NEWLEADER, 0x200000000, SLICE_NULL);
    put_packet(&b, UPTODATE, -1, SLICE_NULL);
    put_set(&b, PROPOSAL, 0x200000008); /* to followers only */
    put_packet(&b, COMMIT, 0x200000008, SLICE_NULL);
    put_set(&b, INFORM, 0x200000008);
    assert_int_equal(feed(&b, 1), 0);
    assert_null(b.state);
    assert_int_equal(b.count, 3);
    assert_int_equal(b.zxids[2], 0x200000008);
    bench_end(&b);
}

/* A source that still has all transactions sends them instead of a snapshot. */
static void test_a_difference_from_nothing(void **state)
{
    struct bench b;
    struct buf data;
    bench_begin(&b, 0);
    buf_init(&data, 0);
    put_leader_info(&b, 1);
    put_packet(&b, DIFF, 0x100000001, SLICE_NULL);
    const struct wire_txn_header header = {SESSION, 0, 0x100000001, 1000, WIRE_CREATE_SESSION};
    wire_encode_txn_header(&data, &header);
    buf_append_i32(&data, 7000);
    put_packet(&b, PROPOSAL, 0x100000001, buf_slice(&data));
    put_packet(&b, COMMIT, 0x100000001, SLICE_NULL);
    put_packet(&b, NEWLEADER, 0x100000000, SLICE_NULL);
    assert_int_equal(feed(&b, 1000), 0);
    assert_non_null(b.state);
    assert_int_equal(state_zxid(b.state), 0x100000001);
    assert_int_equal(b.count, 0);
    buf_finish(&data);
    bench_end(&b);
}

static void make_live(struct bench *b, int64_t zxid)
{
    int32_t types[8];
    bench_begin(b, zxid);
    put_leader_info(b, zxid >> 32);
    put_packet(b, DIFF, zxid, SLICE_NULL);
    put_packet(b, NEWLEADER, zxid & ~(int64_t)0xffffffff, SLICE_NULL);
    put_packet(b, UPTODATE, -1, SLICE_NULL);
    assert_int_equal(feed(b, 1000), 0);
    (void)sent(b, types);
}

static void test_not_now(void **state)
{
    struct bench b;
    make_live(&b, 0x200000005);
    put_set(&b, INFORM, 0x200000006);
    put_set(&b, INFORM, 0x200000007);
    b.busy = 2;
    assert_int_equal(feed(&b, 1000), CONCLAVE_EBUSY);
    assert_int_equal(feed(&b, 1000), CONCLAVE_EBUSY);
    assert_int_equal(b.count, 0);
    assert_int_equal(feed(&b, 1000), 0);
    assert_int_equal(b.count, 2);
    bench_end(&b);
}

static void test_what_does_not_fit(void **state)
{
    struct bench b;
    bench_begin(&b, 0x200000009); /* the source lost what this side has */
    put_leader_info(&b, 2);
    put_packet(&b, TRUNC, 0x200000005, SLICE_NULL);
    assert_int_equal(feed(&b, 1000), CONCLAVE_ECLOSED);
    assert_true(learner_must_restart(b.l));
    assert_non_null(strstr(learner_problem(b.l), "0x200000005"));
    bench_end(&b);

    make_live(&b, 0x200000005); /* a gap */
    put_set(&b, INFORM, 0x200000007);
    assert_int_equal(feed(&b, 1000), CONCLAVE_ECLOSED);
    assert_true(learner_must_restart(b.l));
    assert_int_equal(b.count, 0);
    bench_end(&b);
}

static void test_a_barrier(void **state)
{
    struct bench b;
    struct buf data;
    make_live(&b, 0x200000005);
    assert_int_equal(learner_barrier(b.l), 0);
    struct wire_reader r = wire_reader_make(buf_slice(learner_out(b.l)));
    assert_int_equal(wire_read_i32(&r), REQUEST);
    (void)wire_read_i64(&r);
    struct slice request = wire_read_buffer(&r);
    struct wire_reader inner = wire_reader_make(request);
    int64_t session = wire_read_i64(&inner);
    assert_true(session > 0);
    put_set(&b, INFORM, 0x200000006);
    assert_int_equal(feed(&b, 1000), 0);
    assert_int_equal(b.barrier, 0);
    buf_init(&data, 0);
    const struct wire_txn_header header = {session, 1, 0x200000007, 1000, WIRE_CLOSE_SESSION};
    wire_encode_txn_header(&data, &header);
    put_packet(&b, INFORM, 0x200000007, buf_slice(&data));
    assert_int_equal(feed(&b, 1000), 0);
    assert_int_equal(b.barrier, 0x200000007);
    buf_finish(&data);
    bench_end(&b);
}

/* Whoever answers may be anything: an end in words, and no memory for what it promises. */
static void test_hostile(void **state)
{
    struct bench b;
    bench_begin(&b, 0);
    buf_append_str(&b.in, "HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_int_equal(feed(&b, 1000), CONCLAVE_EPROTO);
    assert_true(strlen(learner_problem(b.l)) > 0);
    size_t taken;
    assert_int_equal(learner_input(b.l, slice_str("more"), &taken), CONCLAVE_ECLOSED);
    bench_end(&b);

    bench_begin(&b, 0);
    put_packet(&b, PING, 1, SLICE_NULL); /* before anything else */
    assert_int_equal(feed(&b, 1000), CONCLAVE_EPROTO);
    bench_end(&b);

    bench_begin(&b, 0);
    put_leader_info(&b, 1);
    put_packet(&b, SNAP, 5, SLICE_NULL);
    buf_append_i32(&b.in, -5); /* sessions */
    assert_true(feed(&b, 1000) < 0);
    bench_end(&b);

    bench_begin(&b, 0);
    put_leader_info(&b, 1);
    put_snapshot(&b, 5, false, false);
    memcpy(b.in.data + b.in.len - 4, "Gone", 4);
    for (int i = 0; i < 400; i++) {
        buf_append_u8(&b.in, 0);
    }
    assert_int_equal(feed(&b, 1000), CONCLAVE_EPROTO);
    bench_end(&b);

    bench_begin(&b, 5);
    put_leader_info(&b, 1);
    put_packet(&b, DIFF, 5, SLICE_NULL);
    put_packet(&b, UPTODATE, -1, SLICE_NULL); /* before NEWLEADER */
    assert_int_equal(feed(&b, 1000), CONCLAVE_EPROTO);
    bench_end(&b);

    make_live(&b, 0x200000005);
    put_packet(&b, INFORM, 0x200000006, slice_str("no transaction"));
    assert_int_equal(feed(&b, 1000), CONCLAVE_ECORRUPT);
    bench_end(&b);

    make_live(&b, 0x200000005);
    put_packet(&b, INFORMANDACTIVATE, 0x200000006, slice_str("short"));
    assert_int_equal(feed(&b, 1000), CONCLAVE_EPROTO);
    bench_end(&b);
}

static int feed_and_end(struct bench *b, const char *why)
{
    int rc = feed(b, 4096);
    assert_true(rc < 0);
    assert_non_null(strstr(learner_problem(b->l), why));
    bench_end(b);
    return rc;
}

/* Streams without an end take no memory without an end. */
static void test_endless_streams(void **state)
{
    struct bench b;
    bench_begin(&b, 0x200000005);
    put_leader_info(&b, 3);
    put_packet(&b, DIFF, 0x200000005, SLICE_NULL);
    for (int i = 0; i < 4 << 20; i++) { /* empty proposals that are never committed */
        put_packet(&b, PROPOSAL, 0x200000006 + i, slice_make("", 0));
        if (i % 4096 == 0 && feed(&b, 1 << 20) != 0) {
            break;
        }
    }
    assert_non_null(strstr(learner_problem(b.l), "too many without a commit"));
    bench_end(&b);

    bench_begin(&b, 0x200000005);
    put_leader_info(&b, 3);
    put_packet(&b, DIFF, 0x200000005, SLICE_NULL);
    for (int i = 0; i < 4 << 20; i++) { /* pings to a leader that reads no answers */
        put_packet(&b, PING, 0x200000005, SLICE_NULL);
        if (i % 4096 == 0 && feed(&b, 1 << 20) != 0) {
            break;
        }
    }
    assert_non_null(strstr(learner_problem(b.l), "does not read"));
    bench_end(&b);
}

/* A whole state has a limit, as a SNAP and as transactions behind an empty tree. */
static void test_a_state_that_is_too_large(void **state)
{
    for (int form = 0; form < 2; form++) {
        struct bench b;
        bench_begin(&b, 0);
        learner_destroy(b.l);
        const struct learner_options options = {
            .server_id = 77, .key = &hash_key_fixed, .data_max = 100000};
        const struct learner_callbacks callbacks = {&b,      on_state, on_transaction,
                                                    on_live, on_seen,  on_barrier};
        b.l = learner_create(&options, &callbacks);
        assert_non_null(b.l);
        put_leader_info(&b, 3);
        if (form == 0) {
            put_packet(&b, SNAP, 0x200000005, SLICE_NULL);
            buf_append_i32(&b.in, 0);
            buf_append_i32(&b.in, 0);
            put_node(&b, "", "");
        } else {
            put_packet(&b, DIFF, 0x200000005, SLICE_NULL);
        }
        for (int i = 0; i < 5000; i++) {
            char path[16];
            snprintf(path, sizeof path, "/n%d", i);
            if (form == 0) {
                put_node(&b, path, "data");
                continue;
            }
            struct buf data;
            buf_init(&data, 0);
            const struct wire_txn_header header = {SESSION + i, 1, 0x200000001 + i, 1000,
                                                   WIRE_CREATE_SESSION};
            wire_encode_txn_header(&data, &header);
            buf_append_i32(&data, 9000);
            put_packet(&b, INFORM, header.zxid, buf_slice(&data));
            buf_finish(&data);
        }
        assert_int_equal(feed_and_end(&b, "maxDataBytes"), CONCLAVE_QUOTA_EXCEEDED);
    }
}

static void test_no_leader_says_this(void **state)
{
    struct bench b;
    bench_begin(&b, 0x200000005);
    put_leader_info(&b, 3);
    put_packet(&b, DIFF, 0x200000005, SLICE_NULL);
    put_packet(&b, NEWLEADER, 0x300000000, SLICE_NULL);
    put_packet(&b, NEWLEADER, 0x300000000, SLICE_NULL);
    feed_and_end(&b, "NEWLEADER comes twice");

    bench_begin(&b, 0x200000005);
    put_leader_info(&b, 3);
    put_packet(&b, DIFF, 0x200000005, SLICE_NULL);
    put_set(&b, INFORM, 0x7fffffff00000001); /* what came later would not fit in a zxid */
    feed_and_end(&b, "leaves none for later");

    bench_begin(&b, 0);
    put_leader_info(&b, 3);
    put_packet(&b, SNAP, 5, SLICE_NULL);
    buf_append_i32(&b.in, 0);
    buf_append_i32(&b.in, 0);
    put_node(&b, "", "");
    put_node(&b, "/a\n\x1b[1mevent=\"x\"", ""); /* would forge lines of a log */
    int rc = feed(&b, 4096);
    assert_int_equal(rc, CONCLAVE_ECORRUPT);
    for (const char *c = learner_problem(b.l); *c != '\0'; c++) {
        assert_true(*c >= ' ' && *c != '"');
    }
    bench_end(&b);
}

/* Every flipped byte of a whole conversation ends in some outcome, without a fault. */
static void test_flipped_bytes(void **state)
{
    struct bench b;
    bench_begin(&b, 0);
    put_leader_info(&b, 3);
    put_snapshot(&b, 0x200000005, true, true);
    put_packet(&b, NEWLEADER, 0x300000000, SLICE_NULL);
    put_packet(&b, UPTODATE, -1, SLICE_NULL);
    put_set(&b, INFORM, 0x300000001);
    struct buf whole = b.in;
    buf_init(&b.in, 0);
    bench_end(&b);
    for (size_t at = 0; at < whole.len; at++) {
        bench_begin(&b, 0);
        buf_append_slice(&b.in, buf_slice(&whole));
        b.in.data[at] ^= 0x41;
        (void)feed(&b, 100);
        bench_end(&b);
    }
    buf_finish(&whole);
}

static void test_lists_of_servers(void **state)
{
    struct net_address servers[LEARNER_SERVERS_MAX];
    assert_int_equal(learner_servers_parse(slice_str("a:1"), servers), 1);
    assert_int_equal(
        learner_servers_parse(slice_str("10.0.0.1:2888,[::1]:2889,host:65535"), servers), 3);
    assert_string_equal(servers[1].host, "::1");
    assert_int_equal(servers[2].port, 65535);
    static const char *const wrong[] = {"",    ",",    "a",        "a:",     ":1",
                                        "a:0", "a:1,", "a:1,,b:2", "a:70000"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(learner_servers_parse(slice_str(wrong[i]), servers), 0);
    }
    char many[40 * 4 + 1] = "";
    for (int i = 0; i < 33; i++) {
        strcat(many, i > 0 ? ",a:1" : "a:1");
    }
    assert_int_equal(learner_servers_parse(slice_str(many), servers), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_snapshot),
        cmocka_unit_test(test_a_difference),
        cmocka_unit_test(test_a_difference_from_nothing),
        cmocka_unit_test(test_not_now),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_a_barrier),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_endless_streams),
        cmocka_unit_test(test_a_state_that_is_too_large),
        cmocka_unit_test(test_no_leader_says_this),
        cmocka_unit_test(test_flipped_bytes),
        cmocka_unit_test(test_lists_of_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
