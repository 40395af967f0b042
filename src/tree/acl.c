#include "tree/acl.h"

#include "base/list.h"

#include <assert.h>
#include <stdlib.h>

static struct acl_list *acl_of_id(struct map_node *node)
{
    return node == NULL ? NULL : CONTAINER_OF(node, struct acl_list, by_id);
}

static bool acl_equal_items(const struct map_node *node, const void *key)
{
    const struct acl_list *list = CONTAINER_OF(node, struct acl_list, by_items);
    const struct wire_vector *entries = key;
    return (int32_t)list->count == entries->count &&
           slice_equal(slice_make(list->items, list->len), entries->items);
}

static bool acl_equal_id(const struct map_node *node, const void *key)
{
    return CONTAINER_OF(node, struct acl_list, by_id)->id == *(const uint32_t *)key;
}

static struct acl_list *acl_find(const struct acl_table *t, uint32_t id)
{
    return acl_of_id(map_find(&t->by_id, hash_number(id), acl_equal_id, &id));
}

/* {world:anyone, all permissions} */
static const uint8_t open_entries[] = "\0\0\0\x1f"
                                      "\0\0\0\x05"
                                      "world"
                                      "\0\0\0\x06"
                                      "anyone";

enum { OPEN_BYTES = sizeof open_entries - 1 };

bool acl_is_open(struct wire_vector entries)
{
    return entries.count == 1 && entries.items.len == OPEN_BYTES &&
           memcmp(entries.items.data, open_entries, OPEN_BYTES) == 0;
}

static struct acl_list *acl_find_items(const struct acl_table *t, struct wire_vector entries)
{
    uint64_t hash = hash_keyed(&t->key, entries.items.data, entries.items.len);
    struct map_node *node = map_find(&t->by_items, hash, acl_equal_items, &entries);
    return node == NULL ? NULL : CONTAINER_OF(node, struct acl_list, by_items);
}

static struct acl_list *acl_add(struct acl_table *t, uint32_t id, struct wire_vector entries)
{
    struct acl_list *list = malloc(sizeof *list + entries.items.len);
    if (list == NULL) {
        return NULL;
    }
    list->id = id;
    list->kept = false;
    list->count = (uint32_t)entries.count;
    list->refs = 0;
    list->len = entries.items.len;
    memcpy(list->items, entries.items.data, entries.items.len);
    uint64_t hash = hash_keyed(&t->key, list->items, list->len);
    if (map_insert(&t->by_items, &list->by_items, hash) != 0) {
        free(list);
        return NULL;
    }
    if (map_insert(&t->by_id, &list->by_id, hash_number(id)) != 0) {
        map_remove(&t->by_items, &list->by_items);
        free(list);
        return NULL;
    }
    assert(map_count(&t->by_items) == map_count(&t->by_id));
    account_charge(t->account, ACCOUNT_NODES, sizeof *list + list->len);
    return list;
}

static void acl_remove(struct acl_table *t, struct acl_list *list)
{
    assert(list->refs == 0 && !list->kept);
    map_remove(&t->by_items, &list->by_items);
    map_remove(&t->by_id, &list->by_id);
    assert(map_count(&t->by_items) == map_count(&t->by_id));
    account_credit(t->account, ACCOUNT_NODES, sizeof *list + list->len);
    free(list);
}

int acl_table_init(struct acl_table *t, const struct hash_key *key)
{
    t->key = *key;
    t->account = NULL;
    map_init(&t->by_items);
    map_init(&t->by_id);
    t->next_id = ACL_OPEN + 1;
    t->kept = NULL;
    t->kept_count = t->kept_cap = 0;
    struct wire_vector entries = {slice_make(open_entries, OPEN_BYTES), 1};
    struct acl_list *list = acl_add(t, ACL_OPEN, entries);
    if (list == NULL) {
        acl_table_finish(t);
        return CONCLAVE_ENOMEM;
    }
    list->refs = 1; /* held by the table, so it is never removed */
    return 0;
}

void acl_table_finish(struct acl_table *t)
{
    struct map_node *next;
    for (struct map_node *n = map_take_all(&t->by_id); n != NULL; n = next) {
        next = n->next;
        free(acl_of_id(n));
    }
    map_finish(&t->by_items);
    map_finish(&t->by_id);
    free(t->kept);
    t->kept = NULL;
    t->kept_count = t->kept_cap = 0;
}

int acl_take(struct acl_table *t, struct wire_vector entries, uint32_t *ret_id)
{
    struct acl_list *list =
        acl_is_open(entries) ? acl_find(t, ACL_OPEN) : acl_find_items(t, entries);
    if (list == NULL) {
        while (acl_find(t, t->next_id) != NULL) {
            t->next_id++;
        }
        list = acl_add(t, t->next_id, entries);
        if (list == NULL) {
            return CONCLAVE_ENOMEM;
        }
        t->next_id++;
    }
    list->refs++;
    *ret_id = list->id;
    return 0;
}

void acl_ref(struct acl_table *t, uint32_t id)
{
    struct acl_list *list = acl_find(t, id);
    assert(list != NULL);
    list->refs++;
}

static void acl_put(struct acl_table *t, struct acl_list *list)
{
    assert(list != NULL && list->refs > 0);
    if (--list->refs == 0) {
        acl_remove(t, list);
    }
}

void acl_unref(struct acl_table *t, uint32_t id)
{
    acl_put(t, acl_find(t, id));
}

int acl_keep(struct acl_table *t, const struct acl_list *list)
{
    enum { KEPT_FIRST = 8 };
    if (list->kept) {
        return 0;
    }
    if (!array_room(&t->kept, t->kept_count, &t->kept_cap, sizeof *t->kept)) {
        return CONCLAVE_ENOMEM;
    }
    struct acl_list *own = acl_find(t, list->id);
    assert(own == list && own->refs > 0); /* it was in use, so it is still in the table */
    own->kept = true;
    own->refs++;
    t->kept[t->kept_count++] = own;
    return 0;
}

void acl_release(struct acl_table *t)
{
    for (size_t i = 0; i < t->kept_count; i++) {
        assert(t->kept[i]->kept);
        t->kept[i]->kept = false;
        acl_put(t, t->kept[i]);
    }
    t->kept_count = 0;
}

bool acl_known(const struct acl_table *t, struct wire_vector entries)
{
    return acl_find_items(t, entries) != NULL;
}

const struct acl_list *acl_get(const struct acl_table *t, uint32_t id)
{
    return acl_find(t, id);
}

int acl_restore(struct acl_table *t, uint32_t id, struct wire_vector entries)
{
    const struct acl_list *same = acl_find_items(t, entries);
    if (same != NULL && same->id == ACL_OPEN && id == ACL_OPEN) {
        return 0;
    }
    if (same != NULL || acl_find(t, id) != NULL) {
        return CONCLAVE_ECORRUPT;
    }
    return acl_add(t, id, entries) != NULL ? 0 : CONCLAVE_ENOMEM;
}

void acl_sweep(struct acl_table *t)
{
    struct map_node *next;
    for (struct map_node *n = map_next(&t->by_id, NULL); n != NULL; n = next) {
        next = map_next(&t->by_id, n);
        if (acl_of_id(n)->refs == 0) {
            acl_remove(t, acl_of_id(n));
        }
    }
}
