/*
 * Batches of commands through the state machine. The first byte of the input, modulo 8, chooses (of 4
 * and more, all but 7 mean the same as 4 less):
 *   0  the rest is a batch, as it would stand in the log
 *   1  the rest is a snapshot
 *   2  the rest is a program: requests made from it, well-formed for the most part
 *   3  the rest is the records of a snapshot of version 1, whose frame and checksum are added
 *   7  the same of the version that is written now
 * What must hold: two states that apply the same stay the same, each command takes one zxid, an error
 * comes without a reply, and a snapshot, taken at any moment and while commands go on, restores to the
 * state it was taken of.
 */
#include "base/endian.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "state/snapshot_format.h"
#include "state/state_internal.h"

#include <stdio.h>
#include <stdlib.h>

enum { REQUESTS_MAX = 200, POPULATIONS_MAX = 4 };

/* Bytes to count for a command beside its own: each is tried as several reads, too. */
enum { COMMAND_BYTES = 1024 };

/* Most bytes of a reply that count: a longer one means that a command made too many bytes of few. */
enum { REPLY_BYTES = 64 << 10 };

/* One of the steps of a program that make a command (put_command). */
enum { KIND_LARGE = 11 };

/* Two states that must stay the same, and a snapshot that may be under way of the first. */
struct world {
    struct state *states[2];
    struct effects effects[2];
    struct buf batch;         /* commands gathered and not applied yet */
    struct buf snapshot;      /* written so far */
    uint64_t snapshot_digest; /* of the state when it began */
    bool snapshotting;
    int requests;
    int64_t sequences[4]; /* of each origin's last batch */
    int64_t populated;    /* times that populate was called */
};

/* The keys of the two states' tables: nothing may show them. */
static const struct hash_key keys[2] = {{{1, 2}}, {{3, 4}}};

/* --- the rules ------------------------------------------------------------------------------------ */

static void world_init(struct world *w)
{
    *w = (struct world){0};
    for (int i = 0; i < 2; i++) {
        w->states[i] = state_create(&keys[i]);
        must(w->states[i] != NULL);
        effects_init(&w->effects[i]);
    }
    buf_init(&w->batch, 0);
    buf_init(&w->snapshot, 0);
}

static void check_same_effects(const struct world *w, const struct command *c, int64_t before)
{
    const struct effects *a = &w->effects[0];
    const struct effects *b = &w->effects[1];
    int64_t zxid = before + (c->type != COMMAND_ATTACH_SESSION);
    bool known = (c->options & COMMAND_NUMBERED) != 0 && state_zxid(w->states[0]) == before;
    must(state_zxid(w->states[0]) == state_zxid(w->states[1]) && a->zxid == b->zxid);
    /* A command that has an answer already gets that answer and is not executed again. */
    must(known ? a->zxid <= before : a->zxid == zxid && state_zxid(w->states[0]) == zxid);
    must(a->err <= 0 && a->err == b->err);
    must(a->err == 0 || (a->reply.len == 0 && a->events_count == 0));
    must(buf_ok(&a->reply) && slice_equal(buf_slice(&a->reply), buf_slice(&b->reply)));
    must(a->events_count == b->events_count && a->session_change == b->session_change);
    for (size_t i = 0; i < a->events_count; i++) {
        must(a->events[i].type == b->events[i].type);
        must(slice_equal(a->events[i].path, b->events[i].path));
        must(a->events[i].path.len > 0 && a->events[i].path.data[0] == '/');
        must(slice_equal(a->events[i].acl.items, b->events[i].acl.items));
        (void)state_event_visible(&a->events[i], WIRE_VECTOR_NULL);
    }
}

/* The reads of one body must not care which of the two states answers. */
static void query_all(struct world *w, struct wire_vector ids, struct slice body)
{
    static const int32_t types[] = {WIRE_EXISTS, WIRE_GET_DATA,     WIRE_GET_ACL,
                                    WIRE_SYNC,   WIRE_GET_CHILDREN, WIRE_GET_CHILDREN2,
                                    WIRE_CREATE, WIRE_MULTI_READ,   WIRE_GET_ALL_CHILDREN_NUMBER};
    struct buf replies[2];
    buf_init(&replies[0], 0);
    buf_init(&replies[1], 0);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct state_watch watches[2];
        int rc[2];
        for (int j = 0; j < 2; j++) {
            buf_reset(&replies[j]);
            rc[j] = state_query(w->states[j], types[i], ids, body, &replies[j], &watches[j]);
        }
        must(rc[0] == rc[1] && rc[0] <= 0);
        must(rc[0] == 0 || replies[0].len == 0);
        cost_stands_for(replies[0].len < REPLY_BYTES ? replies[0].len : REPLY_BYTES);
        must(slice_equal(buf_slice(&replies[0]), buf_slice(&replies[1])));
    }
    for (int j = 0; j < 2; j++) {
        buf_reset(&replies[j]);
        int rc = state_ephemerals(w->states[j], 1, body, &replies[j]);
        must(rc == 0 || (rc < 0 && replies[j].len == 0));
    }
    must(replies[0].len == replies[1].len);
    buf_finish(&replies[0]);
    buf_finish(&replies[1]);
}

static void apply_batch(struct world *w, struct slice bytes)
{
    struct batch_reader reader;
    if (batch_open(bytes, &reader) != 0) {
        return;
    }
    struct command c;
    enum state_batch verdict = state_batch_admit(w->states[0], &reader.header);
    must(verdict == state_batch_admit(w->states[1], &reader.header));
    if (verdict != STATE_BATCH_APPLY) {
        return;
    }
    while (w->requests < REQUESTS_MAX && batch_next(&reader, &c) == 1) {
        w->requests++;
        int64_t before = state_zxid(w->states[0]);
        for (int i = 0; i < 2; i++) {
            state_apply(w->states[i], &reader.header, &c, &w->effects[i]);
        }
        cost_stands_for(COMMAND_BYTES + c.body.len + c.ids.items.len);
        check_same_effects(w, &c, before);
        query_all(w, c.ids, c.body);
    }
    cost_pause();
    must(state_digest(w->states[0]) == state_digest(w->states[1]));
    must(state_digest_now(w->states[0]) == state_digest(w->states[0]));
    must(state_digest_now(w->states[1]) == state_digest(w->states[1]));
    struct state_stats stats[2];
    for (int i = 0; i < 2; i++) {
        state_stats(w->states[i], &stats[i]);
    }
    must(memcmp(&stats[0], &stats[1], sizeof stats[0]) == 0);
    cost_resume();
}

/* --- snapshots ------------------------------------------------------------------------------------ */

static void snapshot_check(struct world *w)
{
    struct state *restored = NULL;
    must(state_restore(buf_slice(&w->snapshot), &hash_key_fixed, &restored) == 0);
    must(state_digest(restored) == w->snapshot_digest);
    must(state_digest_now(restored) == w->snapshot_digest);
    state_destroy(restored);
    buf_reset(&w->snapshot);
    w->snapshotting = false;
}

static void snapshot_begin(struct world *w)
{
    w->snapshot_digest = state_digest(w->states[0]);
    must(state_snapshot_begin(w->states[0]) == 0);
    w->snapshotting = true;
}

static void snapshot_step(struct world *w, size_t max_bytes)
{
    if (!w->snapshotting) {
        snapshot_begin(w);
        return;
    }
    int rc = state_snapshot_step(w->states[0], max_bytes, &w->snapshot);
    must(rc >= 0 && buf_ok(&w->snapshot));
    if (rc == 0) {
        snapshot_check(w);
    }
}

static void world_finish(struct world *w)
{
    /* A snapshot costs as much as there are nodes, of which the input says nothing then. */
    bool counts = w->populated == 0;
    if (!counts) {
        cost_pause();
    }
    if (!w->snapshotting) {
        snapshot_begin(w);
    }
    while (w->snapshotting) {
        snapshot_step(w, 64);
    }
    for (int i = 0; i < 2; i++) {
        state_destroy(w->states[i]);
        effects_finish(&w->effects[i]);
    }
    buf_finish(&w->batch);
    buf_finish(&w->snapshot);
    if (!counts) {
        cost_resume();
    }
}

/* --- programs ------------------------------------------------------------------------------------- */

static struct slice take_path(struct input *in)
{
    static const char *const paths[] = {
        "/a",   "/a/b",         "/a/b/c",   "/b",     "/b/c",    "/",
        "/a/",  "/zookeeper",   "",         "a",      "/a/../b", "/zookeeper/quota",
        "/b/0", "/a/s-",        "/a//b",    "/\xff",  "/a\x01",  "/zookeeper/config",
        "/b/",  "/a0000000000", "/b/c/d/e", "/a/b/d", "/c",      NULL,
    };
    static const char *const own[] = {"/zookeeper/quota/a",
                                      "/zookeeper/quota/a/zookeeper_limits",
                                      "/zookeeper/quota/a/zookeeper_stats",
                                      "/zookeeper/quota/a/b",
                                      "/zookeeper/fence/a",
                                      "/zookeeper/fence/a/conclave_fence",
                                      "/zookeeper/fence/a/b",
                                      "/zookeeper/fence/a/b/conclave_fence"};
    enum { PATHS = sizeof paths / sizeof paths[0], OWN = sizeof own / sizeof own[0] };
    uint8_t which = take(in);
    return slice_str(which < 9 * PATHS ? paths[which % PATHS] : own[which % OWN]);
}

/* A version: most often "any" or one of the small ones that nodes have. */
static int32_t take_version(struct input *in)
{
    return (int32_t)(take(in) % 6) - 1;
}

static void put_acl(struct buf *b, struct input *in)
{
    static const struct {
        const char *scheme;
        const char *id;
    } ids[] = {{"world", "anyone"}, {"auth", ""},         {"digest", "u:h"}, {"digest", "nocolon"},
               {"ip", "10.0.0.1"},  {"ip", "10.0.0.0/8"}, {"world", "x"},    {"none", "x"}};
    uint8_t form = take(in);
    int32_t count = form % 4 == 0 ? 1 : (int32_t)(form % 4) - 2;
    wire_write_i32(b, count);
    for (int32_t i = 0; i < count; i++) {
        uint8_t which = take(in);
        struct wire_acl acl = {
            .perms = take(in) % 33,
            .id = {slice_str(ids[which % 8].scheme), slice_str(ids[which % 8].id)}};
        wire_encode_acl(b, &acl);
    }
}

static int32_t put_create(struct buf *b, struct input *in)
{
    static const int32_t types[] = {WIRE_CREATE, WIRE_CREATE2, WIRE_CREATE_CONTAINER,
                                    WIRE_CREATE_TTL};
    int32_t type = types[take(in) % 4];
    wire_write_string(b, take_path(in));
    wire_write_buffer(b, take(in) % 8 == 0 ? SLICE_NULL : take_bytes(in, 12));
    put_acl(b, in);
    wire_write_i32(b, take(in) % 8);
    if (type == WIRE_CREATE_TTL) {
        int64_t ttl_ms = (int64_t)take(in) - 1;
        wire_write_i64(b, ttl_ms * ((int64_t)1 << (take(in) % 48)));
    }
    return type;
}

/* Appends the body of one write and returns its type. */
static int32_t put_request(struct buf *b, struct input *in)
{
    switch (take(in) % 6) {
    case 0:
    case 1:
        return put_create(b, in);
    case 2:
        wire_write_string(b, take_path(in));
        wire_write_i32(b, take_version(in));
        return WIRE_DELETE;
    case 3:
        wire_write_string(b, take_path(in));
        wire_write_buffer(b, take_bytes(in, 12));
        wire_write_i32(b, take_version(in));
        return WIRE_SET_DATA;
    case 4:
        wire_write_string(b, take_path(in));
        put_acl(b, in);
        wire_write_i32(b, take_version(in));
        return WIRE_SET_ACL;
    default:
        wire_write_string(b, take_path(in));
        wire_write_i32(b, take_version(in));
        return WIRE_CHECK;
    }
}

static int32_t put_multi(struct buf *b, struct input *in)
{
    struct buf part;
    buf_init(&part, 0);
    for (int n = take(in) % 6; n > 0; n--) {
        buf_reset(&part);
        struct wire_multi_header h = {.type = put_request(&part, in), .done = false, .err = -1};
        wire_encode_multi_header(b, &h);
        buf_append_slice(b, buf_slice(&part));
    }
    wire_encode_multi_header(b, &(struct wire_multi_header){-1, true, -1});
    buf_finish(&part);
    return WIRE_MULTI;
}

static const char *const members[] = {
    "server.1=127.0.0.1:1:2;3", "server.2=10.0.0.2:1:2:observer;3",
    "server.3=[::1]:1:2;3",     "server.4=a:1:2;3",
    "server.4=10.0.0.2:1:9;3",  "server.254=h:70000:2;3",
    "server.255=h:1:2;3",       "1,2",
};

/* A reconfig, or its end; or what opens fencing. */
static int32_t put_reconfig(struct world *w, struct buf *b, struct input *in)
{
    uint8_t how = take(in);
    if (how >= 0xf0) {
        return COMMAND_FENCE_OPEN;
    }
    if (how % 4 == 0) {
        struct state_reconfig r = {.zxid = take(in)};
        (void)state_reconfig(w->states[0], &r);
        reconfig_end_encode(b, r.zxid, -(take(in) % 3));
        return COMMAND_RECONFIG_END;
    }
    struct buf list;
    buf_init(&list, 0);
    buf_append_slice(&list, take_bytes(in, 8));
    for (int n = how / 4 % 4; n > 0; n--) {
        buf_append_str(&list, members[take(in) % 8]);
        buf_append_str(&list, ",");
    }
    bool all = how % 4 == 1;
    struct wire_reconfig_request r = {
        .joining_servers = all ? SLICE_NULL : buf_slice(&list),
        .leaving_servers = all ? SLICE_NULL : take_bytes(in, 4),
        .new_members = all ? buf_slice(&list) : SLICE_NULL,
        .cur_config_id = how / 16 % 4 == 0 ? take(in) : -1,
    };
    wire_encode_reconfig_request(b, &r);
    buf_finish(&list);
    return WIRE_RECONFIG;
}

/* The log's configuration changes, perhaps to what a reconfig wants. */
static void configure(struct world *w, struct input *in)
{
    struct state_reconfig wanted = {.count = 0};
    struct state_member list[5];
    size_t count = 1 + take(in) % 5;
    for (size_t i = 0; i < count; i++) {
        uint8_t which = take(in);
        const char *address = strchr(members[which % 6], '=') + 1;
        list[i] = (struct state_member){1 + which % 5, (enum state_role)(which / 64 % 3), address};
    }
    bool reach = take(in) % 2 == 0 && state_reconfig(w->states[0], &wanted);
    for (int i = 0; i < 2; i++) {
        (void)(reach && state_reconfig(w->states[i], &wanted));
        state_configure(w->states[i], reach ? wanted.members : list, reach ? wanted.count : count,
                        &w->effects[i]);
    }
    const struct effects *a = &w->effects[0];
    must(a->zxid == w->effects[1].zxid && a->events_count == w->effects[1].events_count);
    must(slice_equal(buf_slice(&a->reply), buf_slice(&w->effects[1].reply)));
    must(!reach ||
         (a->resumed.is && w->effects[1].resumed.is && !state_reconfig(w->states[0], &wanted)));
}

static int32_t put_session(struct buf *b, struct input *in, int64_t session_id)
{
    uint8_t how = take(in);
    if (how % 3 == 0) {
        return WIRE_CLOSE_SESSION;
    }
    struct wire_connect_response c = {.timeout_ms = 1000 * take(in),
                                      .session_id = session_id,
                                      .passwd = slice_make("0123456789abcdef", 16)};
    wire_encode_connect_response(b, &c);
    return how % 8 == 7 ? (int32_t)COMMAND_ATTACH_SESSION : (int32_t)WIRE_CREATE_SESSION;
}

/* --- large requests ------------------------------------------------------------------------------- */

/* Entries of an ACL, most of them different. */
static void put_large_acl(struct buf *b, struct input *in)
{
    static const char *const schemes[] = {"auth", "digest", "world", "ip"};
    int32_t count = take(in) * 5;
    uint8_t which = take(in);
    bool open = which >= 128; /* to all, by its last entry */
    wire_write_i32(b, count + open);
    for (int32_t i = 0; i < count; i++) {
        char id[32];
        const char *scheme = schemes[which % 4];
        (void)snprintf(id, sizeof id, which % 4 == 1 ? "u%d:h" : "10.%d.0.1", i % 256);
        struct wire_acl acl = {.perms = which / 4 % 2 == 0 ? i : 31,
                               .id = {slice_str(scheme), which % 4 == 0   ? slice_str("")
                                                         : which % 4 == 2 ? slice_str("anyone")
                                                                          : slice_str(id)}};
        wire_encode_acl(b, &acl);
    }
    if (open) {
        struct wire_acl acl = {31, {slice_str("world"), slice_str("anyone")}};
        wire_encode_acl(b, &acl);
    }
}

/* A path of many components, or of a long one. */
static void append_large_path(struct buf *path, struct input *in)
{
    static const char *const tops[] = {"", "/a", "/zookeeper/quota", "/zookeeper/fence"};
    uint8_t form = take(in);
    int components = take(in) * (form % 8 == 0 ? 20 : 1);
    int bytes = take(in) * (form % 8 == 1 ? 300 : 1);
    buf_append_str(path, tops[form / 8 % 4]);
    for (int i = 0; i < components; i++) {
        buf_append_str(path, "/a");
    }
    buf_append_str(path, "/");
    for (int i = 0; i < bytes; i++) {
        buf_append_str(path, "n");
    }
    if (form >= 128) {
        buf_append_str(path, form % 2 == 0 ? "/zookeeper_limits" : "/zookeeper_stats");
    }
}

/* Makes all nodes of a path that are above it, or changes the one at its end. */
static void put_path_parts(struct buf *b, struct slice path, uint8_t how)
{
    struct wire_multi_header h = {.type = WIRE_CREATE, .done = false, .err = -1};
    for (size_t i = 1; i <= path.len; i++) {
        bool end = i == path.len;
        if (!end && (path.data[i] != '/' || how % 2 == 0)) {
            continue;
        }
        h.type = end && how % 4 == 2 ? WIRE_DELETE : WIRE_CREATE;
        wire_encode_multi_header(b, &h);
        wire_write_string(b, slice_make(path.data, i));
        if (h.type == WIRE_DELETE) {
            wire_write_i32(b, -1);
            continue;
        }
        wire_write_buffer(b, slice_str("count=1,bytes=1000"));
        wire_write_i32(b, 1);
        struct wire_acl acl = {31, {slice_str("world"), slice_str("anyone")}};
        wire_encode_acl(b, &acl);
        wire_write_i32(b, how / 8 % 4);
    }
}

/* The same few parts, hundreds of times. */
static int32_t put_large_multi(struct buf *b, struct input *in)
{
    struct buf part, path;
    buf_init(&part, 0);
    buf_init(&path, 0);
    uint8_t how = take(in);
    if (how % 4 == 3) {
        append_large_path(&path, in);
        put_path_parts(&part, buf_slice(&path), how / 4);
    } else {
        for (int n = how % 4; n >= 0; n--) {
            size_t start = part.len;
            struct wire_multi_header h = {.type = WIRE_CHECK, .done = false, .err = -1};
            wire_encode_multi_header(&part, &h);
            h.type = put_request(&part, in);
            put_be32(part.data + start, (uint32_t)h.type);
        }
    }
    for (int n = take(in) * 2; n >= 0; n--) {
        buf_append_slice(b, buf_slice(&part));
    }
    wire_encode_multi_header(b, &(struct wire_multi_header){-1, true, -1});
    buf_finish(&part);
    buf_finish(&path);
    return WIRE_MULTI;
}

static int32_t put_large_reconfig(struct buf *b, struct input *in)
{
    struct buf list;
    buf_init(&list, 0);
    const char *member = members[take(in) % 8];
    uint8_t how = take(in);
    for (int n = take(in) * 2; n > 0; n--) {
        char piece[64];
        (void)snprintf(piece, sizeof piece, "server.%d=10.0.%d.1:%d:2;3,", n % 256, n % 200, n);
        buf_append_str(&list, how % 2 == 0 ? piece : member);
        buf_append_str(&list, how % 2 == 0 ? "" : ",");
    }
    struct wire_reconfig_request r = {
        .joining_servers = how % 4 < 2 ? buf_slice(&list) : SLICE_NULL,
        .new_members = how % 4 >= 2 ? buf_slice(&list) : SLICE_NULL,
        .cur_config_id = -1,
    };
    wire_encode_reconfig_request(b, &r);
    buf_finish(&list);
    return WIRE_RECONFIG;
}

/* A request near the limits of what may be asked for. */
static int32_t put_large(struct buf *b, struct input *in)
{
    struct buf path;
    int32_t type = WIRE_SET_ACL;
    switch (take(in) % 4) {
    case 0:
        wire_write_string(b, take_path(in));
        put_large_acl(b, in);
        wire_write_i32(b, -1);
        return type;
    case 1:
        buf_init(&path, 0);
        append_large_path(&path, in);
        wire_write_string(b, buf_slice(&path));
        wire_write_buffer(b, SLICE_NULL);
        put_large_acl(b, in);
        wire_write_i32(b, take(in) % 4);
        buf_finish(&path);
        return WIRE_CREATE;
    case 2:
        return put_large_multi(b, in);
    default:
        return put_large_reconfig(b, in);
    }
}

/* --- commands ------------------------------------------------------------------------------------- */

static int32_t put_ids(struct buf *b, uint8_t who, int32_t many)
{
    static const struct {
        const char *scheme;
        const char *id;
    } known[] = {{"ip", "10.0.0.1"}, {"digest", "u:h"}, {"super", ""}};
    int32_t count = 0;
    for (int i = 0; i < 3; i++) {
        if ((who >> i & 1) != 0) {
            struct wire_id id = {slice_str(known[i].scheme), slice_str(known[i].id)};
            wire_encode_id(b, &id);
            count++;
        }
    }
    for (int32_t i = 0; i < many; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "many%d:h", (int)i);
        struct wire_id id = {slice_str("digest"), slice_str(name)};
        wire_encode_id(b, &id);
        count++;
    }
    return count;
}

/* As the server does that takes a request in: what costs too much never gets into a log. */
static bool intake(struct command *c)
{
    c->options |= COMMAND_BOUNDED;
    return c->ids.count <= command_ceilings.ids &&
           command_bounds_check(&command_ceilings, c->type, c->body, c->ids) == 0;
}

static void put_command(struct world *w, struct input *in, int32_t kind)
{
    struct buf body, ids;
    cost_pause(); /* a client has made it */
    buf_init(&body, 0);
    buf_init(&ids, 0);
    struct command c = {.session_id = take(in) % 4, .cxid = w->requests};
    uint8_t who = take(in);
    c.options = (uint32_t)who >> 3 | COMMAND_FENCING;
    int32_t count = put_ids(&ids, who, kind == KIND_LARGE ? take(in) * 2 : 0);
    c.ids = wire_vector_make(&ids, count);
    if (kind == 0) {
        c.type = put_session(&body, in, c.session_id);
    } else if (kind == 1) {
        c.type = put_multi(&body, in);
    } else if (kind == 2) {
        c.type = (int32_t)take(in) - 16;
        buf_append_slice(&body, take_bytes(in, 60));
    } else if (kind == 3) {
        c.options |= COMMAND_RECONFIG;
        c.type = put_reconfig(w, &body, in);
    } else if (kind == KIND_LARGE) {
        c.options |= COMMAND_RECONFIG;
        c.type = put_large(&body, in);
    } else {
        c.type = put_request(&body, in);
    }
    c.body = buf_slice(&body);
    cost_resume();
    if (intake(&c)) {
        batch_add(&w->batch, 0, &c);
    } else {
        cost_stands_for(c.body.len + c.ids.items.len);
    }
    buf_finish(&body);
    buf_finish(&ids);
}

static void flush(struct world *w, struct input *in)
{
    must(buf_ok(&w->batch));
    if (w->batch.len > 0) {
        apply_batch(w, buf_slice(&w->batch));
    }
    buf_reset(&w->batch);
    /* Of one of four servers, one of them the leader; now and then once more, or with one missing. */
    uint8_t head = take(in);
    int64_t *last = &w->sequences[head % 4];
    struct batch_header header = {.origin = head % 4, .previous = *last, .time_ms = 1000 * head};
    header.sequence = head >= 240 ? *last : *last + 1 + (head >= 224);
    header.previous += head >= 224;
    *last = header.sequence;
    batch_begin(&w->batch, &header);
}

/* Many nodes below a path, which are there as if they had always been: they do not count. */
static void populate(struct world *w, struct input *in)
{
    struct buf batch, body;
    struct slice top = take_path(in);
    int count = take(in) * 32;
    const int64_t session_id = 9;
    struct batch_header header = {.origin = 5, .time_ms = 1, .sequence = w->populated + 1};
    header.previous = w->populated;
    if (w->populated++ == POPULATIONS_MAX) {
        return;
    }
    cost_pause();
    buf_init(&batch, 0);
    buf_init(&body, 0);
    batch_begin(&batch, &header);
    wire_encode_connect_response(
        &body, &(struct wire_connect_response){.timeout_ms = 1000,
                                               .session_id = session_id,
                                               .passwd = slice_make("0123456789abcdef", 16)});
    struct command c = {
        .session_id = session_id, .type = WIRE_CREATE_SESSION, .body = buf_slice(&body)};
    batch_add(&batch, 0, &c);
    for (int i = 0; i < count; i++) {
        char name[32];
        int len = snprintf(name, sizeof name, "/p%d-%d", (int)w->populated, i);
        struct wire_acl acl = {31, {slice_str("world"), slice_str("anyone")}};
        buf_reset(&body);
        wire_write_i32(&body, (int32_t)top.len + len);
        buf_append_slice(&body, top);
        buf_append(&body, name, (size_t)len);
        wire_write_buffer(&body, slice_str("x"));
        wire_write_i32(&body, 1);
        wire_encode_acl(&body, &acl);
        wire_write_i32(&body, 0);
        c = (struct command){
            .session_id = session_id, .type = WIRE_CREATE, .body = buf_slice(&body)};
        batch_add(&batch, 0, &c);
    }
    struct batch_reader reader;
    must(buf_ok(&batch) && batch_open(buf_slice(&batch), &reader) == 0);
    enum state_batch verdict = state_batch_admit(w->states[0], &reader.header);
    must(verdict == state_batch_admit(w->states[1], &reader.header));
    while (verdict == STATE_BATCH_APPLY && batch_next(&reader, &c) == 1) {
        for (int i = 0; i < 2; i++) {
            state_apply(w->states[i], &reader.header, &c, &w->effects[i]);
        }
    }
    buf_finish(&body);
    buf_finish(&batch);
    cost_resume();
}

static void fuzz_program(struct world *w, struct slice bytes)
{
    struct input in = input_make(bytes);
    flush(w, &in);
    while (!input_ended(&in) && w->requests < REQUESTS_MAX) {
        uint8_t op = take(&in) % 16;
        if (op == 14) {
            flush(w, &in);
            snapshot_step(w, take(&in));
        } else if (op == 13) {
            state_snapshot_abort(w->states[0]);
            buf_reset(&w->snapshot);
            w->snapshotting = false;
        } else if (op == 12) {
            flush(w, &in);
            configure(w, &in);
        } else if (op == 10) {
            flush(w, &in);
            populate(w, &in);
        } else if (op == 15) {
            flush(w, &in);
            struct slice path = take_path(&in);
            for (int kind = STATE_REWATCH_DATA; kind <= STATE_REWATCH_CHILD; kind++) {
                (void)state_rewatch(w->states[0], (enum state_rewatch)kind, WIRE_VECTOR_NULL, path,
                                    take(&in));
            }
        } else {
            put_command(w, &in, op);
        }
    }
    flush(w, &in);
}

/* --- snapshots of unknown origin ------------------------------------------------------------------ */

/* What to do with a state that was restored: sessions, creations, deletions, all over the paths. */
static const char restored_program[] =
    "\1\0\1\0\1\4\3\1\0\0\0\1\1a\0\0\0\0\3\1\7\2\1\0\3\1\7\2\0\0\16\7"
    "\3\1\7\0\0\2\1\1b\0\0\0\1\3\1\7\4\3\0\0\0\0\3\1\7\3\4\1x\0\0\1\0\0\17\1\2\3";

/* Refused, or a state that works and has a snapshot of its own. */
static void fuzz_snapshot(struct slice bytes)
{
    struct world w;
    struct state *restored[2] = {NULL, NULL};
    if (state_restore(bytes, &keys[0], &restored[0]) != 0) {
        must(restored[0] == NULL);
        return;
    }
    must(state_restore(bytes, &keys[1], &restored[1]) == 0);
    must(state_digest(restored[0]) == state_digest(restored[1]));
    world_init(&w);
    for (int i = 0; i < 2; i++) {
        state_destroy(w.states[i]);
        w.states[i] = restored[i];
    }
    snapshot_step(&w, 0);
    fuzz_program(&w, slice_make(restored_program, sizeof restored_program - 1));
    world_finish(&w);
}

/* The records alone, to which header, length and a right checksum are added. */
static void fuzz_records(int32_t version, struct slice records)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_str(&b, SNAPSHOT_MAGIC);
    buf_append_i32(&b, version);
    uint64_t chain = hash_bytes(b.data, b.len);
    buf_append_i64(&b, (int64_t)records.len);
    buf_append_slice(&b, records);
    buf_append_i64(&b, (int64_t)snapshot_chain(chain, records));
    must(buf_ok(&b));
    fuzz_snapshot(buf_slice(&b));
    buf_finish(&b);
}

const struct cost_bound fuzz_bound = {
    .cpu_us = 100000,
    .cpu_ns_per_byte = 500,
    .alloc_bytes = 4 << 20,
    .alloc_per_byte = 100,
};

void fuzz_input(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    struct slice rest = slice_make(data + 1, size - 1);
    if (data[0] % 4 == 1) {
        fuzz_snapshot(rest);
        return;
    }
    if (data[0] % 4 == 3) {
        bool old = data[0] / 4 % 2 == 0;
        fuzz_records(old ? SNAPSHOT_VERSION_STANDALONE : SNAPSHOT_VERSION, rest);
        return;
    }
    struct world w;
    world_init(&w);
    if (data[0] % 4 == 0) {
        apply_batch(&w, rest);
    } else {
        fuzz_program(&w, rest);
    }
    world_finish(&w);
}
