/*
 * The state of one running log, shared by the files of this room. All of it belongs to the caller's thread, except what a
 * job elsewhere may touch: `journal` belongs to LANE_LOG, `snapshot.writer` to LANE_FILES.
 *
 *   replication.c        the public calls, roles, opening and closing
 *   log_start.c          the recovery
 *   step_effects.c       carries out the result of a step of the engine, in its order; receives messages
 *   entry_append.c       takes entries to the disk
 *   entry_apply.c        takes committed entries to the state machine; skip_entry.c takes the log past one
 *   send_queue.c         messages to the other members
 *   entry_fetch.c        reads entries again from the disk
 *   membership.c         the members; join.c admits those that may have forgotten what they promised
 *   read_index.c         proves that this member has applied all that was committed
 *   snapshot_task.c      takes snapshots; snapshot_install.c sends them to members and takes theirs
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

/* One write of gathered entries. */
struct append_job {
    struct worker_job job;
    struct list node; /* in replication.appends */
    struct replication *r;
    struct buf frame;
    uint64_t first_index;
    uint32_t count;
    uint64_t last_good; /* entries above were replaced by others meanwhile */
    uint64_t segment;   /* where the frame went */
    uint64_t offset;
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
    bool good; /* false: found damaged, at the start or when it was sent */
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
    struct error_text problem;     /* LANE_FILES' until the task has ended */

    uint64_t attempt_index; /* applied index at the last attempt */
    uint64_t attempt_bytes; /* r->applied_bytes then */
    bool wanted;            /* asked for by the caller */

    struct kept_snapshot *kept; /* newest first */
    size_t n_kept;
};

/* Another server. Entries for it are not a queue of messages but one range of the table. */
struct send_queue_peer {
    uint64_t id;
    bool linked;
    uint64_t first;     /* next entry to send */
    uint64_t end;       /* behind the last one that the engine wants sent; first == end: none */
    uint64_t matched;   /* entries up to here were acknowledged */
    size_t in_flight;   /* bytes of the entries between them and `first` */
    bool probing;       /* nothing was acknowledged since it was begun again: little is sent */
    bool fetching;      /* entries for it are being read from the disk */
    bool beat;          /* a sign of life is due */
    uint64_t beat_prev; /* the entry that it is anchored to */
    bool refused;       /* it sent what no sound member sends; told once per link */
};

struct send_queue {
    struct send_queue_peer *peers;
    size_t n;
    size_t cap;
    uint64_t term;             /* of the appends */
    struct held_message *held; /* encoded ones that wait for the end of the turn, or for a vote */
    struct held_message **held_end;
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
    uint64_t begun_term;      /* newest one in which this member led and had an entry of it */
    uint64_t applied_bytes;   /* payload bytes applied in this run */
    struct buf configuration; /* newest applied */
    uint64_t configuration_index;
    size_t commands; /* entries above `applied` that are commands */
    bool applying;
    bool fetching; /* committed entries are being read from the disk */

    struct buf gather; /* frame being filled */
    uint64_t gather_first;
    uint32_t gather_count;
    struct list appends;             /* append jobs under way, oldest first */
    struct append_job *spare_append; /* one kept for the next write, or NULL */
    unsigned votes;                  /* writes of term and vote under way */

    struct send_queue outbox;
    uint64_t *voters; /* of the present configuration, committed or not */
    size_t n_voters;
    bool has_others; /* it has other members */
    bool voting;     /* false: this server may have forgotten what it promised */
    struct read_index read_index;
    struct join join;
    struct entry_skip skip;
    bool commit_unannounced; /* the others may not know the commit index */
    uint64_t live_segment;   /* files of segments below may be gone */

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

/* log_start.c: everything up to a recovered state machine and a started engine. */
int start_recover(struct replication *r, uint64_t server_id,
                  struct error_text *problem) CONCLAVE_MUST_USE;

/* snapshot_task.c */
void snapshot_task_init(struct replication *r);
void snapshot_task_finish(struct replication *r);
void snapshot_task_maybe(struct replication *r);        /* starts one when it is due */
bool snapshot_task_worth(const struct replication *r);  /* see replication_stats */
void snapshot_task_cancel(struct replication *r);       /* on failure and on close */
bool snapshot_task_hungry(const struct replication *r); /* wants a step now */
void snapshot_task_step(struct replication *r);         /* when hungry: one slice */

void snapshot_task_installed(struct replication *r,
                             uint64_t index); /* another's snapshot is kept as well */

void snapshot_task_damaged(struct replication *r,
                           uint64_t index); /* its file does not check: it counts for nothing */

/* step_effects.c. `rv` is what the engine's function returned: any failure but EBUSY, EINVAL and EPROTO
 * ends the use of the log. `entries` are those of a received append, the first at first_index. */
struct carried {
    const struct engine_entry *entries;
    uint64_t first_index;
};
void carry_out(struct replication *r, int rv, const struct engine_result *result,
               const struct carried *received);
void carry_out_members(struct replication *r); /* the present configuration may be another one */

/* entry_append.c */
int append_reserve(struct replication *r, size_t len) CONCLAVE_MUST_USE;
int append_entry(struct replication *r, uint64_t term, uint32_t kind, struct slice payload,
                 uint8_t *data_take) CONCLAVE_MUST_USE;
void append_truncated(struct replication *r, uint64_t index);
void append_vote(struct replication *r);  /* and, after joining, that this server may vote */
void append_flush(struct replication *r); /* unless a write is under way and more may gather */
void append_seal(struct replication *r);  /* marks a clean end */
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
                                        uint64_t id); /* NULL: memory is out */
bool send_queue_linked(const struct replication *r, uint64_t id);
void send_queue_link(struct replication *r, uint64_t id, bool up);
void send_queue_add(struct replication *r, const struct engine_message *m);
void send_queue_matched(struct replication *r, uint64_t id); /* it acknowledged something */
void send_queue_send(struct replication *r, uint64_t to, struct buf *message_take);
void send_queue_flush(struct replication *r);
void send_queue_refused(struct replication *r,
                        uint64_t id); /* it sent what no sound member sends */

/* entry_fetch.c: reads entries from first to before end, some of them, not above a megabyte or so, and
 * holds their bytes in the table. done is called unless the log has failed meanwhile. False when
 * memory is out. */
bool fetch_start(struct replication *r, uint64_t first, uint64_t end,
                 void (*done)(struct replication *r, uint64_t peer), uint64_t peer);

/* replication.c */
int64_t running_log_now_ms(const struct replication *r);
void running_log_fail(struct replication *r, int error, const char *text);
void running_log_note(struct replication *r, bool warning, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void running_log_submit_job(struct replication *r, enum replication_lane lane,
                            struct worker_job *job);
void running_log_job_done(struct replication *r); /* last call of every done function */
uint64_t running_log_last_index(const struct replication *r);
int running_log_propose(struct replication *r, uint32_t kind,
                        struct buf *payload_take) CONCLAVE_MUST_USE;

#endif
