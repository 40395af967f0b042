#include "support/service_harness.h"

#include "front/state_replacement.h"

static struct buf request_bytes = {.max = SIZE_MAX / 2};

static int64_t harness_monotonic(void *ctx)
{
    struct service_harness *h = ctx;
    return h->now_ms * 1000000;
}

static int64_t harness_wall(void *ctx)
{
    struct service_harness *h = ctx;
    return 1700000000000 + h->now_ms;
}

static int harness_submit(void *ctx, struct buf *payload_take)
{
    struct service_harness *h = ctx;
    if (h->submit_error != 0) {
        return h->submit_error;
    }
    assert_true(h->log_count < LOG_MAX);
    h->log[h->log_count++] = *payload_take;
    h->log_total++;
    buf_init(payload_take, 0);
    return 0;
}

static void harness_submit_own(void *ctx, struct buf *payload_take)
{
    assert_int_equal(harness_submit(ctx, payload_take), 0);
}

static uint64_t harness_read_index(void *ctx)
{
    struct service_harness *h = ctx;
    return ++h->tickets;
}

static size_t harness_in_flight(void *ctx)
{
    struct service_harness *h = ctx;
    return h->log_count;
}

struct service_options service_harness_options(void)
{
    return (struct service_options){
        .limits = client_limits_default(),
        .server_id = 7,
        .digest = {.super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="},
        .collector = ttl_collector_options_default(),
    };
}

void service_harness_open(struct service_harness *h, struct service_options options)
{
    memset(h, 0, sizeof *h);
    h->now_ms = 1000000;
    h->clock = (struct clock_source){harness_monotonic, harness_wall, h};
    options.clock = &h->clock;
    options.sink = (struct pipeline_sink){
        .submit = harness_submit,
        .submit_own = harness_submit_own,
        .in_flight = harness_in_flight,
        .read_index = harness_read_index,
        .ctx = h,
    };
    assert_int_equal(service_init(&h->service, &options), 0);
    assert_int_equal(service_begin(&h->service), 0);
}

void service_harness_init(struct service_harness *h, const struct client_limits *limits)
{
    struct service_options options = service_harness_options();
    if (limits != NULL) {
        options.limits = *limits;
    }
    service_harness_open(h, options);
}

void service_harness_finish(struct service_harness *h)
{
    for (size_t i = 0; i < h->log_count; i++) {
        buf_finish(&h->log[i]);
    }
    service_finish(&h->service);
}

int service_harness_take(struct service *s, struct slice entry)
{
    struct batch_reader batch;
    if (replacement_is(entry)) {
        return state_replacement_begin(s, entry);
    }
    int rc = batch_open(entry, &batch);
    return rc == 0 ? service_apply(s, &batch) : rc;
}

void service_harness_apply_one(struct service_harness *h)
{
    assert_true(h->log_count > 0);
    struct buf entry = h->log[0];
    h->log_count--;
    memmove(&h->log[0], &h->log[1], h->log_count * sizeof h->log[0]);
    assert_int_equal(service_harness_take(&h->service, buf_slice(&entry)), 0);
    buf_finish(&entry);
}

void service_harness_turn(struct service_harness *h)
{
    service_turn(&h->service);
    struct list *node;
    while ((node = list_pop_front(&h->service.dirty)) != NULL) {
        struct connection *c = CONTAINER_OF(node, struct connection, dirty);
        struct guest *p = CONTAINER_OF(c, struct guest, c);
        if (c->stage != CONNECTION_CLOSED && !p->slow && leadership_may_send(c->service, c)) {
            buf_append_slice(&p->out, buf_slice(&c->out));
            buf_reset(&c->out);
            connection_count_output(c);
        }
        p->closed = c->stage == CONNECTION_CLOSED || c->stage == CONNECTION_CLOSING;
        if (!p->closed && p->in.len > 0) {
            buf_consume(&p->in, connection_input(c, buf_slice(&p->in)));
        }
    }
    service_turn(&h->service);
}

void service_harness_settle(struct service_harness *h)
{
    service_harness_turn(h);
    while (h->log_count > 0 || !list_empty(&h->service.dirty)) {
        if (h->log_count > 0) {
            service_harness_apply_one(h);
        }
        service_harness_turn(h);
    }
}

void service_harness_join(struct service_harness *h)
{
    h->service.standing.sole = false;
    leadership_contact(&h->service, h->now_ms);
}

void service_harness_advance(struct service_harness *h, int64_t ms)
{
    h->now_ms += ms;
    service_tick(&h->service);
    if (h->service.reads_first) {
        service_tick(&h->service); /* the test has no waiting input */
    }
}

void guest_init(struct guest *p, struct service_harness *h)
{
    memset(p, 0, sizeof *p);
    buf_init(&p->in, 0);
    buf_init(&p->out, 0);
    p->next_xid = 1;
    assert_int_equal(connection_init(&p->c, &h->service, h->host != NULL ? h->host : "10.1.2.3",
                                     "10.1.2.3:4567"),
                     0);
}

void guest_finish(struct guest *p)
{
    connection_finish(&p->c);
    buf_finish(&p->in);
    buf_finish(&p->out);
}

void guest_send(struct guest *p, struct slice bytes)
{
    buf_append_slice(&p->in, bytes);
    buf_consume(&p->in, connection_input(&p->c, buf_slice(&p->in)));
}

void guest_send_frame(struct guest *p, struct slice body)
{
    struct buf b;
    buf_init(&b, 0);
    wire_write_buffer(&b, body);
    guest_send(p, buf_slice(&b));
    buf_finish(&b);
}

int32_t guest_request_xid(struct guest *p, int32_t xid, int32_t type, struct slice body)
{
    struct buf b;
    buf_init(&b, 0);
    wire_write_i32(&b, xid);
    wire_write_i32(&b, type);
    buf_append_slice(&b, body);
    guest_send_frame(p, buf_slice(&b));
    buf_finish(&b);
    return xid;
}

int32_t guest_request(struct guest *p, int32_t type, struct slice body)
{
    return guest_request_xid(p, p->next_xid++, type, body);
}

bool guest_next_raw(struct guest *p, struct slice *ret)
{
    int32_t len;
    if (p->out_at >= p->out.len) {
        return false; /* the buffer may be empty */
    }
    struct slice rest = slice_make(p->out.data + p->out_at, p->out.len - p->out_at);
    if (wire_frame_cut(rest, INT32_MAX, ret, &len) != 1) {
        return false;
    }
    p->out_at += 4 + ret->len;
    return true;
}

bool guest_next(struct guest *p, struct frame *ret)
{
    struct slice raw;
    struct wire_reply_header header;
    if (!guest_next_raw(p, &raw)) {
        return false;
    }
    struct wire_reader r = wire_reader_make(raw);
    assert_int_equal(wire_decode_reply_header(&r, &header), 0);
    *ret = (struct frame){header.xid, header.zxid, header.err, wire_rest(&r)};
    return true;
}

void guest_expect_nothing(struct guest *p)
{
    assert_int_equal(p->out.len, p->out_at);
}

struct frame guest_expect(struct guest *p, int32_t xid, int32_t err)
{
    struct frame f;
    assert_true(guest_next(p, &f));
    assert_int_equal(f.xid, xid);
    assert_int_equal(f.err, err);
    return f;
}

void guest_expect_event(struct guest *p, int32_t type, const char *path, int64_t zxid)
{
    struct frame f = guest_expect(p, WIRE_XID_NOTIFICATION, 0);
    struct wire_watcher_event event;
    struct wire_reader r = wire_reader_make(f.body);
    assert_int_equal(wire_decode_watcher_event(&r, &event), 0);
    assert_int_equal(event.type, type);
    assert_int_equal(event.state, WIRE_STATE_SYNC_CONNECTED);
    assert_true(slice_equal_str(event.path, path));
    assert_int_equal(f.zxid, zxid);
}

void guest_connect(struct guest *p, int64_t last_zxid, int32_t timeout_ms, int64_t id,
                   struct slice passwd, bool read_only_byte)
{
    struct buf b;
    struct wire_connect_request request = {
        .last_zxid_seen = last_zxid, .timeout_ms = timeout_ms, .session_id = id, .passwd = passwd};
    buf_init(&b, 0);
    wire_encode_connect_request(&b, &request);
    if (read_only_byte) {
        wire_write_boolean(&b, false);
    }
    guest_send_frame(p, buf_slice(&b));
    buf_finish(&b);
}

size_t guest_connected(struct guest *p, struct wire_connect_response *ret)
{
    struct slice raw;
    assert_true(guest_next_raw(p, &raw));
    struct wire_reader r = wire_reader_make(raw);
    assert_int_equal(wire_decode_connect_response(&r, ret), 0);
    assert_int_equal(ret->passwd.len, WIRE_PASSWD_LEN);
    memcpy(p->passwd, ret->passwd.data, WIRE_PASSWD_LEN);
    return raw.len;
}

void guest_open(struct guest *p, struct service_harness *h, int32_t timeout_ms)
{
    struct wire_connect_response response;
    static const uint8_t zeros[WIRE_PASSWD_LEN];
    guest_init(p, h);
    guest_connect(p, 0, timeout_ms, 0, slice_make(zeros, sizeof zeros), true);
    service_harness_settle(h);
    guest_connected(p, &response);
    assert_int_not_equal(response.session_id, 0);
    assert_int_equal(p->c.stage, CONNECTION_SERVING);
}

struct slice body_path_watch(const char *path, bool watch)
{
    struct wire_get_data_request r = {.path = slice_str(path), .watch = watch};
    buf_reset(&request_bytes);
    wire_encode_get_data_request(&request_bytes, &r);
    return buf_slice(&request_bytes);
}

struct slice body_create(const char *path, const char *data, int32_t mode)
{
    struct buf acl;
    struct wire_acl entry = {WIRE_PERM_ALL, {slice_str("world"), slice_str("anyone")}};
    buf_init(&acl, 0);
    wire_encode_acl(&acl, &entry);
    struct wire_create_request r = {.path = slice_str(path),
                                    .data = slice_str(data),
                                    .acl = wire_vector_make(&acl, 1),
                                    .flags = mode};
    buf_reset(&request_bytes);
    wire_encode_create_request(&request_bytes, &r);
    buf_finish(&acl);
    return buf_slice(&request_bytes);
}

struct slice body_set(const char *path, const char *data)
{
    struct wire_set_data_request r = {
        .path = slice_str(path), .data = slice_str(data), .version = -1};
    buf_reset(&request_bytes);
    wire_encode_set_data_request(&request_bytes, &r);
    return buf_slice(&request_bytes);
}

struct slice body_delete(const char *path)
{
    struct wire_delete_request r = {.path = slice_str(path), .version = -1};
    buf_reset(&request_bytes);
    wire_encode_delete_request(&request_bytes, &r);
    return buf_slice(&request_bytes);
}

struct slice body_auth(const char *scheme, const char *auth)
{
    struct wire_auth_packet r = {.scheme = slice_str(scheme), .auth = slice_str(auth)};
    buf_reset(&request_bytes);
    wire_encode_auth_packet(&request_bytes, &r);
    return buf_slice(&request_bytes);
}

void body_finish(void)
{
    buf_finish(&request_bytes);
}
