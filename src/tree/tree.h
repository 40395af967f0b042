/*
 * The znodes in memory: found by path with one hash look-up, and linked to parent and siblings. Pure data: permissions,
 * versions and errors belong to the room state. A znode stores its name, not its path; data that only parents or only
 * owned nodes need are allocated separately. A leaf with a name of at most 15 bytes is one block of 104 bytes besides
 * its data, a size that malloc provides without slack.
 *
 * Stats follow Apache ZooKeeper's DataTree: `cversion` here counts creates below a node; on the wire it is
 * 2 * cversion - children, so that it counts creates and deletes.
 */
#ifndef TREE_TREE_H
#define TREE_TREE_H

#include "base/account.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "tree/acl.h"

/* Data of a znode: empty data have a block of length 0, null data have none. */
struct znode_data {
    uint32_t len;
    uint8_t bytes[];
};

/* Only for nodes that had children once, or an aversion other than 0. */
struct znode_dir {
    struct znode_data *data;
    struct znode *first; /* oldest child or NULL */
    struct znode *last;
    uint32_t count;       /* children */
    int32_t cversion;     /* children ever created, wrapping */
    int64_t pzxid;        /* last create or delete of a child; without a dir: czxid */
    uint64_t below_bytes; /* bytes of data of the nodes that `below` counts */
    uint32_t below;       /* nodes of the branch without its root */
    int32_t aversion;
};

/* Only for owned nodes; in memory directly before the znode. */
struct znode_owner {
    int64_t owner;    /* session, TREE_OWNER_CONTAINER, or tree_ttl_owner */
    struct list link; /* in the session's list, or in tree.extended */
};

enum znode_flags {
    ZNODE_OWNED = 1,       /* a znode_owner is before it */
    ZNODE_MARK = 2,        /* compared with tree.mark: whether the running snapshot has it */
    ZNODE_PLACEHOLDER = 4, /* replaces a parent that a snapshot has not brought yet */
    ZNODE_DIR = 8,         /* has a znode_dir, and its data there */
};

struct znode {
    struct map_node map; /* in tree.nodes, by path; key_len: bytes of the name */
    struct znode *parent;
    struct znode *prev; /* siblings, oldest first */
    struct znode *next;
    union {
        struct znode_data *data; /* or NULL */
        struct znode_dir *dir;   /* with ZNODE_DIR */
    } body;
    int64_t czxid;
    int64_t mzxid;
    int64_t ctime;
    int64_t mtime;
    int32_t version;
    uint32_t acl; /* number of its list in tree.acls */
    uint8_t flags;
    char name[]; /* without NUL; empty for "/" */
};

#define TREE_OWNER_CONTAINER INT64_MIN

/* Kinds of owner, known from the number alone: no session id begins with the bytes 0xff, 0, 0, and every TTL fits into
 * the other five. See ZooKeeper's EphemeralType. */
enum tree_owner { TREE_OWNER_NONE, TREE_OWNER_SESSION, TREE_OWNER_IS_CONTAINER, TREE_OWNER_IS_TTL };

#define TREE_TTL_MAX_MS 0xffffffffffLL /* some 34 years */

struct tree {
    struct map nodes; /* all but the root; the order must stay invisible */
    struct hash_key key;
    struct znode *root;
    struct acl_table acls;
    struct list extended; /* containers and nodes with a TTL */
    size_t extended_count;
    size_t ephemerals;
    size_t bytes;            /* lengths of paths and data, as in approximate_data_size */
    struct account *account; /* charged with each node in the tree; NULL: none */
    uint8_t mark;            /* 0 or ZNODE_MARK */
};

/* Begins with an empty root, the open ACL, zxid and times 0. The key is random, so that clients cannot choose paths
 * that share a bucket; equal trees may have different keys. 0 or CONCLAVE_ENOMEM. */
int tree_init(struct tree *t, const struct hash_key *key) CONCLAVE_MUST_USE;
void tree_finish(struct tree *t);

/* The node at a path, or NULL. As in ZooKeeper, "" is "/"; a malformed path has no node. */
struct znode *tree_find(const struct tree *t, struct slice path);

/* The parts of a new node. */
struct znode_spec {
    struct slice path;
    struct slice data;  /* copied; may be null */
    uint32_t acl;       /* a reference that the node takes over */
    int64_t owner;      /* 0, a session, TREE_OWNER_CONTAINER or tree_ttl_owner */
    struct list *owned; /* list of the owning session's nodes, or NULL */
    int64_t zxid;
    int64_t time_ms;
};

/* Adds a node below parent as its youngest child, and counts the create there. NULL: out of memory. */
struct znode *tree_add(struct tree *t, struct znode *parent, const struct znode_spec *spec);

/* Removes a childless node from the tree; pzxid of the parent becomes zxid. The node still exists, for tree_put_back or
 * znode_destroy. */
void tree_take_out(struct tree *t, struct znode *node, int64_t zxid);

/* Undoes the latest tree_take_out; pzxid is the parent's value before it. `owned` as at the node's creation. */
void tree_put_back(struct tree *t, struct znode *node, int64_t pzxid, struct list *owned);

/* Frees a node that is in no tree, and drops its ACL reference. */
void znode_destroy(struct tree *t, struct znode *node);

/* Makes a block with a copy of data; NULL for null data. False: out of memory. */
bool znode_data_make(struct slice data, struct znode_data **ret);

/* Replaces the node's block and returns the old one. */
struct znode_data *tree_swap_data(struct tree *t, struct znode *node, struct znode_data *data);

/* The node's dir; makes it if there is none. NULL: out of memory. */
struct znode_dir *znode_dir_need(struct znode *node);

/* The node after this one in preorder, or NULL. */
struct znode *tree_next(const struct znode *node);

/* The number of nodes as ZooKeeper counts: the root counts twice. */
size_t tree_count(const struct tree *t);

/* --- one node --------------------------------------------------------------------------------- */

/* Bytes of the node's path. */
size_t znode_path_len(const struct znode *node);

/* Writes the path, znode_path_len bytes without NUL. */
void znode_path(const struct znode *node, char *out, size_t len);

/* Appends the path. */
void znode_append_path(const struct znode *node, struct buf *out);

/* Appends the 68 bytes of the node's stat. */
void znode_append_stat(const struct znode *node, struct buf *out);

static inline struct znode_owner *znode_owner_of(const struct znode *node)
{
    return (node->flags & ZNODE_OWNED) != 0 ? (struct znode_owner *)(uintptr_t)node - 1 : NULL;
}

static inline int64_t znode_owner(const struct znode *node)
{
    return (node->flags & ZNODE_OWNED) != 0 ? znode_owner_of(node)->owner : 0;
}

static inline enum tree_owner tree_owner_kind(int64_t owner)
{
    return owner == 0                           ? TREE_OWNER_NONE
           : owner == TREE_OWNER_CONTAINER      ? TREE_OWNER_IS_CONTAINER
           : (uint64_t)owner >> 40 == 0xff0000u ? TREE_OWNER_IS_TTL
                                                : TREE_OWNER_SESSION;
}

/* The owner of a node that lives for ttl_ms after its last change; 0 < ttl_ms <= TREE_TTL_MAX_MS. */
static inline int64_t tree_ttl_owner(int64_t ttl_ms)
{
    return (int64_t)(0xffULL << 56 | (uint64_t)ttl_ms);
}

/* The TTL of an owner of that kind. */
static inline int64_t tree_owner_ttl_ms(int64_t owner)
{
    return (int64_t)((uint64_t)owner & ~(0xffULL << 56));
}

static inline bool znode_is_ephemeral(const struct znode *node)
{
    return tree_owner_kind(znode_owner(node)) == TREE_OWNER_SESSION;
}

/* The node's dir, or NULL. */
static inline struct znode_dir *znode_dir(const struct znode *node)
{
    return (node->flags & ZNODE_DIR) != 0 ? node->body.dir : NULL;
}

static inline struct znode *znode_first_child(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? dir->first : NULL;
}

static inline uint32_t znode_children(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? dir->count : 0;
}

static inline uint32_t znode_below(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? dir->below : 0;
}

static inline int32_t znode_cversion(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? dir->cversion : 0;
}

static inline int32_t znode_aversion(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? dir->aversion : 0;
}

static inline int64_t znode_pzxid(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    return dir != NULL ? dir->pzxid : node->czxid;
}

static inline struct slice znode_data(const struct znode *node)
{
    const struct znode_dir *dir = znode_dir(node);
    const struct znode_data *data = dir != NULL ? dir->data : node->body.data;
    return data != NULL ? slice_make(data->bytes, data->len) : SLICE_NULL;
}

static inline struct slice znode_name(const struct znode *node)
{
    return slice_make(node->name, node->map.key_len);
}

/* The node that embeds this owner link. */
static inline struct znode *znode_of_link(struct list *link)
{
    return (struct znode *)(void *)(CONTAINER_OF(link, struct znode_owner, link) + 1);
}

#endif
