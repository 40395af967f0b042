/* Discovering: a mirror of a service's node, its children read as instances. */
#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/tree_mirror.h"
#include "recipes/group/service_instance.h"

#include "base/random.h"
#include "client/core/path.h"

#include <stdlib.h>
#include <string.h>

enum { DOWN_MAX = 64 };

/* One of whom an error was noted. */
struct down {
    int64_t until_ns;
    int64_t czxid; /* of its node: in another life it may be well */
};

struct conclave_discovery {
    struct handle handle; /* first */
    struct conclave_discovery_callbacks callbacks;
    void *ctx;
    struct closing closing;
    struct mirror mirror;
    int64_t down_ms;
    bool seen_due;
    bool known;                     /* the list is of the ensemble */
    struct conclave_instance *list; /* one block; replaced as a whole */
    size_t count;
    size_t turn; /* of round robin */
    struct down down[DOWN_MAX];
    size_t down_next;
    struct client_timer again; /* memory was out */
};

static void discovery_run(void *self)
{
    struct conclave_discovery *d = self;
    if (d->closing.ending && !d->closing.due) {
        mirror_stop(&d->mirror);
        client_timer_stop(d->handle.rt->client, &d->again);
        closing_done(&d->closing);
    }
}

static void discovery_on_told(struct mirror *m)
{
    struct conclave_discovery *d = CONTAINER_OF(m, struct conclave_discovery, mirror);
    d->seen_due = true;
    handle_post(&d->handle);
}

static void discovery_on_failed(struct mirror *m, int error)
{
    struct conclave_discovery *d = CONTAINER_OF(m, struct conclave_discovery, mirror);
    closing_begin(&d->closing, error);
    discovery_run(d);
}

static void discovery_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_discovery *d = CONTAINER_OF(h, struct conclave_discovery, handle);
    handle_ref(h);
    if (state_is_final(state)) {
        closing_begin(&d->closing,
                      state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED);
    }
    mirror_on_state(&d->mirror, state);
    discovery_run(d);
    handle_unref(h);
}

static void discovery_on_again(struct conclave_client *client, void *ctx)
{
    struct conclave_discovery *d = ctx;
    handle_post(&d->handle);
}

/* --- telling --------------------------------------------------------------------------- */

/* The instances of a view, in one block. What is no instance is left out. */
static int instances_of(const struct mirror_view *view, struct conclave_instance **ret,
                        size_t *ret_count)
{
    struct conclave_instance *list = calloc(view->count + 1, sizeof *list);
    char **blocks = calloc(view->count + 1, sizeof *blocks);
    size_t n = 0;
    int error = list == NULL || blocks == NULL ? CONCLAVE_ENOMEM : 0;
    for (size_t i = 0; i < view->count && error == 0; i++) {
        const struct mirror_item *item = view->items[i];
        if (item->path[0] == '\0') {
            continue; /* the service's own node */
        }
        error = instance_read(item->data, item->data_len, &list[n], &blocks[n]);
        if (error == 0) {
            list[n++].token.czxid = item->stat.czxid;
        } else if (error == CONCLAVE_ECORRUPT) {
            error = 0;
        }
    }
    if (error == 0) {
        *ret = instances_copy(list, n);
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

static bool discovery_tell_change(struct conclave_discovery *d)
{
    struct conclave_client *client = d->handle.rt->client;
    struct mirror_view view;
    struct conclave_instance *list = NULL;
    size_t count = 0;
    if (!d->seen_due || d->closing.ending) {
        return false;
    }
    int error = mirror_view(&d->mirror, &view);
    if (error == 0) {
        error = instances_of(&view, &list, &count);
        mirror_view_clear(&view);
    }
    struct conclave_instance *copy = error == 0 ? instances_copy(list, count) : NULL;
    if (copy == NULL) {
        if (error == 0) {
            free(list);
        }
        client_timer_start(client, &d->again, client_now_ns(client) + 250 * 1000000LL);
        return false;
    }
    bool stale = !d->mirror.fresh;
    d->seen_due = false;
    free(d->list);
    d->list = copy;
    d->count = count;
    d->known = d->known || !stale;
    client_notify(client);
    if (d->callbacks.on_change != NULL) {
        client_unlock(client);
        d->callbacks.on_change(d, list, count, stale, d->ctx);
        client_lock(client);
    }
    free(list);
    return true;
}

static void discovery_call_closed(void *self, int why)
{
    struct conclave_discovery *d = self;
    if (d->callbacks.on_closed != NULL) {
        d->callbacks.on_closed(d, why, d->ctx);
    }
}

static bool discovery_run_due(struct handle *h)
{
    struct conclave_discovery *d = CONTAINER_OF(h, struct conclave_discovery, handle);
    return discovery_tell_change(d) || closing_tell(&d->closing, discovery_call_closed, d);
}

static void discovery_free(struct handle *h)
{
    struct conclave_discovery *d = CONTAINER_OF(h, struct conclave_discovery, handle);
    client_timer_stop(h->rt->client, &d->again);
    mirror_finish(&d->mirror);
    free(d->list);
    free(d);
}

static const struct handle_class discovery_class = {discovery_on_state, discovery_run_due,
                                                    discovery_free};

int conclave_discovery_open(struct conclave_recipes *rt,
                            const struct conclave_discovery_options *options,
                            const struct conclave_discovery_callbacks *callbacks, void *ctx,
                            struct conclave_discovery **ret)
{
    int error = client_check(rt->client);
    if (error != 0) {
        return error;
    }
    if (options == NULL || options->size < sizeof *options || options->path == NULL ||
        !path_is_valid(options->path, false) || options->name == NULL || options->name[0] == '\0' ||
        strchr(options->name, '/') != NULL || options->debounce_ms < 0 || options->down_ms < 0) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_discovery *d = calloc(1, sizeof *d);
    char *path = path_join(options->path, options->name);
    if (d == NULL || path == NULL ||
        mirror_init(&d->mirror, &d->handle, path, 1, discovery_on_told, discovery_on_failed) != 0) {
        error = CONCLAVE_ENOMEM;
    } else if (!path_is_valid(path, false)) {
        free(d->mirror.path);
        error = CONCLAVE_EINVAL;
    }
    free(path);
    if (error != 0) {
        free(d);
        return error;
    }
    if (callbacks != NULL) {
        d->callbacks = *callbacks;
    }
    d->ctx = ctx;
    d->down_ms = options->down_ms;
    d->mirror.debounce_ms = options->debounce_ms;
    client_lock(rt->client);
    if (state_is_final(client_state(rt->client))) {
        client_unlock(rt->client);
        free(d->mirror.path);
        free(d);
        return CONCLAVE_ECLOSED;
    }
    handle_init(&d->handle, rt, &discovery_class);
    closing_init(&d->closing, &d->handle);
    client_timer_init(&d->again, discovery_on_again, d);
    *ret = d; /* before a callback can run */
    mirror_start(&d->mirror);
    client_unlock(rt->client);
    return 0;
}

/* --- choosing -------------------------------------------------------------------------- */

static bool is_down(const struct conclave_discovery *d, const struct conclave_instance *instance)
{
    int64_t now = client_now_ns(d->handle.rt->client);
    for (size_t i = 0; i < DOWN_MAX; i++) {
        if (d->down[i].czxid == instance->token.czxid && now < d->down[i].until_ns) {
            return true;
        }
    }
    return false;
}

/* How many there are to choose from, or the one at place `wanted` of them. */
static size_t eligible(const struct conclave_discovery *d, bool down_too, size_t wanted,
                       const struct conclave_instance **ret)
{
    size_t n = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (d->list[i].enabled && (down_too || !is_down(d, &d->list[i]))) {
            if (n == wanted) {
                *ret = &d->list[i];
            }
            n++;
        }
    }
    return n;
}

int conclave_discovery_pick(struct conclave_discovery *d, enum conclave_pick how,
                            struct conclave_instance **ret)
{
    struct conclave_client *client = d->handle.rt->client;
    const struct conclave_instance *found = NULL;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    bool down_too = false;
    size_t count = eligible(d, false, SIZE_MAX, &found);
    if (count == 0) {
        down_too = true;
        count = eligible(d, true, SIZE_MAX, &found);
    }
    if (count == 0) {
        error = CONCLAVE_EEMPTY;
    } else {
        size_t place =
            how == CONCLAVE_PICK_RANDOM ? (size_t)random_below(count) : d->turn++ % count;
        (void)eligible(d, down_too, place, &found);
        *ret = found == NULL ? NULL : instances_copy(found, 1);
        error = *ret == NULL ? CONCLAVE_ENOMEM : 0;
    }
    client_unlock(client);
    return error;
}

void conclave_discovery_note_error(struct conclave_discovery *d, const char *id)
{
    struct conclave_client *client = d->handle.rt->client;
    if (client_check(client) != 0) {
        return;
    }
    client_lock(client);
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->list[i].id, id) == 0) {
            d->down[d->down_next++ % DOWN_MAX] =
                (struct down){client_now_ns(client) + d->down_ms * 1000000, d->list[i].token.czxid};
        }
    }
    client_unlock(client);
}

static bool known_or_ended(void *ctx)
{
    struct conclave_discovery *d = ctx;
    return d->known || d->closing.ending;
}

int conclave_discovery_instances(struct conclave_discovery *d, int64_t timeout_ms,
                                 struct conclave_instance **ret, size_t *ret_count)
{
    struct conclave_client *client = d->handle.rt->client;
    int error = recipes_may_block(d->handle.rt);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_ref(&d->handle);
    error = client_wait(client, known_or_ended, d, client_deadline_ns(client, timeout_ms));
    if (d->closing.ending) {
        error = d->closing.why;
    } else if (error == 0) {
        *ret = instances_copy(d->list, d->count);
        *ret_count = d->count;
        error = *ret == NULL ? CONCLAVE_ENOMEM : 0;
    }
    handle_unref(&d->handle);
    client_unlock(client);
    return error;
}

void conclave_discovery_close(struct conclave_discovery *d)
{
    closing_ask(&d->closing, discovery_run, d);
}

int conclave_discovery_close_wait(struct conclave_discovery *d, int64_t timeout_ms)
{
    conclave_discovery_close(d);
    return closing_wait(&d->closing, timeout_ms);
}

void conclave_discovery_destroy(struct conclave_discovery *d)
{
    if (d != NULL) {
        closing_destroy(&d->closing);
    }
}
