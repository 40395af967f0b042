/*
 * Snapshot files on their way to another server: in a loop of two ends, with jobs and messages in
 * queues, so that each of them can be lost, spoiled or be the last before the power goes.
 */
#include "unit/replication/sim_disk.inc"

#include "base/map.h"
#include "replication/disk/snapshot_file.h"
#include "replication/snapshot/snapshot_receive.h"
#include "replication/snapshot/snapshot_send.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SENDER = 1, RECEIVER = 2, QUEUE = 4096, INDEX = 77 };

static const uint8_t cluster[FORMAT_CLUSTER_SIZE] = "a cluster's name";

struct end {
    struct pair *pair;
    uint64_t id;
    struct sim_disk disk;
    struct worker_job *jobs[QUEUE];
    size_t jobs_head, jobs_tail;
    struct buf in[QUEUE]; /* messages for it */
    size_t in_head, in_tail;
    unsigned warnings;
    size_t unfinished_jobs;
};

struct pair {
    struct end ends[4]; /* by id; one who only hears */
    struct snapshot_sender sender;
    struct snapshot_receiver receiver;
    int64_t now_ms;
    unsigned sent;   /* messages so far */
    unsigned chunks; /* of them */
    unsigned lose;   /* this one is lost; 0: none */
    unsigned spoil;  /* this chunk is spoiled */
    bool cut;        /* all are */
    unsigned ready, accepted;
    bool refuse; /* the ready message is not wanted any more */
    int accepted_rv;
    size_t in_flight_max;
};

static int64_t now_ms(void *ctx)
{
    const struct end *end = ctx;
    return end->pair->now_ms;
}

static void run_job(void *ctx, struct worker_job *job)
{
    struct end *end = ctx;
    end->jobs[end->jobs_tail++ % QUEUE] = job;
    end->unfinished_jobs++;
}

static void ran(void *ctx)
{
    struct end *end = ctx;
    end->unfinished_jobs--;
}

static void send_message(void *ctx, uint64_t to, struct buf *message_take)
{
    struct end *end = ctx;
    struct pair *p = end->pair;
    struct buf b = *message_take;
    buf_init(message_take, 0);
    p->sent++;
    p->chunks += b.data[0] == MESSAGE_CHUNK;
    if (p->cut || p->sent == p->lose) {
        buf_finish(&b);
        return;
    }
    if (b.data[0] == MESSAGE_CHUNK && p->chunks == p->spoil) {
        b.data[b.len - 1] ^= 1;
    }
    struct end *other = &p->ends[to];
    other->in[other->in_tail++ % QUEUE] = b;
}

static void warn(void *ctx, const char *text)
{
    struct end *end = ctx;
    assert_true(strlen(text) > 0);
    end->warnings++;
}

static void ready(void *ctx, uint64_t from, const struct log_message_offer *offer)
{
    struct pair *p = ctx;
    assert_int_equal(from, SENDER);
    assert_int_equal(offer->index, INDEX);
    p->ready++;
    if (p->refuse) {
        snapshot_receiver_discard(&p->receiver);
    } else {
        snapshot_receiver_accept(&p->receiver);
    }
}

static void accepted(void *ctx, int rv)
{
    struct pair *p = ctx;
    p->accepted_rv = rv;
    if (rv == 0) {
        p->accepted++;
        snapshot_receiver_done(&p->receiver);
    } else {
        snapshot_receiver_discard(&p->receiver);
    }
}

static struct stream_host host_of(struct end *end)
{
    return (struct stream_host){end, now_ms, run_job, ran, send_message, warn};
}

static void receiver_begin(struct pair *p)
{
    struct snapshot_receiver_callbacks callbacks = {p, ready, accepted};
    struct stream_host host = host_of(&p->ends[RECEIVER]);
    snapshot_receiver_init(&p->receiver, &host, &callbacks, &p->ends[RECEIVER].disk.ops, "data",
                           cluster);
}

static void write_snapshot(struct sim_disk *d, size_t size)
{
    struct snapshot_writer w;
    struct error_text problem = {NULL};
    struct snapshot_meta meta = {.index = INDEX, .term = 5, .configuration_index = 3};
    uint8_t *content = malloc(size + 1);
    buf_init(&meta.configuration, 0);
    buf_append_str(&meta.configuration, "a configuration");
    for (size_t i = 0; i < size; i++) {
        content[i] = (uint8_t)(i * 31 + (i >> 11));
    }
    assert_int_equal(snapshot_writer_begin(&w, &d->ops, "data", cluster, &meta, &problem), 0);
    for (size_t at = 0; at < size; at += SNAPSHOT_BLOCK_SIZE) {
        size_t len = size - at < SNAPSHOT_BLOCK_SIZE ? size - at : SNAPSHOT_BLOCK_SIZE;
        assert_int_equal(snapshot_writer_block(&w, slice_make(content + at, len), &problem), 0);
    }
    assert_int_equal(snapshot_writer_finish(&w, &problem), 0);
    buf_finish(&meta.configuration);
    free(content);
}

static bool has_unfinished(const struct sim_disk *d)
{
    for (size_t i = 0; i < d->live.n; i++) {
        if (strstr(d->live.names[i].path, "incoming") != NULL) {
            return true;
        }
    }
    return false;
}

static struct pair *pair_make(size_t size)
{
    struct pair *p = calloc(1, sizeof *p);
    for (uint64_t id = SENDER; id <= RECEIVER; id++) {
        struct end *end = &p->ends[id];
        end->pair = p;
        end->id = id;
        sim_init(&end->disk, id, false);
        assert_int_equal(end->disk.ops.make_folder(&end->disk, "data"), 0);
        assert_int_equal(end->disk.ops.make_folder(&end->disk, "data/snapshot"), 0);
        assert_int_equal(end->disk.ops.sync_folder(&end->disk, "."), 0);
        assert_int_equal(end->disk.ops.sync_folder(&end->disk, "data"), 0);
    }
    write_snapshot(&p->ends[SENDER].disk, size);
    struct stream_host host = host_of(&p->ends[SENDER]);
    snapshot_sender_init(&p->sender, &host, &p->ends[SENDER].disk.ops, "data");
    receiver_begin(p);
    return p;
}

static void run_one_job(struct end *end)
{
    struct worker_job *job = end->jobs[end->jobs_head++ % QUEUE];
    job->work(job);
    job->done(job);
}

static void deliver_one(struct end *end)
{
    struct pair *p = end->pair;
    struct log_message m;
    struct buf b = end->in[end->in_head++ % QUEUE];
    assert_int_equal(log_message_decode(buf_slice(&b), &m), 0);
    if (m.kind == MESSAGE_OFFER) {
        snapshot_receiver_offer(&p->receiver, SENDER, &m.offer);
    } else if (m.kind == MESSAGE_CHUNK) {
        snapshot_receiver_chunk(&p->receiver, SENDER, &m.chunk);
    } else {
        snapshot_sender_wanted(&p->sender, RECEIVER, &m.wanted);
    }
    buf_finish(&b);
}

/* One thing at a time, in an order that the seed decides, until nothing is left to do now. */
static void settle(struct pair *p, struct prng *prng)
{
    for (;;) {
        struct end *a = &p->ends[SENDER], *b = &p->ends[RECEIVER];
        bool can[4] = {a->jobs_head < a->jobs_tail, b->jobs_head < b->jobs_tail,
                       a->in_head < a->in_tail, b->in_head < b->in_tail};
        if (!can[0] && !can[1] && !can[2] && !can[3]) {
            return;
        }
        size_t in_flight = b->in_tail - b->in_head + (b->jobs_tail - b->jobs_head);
        p->in_flight_max = in_flight > p->in_flight_max ? in_flight : p->in_flight_max;
        switch (prng_next(prng) % 4) {
        case 0:
            can[0] ? run_one_job(a) : (void)0;
            break;
        case 1:
            can[1] ? run_one_job(b) : (void)0;
            break;
        case 2:
            can[2] ? deliver_one(a) : (void)0;
            break;
        default:
            can[3] ? deliver_one(b) : (void)0;
        }
    }
}

static void begin(struct pair *p)
{
    struct engine_message install = {.kind = ENGINE_INSTALL, .peer = RECEIVER, .term = 9};
    install.install.index = INDEX;
    install.install.term = 5;
    install.install.configuration_index = 3;
    snapshot_sender_begin(&p->sender, &install);
}

/* Until it is there, at most `ms`; as the engine does, asks again and again. */
static void transfer(struct pair *p, struct prng *prng, int64_t ms)
{
    for (int64_t end = p->now_ms + ms; p->now_ms < end && p->accepted == 0; p->now_ms += 100) {
        begin(p);
        settle(p, prng);
        snapshot_sender_tick(&p->sender);
        settle(p, prng);
    }
}

static void check_there(struct pair *p)
{
    struct snapshot_reader r;
    struct error_text problem = {NULL};
    struct sim_disk *d = &p->ends[RECEIVER].disk;
    assert_int_equal(snapshot_reader_open(&r, &d->ops, "data", INDEX, cluster, &problem), 0);
    assert_int_equal(r.meta.term, 5);
    assert_int_equal(r.meta.configuration_index, 3);
    for (size_t i = 0; i < r.content.len; i++) {
        if (r.content.data[i] != (uint8_t)(i * 31 + (i >> 11))) {
            fail_msg("byte %zu", i);
        }
    }
    snapshot_reader_close(&r);
}

static void pair_free(struct pair *p)
{
    struct prng prng;
    prng.state = 1;
    snapshot_sender_stop(&p->sender);
    snapshot_receiver_discard(&p->receiver);
    settle(p, &prng);
    for (uint64_t id = SENDER; id <= RECEIVER; id++) {
        assert_int_equal(p->ends[id].unfinished_jobs, 0);
    }
    snapshot_sender_finish(&p->sender);
    snapshot_receiver_finish(&p->receiver);
    for (uint64_t id = SENDER; id <= RECEIVER; id++) {
        sim_finish(&p->ends[id].disk);
    }
    for (size_t i = 1; i < 4; i++) {
        for (struct end *end = &p->ends[i]; end->in_head < end->in_tail; end->in_head++) {
            buf_finish(&end->in[end->in_head % QUEUE]);
        }
    }
    free(p);
}

static void test_sizes(void **state)
{
    static const size_t sizes[] = {
        0, 1, STREAM_CHUNK - 143, STREAM_CHUNK, 5 * STREAM_CHUNK + 7, 30 * STREAM_CHUNK};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct prng prng;
        prng.state = i;
        struct pair *p = pair_make(sizes[i]);
        transfer(p, &prng, 1);
        assert_int_equal(p->accepted, 1);
        check_there(p);
        assert_true(p->in_flight_max <= STREAM_WINDOW / STREAM_CHUNK + 2);
        uint64_t sent, total;
        assert_false(snapshot_sender_progress(&p->sender, RECEIVER, &sent, &total));
        assert_int_equal(snapshot_sender_deadline(&p->sender), INT64_MAX);
        assert_int_equal(p->ends[SENDER].warnings + p->ends[RECEIVER].warnings, 0);
        pair_free(p);
    }
}

/* Each message in turn is lost: the receiver asks for the rest again, and little is sent twice. */
static void test_each_message_lost(void **state)
{
    for (unsigned lose = 1;; lose++) {
        struct prng prng;
        prng.state = lose;
        struct pair *p = pair_make(11 * STREAM_CHUNK);
        p->lose = lose;
        transfer(p, &prng, 20000);
        assert_int_equal(p->accepted, 1);
        check_there(p);
        assert_true(p->chunks <= 12 + 2 * STREAM_WINDOW / STREAM_CHUNK);
        bool reached = p->sent >= lose;
        pair_free(p);
        if (!reached) {
            assert_true(lose > 20);
            break;
        }
    }
}

static void test_spoiled_on_the_way(void **state)
{
    for (unsigned spoil = 1; spoil <= 6; spoil++) {
        struct prng prng;
        prng.state = spoil;
        struct pair *p = pair_make(5 * STREAM_CHUNK + 1);
        p->spoil = spoil;
        transfer(p, &prng, 20000);
        assert_int_equal(p->accepted, 1);
        check_there(p);
        pair_free(p);
    }
}

/* The link breaks after each message; received data are not sent again. */
static void test_broken_link_is_resumed(void **state)
{
    enum { CHUNKS = 20 };
    for (unsigned after = 1; after < 30; after += 3) {
        struct prng prng;
        uint64_t sent = 0, total;
        prng.state = after;
        struct pair *p = pair_make(CHUNKS * STREAM_CHUNK - 200);
        begin(p);
        while (p->sent < after) {
            struct end *ends[2] = {&p->ends[SENDER], &p->ends[RECEIVER]};
            for (int i = 0; i < 2; i++) {
                if (ends[i]->jobs_head < ends[i]->jobs_tail) {
                    run_one_job(ends[i]);
                }
                if (ends[i]->in_head < ends[i]->in_tail) {
                    deliver_one(ends[i]);
                }
            }
        }
        p->cut = true;
        snapshot_sender_link(&p->sender, RECEIVER, false);
        settle(p, &prng);
        assert_int_equal(snapshot_sender_deadline(&p->sender), INT64_MAX);
        uint64_t has = p->receiver.written;
        p->chunks = 0;
        p->cut = false;
        snapshot_sender_link(&p->sender, RECEIVER, true);
        settle(p, &prng);
        transfer(p, &prng, 5000);
        assert_int_equal(p->accepted, 1);
        check_there(p);
        assert_true(p->chunks <= CHUNKS - has / STREAM_CHUNK + 1);
        assert_false(snapshot_sender_progress(&p->sender, RECEIVER, &sent, &total));
        pair_free(p);
    }
}

/* Another process on the receiver's side. */
static void restart_receiver(struct pair *p)
{
    struct end *end = &p->ends[RECEIVER];
    snapshot_receiver_finish(&p->receiver);
    receiver_begin(p);
    end->jobs_head = end->jobs_tail;
    end->unfinished_jobs = 0;
    while (end->in_head < end->in_tail) {
        buf_finish(&end->in[end->in_head++ % QUEUE]);
    }
}

static uint64_t bytes_there(const struct sim_disk *d)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < d->live.n; i++) {
        if (strstr(d->live.names[i].path, "incoming") != NULL) {
            bytes += d->live.names[i].file->live.len;
        }
    }
    return bytes;
}

/* One step of each side. */
static void step_both(struct pair *p)
{
    struct end *ends[2] = {&p->ends[SENDER], &p->ends[RECEIVER]};
    for (int i = 0; i < 2; i++) {
        if (ends[i]->jobs_head < ends[i]->jobs_tail) {
            run_one_job(ends[i]);
        }
        if (ends[i]->in_head < ends[i]->in_tail) {
            deliver_one(ends[i]);
        }
    }
}

/* Lets the receiver's writes come to their end, with all messages lost, and takes its process away. */
static void kill_receiver(struct pair *p, struct prng *prng)
{
    p->cut = true;
    snapshot_sender_link(&p->sender, RECEIVER, false);
    settle(p, prng);
    restart_receiver(p);
    p->cut = false;
    p->chunks = 0;
}

/* A receiver that was restarted goes on where it was, as long as it is the same file; another one is begun from
 * empty, and nothing is left of the first. */
static void test_restart_is_resumed(void **state)
{
    enum { CHUNKS = 20 };
    for (unsigned after = 8; after < 30; after += 3) {
        struct prng prng;
        prng.state = after;
        struct pair *p = pair_make(CHUNKS * STREAM_CHUNK - 200);
        begin(p);
        while (p->sent < after) {
            step_both(p);
        }
        kill_receiver(p, &prng);
        uint64_t has = bytes_there(&p->ends[RECEIVER].disk);
        assert_true(has > 0);
        bool other = after % 2 == 0;
        if (other) { /* the sender has another file under that index meanwhile */
            char name[64];
            (void)snprintf(name, sizeof name, "data/snapshot/%020d.snapshot", INDEX);
            snapshot_sender_stop(&p->sender);
            settle(p, &prng);
            assert_int_equal(p->ends[SENDER].disk.ops.remove(&p->ends[SENDER].disk, name), 0);
            write_snapshot(&p->ends[SENDER].disk, CHUNKS * STREAM_CHUNK - 300);
        }
        snapshot_sender_link(&p->sender, RECEIVER, true);
        transfer(p, &prng, 5000);
        assert_int_equal(p->accepted, 1);
        check_there(p);
        assert_true(other ? p->chunks >= CHUNKS : p->chunks <= CHUNKS - has / STREAM_CHUNK + 1);
        assert_false(has_unfinished(&p->ends[RECEIVER].disk));
        pair_free(p);
    }
}

/* What the earlier run left is not what was sent: it is found when the file is whole, and costs one more transfer, but
 * the sender's file is not called damaged for it. */
static void test_what_was_left_is_bad(void **state)
{
    for (int turn = 0; turn < 2; turn++) {
        struct prng prng;
        prng.state = 1;
        struct pair *p = pair_make(5 * STREAM_CHUNK);
        begin(p);
        while (bytes_there(&p->ends[RECEIVER].disk) < 2 * STREAM_CHUNK) {
            step_both(p);
        }
        uint64_t size = p->receiver.offer.size;
        kill_receiver(p, &prng);
        for (size_t i = 0; i < p->ends[RECEIVER].disk.live.n; i++) {
            struct sim_name *name = &p->ends[RECEIVER].disk.live.names[i];
            if (strstr(name->path, "incoming") != NULL && turn == 0) {
                memset(name->file->live.data + 4096, 0, 4096);
            } else if (strstr(name->path, "incoming") != NULL) { /* whole, and wrong */
                struct sim_file *f = name->file;
                free(f->live.data);
                f->live.len = size;
                f->live.data = calloc(1, f->live.len + 1);
            }
        }
        snapshot_sender_link(&p->sender, RECEIVER, true);
        transfer(p, &prng, 20000);
        assert_int_equal(p->accepted, 1);
        assert_int_equal(p->sender.damaged, 0);
        assert_int_equal(p->ends[RECEIVER].warnings, 0);
        check_there(p);
        pair_free(p);
    }
}

/* The receiver's power goes at every call to its disk: the file is whole under its name, or it is
 * not there, and the next attempt succeeds, with what is left of the first or without. */
static void test_torn_at_every_point(void **state)
{
    for (unsigned stop = 1;; stop++) {
        struct prng prng;
        prng.state = stop;
        struct pair *p = pair_make(3 * STREAM_CHUNK);
        struct end *end = &p->ends[RECEIVER];
        end->disk.stop_at = end->disk.calls + stop;
        transfer(p, &prng, 300);
        bool stopped = end->disk.stopped;
        bool was_accepted = p->accepted > 0;
        assert_true(stopped || was_accepted);
        sim_power_cut(&end->disk);
        restart_receiver(p);
        uint64_t *indexes;
        size_t n;
        struct error_text problem = {NULL};
        bool first = stop % 2 == 0;
        assert_int_equal(snapshot_list(&end->disk.ops, "data", first, &indexes, &n, &problem), 0);
        free(indexes);
        assert_false(first && has_unfinished(&end->disk));
        if (was_accepted || n > 0) {
            check_there(p);
        }
        p->accepted = 0;
        transfer(p, &prng, 60000);
        assert_int_equal(p->accepted, 1);
        check_there(p);
        pair_free(p);
        if (!stopped) {
            assert_true(stop > 6);
            break;
        }
    }
}

/* Each call fails once: reported, and tried again from an empty file. */
static void test_each_call_fails(void **state)
{
    for (unsigned at = 1;; at++) {
        struct prng prng;
        prng.state = at;
        struct pair *p = pair_make(3 * STREAM_CHUNK);
        struct end *end = &p->ends[RECEIVER];
        end->disk.fail_at = end->disk.calls + at;
        end->disk.fail_errno = ENOSPC;
        transfer(p, &prng, 60000);
        assert_int_equal(p->accepted, 1);
        check_there(p);
        bool reached = end->disk.calls >= end->disk.fail_at;
        pair_free(p);
        if (!reached) {
            assert_true(at > 6);
            break;
        }
    }
}

/* A file that rotted on the sender's disk is not given its name, and not sent for ever. */
static void test_damaged_at_the_sender(void **state)
{
    struct prng prng;
    prng.state = 1;
    struct pair *p = pair_make(3 * STREAM_CHUNK);
    char name[64];
    (void)snprintf(name, sizeof name, "data/snapshot/%020d.snapshot", INDEX);
    struct sim_bytes *bytes = sim_bytes_of(&p->ends[SENDER].disk, name);
    bytes->data[STREAM_CHUNK] ^= 1;
    transfer(p, &prng, 20000);
    assert_int_equal(p->accepted + p->ready, 0);
    assert_int_equal(p->ends[SENDER].warnings, 1);
    assert_int_equal(p->ends[RECEIVER].warnings, 2);
    assert_int_equal(p->sender.damaged, INDEX);
    assert_true(p->chunks < 20);
    assert_null(names_find(&p->ends[RECEIVER].disk.live, name));
    assert_false(has_unfinished(&p->ends[RECEIVER].disk));
    pair_free(p);
}

/* The engine may not want it any more when it is there. */
static void test_not_wanted_any_more(void **state)
{
    struct prng prng;
    prng.state = 1;
    struct pair *p = pair_make(3 * STREAM_CHUNK);
    p->refuse = true;
    begin(p);
    settle(p, &prng);
    assert_int_equal(p->ready, 1);
    assert_false(has_unfinished(&p->ends[RECEIVER].disk));
    assert_int_equal(snapshot_sender_deadline(&p->sender), INT64_MAX);
    p->refuse = false;
    transfer(p, &prng, 5000);
    assert_int_equal(p->accepted, 1);
    pair_free(p);
}

/* The file is trimmed while it is being sent, or before it could be opened. */
static void test_trimmed_meanwhile(void **state)
{
    struct prng prng;
    prng.state = 1;
    for (int opened = 0; opened < 2; opened++) {
        struct pair *p = pair_make(30 * STREAM_CHUNK);
        begin(p);
        if (opened) {
            run_one_job(&p->ends[SENDER]);
        }
        assert_int_equal(snapshot_remove(&p->ends[SENDER].disk.ops, "data", INDEX), 0);
        settle(p, &prng);
        assert_int_equal(p->accepted, opened);
        assert_int_equal(p->ends[SENDER].warnings, 0);
        pair_free(p);
    }
}

/* Messages without an offer, and impossible offers. */
static void test_strange_messages(void **state)
{
    struct prng prng;
    prng.state = 1;
    struct pair *p = pair_make(30 * STREAM_CHUNK);
    const struct log_message_offer bad[] = {
        {9, 0, 5, 3, 1000, 1},
        {9, INDEX, 0, 3, 1000, 1},
        {4, INDEX, 5, 3, 1000, 1},
        {9, INDEX, 5, 0, 1000, 1},
        {9, INDEX, 5, INDEX + 1, 1000, 1},
        {9, INDEX, 5, 3, 127, 1},
        {9, INDEX, 5, 3, UINT64_MAX, 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snapshot_receiver_offer(&p->receiver, SENDER, &bad[i]);
        assert_int_equal(p->receiver.state, RECEIVE_IDLE);
    }
    struct log_message_chunk chunk = {1, 0, hash_bytes("x", 1), slice_str("x")};
    snapshot_receiver_chunk(&p->receiver, SENDER, &chunk);
    struct log_message_wanted wanted = {1, 0, WANT_NOTHING};
    snapshot_sender_wanted(&p->sender, RECEIVER, &wanted);

    const struct log_message_offer good = {9, INDEX, 5, 3, 200, 1};
    snapshot_receiver_offer(&p->receiver, SENDER, &good);
    run_one_job(&p->ends[RECEIVER]);
    assert_int_equal(p->receiver.state, RECEIVE_FILLING);
    uint8_t bytes[300] = {0};
    chunk = (struct log_message_chunk){1, 0, hash_bytes(bytes, 300), slice_make(bytes, 300)};
    snapshot_receiver_chunk(&p->receiver, SENDER, &chunk); /* longer than the file */
    chunk = (struct log_message_chunk){1, 0, hash_bytes(bytes, 0), slice_make(bytes, 0)};
    snapshot_receiver_chunk(&p->receiver, SENDER, &chunk); /* nothing */
    chunk = (struct log_message_chunk){1, UINT64_MAX, hash_bytes(bytes, 9), slice_make(bytes, 9)};
    snapshot_receiver_chunk(&p->receiver, SENDER, &chunk); /* from beyond */
    chunk = (struct log_message_chunk){1, 0, hash_bytes(bytes, 9), slice_make(bytes, 9)};
    snapshot_receiver_chunk(&p->receiver, 3, &chunk); /* from somebody else */
    assert_int_equal(p->receiver.expected, 0);
    snapshot_receiver_chunk(&p->receiver, SENDER, &chunk);
    assert_int_equal(p->receiver.expected, 9);

    /* Another leader offers the same file: on with it. Another file: that one, from the start. */
    const struct log_message_offer later = {10, INDEX, 5, 3, 200, 1};
    snapshot_receiver_offer(&p->receiver, 3, &later);
    assert_int_equal(p->receiver.from, 3);
    assert_int_equal(p->receiver.expected, 9);
    const struct log_message_offer other = {10, INDEX + 1, 5, 3, 200, 2};
    p->cut = true;
    snapshot_receiver_offer(&p->receiver, 3, &other);
    settle(p, &prng);
    snapshot_receiver_offer(&p->receiver, 3, &other);
    settle(p, &prng);
    assert_int_equal(p->receiver.offer.index, INDEX + 1);
    assert_int_equal(p->receiver.state, RECEIVE_FILLING);
    assert_int_equal(p->receiver.expected, 0);
    pair_free(p);
}

/* A receiver that never answers is given up. */
static void test_gives_up(void **state)
{
    struct prng prng;
    prng.state = 1;
    struct pair *p = pair_make(STREAM_CHUNK);
    p->cut = true;
    begin(p);
    settle(p, &prng);
    int64_t deadline;
    unsigned offers = 0;
    while ((deadline = snapshot_sender_deadline(&p->sender)) != INT64_MAX) {
        assert_true(deadline > p->now_ms);
        p->now_ms = deadline;
        snapshot_sender_tick(&p->sender);
        settle(p, &prng);
        offers++;
    }
    assert_int_equal(offers, STREAM_GIVE_UP + 1);
    pair_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_each_message_lost),
        cmocka_unit_test(test_spoiled_on_the_way),
        cmocka_unit_test(test_broken_link_is_resumed),
        cmocka_unit_test(test_restart_is_resumed),
        cmocka_unit_test(test_what_was_left_is_bad),
        cmocka_unit_test(test_torn_at_every_point),
        cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_damaged_at_the_sender),
        cmocka_unit_test(test_not_wanted_any_more),
        cmocka_unit_test(test_trimmed_meanwhile),
        cmocka_unit_test(test_strange_messages),
        cmocka_unit_test(test_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
