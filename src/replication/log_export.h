/*
 * A consistent state and the entries behind it, read from the disk of a running server, without pausing it and without a
 * copy: the newest snapshot file and the log from there to an entry that is applied and synced. The plan is made on the
 * loop's thread; another thread does the rest.
 *
 *   log_export_plan (loop) → log_export_open → log_export_next … until 0 → log_export_close
 *
 * Limits: one snapshot file is mapped, the largest frame of the log is in memory, and removed files keep their room on
 * the disk until the export ends.
 */
#ifndef REPLICATION_LOG_EXPORT_H
#define REPLICATION_LOG_EXPORT_H

#include "replication/disk/log_scan.h"
#include "replication/disk/snapshot_file.h"
#include "replication/replication.h"

enum { LOG_EXPORT_SNAPSHOTS = 4 };

struct log_export_plan {
    char *dir; /* owned */
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
    struct log_scan_end end; /* segment 0: no entry of the log is needed */
    uint64_t end_term;
    uint64_t snapshots[LOG_EXPORT_SNAPSHOTS]; /* good ones up to the end, newest first */
    size_t n_snapshots;
};

/* For the entries up to `end`, which this server has applied. 0; CONCLAVE_EBUSY: this entry is not on the disk yet, try
 * again soon; CONCLAVE_EINVAL: an entry is being skipped (skip_entry.h), so the log alone does not tell the state;
 * CONCLAVE_EIO, CONCLAVE_ENOMEM. */
int log_export_plan(const struct replication *r, uint64_t end,
                    struct log_export_plan *ret) CONCLAVE_MUST_USE;
void log_export_plan_finish(struct log_export_plan *plan);

struct log_export;

enum log_export_kind { LOG_EXPORT_SNAPSHOT, LOG_EXPORT_PART, LOG_EXPORT_ENTRY };

struct log_export_item {
    enum log_export_kind kind;
    const struct snapshot_meta *meta; /* SNAPSHOT */
    uint64_t content_size;            /* SNAPSHOT */
    struct log_scan_entry entry;      /* ENTRY */
    struct slice part;                /* PART */
};

/* since_index 0: everything; otherwise only entries after that one, whose term must be since_term. Borrows the plan. 0, or
 * as log_scan_open; CONCLAVE_NO_NODE also if the log has another entry there. */
int log_export_open(struct log_export **ret, const struct log_export_plan *plan,
                    uint64_t since_index, uint64_t since_term,
                    struct error_text *problem) CONCLAVE_MUST_USE;

/* The last entry before the exported ones: of the snapshot or `since`, or 0. */
void log_export_from(const struct log_export *x, uint64_t *ret_index, uint64_t *ret_term);

/* 1 and the next item, which is valid until the next call; 0: that was all; or an error. */
int log_export_next(struct log_export *x, struct log_export_item *ret,
                    struct error_text *problem) CONCLAVE_MUST_USE;

void log_export_close(struct log_export *x);

#endif
