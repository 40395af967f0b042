/*
 * Reads the log of a running server from another thread, up to an entry that is committed and on the disk. The segments
 * stay open, so the server may remove them meanwhile; while a scan is open it does not recycle any (log_scan_active).
 *
 * Entries that a later frame replaced are left out: the first pass over the headers of the frames finds these frames, the
 * second pass reads the entries and checks every checksum.
 *
 * Limits: LOG_SCAN_SEGMENTS_MAX segments; the largest frame is in memory.
 */
#ifndef REPLICATION_DISK_LOG_SCAN_H
#define REPLICATION_DISK_LOG_SCAN_H

#include "replication/disk/error_text.h"
#include "replication/disk/segment.h"

enum { LOG_SCAN_SEGMENTS_MAX = 4096 };

/* Where the last entry of the scan is. */
struct log_scan_end {
    uint64_t index;
    uint64_t segment; /* sequence number */
    uint64_t offset;  /* of its payload in the file */
};

struct log_scan_entry {
    uint64_t index;
    uint64_t term;
    uint32_t kind;
    struct slice payload; /* valid until the next call */
};

struct log_scan;

/* Opens the segments with the entries from `from` to the end. 0, CONCLAVE_NO_NODE (the log begins later), CONCLAVE_EBUSY
 * (a segment went meanwhile: try again), CONCLAVE_ETOOBIG, CONCLAVE_ECORRUPT, CONCLAVE_EIO, CONCLAVE_ENOMEM. */
int log_scan_open(struct log_scan **ret, const struct file_ops *ops, const char *dir,
                  const uint8_t cluster[FORMAT_CLUSTER_SIZE], uint64_t from,
                  const struct log_scan_end *end, struct error_text *problem) CONCLAVE_MUST_USE;

/* 1 and the next entry; 0: the end was reached; or an error. */
int log_scan_next(struct log_scan *s, struct log_scan_entry *ret,
                  struct error_text *problem) CONCLAVE_MUST_USE;

void log_scan_close(struct log_scan *s);

/* Whether any thread of this process has a scan open. */
bool log_scan_active(void);

#endif
