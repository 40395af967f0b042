/*
 * THE replicated machine: the tree, the sessions and the zxid. Command in, result and events
 * out; no clock, no randomness, no I/O: the same commands give the same bytes on every server.
 * Validation and ACL checks of writes happen here and nowhere else, in the order of Apache
 * ZooKeeper's PrepRequestProcessor; replies have the form of its FinalRequestProcessor.
 *
 * Every applied write takes the next zxid, also one that fails. Running out of memory inside
 * apply ends the process: going on would diverge.
 */
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include "base/hash.h"
#include "state/command.h"
#include "state/effects.h"
#include "state/members/members.h"

struct state;

/* The boot tree of a fresh ZooKeeper ("/", /zookeeper, /zookeeper/quota, /zookeeper/config), zxid 0. The key orders tables in
 * memory: random, so that clients cannot choose what meets in them; nothing visible depends on it. NULL when memory is out. */
struct state *state_create(const struct hash_key *key);
void state_destroy(struct state *s);

/* What becomes of a batch. */
enum state_batch {
    STATE_BATCH_APPLY,     /* its commands are to be applied now, in order */
    STATE_BATCH_DUPLICATE, /* it was, or it is overtaken by a later run of its origin */
    STATE_BATCH_GAP, /* one before it is missing: its origin sends it again, behind that one */
};

/*
 * Judges the next batch of the log, so that each is applied once and in its origin's order although
 * servers send again whatever may have got lost with a leader. STATE_BATCH_APPLY is remembered:
 * asked for each batch once, before its commands are applied. Of a batch that is not admitted
 * nothing may be applied, and no zxid is taken. Those of BATCH_ORIGIN_LEADER and of version 2 are
 * admitted always and leave no trace.
 */
enum state_batch state_batch_admit(struct state *s, const struct batch_header *header);

/* Sequence of the last batch of an origin that was admitted, 0: none. An origin begins a new run
 * above it. */
int64_t state_origin_sequence(const struct state *s, int64_t origin);

/*
 * Applies one command of a batch that was admitted. Never fails as such: what is refused is told in
 * effects. CLOSE_SESSION of a session that is not there succeeds and changes nothing; the nodes of
 * one that is there go oldest first.
 *
 * A write of a client whose session is owned by another server than the batch's origin fails with
 * CONCLAVE_SESSION_MOVED: it stayed behind on a connection that was given up. The origins of
 * version 2 and BATCH_ORIGIN_LEADER own nothing and may do everything.
 *
 * A numbered write that comes again is not carried out and takes no zxid: it has the effects' err, zxid
 * and reply of the first time, and no others.
 */
void state_apply(struct state *s, const struct batch_header *header, const struct command *command,
                 struct effects *effects);

/*
 * The log's configuration has these members now (by id; roles as they are in it). Told of each that
 * is applied, a server alone too, in the log's order, and once more whenever a state was restored.
 * What is news goes to /zookeeper/config, takes a zxid and tells an event, if there are or were
 * several members; while a reconfig is under way only its end does, which resumes its answer.
 */
void state_configure(struct state *s, const struct state_member *members, size_t count,
                     struct effects *effects);

/* A reconfig that is under way: the leader is to lead the log's configuration to these members, or
 * to give it up by RECONFIG_END. Or one that is answered, of whose removed members some are leaving: they are
 * still in the log's configuration, without a vote. */
struct state_reconfig {
    int64_t zxid;   /* which one; 0: it is answered */
    int64_t origin; /* server that asked for it, 0: it is answered */
    const struct state_member *members;
    size_t count;
};
/* False when there is none. *ret borrows until the state changes. */
bool state_reconfig(const struct state *s, struct state_reconfig *ret);

/* Whether a member was removed by a reconfig and no longer votes: its server is to send its clients away.
 * Also true of a server that the members as last told lack. */
bool state_is_leaving(const struct state *s, int64_t id);

/* Whether /zookeeper/config lists a member, as it was last published: before the reconfig under way. */
bool state_config_lists(const struct state *s, int64_t id);

/* The version that /zookeeper/config shows, 0: it is empty. */
int64_t state_config_version(const struct state *s);

/*
 * Whether a server may propose a client's write: 0, or CONCLAVE_MARSHALLING_ERROR for a body that cannot be decoded. As in
 * ZooKeeper 3.9 such a request takes no zxid, unless it is a multi: apply refuses that one.
 */
int state_check_write(int32_t type, struct slice body) CONCLAVE_MUST_USE;

/* zxid of the last applied command. */
int64_t state_zxid(const struct state *s);

enum {
    STATE_MULTI_READ_MAX =
        16 << 20, /* bytes of a multiRead's reply; beyond: CONCLAVE_SYSTEM_ERROR */
};

/* A watch that a read asked for and that the caller must set (path borrowed from the request
 * body). */
struct state_watch {
    enum { STATE_WATCH_NONE, STATE_WATCH_DATA, STATE_WATCH_CHILD } kind;
    struct slice path;
};

/*
 * Answers a read (exists, getData, getChildren, getChildren2, getACL, getAllChildrenNumber,
 * multiRead, and sync's echo): appends the reply record to out and returns 0, or returns the
 * ZooKeeper code and appends nothing. A multiRead's reply is limited to STATE_MULTI_READ_MAX.
 * CONCLAVE_MARSHALLING_ERROR for a body that cannot be decoded, CONCLAVE_UNIMPLEMENTED for
 * other types, CONCLAVE_SYSTEM_ERROR when the reply does not fit into out. Children come in any
 * order, as in ZooKeeper; it may differ between servers.
 */
int state_query(const struct state *s, int32_t type, struct wire_vector ids, struct slice body,
                struct buf *out, struct state_watch *ret_watch) CONCLAVE_MUST_USE;

/* Answers getEphemerals: the paths of this session's nodes, oldest first. Errors as state_query. */
int state_ephemerals(const struct state *s, int64_t session_id, struct slice body,
                     struct buf *out) CONCLAVE_MUST_USE;

/* Kinds of watch that setWatches brings back. */
enum state_rewatch { STATE_REWATCH_DATA, STATE_REWATCH_EXIST, STATE_REWATCH_CHILD };

/* Another caller asks from now on, or the same with other ids. For state_rewatch alone: the others see to it. */
void state_caller_begin(const struct state *s);
/* The event that a watch set when `relative_zxid` was the newest must get now: an event type, or 0:
 * set it again. A node that the caller may not read gives no event; in ZooKeeper it gives one. */
int state_rewatch(const struct state *s, enum state_rewatch kind, struct wire_vector ids,
                  struct slice path, int64_t relative_zxid);

/* One session of the table. */
struct state_session {
    int64_t id;
    int32_t timeout_ms; /* negotiated */
    uint8_t passwd[WIRE_PASSWD_LEN];
    int64_t owner; /* server that its client is connected to; 0: not known, any may write for it */
};

/* True and *ret when the session exists. */
bool state_session_find(const struct state *s, int64_t id, struct state_session *ret);

/* The remembered answers to a session's writes: see state/exactly_once.h. */
struct state_results {
    int32_t count_max;
    int32_t bytes_max;
    int32_t last; /* newest number that was seen */
    int64_t born; /* tells it from what the session had earlier */
    size_t count;
};
/* False when nothing is: its client did not ask for it. */
bool state_results(const struct state *s, int64_t session_id, struct state_results *ret);

/* Whether that is the session's password; takes the same time for every wrong one. */
bool state_session_passwd_is(const struct state_session *session, struct slice passwd);

/* Calls fn for every session, in no particular order; fn must not change the state. */
void state_session_each(const struct state *s, void (*fn)(void *ctx, const struct state_session *),
                        void *ctx);

/* When a node that the collector looks after is spent. */
struct state_spent_rules {
    int64_t now_ms;        /* wall clock */
    int64_t never_used_ms; /* a container that never had a child is spent after so long; 0: never */
};

/*
 * Looks at up to max containers and nodes with a TTL, each time at those it has not looked at for
 * longest, and calls fn for each that is spent: childless, and used once, or its TTL over. fn gets
 * a path that dies when it returns, and must not change the state. Returns how many were looked at.
 */
size_t state_spent_scan(struct state *s, const struct state_spent_rules *rules, size_t max,
                        void (*fn)(void *ctx, const struct spent *), void *ctx);

/* Whether prefixes can be bound to locks: /zookeeper/fence. */
enum state_fence {
    STATE_FENCE_ABSENT,
    STATE_FENCE_OPEN,
    STATE_FENCE_FOREIGN, /* a client made the node: it must go before the leader can make its own */
};
enum state_fence state_fence(const struct state *s);

/* How many bindings there are. */
size_t state_fence_bindings(struct state *s);

/* Who holds the lock or leads the election at a path, as fencing sees it. */
struct state_holder {
    int64_t czxid;      /* of its node: the token */
    int64_t session_id; /* that the node belongs to */
    /* of the node below the path, null: it is the path's own; borrowed until the next change */
    struct slice name;
    bool shared; /* it stands first and asks for a read lock: nobody holds the whole */
};
/* False when there is no contender. Of a path that nothing is bound to all children are looked at. */
bool state_holder(struct state *s, struct slice path, struct state_holder *ret);

/* Figures for status and metrics. */
struct state_stats {
    size_t nodes; /* as srvr counts them: the boot tree is 5 */
    size_t ephemerals;
    size_t collectable; /* containers and nodes with a TTL */
    size_t sessions;
    size_t data_bytes;    /* paths and data, as approximate_data_size counts them */
    size_t results;       /* remembered answers of all sessions */
    size_t results_bytes; /* their memory */
    size_t memory;        /* of all, as state_memory (memory_estimate.h) */
};
void state_stats(const struct state *s, struct state_stats *ret);

/*
 * Snapshots: the state as it is at begin, written out in steps while commands go on being
 * applied (a node that is about to change is written out first). One at a time.
 *
 *   state_snapshot_begin → state_snapshot_step until it returns 0 (or state_snapshot_abort)
 *
 * A step appends about max_bytes to out and returns 1 while there is more, 0 when all is
 * written, or an error, after which only abort is of use. Bytes written out by changes between
 * steps are appended at the next step. begin returns 0, CONCLAVE_ENOMEM, or CONCLAVE_EBUSY while
 * another one is being taken.
 */
int state_snapshot_begin(struct state *s) CONCLAVE_MUST_USE;
int state_snapshot_step(struct state *s, size_t max_bytes, struct buf *out) CONCLAVE_MUST_USE;
void state_snapshot_abort(struct state *s);

/* A state from the bytes of a whole snapshot. 0, CONCLAVE_ECORRUPT or CONCLAVE_ENOMEM. */
int state_restore(struct slice snapshot, const struct hash_key *key,
                  struct state **ret) CONCLAVE_MUST_USE;

/* Makes a restored state fit to take the place of `before`, which stays as it is. That is a change and
 * takes a zxid, above all of both; the batches that were admitted stay admitted, the members stay;
 * its sessions are nobody's yet. */
void state_succeed(struct state *s, const struct state *before);

/* A number over all nodes (path, data, ACL, stat), sessions, origins and the zxid; equal states
 * have equal digests. */
uint64_t state_digest(const struct state *s);

/* The same number at once, as it was kept up with each change. That the two are equal shows that the
 * memory is as it was written. */
uint64_t state_digest_now(const struct state *s);

#endif
