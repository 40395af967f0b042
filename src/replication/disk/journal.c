/*
 * Writes the log: frames, the change to the next segment, trimming, the pool of spare segments.
 *
 * A segment begins in this order: its header is synced in the spare file, the file is renamed, the folder is synced,
 * the metadata that name it are durable, and only then comes its first frame. So every segment that the metadata name
 * exists, and all acknowledged entries are in such segments.
 */
#include "replication/disk/journal.h"

#include "base/clock.h"
#include "base/random.h"
#include "replication/disk/log_scan.h"
#include "replication/disk/segment.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A segment made while a write waits is small; larger ones are made in the background. */
#define HASTY_SEGMENT_BYTES (1u << 20)
#define ZERO_BLOCK (1u << 20)
#define SEGMENT_BYTES_MAX ((uint64_t)1 << 30) /* the table's offsets have 32 bits */

int journal_init(struct journal *journal, const struct file_ops *ops, const char *dir,
                 const uint8_t cluster[FORMAT_CLUSTER_SIZE], uint64_t segment_bytes, bool sync)
{
    memset(journal, 0, sizeof *journal);
    journal->ops = ops;
    journal->dir = dir;
    memcpy(journal->cluster, cluster, FORMAT_CLUSTER_SIZE);
    segment_bytes = segment_bytes < SEGMENT_BYTES_MAX ? segment_bytes : SEGMENT_BYTES_MAX;
    journal->segment_bytes = segment_bytes < 4096 ? 4096 : segment_bytes & ~(uint64_t)7;
    journal->sync = sync;
    journal->fd = -1;
    journal->next_spare = 1;
    return pthread_mutex_init(&journal->mutex, NULL) == 0 ? 0 : CONCLAVE_ENOMEM;
}

void journal_finish(struct journal *journal)
{
    if (journal->fd >= 0) {
        journal->ops->close(journal->ops->ctx, journal->fd);
    }
    journal->fd = -1;
    free(journal->segments);
    journal->segments = NULL;
    error_text_finish(&journal->problem);
    pthread_mutex_destroy(&journal->mutex);
}

int journal_fail(struct journal *journal, int negative_errno, const char *what, const char *path)
{
    journal->error = error_text_file(&journal->problem, negative_errno, what, path);
    return journal->error;
}

static int fail_memory(struct journal *journal)
{
    journal->error =
        error_text_set(&journal->problem, CONCLAVE_ENOMEM, "out of memory while writing the log");
    return journal->error;
}

char *journal_segment_path(const struct journal *journal, uint64_t sequence)
{
    return path_make("%s/log/%016" PRIu64 ".log", journal->dir, sequence);
}

static char *spare_path(const struct journal *journal, uint64_t number)
{
    return path_make("%s/log/spare-%" PRIu64, journal->dir, number);
}

int journal_add_segment(struct journal *journal, const struct journal_segment *segment)
{
    if (!array_room(&journal->segments, journal->n_segments, &journal->cap_segments,
                    sizeof *journal->segments)) {
        return fail_memory(journal);
    }
    assert(journal->n_segments == 0 ||
           journal->segments[journal->n_segments - 1].sequence + 1 == segment->sequence);
    journal->segments[journal->n_segments++] = *segment;
    atomic_fetch_add(&journal->bytes, segment->size);
    return 0;
}

int journal_sync(struct journal *journal, int fd, const char *path)
{
    const struct clock_source *clock = clock_system();
    int64_t start = clock_monotonic_ns(clock);
    int rv = journal->ops->sync(journal->ops->ctx, fd);
    int64_t us = (clock_monotonic_ns(clock) - start) / 1000;
    atomic_fetch_add(&journal->syncs, 1);
    atomic_store(&journal->sync_last_us, us);
    atomic_fetch_add(&journal->sync_total_us, us);
    if (us > atomic_load(&journal->sync_max_us)) {
        atomic_store(&journal->sync_max_us, us);
    }
    return rv == 0 ? 0 : journal_fail(journal, rv, "cannot sync the log segment", path);
}

/* Fills [0, size) of a new file with zeroes: later writes into written blocks are twice as fast as into blocks that are
 * only allocated. */
static int write_zeroes(const struct journal *journal, int fd, uint64_t size,
                        const atomic_bool *stop)
{
    void *zeroes = calloc(1, ZERO_BLOCK);
    int rv = zeroes == NULL ? -ENOMEM : 0;
    for (uint64_t done = 0; rv == 0 && done < size;) {
        size_t len = size - done < ZERO_BLOCK ? (size_t)(size - done) : ZERO_BLOCK;
        rv = journal->ops->write(journal->ops->ctx, fd, zeroes, len, done);
        if (rv == 0 && (done + len == size || stop != NULL)) {
            rv = journal->ops->sync(journal->ops->ctx,
                                    fd); /* in pieces, because others use this disk */
        }
        done += len;
        if (stop != NULL && atomic_load(stop)) {
            rv = rv == 0 ? -ECANCELED : rv;
        }
    }
    free(zeroes);
    return rv;
}

/* Opens a spare segment, or makes a small one. Returns the handle, or a negative errno; *ret_path is the file's
 * name. */
static int open_spare(struct journal *journal, uint64_t least, uint64_t *ret_size,
                      uint32_t *ret_flags, char **ret_path)
{
    struct journal_spare spare = {0};
    pthread_mutex_lock(&journal->mutex);
    assert(journal->n_spares <= JOURNAL_SPARES_MAX);
    if (journal->n_spares > 0 && journal->spares[journal->n_spares - 1].size >= least) {
        spare = journal->spares[--journal->n_spares];
    }
    pthread_mutex_unlock(&journal->mutex);

    char *path = spare.size > 0 ? spare_path(journal, spare.number)
                                : path_make("%s/log/segment.new", journal->dir);
    if (path == NULL) {
        return -ENOMEM;
    }
    int fd =
        journal->ops->open(journal->ops->ctx, path, spare.size > 0 ? FILE_WRITE : FILE_REPLACE);
    *ret_size = spare.size;
    *ret_flags = SEGMENT_RECYCLED;
    if (fd >= 0 && spare.size == 0) {
        uint64_t size = journal->segment_bytes < HASTY_SEGMENT_BYTES ? journal->segment_bytes
                                                                     : HASTY_SEGMENT_BYTES;
        *ret_size = size > least ? size : least;
        *ret_flags = 0;
        int rv = write_zeroes(journal, fd, *ret_size, NULL);
        if (rv != 0) {
            journal->ops->close(journal->ops->ctx, fd);
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

static int write_metadata(struct journal *journal)
{
    const struct metadata *m = &journal->metadata;
    assert(m->first_segment > 0 && m->first_segment <= m->last_segment);
    journal->error = metadata_write(journal->ops, journal->dir, m, &journal->problem);
    return journal->error;
}

/* Starts the next segment with room for `need` bytes of frames. */
static int start_segment(struct journal *journal, uint64_t need)
{
    uint8_t block[SEGMENT_HEADER_SIZE];
    struct segment_header h = {
        .sequence = journal->metadata.last_segment + 1,
        .first_index = journal->last_index + 1,
        .previous = journal->chain,
    };
    char *from = NULL;
    memcpy(h.cluster, journal->cluster, sizeof h.cluster);
    /* A recycled file contains old frames; with a new salt, their checksums are wrong. */
    random_bytes(&h.salt, sizeof h.salt);

    char *folder = path_make("%s/log", journal->dir);
    char *path = journal_segment_path(journal, h.sequence);
    if (folder == NULL || path == NULL) {
        free(folder);
        free(path);
        return fail_memory(journal);
    }
    int fd = open_spare(journal, SEGMENT_HEADER_SIZE + need, &h.size, &h.flags, &from);
    int err = fd < 0 ? fd : 0;
    if (err == 0) {
        assert(h.size >= SEGMENT_HEADER_SIZE + need);
        segment_header_encode(&h, block);
        err = journal->ops->write(journal->ops->ctx, fd, block, sizeof block, 0);
    }
    if (err == 0) {
        err = journal->ops->sync(journal->ops->ctx, fd);
    }
    if (err == 0) {
        /* The header is durable already, so a file with a segment's name always has a header. */
        err = journal->ops->rename(journal->ops->ctx, from, path);
    }
    if (err == 0) {
        err = journal->ops->sync_folder(journal->ops->ctx, folder);
    }
    int rv = err == 0 ? 0 : journal_fail(journal, err, "cannot start the log segment", path);
    if (rv == 0) {
        /* With this number, the recovery notices when the last segment is missing. */
        journal->metadata.last_segment = h.sequence;
        rv = write_metadata(journal);
    }
    if (rv == 0) {
        rv = journal_add_segment(journal,
                                 &(struct journal_segment){h.sequence, h.first_index, h.size});
    }
    if (rv == 0) {
        if (journal->fd >= 0) {
            journal->ops->close(journal->ops->ctx, journal->fd);
        }
        journal->fd = fd;
        journal->position = SEGMENT_HEADER_SIZE;
        journal->salt = h.salt;
        journal->chain = h.checksum;
    } else if (fd >= 0) {
        journal->ops->close(journal->ops->ctx, fd);
    }
    free(from);
    free(path);
    free(folder);
    return rv;
}

/* Finishes a frame and writes it at the end of the last segment. */
static int write_frame(struct journal *journal, struct buf *frame, uint64_t index, uint32_t count)
{
    assert(journal->n_segments > 0 && journal->fd >= 0);
    struct journal_segment *segment = &journal->segments[journal->n_segments - 1];
    assert(segment->sequence ==
           journal->metadata.last_segment); /* else the next start would not find it */
    uint64_t checksum = frame_finish(frame, journal->salt, journal->chain, index, count);
    if (!buf_ok(frame)) {
        return fail_memory(journal);
    }
    assert(journal->position + frame->len <= segment->size);
    int err = journal->ops->write(journal->ops->ctx, journal->fd, frame->data, frame->len,
                                  journal->position);
    if (err != 0 || journal->sync) {
        char *path = journal_segment_path(journal, segment->sequence);
        int rv = err != 0 ? journal_fail(journal, err, "cannot write to the log segment", path)
                          : journal_sync(journal, journal->fd, path);
        free(path);
        if (rv != 0) {
            return rv;
        }
    }
    journal->frame_segment = segment->sequence;
    journal->frame_offset = journal->position;
    journal->position += frame->len;
    journal->chain = checksum;
    return 0;
}

/* An error is final: after a failed sync, the kernel may have dropped the written pages. */
int journal_append(struct journal *journal, struct buf *frame, uint64_t index, uint32_t count)
{
    if (journal->error != 0) {
        return journal->error;
    }
    assert(index >= 1 && index <= journal->last_index + 1);
    uint64_t need = (frame->len + 7) & ~(uint64_t)7;
    if (journal->n_segments == 0 ||
        journal->position + need > journal->segments[journal->n_segments - 1].size) {
        int rv = start_segment(journal, need);
        if (rv != 0) {
            return rv;
        }
    }
    int rv = write_frame(journal, frame, index, count);
    if (rv == 0) {
        journal->last_index = index + count - 1;
    }
    return rv;
}

/* Writes a seal if there is room for it: without one, the next start only has to search the tail. */
int journal_seal(struct journal *journal)
{
    struct buf frame;
    if (journal->error != 0) {
        return journal->error;
    }
    if (journal->n_segments == 0) {
        int rv = start_segment(journal, FRAME_HEADER_SIZE);
        if (rv != 0) {
            return rv;
        }
    }
    if (journal->position + FRAME_HEADER_SIZE > journal->segments[journal->n_segments - 1].size) {
        return 0;
    }
    buf_init(&frame, 0);
    frame_begin(&frame);
    int rv = write_frame(journal, &frame, journal->last_index + 1, 0);
    buf_finish(&frame);
    return rv;
}

int journal_set_vote(struct journal *journal, uint64_t term, uint64_t voted_for)
{
    if (journal->error != 0) {
        return journal->error;
    }
    struct metadata *m = &journal->metadata;
    /* One vote per term. */
    assert(term > m->term || (term == m->term && (m->voted_for == 0 || voted_for == m->voted_for)));
    m->term = term;
    m->voted_for = voted_for;
    return write_metadata(journal);
}

int journal_trim(struct journal *journal, uint64_t snapshot_index, uint64_t keep_after,
                 struct journal_segment **ret_dropped, size_t *ret_count)
{
    if (journal->error != 0) {
        return journal->error;
    }
    size_t n = 0;
    assert(journal->n_segments > 0 && keep_after <= snapshot_index);
    /* A segment can go if the next one begins with the first entry to keep, or before it. */
    while (n + 1 < journal->n_segments && journal->segments[n + 1].first_index <= keep_after + 1) {
        n++;
    }
    struct journal_segment *dropped = malloc((n + 1) * sizeof *dropped);
    if (dropped == NULL) {
        return fail_memory(journal);
    }
    journal->metadata.snapshot_index = snapshot_index;
    journal->metadata.first_segment = journal->segments[n].sequence;
    if (write_metadata(journal) != 0) {
        free(dropped);
        return journal->error;
    }
    for (size_t i = 0; i < n; i++) {
        dropped[i] = journal->segments[i];
        atomic_fetch_sub(&journal->bytes, dropped[i].size);
    }
    journal->n_segments -= n;
    memmove(journal->segments, journal->segments + n,
            journal->n_segments * sizeof *journal->segments);
    *ret_dropped = dropped;
    *ret_count = n;
    return 0;
}

int journal_begin_install(struct journal *journal, uint64_t index)
{
    if (journal->error != 0) {
        return journal->error;
    }
    journal->metadata.installing = index;
    return write_metadata(journal);
}

int journal_reset(struct journal *journal, uint64_t index, struct journal_segment **ret_dropped,
                  size_t *ret_count)
{
    if (journal->error != 0) {
        return journal->error;
    }
    assert(journal->metadata.installing == index);
    size_t n = journal->n_segments;
    struct journal_segment *dropped = malloc((n + 1) * sizeof *dropped);
    if (dropped == NULL) {
        return fail_memory(journal);
    }
    for (size_t i = 0; i < n; i++) {
        dropped[i] = journal->segments[i];
        atomic_fetch_sub(&journal->bytes, dropped[i].size);
    }
    journal->n_segments = 0;
    journal->last_index = index;
    int rv = start_segment(journal, FRAME_HEADER_SIZE);
    if (rv == 0) {
        journal->metadata.first_segment = journal->metadata.last_segment;
        journal->metadata.snapshot_index = index;
        journal->metadata.installing = 0;
        rv = write_metadata(journal);
    }
    if (rv != 0) {
        free(dropped);
        return rv;
    }
    *ret_dropped = dropped;
    *ret_count = n;
    return 0;
}

int journal_resume_install(struct journal *journal, bool (*there)(void *ctx, uint64_t index),
                           void *ctx)
{
    struct journal_segment *dropped = NULL;
    struct error_text ignored = {0};
    size_t n;
    int rv = metadata_read(journal->ops, journal->dir, &journal->metadata, &ignored);
    error_text_finish(&ignored);
    uint64_t index = journal->metadata.installing;
    if (rv != 0 || index == 0) {
        return 0; /* the recovery reports what is wrong with it */
    }
    /* If the snapshot is complete, the interrupted install is finished; otherwise the old log is still valid. */
    if (there(ctx, index)) {
        rv = journal_reset(journal, index, &dropped, &n);
        free(dropped); /* the files are removed when the log is read */
        return rv;
    }
    journal->metadata.installing = 0;
    return write_metadata(journal);
}

bool journal_wants_spare(struct journal *journal, uint64_t *ret_size)
{
    const struct journal_segment *last = &journal->segments[journal->n_segments - 1];
    assert(journal->n_segments > 0 && journal->position <= last->size);
    pthread_mutex_lock(&journal->mutex);
    unsigned spares = journal->n_spares;
    pthread_mutex_unlock(&journal->mutex);
    if (journal->error != 0 || spares > 0 || journal->position < last->size / 2) {
        return false;
    }
    *ret_size = last->size * 4 < journal->segment_bytes ? last->size * 4 : journal->segment_bytes;
    return true;
}

/* Moves the file into the pool. 0, -EAGAIN if the pool is full, or another negative errno. */
static int into_pool(struct journal *journal, const char *from, uint64_t size)
{
    pthread_mutex_lock(&journal->mutex);
    int rv = journal->n_spares == JOURNAL_SPARES_MAX ? -EAGAIN : 0;
    if (rv == 0) {
        char *to = spare_path(journal, journal->next_spare);
        rv = to == NULL ? -ENOMEM : journal->ops->rename(journal->ops->ctx, from, to);
        free(to);
    }
    if (rv == 0) {
        journal->spares[journal->n_spares++] = (struct journal_spare){journal->next_spare++, size};
    }
    pthread_mutex_unlock(&journal->mutex);
    return rv;
}

int journal_make_spare(struct journal *journal, uint64_t size, const atomic_bool *stop)
{
    char *path = path_make("%s/log/spare.new", journal->dir);
    if (path == NULL) {
        return -ENOMEM;
    }
    int fd = journal->ops->open(journal->ops->ctx, path, FILE_REPLACE);
    int rv = fd < 0 ? fd : write_zeroes(journal, fd, size, stop);
    if (fd >= 0) {
        journal->ops->close(journal->ops->ctx, fd);
    }
    if (rv == 0) {
        rv = into_pool(journal, path, size);
    }
    if (rv != 0 && fd >= 0) {
        int removed = journal->ops->remove(journal->ops->ctx, path);
        rv = rv == -ECANCELED || rv == -EAGAIN ? removed : rv;
    }
    free(path);
    return rv;
}

int journal_dispose(struct journal *journal, const struct journal_segment *segment)
{
    char *path = journal_segment_path(journal, segment->sequence);
    if (path == NULL) {
        return -ENOMEM;
    }
    /* A backup may still read it: it keeps its open file, but only if nobody overwrites that. */
    bool recycle = segment->size == journal->segment_bytes && !log_scan_active();
    int rv = recycle ? into_pool(journal, path, segment->size) : -EAGAIN;
    if (rv == -EAGAIN) {
        rv = journal->ops->remove(journal->ops->ctx, path);
    }
    free(path);
    return rv;
}
