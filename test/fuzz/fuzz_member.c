/*
 * A member of an ensemble (its log, its state, what it tells the others) and what the other members send it on both channels.
 * The first byte of the input chooses whether it leads alone or follows two others; the rest is a program: frames of any
 * bytes and of the right form, links, time, disk jobs, a client.
 * Invariants: nothing asserts, in libraft neither; an applied entry stays; the member can be closed at any moment.
 */
#include "unit/replication/sim_disk.inc"

#include "base/log.h"
#include "base/map.h"
#include "cluster/ensemble.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "replication/raft/log_messages.h"
#include "support/service_harness.h"

enum { STEPS_MAX = 200, ME = 7, STEP_BYTES = 256, CLOSE_TURNS = 10000 };

const struct cost_bound fuzz_bound = {
    .cpu_us = 400000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 128 << 20,
    .alloc_per_byte = 4000,
};

struct world {
    struct sim_disk disk;
    struct service_harness h;
    struct guest guest;
    struct ensemble e;
    struct replication *r;
    struct list jobs; /* struct worker_job */
    uint64_t applied; /* index of the newest entry applied */
    bool stopped;     /* it failed as the real one would: it only closes */
    bool closed;
};

/* --- what the log asks for ------------------------------------------------------------------------ */

static void run_job(void *ctx, enum replication_lane lane, struct worker_job *job)
{
    struct world *w = ctx;
    list_push_back(&w->jobs, &job->node);
}

static void drop_message(void *ctx, uint64_t to, struct buf *message_take)
{
    must(to != ME);
    buf_finish(message_take);
}

static void took(struct world *w, int rc)
{
    w->stopped |= rc != 0;
}

static void on_apply(void *ctx, uint64_t index, struct slice payload)
{
    struct world *w = ctx;
    must(index > w->applied);
    w->applied = index;
    if (!w->stopped) {
        took(w, ensemble_apply(&w->e, index, payload));
    }
}

static void on_skip(void *ctx, uint64_t index, struct slice payload)
{
    struct world *w = ctx;
    took(w, w->stopped ? 0 : ensemble_skip(&w->e, index, payload));
}

static void on_apply_done(void *ctx)
{
}

static int on_snapshot_begin(void *ctx)
{
    struct world *w = ctx;
    return state_snapshot_begin(w->h.service.state);
}

static int on_snapshot_step(void *ctx, size_t max_bytes, struct buf *out)
{
    struct world *w = ctx;
    return state_snapshot_step(w->h.service.state, max_bytes, out);
}

static void on_snapshot_abort(void *ctx)
{
    struct world *w = ctx;
    state_snapshot_abort(w->h.service.state);
}

static int on_restore(void *ctx, struct slice snapshot)
{
    struct world *w = ctx;
    return w->stopped ? 0 : ensemble_restore(&w->e, snapshot);
}

static void on_role(void *ctx, enum replication_role role, uint64_t leader, uint64_t term)
{
    struct world *w = ctx;
    took(w, w->stopped ? 0 : ensemble_role(&w->e, role, leader));
}

static void on_configuration(void *ctx, uint64_t index, const struct configuration_member *members,
                             size_t n)
{
    struct world *w = ctx;
    w->applied = index > w->applied ? index : w->applied;
    took(w, w->stopped ? 0 : ensemble_configuration(&w->e, index, members, n));
}

static void on_confirmed(void *ctx, uint64_t ticket)
{
    struct world *w = ctx;
    ensemble_confirmed(&w->e, ticket);
}

static void on_failed(void *ctx, int error, const char *text)
{
    struct world *w = ctx;
    must(error < 0 && text[0] != '\0');
    w->stopped = true;
}

static void on_note(void *ctx, bool warning, const char *event, const char *text)
{
    must(event[0] != '\0' && text != NULL);
}

static void on_closed(void *ctx)
{
    struct world *w = ctx;
    w->closed = true;
}

static void run_jobs(struct world *w, unsigned count)
{
    struct list *node;
    while (count-- > 0 && (node = list_pop_front(&w->jobs)) != NULL) {
        struct worker_job *job = CONTAINER_OF(node, struct worker_job, node);
        job->work(job);
        job->done(job);
    }
}

static void turn(struct world *w)
{
    replication_turn(w->r);
    service_harness_turn(&w->h);
    replication_turn(w->r);
}

/* --- begin and end -------------------------------------------------------------------------------- */

static const struct configuration_member members[] = {
    {2, MEMBER_VOTER, "127.0.0.1:1:1:participant"},
    {3, MEMBER_VOTER, "127.0.0.3:1:1:participant"},
    {ME, MEMBER_VOTER, "127.0.0.7:1:1:participant"}};

static void world_open(struct world *w, bool alone)
{
    const struct ensemble_links links = {drop_message, w};
    struct service_options options = service_harness_options();
    options.skip_acl = true;
    options.command_options = COMMAND_RECONFIG | COMMAND_ENSEMBLE;
    *w = (struct world){.closed = false};
    list_init(&w->jobs);
    sim_init(&w->disk, 1, false);
    service_harness_open(&w->h, options);
    ensemble_init(&w->e, &w->h.service, ME, &w->h.clock, &links);
    w->e.failed = on_failed;
    w->e.failed_ctx = w;
    w->h.service.pipeline.sink = ensemble_sink(&w->e);
    const struct configuration_member *founders = alone ? &members[2] : members;
    size_t n = alone ? 1 : 3;
    ensemble_expect(&w->e, founders, n);
    const struct replication_host host = {w, run_job, drop_message};
    const struct replication_options o = {.dir = "data",
                                          .server_id = ME,
                                          .segment_bytes = 4096,
                                          .snapshot_entries = 16,
                                          .trailing_entries = 3,
                                          .snapshots_kept = 2,
                                          .sync = true,
                                          .clock = &w->h.clock,
                                          .founders = founders,
                                          .n_founders = n,
                                          .cluster_given = true,
                                          .cluster = "the same for all",
                                          .seed = 1};
    const struct replication_callbacks callbacks = {.ctx = w,
                                                    .apply = on_apply,
                                                    .skip = on_skip,
                                                    .apply_done = on_apply_done,
                                                    .snapshot_begin = on_snapshot_begin,
                                                    .snapshot_step = on_snapshot_step,
                                                    .snapshot_abort = on_snapshot_abort,
                                                    .restore = on_restore,
                                                    .role_changed = on_role,
                                                    .configuration = on_configuration,
                                                    .confirmed = on_confirmed,
                                                    .failed = on_failed,
                                                    .note = on_note};
    char *text = NULL;
    must(replication_open(&host, &o, &callbacks, &w->disk.ops, &w->r, &text) == 0);
    w->e.replication = w->r;
    guest_init(&w->guest, &w->h);
    turn(w);
    run_jobs(w, 100);
    turn(w);
    must(!w->stopped);
}

static void world_close(struct world *w)
{
    replication_close(w->r, on_closed, w);
    for (int i = 0; !w->closed; i++) {
        must(i < CLOSE_TURNS);
        run_jobs(w, 10);
        replication_turn(w->r);
        w->h.now_ms++;
        replication_tick(w->r);
    }
    ensemble_suspend(&w->e);
    guest_finish(&w->guest);
    service_turn(&w->h.service);
    ensemble_finish(&w->e);
    service_harness_finish(&w->h);
    sim_finish(&w->disk);
}

/* --- messages ------------------------------------------------------------------------------------- */

static uint64_t take_member(struct input *in)
{
    static const uint64_t ids[] = {2, 3, 5};
    return ids[take(in) % 3];
}

static int64_t take_number(struct input *in)
{
    uint8_t how = take(in);
    return how < 224 ? how - 2 : (int64_t)((uint64_t)take_u32(in) << 32 | take_u32(in));
}

/* Of the ensemble, of the right form for the most part. */
static void put_news(struct world *w, struct buf *b, struct input *in, uint64_t from)
{
    static const uint8_t lengths[][9] = {
        [ENSEMBLE_TRANSFER] = "8", [ENSEMBLE_DIGEST] = "88",       [ENSEMBLE_LATER] = "",
        [ENSEMBLE_LEFT] = "",      [ENSEMBLE_REPORT] = "84884888", [ENSEMBLE_REPORTED] = "84888",
    };
    uint8_t kind = (uint8_t)(take(in) % 8 + 1);
    buf_append_u8(b, kind);
    if (kind == ENSEMBLE_BATCH) {
        const struct batch_header header = {.origin = (int64_t)from,
                                            .sequence = take_number(in),
                                            .previous = take_number(in),
                                            .time_ms = w->h.now_ms};
        struct buf batch;
        buf_init(&batch, 0);
        batch_begin(&batch, &header);
        for (int n = take(in) % 3; n >= 0; n--) {
            static const int32_t types[] = {WIRE_CREATE_SESSION, WIRE_CLOSE_SESSION, WIRE_CREATE,
                                            WIRE_SET_DATA, COMMAND_ATTACH_SESSION};
            struct command c = {.session_id = take_number(in), .type = types[take(in) % 5]};
            c.body = take_bytes(in, 60);
            batch_add(&batch, 0, &c);
        }
        buf_append_slice(b, buf_slice(&batch));
        buf_finish(&batch);
        return;
    }
    const uint8_t *fields = kind < sizeof lengths / sizeof lengths[0] ? lengths[kind] : lengths[0];
    for (; *fields != 0; fields++) {
        int64_t value = take_number(in);
        if (*fields == '8') {
            buf_append_i64(b, take(in) < 32 ? w->h.now_ms - value : value);
        } else {
            buf_append_i32(b, (int32_t)value);
        }
    }
    for (int n = kind == ENSEMBLE_REPORT ? take(in) % 4 : 0; n > 0; n--) {
        buf_append_i64(b, take_number(in));
        buf_append_i32(b, (int32_t)take_number(in));
    }
}

static void put_engine(struct buf *b, struct input *in)
{
    struct engine_message m = {.kind = (enum engine_kind)(1 + take(in) % 6)};
    m.term = (uint64_t)take(in) % 16;
    switch (m.kind) {
    case ENGINE_APPEND:
        m.append.prev_index = take(in);
        m.append.prev_term = take(in) % 16;
        m.append.commit = take(in);
        m.append.first_index = m.append.prev_index + 1;
        m.append.count = take(in) % 4;
        break;
    case ENGINE_INSTALL:
        return;
    default:
        m.vote.candidate = take(in);
        m.vote.last_index = take(in);
        m.vote.last_term = take(in) % 16;
    }
    log_message_put_engine(b, &m);
    for (uint32_t i = 0; m.kind == ENGINE_APPEND && i < m.append.count; i++) {
        uint8_t kind = take(in) % 4;
        log_message_put_entry(b, take(in) % 16, kind, take_bytes(in, 120));
    }
}

/* Of the log. */
static void put_frame(struct buf *b, struct input *in)
{
    uint8_t how = take(in);
    if (how % 4 == 1) {
        const struct log_message_offer offer = {.term = take(in) % 16,
                                                .index = take(in),
                                                .snapshot_term = take(in) % 16,
                                                .configuration_index = take(in) % 4,
                                                .size = take_u32(in) % 4096,
                                                .identity = take(in) % 4};
        log_message_put_offer(b, &offer);
    } else if (how % 4 == 2) {
        struct log_message_chunk chunk = {.identity = take(in) % 4, .offset = take(in)};
        chunk.bytes = take_bytes(in, 255);
        chunk.checksum = hash_bytes(chunk.bytes.data, chunk.bytes.len);
        log_message_put_chunk(b, &chunk);
    } else if (how % 4 == 3) {
        const struct log_message_note note = {(uint64_t)take_number(in), take(in) % 16,
                                              (uint64_t)take_number(in)};
        log_message_put_note(b, (enum log_message_kind)(MESSAGE_ROUND + take(in) % 8), &note);
    } else {
        put_engine(b, in);
    }
}

static void receive(struct world *w, struct input *in, bool log, bool formed)
{
    struct buf b;
    uint64_t from = take_member(in);
    buf_init(&b, 0);
    if (!formed) {
        buf_append_slice(&b, take_bytes(in, 255));
    } else if (log) {
        put_frame(&b, in);
    } else {
        put_news(w, &b, in, from);
    }
    must(buf_ok(&b));
    cost_stands_for(b.len);
    if (log) {
        replication_receive(w->r, from, buf_slice(&b));
    } else {
        ensemble_message(&w->e, from, buf_slice(&b));
    }
    buf_finish(&b);
}

/* --- steps ---------------------------------------------------------------------------------------- */

static void client(struct world *w, struct input *in)
{
    static const uint8_t zeros[WIRE_PASSWD_LEN];
    uint8_t how = take(in) % 4;
    if (w->guest.closed || how == 0) {
        guest_finish(&w->guest);
        guest_init(&w->guest, &w->h);
    } else if (how == 1 && w->guest.c.stage == CONNECTION_HANDSHAKE) {
        guest_connect(&w->guest, 0, 4000, 0, slice_make(zeros, sizeof zeros), true);
    } else if (how == 2) {
        guest_request(&w->guest, WIRE_CREATE, body_create("/a", "x", take(in) % 4));
    } else {
        guest_request(&w->guest, WIRE_SYNC, body_path_watch("/a", false));
    }
}

static void step(struct world *w, struct input *in)
{
    uint8_t op = take(in);
    cost_stands_for(STEP_BYTES);
    switch (op % 8) {
    case 0:
        receive(w, in, op >= 128, false);
        break;
    case 1:
    case 2:
        receive(w, in, false, true);
        break;
    case 3:
    case 4:
        receive(w, in, true, true);
        break;
    case 5:
        client(w, in);
        break;
    case 6:
        replication_link(w->r, take_member(in), op >= 128);
        ensemble_link(&w->e, take_member(in));
        break;
    default:
        w->h.now_ms += take(in) * 4;
        service_tick(&w->h.service);
        ensemble_tick(&w->e);
        replication_tick(w->r);
    }
    if (op / 8 % 4 != 0) {
        turn(w);
        run_jobs(w, op / 32 * 2);
    }
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static struct world w;
    struct input in = input_make(slice_make(data, size));
    log_set_level(LOG_ERROR);
    world_open(&w, take(&in) % 2 == 0);
    for (int steps = 0; !input_ended(&in) && !w.stopped && steps < STEPS_MAX; steps++) {
        step(&w, &in);
    }
    world_close(&w);
}
