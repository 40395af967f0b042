#include "admin/console/handovers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void handovers_init(struct handovers *h, const struct hash_key *key)
{
    *h = (struct handovers){.key = *key};
    map_init(&h->lines);
    for (int ring = 0; ring < HANDOVER_RINGS; ring++) {
        list_init(&h->rings[ring]);
    }
}

void handovers_finish(struct handovers *h)
{
    struct map_node *next;
    for (int ring = 0; ring < HANDOVER_RINGS; ring++) {
        LIST_FOREACH (it, &h->rings[ring]) {
            free(CONTAINER_OF(it, struct handover, link));
        }
        list_init(&h->rings[ring]);
        h->count[ring] = 0;
    }
    for (struct map_node *n = map_take_all(&h->lines); n != NULL; n = next) {
        next = n->next;
        free(CONTAINER_OF(n, struct handover_line, node));
    }
    map_finish(&h->lines);
}

static bool line_has_path(const struct map_node *node, const void *key)
{
    const struct slice *path = key;
    const struct handover_line *line =
        (const void *)((const char *)node - offsetof(struct handover_line, node));
    return slice_equal(slice_make(line->path, line->path_len), *path);
}

struct handover_line *handovers_line(const struct handovers *h, struct slice path)
{
    struct map_node *node =
        map_find(&h->lines, hash_keyed(&h->key, path.data, path.len), line_has_path, &path);
    return node != NULL ? CONTAINER_OF(node, struct handover_line, node) : NULL;
}

static struct handover_line *line_make(struct handovers *h, struct slice path)
{
    struct handover_line *line = calloc(1, sizeof *line + path.len);
    if (line == NULL) {
        return NULL;
    }
    for (int ring = 0; ring < HANDOVER_RINGS; ring++) {
        list_init(&line->rings[ring]);
    }
    line->path_len = path.len;
    memcpy(line->path, path.data, path.len);
    if (map_insert(&h->lines, &line->node, hash_keyed(&h->key, path.data, path.len)) != 0) {
        free(line);
        return NULL;
    }
    return line;
}

/* The last record of a line takes the line along, unless that is `kept`. */
static void record_drop(struct handovers *h, struct handover *r, const struct handover_line *kept)
{
    struct handover_line *line = r->line;
    size_t left = 0;
    assert(h->count[r->ring] > 0 && line->count[r->ring] > 0);
    list_remove(&r->link);
    list_remove(&r->mine);
    h->count[r->ring]--;
    line->count[r->ring]--;
    free(r);
    for (int ring = 0; ring < HANDOVER_RINGS; ring++) {
        left += line->count[ring];
    }
    if (left == 0 && line != kept) {
        map_remove(&h->lines, &line->node);
        free(line);
    }
}

struct handover *handovers_add(struct handovers *h, struct slice path, enum handover_ring ring)
{
    struct handover *r = path.len <= HANDOVER_PATH_MAX ? calloc(1, sizeof *r) : NULL;
    struct handover_line *line = r != NULL ? handovers_line(h, path) : NULL;
    if (r != NULL && line == NULL) {
        line = line_make(h, path);
    }
    if (line == NULL) {
        free(r);
        return NULL;
    }
    assert(ring < HANDOVER_RINGS && line->count[ring] <= HANDOVERS_PER_LINE);
    if (line->count[ring] == HANDOVERS_PER_LINE) {
        record_drop(h, CONTAINER_OF(line->rings[ring].prev, struct handover, mine), line);
    } else if (h->count[ring] == HANDOVERS_PER_RING) {
        record_drop(h, CONTAINER_OF(h->rings[ring].prev, struct handover, link), line);
    }
    r->line = line;
    r->ring = ring;
    list_push_front(&h->rings[ring], &r->link);
    list_push_front(&line->rings[ring], &r->mine);
    h->count[ring]++;
    line->count[ring]++;
    return r;
}

static const struct handover *record_at(const struct list *it, bool of_line)
{
    const char *at = (const char *)it;
    return (const void *)(at - (of_line ? offsetof(struct handover, mine)
                                        : offsetof(struct handover, link)));
}

void handovers_each(const struct handovers *h, const struct handover_line *line, unsigned rings,
                    bool (*fn)(void *ctx, const struct handover *r), void *ctx)
{
    const struct list *heads = line != NULL ? line->rings : h->rings;
    const struct list *at[HANDOVER_RINGS];
    for (int ring = 0; ring < HANDOVER_RINGS; ring++) {
        at[ring] = (rings & 1u << ring) != 0 ? heads[ring].next : &heads[ring];
    }
    for (;;) {
        const struct handover *newest = NULL;
        for (int ring = 0; ring < HANDOVER_RINGS; ring++) {
            const struct handover *r =
                at[ring] != &heads[ring] ? record_at(at[ring], line != NULL) : NULL;
            newest = r != NULL && (newest == NULL || r->zxid > newest->zxid) ? r : newest;
        }
        if (newest == NULL || !fn(ctx, newest)) {
            return;
        }
        at[newest->ring] = at[newest->ring]->next;
    }
}

const char *handover_cause_name(enum handover_cause cause)
{
    static const char *const NAMES[HANDOVER_CAUSES] = {
        [HANDOVER_RELEASED] = "released", [HANDOVER_CLOSED] = "closed",
        [HANDOVER_EXPIRED] = "expired",   [HANDOVER_KILLED] = "killed",
        [HANDOVER_DELETED] = "deleted",
    };
    assert((unsigned)cause < HANDOVER_CAUSES);
    return NAMES[cause];
}
