/*
 * What the files of this room share: the struct of the machine, one write in progress, and the functions between the
 * files. Read state.c first, then write.c and multi.c.
 */
#ifndef STATE_STATE_INTERNAL_H
#define STATE_STATE_INTERNAL_H

#include "state/command_bounds.h"
#include "state/exactly_once.h"
#include "state/fence.h"
#include "state/fence_index.h"
#include "state/mirror.h"
#include "state/multi.h"
#include "state/operation.h"
#include "state/reconfig.h"
#include "state/state.h"
#include "tree/acl_decisions.h"
#include "tree/tree.h"

#include <stdlib.h>

/* One session of the table. */
struct session {
    struct map_node map; /* in state.sessions, by id */
    int64_t id;
    int32_t timeout_ms;
    uint8_t passwd[WIRE_PASSWD_LEN];
    int64_t owner;                /* origin that has its client, 0: unknown */
    struct list ephemerals;       /* znode_owner.link of its nodes */
    int64_t path_bytes;           /* bytes of their paths */
    struct once_results *results; /* results of its writes; NULL: its client did not ask for it */
};

/* A server that sent batches. */
struct batch_origin {
    int64_t id;
    int64_t sequence; /* of the last admitted batch */
};

/* One step of the current write, to be undone if a later part of its multi fails. */
struct undo {
    enum { UNDO_CREATE, UNDO_DELETE, UNDO_SET_DATA } kind;
    struct znode *node;
    struct znode_data *data; /* UNDO_SET_DATA: the old data */
    int64_t pzxid;           /* old value of the parent */
    int32_t cversion;        /* old value of the parent */
    int64_t mzxid;           /* UNDO_SET_DATA: old value of the node */
    int64_t mtime;
    int32_t version;
};

/* The snapshot in progress. */
struct snapshot {
    bool active;
    bool header_done;     /* magic and version are written */
    struct znode *cursor; /* next node of the walk, NULL: the end */
    struct buf pending;   /* records from begin and from changes that are not written yet */
    uint64_t chain;       /* checksum of all blocks so far */
    int64_t sessions;     /* records so far */
    int64_t acls;
    int64_t nodes;
    int64_t others; /* records of other kinds, without counters and end */
};

struct state {
    struct tree tree;
    struct map sessions;
    struct batch_origin *origins; /* by id, ascending */
    size_t origins_count;
    size_t origins_cap;
    int64_t zxid;    /* of the last applied command */
    int64_t time_ms; /* of its batch; 0: no batch, or one of version 2 */
    struct configuration configuration;
    struct state_mirror mirror; /* id 0: none; source is own */
    uint64_t nodes_digest;      /* sum over all nodes */
    uint64_t sessions_digest;   /* sum over all sessions */
    uint64_t undo_digest;       /* nodes_digest when the command began */
    struct account account;     /* memory of the state */
    struct undo *undo;
    size_t undo_count;
    size_t undo_cap;
    struct buf scratch; /* the ACL of the current write */
    struct buf name;    /* sequential path of the current write */
    struct buf quota;   /* path of the quota that limits it */
    struct fence_index fence;
    struct multi_checks checks;
    struct acl_decisions *decisions; /* for the current command or read */
    struct snapshot snapshot;
};

/* One command that is being applied. */
struct write {
    struct state *s;
    const struct command *command;
    int64_t zxid;
    int64_t time_ms;
    int64_t origin; /* server of the session's client; 0: unknown */
    struct effects *effects;
    struct slice path; /* of the last created or removed node; valid until the next event */
    bool bounded;      /* COMMAND_BOUNDED */
    int64_t acl_bytes; /* bytes of all lists that it has stored so far */
    /* Nodes that the command visits besides those that it names: computed from the tree, because the nodes really
     * visited may differ between servers. */
    int64_t looked_at;
};

/* Ends the process if memory is out: inside apply, every other reaction would make the states diverge. */
static inline void state_need(bool have_memory)
{
    if (!have_memory) {
        abort();
    }
}

/* --- state.c --- */
/* A state with only the node "/", and no sessions. NULL: out of memory. */
struct state *state_create_empty(const struct hash_key *key);

/* A change begins: data that the last events borrowed become invalid. */
void state_begin(struct state *s);

/* --- sessions.c --- */
struct session *session_find(const struct state *s, int64_t id);
/* Adds a session, or makes an existing one equal to it. NULL: out of memory. */
struct session *session_put(struct state *s, const struct state_session *like);
void sessions_free(struct state *s);
/* Removes the owners of all sessions. */
void sessions_disown(struct state *s);
/* Whether the command's session may write: 0, CONCLAVE_SESSION_EXPIRED, CONCLAVE_SESSION_MOVED. */
int write_check_session(const struct write *w);
int write_create_session(struct write *w);
int write_attach_session(struct write *w);
int write_close_session(struct write *w);
/* Deletes the session's nodes and the session. */
void session_end(struct write *w, struct session *session);

/* --- batch_origins.c --- */
/* Sets the sequence of an origin. False: out of memory. */
bool origin_put(struct state *s, int64_t id, int64_t sequence);
/* Gives s the origins of another state. */
void origins_copy(struct state *s, const struct state *from);

/* --- mirror.c --- */
/* Copies. False: out of memory. */
bool mirror_set(struct state *s, const struct state_mirror *m);
void mirror_clear(struct state *s);
bool mirror_source_valid(struct slice source);
int write_mirror_begin(struct write *w);
int write_mirror_end(struct write *w);

/* --- write.c: each function checks, changes the tree and reports events; the undo list reverts the changes --- */
/* A create of any kind. `type` is the operation, `ret` the new node. */
int write_create(struct write *w, int32_t type, const struct wire_create_ttl_request *r,
                 struct znode **ret);
/* The consequences of a new node under /zookeeper/quota, after the create was answered. */
void write_created(struct write *w, const struct znode *node);
int write_delete(struct write *w, const struct wire_delete_request *r);
int write_set_data(struct write *w, const struct wire_set_data_request *r, struct znode **ret);
int write_check(struct write *w, const struct wire_check_version_request *r);
int write_set_acl(struct write *w, const struct wire_set_acl_request *r, struct znode **ret);
/* Adds a node below its parent and reports the events; takes spec's reference of the ACL. */
struct znode *write_add(struct write *w, struct znode *parent, const struct znode_spec *spec);
/* Deletes a childless node and reports the events. */
void write_remove(struct write *w, struct znode *node);
/* Gives a node other data, with an undo step; the caller updates version, times and digest. */
void write_replace_data(struct state *s, struct znode *node, struct slice data);
/* Reports that a node's data changed. */
void write_tell_data(struct write *w, const struct znode *node);
/* Makes the changes final, or undoes them. */
void write_commit(struct state *s);
void write_rollback(struct state *s);

static inline bool mode_sequential(int32_t mode)
{
    return mode == WIRE_MODE_PERSISTENT_SEQUENTIAL || mode == WIRE_MODE_EPHEMERAL_SEQUENTIAL ||
           mode == WIRE_MODE_PERSISTENT_SEQUENTIAL_TTL;
}

static inline bool mode_has_ttl(int32_t mode)
{
    return mode == WIRE_MODE_PERSISTENT_TTL || mode == WIRE_MODE_PERSISTENT_SEQUENTIAL_TTL;
}

static inline bool ttl_valid(int64_t ttl_ms)
{
    return ttl_ms > 0 && ttl_ms <= TREE_TTL_MAX_MS;
}

/* --- operation.c --- */
/* Applies it and appends its reply record to the effects' reply. 0 or the error. */
int operation_run(struct write *w, const struct operation *op);

/* --- effects.c --- */
/* Empties the effects for a change with that zxid. */
void effects_begin(struct effects *e, int64_t zxid);
/* Appends the node's path to the effects' paths and returns its offset. */
size_t effects_path(struct effects *e, const struct znode *node);
/* Adds an event; its path is the first len bytes at offset, its ACL that of the node, which the table must keep. */
void effects_event(struct effects *e, enum wire_event_type type, size_t offset, size_t len,
                   const struct acl_list *acl);
/* The last event says that this ephemeral node was deleted. */
void effects_gone(struct effects *e, const struct znode *node);
/* Drops reply and events, because the command is refused. */
void effects_clear(struct effects *e);
/* Turns offsets into pointers, when nothing is added any more. */
void effects_seal(struct effects *e);

/* --- collect.c --- */
int write_collect(struct write *w, const struct spent *spent);

/* --- quota.c: the nodes below /zookeeper/quota, and their counts --- */
/* Whether a node may be created at the path or have this data: 0, or CONCLAVE_BAD_ARGUMENTS for limits or counts that
 * belong to no branch or are malformed. */
int quota_check_node(const struct write *w, struct slice path, struct slice data);
/* Checks what a create or setData would add: 0, or CONCLAVE_QUOTA_EXCEEDED; reports it in the effects. */
int quota_check(struct write *w, struct slice path, int64_t nodes, int64_t bytes);
/* Counts what a write has added or removed. */
void quota_count(struct state *s, struct slice path, int64_t nodes, int64_t bytes);
/* A node was created: if it holds the counts of a quota, they begin with the existing nodes. */
void quota_node_created(struct state *s, const struct znode *node);
/* Sets the counts of a node that holds them to what the tree has. Any other node stays. */
void quota_recount(struct state *s, struct znode *node);

/* --- query.c --- */
static inline struct wire_vector state_acl(const struct state *s, const struct znode *node)
{
    return acl_vector(acl_get(&s->tree.acls, node->acl));
}
/* Whether the caller has one of the permissions on the node. */
bool state_permits(const struct state *s, const struct znode *node, struct wire_vector ids,
                   int32_t perms);
/* Adds to the bytes of the paths of a session's nodes; other owners are not counted. */
void session_count_path(struct state *s, int64_t owner, int64_t bytes);

/* --- snapshot.c --- */
/* Call it before a node changes or is deleted: saves its old image if a snapshot still needs it. */
void snapshot_touch_slow(struct state *s, struct znode *node);
/* Call it before a node leaves the tree: the walk must not be at it. */
void snapshot_leave(struct state *s, const struct znode *node);

static inline void snapshot_touch(struct state *s, struct znode *node)
{
    if (s->snapshot.active && (node->flags & ZNODE_MARK) != s->tree.mark) {
        snapshot_touch_slow(s, node);
    }
}

#endif
