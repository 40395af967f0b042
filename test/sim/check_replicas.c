#include "sim/check_replicas.h"

#include "base/map.h"
#include "sim/inside.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { STATE_EVERY = 8 }; /* entries between looks at the whole state */

static void *grow(void *array, size_t *n, uint64_t index, size_t size)
{
    if (index < *n) {
        return array;
    }
    size_t wanted = (size_t)index * 2 + 64;
    array = realloc(array, wanted * size);
    if (array == NULL) {
        abort();
    }
    memset((char *)array + *n * size, 0, (wanted - *n) * size);
    *n = wanted;
    return array;
}

static void look_at_state(struct sim *s, struct machine *m, uint64_t index)
{
    struct replica_record *r = &s->checks.replicas[index];
    uint64_t digest = state_digest(m->inside->service.state);
    if (r->state == 0) {
        r->state = digest;
    } else if (r->state != digest) {
        world_violation(&s->world, "server %u has another state than server %u after entry %llu",
                        m->id, r->first, (unsigned long long)index);
    }
}

bool check_replicas_applied(struct sim *s, struct machine *m, uint64_t index, struct slice payload)
{
    struct checks *c = &s->checks;
    uint64_t digest = hash_bytes(payload.data, payload.len) | 1;
    c->replicas = grow(c->replicas, &c->n_replicas, index, sizeof *c->replicas);
    struct replica_record *r = &c->replicas[index];
    bool first = r->entry == 0;
    if (first) {
        r->entry = digest;
        r->first = m->id;
    } else if (r->entry != digest) {
        world_violation(&s->world, "server %u applies another entry %llu than server %u did", m->id,
                        (unsigned long long)index, r->first);
    }
    if (index % STATE_EVERY == 0) {
        look_at_state(s, m, index);
    }
    return first;
}

void check_replicas_leader(struct sim *s, struct machine *m, uint64_t term)
{
    struct checks *c = &s->checks;
    c->leaders = grow(c->leaders, &c->n_terms, term, sizeof *c->leaders);
    if (c->leaders[term] != 0 && c->leaders[term] != m->id) {
        world_violation(&s->world, "servers %u and %u lead in term %llu", c->leaders[term], m->id,
                        (unsigned long long)term);
    }
    c->leaders[term] = m->id;
}

void check_replicas_end(struct sim *s)
{
    uint64_t first = state_digest(s->machines[1].inside->service.state);
    for (unsigned id = 2; id <= s->n_machines; id++) {
        if (state_digest(s->machines[id].inside->service.state) != first) {
            world_violation(&s->world, "servers 1 and %u have different states in the end", id);
        }
    }
}
