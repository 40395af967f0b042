/*
 * Reads entries again on LANE_READ that are no longer in memory: for a member that is behind, or for the state machine
 * after a restart. They must have the checksum that was recorded when the entry was written or recovered.
 */
#include "replication/running_log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_BYTES (1u << 20)
#define FETCH_ENTRIES 1024u

struct fetched_entry {
    uint64_t term;
    uint32_t segment;
    uint32_t offset;
    uint32_t length;
    uint32_t hash;
    uint8_t *data; /* heap block or NULL */
};

struct fetch_job {
    struct worker_job job;
    struct replication *r;
    void (*done)(struct replication *r, uint64_t peer);
    uint64_t peer;
    uint64_t first;
    size_t n;
    size_t failed; /* index of the entry that could not be read */
    int rv;        /* 0 or a negative errno; -EBADMSG: the checksum differs */
    struct fetched_entry entries[];
};

static int read_one(const struct file_ops *ops, int fd, struct fetched_entry *entry)
{
    entry->data = malloc((size_t)entry->length + 1);
    if (entry->data == NULL) {
        return -ENOMEM;
    }
    int64_t n = ops->read(ops->ctx, fd, entry->data, entry->length, entry->offset);
    if (n < 0) {
        return (int)n;
    }
    return (uint64_t)n == entry->length &&
                   entry_table_hash(slice_make(entry->data, entry->length)) == entry->hash
               ? 0
               : -EBADMSG;
}

static void fetch_work(struct worker_job *job)
{
    struct fetch_job *f = CONTAINER_OF(job, struct fetch_job, job);
    const struct file_ops *ops = f->r->ops;
    uint32_t segment = 0;
    int fd = -1;
    for (size_t i = 0; i < f->n && f->rv == 0; i++) {
        f->failed = i;
        if (f->entries[i].segment != segment) {
            char *path = journal_segment_path(&f->r->journal, f->entries[i].segment);
            if (fd >= 0) {
                ops->close(ops->ctx, fd);
            }
            fd = path == NULL ? -ENOMEM : ops->open(ops->ctx, path, FILE_READ);
            free(path);
            segment = f->entries[i].segment;
        }
        f->rv = fd < 0 ? fd : read_one(ops, fd, &f->entries[i]);
    }
    if (fd >= 0) {
        ops->close(ops->ctx, fd);
    }
}

static void fetch_failed(struct replication *r, const struct fetch_job *f)
{
    const struct fetched_entry *entry = &f->entries[f->failed];
    struct error_text problem = {NULL};
    char *path = journal_segment_path(&r->journal, entry->segment);
    int rv;
    if (f->rv == -EBADMSG) {
        rv = error_text_set(&problem, CONCLAVE_ECORRUPT,
                            "%s is damaged at offset %" PRIu32 ": entry %" PRIu64
                            " has a wrong checksum",
                            path != NULL ? path : "the log", entry->offset, f->first + f->failed);
    } else {
        rv = error_text_file(&problem, f->rv, "cannot read the log segment", path);
    }
    running_log_fail(r, rv, error_text_of(&problem, rv));
    error_text_finish(&problem);
    free(path);
}

static void fetch_done(struct worker_job *job)
{
    struct fetch_job *f = CONTAINER_OF(job, struct fetch_job, job);
    struct replication *r = f->r;
    /* A segment that was given up meanwhile may be removed or reused. */
    bool live = f->entries[0].segment >= r->live_segment;
    if (live && f->rv != 0 && r->error == 0 && r->stage == LOG_RUNNING) {
        fetch_failed(r, f);
    }
    for (size_t i = 0; i < f->n; i++) {
        struct fetched_entry *from = &f->entries[i];
        struct entry_table_entry *to = entry_table_at(&r->table, f->first + i);
        if (live && f->rv == 0 && to != NULL && !entry_table_has_bytes(to) &&
            to->term == from->term && to->segment == from->segment && to->offset == from->offset) {
            entry_table_hold(&r->table, f->first + i, from->data);
            from->data = NULL;
        }
        free(from->data);
    }
    if (r->error == 0 && r->stage == LOG_RUNNING) {
        f->done(r, f->peer);
    }
    free(f);
    running_log_job_done(r);
}

bool fetch_start(struct replication *r, uint64_t first, uint64_t end,
                 void (*done)(struct replication *r, uint64_t peer), uint64_t peer)
{
    size_t n = 0;
    size_t bytes = 0;
    for (; first + n < end && n < FETCH_ENTRIES && bytes < FETCH_BYTES; n++) {
        const struct entry_table_entry *entry = entry_table_at(&r->table, first + n);
        if (entry == NULL || entry_table_has_bytes(entry)) {
            break;
        }
        bytes += entry->length;
    }
    assert(n > 0);
    struct fetch_job *f = calloc(1, sizeof *f + n * sizeof *f->entries);
    if (f == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const struct entry_table_entry *entry = entry_table_at(&r->table, first + i);
        f->entries[i] = (struct fetched_entry){
            .term = entry->term,
            .segment = entry->segment,
            .offset = entry->offset,
            .length = entry->length,
            .hash = entry->hash,
        };
    }
    f->r = r;
    f->done = done;
    f->peer = peer;
    f->first = first;
    f->n = n;
    f->job.work = fetch_work;
    f->job.done = fetch_done;
    running_log_submit_job(r, LANE_READ, &f->job);
    return true;
}
