#include "state/machine.h"

static bool session_has_id(const struct map_node *node, const void *key)
{
    return CONTAINER_OF(node, struct session, map)->id == *(const int64_t *)key;
}

struct session *session_find(const struct state *s, int64_t id)
{
    struct map_node *n = map_find(&s->sessions, hash_u64((uint64_t)id), session_has_id, &id);
    return n != NULL ? CONTAINER_OF(n, struct session, map) : NULL;
}

struct session *session_put(struct state *s, int64_t id, int32_t timeout_ms, const uint8_t *passwd)
{
    struct session *session = session_find(s, id);
    if (session == NULL) {
        session = malloc(sizeof *session);
        if (session == NULL ||
            map_insert(&s->sessions, &session->map, hash_u64((uint64_t)id)) != 0) {
            free(session);
            return NULL;
        }
        session->id = id;
        list_init(&session->ephemerals);
    }
    session->timeout_ms = timeout_ms;
    memcpy(session->passwd, passwd, WIRE_PASSWD_LEN);
    return session;
}

void sessions_free(struct state *s)
{
    struct map_node *next;
    for (struct map_node *n = map_take_all(&s->sessions); n != NULL; n = next) {
        next = n->next;
        free(CONTAINER_OF(n, struct session, map));
    }
}

/* Ids that mean something else as the owner of a node cannot be sessions. */
int write_create_session(struct write *w)
{
    struct wire_reader r = wire_reader_make(w->command->body);
    struct wire_connect_response body;
    if (wire_decode_connect_response(&r, &body) != 0 || body.passwd.len != WIRE_PASSWD_LEN) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (body.session_id != w->command->session_id ||
        tree_owner_kind(body.session_id) != TREE_OWNER_SESSION) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    state_need(session_put(w->s, body.session_id, body.timeout_ms, body.passwd.data) != NULL);
    w->effects->session_change = STATE_SESSION_CREATED;
    w->effects->session_id = body.session_id;
    return 0;
}

struct victim {
    struct znode *node;
    struct slice path;
};

/* Order of creation, then by path: the same on every server, however its lists came about. */
static int victim_compare(const void *a, const void *b)
{
    const struct victim *x = a;
    const struct victim *y = b;
    if (x->node->czxid != y->node->czxid) {
        return x->node->czxid < y->node->czxid ? -1 : 1;
    }
    return slice_compare(x->path, y->path);
}

/* The session's nodes in the order in which they are deleted, NULL when it has none. `paths`
 * holds the bytes of their paths. */
static struct victim *victims_list(const struct session *session, struct buf *paths,
                                   size_t *ret_count)
{
    size_t count = 0;
    LIST_FOREACH (link, &session->ephemerals) {
        count++;
    }
    *ret_count = count;
    if (count == 0) {
        return NULL;
    }
    struct victim *victims = calloc(count, sizeof *victims);
    state_need(victims != NULL);
    size_t i = 0;
    LIST_FOREACH (link, &session->ephemerals) {
        victims[i].node = znode_of_link(link);
        victims[i++].path.len = znode_path_len(znode_of_link(link));
        znode_append_path(znode_of_link(link), paths);
    }
    state_need(buf_ok(paths));
    size_t offset = 0;
    for (i = 0; i < count; i++) {
        victims[i].path.data = paths->data + offset;
        offset += victims[i].path.len;
    }
    qsort(victims, count, sizeof *victims, victim_compare);
    return victims;
}

static void delete_ephemerals(struct write *w, struct session *session)
{
    size_t count;
    buf_reset(&w->s->name);
    struct victim *victims = victims_list(session, &w->s->name, &count);
    for (size_t i = 0; i < count; i++) {
        write_remove(w, victims[i].node);
    }
    free(victims);
}

/* Closing a session that is not there is no error: a client's close may follow its expiry. */
int write_close_session(struct write *w)
{
    struct session *session = session_find(w->s, w->command->session_id);
    if (session == NULL) {
        return 0;
    }
    delete_ephemerals(w, session);
    map_remove(&w->s->sessions, &session->map);
    w->effects->session_change = STATE_SESSION_CLOSED;
    w->effects->session_id = session->id;
    free(session);
    return 0;
}

static void session_show(const struct session *session, struct state_session *ret)
{
    ret->id = session->id;
    ret->timeout_ms = session->timeout_ms;
    memcpy(ret->passwd, session->passwd, WIRE_PASSWD_LEN);
}

bool state_session_find(const struct state *s, int64_t id, struct state_session *ret)
{
    const struct session *session = session_find(s, id);
    if (session != NULL) {
        session_show(session, ret);
    }
    return session != NULL;
}

void state_session_each(const struct state *s, void (*fn)(void *ctx, const struct state_session *),
                        void *ctx)
{
    for (struct map_node *n = map_next(&s->sessions, NULL); n != NULL;
         n = map_next(&s->sessions, n)) {
        struct state_session shown;
        session_show(CONTAINER_OF(n, struct session, map), &shown);
        fn(ctx, &shown);
    }
}
