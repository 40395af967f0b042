/* Discovering: a mirror of a service's node, its children read as instances. */
#include "recipes/group/node_handle.h"
#include "recipes/group/service_instance.h"

#include "base/random.h"
#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { DOWN_MAX = 64 };

/* One of whom errors were noted. */
struct down {
    int64_t until_ns; /* they count until then */
    int64_t czxid;    /* of its node: in another life it may be well */
    int errors;
};

struct conclave_discovery {
    struct node_handle nodes; /* first */
    struct conclave_discovery_callbacks callbacks;
    void *ctx;
    int64_t down_ms;
    int down_errors;
    int64_t sticky;                  /* czxid of the one that was chosen last to stay with */
    bool known;                      /* the list is of the ensemble */
    struct conclave_instance **list; /* one block; replaced as a whole */
    size_t count;
    size_t turn; /* of round robin */
    struct down down[DOWN_MAX];
    size_t down_next;
};

static struct conclave_discovery *discovery_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_discovery, nodes.host);
}

/* C converts such pointers only with a cast. */
static const struct conclave_instance *const *instances_const(struct conclave_instance **list)
{
    return (const struct conclave_instance *const *)list;
}

/* --- telling --------------------------------------------------------------------------- */

/* The instances of a view, in one block. Nodes that are no instance are left out. */
static int instances_of(const struct mirror_view *view, struct conclave_instance ***ret,
                        size_t *ret_count)
{
    struct conclave_instance **list = struct_list(view->count, sizeof **list, 0, NULL);
    char **blocks = calloc(view->count + 1, sizeof *blocks);
    size_t n = 0;
    int error = list == NULL || blocks == NULL ? CONCLAVE_ENOMEM : 0;
    for (size_t i = 0; i < view->count && error == 0; i++) {
        const struct mirror_item *item = view->items[i];
        if (item->path[0] == '\0') {
            continue; /* the service's own node */
        }
        error = instance_read(item->node.data, item->node.data_len, list[n], &blocks[n]);
        if (error == 0) {
            list[n++]->token.czxid = item->stat.czxid;
        } else if (error == CONCLAVE_ECORRUPT) {
            error = 0;
        }
    }
    if (error == 0) {
        *ret = instances_copy(instances_const(list), n);
        *ret_count = n;
        error = *ret == NULL ? CONCLAVE_ENOMEM : 0;
    }
    for (size_t i = 0; i < n; i++) {
        free(blocks[i]);
    }
    free(blocks);
    free(list);
    return error;
}

static bool discovery_run_due(struct host *host)
{
    struct conclave_discovery *d = discovery_of(host);
    struct conclave_client *client = host->handle.rt->client;
    struct conclave_instance **list = NULL;
    struct mirror_view view;
    size_t count = 0;
    bool stale;
    if (!node_handle_take_view(&d->nodes, &view, &stale)) {
        return false;
    }
    int error = instances_of(&view, &list, &count);
    mirror_view_clear(&view);
    struct conclave_instance **copy =
        error == 0 ? instances_copy(instances_const(list), count) : NULL;
    if (copy == NULL) {
        free(list);
        node_handle_look_later(&d->nodes);
        return false;
    }
    free(d->list);
    d->list = copy;
    d->count = count;
    d->known = d->known || !stale;
    client_notify(client);
    if (d->callbacks.on_change != NULL) {
        client_unlock(client);
        d->callbacks.on_change(d, instances_const(list), count, stale, d->ctx);
        client_lock(client);
    }
    free(list);
    return true;
}

static void discovery_tell_closed(struct host *host, int why)
{
    struct conclave_discovery *d = discovery_of(host);
    if (d->callbacks.on_closed != NULL) {
        d->callbacks.on_closed(d, why, d->ctx);
    }
}

static void discovery_free(struct host *host)
{
    struct conclave_discovery *d = discovery_of(host);
    node_handle_finish(&d->nodes);
    free(d->list);
    free(d);
}

static const struct host_class discovery_class = {
    .on_state = node_handle_on_state,
    .run_due = discovery_run_due,
    .stop = node_handle_stop,
    .tell_closed = discovery_tell_closed,
    .free = discovery_free,
};

static int discovery_copy_options(struct conclave_discovery *d,
                                  const struct conclave_discovery_options *o)
{
    char *path = path_join(o->path, o->name);
    int error = path == NULL ? CONCLAVE_ENOMEM : !path_is_valid(path, false) ? CONCLAVE_EINVAL : 0;
    if (error == 0) {
        error = node_handle_watch(&d->nodes, path, 1, o->debounce_ms);
    }
    d->down_ms = o->down_ms;
    d->down_errors = o->down_errors == 0 ? 1 : o->down_errors;
    free(path);
    return error;
}

int conclave_discovery_open(struct conclave_recipes *rt,
                            const struct conclave_discovery_options *options,
                            const struct conclave_discovery_callbacks *callbacks, void *ctx,
                            struct conclave_discovery **ret)
{
    struct conclave_discovery_options own = CONCLAVE_DISCOVERY_OPTIONS_INIT;
    struct conclave_discovery_callbacks calls = CONCLAVE_DISCOVERY_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 || own.path == NULL ||
        !path_is_valid(own.path, false) || own.name == NULL || own.name[0] == '\0' ||
        strchr(own.name, '/') != NULL || own.debounce_ms < 0 || own.down_ms < 0 ||
        own.down_errors < 0) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_discovery *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return CONCLAVE_ENOMEM;
    }
    d->callbacks = calls;
    d->ctx = ctx;
    int error = host_open(&d->nodes.host, rt, &discovery_class, discovery_copy_options(d, &own));
    if (error == 0) {
        *ret = d; /* before a callback can run */
        node_handle_begin(&d->nodes);
        client_unlock(rt->client);
    }
    return error;
}

/* --- choosing -------------------------------------------------------------------------- */

/* Its errors that count; NULL: none. */
static struct down *down_of(struct conclave_discovery *d, const struct conclave_instance *instance)
{
    int64_t now = client_now_ns(d->nodes.host.handle.rt->client);
    for (size_t i = 0; i < DOWN_MAX; i++) {
        if (d->down[i].czxid == instance->token.czxid && now < d->down[i].until_ns) {
            return &d->down[i];
        }
    }
    return NULL;
}

static bool is_down(struct conclave_discovery *d, const struct conclave_instance *instance)
{
    const struct down *down = down_of(d, instance);
    return down != NULL && down->errors >= d->down_errors;
}

/* Those to choose from, on the heap; those with errors only if there is no other. 0, CONCLAVE_EEMPTY, CONCLAVE_ENOMEM. */
static int eligible(struct conclave_discovery *d, const struct conclave_instance ***ret,
                    size_t *ret_count)
{
    const struct conclave_instance **list = calloc(d->count + 1, sizeof *list);
    size_t n = 0;
    if (list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (int down_too = 0; down_too < 2 && n == 0; down_too++) {
        for (size_t i = 0; i < d->count; i++) {
            if (d->list[i]->enabled && (down_too == 1 || !is_down(d, d->list[i]))) {
                list[n++] = d->list[i];
            }
        }
    }
    if (n == 0) {
        free(list);
        return CONCLAVE_EEMPTY;
    }
    *ret = list;
    *ret_count = n;
    return 0;
}

static size_t choose(struct conclave_discovery *d, enum conclave_pick how,
                     const struct conclave_instance *const *list, size_t count)
{
    if (how == CONCLAVE_PICK_ROUND_ROBIN) {
        return d->turn++ % count;
    }
    for (size_t i = 0; how == CONCLAVE_PICK_STICKY && i < count; i++) {
        if (list[i]->token.czxid == d->sticky) {
            return i;
        }
    }
    size_t place = (size_t)random_below(count);
    if (how == CONCLAVE_PICK_STICKY) {
        d->sticky = list[place]->token.czxid;
    }
    return place;
}

int conclave_discovery_pick(struct conclave_discovery *d, enum conclave_pick how,
                            struct conclave_instance **ret)
{
    struct conclave_client *client = d->nodes.host.handle.rt->client;
    const struct conclave_instance **list;
    size_t count;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = eligible(d, &list, &count);
    if (error == 0) {
        *ret = instance_copy(list[choose(d, how, list, count)]);
        error = *ret == NULL ? CONCLAVE_ENOMEM : 0;
        free(list);
    }
    client_unlock(client);
    return error;
}

int conclave_discovery_choose(struct conclave_discovery *d, conclave_choose_fn fn, void *ctx,
                              struct conclave_instance **ret)
{
    struct conclave_client *client = d->nodes.host.handle.rt->client;
    const struct conclave_instance **list;
    struct conclave_instance **copy = NULL;
    size_t count = 0;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = eligible(d, &list, &count);
    if (error == 0) { /* a copy, as the discovery replaces its own while `fn` runs */
        copy = instances_copy(list, count);
        error = copy == NULL ? CONCLAVE_ENOMEM : 0;
    }
    client_unlock(client);
    if (error == 0) {
        size_t place = fn(instances_const(copy), count, ctx);
        *ret = place < count ? instance_copy(copy[place]) : NULL;
        error = *ret != NULL ? 0 : place < count ? CONCLAVE_ENOMEM : CONCLAVE_EEMPTY;
    }
    if (count > 0) {
        free(list);
    }
    free(copy);
    return error;
}

void conclave_discovery_note_error(struct conclave_discovery *d, const char *id)
{
    struct conclave_client *client = d->nodes.host.handle.rt->client;
    if (client_check(client) != 0) {
        return;
    }
    client_lock(client);
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->list[i]->id, id) == 0) {
            struct down *down = down_of(d, d->list[i]);
            if (down == NULL) {
                down = &d->down[d->down_next++ % DOWN_MAX];
                *down = (struct down){.czxid = d->list[i]->token.czxid};
            }
            down->errors += down->errors < d->down_errors ? 1 : 0;
            down->until_ns = client_after_ns(client, d->down_ms);
        }
    }
    client_unlock(client);
}

static bool discovery_is_known(void *ctx)
{
    return ((struct conclave_discovery *)ctx)->known;
}

int conclave_discovery_instances(struct conclave_discovery *d, int64_t timeout_ms,
                                 struct conclave_instance ***ret, size_t *ret_count)
{
    struct conclave_recipes *rt = d->nodes.host.handle.rt;
    int error = recipes_may_block(rt);
    if (error != 0) {
        return error;
    }
    client_lock(rt->client);
    error = host_wait(&d->nodes.host, discovery_is_known, d, timeout_ms);
    if (error == 0) {
        *ret = instances_copy(instances_const(d->list), d->count);
        *ret_count = d->count;
        error = *ret == NULL ? CONCLAVE_ENOMEM : 0;
    }
    client_unlock(rt->client);
    return error;
}

void conclave_discovery_close(struct conclave_discovery *d)
{
    host_close(&d->nodes.host);
}

int conclave_discovery_close_wait(struct conclave_discovery *d, int64_t timeout_ms)
{
    return host_close_wait(&d->nodes.host, timeout_ms);
}

void conclave_discovery_destroy(struct conclave_discovery *d)
{
    host_destroy(d == NULL ? NULL : &d->nodes.host);
}
