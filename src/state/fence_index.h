/*
 * What is known of the bindings of fencing beside the tree, so that a write costs neither a walk below /zookeeper/fence
 * nor one through the contenders of a lock. All of it follows from the tree, is made when it is asked for, and is no part
 * of digest or snapshot.
 */
#ifndef STATE_FENCE_INDEX_H
#define STATE_FENCE_INDEX_H

#include "wire/fence_records.h"

struct state;
struct znode;

/* Below FENCE_ROOT. So few that a command may have all of them looked at again for each of its changes. */
enum { FENCE_NODES_MAX = 1024 };

/* The contenders of a lock were looked at, and this one was the first. Good as long as the set of its children is the
 * same, and beyond that as long as this one is there: who comes later is not before it. */
struct fence_memo {
    int64_t at; /* zxid of the command that looked; 0: nobody did */
    int64_t lock_czxid;
    int64_t lock_pzxid;
    int32_t lock_cversion;
    uint32_t lock_children;
    int64_t czxid;   /* of the first; 0: there was none */
    struct buf path; /* its path */
};

struct fence_binding {
    struct slice prefix; /* in text */
    struct fence_terms terms;
    struct znode *node;
    struct buf text;        /* bytes of prefix and terms */
    struct fence_memo memo; /* of the first binding of each lock only */
    struct fence_binding
        *keeper;  /* that one: children are looked at once for all bindings of a lock */
    size_t noted; /* its place in `before`, plus 1; 0: the command in progress did not change it */
};

/* A binding as it was before the command in progress. */
struct fence_before {
    struct fence_binding *binding;
    int64_t until_ms;
    struct fence_memo memo;
    bool has_path; /* else the memo's path is still the binding's */
};

struct fence_index {
    bool known;                     /* the lists are those of the tree */
    bool changed;                   /* by the command in progress: a rollback makes another list */
    struct fence_binding *bindings; /* by prefix */
    struct fence_binding **by_lock; /* the same by path of the lock */
    struct fence_binding **by_node; /* the same by address of their nodes */
    size_t count;
    struct buf path;             /* of a look-up, or of a binding being written */
    int64_t changed_at;          /* zxid of the last command that changed a binding in this run */
    struct fence_before *before; /* what a rollback takes back without a look at the tree */
    size_t before_count;
    size_t before_cap;
};

void fence_index_init(struct fence_index *f);
void fence_index_finish(struct fence_index *f);
/* The bindings changed. */
void fence_index_forget(struct fence_index *f);

/* The command in progress is about to change the terms or the memo of a binding. */
void fence_note(struct state *s, struct fence_binding *b);
/* The command succeeded; or it is rolled back, which restores terms and memos, so that after a command that fails nobody
 * has to look at a lock's children again. */
void fence_commit(struct state *s);
void fence_rollback(struct state *s);

/* Whether the path is top or stands below it. */
bool fence_is_within(struct slice path, struct slice top);

/* The binding that decides over a path, or NULL. */
struct fence_binding *fence_find(struct state *s, struct slice path);

/* The bindings to a lock, NULL and 0 when there is none. */
struct fence_binding **fence_of_lock(struct state *s, struct slice lock, size_t *ret_count);

/* The node of the first contender for the binding's lock, or NULL; good until the next change. zxid: of the command in
 * progress, or one above the last. */
const struct znode *fence_first(struct state *s, struct fence_binding *b, int64_t zxid);

/* A child of a node came or went; the tree has changed. The memo of a lock stays valid, so that its children are not looked
 * at again, unless the first contender went. `went` returns whether the child was a contender for a bound lock. */
void fence_child_came(struct state *s, const struct znode *child, int64_t zxid);
bool fence_child_went(struct state *s, const struct znode *child, int64_t zxid);

/* The same for a path that is bound to nothing: looks at all children. */
const struct znode *fence_scan(const struct znode *lock);

/* Whether a contender asks for less than the whole lock. */
bool fence_is_reader(const struct znode *contender);

#endif
