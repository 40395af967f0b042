/*
 * Writing the log: frames, the roll to the next segment, trimming, the pool of spare segments.
 *
 * A segment comes to life in this order: header synced in the spare file, file renamed, folder
 * synced, metadata naming it durable, and only then its first frame. So when the metadata names a
 * segment its file exists, and what was acknowledged lies in segments that the metadata names.
 */
#include "replication/log.h"

#include "base/clock.h"
#include "base/random.h"
#include "replication/segment.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A segment made while a write waits for it is small; larger ones are made in the background. */
#define HASTY_SEGMENT_BYTES (1u << 20)
#define ZERO_BLOCK (1u << 20)

int log_init(struct log *log, const struct file_ops *ops, const char *dir,
             const uint8_t cluster[FORMAT_CLUSTER_SIZE], uint64_t segment_bytes, bool sync)
{
    memset(log, 0, sizeof *log);
    log->ops = ops;
    log->dir = dir;
    memcpy(log->cluster, cluster, FORMAT_CLUSTER_SIZE);
    log->segment_bytes = segment_bytes < 4096 ? 4096 : segment_bytes & ~(uint64_t)7;
    log->sync = sync;
    log->fd = -1;
    log->next_spare = 1;
    return pthread_mutex_init(&log->mutex, NULL) == 0 ? 0 : CONCLAVE_ENOMEM;
}

void log_finish(struct log *log)
{
    if (log->fd >= 0) {
        log->ops->close(log->ops->ctx, log->fd);
    }
    log->fd = -1;
    free(log->segments);
    log->segments = NULL;
    problem_finish(&log->problem);
    pthread_mutex_destroy(&log->mutex);
}

int log_fail(struct log *log, int negative_errno, const char *what, const char *path)
{
    log->error = problem_file(&log->problem, negative_errno, what, path);
    return log->error;
}

static int fail_memory(struct log *log)
{
    log->error = problem_set(&log->problem, CONCLAVE_ENOMEM, "out of memory while writing the log");
    return log->error;
}

char *log_segment_path(const struct log *log, uint64_t sequence)
{
    return path_make("%s/log/%016" PRIu64 ".log", log->dir, sequence);
}

static char *spare_path(const struct log *log, uint64_t number)
{
    return path_make("%s/log/spare-%" PRIu64, log->dir, number);
}

int log_add_segment(struct log *log, const struct log_segment *segment)
{
    if (log->n_segments == log->cap_segments) {
        size_t cap = log->cap_segments == 0 ? 8 : 2 * log->cap_segments;
        struct log_segment *grown = realloc(log->segments, cap * sizeof *grown);
        if (grown == NULL) {
            return fail_memory(log);
        }
        log->segments = grown;
        log->cap_segments = cap;
    }
    log->segments[log->n_segments++] = *segment;
    atomic_fetch_add(&log->bytes, segment->size);
    return 0;
}

int log_sync(struct log *log, int fd, const char *path)
{
    const struct clock_source *clock = clock_system();
    int64_t start = clock_monotonic_ns(clock);
    int rv = log->ops->sync(log->ops->ctx, fd);
    int64_t us = (clock_monotonic_ns(clock) - start) / 1000;
    atomic_fetch_add(&log->syncs, 1);
    atomic_fetch_add(&log->sync_total_us, us);
    if (us > atomic_load(&log->sync_max_us)) {
        atomic_store(&log->sync_max_us, us);
    }
    return rv == 0 ? 0 : log_fail(log, rv, "cannot sync the log segment", path);
}

/* Fills [0, size) of a new file with zeroes: writing into blocks that were written before is
 * twice as fast as into blocks that are merely allocated. */
static int write_zeroes(const struct log *log, int fd, uint64_t size, const atomic_bool *stop)
{
    void *zeroes = calloc(1, ZERO_BLOCK);
    int rv = zeroes == NULL ? -ENOMEM : 0;
    for (uint64_t done = 0; rv == 0 && done < size;) {
        size_t len = size - done < ZERO_BLOCK ? (size_t)(size - done) : ZERO_BLOCK;
        rv = log->ops->write(log->ops->ctx, fd, zeroes, len, done);
        if (rv == 0 && (done + len == size || stop != NULL)) {
            rv = log->ops->sync(log->ops->ctx, fd); /* piece by piece: others use this disk */
        }
        done += len;
        if (stop != NULL && atomic_load(stop)) {
            rv = rv == 0 ? -ECANCELED : rv;
        }
    }
    free(zeroes);
    return rv;
}

/* Opens a spare segment, or makes a small one. The handle, or a negative errno; *ret_path is the
 * file's name. */
static int open_spare(struct log *log, uint64_t least, uint64_t *ret_size, uint32_t *ret_flags,
                      char **ret_path)
{
    struct log_spare spare = {0};
    pthread_mutex_lock(&log->mutex);
    if (log->n_spares > 0 && log->spares[log->n_spares - 1].size >= least) {
        spare = log->spares[--log->n_spares];
    }
    pthread_mutex_unlock(&log->mutex);

    char *path =
        spare.size > 0 ? spare_path(log, spare.number) : path_make("%s/log/segment.new", log->dir);
    if (path == NULL) {
        return -ENOMEM;
    }
    int fd = log->ops->open(log->ops->ctx, path, spare.size > 0 ? FILE_WRITE : FILE_REPLACE);
    *ret_size = spare.size;
    *ret_flags = SEGMENT_RECYCLED;
    if (fd >= 0 && spare.size == 0) {
        uint64_t size =
            log->segment_bytes < HASTY_SEGMENT_BYTES ? log->segment_bytes : HASTY_SEGMENT_BYTES;
        *ret_size = size > least ? size : least;
        *ret_flags = 0;
        int rv = write_zeroes(log, fd, *ret_size, NULL);
        if (rv != 0) {
            log->ops->close(log->ops->ctx, fd);
            fd = rv;
        }
    }
    if (fd < 0) {
        free(path);
        return fd;
    }
    *ret_path = path;
    return fd;
}

/* Starts the next segment with room for `need` bytes of frames. */
static int start_segment(struct log *log, uint64_t need)
{
    uint8_t block[SEGMENT_HEADER_SIZE];
    struct segment_header h = {
        .sequence = log->metadata.last_segment + 1,
        .first_index = log->last_index + 1,
        .previous = log->chain,
    };
    char *from = NULL;
    memcpy(h.cluster, log->cluster, sizeof h.cluster);
    random_bytes(&h.salt, sizeof h.salt);

    char *folder = path_make("%s/log", log->dir);
    char *path = log_segment_path(log, h.sequence);
    if (folder == NULL || path == NULL) {
        free(folder);
        free(path);
        return fail_memory(log);
    }
    int fd = open_spare(log, SEGMENT_HEADER_SIZE + need, &h.size, &h.flags, &from);
    int err = fd < 0 ? fd : 0;
    if (err == 0) {
        segment_header_encode(&h, block);
        err = log->ops->write(log->ops->ctx, fd, block, sizeof block, 0);
    }
    if (err == 0) {
        err = log->ops->sync(log->ops->ctx, fd);
    }
    if (err == 0) {
        err = log->ops->rename(log->ops->ctx, from, path);
    }
    if (err == 0) {
        err = log->ops->sync_folder(log->ops->ctx, folder);
    }
    int rv = err == 0 ? 0 : log_fail(log, err, "cannot start the log segment", path);
    if (rv == 0) {
        log->metadata.last_segment = h.sequence;
        rv = metadata_write(log->ops, log->dir, &log->metadata, &log->problem);
        log->error = rv;
    }
    if (rv == 0) {
        rv = log_add_segment(log, &(struct log_segment){h.sequence, h.first_index, h.size});
    }
    if (rv == 0) {
        if (log->fd >= 0) {
            log->ops->close(log->ops->ctx, log->fd);
        }
        log->fd = fd;
        log->position = SEGMENT_HEADER_SIZE;
        log->salt = h.salt;
        log->chain = h.checksum;
    } else if (fd >= 0) {
        log->ops->close(log->ops->ctx, fd);
    }
    free(from);
    free(path);
    free(folder);
    return rv;
}

/* Writes a finished-to-be frame at the end of the last segment. */
static int write_frame(struct log *log, struct buf *frame, uint64_t index, uint32_t count)
{
    struct log_segment *segment = &log->segments[log->n_segments - 1];
    uint64_t checksum = frame_finish(frame, log->salt, log->chain, index, count);
    if (!buf_ok(frame)) {
        return fail_memory(log);
    }
    assert(log->position + frame->len <= segment->size);
    int err = log->ops->write(log->ops->ctx, log->fd, frame->data, frame->len, log->position);
    if (err != 0 || log->sync) {
        char *path = log_segment_path(log, segment->sequence);
        int rv = err != 0 ? log_fail(log, err, "cannot write to the log segment", path)
                          : log_sync(log, log->fd, path);
        free(path);
        if (rv != 0) {
            return rv;
        }
    }
    log->position += frame->len;
    log->chain = checksum;
    return 0;
}

int log_append(struct log *log, struct buf *frame, uint64_t index, uint32_t count)
{
    if (log->error != 0) {
        return log->error;
    }
    assert(index >= 1 && index <= log->last_index + 1);
    uint64_t need = (frame->len + 7) & ~(uint64_t)7;
    if (log->n_segments == 0 || log->position + need > log->segments[log->n_segments - 1].size) {
        int rv = start_segment(log, need);
        if (rv != 0) {
            return rv;
        }
    }
    int rv = write_frame(log, frame, index, count);
    if (rv == 0) {
        log->last_index = index + count - 1;
    }
    return rv;
}

/* A seal takes the room that is left, or none: without it the next start searches the tail, no
 * more. */
int log_seal(struct log *log)
{
    struct buf frame;
    if (log->error != 0) {
        return log->error;
    }
    if (log->position + FRAME_HEADER_SIZE > log->segments[log->n_segments - 1].size) {
        return 0;
    }
    buf_init(&frame, 0);
    frame_begin(&frame);
    int rv = write_frame(log, &frame, log->last_index + 1, 0);
    buf_finish(&frame);
    return rv;
}

int log_set_vote(struct log *log, uint64_t term, uint64_t voted_for)
{
    if (log->error != 0) {
        return log->error;
    }
    log->metadata.term = term;
    log->metadata.voted_for = voted_for;
    log->error = metadata_write(log->ops, log->dir, &log->metadata, &log->problem);
    return log->error;
}

int log_trim(struct log *log, uint64_t snapshot_index, uint64_t keep_after,
             struct log_segment **ret_dropped, size_t *ret_count)
{
    if (log->error != 0) {
        return log->error;
    }
    size_t n = 0;
    while (n + 1 < log->n_segments && log->segments[n + 1].first_index <= keep_after + 1) {
        n++;
    }
    struct log_segment *dropped = malloc((n + 1) * sizeof *dropped);
    if (dropped == NULL) {
        return fail_memory(log);
    }
    log->metadata.snapshot_index = snapshot_index;
    log->metadata.first_segment = log->segments[n].sequence;
    log->error = metadata_write(log->ops, log->dir, &log->metadata, &log->problem);
    if (log->error != 0) {
        free(dropped);
        return log->error;
    }
    for (size_t i = 0; i < n; i++) {
        dropped[i] = log->segments[i];
        atomic_fetch_sub(&log->bytes, dropped[i].size);
    }
    log->n_segments -= n;
    memmove(log->segments, log->segments + n, log->n_segments * sizeof *log->segments);
    *ret_dropped = dropped;
    *ret_count = n;
    return 0;
}

bool log_wants_spare(struct log *log, uint64_t *ret_size)
{
    const struct log_segment *last = &log->segments[log->n_segments - 1];
    pthread_mutex_lock(&log->mutex);
    unsigned spares = log->n_spares;
    pthread_mutex_unlock(&log->mutex);
    if (log->error != 0 || spares > 0 || log->position < last->size / 2) {
        return false;
    }
    *ret_size = last->size * 4 < log->segment_bytes ? last->size * 4 : log->segment_bytes;
    return true;
}

/* Gives the file a place in the pool. 0, -EAGAIN when the pool is full, or another negative
 * errno. */
static int into_pool(struct log *log, const char *from, uint64_t size)
{
    pthread_mutex_lock(&log->mutex);
    int rv = log->n_spares == LOG_SPARES_MAX ? -EAGAIN : 0;
    if (rv == 0) {
        char *to = spare_path(log, log->next_spare);
        rv = to == NULL ? -ENOMEM : log->ops->rename(log->ops->ctx, from, to);
        free(to);
    }
    if (rv == 0) {
        log->spares[log->n_spares++] = (struct log_spare){log->next_spare++, size};
    }
    pthread_mutex_unlock(&log->mutex);
    return rv;
}

int log_make_spare(struct log *log, uint64_t size, const atomic_bool *stop)
{
    char *path = path_make("%s/log/spare.new", log->dir);
    if (path == NULL) {
        return -ENOMEM;
    }
    int fd = log->ops->open(log->ops->ctx, path, FILE_REPLACE);
    int rv = fd < 0 ? fd : write_zeroes(log, fd, size, stop);
    if (fd >= 0) {
        log->ops->close(log->ops->ctx, fd);
    }
    if (rv == 0) {
        rv = into_pool(log, path, size);
    }
    if (rv != 0 && fd >= 0) {
        int removed = log->ops->remove(log->ops->ctx, path);
        rv = rv == -ECANCELED || rv == -EAGAIN ? removed : rv;
    }
    free(path);
    return rv;
}

int log_dispose(struct log *log, const struct log_segment *segment)
{
    char *path = log_segment_path(log, segment->sequence);
    if (path == NULL) {
        return -ENOMEM;
    }
    int rv = segment->size == log->segment_bytes ? into_pool(log, path, segment->size) : -EAGAIN;
    if (rv == -EAGAIN) {
        rv = log->ops->remove(log->ops->ctx, path);
    }
    free(path);
    return rv;
}
