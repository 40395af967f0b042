/* Receives a snapshot file, writes it under another name and checks it. */
#include "replication/snapshot/snapshot_receive.h"

#include "base/map.h"
#include "base/transition.h"
#include "replication/disk/snapshot_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* One chunk that is being written. */
struct write_job {
    struct worker_job job;
    struct snapshot_receiver *rx;
    uint64_t identity;
    uint64_t offset;
    int rv;
    struct buf bytes;
};

/* --- LANE_FILES ----------------------------------------------------------------------------------- */

static void write_work(struct worker_job *job)
{
    struct write_job *w = CONTAINER_OF(job, struct write_job, job);
    struct snapshot_receiver *rx = w->rx;
    if (rx->rv == 0) {
        int err = rx->ops->write(rx->ops->ctx, rx->fd, w->bytes.data, w->bytes.len, w->offset);
        if (err != 0) {
            rx->rv = error_text_file(&rx->problem, err, "cannot write the leader's snapshot in",
                                     rx->dir);
        }
    }
    w->rv = rx->rv;
}

static struct snapshot_incoming incoming(const struct snapshot_receiver *rx)
{
    return (struct snapshot_incoming){rx->offer.identity, rx->offer.size};
}

static void open_work(struct worker_job *job)
{
    struct snapshot_receiver *rx = CONTAINER_OF(job, struct snapshot_receiver, job);
    const struct snapshot_incoming in = incoming(rx);
    rx->found = 0;
    rx->rv = snapshot_incoming_open(rx->ops, rx->dir, &in, rx->anew, &rx->fd, &rx->found);
}

static void check_work(struct worker_job *job)
{
    struct snapshot_receiver *rx = CONTAINER_OF(job, struct snapshot_receiver, job);
    struct snapshot_meta meta = {.index = rx->offer.index,
                                 .term = rx->offer.snapshot_term,
                                 .configuration_index = rx->offer.configuration_index};
    if (rx->rv == 0) {
        int err = rx->ops->sync(rx->ops->ctx, rx->fd);
        if (err != 0) {
            rx->rv =
                error_text_file(&rx->problem, err, "cannot sync the leader's snapshot in", rx->dir);
        }
    }
    rx->ops->close(rx->ops->ctx, rx->fd);
    rx->fd = -1;
    if (rx->rv == 0) {
        const struct snapshot_incoming in = incoming(rx);
        rx->rv = snapshot_incoming_check(rx->ops, rx->dir, &in, rx->cluster, &meta, &rx->problem);
    }
}

static void accept_work(struct worker_job *job)
{
    struct snapshot_receiver *rx = CONTAINER_OF(job, struct snapshot_receiver, job);
    const struct snapshot_incoming in = incoming(rx);
    rx->rv = snapshot_incoming_accept(rx->ops, rx->dir, &in, rx->offer.index);
}

static void clean_work(struct worker_job *job)
{
    struct snapshot_receiver *rx = CONTAINER_OF(job, struct snapshot_receiver, job);
    if (rx->fd >= 0) {
        rx->ops->close(rx->ops->ctx, rx->fd);
        rx->fd = -1;
    }
    snapshot_incoming_remove(rx->ops, rx->dir);
}

/* --- the caller's thread -------------------------------------------------------------------------- */

static void reply(struct snapshot_receiver *rx, uint64_t to, uint64_t identity, uint64_t offset,
                  enum log_message_want state)
{
    struct log_message_wanted wanted = {identity, offset, state};
    struct buf b;
    buf_init(&b, 0);
    log_message_put_wanted(&b, &wanted);
    if (buf_ok(&b)) {
        rx->host.send(rx->host.ctx, to, &b);
    }
    buf_finish(&b);
}

/* As the drawing in the header. */
static const uint16_t RECEIVE_NEXT[] = {
    [RECEIVE_IDLE] = TRANSITION_TO(RECEIVE_OPENING) | TRANSITION_TO(RECEIVE_CLEANING),
    [RECEIVE_OPENING] = TRANSITION_TO(RECEIVE_FILLING) | TRANSITION_TO(RECEIVE_IDLE) |
                        TRANSITION_TO(RECEIVE_CLEANING),
    [RECEIVE_FILLING] = TRANSITION_TO(RECEIVE_CHECKING) | TRANSITION_TO(RECEIVE_CLEANING),
    [RECEIVE_CHECKING] = TRANSITION_TO(RECEIVE_OPENING) | TRANSITION_TO(RECEIVE_READY) |
                         TRANSITION_TO(RECEIVE_CLEANING),
    [RECEIVE_READY] = TRANSITION_TO(RECEIVE_ACCEPTING) | TRANSITION_TO(RECEIVE_CLEANING),
    [RECEIVE_ACCEPTING] = TRANSITION_TO(RECEIVE_ACCEPTED),
    [RECEIVE_ACCEPTED] = TRANSITION_TO(RECEIVE_IDLE) | TRANSITION_TO(RECEIVE_CLEANING),
    [RECEIVE_CLEANING] = TRANSITION_TO(RECEIVE_IDLE) | TRANSITION_TO(RECEIVE_CLEANING),
};

static void receive_enter(struct snapshot_receiver *rx, enum receive_state state)
{
    transition_check(RECEIVE_NEXT, rx->state, state);
    rx->state = state;
}

static void snapshot_receive_run(struct snapshot_receiver *rx, enum receive_state state,
                                 void (*work)(struct worker_job *job),
                                 void (*done)(struct worker_job *job))
{
    receive_enter(rx, state);
    rx->job.work = work;
    rx->job.done = done;
    rx->host.run(rx->host.ctx, &rx->job);
}

static void clean_done(struct worker_job *job)
{
    struct snapshot_receiver *rx = CONTAINER_OF(job, struct snapshot_receiver, job);
    receive_enter(rx, RECEIVE_IDLE);
    rx->rv = 0;
    rx->host.ran(rx->host.ctx);
}

/* Only writes may be in progress; they come before this job. */
static void clean(struct snapshot_receiver *rx)
{
    snapshot_receive_run(rx, RECEIVE_CLEANING, clean_work, clean_done);
}

static void warn(struct snapshot_receiver *rx)
{
    char text[400];
    (void)snprintf(text, sizeof text,
                   "the snapshot of index %" PRIu64 " from server %" PRIu64 " cannot be used: %s",
                   rx->offer.index, rx->from, error_text_of(&rx->problem, rx->rv));
    rx->host.warn(rx->host.ctx, text);
    error_text_finish(&rx->problem);
}

/* Whether snapshot_receiver_discard came during the job. */
static bool overtaken(struct snapshot_receiver *rx)
{
    if (rx->state != RECEIVE_CLEANING) {
        return false;
    }
    error_text_finish(&rx->problem);
    clean(rx);
    return true;
}

static void check_done(struct worker_job *job);

static void open_done(struct worker_job *job)
{
    struct snapshot_receiver *rx = CONTAINER_OF(job, struct snapshot_receiver, job);
    if (!overtaken(rx)) {
        if (rx->rv != 0) {
            warn(rx);
            receive_enter(rx, RECEIVE_IDLE);
            rx->rv = 0;
        } else {
            receive_enter(rx, RECEIVE_FILLING);
            rx->expected = rx->written = rx->found;
            reply(rx, rx->from, rx->offer.identity, rx->found, WANT_MORE);
            if (rx->found == rx->offer.size) {
                snapshot_receive_run(rx, RECEIVE_CHECKING, check_work, check_done);
            }
        }
    }
    rx->host.ran(rx->host.ctx);
}

static void check_done(struct worker_job *job)
{
    struct snapshot_receiver *rx = CONTAINER_OF(job, struct snapshot_receiver, job);
    if (!overtaken(rx)) {
        if (rx->rv == CONCLAVE_ECORRUPT && rx->found > 0) {
            /* The part from an earlier run may not have reached the disk: the sender is not to blame. */
            error_text_finish(&rx->problem);
            rx->rv = 0;
            rx->anew = true;
            snapshot_receive_run(rx, RECEIVE_OPENING, open_work, open_done);
        } else if (rx->rv != 0) {
            bool damaged = rx->rv == CONCLAVE_ECORRUPT;
            warn(rx);
            if (damaged) {
                reply(rx, rx->from, rx->offer.identity, 0, WANT_AGAIN);
            }
            clean(rx);
        } else {
            receive_enter(rx, RECEIVE_READY);
            rx->callbacks.ready(rx->callbacks.ctx, rx->from, &rx->offer);
        }
    }
    rx->host.ran(rx->host.ctx);
}

static void accept_done(struct worker_job *job)
{
    struct snapshot_receiver *rx = CONTAINER_OF(job, struct snapshot_receiver, job);
    receive_enter(rx, RECEIVE_ACCEPTED);
    rx->callbacks.accepted(rx->callbacks.ctx, rx->rv);
    rx->host.ran(rx->host.ctx);
}

static void write_done(struct worker_job *job)
{
    struct write_job *w = CONTAINER_OF(job, struct write_job, job);
    struct snapshot_receiver *rx = w->rx;
    if (w->identity == rx->offer.identity &&
        (rx->state == RECEIVE_FILLING || rx->state == RECEIVE_CHECKING)) {
        if (w->rv == 0) {
            rx->written = w->offset + w->bytes.len;
            reply(rx, rx->from, rx->offer.identity, rx->written, WANT_MORE);
        } else if (rx->state == RECEIVE_FILLING) {
            warn(rx); /* the check would find it, too */
            clean(rx);
        }
    }
    buf_finish(&w->bytes);
    free(w);
    rx->host.ran(rx->host.ctx);
}

void snapshot_receiver_init(struct snapshot_receiver *rx, const struct stream_host *host,
                            const struct snapshot_receiver_callbacks *callbacks,
                            const struct file_ops *ops, const char *dir,
                            const uint8_t cluster[FORMAT_CLUSTER_SIZE])
{
    *rx = (struct snapshot_receiver){.host = *host,
                                     .callbacks = *callbacks,
                                     .ops = ops,
                                     .dir = dir,
                                     .cluster = cluster,
                                     .fd = -1};
}

void snapshot_receiver_finish(struct snapshot_receiver *rx)
{
    if (rx->ops != NULL && rx->fd >= 0) {
        rx->ops->close(rx->ops->ctx, rx->fd);
        rx->fd = -1;
    }
    error_text_finish(&rx->problem);
}

static bool same_file(const struct log_message_offer *a, const struct log_message_offer *b)
{
    return a->identity == b->identity && a->size == b->size && a->index == b->index &&
           a->snapshot_term == b->snapshot_term && a->configuration_index == b->configuration_index;
}

static bool offer_is_sound(const struct log_message_offer *o)
{
    return o->index > 0 && o->snapshot_term > 0 && o->snapshot_term <= o->term &&
           o->configuration_index > 0 && o->configuration_index <= o->index &&
           o->size >= SNAPSHOT_HEADER_SIZE + SNAPSHOT_TRAILER_SIZE && o->size <= INT64_MAX;
}

void snapshot_receiver_offer(struct snapshot_receiver *rx, uint64_t from,
                             const struct log_message_offer *offer)
{
    if (!offer_is_sound(offer)) {
        return;
    }
    if (rx->state != RECEIVE_IDLE && rx->state != RECEIVE_CLEANING &&
        same_file(offer, &rx->offer)) {
        rx->from = from;
        rx->offer.term = offer->term;
        rx->gap_told = false;
        if (rx->state == RECEIVE_READY) {
            rx->callbacks.ready(rx->callbacks.ctx, from, &rx->offer);
        } else if (rx->state != RECEIVE_OPENING) {
            reply(rx, from, offer->identity, rx->expected, WANT_MORE);
        }
        return;
    }
    if (rx->state != RECEIVE_IDLE) {
        /* Without an answer it is offered again; then there is room. */
        snapshot_receiver_discard(rx);
        return;
    }
    rx->from = from;
    rx->offer = *offer;
    rx->expected = rx->written = 0;
    rx->gap_told = false;
    rx->anew = false;
    snapshot_receive_run(rx, RECEIVE_OPENING, open_work, open_done);
}

void snapshot_receiver_decline(struct snapshot_receiver *rx, uint64_t from,
                               const struct log_message_offer *offer)
{
    reply(rx, from, offer->identity, 0, WANT_NOTHING);
}

/* Requests the part that was lost, once. */
static void tell_gap(struct snapshot_receiver *rx)
{
    if (!rx->gap_told) {
        rx->gap_told = true;
        reply(rx, rx->from, rx->offer.identity, rx->expected, WANT_MORE);
    }
}

void snapshot_receiver_chunk(struct snapshot_receiver *rx, uint64_t from,
                             const struct log_message_chunk *chunk)
{
    if (rx->state != RECEIVE_FILLING || from != rx->from || chunk->identity != rx->offer.identity ||
        chunk->offset < rx->expected) {
        return;
    }
    if (chunk->offset > rx->expected || chunk->bytes.len == 0 || chunk->bytes.len > STREAM_CHUNK ||
        chunk->bytes.len > rx->offer.size - rx->expected ||
        rx->expected - rx->written > STREAM_WINDOW ||
        hash_bytes(chunk->bytes.data, chunk->bytes.len) != chunk->checksum) {
        tell_gap(rx);
        return;
    }
    struct write_job *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return;
    }
    buf_init(&w->bytes, 0);
    buf_append_slice(&w->bytes, chunk->bytes);
    if (!buf_ok(&w->bytes)) {
        free(w);
        return;
    }
    w->rx = rx;
    w->identity = chunk->identity;
    w->offset = chunk->offset;
    w->job.work = write_work;
    w->job.done = write_done;
    rx->expected += chunk->bytes.len;
    rx->gap_told = false;
    bool last = rx->expected == rx->offer.size;
    rx->host.run(rx->host.ctx, &w->job);
    if (last && rx->state == RECEIVE_FILLING) {
        snapshot_receive_run(rx, RECEIVE_CHECKING, check_work, check_done);
    }
}

void snapshot_receiver_accept(struct snapshot_receiver *rx)
{
    assert(rx->state == RECEIVE_READY);
    snapshot_receive_run(rx, RECEIVE_ACCEPTING, accept_work, accept_done);
}

void snapshot_receiver_done(struct snapshot_receiver *rx)
{
    assert(rx->state == RECEIVE_ACCEPTED);
    reply(rx, rx->from, rx->offer.identity, rx->offer.size, WANT_NOTHING);
    receive_enter(rx, RECEIVE_IDLE);
}

void snapshot_receiver_discard(struct snapshot_receiver *rx)
{
    switch (rx->state) {
    case RECEIVE_IDLE:
    case RECEIVE_CLEANING:
    case RECEIVE_ACCEPTING: /* its end is reported, and decides */
        break;
    case RECEIVE_OPENING:
    case RECEIVE_CHECKING:
        receive_enter(rx, RECEIVE_CLEANING); /* when the job is done */
        break;
    case RECEIVE_READY:
        reply(rx, rx->from, rx->offer.identity, rx->offer.size, WANT_NOTHING);
        clean(rx);
        break;
    case RECEIVE_FILLING:
    case RECEIVE_ACCEPTED:
        clean(rx);
        break;
    }
}
