#include "recipes/value/shared_config.h"

#include "client/core/acl.h"
#include "client/core/path.h"
#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/persistent_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_MAX = 256 };

struct conclave_config {
    struct handle handle; /* first */
    struct conclave_config_callbacks callbacks;
    void *ctx;
    struct closing closing;
    char *path;
    char *cache_file;
    bool tree;
    struct conclave_acl *acl;

    struct mirror mirror;
    bool seen_due;             /* the mirror has something, or `fresh` changed */
    bool live;                 /* a state of the ensemble was told */
    bool stale_told;           /* what on_stale said last */
    struct mirror_view told;   /* the dispatcher's: what was told last */
    struct client_timer again; /* memory was out */

    struct client_timer cache_wait;
    bool cache_due;
    bool cache_used; /* it is not used twice */

    struct member ack;
    bool acking;
    char *ack_path;
    char *ack_node;
    char incarnation[MEMBER_INCARNATION_MAX];
};

/* --- the machine -------------------------------------------------------------------- */

static void config_run(void *self)
{
    struct conclave_config *c = self;
    struct conclave_client *client = c->handle.rt->client;
    if (!c->closing.ending || c->closing.due) {
        return;
    }
    mirror_stop(&c->mirror);
    client_timer_stop(client, &c->cache_wait);
    client_timer_stop(client, &c->again);
    if (c->acking && !c->ack.left) {
        member_leave(&c->ack);
    }
    if (!c->acking || c->ack.left) {
        closing_done(&c->closing);
    }
}

static void shared_config_on_told(struct mirror *m)
{
    struct conclave_config *c = CONTAINER_OF(m, struct conclave_config, mirror);
    c->seen_due = true;
    handle_post(&c->handle);
}

static void shared_config_on_failed(struct mirror *m, int error)
{
    struct conclave_config *c = CONTAINER_OF(m, struct conclave_config, mirror);
    closing_begin(&c->closing, error);
    config_run(c);
}

static void on_ack(struct member *m)
{
    config_run(CONTAINER_OF(m, struct conclave_config, ack));
}

static void on_ack_failed(struct member *m, int error)
{
    struct conclave_config *c = CONTAINER_OF(m, struct conclave_config, ack);
    closing_begin(&c->closing, error);
    config_run(c);
}

static void on_cache_wait(struct conclave_client *client, void *ctx)
{
    struct conclave_config *c = ctx;
    if (!c->mirror.fresh && !c->live) {
        c->cache_due = true;
        handle_post(&c->handle);
    }
}

static void shared_config_on_again(struct conclave_client *client, void *ctx)
{
    struct conclave_config *c = ctx;
    handle_post(&c->handle);
}

static void again_later(struct conclave_config *c)
{
    struct conclave_client *client = c->handle.rt->client;
    client_timer_start(client, &c->again, client_now_ns(client) + 250 * 1000000LL);
}

static void config_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_config *c = CONTAINER_OF(h, struct conclave_config, handle);
    handle_ref(h);
    if (state_is_final(state)) {
        closing_begin(&c->closing,
                      state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED);
    }
    if (c->acking) {
        member_on_state(&c->ack, state);
    }
    mirror_on_state(&c->mirror, state);
    config_run(c);
    handle_unref(h);
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
    struct conclave_config_node *nodes = calloc(view->count + 1, sizeof *nodes);
    if (nodes == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *ret = (struct conclave_config_state){.nodes = nodes, .count = view->count, .zxid = view->zxid};
    for (size_t i = 0; i < view->count; i++) {
        const struct mirror_item *item = view->items[i];
        nodes[i] = (struct conclave_config_node){
            .path = item->path,
            .data = item->data,
            .data_len = item->data_len,
            .version = item->stat.version,
            .mzxid = item->stat.mzxid,
        };
        ret->mzxid = item->stat.mzxid > ret->mzxid ? item->stat.mzxid : ret->mzxid;
    }
    return 0;
}

/* Checks and applies, without the lock. What the acknowledgement is to say. */
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
    char *bytes = text == NULL ? NULL : member_text(c->incarnation, text, strlen(text), &len);
    free(text);
    if (bytes == NULL) {
        mirror_view_clear(&c->told); /* it is told once more, and acknowledged then */
        c->live = false;
        c->seen_due = true;
        again_later(c);
        return;
    }
    member_set_data_take(&c->ack, bytes, len);
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
    struct conclave_client *client = c->handle.rt->client;
    struct mirror_view view;
    struct conclave_config_state state;
    char why[WHY_MAX];
    if (!c->seen_due || !c->mirror.fresh || c->closing.ending) {
        return false;
    }
    if (mirror_view(&c->mirror, &view) != 0) {
        again_later(c);
        return false;
    }
    mirror_view_keep(&view, is_shown);
    if (c->live && views_equal(&view, &c->told)) {
        c->seen_due = false;
        mirror_view_clear(&view);
        return false;
    }
    if (state_of(&view, &state) != 0) {
        mirror_view_clear(&view);
        again_later(c);
        return false;
    }
    c->seen_due = false;
    c->live = true;
    client_unlock(client);
    int error = tell_state(c, &state, why);
    client_lock(client);
    mirror_view_clear(&c->told);
    c->told = view;
    if (c->acking && !c->closing.ending) {
        shared_config_acknowledge(c, &state, error, why);
    }
    free((void *)(uintptr_t)state.nodes);
    return true;
}

static bool tell_cached(struct conclave_config *c)
{
    struct conclave_client *client = c->handle.rt->client;
    struct config_file file;
    char why[WHY_MAX];
    if (!c->cache_due || c->cache_used || c->live || c->closing.ending) {
        return false;
    }
    c->cache_used = true;
    client_unlock(client);
    int error = config_file_read(c->cache_file, c->tree, &file);
    if (error == 0) {
        struct conclave_config_state state = {
            .nodes = file.nodes, .count = file.count, .stale = true};
        (void)apply(c, &state, why); /* nobody can be told whether it went well */
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
    struct conclave_client *client = c->handle.rt->client;
    bool stale = !c->mirror.fresh;
    if (stale == c->stale_told || c->closing.ending || (stale && !c->live)) {
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

static void shared_config_call_closed(void *self, int why)
{
    struct conclave_config *c = self;
    if (c->callbacks.on_closed != NULL) {
        c->callbacks.on_closed(c, why, c->ctx);
    }
}

static bool config_run_due(struct handle *h)
{
    struct conclave_config *c = CONTAINER_OF(h, struct conclave_config, handle);
    return tell_cached(c) || tell_live(c) || tell_stale(c) ||
           closing_tell(&c->closing, shared_config_call_closed, c);
}

/* --- the handle ------------------------------------------------------------------------ */

static void shared_config_copies_free(struct conclave_config *c)
{
    free(c->path);
    free(c->cache_file);
    free(c->acl);
    free(c->ack_path);
    free(c->ack_node);
    free(c);
}

static void config_free(struct handle *h)
{
    struct conclave_config *c = CONTAINER_OF(h, struct conclave_config, handle);
    client_timer_stop(h->rt->client, &c->again);
    client_timer_stop(h->rt->client, &c->cache_wait);
    mirror_finish(&c->mirror);
    member_finish(&c->ack);
    mirror_view_clear(&c->told);
    shared_config_copies_free(c);
}

static const struct handle_class config_class = {config_on_state, config_run_due, config_free};

static bool shared_config_options_valid(const struct conclave_config_options *o)
{
    return o != NULL && o->size >= sizeof *o && o->path != NULL && path_is_valid(o->path, false) &&
           (strcmp(o->path, "/") != 0 || o->ack_id == NULL || o->ack_path != NULL) &&
           (o->ack_path == NULL || path_is_valid(o->ack_path, false)) &&
           (o->ack_id == NULL || (o->ack_id[0] != '\0' && strchr(o->ack_id, '/') == NULL)) &&
           o->debounce_ms >= 0 && o->cache_wait_ms >= 0;
}

static struct conclave_config *config_make(const struct conclave_config_options *o)
{
    struct conclave_config *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    bool with_acl = o->acl != NULL && o->acl_count > 0;
    c->path = strdup(o->path);
    c->tree = o->tree;
    if (o->cache_file != NULL) {
        c->cache_file = strdup(o->cache_file);
    }
    if (with_acl) {
        c->acl = acl_copy(o->acl, o->acl_count);
    }
    if (o->ack_id != NULL) {
        member_incarnation(c->incarnation);
        c->ack_path = o->ack_path != NULL ? strdup(o->ack_path) : text_concat(o->path, ".acks");
        c->ack_node = c->ack_path == NULL ? NULL : path_join(c->ack_path, o->ack_id);
    }
    if (c->path == NULL || (o->cache_file != NULL && c->cache_file == NULL) ||
        (with_acl && c->acl == NULL) || (o->ack_id != NULL && c->ack_node == NULL) ||
        mirror_init(&c->mirror, &c->handle, o->path, o->tree ? MIRROR_WHOLE : 0,
                    shared_config_on_told, shared_config_on_failed) != 0) {
        shared_config_copies_free(c);
        return NULL;
    }
    c->mirror.debounce_ms = o->debounce_ms;
    return c;
}

static void config_begin(struct conclave_config *c, char *text, size_t len, size_t acl_count,
                         int64_t cache_wait_ms)
{
    struct conclave_client *client = c->handle.rt->client;
    if (text != NULL) {
        c->ack.path = c->ack_node;
        c->ack.parent = c->ack_path;
        c->ack.incarnation = c->incarnation;
        c->ack.acl = c->acl;
        c->ack.acl_count = c->acl == NULL ? 0 : acl_count;
        c->ack.changed = on_ack;
        c->ack.failed = on_ack_failed;
        c->acking = true;
        member_set_data_take(&c->ack, text, len);
        member_start(&c->ack);
    }
    mirror_start(&c->mirror);
    if (c->cache_file != NULL) {
        client_timer_start(client, &c->cache_wait, client_now_ns(client) + cache_wait_ms * 1000000);
    }
}

int conclave_config_open(struct conclave_recipes *rt, const struct conclave_config_options *options,
                         const struct conclave_config_callbacks *callbacks, void *ctx,
                         struct conclave_config **ret)
{
    size_t len = 0;
    char *text = NULL;
    int error = client_check(rt->client);
    if (error != 0) {
        return error;
    }
    if (!shared_config_options_valid(options)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_config *c = config_make(options);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    if (options->ack_id != NULL) {
        char *first = ack_text(0, 0, 0, "");
        text = first == NULL ? NULL : member_text(c->incarnation, first, strlen(first), &len);
        free(first);
        error = text == NULL                         ? CONCLAVE_ENOMEM
                : !path_is_valid(c->ack_node, false) ? CONCLAVE_EINVAL
                                                     : 0;
    }
    if (callbacks != NULL) {
        c->callbacks = *callbacks;
    }
    c->ctx = ctx;
    client_lock(rt->client);
    if (error == 0 && state_is_final(client_state(rt->client))) {
        error = CONCLAVE_ECLOSED;
    }
    if (error != 0) {
        client_unlock(rt->client);
        free(text);
        free(c->mirror.path);
        shared_config_copies_free(c);
        return error;
    }
    handle_init(&c->handle, rt, &config_class);
    closing_init(&c->closing, &c->handle);
    member_init(&c->ack, &c->handle);
    client_timer_init(&c->again, shared_config_on_again, c);
    client_timer_init(&c->cache_wait, on_cache_wait, c);
    *ret = c; /* before a callback can run */
    config_begin(c, text, len, options->acl_count, options->cache_wait_ms);
    client_unlock(rt->client);
    return 0;
}

void conclave_config_close(struct conclave_config *c)
{
    closing_ask(&c->closing, config_run, c);
}

int conclave_config_close_wait(struct conclave_config *c, int64_t timeout_ms)
{
    conclave_config_close(c);
    return closing_wait(&c->closing, timeout_ms);
}

void conclave_config_destroy(struct conclave_config *c)
{
    if (c != NULL) {
        closing_destroy(&c->closing);
    }
}
