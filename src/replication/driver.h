/*
 * What the files of this room share: the state of one running log. replication.c has the public
 * calls and the way of an entry, start.c the recovery, snapshot_task.c the snapshots. All of it
 * belongs to the loop's thread, except what a job elsewhere is told to touch: `journal` belongs to
 * LANE_LOG, `snapshot.writer` to LANE_FILES.
 *
 *   submit → gather → (the turn ends, or the write before is done) → LANE_LOG: write, sync
 *          → engine: committed → apply
 */
#ifndef REPLICATION_DRIVER_H
#define REPLICATION_DRIVER_H

#include "replication/engine.h"
#include "replication/folder.h"
#include "replication/journal.h"
#include "replication/replication.h"
#include "replication/snapshot_file.h"

/* An entry that is submitted and not applied yet. */
struct pending_entry {
    uint64_t term;
    uint32_t kind;
    size_t len;
    uint8_t *data; /* heap block or NULL */
};

/* Ring of pending entries: indexes applied + 1 … last. */
struct pending {
    struct pending_entry *ring;
    size_t cap; /* a power of two, or 0 */
    size_t head;
    size_t count;
};

/* One write of gathered entries. */
struct append_job {
    struct worker_job job;
    struct replication *r;
    struct buf frame;
    uint64_t first_index;
    uint32_t count;
    int rv;
    int64_t sync_us; /* how long the last sync of it took */
    bool wants_spare;
    uint64_t spare_size;
};

enum snapshot_state {
    SNAPSHOT_IDLE,
    SNAPSHOT_STEPPING, /* the state machine still has bytes to give */
    SNAPSHOT_ENDING,   /* blocks and trailer are on their way to the disk */
    SNAPSHOT_ABORTING, /* waiting for the file to be removed */
    SNAPSHOT_TRIMMING, /* durable; what it makes superfluous is being removed */
};

struct kept_snapshot {
    uint64_t index;
    bool good; /* false: found damaged at the start */
};

struct snapshot_task {
    enum snapshot_state state;
    struct snapshot_meta meta;
    struct buf pending; /* bytes from the state machine that do not fill a block yet */
    size_t queued;      /* bytes on their way to the disk */
    bool ahead;         /* too many of them: the state machine waits */
    int64_t started_ms;
    uint64_t content_size; /* bytes so far */
    uint64_t newest_size;  /* bytes of the newest one written in this run, or 0 */

    struct snapshot_writer writer; /* LANE_FILES' */
    int writer_rv;                 /* LANE_FILES' */
    struct problem problem;        /* LANE_FILES' until the task has ended */

    uint64_t attempt_index; /* applied index at the last attempt */
    uint64_t attempt_bytes; /* r->applied_bytes then */
    bool wanted;            /* asked for by the caller */

    struct kept_snapshot *kept; /* newest first */
    size_t n_kept;
};

struct replication {
    struct replication_host host;
    struct replication_options options; /* dir points to folder.dir */
    struct replication_callbacks callbacks;
    const struct file_ops *ops;
    struct folder folder;
    struct journal journal;
    bool journal_ready; /* journal_init was called */
    struct engine *engine;

    uint64_t last_index;
    uint64_t applied;
    uint64_t applied_term;
    uint64_t applied_bytes;   /* payload bytes applied in this run */
    struct buf configuration; /* newest applied */
    uint64_t configuration_index;
    struct pending pending;
    size_t commands; /* of them, commands */
    bool applying;
    bool barrier_sent; /* in this term, by this file */

    struct buf gather; /* frame being filled */
    uint64_t gather_first;
    uint32_t gather_count;
    unsigned writes;                 /* append jobs on the worker */
    struct append_job *spare_append; /* one kept for the next write, or NULL */

    enum replication_role role; /* as told, or to be told */
    bool role_untold;
    uint64_t snapshot_index;
    struct snapshot_task snapshot;

    struct worker_job spare_job;
    uint64_t spare_size;
    int spare_rv;
    bool spare_busy;
    bool spare_hold;  /* making one failed: wait for a trim */
    atomic_bool stop; /* the background may end early */

    unsigned jobs; /* on any lane */
    int error;     /* the failure, or 0 */
    bool closing;
    bool sealing;
    bool finished; /* closing came to its end: the next tick frees */
    void (*close_cb)(void *ctx);
    void *close_ctx;
};

/* start.c: everything up to a recovered state machine and a started engine. */
int start_recover(struct replication *r, uint64_t server_id,
                  struct problem *problem) CONCLAVE_MUST_USE;

/* snapshot_task.c */
void snapshot_task_init(struct replication *r);
void snapshot_task_finish(struct replication *r);
void snapshot_task_maybe(struct replication *r);        /* starts one when it is due */
bool snapshot_task_worth(const struct replication *r);  /* see replication_stats */
void snapshot_task_cancel(struct replication *r);       /* on failure and on close */
bool snapshot_task_hungry(const struct replication *r); /* wants a step now */
void snapshot_task_step(struct replication *r);         /* when hungry: one slice */

/* replication.c */
int64_t driver_now_ms(const struct replication *r);
void driver_fail(struct replication *r, int error, const char *text);
void driver_note(struct replication *r, bool warning, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void driver_submit_job(struct replication *r, enum replication_lane lane, struct worker_job *job);
void driver_job_done(struct replication *r); /* last call of every done function */
int driver_apply_entry(struct replication *r, uint64_t index, uint64_t term, uint32_t kind,
                       struct slice payload) CONCLAVE_MUST_USE;
int driver_push_pending(struct replication *r, const struct pending_entry *entry) CONCLAVE_MUST_USE;

#endif
