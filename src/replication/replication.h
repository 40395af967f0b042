/*
 * The replicated log behind one small interface: bytes go in with replication_submit, and come
 * out in order through `apply` once they are committed and safe on disk. libraft decides
 * (raft_step); log files, snapshots and the disk thread are ours. A standalone server is an
 * ensemble of one on the same code path and files.
 *
 * No loop, no thread and no clock of its own: time comes from a clock_source, the disk is a
 * file_ops, and the host (replication_uv.h, or a test) runs the jobs and calls back in. All
 * functions and callbacks run on one thread. Nothing acknowledged is ever lost: an entry is
 * applied only after a majority of the voters has it synced. The first failed write or sync ends the
 * use of the log for good (`failed`).
 */
#ifndef REPLICATION_REPLICATION_H
#define REPLICATION_REPLICATION_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/slice.h"
#include "replication/disk/configuration.h"
#include "replication/disk/disk_job.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"
#include "replication/raft/engine.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

struct replication;

/* What the log needs of the process it lives in. */
struct replication_host {
    void *ctx;

    /* Does job->work somewhere, then job->done on the caller's thread, from a later call of the
     * loop: never from inside run. May be called before replication_open has returned. */
    void (*run)(void *ctx, enum replication_lane lane, struct worker_job *job);

    /* A message for replication_receive of another server. It may be lost, delayed and doubled.
     * NULL where there are no others. */
    void (*send)(void *ctx, uint64_t to, struct buf *message_take);
};

enum replication_role {
    REPLICATION_FOLLOWER,
    REPLICATION_CANDIDATE, /* or a leader that has not committed an entry of its own term yet */
    REPLICATION_LEADER,
};

struct replication_options {
    const char *dir;      /* data folder; created when missing */
    int64_t server_id;    /* > 0 */
    size_t segment_bytes; /* preallocated size of a log segment */
    /* entries between snapshots, more while stats.snapshot_worth is false */
    uint64_t snapshot_entries;
    size_t snapshot_log_bytes;        /* or log bytes between snapshots, whichever comes first */
    uint64_t trailing_entries;        /* entries kept behind a snapshot */
    int snapshots_kept;               /* snapshots kept, at least 2 */
    bool sync;                        /* false: forceSync=no, promises weakened */
    const struct clock_source *clock; /* NULL: the machine's */
    struct summary *sync_time;        /* µs per write and sync of the log, added to; or NULL */
    struct summary *snapshot_time;    /* ms per snapshot until it is durable, added to; or NULL */

    /* The members at a first start, the same on every one of them; NULL: this server alone. Looked
     * at only then. */
    const struct configuration_member *founders;
    size_t n_founders;
    bool join; /* at a first start: this server joins an ensemble, or belongs to one and lost its
                * folder. It has no log, and no vote until a leader has let it in. */
    bool go_alone; /* as the only member, from an entry of index `alone` on: see force_alone.h */
    uint64_t alone;
    /* pass the entry of this index over, if a majority of the voters wants it: skip_entry.h; 0: none */
    uint64_t skip;
    bool cluster_given;  /* at a first start: `cluster` is the id that all founders agreed on */
    uint8_t cluster[16]; /* else it is random */
    int election_ms;     /* a follower waits so long to twice that for its leader; 0: 400 */
    int heartbeat_ms;    /* between a leader's signs of life; 0: 80 */
    size_t cache_bytes;  /* payloads kept in memory for other members; 0: 32 MiB */
    unsigned seed;       /* of the election timeouts; 0: random */
};

struct replication_callbacks {
    void *ctx;

    /* A committed entry, in order, each exactly once in a run of the process. payload is
     * borrowed. */
    void (*apply)(void *ctx, uint64_t index, struct slice payload);

    /* In place of apply, for an entry that a majority decided to skip. May be NULL. */
    void (*skip)(void *ctx, uint64_t index, struct slice payload);

    /* After a run of apply calls: nothing more is ready now, send what was gathered. */
    void (*apply_done)(void *ctx);

    /* The state machine's snapshot in steps (see state_snapshot_begin …): 1 more, 0 done, or an
     * error. */
    int (*snapshot_begin)(void *ctx);
    int (*snapshot_step)(void *ctx, size_t max_bytes, struct buf *out);
    void (*snapshot_abort)(void *ctx);

    /* Replaces the state by that of a snapshot: at start, before any apply, and later when the leader
     * sent one: apply goes on above its index. bytes are borrowed. */
    int (*restore)(void *ctx, struct slice snapshot);

    /* From replication_turn. leader: id of the member that leads in term, 0: nobody known. At first
     * a follower without a leader. */
    void (*role_changed)(void *ctx, enum replication_role role, uint64_t leader, uint64_t term);

    /* A configuration was applied: in the order of the log, also when it is replayed, and right after
     * a restore. members are borrowed. May be NULL. */
    void (*configuration)(void *ctx, uint64_t index, const struct configuration_member *members,
                          size_t n);

    /* From replication_turn: all tickets of replication_read_index up to this one. May be NULL when
     * none is taken. */
    void (*confirmed)(void *ctx, uint64_t ticket);

    /* The log can no longer be trusted to take writes. Called once; no apply follows. text says
     * what and where. */
    void (*failed)(void *ctx, int error, const char *text);

    /* Something worth a log line (recovery cut a torn tail, snapshot written, segment removed). */
    void (*note)(void *ctx, bool warning, const char *event, const char *text);
};

/*
 * Locks the folder, recovers (newest good snapshot, then the log after it, a torn tail cut),
 * replays everything that was committed through restore and apply, and starts. ops NULL: the
 * machine's file system. 0, or
 * CONCLAVE_ELOCKED, CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN, CONCLAVE_EINVAL (go_alone), CONCLAVE_EIO,
 * CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM with *ret_text (free it) saying what, where and what to do.
 */
int replication_open(const struct replication_host *host, const struct replication_options *options,
                     const struct replication_callbacks *callbacks, const struct file_ops *ops,
                     struct replication **ret, char **ret_text) CONCLAVE_MUST_USE;

/* The end of a pass of the host's loop, before it waits for events: what the pass gathered goes out. */
void replication_turn(struct replication *r);

/* When replication_tick is due, in ms of the clock; 0 when there is more to do at once. It may be
 * another time after any call. */
int64_t replication_deadline(const struct replication *r);

/* Timeouts, and work that is done in slices: a slice of a snapshot, the end of closing. Too early a
 * call does no harm. After replication_close, r may be gone when it returns. */
void replication_tick(struct replication *r);

/* The link to another server came up or went down: messages are sent only while it is up, and an
 * election begins soon when the leader's went down. */
void replication_link(struct replication *r, uint64_t peer, bool up);

/* A message that the host of server `from` was given to send. Borrowed. */
void replication_receive(struct replication *r, uint64_t from, struct slice message);

/* Proposes one entry. Takes the bytes of payload (it is empty afterwards); on failure they stay the
 * caller's. 0, CONCLAVE_EBUSY when not leader, CONCLAVE_EIO after a failure, CONCLAVE_ECLOSED after
 * replication_close, CONCLAVE_ETOOBIG above half a gigabyte, or 32 MiB when there are other members,
 * CONCLAVE_ENOMEM. */
int replication_submit(struct replication *r, struct buf *payload_take) CONCLAVE_MUST_USE;

/* A ticket, which is confirmed once this server has applied everything that was committed anywhere
 * before this call: proved by a majority that was asked after it. Tickets of one turn share the proof.
 * It never fails; without a leader it takes until there is one. */
uint64_t replication_read_index(struct replication *r);

/* Entries submitted and not applied yet: the caller gathers a larger batch while this is not
 * small. */
size_t replication_in_flight(const struct replication *r);

/* Takes a snapshot soon, unless one is being taken. */
void replication_snapshot(struct replication *r);

/* Writes and applies what was submitted before, drops a snapshot that is under way, then closes
 * everything and calls cb, after which r is gone: from replication_tick, so the calls of turn and
 * tick must go on until then. May be called from any callback, once. */
void replication_close(struct replication *r, void (*cb)(void *ctx), void *ctx);

/* The leader proposes other members, which differ from the present ones in one. 0, CONCLAVE_EBUSY
 * (not the leader, or an earlier change is not committed), CONCLAVE_EINVAL (no such difference, or the
 * leader itself would lose its vote: transfer first), CONCLAVE_EIO, CONCLAVE_ENOMEM. */
int replication_change(struct replication *r, const struct configuration_member *members,
                       size_t n) CONCLAVE_MUST_USE;

/* The leader follows how an observer or spare gets what it lacks, before it is made a voter. 0,
 * CONCLAVE_EBUSY, CONCLAVE_EINVAL (a voter, or a stranger). */
int replication_catch_up(struct replication *r, uint64_t id) CONCLAVE_MUST_USE;
bool replication_caught_up(const struct replication *r, uint64_t id);

/* The leader hands over to a voter, 0: to the most suitable one; nothing is taken in until that is
 * done or an election timeout has passed. 0, CONCLAVE_EBUSY, CONCLAVE_EINVAL (nobody to hand to). */
int replication_transfer(struct replication *r, uint64_t id) CONCLAVE_MUST_USE;

/* As told by role_changed, but now. */
uint64_t replication_leader(const struct replication *r);
uint64_t replication_term(const struct replication *r);

/* How long ago a leader with a majority was known to exist, in ms; INT64_MAX: never. */
int64_t replication_contact_ms(const struct replication *r);

/* Figures for status and metrics. */
struct replication_stats {
    enum replication_role role;
    uint64_t term;
    uint64_t leader;     /* or 0 */
    uint64_t last_index; /* in the log, maybe not yet on disk */
    uint64_t commit_index;
    uint64_t applied_index;
    uint64_t snapshot_index; /* newest snapshot */
    bool snapshot_busy;      /* one is being taken, or is about to be */
    bool snapshot_worth;     /* the log since the newest snapshot is as long as that is */
    uint64_t log_bytes;      /* in segments */
    uint64_t syncs;          /* fdatasync calls */
    int64_t sync_max_us;     /* slowest of them */
    int64_t sync_total_us;
};
void replication_stats(const struct replication *r, struct replication_stats *ret);

struct replication_member_stats {
    uint64_t id;
    enum configuration_role role;
    const char *address; /* valid until the next configuration is applied */
    bool self;
    bool linked;
    uint64_t match_index; /* what the leader knows it to have; 0 on others */
    enum engine_catch_up catch_up;
    uint64_t snapshot_bytes_sent;  /* acknowledged of the snapshot that it is being sent */
    uint64_t snapshot_bytes_total; /* 0: none */
};

/* The members of the newest applied configuration, up to cap; returns how many. */
size_t replication_members(const struct replication *r, struct replication_member_stats *ret,
                           size_t cap);

/* The id that all members share. */
void replication_cluster(const struct replication *r, uint8_t ret[FORMAT_CLUSTER_SIZE]);

/* False while this server, which is new or lost its folder, has not what others may count on: see join.h. */
bool replication_may_vote(const struct replication *r);

#endif
