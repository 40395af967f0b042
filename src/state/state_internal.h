/*
 * What the files of this room share and nobody else sees: the machine's own struct, one write in
 * progress, and what the parts offer each other. Read state.c first, then write.c and multi.c.
 */
#ifndef STATE_STATE_INTERNAL_H
#define STATE_STATE_INTERNAL_H

#include "state/command_bounds.h"
#include "state/exactly_once.h"
#include "state/fence.h"
#include "state/fence_index.h"
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
    int64_t owner;                /* origin that holds its client, 0: not known */
    struct list ephemerals;       /* znode_owner.link of its nodes */
    int64_t path_bytes;           /* of their paths */
    struct once_results *results; /* of its writes; NULL: its client did not ask for it */
};

/* A server that batches came from. */
struct batch_origin {
    int64_t id;
    int64_t sequence; /* of the last one admitted */
};

/* One step of the write in progress, to be undone when a later part of its multi fails. */
struct undo {
    enum { UNDO_CREATE, UNDO_DELETE, UNDO_SET_DATA } kind;
    struct znode *node;
    struct znode_data *data; /* UNDO_SET_DATA: what it had */
    int64_t pzxid;           /* of the parent, before */
    int32_t cversion;        /* of the parent, before */
    int64_t mzxid;           /* UNDO_SET_DATA: of the node, before */
    int64_t mtime;
    int32_t version;
};

/* The snapshot being taken. */
struct snapshot {
    bool active;
    bool header_done;     /* magic and version are written out */
    struct znode *cursor; /* next node of the walk, NULL at its end */
    struct buf pending;   /* records made by begin and by changes, not written out yet */
    uint64_t chain;       /* checksum of all blocks so far */
    int64_t sessions;     /* records so far */
    int64_t acls;
    int64_t nodes;
    int64_t others; /* records of other kinds, counters and end not counted */
};

struct state {
    struct tree tree;
    struct map sessions;
    struct batch_origin *origins; /* by id, ascending */
    size_t origins_count;
    size_t origins_cap;
    int64_t zxid;    /* of the last applied command */
    int64_t time_ms; /* of its batch; 0: that was none, or one of version 2 */
    struct configuration configuration;
    uint64_t nodes_digest;    /* sum over all nodes */
    uint64_t sessions_digest; /* sum over all sessions */
    uint64_t undo_digest;     /* nodes_digest when the command began */
    struct account account;   /* what all of it takes */
    struct undo *undo;
    size_t undo_count;
    size_t undo_cap;
    struct buf scratch; /* the ACL of the write in progress */
    struct buf name;    /* its sequential path */
    struct buf quota;   /* path of the quota that it stands under */
    struct fence_index fence;
    struct multi_checks checks;
    struct acl_decisions *decisions; /* of the command or question in progress */
    struct snapshot snapshot;
};

/* One command being applied. */
struct write {
    struct state *s;
    const struct command *command;
    int64_t zxid;
    int64_t time_ms;
    int64_t origin; /* server that stands for the session's client; 0: not known */
    struct effects *effects;
    struct slice path; /* of the node created or removed last; good until the next event */
    bool bounded;      /* COMMAND_BOUNDED */
    int64_t acl_bytes; /* of all lists that it asked to store so far */
    /* Nodes to look at beside those that it names: computed from the tree, not from the nodes in fact looked at, which may
     * differ from server to server. */
    int64_t looked_at;
};

/* Ends the process when memory is out: inside apply there is no way on that does not diverge. */
static inline void state_need(bool have_memory)
{
    if (!have_memory) {
        abort();
    }
}

/* --- state.c --- */
/* A state without nodes but "/", without sessions. NULL when memory is out. */
struct state *state_create_empty(const struct hash_key *key);

/* A change begins: what the events of the last one borrowed goes. */
void state_begin(struct state *s);

/* --- sessions.c --- */
struct session *session_find(const struct state *s, int64_t id);
/* Adds it, or makes the one that is there like it. NULL when memory is out. */
struct session *session_put(struct state *s, const struct state_session *like);
void sessions_free(struct state *s);
/* No session has an owner any more. */
void sessions_disown(struct state *s);
/* Whether the command's session may write: 0, CONCLAVE_SESSION_EXPIRED, CONCLAVE_SESSION_MOVED. */
int write_check_session(const struct write *w);
int write_create_session(struct write *w);
int write_attach_session(struct write *w);
int write_close_session(struct write *w);

/* --- batch_origins.c --- */
/* The sequence that an origin has reached. False when memory is out. */
bool origin_put(struct state *s, int64_t id, int64_t sequence);
/* Gives s the origins of another state. */
void origins_copy(struct state *s, const struct state *from);

/* --- write.c: each checks, changes the tree, tells events; the undo list knows the way back --- */
/* A create of any kind. `type` is the operation, `ret` the new node. */
int write_create(struct write *w, int32_t type, const struct wire_create_ttl_request *r,
                 struct znode **ret);
/* What a new node under /zookeeper/quota means, once the create was answered. */
void write_created(struct write *w, const struct znode *node);
int write_delete(struct write *w, const struct wire_delete_request *r);
int write_set_data(struct write *w, const struct wire_set_data_request *r, struct znode **ret);
int write_check(struct write *w, const struct wire_check_version_request *r);
int write_set_acl(struct write *w, const struct wire_set_acl_request *r, struct znode **ret);
/* Adds a node below its parent and tells the events; takes spec's reference of the ACL. */
struct znode *write_add(struct write *w, struct znode *parent, const struct znode_spec *spec);
/* Deletes a childless node and tells the events. */
void write_remove(struct write *w, struct znode *node);
/* Gives a node other data, with a way back; version, times and digest are the caller's. */
void write_replace_data(struct state *s, struct znode *node, struct slice data);
/* Tells that a node's data changed. */
void write_tell_data(struct write *w, const struct znode *node);
/* Makes the changes final, or takes them back. */
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
/* Does it and appends its reply record to the effects' reply. 0 or the error. */
int operation_run(struct write *w, const struct operation *op);

/* --- effects.c --- */
/* Empties it for a change at that zxid. */
void effects_begin(struct effects *e, int64_t zxid);
/* Appends the node's path to the effects' paths and returns its offset. */
size_t effects_path(struct effects *e, const struct znode *node);
/* Adds an event; its path is the first len bytes at offset, its ACL that of the node it is about, which the table is to
 * keep. */
void effects_event(struct effects *e, enum wire_event_type type, size_t offset, size_t len,
                   const struct acl_list *acl);
/* Drops reply and events: the command is refused. */
void effects_clear(struct effects *e);
/* Makes the offsets pointers, once nothing is added any more. */
void effects_seal(struct effects *e);

/* --- collect.c --- */
int write_collect(struct write *w, const struct spent *spent);

/* --- quota.c: what stands below /zookeeper/quota, and the counts kept there --- */
/* Whether a node may be created at the path or have this data: 0, or CONCLAVE_BAD_ARGUMENTS for limits or counts that
 * belong to no subtree or are no such text. */
int quota_check_node(const struct write *w, struct slice path, struct slice data);
/* What a create or setData would bring: 0, or CONCLAVE_QUOTA_EXCEEDED; tells in the effects. */
int quota_check(struct write *w, struct slice path, int64_t nodes, int64_t bytes);
/* What it did bring, or a delete took: the counts of the quota follow. */
void quota_count(struct state *s, struct slice path, int64_t nodes, int64_t bytes);
/* A node was created: if it holds the counts of a quota, they begin with what is there. */
void quota_node_created(struct state *s, const struct znode *node);

/* --- query.c --- */
static inline struct wire_vector state_acl(const struct state *s, const struct znode *node)
{
    return acl_vector(acl_get(&s->tree.acls, node->acl));
}
/* Whether the caller has one of the permissions on the node. */
bool state_permits(const struct state *s, const struct znode *node, struct wire_vector ids,
                   int32_t perms);
/* The bytes of the paths of a session's nodes, more or less. Of other owners nothing is counted. */
void session_count_path(struct state *s, int64_t owner, int64_t bytes);

/* --- snapshot.c --- */
/* Before a node changes or goes: its old image is saved when a snapshot still needs it. */
void snapshot_touch_slow(struct state *s, struct znode *node);
/* Before a node leaves the tree: the walk must not stand on it. */
void snapshot_leave(struct state *s, const struct znode *node);

static inline void snapshot_touch(struct state *s, struct znode *node)
{
    if (s->snapshot.active && (node->flags & ZNODE_MARK) != s->tree.mark) {
        snapshot_touch_slow(s, node);
    }
}

#endif
