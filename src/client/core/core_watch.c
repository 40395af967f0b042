/* Events of the server, and the removal of watches. */
#include "client/core/core_internal.h"

#include "client/core/path.h"

#include <stdio.h>
#include <stdlib.h>

enum { BEYOND_MAX = 64 };

static void tell_firing(struct core *c)
{
    struct list *link;
    while ((link = list_pop_front(&c->firing)) != NULL) {
        c->events->watch(c->ctx, CONTAINER_OF(link, struct client_watch, link));
    }
}

static void tell_events(struct core *c)
{
    struct list *link;
    while ((link = list_pop_front(&c->telling)) != NULL) {
        c->events->event(c->ctx, CONTAINER_OF(link, struct client_event, link));
    }
}

int core_take_event(struct core *c, struct slice body)
{
    struct wire_reader rd = wire_reader_make(body);
    struct wire_watcher_event event;
    if (wire_decode_watcher_event(&rd, &event) != 0) {
        return CONCLAVE_EPROTO;
    }
    struct slice path;
    char beyond[BEYOND_MAX];
    bool inside = true;
    bool known =
        event.type >= WIRE_EVENT_NODE_CREATED && event.type <= WIRE_EVENT_NODE_CHILDREN_CHANGED;
    if (!known) {
        return 0; /* no watch has such an event */
    }
    if (!path_strip(c->options.chroot, event.path, &path)) {
        if (event.path.len + 2 > sizeof beyond) {
            return 0; /* outside the chroot, where only short paths are watched */
        }
        inside = false;
        int len = snprintf(beyond, sizeof beyond, "/%.*s", (int)event.path.len, event.path.data);
        path = slice_make(beyond, (size_t)len);
    }
    enum conclave_event_type type = (enum conclave_event_type)event.type;
    watches_fire(&c->watches, type, path, &c->firing);
    /* Persistent watches are all inside: a recursive one on "/" must not see what is beyond. */
    int rc = inside ? watches_notify(&c->watches, type, path, &c->telling) : 0;
    tell_firing(c);
    tell_events(c);
    /* Out of memory, the link ends, so that the program learns that it may have missed something. */
    return rc;
}

int core_tell_resumed(struct core *c)
{
    c->resuming = false;
    int rc = watches_notify_all(&c->watches, CONCLAVE_EVENT_RESUMED, &c->telling);
    tell_events(c);
    return rc;
}

void core_lose_watches(struct core *c)
{
    watches_take_all(&c->watches, &c->firing);
    tell_firing(c);
}

/* --- taking back
 * -------------------------------------------------------------------------------------- */

/* Whether a request in progress will set a watch on the path; kind WATCH_KINDS: of any kind. */
static bool is_requested(const struct list *requests, const char *path, enum client_watch_kind kind)
{
    LIST_FOREACH (link, requests) {
        const struct client_request *r = CONTAINER_OF(link, struct client_request, link);
        bool wants = !r->answered && r->watch != NULL && strcmp(r->watch->path, path) == 0;
        if (wants &&
            (kind == WATCH_KINDS || (r->type == CONCLAVE_OP_ADD_WATCH && r->watch->kind == kind))) {
            return true;
        }
    }
    return false;
}

/* Whether a function still needs the server's watch of this kind on the path. */
static bool is_wanted(const struct core *c, const char *path, enum client_watch_kind kind)
{
    bool has = false;
    for (int k = 0; k < WATCH_KINDS; k++) {
        has = has || ((kind == WATCH_KINDS || k == (int)kind) &&
                      watches_has(&c->watches, (enum client_watch_kind)k, slice_str(path)));
    }
    return has || is_requested(&c->inflight, path, kind) || is_requested(&c->queued, path, kind);
}

void core_release_watch(struct core *c, const char *path, enum client_watch_kind kind)
{
    bool any = c->kinds_missing;
    if (c->link != LINK_UP || c->closing || is_wanted(c, path, any ? WATCH_KINDS : kind)) {
        return;
    }
    struct client_request *r = request_create_bare(WIRE_REMOVE_WATCHES);
    if (r == NULL) {
        return;
    }
    r->answered = true; /* it has no caller */
    r->watch = any ? NULL : watch_create(path, NULL, NULL);
    if (!any && r->watch == NULL) {
        request_unref(r);
        return;
    }
    int32_t type = CONCLAVE_WATCH_ANY;
    if (!any) {
        r->watch->kind = kind;
        type = kind == WATCH_RECURSIVE ? CONCLAVE_WATCH_RECURSIVE : CONCLAVE_WATCH_PERSISTENT;
    }
    if (core_send_bare(c, r, path, type) != 0) {
        request_unref(r);
    }
}

void core_take_released(struct core *c, const struct client_request *r, int error)
{
    if (error == CONCLAVE_MARSHALLING_ERROR && r->watch != NULL) {
        c->kinds_missing = true;
        core_release_watch(c, r->watch->path, r->watch->kind);
    }
}

/* Drops events for w that are not delivered yet. */
static void drop_events(struct core *c, const struct client_watch *w)
{
    struct list *next;
    for (struct list *it = c->telling.next; it != &c->telling; it = next) {
        struct client_event *e = CONTAINER_OF(it, struct client_event, link);
        next = it->next;
        if (e->watch == w) {
            list_remove(it);
            free(e);
        }
    }
}

struct client_watch *core_forget_watch(struct core *c, const char *path, conclave_watch_fn fn,
                                       void *ctx, bool internal)
{
    LIST_FOREACH (link, &c->firing) {
        struct client_watch *w = CONTAINER_OF(link, struct client_watch, link);
        if (w->internal == internal && w->fn == fn && w->ctx == ctx && strcmp(w->path, path) == 0) {
            list_remove(link);
            return w;
        }
    }
    struct client_watch *w = watches_take(&c->watches, path, fn, ctx, internal);
    if (w != NULL && watch_kind_is_persistent(w->kind)) {
        drop_events(c, w);
        core_release_watch(c, w->path, w->kind);
    }
    return w;
}
