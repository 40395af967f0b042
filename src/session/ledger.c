#include "session/ledger.h"

#include <assert.h>
#include <stdlib.h>

struct session_ledger {
    struct map by_id;
    struct list rings[LEDGER_RINGS]; /* oldest first */
    size_t counts[LEDGER_RINGS];
    size_t max;
};

struct session_ledger *session_ledger_create(size_t max)
{
    struct session_ledger *l = calloc(1, sizeof *l);
    assert(max > 0);
    if (l == NULL) {
        return NULL;
    }
    map_init(&l->by_id);
    for (size_t i = 0; i < LEDGER_RINGS; i++) {
        list_init(&l->rings[i]);
    }
    l->max = max;
    return l;
}

void session_ledger_destroy(struct session_ledger *l)
{
    if (l == NULL) {
        return;
    }
    struct map_node *next;
    for (struct map_node *node = map_take_all(&l->by_id); node != NULL; node = next) {
        next = node->next;
        free(CONTAINER_OF(node, struct ledger_record, node));
    }
    free(l);
}

static bool record_has_id(const struct map_node *node, const void *key)
{
    return CONTAINER_OF(node, struct ledger_record, node)->id == *(const int64_t *)key;
}

struct ledger_record *session_ledger_find(const struct session_ledger *l, int64_t id)
{
    struct map_node *node = map_find(&l->by_id, hash_number((uint64_t)id), record_has_id, &id);
    return node != NULL ? CONTAINER_OF(node, struct ledger_record, node) : NULL;
}

/* Takes the record out of its ring. */
static void record_unlink(struct session_ledger *l, struct ledger_record *r)
{
    assert(l->counts[r->ring] > 0);
    list_remove(&r->link);
    l->counts[r->ring]--;
}

static void record_link(struct session_ledger *l, struct ledger_record *r, enum ledger_ring ring)
{
    r->ring = ring;
    list_push_back(&l->rings[ring], &r->link);
    l->counts[ring]++;
    assert(l->counts[ring] <= l->max);
}

/* Takes the ring's oldest record out, if the ring is full, and returns it; otherwise NULL. */
static struct ledger_record *ring_overflow(struct session_ledger *l, enum ledger_ring ring)
{
    if (l->counts[ring] < l->max) {
        return NULL;
    }
    struct ledger_record *r = CONTAINER_OF(l->rings[ring].next, struct ledger_record, link);
    record_unlink(l, r);
    map_remove(&l->by_id, &r->node);
    return r;
}

struct ledger_record *session_ledger_put(struct session_ledger *l, int64_t id,
                                         enum ledger_ring ring)
{
    struct ledger_record *r = session_ledger_find(l, id);
    if (r != NULL) {
        record_unlink(l, r);
        free(ring_overflow(l, ring));
        record_link(l, r, ring);
        return r;
    }
    r = ring_overflow(l, ring);
    if (r == NULL && (r = malloc(sizeof *r)) == NULL) {
        return NULL;
    }
    *r = (struct ledger_record){.id = id};
    list_init(&r->link);
    if (map_insert(&l->by_id, &r->node, hash_number((uint64_t)id)) != 0) {
        free(r);
        return NULL;
    }
    record_link(l, r, ring);
    assert(map_count(&l->by_id) <= LEDGER_RINGS * l->max);
    return r;
}

void session_ledger_forget(struct session_ledger *l, int64_t id)
{
    struct ledger_record *r = session_ledger_find(l, id);
    if (r != NULL) {
        record_unlink(l, r);
        map_remove(&l->by_id, &r->node);
        free(r);
    }
}

void session_ledger_each(const struct session_ledger *l, enum ledger_ring ring,
                         bool (*fn)(void *ctx, const struct ledger_record *r), void *ctx)
{
    const struct list *records = &l->rings[ring];
    for (struct list *it = records->prev; it != records; it = it->prev) {
        if (!fn(ctx, CONTAINER_OF(it, struct ledger_record, link))) {
            return;
        }
    }
}

size_t session_ledger_count(const struct session_ledger *l, enum ledger_ring ring)
{
    return l->counts[ring];
}
