/*
 * The origins of batches. A server sends its clients' batches again whenever the leader may have lost them. That is
 * harmless because every server keeps the sequence of each origin's last batch here.
 */
#include "state/state_internal.h"

#include <assert.h>

/* Position of the first origin whose id is not less than id. */
static size_t origin_place(const struct state *s, int64_t id)
{
    size_t low = 0;
    size_t high = s->origins_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->origins[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct batch_origin *origin_at(const struct state *s, size_t place, int64_t id)
{
    bool there = place < s->origins_count && s->origins[place].id == id;
    return there ? &s->origins[place] : NULL;
}

bool origin_put(struct state *s, int64_t id, int64_t sequence)
{
    size_t place = origin_place(s, id);
    struct batch_origin *origin = origin_at(s, place, id);
    if (origin == NULL) {
        if (!array_room(&s->origins, s->origins_count, &s->origins_cap, sizeof *s->origins)) {
            return false;
        }
        origin = &s->origins[place];
        memmove(origin + 1, origin, (s->origins_count - place) * sizeof *origin);
        s->origins_count++;
        origin->id = id;
        assert(place == 0 || origin[-1].id < id);
        assert(place + 1 == s->origins_count || id < origin[1].id);
    }
    origin->sequence = sequence;
    return true;
}

void origins_copy(struct state *s, const struct state *from)
{
    s->origins_count = 0;
    for (size_t i = 0; i < from->origins_count; i++) {
        state_need(origin_put(s, from->origins[i].id, from->origins[i].sequence));
    }
}

int64_t state_origin_sequence(const struct state *s, int64_t origin)
{
    const struct batch_origin *found = origin_at(s, origin_place(s, origin), origin);
    return found != NULL ? found->sequence : 0;
}

enum state_batch state_batch_admit(struct state *s, const struct batch_header *header)
{
    if (header->origin == BATCH_ORIGIN_LEADER || header->previous == BATCH_PREVIOUS_UNKNOWN) {
        return STATE_BATCH_APPLY;
    }
    int64_t last = state_origin_sequence(s, header->origin);
    if (header->sequence <= last) {
        return STATE_BATCH_DUPLICATE;
    }
    if (header->previous != 0 && header->previous != last) {
        return STATE_BATCH_GAP;
    }
    state_need(origin_put(s, header->origin, header->sequence));
    return STATE_BATCH_APPLY;
}
