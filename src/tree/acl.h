/*
 * The lists of permissions in use; each is stored once, with a count of references. A znode holds the number of its
 * list. A number is not used again while its list is in use, nor soon after: numbers run through all of uint32 before
 * they repeat, so a number in a snapshot always means the same list as at its begin.
 */
#ifndef TREE_ACL_H
#define TREE_ACL_H

#include "base/account.h"
#include "base/hash.h"
#include "base/map.h"
#include "wire/records.h"

enum { ACL_OPEN = 0 }; /* number of {world:anyone, all permissions}; always in the table */

/* Whether this is the open list, which most nodes have. */
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
    struct hash_key key; /* for by_items, whose order must stay invisible */
    uint32_t next_id;
    struct acl_list **kept; /* lists that stay even if no znode holds them any more */
    size_t kept_count;
    size_t kept_cap;
    struct account *account; /* charged with each list; NULL: none */
};

/* 0 or CONCLAVE_ENOMEM. */
int acl_table_init(struct acl_table *t, const struct hash_key *key) CONCLAVE_MUST_USE;
void acl_table_finish(struct acl_table *t);

/* Takes a reference to the list with these entries; adds the list if it is new. 0 or CONCLAVE_ENOMEM. */
int acl_take(struct acl_table *t, struct wire_vector entries, uint32_t *ret_id) CONCLAVE_MUST_USE;

/* Adds or drops one reference to an existing list; at zero the list is removed. */
void acl_ref(struct acl_table *t, uint32_t id);
void acl_unref(struct acl_table *t, uint32_t id);

/* Keeps a list of the table until acl_release, even if no znode holds it any more: its entries can be borrowed until
 * then. 0 or CONCLAVE_ENOMEM. */
int acl_keep(struct acl_table *t, const struct acl_list *list) CONCLAVE_MUST_USE;
void acl_release(struct acl_table *t);

/* Whether there is a list with these entries. */
bool acl_known(const struct acl_table *t, struct wire_vector entries);

/* The list of that number, or NULL. */
const struct acl_list *acl_get(const struct acl_table *t, uint32_t id);

/* Adds a list with a given number, without references, as a snapshot contains it. 0, CONCLAVE_ENOMEM, or
 * CONCLAVE_ECORRUPT: the number or the list exists already (other than ACL_OPEN itself). */
int acl_restore(struct acl_table *t, uint32_t id, struct wire_vector entries) CONCLAVE_MUST_USE;

/* Removes lists without references. */
void acl_sweep(struct acl_table *t);

static inline struct wire_vector acl_vector(const struct acl_list *list)
{
    return (struct wire_vector){slice_make(list->items, list->len), (int32_t)list->count};
}

#endif
