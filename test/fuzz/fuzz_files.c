/*
 * The files of a data folder at a start: marker, metadata, segments of the log, snapshots, the received part of another
 * server's snapshot, the file of a suspected entry. The input is a program that changes a good folder (bytes, lengths,
 * names; with checksums made right again, or frames and texts of its own) and starts a server on it in between.
 * Invariants: no start asserts; a refused start gives a reason; a start finds the state that the last one left; a
 * damaged folder can be put aside, and then joins.
 */
#include "unit/replication/sim_disk.inc"

#include "base/buf.h"
#include "base/endian.h"
#include "base/map.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "replication/disk/damage.h"
#include "replication/disk/metadata.h"
#include "replication/disk/segment.h"
#include "replication/disk/snapshot_file.h"
#include "replication/replication_uv.h"
#include "support/log_turns.h"

enum {
    STEPS_MAX = 40,
    STARTS_MAX = 6,
    FILE_MAX = 1 << 16,
    TURNS = 12,
    /* Bytes to count for a step and for a start. */
    STEP_BYTES = 64,
    START_BYTES = 20000,
};

const struct cost_bound fuzz_bound = {
    .cpu_us = 200000,
    .cpu_ns_per_byte = 5000,
    .alloc_bytes = 64 << 20,
    .alloc_per_byte = 2000,
};

/* --- a state machine that counts ------------------------------------------------------------------ */

struct machine {
    uint64_t applied; /* entries */
    uint64_t digest;
    bool closed;
    struct log_turns turns;
};

static void on_apply(void *ctx, uint64_t index, struct slice payload)
{
    struct machine *m = ctx;
    m->applied++;
    m->digest = hash_u64(m->digest ^ hash_bytes(payload.data, payload.len));
}

static void on_apply_done(void *ctx)
{
}

static int on_snapshot_begin(void *ctx)
{
    return 0;
}

static int on_snapshot_step(void *ctx, size_t max_bytes, struct buf *out)
{
    const struct machine *m = ctx;
    buf_append_i64(out, (int64_t)m->applied);
    buf_append_i64(out, (int64_t)m->digest);
    return 0;
}

static int on_restore(void *ctx, struct slice snapshot)
{
    struct machine *m = ctx;
    if (snapshot.len != 16) {
        return CONCLAVE_ECORRUPT;
    }
    m->applied = get_be64(snapshot.data);
    m->digest = get_be64(snapshot.data + 8);
    return 0;
}

static void on_role_changed(void *ctx, enum replication_role role, uint64_t leader, uint64_t term)
{
}

static void on_failed(void *ctx, int error, const char *text)
{
    must(error < 0 && text[0] != '\0');
}

static void on_note(void *ctx, bool warning, const char *event, const char *text)
{
    must(event[0] != '\0' && text != NULL);
}

static void on_closed(void *ctx)
{
    struct machine *m = ctx;
    log_turns_stop(&m->turns);
    m->closed = true;
}

static void drop_message(void *ctx, uint64_t to, struct buf *message_take)
{
    buf_finish(message_take);
}

/* --- a start -------------------------------------------------------------------------------------- */

static const struct replication_sender nobody = {NULL, drop_message};

/* Opens (`member`: as a member of an ensemble, which needs a sender), submits `entries` entries, takes a snapshot if
 * `snapshot`, closes. Returns the code of the opening. */
static int run(struct sim_disk *disk, bool member, bool join, unsigned entries, bool snapshot,
               struct machine *ret)
{
    const struct replication_options options = {.dir = "data",
                                                .server_id = 1,
                                                .segment_bytes = 4096,
                                                .trailing_entries = 3,
                                                .snapshots_kept = 2,
                                                .sync = true,
                                                .join = join,
                                                .seed = 1};
    const struct replication_callbacks callbacks = {.ctx = ret,
                                                    .apply = on_apply,
                                                    .apply_done = on_apply_done,
                                                    .snapshot_begin = on_snapshot_begin,
                                                    .snapshot_step = on_snapshot_step,
                                                    .snapshot_abort = on_apply_done,
                                                    .restore = on_restore,
                                                    .role_changed = on_role_changed,
                                                    .failed = on_failed,
                                                    .note = on_note};
    uv_loop_t loop;
    struct replication_loop *log = NULL;
    char *text = NULL;
    *ret = (struct machine){0};
    must(uv_loop_init(&loop) == 0);
    int rv = replication_loop_open(&loop, &options, &callbacks, member ? &nobody : NULL, &disk->ops,
                                   &log, &text);
    if (rv == 0) {
        log_turns_start(&ret->turns, &loop, log);
        for (unsigned i = 0; i < entries; i++) {
            struct buf payload;
            buf_init(&payload, 0);
            buf_append_i64(&payload, (int64_t)i);
            buf_append(&payload, "0123456789012345678901234567890123456789", i % 40);
            rv = replication_submit(replication_loop_log(log), &payload);
            buf_finish(&payload);
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        if (snapshot) {
            replication_snapshot(replication_loop_log(log));
        }
        for (int i = 0; i < TURNS; i++) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        rv = 0;
        replication_loop_close(log, on_closed, ret);
    } else {
        must(text != NULL && text[0] != '\0');
        free(text);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    must(rv != 0 || ret->closed);
    must(uv_loop_close(&loop) == 0);
    return rv;
}

/* --- the folder ----------------------------------------------------------------------------------- */

static const uint8_t *cluster_of(struct sim_disk *disk)
{
    static struct marker marker;
    struct error_text problem = {NULL};
    must(marker_read(&disk->ops, "data", &marker, &problem) == 0);
    error_text_finish(&problem);
    return marker.cluster;
}

struct world {
    struct sim_disk disk;
    const uint8_t *cluster;
    int starts;
};

/* A folder with several segments, two snapshots, entries behind them. */
static const struct sim_disk *good_folder(void)
{
    static struct sim_disk disk;
    struct machine m;
    if (disk.ops.open == NULL) {
        sim_init(&disk, 1, false);
        must(run(&disk, false, false, 40, true, &m) == 0);
        must(run(&disk, false, false, 40, true, &m) == 0);
        must(run(&disk, false, false, 90, false, &m) == 0 && m.applied == 170);
    }
    return &disk;
}

/* The file that the input chooses, in the order of creation; NULL: the folder is empty. */
static struct sim_name *take_file(struct world *w, struct input *in)
{
    size_t files = 0;
    struct sim_name *names = w->disk.live.names;
    for (size_t i = 0; i < w->disk.live.n; i++) {
        files += names[i].file != NULL;
    }
    size_t which = files > 0 ? take(in) % files : 0;
    for (size_t i = 0; i < w->disk.live.n; i++) {
        if (names[i].file != NULL && which-- == 0) {
            return &names[i];
        }
    }
    return NULL;
}

static void set_length(struct sim_bytes *bytes, size_t len)
{
    uint8_t *data = realloc(bytes->data, len + 1);
    must(data != NULL);
    if (len > bytes->len) {
        memset(data + bytes->len, 0, len - bytes->len);
    }
    bytes->data = data;
    bytes->len = len;
}

static void put_file(struct world *w, const char *path, struct slice content)
{
    int fd = w->disk.ops.open(&w->disk, path, FILE_REPLACE);
    must(fd >= 0);
    must(w->disk.ops.write(&w->disk, fd, content.data, content.len, 0) == 0);
    w->disk.ops.close(&w->disk, fd);
}

/* --- changes -------------------------------------------------------------------------------------- */

static void overwrite(struct sim_bytes *bytes, struct input *in)
{
    size_t at = take_u32(in) % (bytes->len + 1);
    struct slice with = take_bytes(in, 48);
    size_t n = with.len < bytes->len - at ? with.len : bytes->len - at;
    if (n > 0) {
        memcpy(bytes->data + at, with.data, n);
    }
}

static void flip(struct sim_bytes *bytes, struct input *in)
{
    if (bytes->len > 0) {
        bytes->data[take_u32(in) % bytes->len] ^= (uint8_t)(1u << take(in) % 8);
    }
}

/* The end of the frames of a segment that check, and what a further one needs. */
struct tail {
    struct segment_header header;
    size_t position;
    size_t last; /* where the last frame begins; 0: none */
    uint64_t previous;
    uint64_t next_index;
};

static bool find_tail(const struct sim_bytes *bytes, struct tail *ret)
{
    *ret = (struct tail){.position = SEGMENT_HEADER_SIZE};
    if (bytes->len < SEGMENT_HEADER_SIZE || !segment_header_decode(bytes->data, &ret->header)) {
        return false;
    }
    ret->previous = ret->header.checksum;
    ret->next_index = ret->header.first_index;
    for (;;) {
        size_t left = bytes->len - ret->position;
        const uint8_t *at = bytes->data + ret->position;
        size_t size = left >= FRAME_HEADER_SIZE ? frame_size(at) : 0;
        struct segment_frame f;
        if (size == 0 || size > left || !frame_decode(at, size, ret->header.salt, &f) ||
            f.previous != ret->previous) {
            return true;
        }
        ret->previous = f.checksum;
        ret->next_index = f.index + f.count;
        ret->last = ret->position;
        ret->position += size;
    }
}

/* A frame of its own behind the last good one; its entries may be of any kind. */
static void add_frame(struct sim_bytes *bytes, struct input *in)
{
    struct tail tail;
    struct buf b;
    if (!find_tail(bytes, &tail)) {
        return;
    }
    uint8_t how = take(in);
    uint32_t count = how % 4;
    buf_init(&b, 0);
    frame_begin(&b);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t term = take(in);
        uint32_t kind = take(in) % 5;
        frame_add(&b, term, kind, take_bytes(in, 80));
    }
    uint64_t index = how < 128 ? tail.next_index : tail.next_index - take(in) % 8;
    frame_finish(&b, tail.header.salt, how / 4 % 16 == 15 ? 7 : tail.previous, index,
                 how / 4 % 16 == 14 ? take_u32(in) : count);
    must(buf_ok(&b));
    if (tail.position + b.len <= FILE_MAX) {
        if (tail.position + b.len > bytes->len) {
            set_length(bytes, tail.position + b.len);
        }
        memcpy(bytes->data + tail.position, b.data, b.len);
    }
    buf_finish(&b);
}

/* Bytes of the last good frame change, and its checksums are made right. */
static void change_frame(struct sim_bytes *bytes, struct input *in)
{
    struct tail tail;
    if (!find_tail(bytes, &tail) || tail.last == 0) {
        return;
    }
    size_t size = tail.position - tail.last;
    struct buf b;
    buf_init(&b, 0);
    buf_append(&b, bytes->data + tail.last, size);
    must(buf_ok(&b));
    for (int n = take(in) % 4; n >= 0 && size > FRAME_HEADER_SIZE; n--) {
        b.data[FRAME_HEADER_SIZE + take(in) % (size - FRAME_HEADER_SIZE)] = take(in);
    }
    frame_finish(&b, tail.header.salt, get_le64(b.data + 16), get_le64(b.data + 24) + take(in) % 3,
                 get_le32(b.data + 32) + take(in) % 2);
    memcpy(bytes->data + tail.last, b.data, size);
    buf_finish(&b);
}

static uint64_t small_or_any(struct input *in)
{
    uint8_t how = take(in);
    return how < 200 ? how : (uint64_t)take_u32(in) << 32 | take_u32(in);
}

static void change_header(struct sim_bytes *bytes, struct input *in)
{
    struct segment_header h;
    if (bytes->len < SEGMENT_HEADER_SIZE || !segment_header_decode(bytes->data, &h)) {
        return;
    }
    uint64_t *const fields[] = {&h.sequence, &h.first_index, &h.salt, &h.previous, &h.size};
    uint8_t which = take(in) % 6;
    if (which == 5) {
        h.flags = take(in);
    } else {
        *fields[which] = small_or_any(in);
    }
    segment_header_encode(&h, bytes->data);
}

/* Header and trailer of a snapshot, with their checksums. */
static void change_snapshot(struct sim_bytes *bytes, struct input *in)
{
    if (bytes->len < SNAPSHOT_HEADER_SIZE + SNAPSHOT_TRAILER_SIZE) {
        return;
    }
    uint8_t *trailer = bytes->data + bytes->len - SNAPSHOT_TRAILER_SIZE;
    size_t at = 8 + take(in) % 80;
    bytes->data[at] = take(in);
    uint32_t length = get_le32(bytes->data + 12);
    size_t room = bytes->len - SNAPSHOT_HEADER_SIZE - SNAPSHOT_TRAILER_SIZE;
    if (length > room) {
        return;
    }
    for (int n = take(in) % 4; n > 0 && room > 0; n--) {
        bytes->data[SNAPSHOT_HEADER_SIZE + take(in) % room] = take(in);
    }
    uint64_t sum = hash_u64(hash_bytes(bytes->data, 88) ^
                            hash_bytes(bytes->data + SNAPSHOT_HEADER_SIZE, length));
    put_le64(bytes->data + 88, sum);
    const uint8_t *content = bytes->data + SNAPSHOT_HEADER_SIZE + length;
    for (size_t left = room - length, n; left > 0; left -= n, content += n) {
        n = left < SNAPSHOT_BLOCK_SIZE ? left : SNAPSHOT_BLOCK_SIZE;
        sum = hash_u64(sum ^ hash_bytes(content, n));
    }
    put_le64(trailer + 8, take(in) < 200 ? room - length : small_or_any(in));
    put_le64(trailer + 16, sum);
    put_le64(trailer + 24, hash_bytes(trailer, 24));
}

static void write_metadata(struct world *w, struct input *in)
{
    struct error_text problem = {NULL};
    struct metadata m;
    if (metadata_read(&w->disk.ops, "data", &m, &problem) != 0) {
        m = (struct metadata){.term = 1, .first_segment = 1};
    }
    uint64_t *const fields[] = {&m.term,         &m.voted_for,      &m.first_segment,
                                &m.last_segment, &m.snapshot_index, &m.installing};
    uint8_t which = take(in) % 7;
    if (which == 6) {
        m.joining = !m.joining;
    } else {
        *fields[which] = small_or_any(in);
    }
    must(metadata_write(&w->disk.ops, "data", &m, &problem) == 0);
    error_text_finish(&problem);
}

static void write_text(struct world *w, struct input *in)
{
    static const char *const paths[] = {"data/metadata", "data/conclave.format", "data/healing",
                                        "data/applying", "data/log/spare-1",     "data/lock"};
    uint8_t which = take(in) % 7;
    if (which == 6) {
        uint8_t bytes[16];
        put_be64(bytes, small_or_any(in));
        put_be32(bytes + 8, take(in));
        put_be32(bytes + 12, (uint32_t)hash_bytes(bytes, 12));
        put_file(w, "data/applying", slice_make(bytes, sizeof bytes));
        return;
    }
    put_file(w, paths[which], take_bytes(in, 255));
}

/* --- looks ---------------------------------------------------------------------------------------- */

static void put_aside(struct world *w)
{
    struct damage_look look;
    struct machine m;
    char *text = NULL, *name = NULL;
    int rv = damage_look("data", &w->disk.ops, &look, &text);
    must(rv == 0 || text != NULL);
    free(text);
    text = NULL;
    if (look.cluster_known && !look.fresh) {
        rv = damage_put_aside("data", &w->disk.ops, 1700000000000 + w->starts, look.cluster, &name,
                              &text);
        must(rv == 0 && name != NULL);
        must(run(&w->disk, true, true, 0, false, &m) == 0 && m.applied == 0);
    }
    free(name);
    free(text);
}

static void start(struct world *w, struct input *in)
{
    struct machine first, second;
    uint8_t how = take(in);
    bool member = how % 2 == 0;
    if (w->starts++ == STARTS_MAX) {
        return;
    }
    cost_stands_for(START_BYTES);
    int rv = run(&w->disk, member, false, how / 2 % 4, how / 8 % 2 == 0, &first);
    must(rv != CONCLAVE_ELOCKED && rv != CONCLAVE_ENOMEM && rv != CONCLAVE_EIO);
    if (rv == 0) {
        must(run(&w->disk, member, false, 0, false, &second) == 0);
        must(member || (second.applied >= first.applied &&
                        (second.applied > first.applied || second.digest == first.digest)));
    } else if (how / 16 % 2 == 0) {
        put_aside(w);
    }
}

/* A file as a snapshot: by its name, as bytes, and as one that another server sent. */
static void look_at_snapshot(struct world *w, struct input *in)
{
    struct error_text problem = {NULL};
    struct sim_name *name = take_file(w, in);
    struct snapshot_reader reader;
    struct slice content;
    uint64_t *indexes = NULL;
    size_t count = 0;
    int rv = snapshot_list(&w->disk.ops, "data", false, &indexes, &count, &problem);
    for (size_t i = 0; rv == 0 && i < count; i++) {
        if (snapshot_reader_open(&reader, &w->disk.ops, "data", indexes[i], w->cluster, &problem) ==
            0) {
            must(reader.meta.index == indexes[i]);
            snapshot_reader_close(&reader);
        }
    }
    free(indexes);
    if (name == NULL) {
        error_text_finish(&problem);
        return;
    }
    const struct sim_bytes *bytes = &name->file->live;
    struct slice file = slice_make(bytes->data, bytes->len);
    if (snapshot_content(file, &content) == 0) {
        must(content.data >= file.data && content.data + content.len <= file.data + file.len);
    }
    const struct snapshot_incoming incoming = {.identity = 5, .size = bytes->len};
    struct snapshot_meta meta = {.index = take(in), .term = take(in), .configuration_index = 1};
    uint64_t length;
    int fd = -1;
    buf_init(&meta.configuration, 0);
    if (snapshot_incoming_open(&w->disk.ops, "data", &incoming, true, &fd, &length) == 0) {
        must(w->disk.ops.write(&w->disk, fd, bytes->data, bytes->len, 0) == 0);
        w->disk.ops.close(&w->disk, fd);
        if (snapshot_incoming_check(&w->disk.ops, "data", &incoming, w->cluster, &meta, &problem) ==
            0) {
            must(snapshot_incoming_accept(&w->disk.ops, "data", &incoming, meta.index) == 0);
        }
    }
    buf_finish(&meta.configuration);
    error_text_finish(&problem);
}

static void step(struct world *w, struct input *in)
{
    uint8_t op = take(in) % 14;
    cost_stands_for(STEP_BYTES);
    if (op == 0) {
        start(w, in);
        return;
    }
    if (op == 1) {
        look_at_snapshot(w, in);
        return;
    }
    if (op < 4) {
        (op == 2 ? write_metadata : write_text)(w, in);
        return;
    }
    struct sim_name *name = take_file(w, in);
    if (name == NULL) {
        return;
    }
    static void (*const changes[])(struct sim_bytes *, struct input *) = {
        overwrite, flip, add_frame, change_frame, change_header, change_snapshot};
    struct sim_bytes *bytes = &name->file->live;
    if (op < 10) {
        changes[op - 4](bytes, in);
    } else if (op == 10) {
        set_length(bytes, take_u32(in) % (bytes->len + 1));
    } else if (op == 11 && bytes->len < FILE_MAX) {
        set_length(bytes, bytes->len + take(in) * 8);
    } else if (op == 12) {
        must(w->disk.ops.remove(&w->disk, name->path) == 0);
    } else if (op == 13) {
        struct sim_name *to = take_file(w, in);
        char path[sizeof to->path];
        (void)snprintf(path, sizeof path, "%s", to->path);
        must(to == name || w->disk.ops.rename(&w->disk, name->path, path) == 0);
    }
}

void fuzz_input(const uint8_t *data, size_t size)
{
    struct input in = input_make(slice_make(data, size));
    static struct world w;
    cost_pause();
    sim_clone(&w.disk, good_folder());
    w.cluster = cluster_of(&w.disk);
    w.starts = 0;
    cost_resume();
    for (int steps = 0; !input_ended(&in) && steps < STEPS_MAX; steps++) {
        step(&w, &in);
    }
    start(&w, &in);
    cost_pause();
    sim_finish(&w.disk);
    cost_resume();
}
