/*
 * Derived facts about bindings, so that a write needs no walk below /zookeeper/fence and no search of a lock's
 * contenders. All of them follow from the tree, are computed on demand, and are not part of digest or snapshot.
 */
#ifndef STATE_FENCE_INDEX_H
#define STATE_FENCE_INDEX_H

#include "wire/fence_records.h"

struct state;
struct znode;

/* Limit of nodes below FENCE_ROOT: so few that a command may read all of them again for each of its changes. */
enum { FENCE_NODES_MAX = 1024 };

/* The result of a search for the first contender of a lock. It is valid while the set of children is the same, and even
 * longer while that contender exists, because later ones come after it. */
struct fence_memo {
    int64_t at; /* zxid of the command that searched; 0: none */
    int64_t lock_czxid;
    int64_t lock_pzxid;
    int32_t lock_cversion;
    uint32_t lock_children;
    int64_t czxid;   /* of the first contender; 0: none */
    struct buf path; /* its path */
};

struct fence_binding {
    struct slice prefix; /* borrowed from text */
    struct fence_terms terms;
    struct znode *node;
    struct buf text;        /* bytes of prefix and terms */
    struct fence_memo memo; /* only in the first binding of each lock */
    struct fence_binding
        *keeper;  /* that binding: children are searched once for all bindings of a lock */
    size_t noted; /* its position in `before` plus 1; 0: the current command did not change it */
};

/* A binding as it was before the current command. */
struct fence_before {
    struct fence_binding *binding;
    int64_t until_ms;
    struct fence_memo memo;
    bool has_path; /* otherwise the memo's path is still in the binding */
};

struct fence_index {
    bool known;                     /* the lists agree with the tree */
    bool changed;                   /* changed by the current command: a rollback needs new lists */
    struct fence_binding *bindings; /* by prefix */
    struct fence_binding **by_lock; /* the same by path of the lock */
    struct fence_binding **by_node; /* the same by address of their nodes */
    size_t count;
    struct buf path;             /* for a look-up, or for a binding being written */
    int64_t changed_at;          /* zxid of the last command that changed a binding in this run */
    struct fence_before *before; /* what a rollback restores without reading the tree */
    size_t before_count;
    size_t before_cap;
};

void fence_index_init(struct fence_index *f);
void fence_index_finish(struct fence_index *f);
/* The bindings changed. */
void fence_index_forget(struct fence_index *f);

/* The current command is about to change the terms or the memo of a binding. */
void fence_note(struct state *s, struct fence_binding *b);
/* fence_commit: the command succeeded. fence_rollback: it failed; restores terms and memos, so that a lock's children
 * need not be searched again. */
void fence_commit(struct state *s);
void fence_rollback(struct state *s);

/* Whether the path is top or below it. */
bool fence_is_within(struct slice path, struct slice top);

/* The binding that decides about a path, or NULL. */
struct fence_binding *fence_find(struct state *s, struct slice path);

/* The bindings to a lock; NULL and 0: none. */
struct fence_binding **fence_of_lock(struct state *s, struct slice lock, size_t *ret_count);

/* The node of the first contender for the binding's lock, or NULL; valid until the next change. zxid: of the current
 * command, or one above the last. */
const struct znode *fence_first(struct state *s, struct fence_binding *b, int64_t zxid);

/* A child of a node was created or deleted; the tree has changed. The memo of a lock stays valid, so that its children
 * are not searched again, unless the first contender was deleted. `went` returns whether the child was a contender for
 * a bound lock. */
void fence_child_came(struct state *s, const struct znode *child, int64_t zxid);
bool fence_child_went(struct state *s, const struct znode *child, int64_t zxid);

/* The same for a path to which nothing is bound: searches all children. */
const struct znode *fence_scan(const struct znode *lock);

/* Whether a contender wants less than the whole lock. */
bool fence_is_reader(const struct znode *contender);

#endif
