/*
 * The replicated log behind a small interface: bytes go in with replication_submit, and come out in order through
 * `apply` when they are committed and safe on disk. libraft decides (raft_step); log files, snapshots and the disk
 * threads are ours. A standalone server is an ensemble of one, with the same code and files.
 *
 * It has no loop, thread or clock: time comes from a clock_source, the disk is a file_ops, and the host
 * (replication_uv.h, or a test) runs the jobs and calls back. All functions and callbacks run on one thread. No
 * acknowledged entry is lost: an entry is applied only after a majority of the voters has synced it. The first failed
 * write or sync ends the use of the log for good (`failed`).
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

/* What the log needs from its process. */
struct replication_host {
    void *ctx;

    /* Runs job->work in some thread, then job->done in the caller's thread, in a later call of the loop: never inside
     * run. May be called before replication_open has returned. */
    void (*run)(void *ctx, enum replication_lane lane, struct worker_job *job);

    /* Sends a message to replication_receive of another server. It may be lost, delayed or repeated. NULL: there are no
     * other servers. */
    void (*send)(void *ctx, uint64_t to, struct buf *message_take);
};

enum replication_role {
    REPLICATION_FOLLOWER,
    REPLICATION_CANDIDATE, /* or a leader that has not applied an entry of its own term yet */
    REPLICATION_LEADER,
};

struct replication_options {
    const char *dir;      /* data folder; created if missing */
    int64_t server_id;    /* > 0 */
    size_t segment_bytes; /* preallocated size of a log segment */
    /* entries between snapshots, more while stats.snapshot_worth is false */
    uint64_t snapshot_entries;
    size_t snapshot_log_bytes;        /* or log bytes between snapshots, whichever comes first */
    uint64_t trailing_entries;        /* entries kept before a snapshot */
    int snapshots_kept;               /* snapshots kept, at least 2 */
    bool sync;                        /* false: forceSync=no, promises weakened */
    const struct clock_source *clock; /* NULL: the system's */
    struct summary *sync_time;        /* µs per write and sync of the log, added to; or NULL */
    struct histogram *sync_histogram; /* the same times; or NULL */
    struct summary *snapshot_time;    /* ms per snapshot until it is durable, added to; or NULL */

    /* The members at a first start, the same on all of them; NULL: only this server. Used only at a first start. */
    const struct configuration_member *founders;
    size_t n_founders;
    bool
        join; /* at a first start: this server joins an ensemble, or belongs to one and lost its folder. It has no log,
                * and no vote until a leader admits it. */
    bool go_alone; /* continue as the only member from index `alone`: see force_alone.h */
    uint64_t alone;
    /* skip the entry of this index, if a majority of the voters agrees: skip_entry.h; 0: none */
    uint64_t skip;
    bool cluster_given;  /* at a first start: `cluster` is the id of all founders */
    uint8_t cluster[16]; /* otherwise it is random */
    int election_ms;     /* a follower waits this to twice this for its leader; 0: 400 */
    int heartbeat_ms;    /* interval of a leader's heartbeats; 0: 80 */
    size_t cache_bytes;  /* payloads kept in memory for other members; 0: 32 MiB */
    unsigned seed;       /* for election timeouts; 0: random */
};

struct replication_callbacks {
    void *ctx;

    /* A committed entry; in order, each exactly once per run of the process. payload is borrowed. */
    void (*apply)(void *ctx, uint64_t index, struct slice payload);

    /* Called instead of apply for an entry that a majority decided to skip. May be NULL. */
    void (*skip)(void *ctx, uint64_t index, struct slice payload);

    /* Called after a run of apply calls, when no more entries are ready: send the gathered output. */
    void (*apply_done)(void *ctx);

    /* Writes the state machine's snapshot in steps (see state_snapshot_begin …): 1: more, 0: done, or an error. */
    int (*snapshot_begin)(void *ctx);
    int (*snapshot_step)(void *ctx, size_t max_bytes, struct buf *out);
    void (*snapshot_abort)(void *ctx);

    /* Replaces the state by a snapshot: at start, before any apply, and later if the leader sent one. apply then
     * continues after its index. bytes are borrowed. */
    int (*restore)(void *ctx, struct slice snapshot);

    /* From replication_turn. leader: id of the leader in term, 0: unknown. The first role is a follower without a
     * leader. */
    void (*role_changed)(void *ctx, enum replication_role role, uint64_t leader, uint64_t term);

    /* A configuration was applied: in the order of the log, also in a replay, and right after a restore. members are
     * borrowed. May be NULL. */
    void (*configuration)(void *ctx, uint64_t index, const struct configuration_member *members,
                          size_t n);

    /* From replication_turn: all tickets up to this one are confirmed. May be NULL if replication_read_index is not
     * used. */
    void (*confirmed)(void *ctx, uint64_t ticket);

    /* The log accepts no more writes. Called once; no apply follows. text says what happened and where. */
    void (*failed)(void *ctx, int error, const char *text);

    /* An event for a log line (recovery cut an incomplete tail, snapshot written, segment removed). */
    void (*note)(void *ctx, bool warning, const char *event, const char *text);
};

/*
 * Locks the folder, recovers (newest good snapshot, then the log after it, without an incomplete tail), replays all
 * committed entries through restore and apply, and starts. ops NULL: the system's files. 0, or CONCLAVE_ELOCKED,
 * CONCLAVE_ECORRUPT, CONCLAVE_EFOREIGN, CONCLAVE_EINVAL (go_alone), CONCLAVE_EIO, CONCLAVE_ENOSPACE, CONCLAVE_ENOMEM
 * with *ret_text (free it), which says what happened, where and what to do.
 */
int replication_open(const struct replication_host *host, const struct replication_options *options,
                     const struct replication_callbacks *callbacks, const struct file_ops *ops,
                     struct replication **ret, char **ret_text) CONCLAVE_MUST_USE;

/* The end of an iteration of the host's loop, before it waits: sends and writes what was gathered. */
void replication_turn(struct replication *r);

/* When replication_tick is due, in ms of the clock; 0: at once. It may change with any call. */
int64_t replication_deadline(const struct replication *r);

/* Timeouts, and work in slices: a slice of a snapshot, the end of closing. An early call does no harm. After
 * replication_close, r may be freed when it returns. */
void replication_tick(struct replication *r);

/* The link to another server came up or went down. Messages are sent only while it is up; when the leader's link goes
 * down, an election begins soon. */
void replication_link(struct replication *r, uint64_t peer, bool up);

/* A message from server `from`; borrowed. */
void replication_receive(struct replication *r, uint64_t from, struct slice message);

/* Proposes one entry. On success it takes the bytes of payload, which is then empty; on failure the caller keeps them.
 * 0, CONCLAVE_EBUSY (not the leader), CONCLAVE_EIO (the log has failed), CONCLAVE_ECLOSED (after replication_close),
 * CONCLAVE_ETOOBIG (more than half a gigabyte, or 32 MiB with other members), CONCLAVE_ENOMEM. */
int replication_submit(struct replication *r, struct buf *payload_take) CONCLAVE_MUST_USE;

/* Returns a ticket. It is confirmed when this server has applied all entries that were committed anywhere before this
 * call, which a majority proves after the call. Tickets of one turn share the proof. It never fails; without a leader
 * it waits for one. */
uint64_t replication_read_index(struct replication *r);

/* Entries that were submitted and are not applied yet. While there are several, the caller should gather larger
 * batches. */
size_t replication_in_flight(const struct replication *r);

/* When this server put an entry into its own log, and when it had synced it, monotonic ns. 0: not yet, or too long
 * ago. Only for entries that are applied now, or were lately. */
struct replication_entry_times {
    int64_t appended_ns;
    int64_t synced_ns;
};
struct replication_entry_times replication_entry_times(const struct replication *r, uint64_t index);

/* Takes a snapshot soon, unless one is in progress. */
void replication_snapshot(struct replication *r);

/* Writes and applies the submitted entries, drops a snapshot in progress, then closes everything and calls cb; r is
 * freed by then. cb comes from replication_tick, so continue to call turn and tick. May be called from any callback,
 * once. */
void replication_close(struct replication *r, void (*cb)(void *ctx), void *ctx);

/* The leader proposes new members, which differ from the present ones in one member. 0, CONCLAVE_EBUSY (not the leader,
 * or an earlier change is not committed), CONCLAVE_EINVAL (not one difference, or the leader would lose its vote:
 * transfer first), CONCLAVE_EIO, CONCLAVE_ENOMEM. */
int replication_change(struct replication *r, const struct configuration_member *members,
                       size_t n) CONCLAVE_MUST_USE;

/* The leader watches an observer or spare catch up, before it becomes a voter. 0, CONCLAVE_EBUSY, CONCLAVE_EINVAL (a
 * voter, or not a member). */
int replication_catch_up(struct replication *r, uint64_t id) CONCLAVE_MUST_USE;
bool replication_caught_up(const struct replication *r, uint64_t id);

/* The leader hands over to a voter; 0: to the most suitable one. It accepts no entries until that is done or an
 * election timeout has passed. 0, CONCLAVE_EBUSY, CONCLAVE_EINVAL (no voter to hand over to). */
int replication_transfer(struct replication *r, uint64_t id) CONCLAVE_MUST_USE;

/* The current leader, as in role_changed. */
uint64_t replication_leader(const struct replication *r);
uint64_t replication_term(const struct replication *r);

/* Age of the write of entries that is on its way to the disk, ms; 0: none. Other entries may wait behind it. */
int64_t replication_disk_wait_ms(const struct replication *r);

/* Values for status and metrics. */
struct replication_stats {
    enum replication_role role;
    uint64_t term;
    uint64_t leader;     /* or 0 */
    uint64_t last_index; /* in the log, maybe not yet on disk */
    uint64_t commit_index;
    uint64_t applied_index;
    uint64_t snapshot_index; /* newest snapshot */
    uint64_t snapshots_failed;
    bool snapshot_busy;  /* one is in progress, or begins soon */
    bool snapshot_worth; /* the log since the newest snapshot is as large as the snapshot */
    uint64_t log_bytes;  /* in segments */
    uint64_t syncs;      /* fdatasync calls */
    int64_t sync_max_us; /* the slowest one */
    int64_t sync_total_us;
};
void replication_stats(const struct replication *r, struct replication_stats *ret);

struct replication_member_stats {
    uint64_t id;
    enum configuration_role role;
    const char *address; /* valid until the next configuration is applied */
    bool self;
    bool linked;
    uint64_t match_index; /* newest entry that it is known to have; 0 unless this server leads */
    enum engine_catch_up catch_up;
    uint64_t snapshot_bytes_sent;  /* acknowledged bytes of the snapshot that is sent to it */
    uint64_t snapshot_bytes_total; /* 0: none */
};

/* The members of the newest applied configuration, up to cap; returns their number. */
size_t replication_members(const struct replication *r, struct replication_member_stats *ret,
                           size_t cap);

/* The id of the ensemble, the same on all members. */
void replication_cluster(const struct replication *r, uint8_t ret[FORMAT_CLUSTER_SIZE]);

/* False while this server is new or lost its folder, and does not have its data yet: see join.h. */
bool replication_may_vote(const struct replication *r);

#endif
