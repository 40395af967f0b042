/*
 * The state of one running log, shared by the files of this room. All of it belongs to the caller's thread, except that
 * jobs use `journal` on LANE_LOG and `snapshot.writer` on LANE_FILES.
 *
 *   replication.c        the public calls, roles, opening and closing
 *   log_start.c          the recovery
 *   step_effects.c       carries out the result of a step of the engine, in Raft's order
 *   entry_append.c       writes entries to the disk
 *   entry_apply.c        gives committed entries to the state machine; skip_entry.c skips one
 *   send_queue.c         messages to the other members
 *   entry_fetch.c        reads entries from the disk again
 *   membership.c         the members; join.c admits servers that may have forgotten their promises
 *   read_index.c         proves that this member has applied all that was committed
 *   snapshot_task.c      takes snapshots; snapshot_install.c sends and installs them
 *
 *   submit, receive → engine → table, gather → LANE_LOG: write, sync → engine: persisted → committed → apply
 */
#ifndef REPLICATION_RUNNING_LOG_H
#define REPLICATION_RUNNING_LOG_H

#include "replication/disk/configuration.h"
#include "replication/disk/data_folder.h"
#include "replication/disk/entry_table.h"
#include "replication/disk/journal.h"
#include "replication/disk/snapshot_file.h"
#include "replication/join.h"
#include "replication/raft/engine.h"
#include "replication/read_index.h"
#include "replication/replication.h"
#include "replication/skip_entry.h"
#include "replication/snapshot_install.h"

struct append_job; /* one write of gathered entries */

struct append_times {     /* a finished write of entries */
    uint64_t first, last; /* last < first: unused */
    struct replication_entry_times times;
};
enum { APPEND_TIMES_KEPT = 16 };

enum snapshot_state {
    SNAPSHOT_IDLE,
    SNAPSHOT_STEPPING, /* the state machine gives more bytes */
    SNAPSHOT_ENDING,   /* blocks and trailer are being written */
    SNAPSHOT_ABORTING, /* waiting for the file to be removed */
    SNAPSHOT_TRIMMING, /* durable; removes files that it makes superfluous */
};

struct kept_snapshot {
    uint64_t index;
    bool good; /* false: damaged, as found at the start or while sending it */
};

struct snapshot_task {
    enum snapshot_state state;
    struct snapshot_meta meta;
    struct buf pending; /* bytes from the state machine that do not fill a block yet */
    size_t queued;      /* bytes that are being written */
    bool ahead;         /* too many such bytes: the state machine waits */
    int64_t started_ms;
    uint64_t content_size; /* bytes so far */
    uint64_t newest_size;  /* bytes of the newest snapshot of this run, or 0 */

    struct snapshot_writer writer; /* belongs to LANE_FILES */
    int writer_rv;                 /* belongs to LANE_FILES */
    struct error_text problem;     /* belongs to LANE_FILES until the task has ended */

    uint64_t attempt_index; /* applied index at the last attempt */
    uint64_t attempt_bytes; /* r->applied_bytes then */
    bool wanted;            /* requested by the caller */

    struct kept_snapshot *kept; /* newest first */
    size_t n_kept;
};

/* Another server. Its entries are not queued as messages; they are one range of the table. */
struct send_queue_peer {
    uint64_t id;
    bool linked;
    uint64_t first;     /* next entry to send */
    uint64_t end;       /* after the last entry that the engine wants sent; first == end: none */
    uint64_t matched;   /* entries up to here were acknowledged */
    size_t in_flight;   /* bytes of the unacknowledged entries before `first` */
    bool probing;       /* no acknowledgement since sending began again: sends little */
    bool fetching;      /* its entries are being read from the disk */
    bool beat;          /* a heartbeat is due */
    uint64_t beat_prev; /* the entry before the heartbeat */
    bool refused;       /* it sent a malformed message; reported once per link */
};

struct send_queue {
    struct send_queue_peer *peers;
    size_t n;
    size_t cap;
    uint64_t term; /* term of the appends */
    struct held_message
        *held; /* encoded messages that wait for the end of the turn, or for the write of a vote */
    struct held_message **held_end;
};

/* RUNNING → CLOSING → SEALING → FINISHED; after a failure without SEALING. */
enum running_log_stage {
    LOG_RUNNING,
    LOG_CLOSING,  /* waits for the jobs under way */
    LOG_SEALING,  /* the mark of a clean end is being written */
    LOG_FINISHED, /* the next tick frees */
};

struct replication {
    struct replication_host host;
    struct replication_options options; /* dir points to folder.dir */
    struct replication_callbacks callbacks;
    const struct file_ops *ops;
    struct data_folder folder;
    struct journal journal;
    bool journal_ready; /* journal_init was called */
    struct engine *engine;
    struct entry_table table;
    uint64_t applied;
    uint64_t applied_term;
    uint64_t begun_term;      /* newest term in which this member led and had an entry of its own */
    uint64_t applied_bytes;   /* payload bytes applied in this run */
    struct buf configuration; /* newest applied configuration */
    uint64_t configuration_index;
    size_t commands; /* entries above `applied` that are commands */
    bool applying;
    bool fetching; /* committed entries are being read from the disk */

    struct buf gather; /* the frame that is being filled */
    uint64_t gather_first;
    uint32_t gather_count;
    int64_t gather_ns; /* when its first entry came */
    struct append_times append_times[APPEND_TIMES_KEPT];
    unsigned append_times_next;      /* the oldest of these */
    struct list appends;             /* append jobs in progress, oldest first */
    struct append_job *spare_append; /* a job kept for the next write, or NULL */
    uint64_t snapshots_failed;
    unsigned votes; /* writes of term and vote in progress */

    struct send_queue outbox;
    uint64_t *voters; /* of the current configuration, committed or not */
    size_t n_voters;
    bool has_others; /* the configuration has other members */
    struct read_index read_index;
    struct join join;
    struct entry_skip skip;
    bool commit_unannounced; /* the others may not know the newest commit index */
    uint64_t live_segment;   /* older segments may be removed */

    struct {
        enum replication_role role;
        uint64_t leader;
        uint64_t term;
    } told;
    uint64_t snapshot_index;
    struct snapshot_task snapshot;
    struct snapshot_install install;

    struct worker_job spare_job;
    uint64_t spare_size;
    int spare_rv;
    bool spare_busy;
    bool spare_hold;  /* making a spare failed: wait for a trim */
    atomic_bool stop; /* background work may end early */

    unsigned jobs; /* jobs in progress, on all lanes */
    int error;     /* the failure, or 0 */
    enum running_log_stage stage;
    void (*close_cb)(void *ctx);
    void *close_ctx;
};

/* log_start.c: everything until the state machine is recovered and the engine is started. */
int start_recover(struct replication *r, uint64_t server_id,
                  struct error_text *problem) CONCLAVE_MUST_USE;

/* snapshot_task.c */
void snapshot_task_init(struct replication *r);
void snapshot_task_finish(struct replication *r);
void snapshot_task_maybe(struct replication *r);        /* starts a snapshot when it is due */
bool snapshot_task_worth(const struct replication *r);  /* see replication_stats */
void snapshot_task_cancel(struct replication *r);       /* on failure or close */
bool snapshot_task_hungry(const struct replication *r); /* whether it wants a step now */
void snapshot_task_step(struct replication *r);         /* one slice, when hungry */
/* Also keeps a snapshot that the leader sent. */
void snapshot_task_installed(struct replication *r, uint64_t index);
/* The file is damaged: ignores the snapshot. */
void snapshot_task_damaged(struct replication *r, uint64_t index);

/* step_effects.c. `rv` is the result of the engine's function: any failure except EBUSY, EINVAL and EPROTO ends the use
 * of the log. `entries` are those of a received append, the first at first_index. */
struct carried {
    const struct engine_entry *entries;
    uint64_t first_index;
};
void carry_out(struct replication *r, int rv, const struct engine_result *result,
               const struct carried *received);
void carry_out_members(struct replication *r); /* the configuration may have changed */

/* entry_append.c */
int append_reserve(struct replication *r, size_t len) CONCLAVE_MUST_USE;
int append_entry(struct replication *r, uint64_t term, uint32_t kind, struct slice payload,
                 uint8_t *data_take) CONCLAVE_MUST_USE;
void append_truncated(struct replication *r, uint64_t index);
void append_vote(
    struct replication *r); /* term and vote; after joining also the permission to vote */
void append_flush(
    struct replication *r); /* unless a write is in progress and more entries may gather */
void append_seal(struct replication *r); /* marks a clean end */
void append_finish(struct replication *r);

/* entry_apply.c */
int apply_next(struct replication *r, const struct skip_entry *entry, uint32_t kind,
               struct slice payload) CONCLAVE_MUST_USE;
int apply_configuration(struct replication *r, uint64_t index,
                        struct slice bytes) CONCLAVE_MUST_USE;
void apply_committed(struct replication *r);

/* send_queue.c */
void send_queue_init(struct replication *r);
void send_queue_finish(struct replication *r);
struct send_queue_peer *send_queue_peer(struct replication *r,
                                        uint64_t id); /* NULL: out of memory */
bool send_queue_linked(const struct replication *r, uint64_t id);
void send_queue_link(struct replication *r, uint64_t id, bool up);
void send_queue_add(struct replication *r, const struct engine_message *m);
void send_queue_matched(struct replication *r, uint64_t id); /* it acknowledged entries */
void send_queue_send(struct replication *r, uint64_t to, struct buf *message_take);
void send_queue_note(struct replication *r, uint64_t to, int kind, struct log_message_note note);
void send_queue_flush(struct replication *r);
void send_queue_refused(struct replication *r, uint64_t id); /* it sent a malformed message */

/* entry_fetch.c: reads some of the entries from first to before end, about a megabyte at most, and keeps their bytes in
 * the table. done is called unless the log has failed meanwhile. False: out of memory. */
bool fetch_start(struct replication *r, uint64_t first, uint64_t end,
                 void (*done)(struct replication *r, uint64_t peer), uint64_t peer);

/* replication.c */
int64_t running_log_now_ms(const struct replication *r);
void running_log_fail(struct replication *r, int error, const char *text);
void running_log_note(struct replication *r, bool warning, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void running_log_submit_job(struct replication *r, enum replication_lane lane,
                            struct worker_job *job);
void running_log_job_done(struct replication *r); /* the last call in every done function */
uint64_t running_log_last_index(const struct replication *r);
int running_log_propose(struct replication *r, uint32_t kind,
                        struct buf *payload_take) CONCLAVE_MUST_USE;

#endif
