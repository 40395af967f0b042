/*
 * The replicated state machine: the tree, the sessions and the zxid. Commands in, results and events out; no clock, no
 * randomness, no I/O: the same commands give the same bytes on every server. All validation and ACL checks of writes
 * are here, in the order of Apache ZooKeeper's PrepRequestProcessor; replies have the form of its
 * FinalRequestProcessor.
 *
 * Every applied write takes the next zxid, also one that fails. If memory runs out inside apply, the process ends:
 * otherwise the states would diverge.
 */
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include "base/hash.h"
#include "state/effects.h"
#include "state/entry/command.h"
#include "state/members/members.h"

struct state;
struct tree;

/* Creates the boot tree of a fresh ZooKeeper ("/", /zookeeper, /zookeeper/quota, /zookeeper/config), zxid 0. The key
 * orders tables in memory. It is random, so that clients cannot choose which keys share a bucket; nothing visible
 * depends on it. NULL: out of memory. */
struct state *state_create(const struct hash_key *key);
void state_destroy(struct state *s);

/* What to do with a batch. */
enum state_batch {
    STATE_BATCH_APPLY,     /* apply its commands now, in order */
    STATE_BATCH_DUPLICATE, /* it was applied before, or a later run of its origin has overtaken it */
    STATE_BATCH_GAP,       /* an earlier one is missing: its origin will send both again */
};

/*
 * Judges the next batch of the log, so that each is applied once and in its origin's order, although servers send a
 * batch again whenever a leader may have lost it. STATE_BATCH_APPLY is remembered: call it once per batch, before its
 * commands are applied. A batch that is not admitted is not applied and takes no zxid. Batches of BATCH_ORIGIN_LEADER
 * and of version 2 are always admitted and not remembered.
 */
enum state_batch state_batch_admit(struct state *s, const struct batch_header *header);

/* Sequence of an origin's last admitted batch, 0: none. An origin begins a new run above it. */
int64_t state_origin_sequence(const struct state *s, int64_t origin);

/*
 * Applies one command of an admitted batch. It cannot fail as such: the effects contain errors. CLOSE_SESSION of a
 * session that does not exist succeeds and changes nothing; the nodes of an existing one are deleted oldest first.
 *
 * A client's write fails with CONCLAVE_SESSION_MOVED if another server than the batch's origin owns its session: the
 * client has given up that connection. The origins of version 2 and BATCH_ORIGIN_LEADER own nothing and may write for
 * every session.
 *
 * A repeated numbered write is not applied and takes no zxid: the effects have the err, zxid and reply of the first
 * time, and nothing else.
 */
void state_apply(struct state *s, const struct batch_header *header, const struct command *command,
                 struct effects *effects);

/*
 * The log's configuration now has these members (by id; with their roles there). Call it for each applied
 * configuration, in the log's order, also on a standalone server, and once more after each restore. If there are or
 * were several members, a change goes to /zookeeper/config, takes a zxid and causes an event. During a reconfig only
 * its end does that, and resumes its answer.
 */
void state_configure(struct state *s, const struct state_member *members, size_t count,
                     struct effects *effects);

/* A reconfig in progress: the leader must change the log's configuration to these members, or end it by RECONFIG_END.
 * Or a reconfig that is answered while some of its removed members are leaving: they are still in the log's
 * configuration, without a vote. */
struct state_reconfig {
    int64_t zxid;   /* its zxid; 0: it is answered */
    int64_t origin; /* server of its client; 0: it is answered */
    const struct state_member *members;
    size_t count;
};
/* False: there is none. *ret borrows until the state changes. */
bool state_reconfig(const struct state *s, struct state_reconfig *ret);

/* Whether a reconfig removed a member that no longer votes: its server must send its clients away. Also true of a
 * server that is not among the last known members. */
bool state_is_leaving(const struct state *s, int64_t id);

/* Whether /zookeeper/config lists a member, as last published: before a reconfig in progress. */
bool state_config_lists(const struct state *s, int64_t id);

/* The version that /zookeeper/config shows; 0: it is empty. */
int64_t state_config_version(const struct state *s);

/*
 * Whether a server may propose a client's write: 0, or CONCLAVE_MARSHALLING_ERROR for a body that cannot be decoded. As
 * in ZooKeeper 3.9 such a request takes no zxid, unless it is a multi: apply refuses that one.
 */
int state_check_write(int32_t type, struct slice body) CONCLAVE_MUST_USE;

/* zxid of the last applied command. */
int64_t state_zxid(const struct state *s);

/* The nodes, to look at; valid until the state changes. */
const struct tree *state_tree(const struct state *s);
/* Bytes of a multiRead's reply; beyond: CONCLAVE_SYSTEM_ERROR. */
enum { STATE_MULTI_READ_MAX = 16 << 20 };

/* The time of the last applied command; 0: none yet. */
int64_t state_time_ms(const struct state *s);
/* A watch that a read asks for and that the caller must set (path borrowed from the request body). */
struct state_watch {
    enum { STATE_WATCH_NONE, STATE_WATCH_DATA, STATE_WATCH_CHILD } kind;
    struct slice path;
};

/*
 * Answers a read (exists, getData, getChildren, getChildren2, getACL, getAllChildrenNumber, multiRead, and sync's
 * echo): appends the reply record to out and returns 0, or returns the ZooKeeper code and appends nothing. A
 * multiRead's reply is limited to STATE_MULTI_READ_MAX. CONCLAVE_MARSHALLING_ERROR: the body cannot be decoded;
 * CONCLAVE_UNIMPLEMENTED: another type; CONCLAVE_SYSTEM_ERROR: the reply does not fit into out. As in ZooKeeper,
 * children come in any order, which may differ between servers.
 */
int state_query(const struct state *s, int32_t type, struct wire_vector ids, struct slice body,
                struct buf *out, struct state_watch *ret_watch) CONCLAVE_MUST_USE;

/* Answers getEphemerals: the paths of this session's nodes, oldest first. Errors as state_query. */
int state_ephemerals(const struct state *s, int64_t session_id, struct slice body,
                     struct buf *out) CONCLAVE_MUST_USE;

/* Kinds of watches that setWatches sets again. */
enum state_rewatch { STATE_REWATCH_DATA, STATE_REWATCH_EXIST, STATE_REWATCH_CHILD };

/* The next calls are for another caller, or for other ids. Only state_rewatch needs this call. */
void state_caller_begin(const struct state *s);
/* For a watch that was set when `relative_zxid` was the newest: the event that it must get now, or 0: set it again.
 * Unlike in ZooKeeper, a node that the caller may not read gives no event. */
int state_rewatch(const struct state *s, enum state_rewatch kind, struct wire_vector ids,
                  struct slice path, int64_t relative_zxid);

/* One session of the table. */
struct state_session {
    int64_t id;
    int32_t timeout_ms; /* negotiated */
    uint8_t passwd[WIRE_PASSWD_LEN];
    int64_t owner; /* server of its client; 0: unknown, any server may write for it */
};

/* True and *ret if the session exists. */
bool state_session_find(const struct state *s, int64_t id, struct state_session *ret);

/* The remembered answers to a session's writes: see state/exactly_once.h. */
struct state_results {
    int32_t count_max;
    int32_t bytes_max;
    int32_t last; /* newest number so far */
    int64_t born; /* distinguishes it from earlier results of the session */
    size_t count;
};
/* False: nothing is remembered, because the client did not ask for it. */
bool state_results(const struct state *s, int64_t session_id, struct state_results *ret);

/* Whether the password is correct; takes the same time for every wrong one. */
bool state_session_passwd_is(const struct state_session *session, struct slice passwd);

/* Calls fn for every session, in no particular order; fn must not change the state. */
void state_session_each(const struct state *s, void (*fn)(void *ctx, const struct state_session *),
                        void *ctx);

/* When a container or a node with a TTL is spent. */
struct state_spent_rules {
    int64_t now_ms; /* wall clock */
    int64_t
        never_used_ms; /* time after which a container that never had a child is spent; 0: never */
};

/*
 * Checks up to max containers and nodes with a TTL, those first that were not checked for the longest time, and calls
 * fn for each spent one: childless, and used once, or its TTL is over. fn gets a path that is valid until it returns,
 * and must not change the state. Returns the number of checked nodes.
 */
size_t state_spent_scan(struct state *s, const struct state_spent_rules *rules, size_t max,
                        void (*fn)(void *ctx, const struct spent *), void *ctx);

/* Whether prefixes can be bound to locks: /zookeeper/fence. */
enum state_fence {
    STATE_FENCE_ABSENT,
    STATE_FENCE_OPEN,
    STATE_FENCE_FOREIGN, /* a client created the node: remove it before the leader can create its own */
};
enum state_fence state_fence(const struct state *s);

/* The number of bindings. */
size_t state_fence_bindings(struct state *s);

/* The holder of the lock, or the leader of the election, at a path, as fencing sees it. */
struct state_holder {
    int64_t czxid;      /* of its node: the token */
    int64_t session_id; /* session that owns the node */
    /* name of the node below the path; null: the path's own node; borrowed until the next change */
    struct slice name;
    bool shared; /* the first contender wants a read lock: no session holds the whole lock */
};
/* False: there is no contender. If nothing is bound to the path, all children are searched. */
bool state_holder(struct state *s, struct slice path, struct state_holder *ret);

/* Values for status and metrics. */
struct state_stats {
    size_t nodes; /* as srvr counts: the boot tree counts 5 */
    size_t ephemerals;
    size_t collectable; /* containers and nodes with a TTL */
    size_t sessions;
    size_t data_bytes;    /* paths and data, as approximate_data_size counts them */
    size_t results;       /* remembered answers of all sessions */
    size_t results_bytes; /* their memory */
    size_t memory;        /* total, as state_memory (memory_estimate.h) */
};
void state_stats(const struct state *s, struct state_stats *ret);

/*
 * Snapshots: the state at begin, written in steps while commands are applied (a node that is about to change is written
 * first). One at a time.
 *
 *   state_snapshot_begin → state_snapshot_step until it returns 0 (or state_snapshot_abort)
 *
 * A step appends about max_bytes to out and returns 1: there is more, 0: complete, or an error, after which only abort
 * is useful. Nodes that changes have written between steps are appended by the next step. begin returns 0,
 * CONCLAVE_ENOMEM, or CONCLAVE_EBUSY while another one is in progress.
 */
int state_snapshot_begin(struct state *s) CONCLAVE_MUST_USE;
int state_snapshot_step(struct state *s, size_t max_bytes, struct buf *out) CONCLAVE_MUST_USE;
void state_snapshot_abort(struct state *s);

/* Makes a state from a complete snapshot. 0, CONCLAVE_ECORRUPT or CONCLAVE_ENOMEM. */
int state_restore(struct slice snapshot, const struct hash_key *key,
                  struct state **ret) CONCLAVE_MUST_USE;
/* The same; `passed` is called with all bytes so far, which are not read again. Its owner may give their memory back. */
typedef void (*state_passed_fn)(void *ctx, struct slice bytes);
int state_restore_passing(struct slice snapshot, const struct hash_key *key, state_passed_fn passed,
                          void *ctx, struct state **ret) CONCLAVE_MUST_USE;
/* The zxid of a snapshot, from its beginning. 0 or CONCLAVE_ECORRUPT. */
int state_snapshot_zxid(struct slice snapshot, int64_t *ret) CONCLAVE_MUST_USE;

/* Prepares a restored state to replace `before`, which does not change. That is a change and takes a zxid above those
 * of both; admitted batches stay admitted, the members stay; its sessions have no owner yet. */
void state_succeed(struct state *s, const struct state *before);

/* A number over all nodes (path, data, ACL, stat), sessions, origins and the zxid; equal states have equal digests. */
uint64_t state_digest(const struct state *s);

/* The same number, kept up to date with each change and available at once. If the two are equal, the memory is as it
 * was written. */
uint64_t state_digest_now(const struct state *s);

#endif
