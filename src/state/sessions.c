/* The table of sessions: creating, attaching and closing one, with the deletion of its ephemeral nodes. */
#include "state/state_internal.h"

#include "state/digest.h"
#include "tree/walk.h"

#include <assert.h>

/* Includes the entries in the table and in the tracker of sessions. */
enum { SESSION_MEMORY = sizeof(struct session) + 96 };

static bool session_has_id(const struct map_node *node, const void *key)
{
    return CONTAINER_OF(node, struct session, map)->id == *(const int64_t *)key;
}

static bool passwd_equal(const uint8_t *a, struct slice b)
{
    unsigned diff = 0;
    if (b.len != WIRE_PASSWD_LEN) {
        return false;
    }
    for (size_t i = 0; i < WIRE_PASSWD_LEN; i++) {
        diff |= (unsigned)(a[i] ^ b.data[i]);
    }
    return diff == 0;
}

struct session *session_find(const struct state *s, int64_t id)
{
    struct map_node *n = map_find(&s->sessions, hash_number((uint64_t)id), session_has_id, &id);
    return n != NULL ? CONTAINER_OF(n, struct session, map) : NULL;
}

struct session *session_put(struct state *s, const struct state_session *like)
{
    struct session *session = session_find(s, like->id);
    if (session == NULL) {
        session = malloc(sizeof *session);
        if (session == NULL ||
            map_insert(&s->sessions, &session->map, hash_number((uint64_t)like->id)) != 0) {
            free(session);
            return NULL;
        }
        account_charge(&s->account, ACCOUNT_SESSIONS, SESSION_MEMORY);
        session->id = like->id;
        session->results = NULL;
        session->path_bytes = 0;
        list_init(&session->ephemerals);
    } else {
        s->sessions_digest -= digest_session(session);
    }
    session->timeout_ms = like->timeout_ms;
    session->owner = like->owner;
    memcpy(session->passwd, like->passwd, WIRE_PASSWD_LEN);
    s->sessions_digest += digest_session(session);
    return session;
}

void session_count_path(struct state *s, int64_t owner, int64_t bytes)
{
    struct session *session =
        tree_owner_kind(owner) == TREE_OWNER_SESSION ? session_find(s, owner) : NULL;
    if (session != NULL) {
        session->path_bytes += bytes;
        assert(session->path_bytes >= 0);
    }
}

void sessions_free(struct state *s)
{
    struct map_node *next;
    for (struct map_node *n = map_take_all(&s->sessions); n != NULL; n = next) {
        next = n->next;
        struct session *session = CONTAINER_OF(n, struct session, map);
        once_results_end(s, session);
        free(session);
    }
}

void sessions_disown(struct state *s)
{
    for (struct map_node *n = map_next(&s->sessions, NULL); n != NULL;
         n = map_next(&s->sessions, n)) {
        struct session *session = CONTAINER_OF(n, struct session, map);
        s->sessions_digest -= digest_session(session);
        session->owner = 0;
        s->sessions_digest += digest_session(session);
    }
}

/* Whether the write's origin may write for the session, which may be NULL. */
static int check_owner(const struct write *w, const struct session *session)
{
    if (session == NULL) {
        return CONCLAVE_SESSION_EXPIRED;
    }
    bool moved = session->owner != 0 && w->origin != 0 && session->owner != w->origin;
    return moved ? CONCLAVE_SESSION_MOVED : 0;
}

int write_check_session(const struct write *w)
{
    const struct session *session = session_find(w->s, w->command->session_id);
    bool local = (w->command->options & COMMAND_LOCAL) != 0 && session == NULL;
    return local ? 0 : check_owner(w, session);
}

static void tell_session(struct write *w, enum state_session_change change, int64_t id)
{
    assert(w->effects->session_change == STATE_SESSION_SAME); /* one per command */
    w->effects->session_change = change;
    w->effects->session_id = id;
}

static int decode_session(const struct write *w, struct wire_connect_response *ret,
                          struct once_wish *ret_wish)
{
    struct wire_reader r = wire_reader_make(w->command->body);
    if (wire_decode_connect_response(&r, ret) != 0 || ret->passwd.len != WIRE_PASSWD_LEN ||
        once_results_read_wish(&r, ret_wish) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    return ret->session_id == w->command->session_id ? 0 : CONCLAVE_BAD_ARGUMENTS;
}

/* Ids with a special meaning as the owner of a node cannot be sessions. */
int write_create_session(struct write *w)
{
    struct wire_connect_response body;
    struct once_wish wish;
    int rc = decode_session(w, &body, &wish);
    if (rc != 0) {
        return rc;
    }
    if (tree_owner_kind(body.session_id) != TREE_OWNER_SESSION) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    struct state_session session = {
        .id = body.session_id, .timeout_ms = body.timeout_ms, .owner = w->origin};
    memcpy(session.passwd, body.passwd.data, WIRE_PASSWD_LEN);
    struct session *made = session_put(w->s, &session);
    state_need(made != NULL);
    tell_session(w, STATE_SESSION_CREATED, body.session_id);
    once_results_agree(w->s, made, &wish);
    return 0;
}

/* As in the handshake, an unknown session and a wrong password give the same error. */
int write_attach_session(struct write *w)
{
    struct wire_connect_response body;
    struct once_wish wish;
    int rc = decode_session(w, &body, &wish);
    if (rc != 0) {
        return rc;
    }
    struct session *session = session_find(w->s, body.session_id);
    if (session == NULL || !passwd_equal(session->passwd, body.passwd)) {
        return CONCLAVE_SESSION_EXPIRED;
    }
    once_results_agree(w->s, session, &wish);
    w->s->sessions_digest -= digest_session(session);
    session->timeout_ms = body.timeout_ms;
    session->owner = w->origin;
    w->s->sessions_digest += digest_session(session);
    tell_session(w, STATE_SESSION_ATTACHED, session->id);
    return 0;
}

/* In the order of creation, then by path: so the order is the same on every server. Only nodes of one command have the
 * same age, so paths are rarely compared. */
static int victim_compare(const void *a, const void *b)
{
    const struct znode *x = *(struct znode *const *)a;
    const struct znode *y = *(struct znode *const *)b;
    if (x->czxid != y->czxid) {
        return x->czxid < y->czxid ? -1 : 1;
    }
    return znode_compare_paths(x, y);
}

/* The session's nodes in the order in which they are deleted; NULL: none. */
static struct znode **victims_list(const struct session *session, size_t *ret_count)
{
    size_t count = 0;
    LIST_FOREACH (link, &session->ephemerals) {
        count++;
    }
    *ret_count = count;
    if (count == 0) {
        return NULL;
    }
    struct znode **victims = calloc(count, sizeof(struct znode *));
    state_need(victims != NULL);
    size_t i = 0;
    LIST_FOREACH (link, &session->ephemerals) {
        victims[i++] = znode_of_link(link);
    }
    qsort(victims, count, sizeof(struct znode *), victim_compare);
    return victims;
}

static void delete_ephemerals(struct write *w, struct session *session)
{
    size_t count;
    struct znode **victims = victims_list(session, &count);
    for (size_t i = 0; i < count; i++) {
        assert(znode_owner(victims[i]) == session->id);
        write_remove(w, victims[i]);
    }
    free(victims);
}

void session_end(struct write *w, struct session *session)
{
    delete_ephemerals(w, session);
    assert(list_empty(&session->ephemerals) && session->path_bytes == 0);
    once_results_end(w->s, session);
    w->s->sessions_digest -= digest_session(session);
    map_remove(&w->s->sessions, &session->map);
    account_credit(&w->s->account, ACCOUNT_SESSIONS, SESSION_MEMORY);
    tell_session(w, STATE_SESSION_CLOSED, session->id);
    free(session);
}

/* Closing a session that does not exist is no error, because a client's close may follow its expiry. A close without a
 * cxid is an expiry. */
int write_close_session(struct write *w)
{
    struct session *session = session_find(w->s, w->command->session_id);
    if (session == NULL) {
        return 0;
    }
    int rc = w->command->cxid != 0 ? check_owner(w, session) : 0;
    if (rc == 0) {
        session_end(w, session);
    }
    return rc;
}

static void session_show(const struct session *session, struct state_session *ret)
{
    ret->id = session->id;
    ret->timeout_ms = session->timeout_ms;
    ret->owner = session->owner;
    memcpy(ret->passwd, session->passwd, WIRE_PASSWD_LEN);
}

bool state_session_passwd_is(const struct state_session *session, struct slice passwd)
{
    return passwd_equal(session->passwd, passwd);
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
