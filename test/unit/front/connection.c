/* Requests: order of replies, reads behind writes, watches before replies, bad input, limits,
 * identities. */
#define _GNU_SOURCE /* memmem */
#include "support/service_harness.h"

#include "base/log.h"
#include "base/random.h"

/* Replies come in the order of the requests, and a read sees the write before it. */
static void test_read_waits_for_write(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    int32_t create = guest_request(&p, WIRE_CREATE, body_create("/a", "1", 0));
    int32_t get1 = guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", false));
    int32_t set = guest_request(&p, WIRE_SET_DATA, body_set("/a", "22"));
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    int32_t get2 = guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", false));
    int32_t sync = guest_request(&p, WIRE_SYNC, body_path_watch("/a", false));
    int32_t bad = guest_request(&p, WIRE_GET_DATA, body_path_watch("/none", false));
    service_harness_turn(&h);
    guest_expect_nothing(&p);
    assert_int_equal(p.c.pending_count, 7);
    service_harness_settle(&h);

    struct frame f = guest_expect(&p, create, 0);
    int64_t zxid = f.zxid;
    f = guest_expect(&p, get1, 0);
    assert_int_equal(f.zxid, zxid); /* the state as it was between the two writes */
    assert_int_equal(f.body.len, 4 + 1 + 68);
    f = guest_expect(&p, set, 0);
    assert_int_equal(f.zxid, zxid + 1);
    guest_expect(&p, WIRE_XID_PING, 0);
    f = guest_expect(&p, get2, 0);
    assert_int_equal(f.body.len, 4 + 2 + 68);
    guest_expect(&p, sync, 0);
    f = guest_expect(&p, bad, CONCLAVE_NO_NODE);
    assert_int_equal(f.body.len, 0);
    guest_expect_nothing(&p);
    assert_int_equal(p.c.pending_count, 0);
    assert_int_equal(p.c.account.bytes[ACCOUNT_REQUESTS], 0);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    assert_int_equal(h.service.account.bytes[ACCOUNT_REQUESTS], 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A connection without writes on their way does not wait for those of others. */
static void test_reads_pass_other_writes(void **state)
{
    struct service_harness h;
    struct guest writer;
    struct guest reader;
    service_harness_init(&h, NULL);
    guest_open(&writer, &h, 10000);
    guest_open(&reader, &h, 10000);
    guest_request(&writer, WIRE_CREATE, body_create("/a", "1", 0));
    int32_t get = guest_request(&reader, WIRE_GET_DATA, body_path_watch("/a", false));
    service_harness_turn(&h);
    guest_expect(&reader, get, CONCLAVE_NO_NODE);
    guest_finish(&writer);
    guest_finish(&reader);
    service_harness_settle(&h);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    service_harness_finish(&h);
}

/* The writes of a turn are one batch; while the log is busy the next batch grows. */
static void test_group_commit(void **state)
{
    struct service_harness h;
    struct guest p[3];
    service_harness_init(&h, NULL);
    for (int i = 0; i < 3; i++) {
        guest_open(&p[i], &h, 10000);
    }
    size_t before = h.log_total;
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 3; i++) {
            guest_request(&p[i], WIRE_SET_DATA, body_set("/none", ""));
        }
        service_harness_turn(&h);
    }
    assert_int_equal(h.log_total - before, PIPELINE_IN_FLIGHT);
    assert_int_equal(h.service.pipeline.batch_count, (5 - PIPELINE_IN_FLIGHT) * 3);
    service_harness_settle(&h);
    assert_int_equal(h.log_total - before, PIPELINE_IN_FLIGHT + 1);
    int64_t last = 0;
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 3; i++) {
            struct frame f = guest_expect(&p[i], turn + 1, CONCLAVE_NO_NODE);
            assert_true(f.zxid > last); /* a failed write takes a zxid */
            last = f.zxid;
        }
    }
    for (int i = 0; i < 3; i++) {
        guest_finish(&p[i]);
    }
    service_harness_finish(&h);
}

/* The event of a change comes before its reply and before any read that shows it. */
static void test_watch_order(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest other;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    guest_open(&other, &h, 10000);
    int32_t exists = guest_request(&p, WIRE_EXISTS, body_path_watch("/a", true));
    guest_request(&other, WIRE_GET_CHILDREN, body_path_watch("/", true));
    service_harness_turn(&h);
    guest_expect(&p, exists, CONCLAVE_NO_NODE);
    guest_expect(&other, 1, 0);
    int32_t create = guest_request(&p, WIRE_CREATE, body_create("/a", "1", 0));
    int32_t get = guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", true));
    int32_t set = guest_request(&p, WIRE_SET_DATA, body_set("/a", "2"));
    int32_t del = guest_request(&p, WIRE_DELETE, body_delete("/a"));
    service_harness_settle(&h);
    int64_t zxid = state_zxid(h.service.state);
    guest_expect_event(&p, WIRE_EVENT_NODE_CREATED, "/a", zxid - 2);
    guest_expect(&p, create, 0);
    guest_expect(&p, get, 0);
    guest_expect_event(&p, WIRE_EVENT_NODE_DATA_CHANGED, "/a", zxid - 1);
    guest_expect(&p, set, 0);
    guest_expect(&p, del, 0);
    guest_expect_nothing(&p);
    guest_expect_event(&other, WIRE_EVENT_NODE_CHILDREN_CHANGED, "/", zxid - 2);
    guest_expect_nothing(&other);

    /* Watches go with their connection. */
    guest_request(&other, WIRE_GET_CHILDREN, body_path_watch("/", true));
    guest_finish(&other);
    struct watch_stats stats;
    watch_stats(h.service.watches, &stats);
    assert_int_equal(stats.watches, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void append_strings(struct buf *b, const char *const *paths, int32_t count)
{
    wire_write_i32(b, count);
    for (int32_t i = 0; i < count; i++) {
        wire_write_string(b, slice_str(paths[i]));
    }
}

/* setWatches tells what was missed, with zxid -1 and before its reply, and sets the rest. */
static void test_set_watches(void **state)
{
    struct service_harness h;
    struct guest p;
    struct buf body;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    guest_request(&p, WIRE_CREATE, body_create("/old", "", 0));
    service_harness_settle(&h);
    int64_t seen = state_zxid(h.service.state);
    guest_request(&p, WIRE_CREATE, body_create("/new", "", 0));
    service_harness_settle(&h);
    guest_expect(&p, 1, 0);
    guest_expect(&p, 2, 0);
    buf_init(&body, 0);
    wire_write_i64(&body, seen);
    append_strings(&body, (const char *const[]){"/old", "/gone"}, 2);
    append_strings(&body, (const char *const[]){"/new", "/none"}, 2);
    append_strings(&body, (const char *const[]){"/", "/old"}, 2);
    guest_request_xid(&p, WIRE_XID_SET_WATCHES, WIRE_SET_WATCHES, buf_slice(&body));
    service_harness_turn(&h);
    guest_expect_event(&p, WIRE_EVENT_NODE_DELETED, "/gone", -1);
    guest_expect_event(&p, WIRE_EVENT_NODE_CREATED, "/new", -1);
    guest_expect_event(&p, WIRE_EVENT_NODE_CHILDREN_CHANGED, "/", -1);
    guest_expect(&p, WIRE_XID_SET_WATCHES, 0);
    assert_int_equal(p.c.watcher.count, 3);

    /* Cut short it is a marshalling error, and the connection goes on. */
    guest_request_xid(&p, WIRE_XID_SET_WATCHES, WIRE_SET_WATCHES, slice_make(body.data, 11));
    service_harness_turn(&h);
    guest_expect(&p, WIRE_XID_SET_WATCHES, CONCLAVE_MARSHALLING_ERROR);
    assert_false(p.closed);
    buf_finish(&body);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_close_session(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest other;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    guest_open(&other, &h, 10000);
    guest_request(&p, WIRE_CREATE, body_create("/e", "", WIRE_MODE_EPHEMERAL));
    guest_request(&other, WIRE_EXISTS, body_path_watch("/e", true));
    service_harness_settle(&h);
    int32_t close = guest_request(&p, WIRE_CLOSE_SESSION, slice_str(""));
    guest_request(&p, WIRE_CREATE, body_create("/after", "", 0)); /* nobody reads it */
    service_harness_settle(&h);
    guest_expect(&p, 1, 0);
    struct frame f = guest_expect(&p, close, 0);
    guest_expect_nothing(&p);
    assert_true(p.closed);
    guest_expect(&other, 1, CONCLAVE_NO_NODE);
    guest_expect_event(&other, WIRE_EVENT_NODE_CREATED, "/e", f.zxid - 1);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);
    int32_t after = guest_request(&other, WIRE_EXISTS, body_path_watch("/after", false));
    service_harness_settle(&h);
    guest_expect(&other, after, CONCLAVE_NO_NODE);
    guest_finish(&p);
    guest_finish(&other);
    service_harness_finish(&h);
}

/* An operation that clients do not have: UNIMPLEMENTED in turn, then the end. */
static void test_unknown_operations(void **state)
{
    struct service_harness h;
    const int32_t types[] = {WIRE_NOTIFICATION,
                             WIRE_CHECK,
                             WIRE_DELETE_CONTAINER,
                             WIRE_CREATE_SESSION,
                             WIRE_ERROR,
                             10,
                             999,
                             -12,
                             INT32_MAX,
                             INT32_MIN};
    service_harness_init(&h, NULL);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct guest p;
        guest_open(&p, &h, 4000);
        int32_t set = guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
        int32_t odd = guest_request(&p, types[i], slice_str("abc"));
        guest_request(&p, WIRE_SET_DATA, body_set("/", "y")); /* nobody reads it */
        service_harness_settle(&h);
        guest_expect(&p, set, 0);
        assert_int_equal(guest_expect(&p, odd, CONCLAVE_UNIMPLEMENTED).zxid, -1);
        guest_expect_nothing(&p);
        assert_true(p.closed);
        guest_finish(&p);
    }
    service_harness_finish(&h);
}

/* As in ZooKeeper 3.9: a write that cannot be decoded is answered in its turn, and is no entry of the log. Only a multi
 * takes a zxid. */
static void test_malformed_writes(void **state)
{
    static const int32_t types[] = {WIRE_CREATE,     WIRE_CREATE2, WIRE_CREATE_CONTAINER,
                                    WIRE_CREATE_TTL, WIRE_DELETE,  WIRE_SET_DATA,
                                    WIRE_SET_ACL,    WIRE_RECONFIG};
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        int32_t create = guest_request(&p, WIRE_CREATE, body_create("/a", "", 0));
        int32_t malformed = guest_request(&p, types[i], slice_str("xxx"));
        int32_t delete = guest_request(&p, WIRE_DELETE, body_delete("/a"));
        service_harness_settle(&h);
        int64_t zxid = guest_expect(&p, create, 0).zxid;
        assert_int_equal(guest_expect(&p, malformed, CONCLAVE_MARSHALLING_ERROR).zxid, zxid);
        assert_int_equal(guest_expect(&p, delete, 0).zxid, zxid + 1);
        malformed = guest_request(&p, types[i], slice_str("xxx"));
        service_turn(&h.service);
        assert_int_equal(h.log_count, 0);
        service_harness_settle(&h);
        assert_int_equal(guest_expect(&p, malformed, CONCLAVE_MARSHALLING_ERROR).zxid, zxid + 1);
    }
    int64_t zxid = state_zxid(h.service.state);
    int32_t multi = guest_request(&p, WIRE_MULTI, slice_str("xxx"));
    service_harness_settle(&h);
    assert_int_equal(guest_expect(&p, multi, CONCLAVE_MARSHALLING_ERROR).zxid, zxid + 1);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_bad_frames(void **state)
{
    struct service_harness h;
    const char *const bad[] = {"\xff\xff\xff\xff", "\x80\0\0\0", "\0\x10\0\0", "\0\0\0\0",
                               "\0\0\0\0071234567"};
    const size_t len[] = {4, 4, 4, 4, 11};
    service_harness_init(&h, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct guest p;
        guest_open(&p, &h, 4000);
        guest_send(&p, slice_make(bad[i], len[i]));
        service_harness_turn(&h);
        assert_true(p.closed);
        guest_expect_nothing(&p);
        guest_finish(&p);
    }
    service_harness_finish(&h);
}

/* Writes are applied after their connection has failed and before its socket is closed: no answer,
 * no disorder. */
static void test_applied_while_closing(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 4000);
    for (int i = 0; i < 3; i++) {
        guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
        guest_request(&p, WIRE_GET_DATA, body_path_watch("/", false));
    }
    guest_send(&p, slice_make("\xff\xff\xff\xff", 4));
    service_turn(&h.service);
    service_harness_apply_one(&h);
    service_harness_turn(&h);
    assert_true(p.closed);
    guest_expect_nothing(&p);
    guest_finish(&p);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    service_harness_finish(&h);
}

/* The same bytes in any pieces give the same replies. */
static void test_pieces(void **state)
{
    struct service_harness h;
    struct buf script;
    service_harness_init(&h, NULL);
    buf_init(&script, 0);
    for (int i = 0; i < 20; i++) {
        struct slice body = body_path_watch("/zookeeper", false);
        wire_write_i32(&script, (int32_t)(8 + body.len));
        wire_write_i32(&script, i + 1);
        wire_write_i32(&script, i % 3 == 0 ? WIRE_GET_CHILDREN2 : WIRE_GET_DATA);
        buf_append_slice(&script, body);
    }
    struct prng random = {1};
    for (int round = 0; round < 50; round++) {
        struct guest p;
        guest_open(&p, &h, 4000);
        size_t at = 0;
        while (at < script.len) {
            size_t n = 1 + prng_next(&random) % 40;
            n = n < script.len - at ? n : script.len - at;
            guest_send(&p, slice_make(script.data + at, n));
            at += n;
        }
        service_harness_settle(&h);
        for (int i = 0; i < 20; i++) {
            guest_expect(&p, i + 1, 0);
        }
        guest_expect_nothing(&p);
        guest_finish(&p);
    }
    buf_finish(&script);
    service_harness_finish(&h);
}

/* Random bytes behind good headers and bad: an error or the end, never a crash, and nothing stays
 * outstanding. */
static void test_mutated(void **state)
{
    struct service_harness h;
    struct prng random = {42};
    service_harness_init(&h, NULL);
    log_set_level(LOG_ERROR);
    for (int round = 0; round < 3000; round++) {
        struct guest p;
        guest_open(&p, &h, 4000);
        for (int i = 0; i < 8 && !p.closed; i++) {
            uint8_t body[96];
            struct slice good =
                i % 2 == 0 ? body_create("/m", "data", 0) : body_path_watch("/m", true);
            size_t len = good.len;
            memcpy(body, good.data, len);
            for (uint64_t n = prng_next(&random) % 4; n > 0; n--) {
                body[prng_next(&random) % len] = (uint8_t)prng_next(&random);
            }
            len -= prng_next(&random) % 3 == 0 ? prng_next(&random) % len : 0;
            guest_request(&p, (int32_t)(prng_next(&random) % 24), slice_make(body, len));
            service_harness_settle(&h);
        }
        guest_finish(&p);
    }
    service_harness_settle(&h);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    log_set_level(LOG_INFO);
    service_harness_finish(&h);
}

static void test_auth(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    assert_int_equal(p.c.identity.count, 1);
    /* In turn, though it takes effect at once. */
    int32_t set = guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
    guest_request_xid(&p, WIRE_XID_AUTH, WIRE_AUTH, body_auth("digest", "user1:12345"));
    guest_request_xid(&p, WIRE_XID_AUTH, WIRE_AUTH, body_auth("digest", "user1:12345"));
    guest_request_xid(&p, WIRE_XID_AUTH, WIRE_AUTH, body_auth("digest", "super:test"));
    service_harness_turn(&h);
    guest_expect_nothing(&p);
    service_harness_settle(&h);
    guest_expect(&p, set, 0);
    for (int i = 0; i < 3; i++) {
        struct frame f = guest_expect(&p, WIRE_XID_AUTH, 0);
        assert_int_equal(f.zxid, 0);
    }
    struct wire_vector ids = client_ids_list(&p.c.identity);
    const char *const wanted[][2] = {{"ip", "10.1.2.3"},
                                     {"digest", "user1:+owfoSBn/am19roBPzR1/MfCblE="},
                                     {"super", ""},
                                     {"digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="}};
    assert_int_equal(ids.count, 4);
    for (int i = 0; i < 4; i++) {
        struct wire_id id;
        assert_true(wire_next_id(&ids, &id));
        assert_true(slice_equal_str(id.scheme, wanted[i][0]));
        assert_true(slice_equal_str(id.id, wanted[i][1]));
    }
    int32_t who = guest_request(&p, WIRE_WHO_AM_I, slice_str(""));
    guest_request_xid(&p, WIRE_XID_AUTH, WIRE_AUTH, body_auth("kerberos", "x"));
    service_harness_turn(&h);
    struct frame f = guest_expect(&p, who, 0);
    assert_non_null(memmem(f.body.data, f.body.len, "\0\0\0\x05user1", 9));
    guest_expect(&p, WIRE_XID_AUTH, CONCLAVE_AUTH_FAILED);
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Identities are bounded: they are copied into every write. */
static void test_auth_limit(void **state)
{
    struct service_harness h;
    struct guest p;
    struct client_limits limits = client_limits_default();
    limits.identity_max = 200;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 10000);
    for (int i = 0; i < 10 && !p.closed; i++) {
        char text[32];
        snprintf(text, sizeof text, "user%d:password", i);
        guest_request_xid(&p, WIRE_XID_AUTH, WIRE_AUTH, body_auth("digest", text));
        service_harness_turn(&h);
        assert_true(p.c.identity.ids.len <= 200);
    }
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* At each limit reading pauses, and goes on by itself when there is room. */
static void test_backpressure(void **state)
{
    struct service_harness h;
    struct guest p[4];
    struct client_limits limits = client_limits_default();
    limits.outstanding_max = 20;
    limits.pipelined_max = 8;
    service_harness_init(&h, &limits);
    for (int i = 0; i < 4; i++) {
        guest_open(&p[i], &h, 10000);
    }
    for (int n = 0; n < 50; n++) {
        for (int i = 0; i < 4; i++) {
            guest_request(&p[i], n % 2 == 0 ? WIRE_SET_DATA : WIRE_GET_DATA,
                          n % 2 == 0 ? body_set("/", "x") : body_path_watch("/", false));
        }
    }
    assert_true(h.service.pipeline.outstanding <= 20);
    for (int i = 0; i < 4; i++) {
        assert_true(p[i].c.pending_count <= 8);
        assert_true(p[i].in.len > 0);
    }
    service_harness_settle(&h);
    for (int i = 0; i < 4; i++) {
        for (int n = 0; n < 50; n++) {
            guest_expect(&p[i], n + 1, 0);
        }
        assert_int_equal(p[i].in.len, 0);
        guest_finish(&p[i]);
    }
    service_harness_finish(&h);
}

/* Unread bytes do not count against a session. */
static void test_throttled_session_lives(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest waits;
    struct client_limits limits = client_limits_default();
    limits.outstanding_max = 2;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 4000);
    guest_open(&waits, &h, 4000);
    guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
    guest_request(&p, WIRE_SET_DATA, body_set("/", "y"));
    service_harness_turn(&h);
    guest_request(&waits, WIRE_EXISTS, body_path_watch("/", false));
    assert_true(waits.in.len > 0);
    for (int i = 0; i < 20; i++) {
        service_harness_advance(&h, 1000);
        service_harness_turn(&h);
    }
    service_harness_settle(&h);
    assert_int_equal(h.service.metrics->stale_sessions_expired, 0);
    guest_expect(&waits, 1, 0);
    guest_finish(&p);
    guest_finish(&waits);
    service_harness_finish(&h);
}

/* Who does not read is first not read any more, then, when events go on, cut off. */
static void test_slow_reader(void **state)
{
    struct service_harness h;
    struct guest slow;
    struct guest writer;
    struct client_limits limits = client_limits_default();
    limits.output_pause = 2000;
    limits.output_max = 4000;
    service_harness_init(&h, &limits);
    guest_open(&slow, &h, 10000);
    guest_open(&writer, &h, 10000);
    for (int i = 0; i < 100; i++) {
        guest_request(&slow, WIRE_GET_DATA, body_path_watch("/zookeeper", false));
    }
    assert_true(slow.in.len > 0);
    assert_true(slow.c.out.len < 2000 + 200);
    service_harness_settle(&h);
    assert_int_equal(slow.in.len, 0);
    for (int i = 0; i < 100; i++) {
        guest_expect(&slow, i + 1, 0);
    }
    for (int i = 0; i < 200 && !slow.closed; i++) {
        guest_request(&slow, WIRE_GET_CHILDREN, body_path_watch("/", true));
        service_harness_turn(&h);
        slow.c.sending = 3500; /* as if the socket took nothing more */
        char path[16];
        snprintf(path, sizeof path, "/n%d", i);
        guest_request(&writer, WIRE_CREATE, body_create(path, "", 0));
        for (int n = 0; n < 40; n++) {
            connection_event(&slow.c, WIRE_EVENT_NODE_DATA_CHANGED, slice_str("/x"), 1);
        }
        service_harness_settle(&h);
    }
    assert_true(slow.closed);
    assert_int_equal(h.service.metrics->conclave_slow_clients_cut_total, 1);
    assert_false(writer.closed);
    guest_finish(&slow);
    guest_finish(&writer);
    service_harness_finish(&h);
}

static struct slice big_body_set(const char *path, size_t len)
{
    static char data[100001];
    memset(data, 'x', len);
    data[len] = '\0';
    return body_set(path, data);
}

/* Reads that wait behind a write are answered at one go: what they will take is not asked for without
 * bound, and all of it comes in the end. */
static void test_pipelined_reads_hold_little(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    guest_request(&p, WIRE_SET_DATA, big_body_set("/zookeeper", 100000));
    service_harness_settle(&h);
    guest_expect(&p, 1, 0);
    for (int i = 0; i < 500; i++) {
        if (i % 50 == 0) {
            guest_request(&p, WIRE_DELETE, body_delete("/none"));
        } else {
            guest_request(&p, WIRE_GET_DATA, body_path_watch("/zookeeper", false));
        }
    }
    size_t most = 0;
    while (h.log_count > 0 || h.service.pipeline.batch_count > 0 || p.in.len > 0) {
        service_turn(&h.service);
        if (h.log_count > 0) {
            service_harness_apply_one(&h);
        }
        most = p.c.out.len > most ? p.c.out.len : most;
        service_harness_turn(&h);
    }
    assert_true(most < h.service.limits.output_pause + 200000);
    assert_int_equal(p.c.waiting_replies, 0);
    for (int i = 0; i < 500; i++) {
        guest_expect(&p, i + 2, i % 50 == 0 ? CONCLAVE_NO_NODE : 0);
    }
    guest_finish(&p);
    service_harness_finish(&h);
}

/* How long a list of many names is, is not found out before it is answered: it waits alone, and the rest follows. */
static void test_a_long_list_waits_alone(void **state)
{
    struct service_harness h;
    struct guest p;
    char path[16];
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "/n%d", i);
        guest_request(&p, WIRE_CREATE, body_create(path, "", 0));
        service_harness_settle(&h);
        guest_expect(&p, i + 1, 0);
    }
    guest_request(&p, WIRE_DELETE, body_delete("/none"));
    for (int i = 0; i < 10; i++) {
        guest_request(&p, WIRE_GET_CHILDREN, body_path_watch("/", false));
    }
    assert_int_equal(p.c.pending_count, 2);
    assert_true(p.in.len > 0);
    service_harness_settle(&h);
    guest_expect(&p, 101, CONCLAVE_NO_NODE);
    for (int i = 0; i < 10; i++) {
        guest_expect(&p, i + 102, 0);
    }
    assert_int_equal(p.c.waiting_replies, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* An answer that grows between the question and the answer ends the connection. */
static void test_pipelined_reads_that_grow(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest writer;
    struct client_limits limits = client_limits_default();
    limits.output_max = 1000000;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 10000);
    guest_open(&writer, &h, 10000);
    guest_request(&writer, WIRE_SET_DATA, big_body_set("/zookeeper", 100000));
    guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
    for (int i = 0; i < 200; i++) {
        guest_request(&p, WIRE_GET_DATA, body_path_watch("/zookeeper", false));
    }
    assert_int_equal(p.in.len, 0);
    service_turn(&h.service);
    service_harness_apply_one(&h);
    assert_true(p.c.out.len < limits.output_max + 200000);
    service_harness_settle(&h);
    assert_true(p.closed);
    assert_false(writer.closed);
    guest_finish(&p);
    guest_finish(&writer);
    service_harness_finish(&h);
}

static void test_watch_limit(void **state)
{
    struct service_harness h;
    struct guest p;
    struct client_limits limits = client_limits_default();
    limits.watches_max = 3;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 10000);
    for (int i = 0; i < 4; i++) {
        char path[16];
        snprintf(path, sizeof path, "/w%d", i);
        int32_t xid = guest_request(&p, WIRE_EXISTS, body_path_watch(path, true));
        service_harness_turn(&h);
        guest_expect(&p, xid, i < 3 ? CONCLAVE_NO_NODE : CONCLAVE_QUOTA_EXCEEDED);
    }
    assert_int_equal(h.service.metrics->conclave_watches_refused_total, 1);
    /* Setting an existing watch adds none. */
    int32_t again = guest_request(&p, WIRE_EXISTS, body_path_watch("/w0", true));
    int32_t without = guest_request(&p, WIRE_EXISTS, body_path_watch("/w9", false));
    service_harness_turn(&h);
    guest_expect(&p, again, CONCLAVE_NO_NODE);
    guest_expect(&p, without, CONCLAVE_NO_NODE);
    assert_false(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A log that takes no more writes: the connection ends without an answer, reads of others go on. */
static void test_log_failure(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest reader;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    guest_open(&reader, &h, 10000);
    h.submit_error = CONCLAVE_EIO;
    guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
    service_harness_turn(&h);
    assert_int_equal(h.service.pipeline.error, CONCLAVE_EIO);
    guest_expect_nothing(&p);
    guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
    int32_t get = guest_request(&reader, WIRE_GET_DATA, body_path_watch("/", false));
    service_harness_turn(&h);
    assert_true(p.closed);
    guest_expect_nothing(&p);
    guest_expect(&reader, get, 0);
    guest_finish(&p);
    guest_finish(&reader);
    service_harness_finish(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_waits_for_write),
        cmocka_unit_test(test_reads_pass_other_writes),
        cmocka_unit_test(test_group_commit),
        cmocka_unit_test(test_watch_order),
        cmocka_unit_test(test_set_watches),
        cmocka_unit_test(test_close_session),
        cmocka_unit_test(test_unknown_operations),
        cmocka_unit_test(test_malformed_writes),
        cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_applied_while_closing),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_mutated),
        cmocka_unit_test(test_auth),
        cmocka_unit_test(test_auth_limit),
        cmocka_unit_test(test_backpressure),
        cmocka_unit_test(test_throttled_session_lives),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_pipelined_reads_hold_little),
        cmocka_unit_test(test_a_long_list_waits_alone),
        cmocka_unit_test(test_pipelined_reads_that_grow),
        cmocka_unit_test(test_watch_limit),
        cmocka_unit_test(test_log_failure),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
