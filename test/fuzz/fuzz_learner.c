/*
 * A leader of Apache ZooKeeper that a stranger has made, and the mirror that follows it. The first byte of the input chooses:
 *   odd   the rest is what the leader sends
 *   even  the rest is a program: packets made from it, well-formed for the most part
 * Bit 1: the mirror has a state already, and goes on from there. What must hold: the learner ends with words, or goes on; whole states
 * and transactions come in the order of their zxids; two mirrors that apply them stay the same; the state of a mirror can
 * be written and restored at any moment; and the mirror can end and take writes.
 */
#include "apache/learner/learner.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "state/adopt/mirrored.h"
#include "state/mirror.h"
#include "wire/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 120, MIRROR = 7, BYTES_PER_STEP = 4096 };

#define SESSION 0x100000001LL

enum packet {
    PROPOSAL = 2,
    COMMIT = 4,
    PING = 5,
    INFORM = 8,
    NEWLEADER = 10,
    UPTODATE = 12,
    DIFF = 13,
    TRUNC = 14,
    SNAP = 15,
    LEADERINFO = 17,
    INFORMANDACTIVATE = 19,
};

const struct cost_bound fuzz_bound = {
    .cpu_us = 400000,
    .cpu_ns_per_byte = 100000,
    .alloc_bytes = 16 << 20,
    .alloc_per_byte = 4096,
};

/* The keys of the two mirrors' tables: nothing may show them. */
static const struct hash_key keys[2] = {{{1, 2}}, {{3, 4}}};

struct world {
    struct learner *l;
    struct state *mirrors[2];
    struct effects effects[2];
    struct buf in;
    int64_t zxid; /* of the leader's next transaction, most often */
    int64_t last; /* that the mirror was given */
    bool began;   /* the mirror has a state */
    int lives;
};

/* --- the mirror ------------------------------------------------------------------------------- */

static void apply_both(struct world *w, int32_t type, struct slice body)
{
    const struct batch_header header = {.origin = BATCH_ORIGIN_LEADER, .time_ms = 1000};
    const struct command c = {
        .type = type, .ids = {.items = slice_str(""), .count = 0}, .body = body};
    for (int i = 0; i < 2; i++) {
        mirrored_apply(w->mirrors[i], &header, &c, &w->effects[i]);
    }
    must(w->effects[0].err == w->effects[1].err);
    must(state_zxid(w->mirrors[0]) == state_zxid(w->mirrors[1]));
    cost_stands_for(BYTES_PER_STEP + body.len);
}

static void check_mirrors(struct world *w)
{
    cost_pause();
    must(state_digest(w->mirrors[0]) == state_digest(w->mirrors[1]));
    must(state_digest_now(w->mirrors[0]) == state_digest(w->mirrors[0]));
    cost_resume();
}

static void write_whole(struct state *s, struct buf *out)
{
    int rc = state_snapshot_begin(s);
    must(rc == 0);
    do {
        rc = state_snapshot_step(s, 64, out);
    } while (rc == 1);
    must(rc == 0 && buf_ok(out));
}

/* As the log has it: written, and read again by each server. */
static int on_state(void *ctx, struct state *state_take)
{
    struct world *w = ctx;
    struct buf whole;
    buf_init(&whole, 0);
    w->last = state_zxid(state_take);
    must(w->last >= 0);
    write_whole(state_take, &whole);
    state_destroy(state_take);
    for (int i = 0; i < 2; i++) {
        struct state *s = NULL;
        must(state_restore(buf_slice(&whole), &keys[i], &s) == 0);
        must(state_mirror_succeed(s, w->mirrors[i], MIRROR) == 0);
        state_destroy(w->mirrors[i]);
        w->mirrors[i] = s;
    }
    cost_stands_for(whole.len);
    buf_finish(&whole);
    w->began = true;
    check_mirrors(w);
    return 0;
}

static int on_transaction(void *ctx, int64_t previous_zxid, int64_t zxid, struct slice bytes)
{
    struct world *w = ctx;
    struct buf body;
    must(previous_zxid == w->last && zxid > previous_zxid && w->began);
    buf_init(&body, 0);
    const struct mirror_transaction t = {MIRROR, previous_zxid, bytes};
    mirror_transaction_encode(&body, &t);
    must(buf_ok(&body));
    apply_both(w, COMMAND_MIRROR_TRANSACTION, buf_slice(&body));
    buf_finish(&body);
    check_mirrors(w);
    w->last = zxid;
    /* What cannot be applied makes the mirror ask for the whole state again. */
    return w->effects[0].err == 0 ? 0 : CONCLAVE_ECORRUPT;
}

static void on_live(void *ctx)
{
    struct world *w = ctx;
    must(++w->lives == 1);
}

static void on_seen(void *ctx, int64_t zxid)
{
    (void)ctx;
    (void)zxid;
}

/* --- programs --------------------------------------------------------------------------------- */

static struct slice take_path(struct input *in)
{
    static const char *const paths[] = {
        "/a",
        "/a/b",
        "/a/b/c",
        "/e",
        "/e/f",
        "/zookeeper",
        "/zookeeper/config",
        "/zookeeper/quota",
        "/zookeeper/quota/a",
        "/zookeeper/quota/a/zookeeper_limits",
        "/zookeeper/quota/a/zookeeper_stats",
        "/zookeeper/fence",
        "/zookeeper/fence/a",
        "/zookeeper/fence/a/conclave_fence",
        "/",
        "",
        "a",
        "/a//b",
        "/a\n\x1b[1m\"",
        "/\xff",
    };
    return slice_str(paths[take(in) % (sizeof paths / sizeof paths[0])]);
}

static int64_t take_number(struct input *in)
{
    static const int64_t numbers[] = {
        0,         1,    -1,        SESSION,   SESSION + 1,  INT64_MIN, INT64_MAX,
        1LL << 32, 1000, INT32_MAX, INT32_MIN, 0xff00000001, -2,        7};
    uint8_t which = take(in);
    return which < 200 ? numbers[which % (sizeof numbers / sizeof numbers[0])]
                       : (int64_t)((uint64_t)take_u32(in) << 32 | take_u32(in));
}

/* A number of the packet's own kind, or now and then any. */
static int64_t mostly(struct input *in, int64_t number)
{
    return take(in) < 240 ? number : take_number(in);
}

static void put_acl(struct input *in, struct buf *out)
{
    static const char *const schemes[] = {"world", "digest", "ip", "auth", "", "x"};
    int32_t count = take(in) < 240 ? 1 : (int32_t)take_number(in);
    buf_append_i32(out, count);
    for (int i = 0; i < count && i < 2; i++) {
        buf_append_i32(out, (int32_t)mostly(in, 31));
        wire_write_string(out, slice_str(schemes[take(in) % 6]));
        wire_write_string(out, take_bytes(in, 8));
    }
}

static int32_t take_type(struct input *in)
{
    static const int32_t types[] = {
        WIRE_CREATE,         WIRE_CREATE2,       WIRE_DELETE,           WIRE_SET_DATA,
        WIRE_SET_ACL,        WIRE_CREATE_TTL,    WIRE_CREATE_CONTAINER, WIRE_DELETE_CONTAINER,
        WIRE_CREATE_SESSION, WIRE_CLOSE_SESSION, WIRE_RECONFIG,         WIRE_ERROR,
        WIRE_CHECK,          WIRE_MULTI};
    return types[take(in) % (sizeof types / sizeof types[0])];
}

static void put_record(struct input *in, struct buf *out, int32_t type, int depth);

static void put_multi(struct input *in, struct buf *out, int depth)
{
    int32_t parts = take(in) % 4;
    buf_append_i32(out, (int32_t)mostly(in, parts));
    for (int32_t i = 0; i < parts; i++) {
        struct buf record;
        int32_t type = take_type(in);
        buf_init(&record, 0);
        put_record(in, &record, type, depth + 1);
        buf_append_i32(out, type);
        wire_write_buffer(out, buf_slice(&record));
        buf_finish(&record);
    }
}

static void put_record(struct input *in, struct buf *out, int32_t type, int depth)
{
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_TTL:
    case WIRE_CREATE_CONTAINER:
        wire_write_string(out, take_path(in));
        wire_write_buffer(out, take_bytes(in, 40));
        put_acl(in, out);
        if (type == WIRE_CREATE || type == WIRE_CREATE2) {
            wire_write_boolean(out, (take(in) & 1) != 0);
        }
        buf_append_i32(out, (int32_t)mostly(in, -1));
        if (type == WIRE_CREATE_TTL) {
            buf_append_i64(out, take_number(in));
        }
        break;
    case WIRE_SET_DATA:
    case WIRE_RECONFIG:
        wire_write_string(out, take_path(in));
        wire_write_buffer(out, take_bytes(in, 40));
        buf_append_i32(out, (int32_t)mostly(in, 1));
        break;
    case WIRE_SET_ACL:
        wire_write_string(out, take_path(in));
        put_acl(in, out);
        buf_append_i32(out, (int32_t)mostly(in, 1));
        break;
    case WIRE_CREATE_SESSION:
    case WIRE_ERROR:
        buf_append_i32(out, (int32_t)mostly(in, 9000));
        break;
    case WIRE_CLOSE_SESSION:
        if ((take(in) & 1) != 0) {
            buf_append_i32(out, 1);
            wire_write_string(out, take_path(in));
        }
        break;
    case WIRE_MULTI:
        if (depth == 0) {
            put_multi(in, out, depth);
        }
        break;
    default:
        wire_write_string(out, take_path(in));
        if (type == WIRE_CHECK) {
            buf_append_i32(out, 1);
        }
    }
}

static void put_packet(struct world *w, int32_t type, int64_t zxid, struct slice data)
{
    buf_append_i32(&w->in, type);
    buf_append_i64(&w->in, zxid);
    wire_write_buffer(&w->in, data);
    buf_append_i32(&w->in, -1);
}

static void put_transaction(struct world *w, struct input *in, int32_t packet)
{
    struct buf data;
    const struct wire_txn_header header = {mostly(in, SESSION + (take(in) & 1)), 1,
                                           mostly(in, w->zxid), mostly(in, 1000), take_type(in)};
    buf_init(&data, 0);
    if (packet == INFORMANDACTIVATE) {
        buf_append_i64(&data, take_number(in));
    }
    wire_encode_txn_header(&data, &header);
    put_record(in, &data, header.type, 0);
    if (take(in) > 240) {
        const struct wire_txn_digest digest = {2, take_number(in)};
        wire_encode_txn_digest(&data, &digest);
    }
    put_packet(w, packet, w->zxid, buf_slice(&data));
    if (packet == PROPOSAL && take(in) < 200) {
        put_packet(w, COMMIT, w->zxid, SLICE_NULL);
    }
    buf_finish(&data);
    w->zxid = header.zxid < INT64_MAX ? header.zxid + 1 : header.zxid;
}

static void put_snapshot(struct world *w, struct input *in)
{
    struct buf *out = &w->in;
    int64_t zxid = mostly(in, w->zxid);
    put_packet(w, SNAP, zxid, SLICE_NULL);
    int32_t sessions = take(in) % 3;
    buf_append_i32(out, (int32_t)mostly(in, sessions));
    for (int i = 0; i < sessions; i++) {
        buf_append_i64(out, mostly(in, SESSION + i));
        buf_append_i32(out, (int32_t)mostly(in, 9000));
    }
    int32_t acls = take(in) % 3;
    buf_append_i32(out, (int32_t)mostly(in, acls));
    for (int i = 0; i < acls; i++) {
        buf_append_i64(out, mostly(in, i + 1));
        put_acl(in, out);
    }
    int nodes = take(in) % 12;
    for (int i = 0; i < nodes; i++) {
        const struct wire_file_node node = {.data = take_bytes(in, 40),
                                            .acl = mostly(in, -1),
                                            .czxid = mostly(in, 1),
                                            .mzxid = mostly(in, 1),
                                            .ctime = mostly(in, 1000),
                                            .mtime = mostly(in, 1000),
                                            .version = (int32_t)mostly(in, 0),
                                            .cversion = (int32_t)mostly(in, 1),
                                            .aversion = (int32_t)mostly(in, 0),
                                            .ephemeral_owner = mostly(in, 0),
                                            .pzxid = mostly(in, 1)};
        wire_write_string(out, i == 0 ? slice_str("") : take_path(in));
        wire_encode_file_node(out, &node);
    }
    wire_write_string(out, slice_str("/"));
    if ((take(in) & 1) != 0) {
        const struct wire_file_digest digest = {mostly(in, 0), 2, take_number(in)};
        buf_append_i64(out, digest.zxid);
        buf_append_i32(out, digest.version);
        buf_append_i64(out, digest.digest);
    }
    wire_write_string(out, slice_str("BenWasHere"));
    w->zxid = zxid < INT64_MAX ? zxid + 1 : zxid;
}

static void put_step(struct world *w, struct input *in)
{
    static const uint8_t version[] = {0, 1, 0, 0};
    static const int32_t flows[] = {INFORM, INFORM, INFORM, PROPOSAL, INFORMANDACTIVATE};
    uint8_t which = take(in) % 16;
    switch (which) {
    case 0:
        put_packet(w, LEADERINFO, 3LL << 32, slice_make(version, sizeof version));
        break;
    case 1:
        put_snapshot(w, in);
        break;
    case 2:
        put_packet(w, (int32_t)(take(in) & 1 ? DIFF : TRUNC), w->zxid, SLICE_NULL);
        break;
    case 3:
        put_packet(w, NEWLEADER, mostly(in, 3LL << 32), SLICE_NULL);
        break;
    case 4:
        put_packet(w, UPTODATE, -1, SLICE_NULL);
        break;
    case 5:
        put_packet(w, PING, mostly(in, w->zxid), take_bytes(in, 20));
        break;
    case 6:
        buf_append_slice(&w->in, take_bytes(in, 40));
        break;
    default:
        put_transaction(w, in, flows[which % 5]);
    }
}

/* What a leader begins with. */
static void put_begin(struct world *w, struct input *in)
{
    static const uint8_t version[] = {0, 1, 0, 0};
    put_packet(w, LEADERINFO, 3LL << 32, slice_make(version, sizeof version));
    if ((take(in) & 1) != 0) {
        put_snapshot(w, in);
    } else {
        put_packet(w, DIFF, w->zxid, SLICE_NULL);
    }
}

/* --- one input -------------------------------------------------------------------------------- */

static void world_init(struct world *w, bool again)
{
    struct state_mirror m = {.id = MIRROR, .source = slice_str("a:1"), .any_reader = true};
    struct buf body;
    *w = (struct world){.zxid = (2LL << 32) + 1};
    buf_init(&w->in, 0);
    buf_init(&body, 0);
    mirror_begin_encode(&body, &m, false);
    for (int i = 0; i < 2; i++) {
        effects_init(&w->effects[i]);
        w->mirrors[i] = state_create(&keys[i]);
        must(w->mirrors[i] != NULL);
    }
    apply_both(w, COMMAND_MIRROR_BEGIN, buf_slice(&body));
    must(w->effects[0].err == 0);
    buf_finish(&body);
    if (again) {
        struct state *empty = state_create(&keys[0]);
        must(empty != NULL && on_state(w, empty) == 0);
        w->zxid = w->last + 1;
    }
    const struct learner_options options = {
        .server_id = 77, .last_zxid = again ? w->last : 0, .key = &keys[0]};
    const struct learner_callbacks callbacks = {w,       on_state, on_transaction,
                                                on_live, on_seen,  on_seen};
    w->l = learner_create(&options, &callbacks);
    must(w->l != NULL);
}

/* Gives the learner what there is. False: it ended. */
static bool give(struct world *w)
{
    size_t taken = 0;
    int rc = learner_input(w->l, buf_slice(&w->in), &taken);
    must(taken <= w->in.len && rc != CONCLAVE_EBUSY);
    must(rc == 0 || learner_problem(w->l)[0] != '\0');
    for (const char *c = learner_problem(w->l); *c != '\0'; c++) {
        must((unsigned char)*c >= ' ' && *c != 0x7f && *c != '"');
    }
    buf_consume(&w->in, taken);
    buf_reset(learner_out(w->l));
    return rc == 0;
}

/* The mirror ends, and is a state like any other. */
static void end_mirrors(struct world *w)
{
    struct buf body;
    struct buf whole;
    struct state *s = NULL;
    struct state_mirror m;
    cost_pause();
    buf_init(&body, 0);
    buf_init(&whole, 0);
    mirror_end_encode(&body, MIRROR, state_zxid(w->mirrors[0]));
    apply_both(w, COMMAND_MIRROR_END, buf_slice(&body));
    check_mirrors(w);
    if (!state_mirror(w->mirrors[0], &m)) {
        buf_reset(&body);
        wire_write_string(&body, slice_str("/own"));
        wire_write_buffer(&body, slice_str("x"));
        buf_append_i32(&body, 1);
        buf_append_i32(&body, 31);
        wire_write_string(&body, slice_str("world"));
        wire_write_string(&body, slice_str("anyone"));
        buf_append_i32(&body, 0);
        apply_both(w, WIRE_CREATE, buf_slice(&body));
        check_mirrors(w);
    }
    write_whole(w->mirrors[0], &whole);
    must(state_restore(buf_slice(&whole), &keys[1], &s) == 0);
    must(state_digest(s) == state_digest(w->mirrors[0]));
    state_destroy(s);
    buf_finish(&body);
    buf_finish(&whole);
    cost_resume();
}

void fuzz_input(const uint8_t *data, size_t size)
{
    struct world w;
    struct input in = input_make(slice_make(data, size));
    uint8_t mode = take(&in);
    world_init(&w, (mode & 2) != 0);
    if ((mode & 1) != 0) {
        struct slice rest = take_rest(&in);
        size_t step = 1 + (mode >> 2) * 8u;
        bool on = true;
        while (on && rest.len > 0) {
            size_t len = rest.len < step ? rest.len : step;
            buf_append_slice(&w.in, slice_make(rest.data, len));
            rest = slice_make(rest.data + len, rest.len - len);
            on = give(&w);
        }
    } else {
        put_begin(&w, &in);
        for (int i = 0; give(&w) && i < STEPS_MAX && !input_ended(&in); i++) {
            put_step(&w, &in);
        }
    }
    end_mirrors(&w);
    learner_destroy(w.l);
    for (int i = 0; i < 2; i++) {
        state_destroy(w.mirrors[i]);
        effects_finish(&w.effects[i]);
    }
    buf_finish(&w.in);
}
