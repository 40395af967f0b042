#include "tree/acl_decisions.h"

#include "base/map.h"
#include "tree/acl_rules.h"
#include "tree/ip_range.h"

#include <assert.h>
#include <stdlib.h>

enum {
    ANSWERS = 1024,    /* remembered answers; a power of two */
    SORTED = 4,        /* lists kept sorted; a power of two */
    SHORT = 32,        /* up to this many entries times ids a list is searched unsorted */
    SLOTS_KEEP = 4096, /* slots of a list that are kept for the next one */
};

/* Entries of one scheme and id. */
struct sorted_entry {
    uint64_t hash;
    int32_t perms; /* permissions of all these entries */
    bool used;
    struct slice scheme; /* borrowed from the list */
    struct slice id;
};

struct sorted_range {
    struct ip_range range;
    int32_t perms;
};

/* A list, sorted. */
struct sorted_list {
    uint64_t epoch; /* when it was sorted */
    uint32_t number;
    int32_t anyone; /* permissions of world:anyone */
    int32_t sasl;   /* permissions of all entries of the scheme sasl, for its id "super" */
    struct sorted_entry *slots;
    size_t slots_mask;
    struct sorted_range *ranges;
    size_t ranges_count;
};

struct answer {
    uint64_t epoch;
    uint64_t caller;
    uint32_t number;
    int32_t granted;
};

struct acl_decisions {
    struct hash_key key;
    uint64_t epoch;
    struct answer *answers; /* ANSWERS answers, allocated for the first; NULL: none yet */
    struct sorted_list lists[SORTED];
};

struct acl_decisions *acl_decisions_create(const struct hash_key *key)
{
    struct acl_decisions *d = calloc(1, sizeof *d);
    if (d != NULL) {
        d->key = *key;
        d->epoch = 1;
    }
    return d;
}

static void sorted_finish(struct sorted_list *list)
{
    free(list->slots);
    free(list->ranges);
    *list = (struct sorted_list){.epoch = 0};
}

void acl_decisions_destroy(struct acl_decisions *d)
{
    if (d == NULL) {
        return;
    }
    for (size_t i = 0; i < SORTED; i++) {
        sorted_finish(&d->lists[i]);
    }
    free(d->answers);
    free(d);
}

void acl_decisions_begin(struct acl_decisions *d)
{
    d->epoch++;
}

/* --- a sorted list ---------------------------------------------------------------------------- */

static uint64_t entry_hash(const struct acl_decisions *d, struct slice scheme, struct slice id)
{
    return hash_keyed(&d->key, id.data, id.len) + (scheme.len > 0 ? scheme.data[0] : 0);
}

/* The entry with this scheme and id, or the free slot for it. */
static struct sorted_entry *sorted_find(const struct sorted_list *list, uint64_t hash,
                                        struct slice scheme, struct slice id)
{
    size_t i = hash & list->slots_mask;
    while (list->slots[i].used &&
           (list->slots[i].hash != hash || !slice_equal(list->slots[i].id, id) ||
            !slice_equal(list->slots[i].scheme, scheme))) {
        i = (i + 1) & list->slots_mask;
    }
    return &list->slots[i];
}

static bool sorted_reserve(struct sorted_list *list, int32_t count)
{
    size_t slots = 8;
    while (slots < 2 * (size_t)count) {
        slots *= 2;
    }
    if (list->slots == NULL || list->slots_mask + 1 != slots) {
        sorted_finish(list);
        list->slots = calloc(slots, sizeof *list->slots);
        list->ranges = calloc(slots / 2, sizeof *list->ranges);
        if (list->slots == NULL || list->ranges == NULL) {
            sorted_finish(list);
            return false;
        }
        list->slots_mask = slots - 1;
    } else {
        memset(list->slots, 0, slots * sizeof *list->slots);
    }
    list->ranges_count = 0;
    list->anyone = 0;
    list->sasl = 0;
    return true;
}

static void sorted_add(const struct acl_decisions *d, struct sorted_list *list,
                       const struct wire_acl *entry)
{
    const struct wire_id *id = &entry->id;
    if (slice_equal_str(id->scheme, "world")) {
        list->anyone |= slice_equal_str(id->id, "anyone") ? entry->perms : 0;
        return;
    }
    if (slice_equal_str(id->scheme, "ip")) {
        struct sorted_range *range = &list->ranges[list->ranges_count];
        assert(list->ranges_count <
               (list->slots_mask + 1) / 2); /* so there is room for every entry */
        range->perms = entry->perms;
        list->ranges_count += ip_range_parse(id->id, &range->range);
        return;
    }
    list->sasl |= slice_equal_str(id->scheme, "sasl") ? entry->perms : 0;
    uint64_t hash = entry_hash(d, id->scheme, id->id);
    struct sorted_entry *slot = sorted_find(list, hash, id->scheme, id->id);
    *slot = (struct sorted_entry){hash, slot->perms | entry->perms, true, id->scheme, id->id};
}

/* The sorted list; NULL: out of memory. */
static const struct sorted_list *sorted_get(struct acl_decisions *d, uint32_t number,
                                            struct wire_vector acl)
{
    struct sorted_list *list = &d->lists[number & (SORTED - 1)];
    if (list->epoch == d->epoch && list->number == number) {
        return list;
    }
    if (list->slots_mask >= SLOTS_KEEP) {
        sorted_finish(list);
    }
    if (!sorted_reserve(list, acl.count)) {
        return NULL;
    }
    list->epoch = d->epoch;
    list->number = number;
    struct wire_acl entry;
    while (wire_next_acl(&acl, &entry)) {
        sorted_add(d, list, &entry);
    }
    return list;
}

/* The permissions that one id of a caller gets. */
static int32_t sorted_granted_to(const struct acl_decisions *d, const struct sorted_list *list,
                                 const struct wire_id *caller)
{
    struct slice scheme = caller->scheme;
    struct ip_address address;
    int32_t granted = 0;
    if (slice_equal_str(scheme, "super")) {
        return -1;
    }
    if (slice_equal_str(scheme, "ip")) {
        bool good = list->ranges_count > 0 && ip_parse(caller->id, &address);
        for (size_t i = 0; good && i < list->ranges_count; i++) {
            granted |= ip_range_has(&list->ranges[i].range, &address) ? list->ranges[i].perms : 0;
        }
        return granted;
    }
    if (slice_equal_str(scheme, ACL_SCHEME_SASL_GRANT)) {
        scheme = slice_str("sasl");
    } else if (!acl_scheme_exact(scheme)) {
        return 0;
    } else if (slice_equal_str(scheme, "sasl") && slice_equal_str(caller->id, "super")) {
        return list->sasl;
    }
    const struct sorted_entry *slot =
        sorted_find(list, entry_hash(d, scheme, caller->id), scheme, caller->id);
    return slot->used ? slot->perms : 0;
}

/* --- answers ---------------------------------------------------------------------------------- */

static int32_t acl_decisions_decide(struct acl_decisions *d, uint32_t number,
                                    struct wire_vector acl, struct wire_vector ids)
{
    const struct sorted_list *list = sorted_get(d, number, acl);
    if (list == NULL) {
        return acl_granted(acl, ids);
    }
    int32_t granted = list->anyone;
    struct wire_id caller;
    while (wire_next_id(&ids, &caller)) {
        granted |= sorted_granted_to(d, list, &caller);
    }
    return granted;
}

bool acl_decisions_permit(struct acl_decisions *d, uint32_t number, struct wire_vector acl,
                          uint64_t caller, struct wire_vector ids, int32_t perms)
{
    if (acl.count <= 0 || (int64_t)acl.count * (ids.count > 0 ? ids.count : 1) <= SHORT) {
        return acl_permits(acl, ids, perms);
    }
    if (d->answers == NULL) {
        d->answers = calloc(ANSWERS, sizeof *d->answers);
    }
    if (d->answers == NULL) {
        int32_t granted = acl_decisions_decide(d, number, acl, ids);
        return granted == -1 || (granted & perms) != 0;
    }
    struct answer *answer = &d->answers[hash_number(caller + number) & (ANSWERS - 1)];
    if (answer->epoch != d->epoch || answer->number != number || answer->caller != caller) {
        *answer =
            (struct answer){d->epoch, caller, number, acl_decisions_decide(d, number, acl, ids)};
    }
    return answer->granted == -1 || (answer->granted & perms) != 0;
}
