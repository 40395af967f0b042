/*
 * The lists of permissions in use, each stored once and counted. A znode holds the number of its
 * list. A number is not given out again while it is in use, nor soon after: numbers run through all
 * of uint32 before they begin again, so a number in a snapshot always means the list it meant at
 * begin.
 */
#ifndef TREE_ACL_H
#define TREE_ACL_H

#include "base/account.h"
#include "base/hash.h"
#include "base/map.h"
#include "wire/records.h"

enum { ACL_OPEN = 0 }; /* number of {world:anyone, all permissions}; always there */

/* Whether this is that list, which most nodes have. */
bool acl_is_open(struct wire_vector entries);

/* One list. */
struct acl_list {
    struct map_node by_items; /* in the table's map by content */
    struct map_node by_id;    /* in the table's map by number */
    uint32_t id;
    bool kept;       /* listed in the table's `kept` */
    uint32_t count;  /* entries */
    uint64_t refs;   /* znodes that hold it, and the table while it is kept */
    size_t len;      /* bytes of items */
    uint8_t items[]; /* entries as on the wire (perms, scheme, id) */
};

struct acl_table {
    struct map by_items;
    struct map by_id;
    struct hash_key key; /* of by_items, whose order nobody may see */
    uint32_t next_id;
    struct acl_list **kept; /* lists that stay although no znode may hold them any more */
    size_t kept_count;
    size_t kept_cap;
    struct account *account; /* charged with each list; NULL: nobody counts */
};

/* 0 or CONCLAVE_ENOMEM. */
int acl_table_init(struct acl_table *t, const struct hash_key *key) CONCLAVE_MUST_USE;
void acl_table_finish(struct acl_table *t);

/* Takes a reference to the list with these entries, adding it when it is new. 0 or
 * CONCLAVE_ENOMEM. */
int acl_take(struct acl_table *t, struct wire_vector entries, uint32_t *ret_id) CONCLAVE_MUST_USE;

/* One reference more or less to a list that is there; at zero the list goes. */
void acl_ref(struct acl_table *t, uint32_t id);
void acl_unref(struct acl_table *t, uint32_t id);

/* Keeps a list of the table until acl_release, whatever becomes of the znodes that hold it: its entries can be
 * borrowed until then. 0 or CONCLAVE_ENOMEM. */
int acl_keep(struct acl_table *t, const struct acl_list *list) CONCLAVE_MUST_USE;
void acl_release(struct acl_table *t);

/* Whether there is a list with these entries. */
bool acl_known(const struct acl_table *t, struct wire_vector entries);

/* The list of that number, or NULL. */
const struct acl_list *acl_get(const struct acl_table *t, uint32_t id);

/* Adds a list under a given number, without references, as a snapshot holds it. 0,
 * CONCLAVE_ENOMEM, or CONCLAVE_ECORRUPT when the number or the list is there already (but for
 * ACL_OPEN itself). */
int acl_restore(struct acl_table *t, uint32_t id, struct wire_vector entries) CONCLAVE_MUST_USE;

/* Removes lists without references. */
void acl_sweep(struct acl_table *t);

static inline struct wire_vector acl_vector(const struct acl_list *list)
{
    return (struct wire_vector){slice_make(list->items, list->len), (int32_t)list->count};
}

#endif
