#include "base/refusals.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The minute of one address. */
struct minute {
    struct map_node node;
    struct list order;
    int64_t end_ms;
    uint64_t told[REFUSALS_REASONS]; /* hashes of the reasons that had a line */
    size_t told_count;
    unsigned long long untold;
    char host[]; /* NUL-terminated */
};

void refusals_init(struct refusals *r)
{
    map_init(&r->by_host);
    list_init(&r->minutes);
}

static bool minute_has_host(const struct map_node *node, const void *key)
{
    const struct minute *m = (const void *)((const char *)node - offsetof(struct minute, node));
    return strcmp(m->host, key) == 0;
}

static struct minute *refusals_oldest(const struct refusals *r)
{
    return list_empty(&r->minutes) ? NULL : CONTAINER_OF(r->minutes.next, struct minute, order);
}

static void refusals_end(struct refusals *r, struct minute *m, refusals_fn fn, void *ctx)
{
    list_remove(&m->order);
    map_remove(&r->by_host, &m->node);
    assert(list_empty(&r->minutes) == (map_count(&r->by_host) == 0));
    if (m->untold > 0 && fn != NULL) {
        fn(ctx, m->host, m->untold);
    }
    free(m);
}

void refusals_finish(struct refusals *r, refusals_fn fn, void *ctx)
{
    struct minute *m;
    while ((m = refusals_oldest(r)) != NULL) {
        refusals_end(r, m, fn, ctx);
    }
    map_finish(&r->by_host);
}

static struct minute *refusals_begin(struct refusals *r, const char *host, uint64_t hash,
                                     int64_t now_ms)
{
    size_t len = strlen(host);
    struct minute *m = calloc(1, sizeof *m + len + 1);
    if (m == NULL || map_insert(&r->by_host, &m->node, hash) != 0) {
        free(m);
        return NULL;
    }
    memcpy(m->host, host, len);
    m->end_ms = now_ms + REFUSALS_MINUTE_MS;
    list_push_back(&r->minutes, &m->order);
    return m;
}

static bool minute_tells(struct minute *m, uint64_t reason)
{
    for (size_t i = 0; i < m->told_count; i++) {
        if (m->told[i] == reason) {
            return false;
        }
    }
    if (m->told_count == REFUSALS_REASONS) {
        return false;
    }
    m->told[m->told_count++] = reason;
    return true;
}

bool refusals_add(struct refusals *r, const char *host, const char *reason, int64_t now_ms,
                  refusals_fn fn, void *ctx)
{
    uint64_t hash = hash_bytes(host, strlen(host));
    refusals_tick(r, now_ms, fn, ctx);
    struct map_node *node = map_find(&r->by_host, hash, minute_has_host, host);
    struct minute *m = node != NULL ? CONTAINER_OF(node, struct minute, node) : NULL;
    if (m == NULL && map_count(&r->by_host) >= REFUSALS_ADDRESSES) {
        refusals_end(r, refusals_oldest(r), fn, ctx);
    }
    if (m == NULL) {
        m = refusals_begin(r, host, hash, now_ms);
    }
    if (m == NULL || minute_tells(m, hash_bytes(reason, strlen(reason)))) {
        return true;
    }
    m->untold++;
    return false;
}

bool refusals_counts(const struct refusals *r, const char *host)
{
    return map_find(&r->by_host, hash_bytes(host, strlen(host)), minute_has_host, host) != NULL;
}

void refusals_tick(struct refusals *r, int64_t now_ms, refusals_fn fn, void *ctx)
{
    struct minute *m;
    while ((m = refusals_oldest(r)) != NULL && m->end_ms <= now_ms) {
        refusals_end(r, m, fn, ctx);
    }
}

int64_t refusals_deadline(const struct refusals *r)
{
    const struct minute *m = refusals_oldest(r);
    return m != NULL ? m->end_ms : INT64_MAX;
}
