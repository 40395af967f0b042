#include "support/cache_user.h"

/* --- the copy ------------------------------------------------------------------------- */

static void broke(struct cache_user *u, const char *what)
{
    if (u->broken == NULL) {
        u->broken = what;
    }
}

static struct user_node *find(struct cache_user *u, const char *path, size_t len)
{
    for (size_t i = 0; i < u->count; i++) {
        if (strncmp(u->nodes[i].path, path, len) == 0 && u->nodes[i].path[len] == '\0') {
            return &u->nodes[i];
        }
    }
    return NULL;
}

static bool has_children(struct cache_user *u, const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < u->count; i++) {
        if (strncmp(u->nodes[i].path, path, len) == 0 && u->nodes[i].path[len] == '/') {
            return true;
        }
    }
    return false;
}

static void keep(struct user_node *n, const struct conclave_cache_node *node)
{
    (void)snprintf(n->path, sizeof n->path, "%s", node->path);
    (void)snprintf(n->data, sizeof n->data, "%.*s", (int)node->data_len,
                   node->data == NULL ? "" : (const char *)node->data);
    n->czxid = node->stat->czxid;
    n->mzxid = node->stat->mzxid;
}

static void created(struct cache_user *u, const struct conclave_cache_node *node)
{
    size_t parent = (size_t)(strrchr(node->path, '/') - node->path);
    if (find(u, node->path, strlen(node->path)) != NULL) {
        broke(u, "created twice");
    } else if (u->count > 0 && find(u, node->path, parent == 0 ? 1 : parent) == NULL) {
        broke(u, "created without a parent");
    } else if (u->count < USER_NODES) {
        keep(&u->nodes[u->count++], node);
    }
}

static void removed(struct cache_user *u, const struct conclave_cache_node *node)
{
    struct user_node *n = find(u, node->path, strlen(node->path));
    if (n == NULL || n->mzxid != node->stat->mzxid) {
        broke(u, "deleted what was not there");
    } else if (has_children(u, node->path)) {
        broke(u, "deleted above children");
    } else {
        *n = u->nodes[--u->count];
    }
}

static void changed(struct cache_user *u, const struct conclave_cache_event *event)
{
    struct user_node *n = find(u, event->after->path, strlen(event->after->path));
    if (n == NULL || n->mzxid != event->before->stat->mzxid) {
        broke(u, "changed from another state");
    } else if (event->after->stat->mzxid <= n->mzxid || event->after->stat->czxid != n->czxid) {
        broke(u, "changed to an older state");
    } else {
        keep(n, event->after);
    }
}

/* --- callbacks -------------------------------------------------------------------------- */

static void enter(struct cache_user *u)
{
    (void)pthread_mutex_lock(&u->lock);
    if (u->closed > 0) {
        broke(u, "a callback after the end");
    }
}

static void leave(struct cache_user *u)
{
    (void)pthread_mutex_unlock(&u->lock);
}

static void on_event(struct conclave_cache *cache, const struct conclave_cache_event *event,
                     void *ctx)
{
    struct cache_user *u = ctx;
    const struct conclave_cache_node *node = event->after != NULL ? event->after : event->before;
    size_t len = strlen(u->log);
    enter(u);
    (void)snprintf(u->log + len, sizeof u->log - len, "%s%c%s", len > 0 ? " " : "",
                   "+~-"[event->change], node -> path);
    if (event->change == CONCLAVE_CACHE_CREATED) {
        created(u, node);
    } else if (event->change == CONCLAVE_CACHE_DELETED) {
        removed(u, node);
    } else {
        changed(u, event);
    }
    leave(u);
    if (u->inside != NULL) {
        u->inside(u);
    }
}

static void on_settled(struct conclave_cache *cache, int64_t zxid, void *ctx)
{
    struct cache_user *u = ctx;
    enter(u);
    if (zxid < u->settled) {
        broke(u, "the zxid went back");
    }
    u->settled = zxid;
    u->settles++;
    leave(u);
}

static void on_loaded(struct conclave_cache *cache, void *ctx)
{
    struct cache_user *u = ctx;
    enter(u);
    u->loads++;
    leave(u);
}

static void on_status(struct conclave_cache *cache, const struct conclave_cache_status *status,
                      void *ctx)
{
    struct cache_user *u = ctx;
    enter(u);
    u->statuses++;
    u->fresh = status->fresh;
    u->error = status->error;
    leave(u);
}

static void on_closed(struct conclave_cache *cache, int why, void *ctx)
{
    struct cache_user *u = ctx;
    enter(u);
    u->closed++;
    leave(u);
}

/* --- the handle -------------------------------------------------------------------------- */

struct conclave_cache_options cache_user_options(const char *path)
{
    struct conclave_cache_options options = CONCLAVE_CACHE_OPTIONS_INIT;
    options.path = path;
    return options;
}

void cache_user_init(struct cache_user *u)
{
    memset(u, 0, sizeof *u);
    (void)pthread_mutex_init(&u->lock, NULL);
}

int cache_user_open(struct cache_user *u, struct conclave_recipes *recipes,
                    const struct conclave_cache_options *options)
{
    static const struct conclave_cache_callbacks callbacks = {
        sizeof callbacks, on_event, on_settled, on_loaded, on_status, on_closed};
    struct conclave_cache_options app = cache_user_options("/app");
    return conclave_cache_open(recipes, options == NULL ? &app : options, &callbacks, u, &u->cache);
}

int cache_user_connect(struct cache_user *u, const char *servers, int64_t session_ms,
                       const struct conclave_cache_options *options)
{
    struct conclave_client_options client = CONCLAVE_CLIENT_OPTIONS_INIT;
    client.servers = servers;
    client.session_timeout_ms = session_ms == 0 ? 10L * SESSION_MS : session_ms;
    cache_user_init(u);
    int error = conclave_client_open(&client, &u->client);
    if (error == 0) {
        error = conclave_recipes_open(u->client, &u->recipes);
    }
    return error != 0 ? error : cache_user_open(u, u->recipes, options);
}

void cache_user_tree(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "0", 0);
    fake_zk_create(zk, "/app/b", "1", 0);
    fake_zk_create(zk, "/app/b/c", "2", 0);
    fake_zk_create(zk, "/app/a", "3", 0);
}

void cache_user_start(struct cache_user *u, struct fake_zk *zk, int endpoint,
                      const struct conclave_cache_options *options, bool later)
{
    /* a long session, for answers of megabytes */
    assert_int_equal(cache_user_connect(u, fake_zk_address(zk, endpoint), 0, options), 0);
    assert_int_equal(conclave_client_start(u->client), 0);
    if (!later) {
        assert_int_equal(conclave_cache_wait(u->cache, 0, PATIENCE_MS), 0);
        EVENTUALLY(cache_user_get(u, &u->loads) == 1);
    }
}

void cache_user_finish(struct cache_user *u)
{
    assert_int_equal(conclave_cache_close_wait(u->cache, PATIENCE_MS), 0);
    conclave_cache_destroy(u->cache);
    conclave_recipes_destroy(u->recipes);
    conclave_client_close(u->client, 1000);
    if (u->broken != NULL) {
        fail_msg("%s; %s", u->broken, u->log);
    }
    assert_int_equal(u->closed, 1);
    assert_true(u->loads <= 1);
}

int cache_user_get(struct cache_user *u, const int *field)
{
    (void)pthread_mutex_lock(&u->lock);
    int value = *field;
    leave(u);
    return value;
}

struct conclave_cache_status cache_user_status(struct cache_user *u)
{
    struct conclave_cache_status status = CONCLAVE_CACHE_STATUS_INIT;
    assert_int_equal(conclave_cache_status(u->cache, &status), 0);
    return status;
}

bool cache_user_log_is(struct cache_user *u, const char *log)
{
    (void)pthread_mutex_lock(&u->lock);
    bool same = strcmp(u->log, log) == 0;
    leave(u);
    return same;
}

void cache_user_log_clear(struct cache_user *u)
{
    (void)pthread_mutex_lock(&u->lock);
    u->log[0] = '\0';
    leave(u);
}

/* --- comparing ------------------------------------------------------------------------- */

enum { TEXT = 4096 };

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct user_node *)a)->path, ((const struct user_node *)b)->path);
}

static void add_text(char *buf, const char *path, const char *data, int len)
{
    size_t at = strlen(buf);
    (void)snprintf(buf + at, TEXT - at, "%s%s=%.*s", at > 0 ? " " : "", path, len, data);
}

void cache_user_told(struct cache_user *u, char *buf)
{
    buf[0] = '\0';
    (void)pthread_mutex_lock(&u->lock);
    qsort(u->nodes, u->count, sizeof u->nodes[0], by_path);
    for (size_t i = 0; i < u->count; i++) {
        add_text(buf, u->nodes[i].path, u->nodes[i].data, sizeof u->nodes[i].data);
    }
    leave(u);
}

void cache_user_looked(struct cache_user *u, const char *path, char *buf)
{
    struct conclave_cache_view *view;
    buf[0] = '\0';
    if (conclave_cache_subtree(u->cache, path, &view) != 0) {
        return;
    }
    for (size_t i = 0; i < view->count; i++) {
        add_text(buf, view->nodes[i]->path, view->nodes[i]->data, (int)view->nodes[i]->data_len);
    }
    conclave_cache_view_free(view);
}

static void gather(struct fake_zk *zk, const char *path, struct user_node *nodes, size_t *count)
{
    char name[256];
    if (*count == USER_NODES || !fake_zk_data(zk, path, nodes[*count].data, sizeof nodes[0].data)) {
        return;
    }
    (void)snprintf(nodes[*count].path, sizeof nodes[0].path, "%s", path);
    ++*count;
    for (size_t i = 0; fake_zk_child(zk, path, i, name); i++) {
        char child[512];
        (void)snprintf(child, sizeof child, "%s/%s", path, name);
        gather(zk, child, nodes, count);
    }
}

void cache_user_server(struct fake_zk *zk, const char *path, char *buf)
{
    static _Thread_local struct user_node nodes[USER_NODES];
    size_t count = 0;
    gather(zk, path, nodes, &count);
    qsort(nodes, count, sizeof nodes[0], by_path);
    buf[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        add_text(buf, nodes[i].path, nodes[i].data, sizeof nodes[i].data);
    }
}

bool cache_user_agrees(struct cache_user *u, struct fake_zk *zk, const char *path)
{
    static _Thread_local char told[TEXT], looked[TEXT], server[TEXT];
    cache_user_told(u, told);
    cache_user_looked(u, path, looked);
    cache_user_server(zk, path, server);
    return strcmp(told, server) == 0 && strcmp(looked, server) == 0;
}
