/* Commands and queries of a test to the fake ZooKeeper. See fake_zk.h. */
#include "support/fake_zk_server.h"

#include <stdio.h>
#include <stdlib.h>

/* --- commands ---------------------------------------------------------------------- */

static void enter(struct fake_zk *zk)
{
    (void)pthread_mutex_lock(&zk->lock);
}

static void leave(struct fake_zk *zk)
{
    (void)pthread_mutex_unlock(&zk->lock);
    fake_server_wake(zk);
}

void fake_zk_hook_locked(struct fake_zk *zk, const struct fake_hook *hook)
{
    if (zk->hooks_count == FAKE_HOOKS_MAX) {
        abort();
    }
    zk->hooks[zk->hooks_count++] = *hook;
}

void fake_zk_hook(struct fake_zk *zk, const struct fake_hook *hook)
{
    enter(zk);
    fake_zk_hook_locked(zk, hook);
    leave(zk);
}

size_t fake_zk_hooks_left(struct fake_zk *zk)
{
    enter(zk);
    size_t n = zk->hooks_count;
    leave(zk);
    return n;
}

void fake_zk_hooks_clear(struct fake_zk *zk)
{
    enter(zk);
    zk->hooks_count = 0;
    leave(zk);
}

static void cut_locked(struct fake_zk *zk, int endpoint)
{
    LIST_FOREACH (it, &zk->conns) {
        struct conn *c = CONTAINER_OF(it, struct conn, link);
        c->cut = c->cut || c->endpoint == endpoint;
    }
}

void fake_zk_link_locked(struct fake_zk *zk, int endpoint, enum fake_link link)
{
    zk->endpoints[endpoint].link = link;
    if (link == FAKE_REFUSE) {
        cut_locked(zk, endpoint);
    }
}

void fake_zk_link(struct fake_zk *zk, int endpoint, enum fake_link link)
{
    enter(zk);
    fake_zk_link_locked(zk, endpoint, link);
    leave(zk);
}

void fake_zk_do(struct fake_zk *zk, void (*fn)(struct fake_zk *zk, void *ctx), void *ctx)
{
    enter(zk);
    fn(zk, ctx);
    leave(zk);
}

void fake_zk_session_max(struct fake_zk *zk, int64_t timeout_ms)
{
    enter(zk);
    zk->session_max_ms = timeout_ms;
    leave(zk);
}

void fake_zk_cut(struct fake_zk *zk, int endpoint)
{
    enter(zk);
    cut_locked(zk, endpoint);
    leave(zk);
}

void fake_zk_hold(struct fake_zk *zk, int endpoint, int32_t op)
{
    enter(zk);
    zk->endpoints[endpoint].hold = op;
    leave(zk);
}

void fake_zk_release(struct fake_zk *zk, int endpoint)
{
    enter(zk);
    zk->endpoints[endpoint].hold = 0;
    LIST_FOREACH (it, &zk->conns) {
        struct conn *c = CONTAINER_OF(it, struct conn, link);
        if (c->endpoint == endpoint && c->stalled) {
            fake_server_resume(zk, c);
        }
    }
    leave(zk);
}

bool fake_zk_holds(struct fake_zk *zk, int endpoint)
{
    bool holds = false;
    enter(zk);
    LIST_FOREACH (it, &zk->conns) {
        const struct conn *c = CONTAINER_OF(it, struct conn, link);
        holds = holds || (c->endpoint == endpoint && c->stalled);
    }
    leave(zk);
    return holds;
}

void fake_zk_freeze_locked(struct fake_zk *zk, int endpoint)
{
    fake_server_thaw(&zk->endpoints[endpoint]);
    fake_tree_copy(&zk->endpoints[endpoint].view, &zk->tree);
    zk->endpoints[endpoint].frozen = true;
}

void fake_zk_freeze(struct fake_zk *zk, int endpoint)
{
    enter(zk);
    fake_zk_freeze_locked(zk, endpoint);
    leave(zk);
}

void fake_zk_thaw(struct fake_zk *zk, int endpoint)
{
    enter(zk);
    fake_server_thaw(&zk->endpoints[endpoint]);
    leave(zk);
}

void fake_zk_read_only(struct fake_zk *zk, int endpoint, bool read_only)
{
    enter(zk);
    zk->endpoints[endpoint].read_only = read_only;
    cut_locked(zk, endpoint);
    leave(zk);
}

void fake_zk_old(struct fake_zk *zk, int endpoint, bool old)
{
    enter(zk);
    zk->endpoints[endpoint].old = old;
    leave(zk);
}

void fake_zk_refuse_auth(struct fake_zk *zk, bool refuse)
{
    enter(zk);
    zk->refuse_auth = refuse;
    leave(zk);
}

void fake_zk_expire_locked(struct fake_zk *zk, int64_t session_id)
{
    LIST_FOREACH (it, &zk->sessions) {
        struct fake_session *s = CONTAINER_OF(it, struct fake_session, link);
        if (session_id == 0 || s->id == session_id) {
            fake_server_expire(zk, s);
        }
    }
}

void fake_zk_expire(struct fake_zk *zk, int64_t session_id)
{
    enter(zk);
    fake_zk_expire_locked(zk, session_id);
    leave(zk);
}

void fake_zk_reset(struct fake_zk *zk)
{
    enter(zk);
    fake_zk_expire_locked(zk, 0);
    fake_tree_finish(&zk->tree);
    fake_tree_init(&zk->tree);
    leave(zk);
}

/* --- queries of the tree ----------------------------------------------------------- */

static const struct fake_node *look(struct fake_zk *zk, const char *path)
{
    return fake_tree_find(&zk->tree, slice_str(path));
}

bool fake_zk_exists_locked(struct fake_zk *zk, const char *path)
{
    return look(zk, path) != NULL;
}

bool fake_zk_exists(struct fake_zk *zk, const char *path)
{
    enter(zk);
    bool there = fake_zk_exists_locked(zk, path);
    leave(zk);
    return there;
}

int64_t fake_zk_owner(struct fake_zk *zk, const char *path)
{
    enter(zk);
    const struct fake_node *n = look(zk, path);
    int64_t owner = n == NULL ? -1 : n->stat.ephemeral_owner;
    leave(zk);
    return owner;
}

int64_t fake_zk_czxid(struct fake_zk *zk, const char *path)
{
    enter(zk);
    const struct fake_node *n = look(zk, path);
    int64_t czxid = n == NULL ? -1 : n->stat.czxid;
    leave(zk);
    return czxid;
}

size_t fake_zk_child_count(struct fake_zk *zk, const char *path)
{
    enter(zk);
    const struct fake_node *n = look(zk, path);
    size_t children = n == NULL ? 0 : (size_t)n->children;
    leave(zk);
    return children;
}

bool fake_zk_child(struct fake_zk *zk, const char *path, size_t index, char *buf)
{
    enter(zk);
    const struct fake_node *best = NULL;
    int64_t after = -1;
    for (size_t i = 0; i <= index; i++) {
        best = NULL;
        for (struct map_node *it = map_next(&zk->tree.nodes, NULL); it != NULL;
             it = map_next(&zk->tree.nodes, it)) {
            const struct fake_node *n = (struct fake_node *)(void *)it;
            if (fake_node_child_of(n, path) != NULL && n->stat.czxid > after &&
                (best == NULL || n->stat.czxid < best->stat.czxid)) {
                best = n;
            }
        }
        after = best == NULL ? INT64_MAX : best->stat.czxid;
    }
    if (best != NULL) {
        (void)snprintf(buf, 256, "%s", fake_node_child_of(best, path));
    }
    leave(zk);
    return best != NULL;
}

bool fake_zk_data(struct fake_zk *zk, const char *path, char *buf, size_t len)
{
    enter(zk);
    const struct fake_node *n = look(zk, path);
    bool fits = n != NULL && n->data_len < len;
    if (fits) {
        memcpy(buf, n->data, n->data_len);
        buf[n->data_len] = '\0';
    }
    leave(zk);
    return fits;
}

bool fake_zk_acl(struct fake_zk *zk, const char *path, char *buf)
{
    enter(zk);
    const struct fake_node *n = look(zk, path);
    if (n != NULL) {
        (void)snprintf(buf, 256, "%s", n->acl);
    }
    leave(zk);
    return n != NULL;
}

void fake_zk_create_locked(struct fake_zk *zk, const char *path, const char *data, int64_t owner)
{
    struct fake_node *n;
    zk->tree.zxid++;
    if (fake_tree_create(&zk->tree, slice_str(path), slice_str(data),
                         owner == 0 ? WIRE_MODE_PERSISTENT : WIRE_MODE_EPHEMERAL, owner, &n) == 0) {
        fake_server_fire(zk, WIRE_EVENT_NODE_CREATED, path);
    }
}

void fake_zk_create(struct fake_zk *zk, const char *path, const char *data, int64_t owner)
{
    enter(zk);
    fake_zk_create_locked(zk, path, data, owner);
    leave(zk);
}

void fake_zk_write_locked(struct fake_zk *zk, const char *path, const char *data)
{
    struct fake_node *n;
    zk->tree.zxid++;
    if (fake_tree_set(&zk->tree, slice_str(path), slice_str(data), -1, &n) == 0) {
        fake_server_fire(zk, WIRE_EVENT_NODE_DATA_CHANGED, path);
    }
}

void fake_zk_delete_locked(struct fake_zk *zk, const char *path)
{
    zk->tree.zxid++;
    if (fake_tree_delete(&zk->tree, slice_str(path), -1) == 0) {
        fake_server_fire(zk, WIRE_EVENT_NODE_DELETED, path);
    }
}

void fake_zk_delete_children_locked(struct fake_zk *zk, const char *path)
{
    struct map_node *it = map_next(&zk->tree.nodes, NULL);
    while (it != NULL) {
        const struct fake_node *n = (struct fake_node *)(void *)it;
        if (fake_node_child_of(n, path) == NULL) {
            it = map_next(&zk->tree.nodes, it);
            continue;
        }
        char *child = strdup(n->path);
        if (child == NULL) {
            abort();
        }
        fake_zk_delete_locked(zk, child);
        free(child);
        it = map_next(&zk->tree.nodes, NULL); /* the map has changed */
    }
}

void fake_zk_delete(struct fake_zk *zk, const char *path)
{
    enter(zk);
    fake_zk_delete_locked(zk, path);
    leave(zk);
}

void fake_zk_write(struct fake_zk *zk, const char *path, const char *data)
{
    enter(zk);
    fake_zk_write_locked(zk, path, data);
    leave(zk);
}

void fake_zk_set_version(struct fake_zk *zk, const char *path, int32_t version)
{
    enter(zk);
    struct fake_node *n = fake_tree_find(&zk->tree, slice_str(path));
    if (n != NULL) {
        n->stat.version = version;
    }
    leave(zk);
}

void fake_zk_set_mtime(struct fake_zk *zk, const char *path, int64_t mtime_ms)
{
    enter(zk);
    struct fake_node *n = fake_tree_find(&zk->tree, slice_str(path));
    if (n != NULL) {
        n->stat.mtime = mtime_ms;
    }
    leave(zk);
}

int32_t fake_zk_version(struct fake_zk *zk, const char *path)
{
    enter(zk);
    const struct fake_node *n = fake_tree_find(&zk->tree, slice_str(path));
    int32_t version = n == NULL ? -2 : n->stat.version;
    leave(zk);
    return version;
}

void fake_zk_set_sequence(struct fake_zk *zk, const char *path, int32_t next)
{
    enter(zk);
    struct fake_node *n = fake_tree_find(&zk->tree, slice_str(path));
    if (n != NULL) {
        n->stat.cversion = next;
    }
    leave(zk);
}

void fake_zk_stick_sequence(struct fake_zk *zk, bool stick)
{
    enter(zk);
    zk->tree.stick = stick;
    leave(zk);
}

size_t fake_zk_ephemerals(struct fake_zk *zk)
{
    size_t n = 0;
    enter(zk);
    for (struct map_node *it = map_next(&zk->tree.nodes, NULL); it != NULL;
         it = map_next(&zk->tree.nodes, it)) {
        n += ((struct fake_node *)(void *)it)->stat.ephemeral_owner != 0 ? 1 : 0;
    }
    leave(zk);
    return n;
}

size_t fake_zk_sessions(struct fake_zk *zk)
{
    size_t n = 0;
    enter(zk);
    LIST_FOREACH (it, &zk->sessions) {
        n++;
    }
    leave(zk);
    return n;
}

/* --- counts -------------------------------------------------------------------------- */

size_t fake_zk_count(struct fake_zk *zk, int endpoint, int32_t op)
{
    size_t n = 0;
    enter(zk);
    for (int i = 0; i < FAKE_ENDPOINTS; i++) {
        if (endpoint == FAKE_ANY_ENDPOINT || endpoint == i) {
            n += zk->endpoints[i].counts[op == FAKE_ANY_OP ? FAKE_COUNTS : op];
        }
    }
    leave(zk);
    return n;
}

size_t fake_zk_count_events(struct fake_zk *zk)
{
    enter(zk);
    size_t n = zk->events;
    leave(zk);
    return n;
}

size_t fake_zk_watches(struct fake_zk *zk)
{
    size_t n = 0;
    enter(zk);
    LIST_FOREACH (it, &zk->conns) {
        LIST_FOREACH (w, &CONTAINER_OF(it, struct conn, link)->watches) {
            n++;
        }
    }
    leave(zk);
    return n;
}

void fake_zk_count_reset(struct fake_zk *zk)
{
    enter(zk);
    for (int i = 0; i < FAKE_ENDPOINTS; i++) {
        memset(zk->endpoints[i].counts, 0, sizeof zk->endpoints[i].counts);
    }
    zk->events = 0;
    leave(zk);
}
