#include "admin/http/connection_slots.h"

#include <string.h>

void place_take(struct place *p, struct list *places, const char *host, uint64_t now_ms)
{
    p->since_ms = now_ms;
    p->state = PLACE_OPENING;
    p->leaving = false;
    client_address_name(host, p->address);
    list_push_back(places, &p->node);
}

void place_renew(struct place *p, struct list *places, uint64_t now_ms)
{
    p->since_ms = now_ms;
    p->state = PLACE_IDLE;
    list_remove(&p->node);
    list_push_back(places, &p->node);
}

/* The one that has waited longest in this state. */
static struct place *places_oldest(struct list *places, enum place_state state)
{
    LIST_FOREACH (it, places) {
        struct place *p = CONTAINER_OF(it, struct place, node);
        if (!p->leaving && p->state == state) {
            return p;
        }
    }
    return NULL;
}

static bool is_late(const struct place *p, uint64_t now_ms)
{
    return !p->leaving && p->state == PLACE_OPENING && now_ms - p->since_ms >= PLACES_GRACE_MS;
}

/* The oldest connection of an address with too many that complete no request. */
static struct place *places_crowd(struct list *places, uint64_t now_ms)
{
    LIST_FOREACH (it, places) {
        struct place *p = CONTAINER_OF(it, struct place, node);
        size_t same = 0;
        if (!is_late(p, now_ms)) {
            continue;
        }
        LIST_FOREACH (other, places) {
            const struct place *q = CONTAINER_OF(other, struct place, node);
            same += is_late(q, now_ms) && strcmp(p->address, q->address) == 0;
        }
        if (same > PLACES_PER_ADDRESS) {
            return p;
        }
    }
    return NULL;
}

struct place *places_surplus(struct list *places, uint64_t now_ms)
{
    size_t count = 0;
    struct place *p = NULL;
    LIST_FOREACH (it, places) {
        count += !CONTAINER_OF(it, struct place, node)->leaving;
    }
    for (int state = PLACE_OPENING; count > PLACES_MAX && p == NULL && state < PLACE_PATIENT;
         state++) {
        p = places_oldest(places, state);
    }
    p = p != NULL ? p : places_crowd(places, now_ms);
    if (p != NULL) {
        p->leaving = true;
    }
    return p;
}
