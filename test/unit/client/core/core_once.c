/* The connection core: exactly-once writes, asked for, granted or not, and a link that breaks anywhere. */
#include "client/core/core_internal.h"
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct core_options asking(void)
{
    struct core_options options = peer_options("/app");
    options.exactly_once = true;
    return options;
}

static struct wire_connect_grant plenty(void)
{
    return (struct wire_connect_grant){.magic = WIRE_EXTENSION_MAGIC,
                                       .features = WIRE_FEATURE_EXACTLY_ONCE,
                                       .results_max = 1000,
                                       .bytes_max = 100000,
                                       .born = 77};
}

static void put_connect(struct buf *b, int64_t session_id, const struct wire_connect_grant *grant)
{
    uint8_t passwd[WIRE_PASSWD_LEN] = {1};
    struct wire_connect_response response = {.timeout_ms = PEER_TIMEOUT_MS,
                                             .session_id = session_id,
                                             .passwd = slice_make(passwd, sizeof passwd)};
    size_t start = wire_frame_begin(b);
    wire_encode_connect_response(b, &response);
    wire_write_boolean(b, false);
    if (grant != NULL) {
        wire_encode_connect_grant(b, grant);
    }
    wire_frame_end(b, start);
}

/* A link whose server grants this; NULL: it knows nothing of it. Returns the connect request. */
static struct peer_frame connect_to(struct peer *p, int64_t session_id,
                                    const struct wire_connect_grant *grant)
{
    struct peer_frame f;
    struct buf b;
    p->sent_at = p->sent.len;
    core_link_up(&p->core, p->now_ns, 1000);
    assert_true(peer_take(p, &f, true));
    buf_init(&b, 0);
    put_connect(&b, session_id, grant);
    peer_feed(p, buf_slice(&b), 0);
    buf_finish(&b);
    return f;
}

static void open_granted(struct peer *p)
{
    struct core_options options = asking();
    struct wire_connect_grant grant = plenty();
    peer_init_with(p, &options);
    connect_to(p, PEER_SESSION, &grant);
    assert_true(p->core.once.granted);
}

static void cut(struct peer *p)
{
    core_link_down(&p->core, p->now_ns, CONCLAVE_EDISCONNECTED);
}

static void set(struct peer *p, const char *path, int id)
{
    struct conclave_op op = conclave_op_set(path, "x", 1, -1);
    assert_int_equal(peer_submit(p, &op, id), 0);
}

static void get(struct peer *p, const char *path, int id)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    assert_int_equal(peer_submit(p, &op, id), 0);
}

static struct wire_write_number number_of(const struct peer_frame *f)
{
    struct wire_write_number n;
    struct wire_reader r = wire_reader_make(
        slice_make(f->body.data + f->body.len - WIRE_WRITE_NUMBER_LEN, WIRE_WRITE_NUMBER_LEN));
    assert_int_equal(wire_decode_write_number(&r, &n), 0);
    return n;
}

/* The next frame is a setData of the path with these numbers. */
static struct peer_frame expect_set(struct peer *p, const char *path, int32_t number,
                                    int32_t unanswered)
{
    struct peer_frame f = peer_expect(p, WIRE_SET_DATA);
    struct wire_set_data_request request;
    struct wire_reader r = wire_reader_make(f.body);
    assert_int_equal(wire_decode_set_data_request(&r, &request), 0);
    assert_true(slice_equal_str(request.path, path));
    assert_int_equal(wire_left(&r), WIRE_WRITE_NUMBER_LEN);
    assert_int_equal(number_of(&f).number, number);
    assert_int_equal(number_of(&f).unanswered, unanswered);
    return f;
}

static void expect_nothing(struct peer *p)
{
    struct peer_frame f;
    assert_false(peer_take(p, &f, false));
}

static void only_who_wants_it_asks(void **state)
{
    struct peer p;
    size_t lengths[2];
    for (int i = 0; i < 2; i++) {
        struct core_options options = asking();
        options.exactly_once = i > 0;
        peer_init_with(&p, &options);
        struct wire_connect_grant grant = plenty();
        lengths[i] = connect_to(&p, PEER_SESSION, &grant).body.len;
        assert_int_equal(p.core.once.granted, i > 0); /* who did not ask is granted nothing */
        peer_finish(&p);
    }
    assert_int_equal(lengths[0], 45); /* with the readOnly byte */
    assert_int_equal(lengths[1], 45 + 8);
}

/* Credentials and watches come first, then what was unanswered in its order, then what came meanwhile. */
static void what_was_unanswered_is_sent_again(void **state)
{
    struct peer p;
    struct wire_connect_grant grant = plenty();
    open_granted(&p);
    assert_int_equal(core_add_auth(&p.core, "digest", slice_str("a:b")), 0);
    peer_expect(&p, WIRE_AUTH);
    peer_watch(&p, CONCLAVE_OP_EXISTS, "/w", 9);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 5);
    set(&p, "/a", 1);
    get(&p, "/a", 2);
    set(&p, "/b", 3);
    f = expect_set(&p, "/app/a", 1, 1);
    peer_answer_stat(&p, &f, 6);
    peer_expect(&p, WIRE_EXISTS);
    expect_set(&p, "/app/b", 2, 1);
    cut(&p);
    assert_int_equal(p.core.state, CONCLAVE_STATE_SUSPENDED);
    assert_int_equal(p.replies_count, 2);
    set(&p, "/c", 4);
    connect_to(&p, PEER_SESSION, &grant);
    assert_int_equal(p.core.state, CONCLAVE_STATE_RECONNECTED);
    peer_expect(&p, WIRE_AUTH);
    peer_expect(&p, WIRE_SET_WATCHES);
    struct peer_frame read = peer_expect(&p, WIRE_EXISTS);
    f = expect_set(&p, "/app/b", 2, 2);
    struct peer_frame last = expect_set(&p, "/app/c", 3, 2);
    assert_true(read.xid < f.xid && f.xid < last.xid);
    expect_nothing(&p);
    peer_reply(&p, WIRE_XID_SET_WATCHES, 6, 0, slice_make("", 0));
    peer_answer_stat(&p, &read, 7);
    peer_answer_stat(&p, &f, 7);
    peer_answer_stat(&p, &last, 8);
    for (int id = 1; id <= 4; id++) {
        assert_int_equal(peer_reply_of(&p, id)->error, 0);
    }
    assert_true(peer_reply_of(&p, 2)->order < peer_reply_of(&p, 3)->order);
    set(&p, "/d", 5);
    f = expect_set(&p, "/app/d", 4, 4);
    peer_answer_stat(&p, &f, 9);
    peer_finish(&p);
}

/* A server that grants it knows create2, so what it does not implement is this node: the program is told, the
 * link stays, and so does create2. */
static void a_refused_create_is_told(void **state)
{
    struct peer p;
    open_granted(&p);
    struct conclave_op op = conclave_op_create("/a", "x", 1, CONCLAVE_PERSISTENT);
    for (int id = 1; id <= 2; id++) {
        assert_int_equal(peer_submit(&p, &op, id), 0);
        struct peer_frame f = peer_expect(&p, WIRE_CREATE2);
        assert_int_equal(number_of(&f).number, id);
        peer_reply(&p, f.xid, 5 + id, CONCLAVE_UNIMPLEMENTED, slice_make("", 0));
        assert_int_equal(peer_reply_of(&p, id)->error, CONCLAVE_UNIMPLEMENTED);
        assert_int_equal(p.core.link, LINK_UP);
    }
    peer_finish(&p);
}

/* Again and again, the second time in the middle of the first. */
static void links_may_be_lost_again(void **state)
{
    struct peer p;
    struct wire_connect_grant grant = plenty();
    open_granted(&p);
    for (int i = 1; i <= 3; i++) {
        set(&p, "/a", i);
    }
    cut(&p);
    connect_to(&p, PEER_SESSION, &grant);
    struct peer_frame f = expect_set(&p, "/app/a", 1, 1);
    expect_set(&p, "/app/a", 2, 1);
    expect_set(&p, "/app/a", 3, 1);
    peer_answer_stat(&p, &f, 5);
    set(&p, "/b", 4);
    expect_set(&p, "/app/b", 4, 2);
    cut(&p);
    cut(&p);
    connect_to(&p, PEER_SESSION, &grant);
    for (int i = 2; i <= 4; i++) {
        f = expect_set(&p, i == 4 ? "/app/b" : "/app/a", i, i == 2 ? 2 : i);
        peer_answer_stat(&p, &f, 6);
        if (i == 2) {
            expect_set(&p, "/app/a", 3, 2);
            expect_set(&p, "/app/b", 4, 2);
            cut(&p);
            connect_to(&p, PEER_SESSION, &grant);
        }
        if (i == 3) {
            expect_set(&p, "/app/b", 4, 3);
            cut(&p);
            connect_to(&p, PEER_SESSION, &grant);
        }
    }
    for (int id = 1; id <= 4; id++) {
        assert_int_equal(peer_reply_of(&p, id)->error, 0);
    }
    peer_finish(&p);
}

/* Reads with a sync, addWatch, a transaction: whatever there is. */
static void all_kinds_are_sent_again(void **state)
{
    struct peer p;
    struct wire_connect_grant grant = plenty();
    open_granted(&p);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/a", 0);
    op.linearizable = true;
    assert_int_equal(peer_submit(&p, &op, 1), 0);
    peer_add_watch(&p, "/w", CONCLAVE_WATCH_PERSISTENT, 2);
    struct conclave_op part = conclave_op_path(CONCLAVE_OP_DELETE, "/a", -1);
    op = conclave_op_multi(&part, 1);
    assert_int_equal(peer_submit(&p, &op, 3), 0);
    for (int i = 0; i < 2; i++) {
        struct peer_frame sync = peer_expect(&p, WIRE_SYNC);
        struct peer_frame read = peer_expect(&p, WIRE_EXISTS);
        struct peer_frame watch = peer_expect(&p, WIRE_ADD_WATCH);
        struct peer_frame multi = peer_expect(&p, WIRE_MULTI);
        assert_int_equal(number_of(&multi).number, 1);
        struct buf b;
        buf_init(&b, 0);
        wire_write_string(&b, slice_str("/app/a"));
        peer_reply(&p, sync.xid, 2, 0, buf_slice(&b));
        if (i == 0) {
            buf_finish(&b);
            assert_int_equal(p.core.pending, 3);
            cut(&p);
            assert_int_equal(p.core.pending, 4); /* the sync is to come again */
            connect_to(&p, PEER_SESSION, &grant);
            continue;
        }
        peer_answer_stat(&p, &read, 3);
        buf_reset(&b);
        wire_write_i32(&b, 0);
        peer_reply(&p, watch.xid, 3, 0, buf_slice(&b));
        buf_reset(&b);
        wire_encode_multi_header(&b, &(struct wire_multi_header){WIRE_DELETE, false, 0});
        wire_encode_multi_header(&b, &(struct wire_multi_header){WIRE_ERROR, true, -1});
        peer_reply(&p, multi.xid, 4, 0, buf_slice(&b));
        buf_finish(&b);
    }
    for (int id = 1; id <= 3; id++) {
        assert_int_equal(peer_reply_of(&p, id)->error, 0);
    }
    peer_event(&p, WIRE_EVENT_NODE_DATA_CHANGED, "/app/w");
    assert_int_equal(peer_watches_of(&p, 2), 1);
    peer_finish(&p);
}

static void without_the_grant_it_is_as_ever(void **state)
{
    struct peer p;
    struct core_options options = asking();
    struct wire_connect_grant grant = plenty();
    struct wire_connect_grant wrong[4] = {plenty(), plenty(), plenty(), plenty()};
    wrong[0].magic = 1;
    wrong[1].features = 2;
    wrong[2].results_max = 0;
    wrong[3].bytes_max = -1;
    for (int i = 0; i < 5; i++) {
        peer_init_with(&p, &options);
        connect_to(&p, PEER_SESSION, i < 4 ? &wrong[i] : NULL);
        assert_false(p.core.once.granted);
        set(&p, "/a", 1);
        struct peer_frame f = peer_expect(&p, WIRE_SET_DATA);
        struct wire_set_data_request request;
        struct wire_reader r = wire_reader_make(f.body);
        assert_int_equal(wire_decode_set_data_request(&r, &request), 0);
        assert_int_equal(wire_left(&r), 0);
        cut(&p);
        assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_CONNECTION_LOSS);
        /* The next server has it. */
        connect_to(&p, PEER_SESSION, &grant);
        set(&p, "/a", 2);
        expect_set(&p, "/app/a", 1, 1);
        peer_finish(&p);
    }
}

/* It is not there any more, or it is another memory than that of the link before: nobody can tell what
 * became of the requests that were sent. Those that were not go on. */
static void what_cannot_be_told_is_not_sent_again(void **state)
{
    for (int other = 0; other < 2; other++) {
        struct peer p;
        struct wire_connect_grant anew = plenty();
        anew.born++;
        anew.last = 41;
        open_granted(&p);
        set(&p, "/a", 1);
        get(&p, "/a", 2);
        expect_set(&p, "/app/a", 1, 1);
        cut(&p);
        set(&p, "/b", 3);
        assert_int_equal(p.replies_count, 0);
        connect_to(&p, PEER_SESSION, other ? &anew : NULL);
        assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_CONNECTION_LOSS);
        assert_int_equal(peer_reply_of(&p, 2)->error, CONCLAVE_CONNECTION_LOSS);
        struct peer_frame f =
            other ? expect_set(&p, "/app/b", 42, 42) : peer_expect(&p, WIRE_SET_DATA);
        expect_nothing(&p);
        peer_answer_stat(&p, &f, 5);
        assert_int_equal(peer_reply_of(&p, 3)->error, 0);
        peer_finish(&p);
    }
}

static void what_ends_the_waiting(void **state)
{
    struct wire_connect_grant grant = plenty();
    for (int end = 0; end < 4; end++) {
        struct peer p;
        open_granted(&p);
        struct conclave_op op = conclave_op_set("/a", "x", 1, -1);
        op.timeout_ms = end == 0 ? 500 : 0;
        assert_int_equal(peer_submit(&p, &op, 1), 0);
        set(&p, "/b", 2);
        cut(&p);
        assert_int_equal(p.replies_count, 0);
        if (end == 0) { /* the request's time */
            peer_advance_ms(&p, 600);
            assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_OPERATION_TIMEOUT);
            connect_to(&p, PEER_SESSION, &grant);
            struct peer_frame f = expect_set(&p, "/app/b", 2, 1);
            expect_nothing(&p);
            peer_answer_stat(&p, &f, 5);
            assert_int_equal(peer_reply_of(&p, 2)->error, 0);
            peer_finish(&p);
            continue;
        }
        if (end == 1) { /* nobody was reached in time */
            peer_advance_ms(&p, PEER_TIMEOUT_MS + 1);
        } else if (end == 2) { /* a server says so */
            p.sent_at = p.sent.len;
            core_link_up(&p.core, p.now_ns, 1000);
            struct peer_frame f;
            assert_true(peer_take(&p, &f, true));
            struct buf b;
            buf_init(&b, 0);
            peer_put_connect(&b, 0, 0, WIRE_PASSWD_LEN);
            peer_feed(&p, buf_slice(&b), 0);
            buf_finish(&b);
        } else {
            core_close(&p.core, p.now_ns, 1000);
        }
        int error = end == 3 ? CONCLAVE_ECLOSED : CONCLAVE_SESSION_EXPIRED;
        assert_int_equal(peer_reply_of(&p, 1)->error, error);
        assert_int_equal(peer_reply_of(&p, 2)->error, error);
        if (end == 3) {
            peer_advance_ms(&p, 1001);
        } else { /* a new session begins at 1 */
            set(&p, "/c", 3);
            connect_to(&p, PEER_SESSION + 1, &grant);
            expect_set(&p, "/app/c", 1, 1);
        }
        peer_finish(&p);
    }
}

/* Timed out on a link that then is lost: it is not sent again, as nobody waits for it. */
static void who_was_answered_is_not_sent_again(void **state)
{
    struct peer p;
    struct wire_connect_grant grant = plenty();
    open_granted(&p);
    struct conclave_op op = conclave_op_set("/a", "x", 1, -1);
    op.timeout_ms = 100;
    assert_int_equal(peer_submit(&p, &op, 1), 0);
    set(&p, "/b", 2);
    peer_advance_ms(&p, 200);
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_OPERATION_TIMEOUT);
    cut(&p);
    connect_to(&p, PEER_SESSION, &grant);
    struct peer_frame f = expect_set(&p, "/app/b", 2, 1);
    expect_nothing(&p);
    peer_answer_stat(&p, &f, 5);
    set(&p, "/c", 3);
    expect_set(&p, "/app/c", 3, 3);
    peer_finish(&p);
}

/* The session has moved to another server before the repetition of a write came, whose first try may have been carried
 * out: nobody is told, and the next server is asked about the same number, with or without a policy to repeat. */
static void what_a_moved_session_may_have_done_is_unknown(void **state)
{
    for (int policy = 0; policy < 2; policy++) {
        struct peer p;
        struct core_options options = asking();
        struct wire_connect_grant grant = plenty();
        options.retry =
            (struct conclave_retry_options){sizeof options.retry, policy == 1 ? 4 : 0, 10, 20};
        peer_init_with(&p, &options);
        connect_to(&p, PEER_SESSION, &grant);
        set(&p, "/a", 1);
        set(&p, "/b", 2);
        expect_set(&p, "/app/a", 1, 1);
        expect_set(&p, "/app/b", 2, 1);
        for (int link = 0; link < 3; link++) { /* on the first one nothing is answered */
            cut(&p);
            connect_to(&p, PEER_SESSION, &grant);
            struct peer_frame f = expect_set(&p, "/app/a", 1, 1);
            expect_set(&p, "/app/b", 2, 1);
            peer_reply(&p, f.xid, 5, CONCLAVE_SESSION_MOVED, slice_make("", 0));
            assert_int_equal(p.replies_count, 0);
            assert_int_equal(p.core.state, CONCLAVE_STATE_SUSPENDED);
        }
        connect_to(&p, PEER_SESSION, &grant);
        for (int id = 1; id <= 2; id++) {
            struct peer_frame f = expect_set(&p, id == 1 ? "/app/a" : "/app/b", id, 1);
            peer_answer_stat(&p, &f, 6); /* both are on the link since before the first answer */
            assert_int_equal(peer_reply_of(&p, id)->error, 0);
        }
        peer_finish(&p);
    }
}

/* A write that was never sent before was refused, and nothing else: it is answered, or repeated as another one. */
static void a_first_try_that_was_refused_is_certain(void **state)
{
    struct peer p;
    open_granted(&p);
    set(&p, "/a", 1);
    struct peer_frame f = expect_set(&p, "/app/a", 1, 1);
    peer_reply(&p, f.xid, 5, CONCLAVE_SESSION_MOVED, slice_make("", 0));
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_SESSION_MOVED);
    peer_finish(&p);
}

/* No more is on the link than the server remembers; reads pass until a write has to wait. */
static void the_server_s_limits_are_kept(void **state)
{
    struct peer p;
    struct core_options options = asking();
    struct wire_connect_grant grant = plenty();
    grant.results_max = 3;
    peer_init_with(&p, &options);
    connect_to(&p, PEER_SESSION, &grant);
    for (int i = 1; i <= 5; i++) {
        set(&p, "/a", i);
    }
    get(&p, "/a", 6);
    struct peer_frame f[6];
    for (int i = 0; i < 3; i++) {
        f[i] = expect_set(&p, "/app/a", i + 1, 1);
    }
    expect_nothing(&p);
    peer_answer_stat(&p, &f[0], 5);
    f[3] = expect_set(&p, "/app/a", 4, 2);
    expect_nothing(&p);
    cut(&p);
    connect_to(&p, PEER_SESSION, &grant);
    for (int i = 1; i < 4; i++) {
        f[i] = expect_set(&p, "/app/a", i + 1, 2);
    }
    expect_nothing(&p);
    peer_answer_stat(&p, &f[1], 6);
    f[4] = expect_set(&p, "/app/a", 5, 3);
    f[5] = peer_expect(&p, WIRE_EXISTS);
    for (int i = 2; i < 6; i++) {
        peer_answer_stat(&p, &f[i], 7);
    }
    for (int id = 1; id <= 6; id++) {
        assert_int_equal(peer_reply_of(&p, id)->error, 0);
    }
    peer_finish(&p);
}

static void limits_in_bytes_too(void **state)
{
    struct peer p;
    struct core_options options = asking();
    struct wire_connect_grant grant = plenty();
    grant.bytes_max = 2 * 68 + 10; /* two stats */
    peer_init_with(&p, &options);
    connect_to(&p, PEER_SESSION, &grant);
    struct conclave_op parts[3] = {conclave_op_set("/a", "x", 1, -1),
                                   conclave_op_set("/a", "x", 1, -1),
                                   conclave_op_set("/a", "x", 1, -1)};
    struct conclave_op multi = conclave_op_multi(parts, 3);
    for (int i = 1; i <= 3; i++) {
        set(&p, "/a", i);
    }
    assert_int_equal(peer_submit(&p, &multi, 4), 0);
    set(&p, "/a", 5);
    struct peer_frame one = expect_set(&p, "/app/a", 1, 1);
    struct peer_frame two = expect_set(&p, "/app/a", 2, 1);
    expect_nothing(&p);
    peer_answer_stat(&p, &one, 5);
    struct peer_frame three = expect_set(&p, "/app/a", 3, 2);
    expect_nothing(&p);
    peer_answer_stat(&p, &two, 6);
    expect_nothing(&p);
    peer_answer_stat(&p, &three, 7);
    struct peer_frame big = peer_expect(&p, WIRE_MULTI); /* alone */
    expect_nothing(&p);
    struct buf b;
    buf_init(&b, 0);
    for (int i = 0; i < 3; i++) {
        wire_encode_multi_header(&b, &(struct wire_multi_header){WIRE_SET_DATA, false, 0});
        peer_put_stat(&b, 8);
    }
    wire_encode_multi_header(&b, &(struct wire_multi_header){WIRE_ERROR, true, -1});
    assert_true(b.len <= core_once_answer_max(&p.core, &multi));
    peer_reply(&p, big.xid, 8, 0, buf_slice(&b));
    buf_finish(&b);
    expect_set(&p, "/app/a", 5, 5);
    peer_finish(&p);
}

static void numbers_wrap(void **state)
{
    struct peer p;
    struct core_options options = asking();
    struct wire_connect_grant grant = plenty();
    grant.last = INT32_MAX - 1; /* a session that was handed over */
    options.session_id = PEER_SESSION;
    peer_init_with(&p, &options);
    connect_to(&p, PEER_SESSION, &grant);
    for (int i = 1; i <= 3; i++) {
        set(&p, "/a", i);
    }
    struct peer_frame f = expect_set(&p, "/app/a", INT32_MAX, INT32_MAX);
    expect_set(&p, "/app/a", INT32_MIN, INT32_MAX);
    expect_set(&p, "/app/a", INT32_MIN + 1, INT32_MAX);
    peer_answer_stat(&p, &f, 5);
    cut(&p);
    connect_to(&p, PEER_SESSION, &grant);
    expect_set(&p, "/app/a", INT32_MIN, INT32_MIN);
    expect_set(&p, "/app/a", INT32_MIN + 1, INT32_MIN);
    peer_finish(&p);
}

/* The numbers of requests may run over while writes wait: they are no part of it. */
static void xids_wrap_too(void **state)
{
    struct peer p;
    struct wire_connect_grant grant = plenty();
    open_granted(&p);
    p.core.next_xid = INT32_MAX;
    set(&p, "/a", 1);
    set(&p, "/b", 2);
    assert_int_equal(expect_set(&p, "/app/a", 1, 1).xid, INT32_MAX);
    assert_int_equal(expect_set(&p, "/app/b", 2, 1).xid, 1);
    cut(&p);
    connect_to(&p, PEER_SESSION, &grant);
    struct peer_frame f = expect_set(&p, "/app/a", 1, 1);
    peer_answer_stat(&p, &f, 3);
    f = expect_set(&p, "/app/b", 2, 1);
    peer_answer_stat(&p, &f, 4);
    assert_int_equal(peer_reply_of(&p, 1)->error, 0);
    assert_int_equal(peer_reply_of(&p, 2)->error, 0);
    peer_finish(&p);
}

/* The longest frame that is allowed has room for the number. */
static void the_number_counts_in_the_limit(void **state)
{
    struct peer p;
    struct core_options options = asking();
    struct wire_connect_grant grant = plenty();
    options.max_request = 200;
    peer_init_with(&p, &options);
    connect_to(&p, PEER_SESSION, &grant);
    char data[200] = {0};
    size_t len = 0;
    struct conclave_op op;
    do {
        op = conclave_op_set("/a", data, len++, -1);
    } while (peer_submit(&p, &op, (int)len) == 0);
    struct peer_frame f;
    size_t longest = 0;
    while (peer_take(&p, &f, false)) {
        longest = f.body.len + 8;
    }
    assert_int_equal(longest, 200);
    peer_finish(&p);
}

/* --- a link that breaks after every byte ------------------------------------------------------ */

enum { STEPS = 4 };

/* A server: each setData adds one to a counter, unless it came before. */
struct counter {
    int value;
    int32_t last;
    int answers[STEPS + 1]; /* value that a number was answered with */
    int skipped;            /* repetitions */
    bool forgetful;         /* the fault that this test is to find: it remembers nothing */
    struct wire_connect_grant grant;
};

static void serve(struct counter *s, struct slice frame, bool handshake, struct buf *out)
{
    struct wire_reader r = wire_reader_make(frame);
    if (handshake) {
        s->grant.last = s->last;
        put_connect(out, PEER_SESSION, &s->grant);
        return;
    }
    int32_t xid = wire_read_i32(&r);
    assert_int_equal(wire_read_i32(&r), WIRE_SET_DATA);
    struct wire_set_data_request request;
    struct wire_write_number n;
    assert_int_equal(wire_decode_set_data_request(&r, &request), 0);
    assert_int_equal(wire_decode_write_number(&r, &n), 0);
    bool again = n.number <= s->last;
    s->skipped += again;
    if (!again || s->forgetful) {
        s->answers[n.number] = ++s->value;
        s->last = n.number;
    }
    struct buf stat;
    buf_init(&stat, 0);
    peer_put_stat(&stat, s->answers[n.number]);
    peer_put_reply(out, xid, s->value, 0, buf_slice(&stat));
    buf_finish(&stat);
}

/* Runs a link until it has carried up_max bytes to the server or down_max back, then it is cut. */
static void run_link(struct peer *p, struct counter *s, size_t *up_max, size_t *down_max)
{
    struct buf up;
    buf_init(&up, 0);
    bool handshake = true;
    core_link_up(&p->core, p->now_ns, 1000);
    for (;;) {
        struct slice out = core_output(&p->core);
        size_t n = out.len < *up_max ? out.len : *up_max;
        buf_append(&up, out.data, n);
        core_sent(&p->core, n);
        *up_max -= n;
        bool broken = n < out.len;
        struct buf down;
        struct slice body;
        int32_t len;
        buf_init(&down, 0);
        while (wire_frame_cut(buf_slice(&up), 1 << 20, &body, &len) == 1) {
            serve(s, body, handshake, &down);
            handshake = false;
            buf_consume(&up, 4 + body.len);
        }
        n = down.len < *down_max ? down.len : *down_max;
        peer_feed(p, slice_make(down.data, n), 7);
        *down_max -= n;
        broken = broken || n < down.len;
        bool idle = down.len == 0;
        buf_finish(&down);
        if (broken) {
            cut(p);
        }
        if (broken || idle) {
            break;
        }
    }
    buf_finish(&up);
}

/* Cuts at these bytes; returns how many writes were found to be repetitions. */
static int sweep_once(size_t up, size_t down, bool forgetful, int *ret_value)
{
    struct peer p;
    struct core_options options = asking();
    struct counter s = {.grant = plenty(), .forgetful = forgetful};
    peer_init_with(&p, &options);
    for (int id = 1; id <= STEPS; id++) {
        set(&p, "/n", id);
    }
    run_link(&p, &s, &up, &down);
    if (p.core.link == LINK_NONE) {
        up = down = SIZE_MAX;
        run_link(&p, &s, &up, &down);
    }
    for (int id = 1; id <= STEPS; id++) {
        assert_int_equal(peer_replies_of(&p, id), 1);
        assert_int_equal(peer_reply_of(&p, id)->error, 0);
    }
    *ret_value = s.value;
    peer_finish(&p);
    return s.skipped;
}

static void cut_after_every_byte(void **state)
{
    int skipped = 0;
    int doubled = 0;
    for (size_t at = 0; at < 600; at++) {
        int value;
        skipped += sweep_once(at, SIZE_MAX, false, &value);
        assert_int_equal(value, STEPS);
        skipped += sweep_once(SIZE_MAX, at, false, &value);
        assert_int_equal(value, STEPS);
        sweep_once(SIZE_MAX, at, true, &value);
        doubled += value > STEPS;
    }
    assert_true(skipped > 300);
    assert_true(doubled > 100); /* the sweep finds a server that does not remember */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_who_wants_it_asks),
        cmocka_unit_test(what_was_unanswered_is_sent_again),
        cmocka_unit_test(a_refused_create_is_told),
        cmocka_unit_test(links_may_be_lost_again),
        cmocka_unit_test(all_kinds_are_sent_again),
        cmocka_unit_test(without_the_grant_it_is_as_ever),
        cmocka_unit_test(what_cannot_be_told_is_not_sent_again),
        cmocka_unit_test(what_ends_the_waiting),
        cmocka_unit_test(who_was_answered_is_not_sent_again),
        cmocka_unit_test(what_a_moved_session_may_have_done_is_unknown),
        cmocka_unit_test(a_first_try_that_was_refused_is_certain),
        cmocka_unit_test(the_server_s_limits_are_kept),
        cmocka_unit_test(limits_in_bytes_too),
        cmocka_unit_test(numbers_wrap),
        cmocka_unit_test(xids_wrap_too),
        cmocka_unit_test(the_number_counts_in_the_limit),
        cmocka_unit_test(cut_after_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
