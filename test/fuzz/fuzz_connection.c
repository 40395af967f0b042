/*
 * What clients may send to a server, through connections, pipeline, state and watches. The input is a program for three
 * connections: raw bytes, frames of any type, requests of the right form, session requests, entries of the log applied,
 * time, the quorum lost and found, connections that end.
 * What must hold: nothing asserts; all output is whole frames; no more replies come than requests went in.
 */
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "support/service_harness.h"

enum { GUESTS = 3, STEPS_MAX = 300 };

/* Bytes to count for a step beside those that it sends. */
enum { STEP_BYTES = 64 };

const struct cost_bound fuzz_bound = {
    .cpu_us = 200000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 4 << 20,
    .alloc_per_byte = 1000,
};

struct player {
    struct guest guest;
    size_t requests;
    size_t frames; /* replies received, events not counted */
};

struct stage {
    struct service_harness h;
    struct player players[GUESTS];
    int64_t session_id; /* the newest one granted */
    uint8_t passwd[WIRE_PASSWD_LEN];
};

/* --- requests of the right form ------------------------------------------------------------------- */

/* One letter for each field: p path, b buffer, A ACL, i small number, m mode of create, L i64, w boolean, P vector of
 * paths, s scheme. */
static const struct {
    int32_t type;
    const char *fields;
} forms[] = {
    {WIRE_CREATE, "pbAm"},
    {WIRE_CREATE2, "pbAm"},
    {WIRE_CREATE_CONTAINER, "pbAm"},
    {WIRE_CREATE_TTL, "pbAmL"},
    {WIRE_DELETE, "pi"},
    {WIRE_SET_DATA, "pbi"},
    {WIRE_SET_ACL, "pAi"},
    {WIRE_CHECK, "pi"},
    {WIRE_EXISTS, "pw"},
    {WIRE_GET_DATA, "pw"},
    {WIRE_GET_CHILDREN, "pw"},
    {WIRE_GET_CHILDREN2, "pw"},
    {WIRE_GET_ACL, "p"},
    {WIRE_SYNC, "p"},
    {WIRE_SET_WATCHES, "LPPP"},
    {WIRE_SET_WATCHES2, "LPPPPP"},
    {WIRE_ADD_WATCH, "pi"},
    {WIRE_REMOVE_WATCHES, "pi"},
    {WIRE_CHECK_WATCHES, "pi"},
    {WIRE_AUTH, "isb"},
    {WIRE_SASL, "b"},
    {WIRE_GET_EPHEMERALS, "p"},
    {WIRE_GET_ALL_CHILDREN_NUMBER, "p"},
    {WIRE_RECONFIG, "sssL"},
    {WIRE_WHO_AM_I, ""},
    {WIRE_PING, ""},
    {WIRE_CLOSE_SESSION, ""},
};
enum { FORMS = sizeof forms / sizeof forms[0], FORMS_OF_WRITES = 8 };

static void put_path(struct buf *b, struct input *in)
{
    static const char *const paths[] = {
        "/", "/a", "/a/b", "/b", "/a/", "/a/s", "", "/zookeeper/quota/a/zookeeper_limits"};
    uint8_t which = take(in);
    if (which < 224) {
        wire_write_string(b, slice_str(paths[which % 8]));
        return;
    }
    struct buf path;
    buf_init(&path, 0);
    for (int n = 1 + take(in); n > 0; n--) {
        buf_append_str(&path, which % 2 == 0 ? "/a" : "/long-component");
    }
    wire_write_string(b, buf_slice(&path));
    buf_finish(&path);
}

static void put_acl(struct buf *b, struct input *in)
{
    static const char *const ids[][2] = {
        {"world", "anyone"}, {"auth", ""}, {"digest", "u:h"}, {"ip", "10.0.0.0/8"}};
    int32_t count = take(in);
    count = count < 200 ? 1 : count - 199;
    uint8_t which = take(in);
    wire_write_i32(b, count);
    for (int32_t i = 0; i < count; i++) {
        struct wire_acl acl = {which < 128 ? 31 : i,
                               {slice_str(ids[which % 4][0]), slice_str(ids[which % 4][1])}};
        wire_encode_acl(b, &acl);
    }
}

static void put_field(struct buf *b, struct input *in, char field)
{
    static const char *const schemes[] = {"digest", "ip",    "super", "sasl",
                                          "x509",   "world", "",      "u:p"};
    int32_t count;
    switch (field) {
    case 'p':
        put_path(b, in);
        break;
    case 'b':
        wire_write_buffer(b, take_bytes(in, 40));
        break;
    case 'A':
        put_acl(b, in);
        break;
    case 'i':
        wire_write_i32(b, (int32_t)take(in) % 8 - 1);
        break;
    case 'm':
        wire_write_i32(b, take(in) % 8);
        break;
    case 'L':
        wire_write_i64(b, (int64_t)take(in) - 1);
        break;
    case 'w':
        wire_write_boolean(b, take(in) % 2 == 0);
        break;
    case 's':
        wire_write_string(b, slice_str(schemes[take(in) % 8]));
        break;
    default:
        count = take(in) % 5;
        wire_write_i32(b, count);
        for (int32_t i = 0; i < count; i++) {
            put_path(b, in);
        }
    }
}

static int32_t put_form(struct buf *b, struct input *in, size_t which)
{
    for (const char *field = forms[which].fields; *field != '\0'; field++) {
        put_field(b, in, *field);
    }
    return forms[which].type;
}

/* A multi, its parts repeated. */
static int32_t put_multi(struct buf *b, struct input *in)
{
    struct buf parts, part;
    buf_init(&parts, 0);
    buf_init(&part, 0);
    for (int n = take(in) % 4; n >= 0; n--) {
        buf_reset(&part);
        struct wire_multi_header h = {.done = false, .err = -1};
        h.type = put_form(&part, in, take(in) % FORMS_OF_WRITES);
        wire_encode_multi_header(&parts, &h);
        buf_append_slice(&parts, buf_slice(&part));
    }
    for (int n = take(in); n >= 0; n -= 8) {
        buf_append_slice(b, buf_slice(&parts));
    }
    wire_encode_multi_header(b, &(struct wire_multi_header){-1, true, -1});
    buf_finish(&parts);
    buf_finish(&part);
    return WIRE_MULTI;
}

/* --- connections ---------------------------------------------------------------------------------- */

static void send_bytes(struct player *p, struct slice bytes)
{
    if (p->guest.closed || p->guest.c.stage == CONNECTION_CLOSED) {
        return;
    }
    cost_stands_for(bytes.len);
    p->requests += bytes.len / 4 + 1;
    guest_send(&p->guest, bytes);
}

static void send_frame(struct player *p, struct slice body)
{
    struct buf b;
    buf_init(&b, 0);
    wire_write_buffer(&b, body);
    send_bytes(p, buf_slice(&b));
    buf_finish(&b);
}

static void send_request(struct player *p, struct input *in, uint8_t op)
{
    struct buf frame, body;
    buf_init(&frame, 0);
    buf_init(&body, 0);
    int32_t type = op == 0 ? put_multi(&body, in) : put_form(&body, in, take(in) % FORMS);
    if (p->guest.c.numbered && take(in) % 8 != 0) {
        struct wire_write_number n = {.number = take(in)};
        wire_encode_write_number(&body, &n);
    }
    wire_write_i32(&frame, take(in) < 16 ? -take(in) % 10 : p->guest.next_xid++);
    wire_write_i32(&frame, type);
    buf_append_slice(&frame, buf_slice(&body));
    send_frame(p, buf_slice(&frame));
    buf_finish(&frame);
    buf_finish(&body);
}

/* A session request: a new session, the newest one that was granted, or with a wrong password. */
static void send_connect(struct stage *s, struct player *p, struct input *in)
{
    uint8_t how = take(in);
    static const uint8_t zeros[WIRE_PASSWD_LEN];
    struct wire_connect_request r = {
        .timeout_ms = take(in) * 200,
        .last_zxid_seen = how % 8 == 7 ? 1 << 20 : 0,
        .session_id = how % 2 == 0 ? 0 : s->session_id,
        .passwd = slice_make(how % 4 == 1 ? s->passwd : zeros, WIRE_PASSWD_LEN),
    };
    struct buf b;
    buf_init(&b, 0);
    wire_encode_connect_request(&b, &r);
    if (how >= 64) {
        wire_write_boolean(&b, how % 16 == 15);
    }
    if (how >= 128) {
        wire_write_i32(&b, WIRE_EXTENSION_MAGIC);
        buf_append_slice(&b, take_bytes(in, 40));
    }
    send_frame(p, buf_slice(&b));
    buf_finish(&b);
}

/* All that came out is whole frames. The first one may say which session there is. */
static void look(struct stage *s, struct player *p)
{
    struct slice frame;
    while (guest_next_raw(&p->guest, &frame)) {
        struct wire_reader r = wire_reader_make(frame);
        struct wire_connect_response response;
        struct wire_reply_header header;
        if (p->frames == 0 && wire_decode_connect_response(&r, &response) == 0 &&
            response.passwd.len == WIRE_PASSWD_LEN) {
            s->session_id = response.session_id;
            memcpy(s->passwd, response.passwd.data, WIRE_PASSWD_LEN);
        }
        r = wire_reader_make(frame);
        must(wire_decode_reply_header(&r, &header) == 0);
        p->frames += header.xid != WIRE_XID_NOTIFICATION || p->frames == 0;
        cost_stands_for(frame.len);
    }
    must(p->guest.out_at == p->guest.out.len);
    must(p->frames <= p->requests);
}

static void apply_some(struct stage *s, size_t left)
{
    while (s->h.log_count > left) {
        service_harness_apply_one(&s->h);
        service_harness_turn(&s->h);
    }
}

static void settle(struct stage *s)
{
    service_harness_settle(&s->h);
    for (int i = 0; i < GUESTS; i++) {
        look(s, &s->players[i]);
    }
}

static void again(struct stage *s, struct player *p)
{
    guest_finish(&p->guest);
    *p = (struct player){0};
    guest_init(&p->guest, &s->h);
}

static void step(struct stage *s, struct input *in)
{
    uint8_t op = take(in);
    struct player *p = &s->players[op / 16 % GUESTS];
    cost_stands_for(STEP_BYTES);
    switch (op % 16) {
    case 0:
        send_bytes(p, take_bytes(in, 80));
        break;
    case 1:
        send_frame(p, take_bytes(in, 120));
        break;
    case 2:
        send_connect(s, p, in);
        break;
    case 3:
        settle(s);
        break;
    case 4:
        service_harness_advance(&s->h, take(in) * 100);
        break;
    case 5:
        settle(s);
        again(s, p);
        break;
    case 6:
        s->h.service.standing.sole = op >= 128;
        if (op >= 64) {
            leadership_contact(&s->h.service, s->h.now_ms);
        }
        break;
    case 7:
        apply_some(s, s->h.log_count / 2);
        break;
    default:
        send_request(p, in, op % 16 - 8);
    }
    if (s->h.log_count > LOG_MAX / 2) {
        apply_some(s, 0);
    }
    service_harness_turn(&s->h);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    struct input in = input_make(slice_make(data, size));
    static struct stage s;
    struct service_options options = service_harness_options();
    uint8_t first = take(&in);
    options.command_options = first;
    options.read_only_mode = first % 2 == 0;
    options.local_sessions = first / 2 % 2 == 0;
    options.local_upgrading = first / 4 % 2 == 0;
    s = (struct stage){0};
    service_harness_open(&s.h, options);
    for (int i = 0; i < GUESTS; i++) {
        guest_init(&s.players[i].guest, &s.h);
    }
    for (int steps = 0; !input_ended(&in) && steps < STEPS_MAX; steps++) {
        step(&s, &in);
    }
    settle(&s);
    for (int i = 0; i < GUESTS; i++) {
        guest_finish(&s.players[i].guest);
    }
    service_harness_turn(&s.h);
    service_harness_finish(&s.h);
}
