/* Sends snapshot files, with a window of chunks. */
#include "replication/snapshot/snapshot_send.h"

#include "base/map.h"
#include "replication/disk/snapshot_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum task { TASK_OPEN, TASK_READ, TASK_CLOSE };

struct snapshot_transfer {
    struct list node;
    struct snapshot_sender *s;
    uint64_t to;
    struct log_message_offer offer; /* size and identity are set when it is open */
    bool open;
    bool linked;
    bool asked;    /* an offer is unanswered: the next WANT says where to continue */
    bool ending;   /* close and forget */
    bool busy;     /* the job is in progress and owns the fields below */
    uint64_t sent; /* offset of the next chunk */
    uint64_t acked;
    int64_t heard_ms; /* when the member last answered, or the file was offered */
    unsigned unanswered;
    unsigned rejected; /* how often the member found it damaged */

    struct worker_job job;
    enum task task;
    int fd;      /* or -1 */
    uint64_t at; /* offset that is read */
    int rv;
    uint64_t size;
    uint64_t identity;
    struct buf chunk; /* the message */
    size_t chunk_len; /* bytes of the file in it */
};

/* --- LANE_FILES ----------------------------------------------------------------------------------- */

static int read_chunk(struct snapshot_transfer *t)
{
    const struct file_ops *ops = t->s->ops;
    size_t len = t->size - t->at < STREAM_CHUNK ? (size_t)(t->size - t->at) : STREAM_CHUNK;
    uint8_t *bytes = malloc(len);
    if (bytes == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int64_t n = ops->read(ops->ctx, t->fd, bytes, len, t->at);
    if (n != (int64_t)len) {
        free(bytes);
        return n < 0 ? file_error((int)n) : CONCLAVE_ECORRUPT;
    }
    struct log_message_chunk chunk = {t->identity, t->at, hash_bytes(bytes, len),
                                      slice_make(bytes, len)};
    buf_init(&t->chunk, 0);
    log_message_put_chunk(&t->chunk, &chunk);
    free(bytes);
    t->chunk_len = len;
    return buf_ok(&t->chunk) ? 0 : CONCLAVE_ENOMEM;
}

static void transfer_work(struct worker_job *job)
{
    struct snapshot_transfer *t = CONTAINER_OF(job, struct snapshot_transfer, job);
    const struct file_ops *ops = t->s->ops;
    switch (t->task) {
    case TASK_OPEN:
        t->rv = snapshot_send_open(ops, t->s->dir, t->offer.index, &t->fd, &t->size, &t->identity);
        break;
    case TASK_READ:
        t->rv = read_chunk(t);
        break;
    case TASK_CLOSE:
        ops->close(ops->ctx, t->fd);
        t->fd = -1;
        break;
    }
}

/* --- the caller's thread -------------------------------------------------------------------------- */

static void snapshot_send_forget(struct snapshot_transfer *t)
{
    list_remove(&t->node);
    buf_finish(&t->chunk);
    free(t);
}

static void snapshot_send_run(struct snapshot_transfer *t, enum task task)
{
    t->task = task;
    t->at = t->sent;
    t->rv = 0;
    t->busy = true;
    t->s->host.run(t->s->host.ctx, &t->job);
}

static void give_offer(struct snapshot_transfer *t)
{
    struct buf b;
    t->asked = true;
    t->heard_ms = t->s->host.now_ms(t->s->host.ctx);
    buf_init(&b, 0);
    log_message_put_offer(&b, &t->offer);
    if (buf_ok(&b)) {
        t->s->host.send(t->s->host.ctx, t->to, &b);
    }
    buf_finish(&b);
}

/* Begins the next step, unless a job is in progress. */
static void go_on(struct snapshot_transfer *t)
{
    if (t->busy) {
        return;
    }
    if (t->ending) {
        if (t->fd >= 0) {
            snapshot_send_run(t, TASK_CLOSE);
        } else {
            snapshot_send_forget(t);
        }
    } else if (!t->open) {
        snapshot_send_run(t, TASK_OPEN);
    } else if (t->linked && !t->asked && t->sent < t->size && t->sent - t->acked < STREAM_WINDOW) {
        snapshot_send_run(t, TASK_READ);
    }
}

static void snapshot_send_fail(struct snapshot_transfer *t)
{
    char text[160];
    (void)snprintf(text, sizeof text,
                   "the snapshot of index %" PRIu64 " cannot be sent to server %" PRIu64 ": %s",
                   t->offer.index, t->to, conclave_strerror(t->rv));
    t->s->host.warn(t->s->host.ctx, text);
    t->ending = true;
}

static void transfer_done(struct worker_job *job)
{
    struct snapshot_transfer *t = CONTAINER_OF(job, struct snapshot_transfer, job);
    struct stream_host host = t->s->host; /* t may be freed */
    t->busy = false;
    if (t->rv == CONCLAVE_NO_NODE) {
        t->ending = true; /* trimmed meanwhile: the engine will choose another */
    } else if (t->rv != 0) {
        snapshot_send_fail(t);
    } else if (t->task == TASK_OPEN) {
        t->open = true;
        t->offer.size = t->size;
        t->offer.identity = t->identity;
        if (t->linked && !t->ending) {
            give_offer(t);
        }
    } else if (t->task == TASK_READ && t->linked && !t->asked && !t->ending && t->at == t->sent) {
        host.send(host.ctx, t->to, &t->chunk);
        t->sent += t->chunk_len;
    }
    buf_finish(&t->chunk);
    go_on(t);
    host.ran(host.ctx);
}

static struct snapshot_transfer *snapshot_send_find(const struct snapshot_sender *s, uint64_t to)
{
    LIST_FOREACH (i, &s->transfers) {
        struct snapshot_transfer *t = CONTAINER_OF(i, struct snapshot_transfer, node);
        if (t->to == to && !t->ending) {
            return t;
        }
    }
    return NULL;
}

void snapshot_sender_init(struct snapshot_sender *s, const struct stream_host *host,
                          const struct file_ops *ops, const char *dir)
{
    *s = (struct snapshot_sender){.host = *host, .ops = ops, .dir = dir};
    list_init(&s->transfers);
}

void snapshot_sender_finish(struct snapshot_sender *s)
{
    LIST_FOREACH (i, &s->transfers) {
        struct snapshot_transfer *t = CONTAINER_OF(i, struct snapshot_transfer, node);
        assert(!t->busy);
        if (t->fd >= 0) {
            s->ops->close(s->ops->ctx, t->fd);
        }
        snapshot_send_forget(t);
    }
}

void snapshot_sender_begin(struct snapshot_sender *s, const struct engine_message *install)
{
    assert(install->kind == ENGINE_INSTALL);
    struct snapshot_transfer *t = snapshot_send_find(s, install->peer);
    if (t != NULL) {
        t->offer.term = install->term;
        return;
    }
    if (install->install.index == s->damaged) {
        return;
    }
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        return; /* the engine will ask again */
    }
    t->s = s;
    t->to = install->peer;
    t->offer.term = install->term;
    t->offer.index = install->install.index;
    t->offer.snapshot_term = install->install.term;
    t->offer.configuration_index = install->install.configuration_index;
    t->linked = true; /* the engine asks only while the member answers it */
    t->fd = -1;
    t->job.work = transfer_work;
    t->job.done = transfer_done;
    list_push_back(&s->transfers, &t->node);
    go_on(t);
}

void snapshot_sender_wanted(struct snapshot_sender *s, uint64_t from,
                            const struct log_message_wanted *wanted)
{
    struct snapshot_transfer *t = snapshot_send_find(s, from);
    if (t == NULL || !t->open || wanted->identity != t->identity || wanted->offset > t->size) {
        return;
    }
    t->heard_ms = s->host.now_ms(s->host.ctx);
    t->unanswered = 0;
    if (wanted->state == WANT_NOTHING) {
        t->ending = true;
    } else if (wanted->state == WANT_AGAIN) {
        if (++t->rejected >= 2) {
            s->damaged = t->offer.index;
            t->rv = CONCLAVE_ECORRUPT;
            snapshot_send_fail(t);
        } else {
            t->sent = t->acked = 0;
            give_offer(t);
        }
    } else if (t->asked || wanted->offset <= t->acked) {
        /* An answer to the offer, or a chunk was lost: continues from there. */
        t->asked = false;
        t->acked = t->sent = wanted->offset;
    } else if (wanted->offset <= t->sent) {
        t->acked = wanted->offset;
    }
    go_on(t);
}

void snapshot_sender_link(struct snapshot_sender *s, uint64_t peer, bool up)
{
    struct snapshot_transfer *t = snapshot_send_find(s, peer);
    if (t == NULL || t->linked == up) {
        return;
    }
    t->linked = up;
    t->unanswered = 0;
    if (up && t->open) {
        give_offer(t);
    }
}

void snapshot_sender_stop(struct snapshot_sender *s)
{
    LIST_FOREACH (i, &s->transfers) {
        struct snapshot_transfer *t = CONTAINER_OF(i, struct snapshot_transfer, node);
        t->ending = true;
        go_on(t);
    }
}

int64_t snapshot_sender_deadline(const struct snapshot_sender *s)
{
    int64_t deadline = INT64_MAX;
    LIST_FOREACH (i, &s->transfers) {
        const struct snapshot_transfer *t = CONTAINER_OF(i, struct snapshot_transfer, node);
        if (t->open && t->linked && !t->ending && t->heard_ms + STREAM_STALL_MS < deadline) {
            deadline = t->heard_ms + STREAM_STALL_MS;
        }
    }
    return deadline;
}

void snapshot_sender_tick(struct snapshot_sender *s)
{
    int64_t now = s->host.now_ms(s->host.ctx);
    LIST_FOREACH (i, &s->transfers) {
        struct snapshot_transfer *t = CONTAINER_OF(i, struct snapshot_transfer, node);
        if (!t->open || !t->linked || t->ending || now < t->heard_ms + STREAM_STALL_MS) {
            continue;
        }
        if (++t->unanswered > STREAM_GIVE_UP) {
            t->ending = true;
            go_on(t);
        } else {
            give_offer(t);
        }
    }
}

bool snapshot_sender_progress(const struct snapshot_sender *s, uint64_t to, uint64_t *ret_sent,
                              uint64_t *ret_total)
{
    const struct snapshot_transfer *t = snapshot_send_find(s, to);
    if (t == NULL || !t->open) {
        return false;
    }
    *ret_sent = t->acked;
    *ret_total = t->offer.size;
    return true;
}
