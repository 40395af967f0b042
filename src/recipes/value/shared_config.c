#include "recipes/value/shared_config.h"

#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/group/node_handle.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_MAX = 256 };

struct conclave_config {
    struct node_handle nodes; /* first; its own node is the acknowledgement */
    struct conclave_config_callbacks callbacks;
    void *ctx;
    char *cache_file;
    bool tree;
    bool live;               /* a state of the ensemble was reported */
    bool stale_told;         /* the last value of on_stale */
    struct mirror_view told; /* the dispatcher's: the last reported state */

    int64_t cache_wait_ms;
    struct client_timer cache_wait;
    bool cache_due;
    bool cache_used; /* it is not used twice */
};

static struct conclave_config *config_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_config, nodes.host);
}

static void config_stop(struct host *host)
{
    client_timer_stop(host->handle.rt->client, &config_of(host)->cache_wait);
    node_handle_stop(host);
}

static void on_cache_wait(struct conclave_client *client, void *ctx)
{
    struct conclave_config *c = ctx;
    if (!c->nodes.mirror.fresh && !c->live) {
        c->cache_due = true;
        handle_post(&c->nodes.host.handle);
    }
}

/* --- telling; in the dispatcher ----------------------------------------------------------- */

/* Nothing has been changed, added or removed. */
static bool views_equal(const struct mirror_view *a, const struct mirror_view *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        const struct mirror_item *x = a->items[i];
        const struct mirror_item *y = b->items[i];
        if (x->stat.czxid != y->stat.czxid || x->stat.mzxid != y->stat.mzxid ||
            strcmp(x->path, y->path) != 0) {
            return false;
        }
    }
    return true;
}

/* Nodes are freed with free. */
static int state_of(const struct mirror_view *view, struct conclave_config_state *ret)
{
    struct conclave_config_node **nodes = struct_list(view->count, sizeof **nodes, 0, NULL);
    if (nodes == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *ret = (struct conclave_config_state){
        .nodes = (const struct conclave_config_node *const *)nodes,
        .count = view->count,
        .zxid = view->zxid,
    };
    for (size_t i = 0; i < view->count; i++) {
        const struct mirror_item *item = view->items[i];
        *nodes[i] = (struct conclave_config_node){
            .path = item->path,
            .data = item->node.data,
            .data_len = item->node.data_len,
            .version = item->stat.version,
            .mzxid = item->stat.mzxid,
        };
        ret->mzxid = item->stat.mzxid > ret->mzxid ? item->stat.mzxid : ret->mzxid;
    }
    return 0;
}

/* Checks and applies, without the lock. Returns the result for the acknowledgement. */
static int apply(struct conclave_config *c, const struct conclave_config_state *state,
                 char why[WHY_MAX])
{
    why[0] = '\0';
    if (c->callbacks.validate != NULL &&
        c->callbacks.validate(c, state, why, WHY_MAX, c->ctx) != 0) {
        why[WHY_MAX - 1] = '\0';
        return CONCLAVE_ECANCELED;
    }
    why[0] = '\0';
    return c->callbacks.on_change == NULL ? 0 : c->callbacks.on_change(c, state, c->ctx);
}

static void file_trouble(struct conclave_config *c, int error)
{
    if (error != 0 && c->callbacks.on_file_error != NULL) {
        c->callbacks.on_file_error(c, error, c->ctx);
    }
}

/* Without the lock. */
static int tell_state(struct conclave_config *c, const struct conclave_config_state *state,
                      char why[WHY_MAX])
{
    int error = apply(c, state, why);
    if (error == 0 && c->cache_file != NULL && state->count > 0) {
        file_trouble(c, config_file_write(c->cache_file, c->tree, state));
    }
    return error;
}

static void shared_config_acknowledge(struct conclave_config *c,
                                      const struct conclave_config_state *state, int error,
                                      const char *why)
{
    size_t len;
    char *text = ack_text(state->zxid, state->mzxid, error, why);
    char *bytes = text == NULL ? NULL : member_text(c->nodes.incarnation, text, strlen(text), &len);
    free(text);
    if (bytes == NULL) {
        mirror_view_clear(&c->told); /* it is reported once more, and acknowledged then */
        c->live = false;
        node_handle_look_later(&c->nodes);
        return;
    }
    assert(c->live && state->zxid == c->told.zxid); /* only what was applied is acknowledged */
    member_set_data_take(&c->nodes.member, bytes, len);
}

/* Whether one part of a path ends so. */
static bool has_part(const char *path, const char *ending)
{
    size_t len = strlen(ending);
    for (const char *at = strstr(path, ending); at != NULL; at = strstr(at + 1, ending)) {
        if (at[len] == '\0' || at[len] == '/') {
            return true;
        }
    }
    return false;
}

/* Acknowledgements, and the markers of writers, of nodes of the tree: no configuration. */
static bool is_shown(const struct mirror_item *item)
{
    return !has_part(item->path, ".acks") && !has_part(item->path, ".writers");
}

static bool tell_live(struct conclave_config *c)
{
    struct host *host = &c->nodes.host;
    struct conclave_client *client = host->handle.rt->client;
    struct mirror_view view;
    struct conclave_config_state state;
    char why[WHY_MAX];
    bool stale;
    if (c->nodes.seen_stale || !node_handle_take_view(&c->nodes, &view, &stale)) {
        return false;
    }
    mirror_view_keep(&view, is_shown);
    bool known = c->live && views_equal(&view, &c->told);
    if (known || state_of(&view, &state) != 0) {
        mirror_view_clear(&view);
        if (!known) {
            node_handle_look_later(&c->nodes);
        }
        return false;
    }
    assert(!stale);
    c->live = true;
    client_unlock(client);
    int error = tell_state(c, &state, why);
    client_lock(client);
    mirror_view_clear(&c->told);
    c->told = view;
    if (c->nodes.parent != NULL && !host->closing.ending) {
        shared_config_acknowledge(c, &state, error, why);
    }
    free((void *)(uintptr_t)state.nodes);
    return true;
}

static bool tell_cached(struct conclave_config *c)
{
    struct conclave_client *client = c->nodes.host.handle.rt->client;
    struct config_file file;
    char why[WHY_MAX];
    if (!c->cache_due || c->cache_used || c->live || c->nodes.host.closing.ending) {
        return false;
    }
    assert(c->cache_file != NULL);
    c->cache_used = true;
    client_unlock(client);
    int error = config_file_read(c->cache_file, c->tree, &file);
    if (error == 0) {
        struct conclave_config_state state = {
            .nodes = (const struct conclave_config_node *const *)file.list,
            .count = file.count,
            .stale = true,
        };
        (void)apply(c, &state, why); /* no ack can report whether it went well */
        config_file_clear(&file);
    } else if (error != CONCLAVE_NO_NODE) {
        file_trouble(c, error);
    }
    client_lock(client);
    c->stale_told = c->stale_told || error == 0; /* the state itself says it */
    return true;
}

static bool tell_stale(struct conclave_config *c)
{
    struct conclave_client *client = c->nodes.host.handle.rt->client;
    bool stale = c->nodes.seen_stale;
    if (stale == c->stale_told || c->nodes.host.closing.ending || (stale && !c->live)) {
        return false;
    }
    c->stale_told = stale;
    if (c->callbacks.on_stale != NULL) {
        client_unlock(client);
        c->callbacks.on_stale(c, stale, c->ctx);
        client_lock(client);
    }
    return true;
}

static bool config_run_due(struct host *host)
{
    struct conclave_config *c = config_of(host);
    return tell_cached(c) || tell_live(c) || tell_stale(c);
}

static void config_tell_closed(struct host *host, int why)
{
    struct conclave_config *c = config_of(host);
    if (c->callbacks.on_closed != NULL) {
        c->callbacks.on_closed(c, why, c->ctx);
    }
}

/* --- the handle ------------------------------------------------------------------------ */

static void config_free(struct host *host)
{
    struct conclave_config *c = config_of(host);
    client_timer_stop(host->handle.rt->client, &c->cache_wait);
    node_handle_finish(&c->nodes);
    mirror_view_clear(&c->told);
    free(c->cache_file);
    free(c);
}

static const struct host_class config_class = {
    .on_state = node_handle_on_state,
    .run_due = config_run_due,
    .stop = config_stop,
    .is_idle = node_handle_is_idle,
    .tell_closed = config_tell_closed,
    .free = config_free,
};

static bool shared_config_options_valid(const struct conclave_config_options *o)
{
    return o->path != NULL && path_is_valid(o->path, false) &&
           (strcmp(o->path, "/") != 0 || o->ack_id == NULL || o->ack_path != NULL) &&
           (o->ack_path == NULL || path_is_valid(o->ack_path, false)) &&
           (o->ack_id == NULL || (o->ack_id[0] != '\0' && strchr(o->ack_id, '/') == NULL)) &&
           o->debounce_ms >= 0 && o->cache_wait_ms >= 0;
}

char *config_ack_path(const char *path, const char *ack_path)
{
    return ack_path != NULL ? strdup(ack_path) : text_concat(path, ".acks");
}

static int config_copy_options(struct conclave_config *c, const struct conclave_config_options *o)
{
    int error = node_handle_watch(&c->nodes, o->path, o->tree ? MIRROR_WHOLE : 0, o->debounce_ms);
    c->tree = o->tree;
    c->cache_wait_ms = o->cache_wait_ms;
    if (error == 0 && o->cache_file != NULL) {
        c->cache_file = strdup(o->cache_file);
        error = c->cache_file == NULL ? CONCLAVE_ENOMEM : 0;
    }
    if (error == 0 && o->ack_id != NULL) {
        size_t len = 0;
        char *first = ack_text(0, 0, 0, "");
        member_incarnation(c->nodes.incarnation);
        char *text =
            first == NULL ? NULL : member_text(c->nodes.incarnation, first, strlen(first), &len);
        free(first);
        error = node_handle_keep(&c->nodes, config_ack_path(o->path, o->ack_path), o->ack_id,
                                 o->acl, o->acl_count, text, len);
    }
    return error;
}

int conclave_config_open(struct conclave_recipes *rt, const struct conclave_config_options *options,
                         const struct conclave_config_callbacks *callbacks, void *ctx,
                         struct conclave_config **ret)
{
    struct conclave_config_options own = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config_callbacks calls = CONCLAVE_CONFIG_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 ||
        !shared_config_options_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_config *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    c->callbacks = calls;
    c->ctx = ctx;
    client_timer_init(&c->cache_wait, on_cache_wait, c);
    int error = host_open(&c->nodes.host, rt, &config_class, config_copy_options(c, &own));
    if (error == 0) {
        *ret = c; /* before a callback can run */
        node_handle_begin(&c->nodes);
        if (c->cache_file != NULL) {
            client_timer_start(rt->client, &c->cache_wait,
                               client_after_ns(rt->client, c->cache_wait_ms));
        }
        client_unlock(rt->client);
    }
    return error;
}

void conclave_config_close(struct conclave_config *c)
{
    host_close(&c->nodes.host);
}

int conclave_config_close_wait(struct conclave_config *c, int64_t timeout_ms)
{
    return host_close_wait(&c->nodes.host, timeout_ms);
}

void conclave_config_destroy(struct conclave_config *c)
{
    host_destroy(c == NULL ? NULL : &c->nodes.host);
}
