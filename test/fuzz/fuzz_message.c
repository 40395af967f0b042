/*
 * What another member may send on channel 1. The first byte of the input chooses:
 *   0  the rest is one frame: what decodes encodes to the same bytes
 *   1  the rest is a program for one of three members: frames, timeouts, submissions, writes to the
 *      disk, as a log without bytes would handle them
 * What must hold: nothing asserts, in libraft neither; the term and the commit index never go back;
 * nothing committed is replaced; entries follow each other.
 */
#include "base/endian.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "replication/disk/configuration.h"
#include "replication/raft/engine.h"
#include "replication/raft/log_messages.h"

#include <stdlib.h>

enum { ENTRIES_MAX = 4096, STEPS_MAX = 400 };

/* --- frames --------------------------------------------------------------------------------------- */

static void put_again(struct buf *b, struct log_message *m)
{
    struct engine_entry entry;
    switch (m->kind) {
    case MESSAGE_ENGINE:
        log_message_put_engine(b, &m->engine);
        while (log_message_next_entry(&m->entries, &entry)) {
            log_message_put_entry(b, entry.term, entry.kind, entry.payload);
        }
        break;
    case MESSAGE_OFFER:
        log_message_put_offer(b, &m->offer);
        break;
    case MESSAGE_CHUNK:
        log_message_put_chunk(b, &m->chunk);
        break;
    case MESSAGE_WANT:
        log_message_put_wanted(b, &m->wanted);
        break;
    default:
        log_message_put_note(b, m->kind, &m->note);
    }
}

static void fuzz_frame(struct slice frame)
{
    struct log_message m;
    struct buf b;
    if (log_message_decode(frame, &m) != 0) {
        return;
    }
    buf_init(&b, 0);
    put_again(&b, &m);
    must(buf_ok(&b) && slice_equal(buf_slice(&b), frame));
    buf_finish(&b);
}

/* --- a member ------------------------------------------------------------------------------------- */

struct world {
    struct engine *engine;
    int64_t now_ms;
    uint64_t term, commit;
    uint64_t last;
    struct buf configuration;
    bool ended;
};

static const struct engine_entry *first_entry;

static void founding(void *ctx, size_t i, struct engine_entry *ret)
{
    *ret = *first_entry;
}

static void took(struct world *w, int rv, const struct engine_result *result)
{
    if (rv != 0) {
        /* A log that contradicts what is committed ends it. */
        w->ended = rv == CONCLAVE_ECORRUPT;
        must(rv == CONCLAVE_EPROTO || rv == CONCLAVE_EBUSY || rv == CONCLAVE_EINVAL || w->ended);
        return;
    }
    must(engine_term(w->engine) >= w->term && engine_commit_index(w->engine) >= w->commit);
    if (result->count > 0) {
        must(result->first_index > w->commit && result->first_index <= w->last + 1);
        must((result->truncated_from != 0) == (result->first_index <= w->last));
        w->last = result->first_index + result->count - 1;
    }
    w->term = engine_term(w->engine);
    w->commit = engine_commit_index(w->engine);
    for (unsigned i = 0; i < result->messages; i++) {
        struct engine_message m;
        engine_message(w->engine, i, &m);
        must(m.term > 0 && m.peer > 0);
    }
    if (result->install) {
        return;
    }
    must(engine_last_index(w->engine) == w->last && w->commit <= w->last);
}

static void install(struct world *w, const struct log_message_offer *offer, uint64_t from)
{
    struct engine_result result;
    struct engine_message m = {.kind = ENGINE_INSTALL, .peer = from, .term = offer->term};
    m.install.index = offer->index;
    m.install.term = offer->snapshot_term;
    m.install.configuration_index = offer->configuration_index;
    int rv = engine_receive(w->engine, w->now_ms, &m, NULL, 0, &result);
    took(w, rv, &result);
    if (rv != 0 || !result.install) {
        return;
    }
    struct snapshot_meta meta = {.index = offer->index,
                                 .term = offer->snapshot_term,
                                 .configuration_index = offer->configuration_index,
                                 .configuration = w->configuration};
    must(engine_persisted(w->engine, w->now_ms, w->last, &result) == 0);
    w->last = offer->index;
    rv = engine_installed(w->engine, w->now_ms, &meta, &result);
    must(rv == 0);
    took(w, rv, &result);
}

static void receive(struct world *w, struct slice frame, uint64_t from)
{
    static struct engine_entry entries[ENTRIES_MAX];
    struct engine_result result;
    struct log_message m;
    size_t n = 0;
    if (log_message_decode(frame, &m) != 0) {
        return;
    }
    if (m.kind == MESSAGE_OFFER) {
        install(w, &m.offer, from);
    }
    if (m.kind != MESSAGE_ENGINE ||
        (m.engine.kind == ENGINE_APPEND && m.engine.append.count > ENTRIES_MAX)) {
        return;
    }
    while (log_message_next_entry(&m.entries, &entries[n < ENTRIES_MAX ? n : 0])) {
        n++;
    }
    m.engine.peer = from;
    took(w, engine_receive(w->engine, w->now_ms, &m.engine, entries, n, &result), &result);
}

static void step(struct world *w, struct input *in)
{
    struct engine_result result;
    uint8_t op = take(in);
    w->now_ms += op >> 4;
    switch (op & 15) {
    case 0:
        w->now_ms = engine_next_timeout_ms(w->engine);
        took(w, engine_timeout(w->engine, w->now_ms, &result), &result);
        break;
    case 1:
        took(w, engine_submit(w->engine, w->now_ms, ENTRY_COMMAND, slice_str("x"), &result),
             &result);
        break;
    case 2:
        took(w, engine_persisted(w->engine, w->now_ms, w->last, &result), &result);
        break;
    case 3:
        took(w, engine_persisted(w->engine, w->now_ms - 100, take(in), &result), &result);
        break;
    case 4:
        took(w, engine_transfer(w->engine, w->now_ms, take(in) % 5, &result), &result);
        break;
    case 5:
        took(w, engine_catch_up(w->engine, w->now_ms, take(in) % 5, &result), &result);
        break;
    case 6:
        took(w, engine_announce(w->engine, w->now_ms, &result), &result);
        break;
    case 7: {
        struct snapshot_meta meta = {.index = w->commit,
                                     .term = engine_term_at(w->engine, w->commit),
                                     .configuration_index = 1,
                                     .configuration = w->configuration};
        took(w, engine_snapshot(w->engine, w->now_ms, &meta, take(in), &result), &result);
        break;
    }
    case 8:
        engine_hasten(w->engine, w->now_ms, take(in));
        break;
    default:
        receive(w, take_bytes(in, 255), op % 4 + 1);
    }
}

static void fuzz_program(struct slice bytes)
{
    struct input in = input_make(bytes);
    struct world w = {.now_ms = 1000, .term = 1, .commit = 1, .last = 1};
    const struct configuration_member members[] = {
        {1, MEMBER_VOTER, "a"}, {2, MEMBER_VOTER, "b"}, {3, MEMBER_VOTER, "c"}, {4, 0, "d"}};
    buf_init(&w.configuration, 0);
    must(configuration_encode(members, 4, &w.configuration) == 0);
    const struct engine_entry entry = {1, ENTRY_CONFIGURATION, buf_slice(&w.configuration)};
    first_entry = &entry;
    struct engine_start start = {.term = 1, .first_index = 1, .count = 1, .entry = founding};
    struct engine_result result;
    w.engine = engine_create(1);
    must(w.engine != NULL);
    engine_seed(w.engine, 1);
    engine_set_timeouts(w.engine, 200, 40, 1000);
    took(&w, engine_start(w.engine, w.now_ms, &start, &result), &result);
    for (int i = 0; i < STEPS_MAX && !input_ended(&in) && !w.ended; i++) {
        step(&w, &in);
    }
    engine_destroy(w.engine);
    buf_finish(&w.configuration);
}

const struct cost_bound fuzz_bound = {
    .cpu_us = 400000,
    .cpu_ns_per_byte = 50000,
    .alloc_bytes = 64 << 20,
    .alloc_per_byte = 4000,
};

void fuzz_input(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    struct slice rest = slice_make(data + 1, size - 1);
    if (data[0] % 2 == 0) {
        fuzz_frame(rest);
    } else {
        fuzz_program(rest);
    }
}
