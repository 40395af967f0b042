/*
 * The log on the disk: segments of frames, and the metadata that say which files must exist.
 *
 * Only one thread uses it at a time: the loop's until the server has started, then the log's worker. Only the
 * statistics and the pool of spare segments are shared. The first failed write or sync is kept in `error`, and every
 * later call returns it without touching a file: the next start finds out what is on the disk.
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
    uint64_t first_index; /* index of the next entry when the segment began */
    uint64_t size;        /* bytes of the file */
};

struct journal_spare {
    uint64_t number; /* number in log/spare-%u */
    uint64_t size;
};

/* The damage that recovery found in the log. */
struct journal_damage {
    uint64_t segment; /* damaged or missing segment; 0: it is not ours */
    uint64_t offset;
    const char *what; /* static */
};

struct journal {
    const struct file_ops *ops;
    const char *dir; /* borrowed */
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
    uint64_t segment_bytes; /* intended size of a segment */
    bool sync;              /* false: frames are not synced */

    struct metadata metadata;
    struct journal_segment *segments; /* live ones, oldest first */
    size_t n_segments;
    size_t cap_segments;
    int fd;                 /* last segment, or -1 */
    uint64_t position;      /* offset of its next frame */
    uint64_t salt;          /* of the last segment */
    uint64_t chain;         /* checksum of the last frame (or of the header) */
    uint64_t last_index;    /* index of the last entry on the disk */
    uint64_t frame_segment; /* segment of the last frame */
    uint64_t frame_offset;
    int error; /* 0, or the first failure */
    struct error_text problem;
    struct journal_damage damage;

    pthread_mutex_t mutex; /* guards the pool */
    struct journal_spare spares[JOURNAL_SPARES_MAX];
    unsigned n_spares;
    uint64_t next_spare; /* number of the next spare file */

    _Atomic uint64_t bytes; /* size of all live segments */
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

/* The result of recovery. */
struct journal_contents {
    uint64_t first_index;     /* index of refs[0] */
    struct journal_ref *refs; /* entries, in order, without a gap */
    size_t count;
    size_t cap;
    bool sealed;        /* the last run ended cleanly */
    uint64_t cut_bytes; /* > 0: a torn frame of about this size was cut */
    uint64_t cut_offset;
    uint64_t cut_segment;
    uint64_t left_out; /* > 0: segments up to this one do not count, because it is damaged */
};

/* Callbacks about a damaged segment that is followed by others. */
struct journal_rescue {
    void *ctx;

    /* The index up to which the log may be missing, because good snapshots contain it; 0: none. */
    uint64_t (*covered)(void *ctx);

    /* Reports a damaged segment that is left out, together with all older ones. */
    void (*left_out)(void *ctx, const struct journal_damage *damage);
};

/* Prepares the struct; no I/O. 0 or CONCLAVE_ENOMEM. */
int journal_init(struct journal *journal, const struct file_ops *ops, const char *dir,
                 const uint8_t cluster[FORMAT_CLUSTER_SIZE], uint64_t segment_bytes,
                 bool sync) CONCLAVE_MUST_USE;

/* Closes the files. */
void journal_finish(struct journal *journal);

/* A first start: removes leftovers of an interrupted one; creates the folders, the first segment with `frame`
 * (unfinished, holding entry 1), and the metadata. frame NULL: a log without entries, for a server that joins. */
int journal_create(struct journal *journal, struct buf *frame) CONCLAVE_MUST_USE;

/* Reads and checks everything, makes it durable, and prepares for journal_append. A damaged segment is left out if
 * rescue (or NULL) says that good snapshots contain it: the log then begins after it. Otherwise CONCLAVE_ECORRUPT with
 * journal->problem. The caller frees ret (journal_contents_finish), also on failure. */
int journal_recover(struct journal *journal, const struct journal_rescue *rescue,
                    struct journal_contents *ret) CONCLAVE_MUST_USE;

/* Removes the segments that recovery left out, if any. */
int journal_drop_left_out(struct journal *journal,
                          const struct journal_contents *c) CONCLAVE_MUST_USE;

void journal_contents_finish(struct journal_contents *c);

/* Reads the payloads of refs [from, to) in order. each returns 0 to continue. */
int journal_read(struct journal *journal, const struct journal_contents *c, size_t from, size_t to,
                 int (*each)(void *arg, uint64_t index, const struct journal_ref *ref,
                             const uint8_t *payload),
                 void *arg) CONCLAVE_MUST_USE;

/* Finishes the frame, writes and syncs it. Replaces entries from index on that the log already has. */
int journal_append(struct journal *journal, struct buf *frame, uint64_t index,
                   uint32_t count) CONCLAVE_MUST_USE;

/*
 * A snapshot from another server replaces the log, in this order: begin_install makes the intention durable; the caller
 * gives the snapshot its name; reset lets the log begin anew after index, with ret as in journal_trim. After a crash in
 * between, resume_install decides, before journal_recover: with the snapshot the log is replaced, without it the log
 * stays. After resume_install only journal_finish may be called.
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
 * Records the durable snapshot, and drops the segments without entries after keep_after. *ret_dropped is an array of
 * *ret_count segments; the caller removes their files with journal_dispose (any thread) and frees the array.
 */
int journal_trim(struct journal *journal, uint64_t snapshot_index, uint64_t keep_after,
                 struct journal_segment **ret_dropped, size_t *ret_count) CONCLAVE_MUST_USE;

/* Marks a clean end. */
int journal_seal(struct journal *journal) CONCLAVE_MUST_USE;

/* Any thread: writes a spare segment of zeroes into the pool. Ends early without one when *stop becomes true. 0 or a
 * negative errno: there is no spare then, but the journal still works. */
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
