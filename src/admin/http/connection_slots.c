#include "admin/http/connection_slots.h"

#include <string.h>

void slot_take(struct slot *p, struct list *slots, const char *host, uint64_t now_ms)
{
    p->since_ms = now_ms;
    p->state = SLOT_OPENING;
    net_network_name(host, p->address);
    list_push_back(slots, &p->node);
}

void slot_renew(struct slot *p, struct list *slots, uint64_t now_ms)
{
    p->since_ms = now_ms;
    p->state = SLOT_IDLE;
    list_remove(&p->node);
    list_push_back(slots, &p->node);
}

static bool slot_is_late(const struct slot *p, uint64_t now_ms)
{
    return p->state == SLOT_OPENING && now_ms - p->since_ms >= SLOTS_GRACE_MS;
}

/* The slot that has waited longest in this state, and at least that long. */
static struct slot *slots_oldest(struct list *slots, enum slot_state state, uint64_t now_ms,
                                 uint64_t least_ms)
{
    LIST_FOREACH (it, slots) {
        struct slot *p = CONTAINER_OF(it, struct slot, node);
        if (p->state == state && now_ms - p->since_ms >= least_ms) {
            return p;
        }
    }
    return NULL;
}

/* The oldest connection of an address with too many that complete no request. */
static struct slot *slots_crowd(struct list *slots, uint64_t now_ms)
{
    LIST_FOREACH (it, slots) {
        struct slot *p = CONTAINER_OF(it, struct slot, node);
        size_t same = 0;
        if (!slot_is_late(p, now_ms)) {
            continue;
        }
        LIST_FOREACH (other, slots) {
            const struct slot *q = CONTAINER_OF(other, struct slot, node);
            same += slot_is_late(q, now_ms) && strcmp(p->address, q->address) == 0;
        }
        if (same > SLOTS_PER_ADDRESS) {
            return p;
        }
    }
    return NULL;
}

/* The connection that must give its slot to a newer one. A connection that has just come will soon send its request. */
static struct slot *slots_least_useful(struct list *slots, uint64_t now_ms)
{
    struct slot *p = slots_oldest(slots, SLOT_OPENING, now_ms, SLOTS_GRACE_MS);
    p = p != NULL ? p : slots_oldest(slots, SLOT_IDLE, now_ms, 0);
    p = p != NULL ? p : slots_oldest(slots, SLOT_OPENING, now_ms, 0);
    return p != NULL ? p : slots_oldest(slots, SLOT_ANSWERING, now_ms, 0);
}

struct slot *slots_surplus(struct list *slots, uint64_t now_ms)
{
    size_t count = 0;
    for (const struct list *it = slots->next; it != slots; it = it->next) {
        count++;
    }
    struct slot *p = count > SLOTS_MAX ? slots_least_useful(slots, now_ms) : NULL;
    p = p != NULL ? p : slots_crowd(slots, now_ms);
    if (p != NULL) {
        list_remove(&p->node);
    }
    return p;
}
