#include "front/local_sessions.h"

#include <assert.h>
#include <stdlib.h>

int local_sessions_init(struct local_sessions *l, int32_t tick_ms)
{
    map_init(&l->by_id);
    list_init(&l->all);
    l->alive = session_tracker_create(tick_ms);
    return l->alive != NULL ? 0 : CONCLAVE_ENOMEM;
}

void local_sessions_finish(struct local_sessions *l)
{
    LIST_FOREACH (link, &l->all) {
        free(CONTAINER_OF(link, struct local_session, link));
    }
    map_finish(&l->by_id);
    session_tracker_destroy(l->alive);
    l->alive = NULL;
}

size_t local_sessions_count(const struct local_sessions *l)
{
    return map_count(&l->by_id);
}

static bool local_session_has_id(const struct map_node *node, const void *key)
{
    const struct local_session *s =
        (const void *)((const char *)node - offsetof(struct local_session, node));
    return s->session.id == *(const int64_t *)key;
}

struct local_session *local_session_find(const struct local_sessions *l, int64_t id)
{
    struct map_node *node =
        map_count(&l->by_id) > 0
            ? map_find(&l->by_id, hash_number((uint64_t)id), local_session_has_id, &id)
            : NULL;
    return node != NULL ? CONTAINER_OF(node, struct local_session, node) : NULL;
}

struct local_session *local_session_add(struct local_sessions *l,
                                        const struct state_session *session, bool read_only,
                                        int64_t now_ms)
{
    assert(local_session_find(l, session->id) == NULL);
    struct local_session *s = malloc(sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    *s = (struct local_session){.session = *session, .read_only = read_only};
    if (map_insert(&l->by_id, &s->node, hash_number((uint64_t)session->id)) != 0) {
        free(s);
        return NULL;
    }
    list_push_back(&l->all, &s->link);
    if (session_tracker_add(l->alive, session->id, session->timeout_ms, now_ms) != 0) {
        local_session_end(l, session->id);
        return NULL;
    }
    return s;
}

int local_session_renew(struct local_sessions *l, struct local_session *session, int32_t timeout_ms,
                        int64_t now_ms)
{
    assert(!session->upgrading);
    session->session.timeout_ms = timeout_ms;
    return session_tracker_add(l->alive, session->session.id, timeout_ms, now_ms);
}

void local_session_upgrade(struct local_sessions *l, struct local_session *session)
{
    assert(!session->upgrading);
    session->upgrading = true;
    session_tracker_remove(l->alive, session->session.id);
}

bool local_session_end(struct local_sessions *l, int64_t id)
{
    struct local_session *s = local_session_find(l, id);
    if (s == NULL) {
        return false;
    }
    session_tracker_remove(l->alive, id);
    map_remove(&l->by_id, &s->node);
    list_remove(&s->link);
    free(s);
    return true;
}

void local_sessions_forget_upgrades(struct local_sessions *l)
{
    LIST_FOREACH (link, &l->all) {
        const struct local_session *s = CONTAINER_OF(link, struct local_session, link);
        if (s->upgrading) {
            local_session_end(l, s->session.id);
        }
    }
}

void local_sessions_each_read_only(struct local_sessions *l, void (*fn)(void *ctx, int64_t id),
                                   void *ctx)
{
    LIST_FOREACH (link, &l->all) {
        const struct local_session *s = CONTAINER_OF(link, struct local_session, link);
        if (s->read_only) {
            fn(ctx, s->session.id);
        }
    }
}
