/* The operations beyond the basic ones, from frame to frame: watches that stay, multiRead, ephemerals,
 * TTLs and the collector, quotas, who may be told, who must authenticate. */
#include "support/service_harness.h"

#include "base/log.h"
#include "base/random.h"

static struct buf body = {.max = SIZE_MAX / 2};

static struct slice body_path_number(const char *path, int32_t number)
{
    buf_reset(&body);
    wire_write_string(&body, slice_str(path));
    wire_write_i32(&body, number);
    return buf_slice(&body);
}

static struct slice body_create_ttl(const char *path, int32_t mode, int64_t ttl_ms)
{
    buf_reset(&body);
    buf_append_slice(&body, body_create(path, "", mode));
    wire_write_i64(&body, ttl_ms);
    return buf_slice(&body);
}

/* Asks and waits for the answer, which must be err. */
static struct frame ask(struct service_harness *h, struct guest *p, int32_t type,
                        struct slice request, int32_t err)
{
    int32_t xid = guest_request(p, type, request);
    service_harness_settle(h);
    return guest_expect(p, xid, err);
}

/* Makes the node readable for digest u:p only. */
static void hide(struct service_harness *h, struct guest *p, const char *path)
{
    struct buf acl;
    buf_init(&acl, 0);
    wire_encode_acl(&acl, &(struct wire_acl){31, {slice_str("auth"), slice_str("")}});
    struct wire_set_acl_request r = {slice_str(path), wire_vector_make(&acl, 1), -1};
    buf_reset(&body);
    wire_encode_set_acl_request(&body, &r);
    ask(h, p, WIRE_SET_ACL, buf_slice(&body), 0);
    buf_finish(&acl);
}

enum { PERSISTENT = 0, RECURSIVE = 1 };

static void test_watches_that_stay(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest writer;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    guest_open(&writer, &h, 10000);
    struct frame f = ask(&h, &p, WIRE_ADD_WATCH, body_path_number("/a", PERSISTENT), 0);
    assert_int_equal(f.body.len, 4); /* an ErrorResponse */
    for (int round = 0; round < 2; round++) {
        int64_t zxid = ask(&h, &writer, WIRE_CREATE, body_create("/a", "", 0), 0).zxid;
        guest_expect_event(&p, 1, "/a", zxid);
        zxid = ask(&h, &writer, WIRE_CREATE, body_create("/a/b", "", 0), 0).zxid;
        guest_expect_event(&p, 4, "/a", zxid);
        zxid = ask(&h, &writer, WIRE_DELETE, body_delete("/a/b"), 0).zxid;
        guest_expect_event(&p, 4, "/a", zxid);
        zxid = ask(&h, &writer, WIRE_DELETE, body_delete("/a"), 0).zxid;
        guest_expect_event(&p, 2, "/a", zxid);
        guest_expect_nothing(&p);
    }
    ask(&h, &p, WIRE_ADD_WATCH, body_path_number("/", RECURSIVE), 0);
    int64_t zxid = ask(&h, &writer, WIRE_CREATE, body_create("/a", "", 0), 0).zxid;
    guest_expect_event(&p, 1, "/a", zxid); /* once, though two watches match */
    guest_expect_nothing(&p);
    ask(&h, &p, WIRE_ADD_WATCH, body_path_number("/a", 2), CONCLAVE_MARSHALLING_ERROR);
    ask(&h, &p, WIRE_ADD_WATCH, body_path_number("/a", -1), CONCLAVE_MARSHALLING_ERROR);
    ask(&h, &p, WIRE_ADD_WATCH, slice_str("xx"), CONCLAVE_MARSHALLING_ERROR);
    guest_finish(&p);
    guest_finish(&writer);
    service_harness_finish(&h);
}

enum { TYPE_CHILDREN = 1, TYPE_DATA, TYPE_ANY, TYPE_PERSISTENT, TYPE_RECURSIVE };

static void test_check_and_remove_watches(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    const int32_t none = CONCLAVE_NO_WATCHER;
    ask(&h, &p, WIRE_GET_CHILDREN, body_path_watch("/", true), 0);
    ask(&h, &p, WIRE_ADD_WATCH, body_path_number("/", PERSISTENT), 0);
    static const struct {
        int32_t type;
        bool there;
    } rows[] = {{TYPE_CHILDREN, true},
                {TYPE_DATA, false},
                {TYPE_ANY, true},
                {TYPE_PERSISTENT, true},
                {TYPE_RECURSIVE, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ask(&h, &p, WIRE_CHECK_WATCHES, body_path_number("/", rows[i].type),
            rows[i].there ? 0 : none);
        ask(&h, &p, WIRE_CHECK_WATCHES, body_path_number("/b", rows[i].type), none);
    }
    for (int32_t bad = -1; bad <= 6; bad += bad == 0 ? 6 : 1) {
        ask(&h, &p, WIRE_CHECK_WATCHES, body_path_number("/", bad), CONCLAVE_MARSHALLING_ERROR);
        ask(&h, &p, WIRE_REMOVE_WATCHES, body_path_number("/", bad), CONCLAVE_MARSHALLING_ERROR);
    }
    ask(&h, &p, WIRE_REMOVE_WATCHES, body_path_number("/", TYPE_DATA), none);
    ask(&h, &p, WIRE_REMOVE_WATCHES, body_path_number("/", TYPE_CHILDREN), 0);
    ask(&h, &p, WIRE_REMOVE_WATCHES, body_path_number("/", TYPE_CHILDREN), none);
    ask(&h, &p, WIRE_EXISTS, body_path_watch("/", true), 0);
    assert_int_equal(p.c.watcher.count, 2);
    ask(&h, &p, WIRE_REMOVE_WATCHES, body_path_number("/", TYPE_ANY), 0);
    assert_int_equal(p.c.watcher.count, 0);
    ask(&h, &p, WIRE_REMOVE_WATCHES, body_path_number("/", TYPE_ANY), none);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void put_strings(struct buf *out, const char *one)
{
    wire_write_i32(out, one != NULL ? 1 : 0);
    if (one != NULL) {
        wire_write_string(out, slice_str(one));
    }
}

/* The watches that stay get no missed events. */
static void test_set_watches2(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    ask(&h, &p, WIRE_CREATE, body_create("/a", "", 0), 0);
    buf_reset(&body);
    wire_write_i64(&body, 0);
    put_strings(&body, NULL);
    put_strings(&body, "/a");
    put_strings(&body, NULL);
    put_strings(&body, "/a");
    put_strings(&body, "/");
    guest_request_xid(&p, WIRE_XID_SET_WATCHES, WIRE_SET_WATCHES2, buf_slice(&body));
    service_harness_settle(&h);
    guest_expect_event(&p, 1, "/a", -1);
    guest_expect(&p, WIRE_XID_SET_WATCHES, 0);
    ask(&h, &p, WIRE_CHECK_WATCHES, body_path_number("/a", TYPE_PERSISTENT), 0);
    ask(&h, &p, WIRE_CHECK_WATCHES, body_path_number("/", TYPE_RECURSIVE), 0);
    ask(&h, &p, WIRE_CHECK_WATCHES, body_path_number("/a", TYPE_DATA), CONCLAVE_NO_WATCHER);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* The event is dropped, the one-shot watch is gone all the same. */
static void test_events_need_read(void **state)
{
    struct service_harness h;
    struct guest owner;
    struct guest stranger;
    service_harness_init(&h, NULL);
    guest_open(&owner, &h, 10000);
    guest_open(&stranger, &h, 10000);
    guest_request_xid(&owner, WIRE_XID_AUTH, WIRE_AUTH, body_auth("digest", "u:p"));
    service_harness_settle(&h);
    guest_expect(&owner, WIRE_XID_AUTH, 0);
    ask(&h, &owner, WIRE_CREATE, body_create("/a", "", 0), 0);
    for (int i = 0; i < 2; i++) {
        struct guest *p = i == 0 ? &owner : &stranger;
        ask(&h, p, WIRE_GET_DATA, body_path_watch("/a", true), 0);
        ask(&h, p, WIRE_GET_CHILDREN, body_path_watch("/a", true), 0);
        ask(&h, p, WIRE_ADD_WATCH, body_path_number("/", RECURSIVE), 0);
    }
    hide(&h, &owner, "/a");
    int32_t xid = guest_request(&owner, WIRE_SET_DATA, body_set("/a", "x"));
    service_harness_settle(&h);
    guest_expect_event(&owner, 3, "/a", h.service.effects.zxid);
    guest_expect(&owner, xid, 0);
    xid = guest_request(&owner, WIRE_DELETE, body_delete("/a"));
    service_harness_settle(&h);
    guest_expect_event(&owner, 2, "/a", h.service.effects.zxid);
    guest_expect(&owner, xid, 0);
    guest_expect_nothing(&stranger);
    assert_int_equal(stranger.c.watcher.count, 1);
    assert_int_equal(h.service.metrics->conclave_events_hidden_total, 2);
    /* The parent's list counts for its children, the node's own for its creation. */
    ask(&h, &stranger, WIRE_GET_CHILDREN, body_path_watch("/", true), 0);
    int64_t zxid = ask(&h, &owner, WIRE_SYNC, body_path_watch("/", false), 0).zxid + 1;
    ask(&h, &stranger, WIRE_EXISTS, body_path_watch("/b", false), CONCLAVE_NO_NODE);
    xid = guest_request(&owner, WIRE_CREATE, body_create("/b", "", 0));
    service_harness_settle(&h);
    guest_expect_event(&stranger, 1, "/b", zxid);
    guest_expect_event(&stranger, 4, "/", zxid);
    guest_finish(&owner);
    guest_finish(&stranger);
    service_harness_finish(&h);
}

static void test_reads_of_many(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    ask(&h, &p, WIRE_CREATE, body_create("/e", "", 0), 0);
    ask(&h, &p, WIRE_CREATE, body_create("/e/x", "", WIRE_MODE_EPHEMERAL), 0);
    ask(&h, &p, WIRE_CREATE, body_create("/ex", "", WIRE_MODE_EPHEMERAL), 0);
    static const struct {
        const char *prefix;
        int32_t count;
    } rows[] = {{NULL, 2}, {"", 2}, {" / ", 2}, {"/e", 2}, {"/e/", 1}, {"/ex", 1}, {"/exx", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_reset(&body);
        wire_write_string(&body, slice_str(rows[i].prefix));
        struct frame f = ask(&h, &p, WIRE_GET_EPHEMERALS, buf_slice(&body), 0);
        struct wire_reader r = wire_reader_make(f.body);
        assert_int_equal(wire_read_i32(&r), rows[i].count);
    }
    static const struct {
        const char *path;
        int32_t number;
    } numbers[] = {{"/", 6}, {"/e", 1}, {"/ex", 0}, {"/zookeeper", 2}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        buf_reset(&body);
        wire_write_string(&body, slice_str(numbers[i].path));
        struct frame f = ask(&h, &p, WIRE_GET_ALL_CHILDREN_NUMBER, buf_slice(&body), 0);
        struct wire_reader r = wire_reader_make(f.body);
        assert_int_equal(wire_read_i32(&r), numbers[i].number);
    }
    guest_finish(&p);
    service_harness_finish(&h);
}

static struct service_harness *open_with_ttl(struct service_harness *h, int64_t never_used_ms)
{
    struct service_options options = service_harness_options();
    options.command_options = COMMAND_TTL;
    options.collector.interval_ms = 1000;
    options.collector.never_used_ms = never_used_ms;
    service_harness_open(h, options);
    return h;
}

static bool there(struct service_harness *h, struct guest *p, const char *path)
{
    int32_t xid = guest_request(p, WIRE_EXISTS, body_path_watch(path, false));
    struct frame f;
    service_harness_settle(h);
    assert_true(guest_next(p, &f));
    assert_int_equal(f.xid, xid);
    return f.err == 0;
}

/* Lets time pass as the loop would, and keeps the session. */
static void pass(struct service_harness *h, struct guest *p, int64_t ms)
{
    for (int64_t end = h->now_ms + ms; h->now_ms < end;) {
        service_harness_advance(h, 100);
        service_harness_settle(h);
        guest_request_xid(p, WIRE_XID_PING, WIRE_PING, slice_str(""));
        service_harness_settle(h);
        guest_expect(p, WIRE_XID_PING, 0);
    }
}

static void test_ttl_ends(void **state)
{
    struct service_harness h;
    struct guest p;
    open_with_ttl(&h, 0);
    guest_open(&p, &h, 10000);
    ask(&h, &p, WIRE_CREATE_TTL, body_create_ttl("/t", 5, 3000), 0);
    ask(&h, &p, WIRE_CREATE_TTL, body_create_ttl("/kept", 5, 3000), 0);
    ask(&h, &p, WIRE_CREATE_TTL, body_create_ttl("/parent", 5, 3000), 0);
    ask(&h, &p, WIRE_CREATE, body_create("/parent/child", "", 0), 0);
    pass(&h, &p, 2500);
    ask(&h, &p, WIRE_SET_DATA, body_set("/kept", "x"), 0); /* begins its time again */
    assert_true(there(&h, &p, "/t"));
    pass(&h, &p, 2000);
    assert_false(there(&h, &p, "/t"));
    assert_true(there(&h, &p, "/kept"));
    assert_true(there(&h, &p, "/parent"));
    ask(&h, &p, WIRE_DELETE, body_delete("/parent/child"), 0);
    pass(&h, &p, 2500);
    assert_false(there(&h, &p, "/kept"));
    assert_false(there(&h, &p, "/parent"));
    assert_int_equal(h.service.collector.proposed, 3);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_containers_end(void **state)
{
    for (int64_t never_used_ms = 0; never_used_ms <= 5000; never_used_ms += 5000) {
        struct service_harness h;
        struct guest p;
        open_with_ttl(&h, never_used_ms);
        guest_open(&p, &h, 10000);
        ask(&h, &p, WIRE_CREATE_CONTAINER, body_create("/used", "", 4), 0);
        ask(&h, &p, WIRE_CREATE_CONTAINER, body_create("/never", "", 4), 0);
        ask(&h, &p, WIRE_CREATE, body_create("/plain", "", 0), 0);
        ask(&h, &p, WIRE_CREATE, body_create("/used/x", "", 0), 0);
        pass(&h, &p, 2000);
        assert_true(there(&h, &p, "/used"));
        ask(&h, &p, WIRE_EXISTS, body_path_watch("/used", true), 0);
        ask(&h, &p, WIRE_DELETE, body_delete("/used/x"), 0);
        service_harness_advance(&h, 1100);
        service_harness_settle(&h);
        guest_expect_event(&p, 2, "/used", h.service.effects.zxid);
        assert_true(there(&h, &p, "/never"));
        pass(&h, &p, 4000);
        assert_int_equal(there(&h, &p, "/never"), never_used_ms == 0);
        assert_true(there(&h, &p, "/plain"));
        guest_finish(&p);
        service_harness_finish(&h);
    }
}

/* Found, and used again before its deletion comes out of the log: it stays. */
static void test_collector_loses_the_race(void **state)
{
    struct service_harness h;
    struct guest p;
    open_with_ttl(&h, 0);
    guest_open(&p, &h, 10000);
    ask(&h, &p, WIRE_CREATE_TTL, body_create_ttl("/t", 5, 500), 0);
    service_harness_advance(&h, 1100);
    int32_t set = guest_request(&p, WIRE_SET_DATA, body_set("/t", "x"));
    service_harness_settle(&h);
    guest_expect(&p, set, CONCLAVE_NO_NODE); /* the deletion was first */
    ask(&h, &p, WIRE_CREATE_TTL, body_create_ttl("/t", 5, 500), 0);
    set = guest_request(&p, WIRE_SET_DATA, body_set("/t", "x"));
    service_harness_advance(&h, 1100);
    service_harness_settle(&h);
    guest_expect(&p, set, 0);
    assert_true(there(&h, &p, "/t"));
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Sixty a minute: one a second, whatever was found. */
static void test_collector_takes_its_time(void **state)
{
    struct service_harness h;
    struct guest p;
    struct service_options options = service_harness_options();
    options.command_options = COMMAND_TTL;
    options.collector.interval_ms = 1000;
    options.collector.per_minute = 60;
    service_harness_open(&h, options);
    guest_open(&p, &h, 10000);
    for (int i = 0; i < 20; i++) {
        char path[16];
        snprintf(path, sizeof path, "/t%d", i);
        ask(&h, &p, WIRE_CREATE_TTL, body_create_ttl(path, 5, 1), 0);
    }
    pass(&h, &p, 10000);
    assert_in_range(h.service.collector.proposed, 8, 10);
    assert_true(service_deadline(&h.service) > h.now_ms);
    pass(&h, &p, 15000);
    assert_int_equal(h.service.collector.proposed, 20);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_ttl_is_decided_when_taken_in(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    int64_t zxid =
        ask(&h, &p, WIRE_CREATE_TTL, body_create_ttl("/t", 5, 100), CONCLAVE_UNIMPLEMENTED).zxid;
    assert_int_equal(
        ask(&h, &p, WIRE_CREATE_TTL, body_create_ttl("/t", 0, 100), CONCLAVE_BAD_ARGUMENTS).zxid,
        zxid + 1);
    h.service.command_options = COMMAND_TTL;
    int32_t xid = guest_request(&p, WIRE_CREATE_TTL, body_create_ttl("/t", 6, 100));
    h.service.command_options = 0;
    service_harness_settle(&h);
    guest_expect(&p, xid, 0);
    assert_true(there(&h, &p, "/t0000000000"));
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_delete_container_is_not_for_clients(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    ask(&h, &p, WIRE_CREATE_CONTAINER, body_create("/c", "", 4), 0);
    ask(&h, &p, WIRE_DELETE_CONTAINER, body_path_watch("/c", false), CONCLAVE_UNIMPLEMENTED);
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Every request but auth is answered in its turn with the error; then the connection ends. */
static void test_authentication_is_required(void **state)
{
    static const int32_t types[] = {WIRE_GET_DATA, WIRE_CREATE, WIRE_PING, WIRE_CLOSE_SESSION, 99};
    struct service_options options = service_harness_options();
    options.auth_schemes = "sasl, digest";
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct service_harness h;
        struct guest p;
        service_harness_open(&h, options);
        guest_open(&p, &h, 10000);
        int32_t xid = guest_request(&p, types[i], body_create("/a", "", 0));
        guest_request(&p, WIRE_GET_DATA, body_path_watch("/", false));
        service_harness_settle(&h);
        assert_int_equal(guest_expect(&p, xid, CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH).zxid, 0);
        guest_expect_nothing(&p);
        assert_true(p.closed);
        assert_int_equal(h.service.metrics->conclave_auth_required_total, 1);
        guest_finish(&p);
        service_harness_finish(&h);
    }
    struct service_harness h;
    struct guest p;
    service_harness_open(&h, options);
    guest_open(&p, &h, 10000);
    guest_request_xid(&p, WIRE_XID_AUTH, WIRE_AUTH, body_auth("digest", "u:p"));
    int32_t xid = guest_request(&p, WIRE_CREATE, body_create("/a", "", 0));
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_AUTH, 0);
    guest_expect(&p, xid, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* One too many of all watches is refused to whoever asks; nobody loses what he has. */
static void test_all_watches_are_limited(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest other;
    struct client_limits limits = client_limits_default();
    limits.watches_total_max = 2;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 10000);
    guest_open(&other, &h, 10000);
    ask(&h, &p, WIRE_EXISTS, body_path_watch("/a", true), CONCLAVE_NO_NODE);
    ask(&h, &other, WIRE_ADD_WATCH, body_path_number("/a", PERSISTENT), 0);
    ask(&h, &p, WIRE_ADD_WATCH, body_path_number("/a", RECURSIVE), CONCLAVE_QUOTA_EXCEEDED);
    ask(&h, &other, WIRE_GET_CHILDREN, body_path_watch("/", true), CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(h.service.metrics->conclave_watches_refused_total, 2);
    int64_t zxid = ask(&h, &other, WIRE_SYNC, body_path_watch("/", false), 0).zxid + 1;
    int32_t xid = guest_request(&other, WIRE_CREATE, body_create("/a", "", 0));
    service_harness_settle(&h);
    guest_expect_event(&p, 1, "/a", zxid);
    guest_expect_event(&other, 1, "/a", zxid);
    guest_expect(&other, xid, 0);
    guest_finish(&p);
    guest_finish(&other);
    service_harness_finish(&h);
}

static void test_quota_is_counted_and_enforced(void **state)
{
    struct service_harness h;
    struct guest p;
    struct service_options options = service_harness_options();
    options.command_options = COMMAND_QUOTA;
    service_harness_open(&h, options);
    guest_open(&p, &h, 10000);
    ask(&h, &p, WIRE_CREATE, body_create("/q", "", 0), 0);
    ask(&h, &p, WIRE_CREATE, body_create("/zookeeper/quota/q", "", 0), 0);
    ask(&h, &p, WIRE_CREATE,
        body_create("/zookeeper/quota/q/zookeeper_limits", "count=1,bytes=-1=;countHardLimit=3", 0),
        0);
    ask(&h, &p, WIRE_CREATE, body_create("/zookeeper/quota/q/zookeeper_stats", "", 0), 0);
    ask(&h, &p, WIRE_CREATE, body_create("/q/1", "", 0), 0);
    ask(&h, &p, WIRE_CREATE, body_create("/q/2", "", 0), 0);
    assert_int_equal(h.service.metrics->conclave_quota_exceeded_total,
                     0); /* the hard limit serves as the soft one */
    ask(&h, &p, WIRE_CREATE, body_create("/q/3", "", 0), CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(h.service.metrics->conclave_quota_exceeded_total, 1);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* One request a second too many is refused, and no other; what keeps the session is not counted. */
static void test_rate_of_an_address(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest same;
    struct client_limits limits = client_limits_default();
    limits.address_rate_max = 10;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 10000);
    guest_open(&same, &h, 10000);
    for (int i = 0; i < 10; i++) {
        struct guest *asking = i % 2 == 0 ? &p : &same;
        ask(&h, asking, WIRE_EXISTS, body_path_watch("/", false), 0);
    }
    ask(&h, &p, WIRE_EXISTS, body_path_watch("/", false), CONCLAVE_THROTTLED);
    ask(&h, &same, WIRE_CREATE, body_create("/a", "", 0), CONCLAVE_THROTTLED);
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_settle(&h);
    guest_expect(&p, WIRE_XID_PING, 0);
    assert_int_equal(h.service.metrics->conclave_requests_throttled_total, 2);
    service_harness_advance(&h, 200);
    ask(&h, &p, WIRE_EXISTS, body_path_watch("/a", false), CONCLAVE_NO_NODE);
    ask(&h, &p, WIRE_EXISTS, body_path_watch("/a", false), CONCLAVE_NO_NODE);
    ask(&h, &p, WIRE_EXISTS, body_path_watch("/a", false), CONCLAVE_THROTTLED);
    ask(&h, &same, WIRE_CLOSE_SESSION, slice_str(""), 0);
    assert_false(p.closed);
    guest_finish(&p);
    guest_finish(&same);
    service_harness_finish(&h);
}

/* Sessions count until they end, not until their connection does. */
static void test_sessions_of_an_address(void **state)
{
    static const uint8_t zeros[WIRE_PASSWD_LEN];
    struct service_harness h;
    struct guest p[3];
    struct client_limits limits = client_limits_default();
    limits.address_sessions_max = 2;
    service_harness_init(&h, &limits);
    guest_open(&p[0], &h, 10000);
    guest_open(&p[1], &h, 10000);
    guest_finish(&p[0]);
    guest_init(&p[2], &h);
    guest_connect(&p[2], 0, 10000, 0, slice_make(zeros, sizeof zeros), true);
    service_harness_settle(&h);
    assert_true(p[2].closed);
    assert_int_equal(h.service.metrics->conclave_sessions_refused_total, 1);
    guest_finish(&p[2]);
    ask(&h, &p[1], WIRE_CLOSE_SESSION, slice_str(""), 0);
    guest_finish(&p[1]);
    guest_open(&p[2], &h, 10000);
    guest_finish(&p[2]);
    service_harness_finish(&h);
}

/* Reading pauses for all connections of the address, and goes on when its requests are done. */
static void test_bytes_in_flight_of_an_address(void **state)
{
    struct service_harness h;
    struct guest p;
    struct guest same;
    struct client_limits limits = client_limits_default();
    limits.address_bytes_max = 1;
    service_harness_init(&h, &limits);
    guest_open(&p, &h, 10000);
    guest_open(&same, &h, 10000);
    int32_t one = guest_request(&p, WIRE_CREATE, body_create("/a", "x", 0));
    int32_t two = guest_request(&same, WIRE_CREATE, body_create("/b", "x", 0));
    assert_int_equal(p.c.pending_count, 1);
    assert_int_equal(same.c.pending_count, 0);
    service_harness_settle(&h);
    guest_expect(&p, one, 0);
    guest_expect(&same, two, 0);
    assert_int_equal(p.c.address->account.bytes[ACCOUNT_REQUESTS], 0);
    /* A connection that goes takes its bytes along. */
    guest_request(&p, WIRE_SET_DATA, body_set("/a", "y"));
    assert_true(same.c.address->account.bytes[ACCOUNT_REQUESTS] > 0);
    guest_finish(&p);
    assert_int_equal(same.c.address->account.bytes[ACCOUNT_REQUESTS], 0);
    service_harness_settle(&h);
    guest_finish(&same);
    service_harness_finish(&h);
}

static int no_log(void **state)
{
    log_set_level(LOG_ERROR);
    return 0;
}

static int finish(void **state)
{
    body_finish();
    buf_finish(&body);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watches_that_stay),
        cmocka_unit_test(test_check_and_remove_watches),
        cmocka_unit_test(test_set_watches2),
        cmocka_unit_test(test_events_need_read),
        cmocka_unit_test(test_reads_of_many),
        cmocka_unit_test(test_ttl_ends),
        cmocka_unit_test(test_containers_end),
        cmocka_unit_test(test_collector_loses_the_race),
        cmocka_unit_test(test_collector_takes_its_time),
        cmocka_unit_test(test_ttl_is_decided_when_taken_in),
        cmocka_unit_test(test_delete_container_is_not_for_clients),
        cmocka_unit_test(test_authentication_is_required),
        cmocka_unit_test(test_all_watches_are_limited),
        cmocka_unit_test(test_quota_is_counted_and_enforced),
        cmocka_unit_test(test_rate_of_an_address),
        cmocka_unit_test(test_sessions_of_an_address),
        cmocka_unit_test(test_bytes_in_flight_of_an_address),
    };
    return cmocka_run_group_tests(tests, no_log, finish);
}
