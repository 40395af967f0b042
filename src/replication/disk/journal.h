/*
 * The log on the disk: segments of frames, and the metadata that says which files must exist.
 *
 * One thread at a time: the loop's until the server has started, the log's worker from then on;
 * only the figures and the pool of spare segments are shared. The first failed write or sync is
 * kept in `error`, and every later call returns it without touching a file: what the disk then
 * holds is for the next start to find out.
 */
#ifndef REPLICATION_DISK_JOURNAL_H
#define REPLICATION_DISK_JOURNAL_H

#include "base/buf.h"
#include "replication/disk/error_text.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/metadata.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_SPARES_MAX 2

struct journal_segment {
    uint64_t sequence;
    uint64_t first_index; /* of the next entry when it was started */
    uint64_t size;        /* bytes of the file */
};

struct journal_spare {
    uint64_t number; /* of the file log/spare-%u */
    uint64_t size;
};

/* What recovery found wrong with the log. */
struct journal_damage {
    uint64_t segment; /* damaged or missing; 0: none that is ours */
    uint64_t offset;
    const char *what; /* static */
};

struct journal {
    const struct file_ops *ops;
    const char *dir; /* borrowed */
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
    uint64_t segment_bytes; /* aimed size of a segment */
    bool sync;              /* false: frames are not synced */

    struct metadata metadata;
    struct journal_segment *segments; /* live ones, oldest first */
    size_t n_segments;
    size_t cap_segments;
    int fd;                 /* last segment, or -1 */
    uint64_t position;      /* where its next frame goes */
    uint64_t salt;          /* of the last segment */
    uint64_t chain;         /* checksum of the last frame (or of the header) */
    uint64_t last_index;    /* of the last entry on the disk */
    uint64_t frame_segment; /* where the last frame was written */
    uint64_t frame_offset;
    int error; /* 0, or the first failure */
    struct error_text problem;
    struct journal_damage damage;

    pthread_mutex_t mutex; /* guards the pool */
    struct journal_spare spares[JOURNAL_SPARES_MAX];
    unsigned n_spares;
    uint64_t next_spare; /* number of the next spare file */

    _Atomic uint64_t bytes; /* of all live segments */
    _Atomic uint64_t syncs;
    _Atomic int64_t sync_last_us;
    _Atomic int64_t sync_max_us;
    _Atomic int64_t sync_total_us;
};

/* An entry found on the disk. */
struct journal_ref {
    uint64_t term;
    uint64_t offset;  /* of the payload in its segment file */
    uint32_t length;  /* bytes of the payload */
    uint32_t kind;    /* enum entry_kind */
    uint32_t hash;    /* entry_table_hash of the payload */
    uint64_t segment; /* sequence number */
};

/* What recovery found. */
struct journal_contents {
    uint64_t first_index;     /* index of refs[0] */
    struct journal_ref *refs; /* entries, in order, without a gap */
    size_t count;
    size_t cap;
    bool sealed;        /* the last run ended cleanly */
    uint64_t cut_bytes; /* > 0: a torn frame of about this size was cut */
    uint64_t cut_offset;
    uint64_t cut_segment;
    uint64_t left_out; /* > 0: segments up to this one do not count, as this one is damaged */
};

/* What recovery asks about a damaged segment that others follow. */
struct journal_rescue {
    void *ctx;

    /* Up to which index the log may be absent since good snapshots have it; 0: no such index. */
    uint64_t (*covered)(void *ctx);

    /* Told of a damaged segment that is left out together with those before it. */
    void (*left_out)(void *ctx, const struct journal_damage *damage);
};

/* Prepares the struct; no I/O. 0 or CONCLAVE_ENOMEM. */
int journal_init(struct journal *journal, const struct file_ops *ops, const char *dir,
                 const uint8_t cluster[FORMAT_CLUSTER_SIZE], uint64_t segment_bytes,
                 bool sync) CONCLAVE_MUST_USE;

/* Closes the files. */
void journal_finish(struct journal *journal);

/* A first start: removes leftovers of an interrupted one, makes the folders, the first segment
 * with `frame` (unfinished, holding entry 1) in it, and the metadata. frame NULL: a log without
 * entries, of a server that joins. */
int journal_create(struct journal *journal, struct buf *frame) CONCLAVE_MUST_USE;

/* Reads and checks everything, makes sure it is durable, and makes ready for journal_append.
 * Damage is no failure where rescue (or NULL) says that nobody needs the segment: the contents
 * then begin behind it. CONCLAVE_ECORRUPT with journal->problem when it is damaged. ret is the
 * caller's (journal_contents_finish), also on failure. */
int journal_recover(struct journal *journal, const struct journal_rescue *rescue,
                    struct journal_contents *ret) CONCLAVE_MUST_USE;

/* Removes the segments that recovery left out; a call without any does nothing. */
int journal_drop_left_out(struct journal *journal,
                          const struct journal_contents *c) CONCLAVE_MUST_USE;

void journal_contents_finish(struct journal_contents *c);

/* Reads the payloads of refs [from, to) in order. each returns 0 to go on. */
int journal_read(struct journal *journal, const struct journal_contents *c, size_t from, size_t to,
                 int (*each)(void *arg, uint64_t index, const struct journal_ref *ref,
                             const uint8_t *payload),
                 void *arg) CONCLAVE_MUST_USE;

/* Finishes the frame, writes and syncs it. Entries from index on that the log already has are
 * replaced. */
int journal_append(struct journal *journal, struct buf *frame, uint64_t index,
                   uint32_t count) CONCLAVE_MUST_USE;

/*
 * A snapshot of somebody else takes the place of the log, in this order: begin_install makes the
 * intention durable; the caller gives the snapshot its name; reset lets the log begin anew behind
 * index, and ret as in journal_trim. A crash in between is found by resume_install, before
 * journal_recover: with the snapshot there the log is replaced, without it the log stays. There is
 * nothing to be done with the journal after resume_install but journal_finish.
 */
int journal_begin_install(struct journal *journal, uint64_t index) CONCLAVE_MUST_USE;
int journal_reset(struct journal *journal, uint64_t index, struct journal_segment **ret_dropped,
                  size_t *ret_count) CONCLAVE_MUST_USE;
int journal_resume_install(struct journal *journal, bool (*there)(void *ctx, uint64_t index),
                           void *ctx) CONCLAVE_MUST_USE;

/* Whether a spare segment should be made now; *ret_size says how large. */
bool journal_wants_spare(struct journal *journal, uint64_t *ret_size);

/* Makes term and vote durable. */
int journal_set_vote(struct journal *journal, uint64_t term, uint64_t voted_for) CONCLAVE_MUST_USE;

/*
 * Notes the durable snapshot, and drops the segments that hold no entry above keep_after.
 * *ret_dropped is an array of *ret_count segments whose files the caller disposes of with
 * journal_dispose (any thread); free it.
 */
int journal_trim(struct journal *journal, uint64_t snapshot_index, uint64_t keep_after,
                 struct journal_segment **ret_dropped, size_t *ret_count) CONCLAVE_MUST_USE;

/* Marks a clean end. */
int journal_seal(struct journal *journal) CONCLAVE_MUST_USE;

/* Any thread: writes a spare segment of zeroes into the pool. Ends early, without one, when
 * *stop becomes true. 0 or a negative errno: then there is no spare, and nothing else is amiss. */
int journal_make_spare(struct journal *journal, uint64_t size,
                       const atomic_bool *stop) CONCLAVE_MUST_USE;

/* Any thread: recycles or removes the file of a dropped segment. 0 or a negative errno. */
int journal_dispose(struct journal *journal,
                    const struct journal_segment *segment) CONCLAVE_MUST_USE;

/* Shared with journal_recover.c. */
int journal_fail(struct journal *journal, int negative_errno, const char *what,
                 const char *path) CONCLAVE_MUST_USE;
char *journal_segment_path(const struct journal *journal, uint64_t sequence);
int journal_add_segment(struct journal *journal,
                        const struct journal_segment *segment) CONCLAVE_MUST_USE;
int journal_sync(struct journal *journal, int fd, const char *path) CONCLAVE_MUST_USE;

#endif
