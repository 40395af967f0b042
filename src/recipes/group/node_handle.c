#include "recipes/group/node_handle.h"

#include "client/core/acl.h"
#include "client/core/path.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct node_handle *node_handle_of(struct host *host)
{
    return CONTAINER_OF(host, struct node_handle, host);
}

/* --- the node ---------------------------------------------------------------------- */

static enum conclave_membership membership_of(const struct node_handle *n)
{
    enum conclave_state state = client_state(n->host.handle.rt->client);
    switch (n->member.place) {
    case MEMBER_STANDS:
        return CONCLAVE_MEMBERSHIP_IN;
    case MEMBER_OTHER:
        return CONCLAVE_MEMBERSHIP_CONFLICT;
    case MEMBER_DOUBT:
        if (n->member.czxid == 0 || state == CONCLAVE_STATE_LOST || state_is_final(state)) {
            return CONCLAVE_MEMBERSHIP_OUT;
        }
        /* the reads go on, on a live link: nothing has changed so far */
        return recipes_connected(n->host.handle.rt) && n->membership != CONCLAVE_MEMBERSHIP_OUT
                   ? n->membership
                   : CONCLAVE_MEMBERSHIP_UNSURE;
    default:
        return CONCLAVE_MEMBERSHIP_OUT;
    }
}

static void node_handle_on_member(struct member *m)
{
    struct node_handle *n = CONTAINER_OF(m, struct node_handle, member);
    enum conclave_membership now = membership_of(n);
    if (now != n->membership) {
        n->membership = now;
        handle_post(&n->host.handle);
        client_notify(n->host.handle.rt->client);
    }
    if (n->member_changed != NULL) {
        n->member_changed(n);
    }
    host_check(&n->host);
}

static void node_handle_on_member_failed(struct member *m, int error)
{
    host_end(&CONTAINER_OF(m, struct node_handle, member)->host, error);
}

int node_handle_keep(struct node_handle *n, char *parent_take, const char *id,
                     const struct conclave_acl *acl, size_t acl_count, char *text_take, size_t len)
{
    struct member *m = &n->member;
    member_init(m, &n->host.handle);
    m->parent = n->parent = parent_take;
    m->path = n->node = parent_take == NULL ? NULL : path_join(parent_take, id);
    m->incarnation = n->incarnation[0] != '\0' ? n->incarnation : NULL;
    m->changed = node_handle_on_member;
    m->failed = node_handle_on_member_failed;
    member_set_data_take(m, text_take, len);
    if (!acl_copy_option(acl, acl_count, &n->acl, &m->acl_count) || n->node == NULL ||
        text_take == NULL) {
        return CONCLAVE_ENOMEM;
    }
    m->acl = n->acl;
    return path_is_valid(n->node, false) ? 0 : CONCLAVE_EINVAL;
}

int node_handle_write(struct node_handle *n, char *text_take, size_t len)
{
    struct conclave_client *client = n->host.handle.rt->client;
    int error = text_take == NULL ? CONCLAVE_ENOMEM : client_check(client);
    if (error == 0) {
        client_lock(client);
        error = n->host.closing.ending ? CONCLAVE_ECLOSED : 0;
        if (error == 0) {
            member_set_data_take(&n->member, text_take, len);
        }
        client_unlock(client);
    }
    if (error != 0) {
        free(text_take);
    }
    return error;
}

bool node_handle_take_membership(struct node_handle *n, enum conclave_membership *ret)
{
    if (n->membership == n->told || n->host.closing.ending) {
        return false;
    }
    *ret = n->told = n->membership;
    return true;
}

enum conclave_membership node_handle_membership(struct node_handle *n)
{
    struct conclave_client *client = n->host.handle.rt->client;
    if (client_check(client) != 0) {
        return CONCLAVE_MEMBERSHIP_OUT;
    }
    client_lock(client);
    enum conclave_membership membership = n->membership;
    client_unlock(client);
    return membership;
}

static bool node_handle_is_in(void *ctx)
{
    return ((struct node_handle *)ctx)->membership == CONCLAVE_MEMBERSHIP_IN;
}

int node_handle_wait_in(struct node_handle *n, int64_t timeout_ms)
{
    struct conclave_recipes *rt = n->host.handle.rt;
    int error = recipes_may_block(rt);
    if (error == 0 && n->parent == NULL) {
        error = CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    client_lock(rt->client);
    error = host_wait(&n->host, node_handle_is_in, n, timeout_ms);
    if (error == CONCLAVE_ETIMEDOUT && n->membership == CONCLAVE_MEMBERSHIP_CONFLICT) {
        error = CONCLAVE_ECONFLICT;
    }
    client_unlock(rt->client);
    return error;
}

/* --- the mirror -------------------------------------------------------------------- */

static void node_handle_look(struct node_handle *n)
{
    struct mirror_view view;
    if (mirror_view(&n->mirror, &view) != 0) {
        node_handle_look_later(n);
        return;
    }
    mirror_view_clear(&n->seen);
    n->seen = view;
    n->seen_stale = !n->mirror.fresh;
    n->seen_due = true;
    handle_post(&n->host.handle);
    client_notify(n->host.handle.rt->client);
}

static void node_handle_on_told(struct mirror *m)
{
    node_handle_look(CONTAINER_OF(m, struct node_handle, mirror));
}

static void node_handle_on_watch_failed(struct mirror *m, int error)
{
    host_end(&CONTAINER_OF(m, struct node_handle, mirror)->host, error);
}

static void node_handle_on_look(struct conclave_client *client, void *ctx)
{
    node_handle_look(ctx);
}

void node_handle_look_later(struct node_handle *n)
{
    assert(n->mirror.path != NULL);
    recipes_retry_later(n->host.handle.rt, &n->look);
}

int node_handle_watch(struct node_handle *n, const char *path, int depth, int64_t debounce_ms)
{
    client_timer_init(&n->look, node_handle_on_look, n);
    n->seen_stale = true;
    int error = mirror_init(&n->mirror, &n->host.handle, path, depth, node_handle_on_told,
                            node_handle_on_watch_failed);
    n->mirror.debounce_ms = debounce_ms;
    return error;
}

bool node_handle_take_view(struct node_handle *n, struct mirror_view *ret, bool *ret_stale)
{
    if (!n->seen_due || n->host.closing.ending) {
        return false;
    }
    *ret = n->seen;
    *ret_stale = n->seen_stale;
    memset(&n->seen, 0, sizeof n->seen);
    n->seen_due = false;
    return true;
}

/* --- the handle -------------------------------------------------------------------- */

void node_handle_begin(struct node_handle *n)
{
    assert(!n->member.active && !n->mirror.active);
    if (n->parent != NULL) {
        member_start(&n->member);
    }
    if (n->mirror.path != NULL) {
        mirror_start(&n->mirror);
    }
}

void node_handle_on_state(struct host *host, enum conclave_state state)
{
    struct node_handle *n = node_handle_of(host);
    if (n->parent != NULL) {
        member_on_state(&n->member, state);
    }
    if (n->mirror.path != NULL) {
        mirror_on_state(&n->mirror, state);
    }
}

void node_handle_stop(struct host *host)
{
    struct node_handle *n = node_handle_of(host);
    mirror_stop(&n->mirror);
    client_timer_stop(host->handle.rt->client, &n->look);
    if (n->parent != NULL) {
        member_leave(&n->member);
    }
}

bool node_handle_is_idle(struct host *host)
{
    const struct node_handle *n = node_handle_of(host);
    return n->parent == NULL || n->member.left;
}

void node_handle_finish(struct node_handle *n)
{
    client_timer_stop(n->host.handle.rt->client, &n->look);
    mirror_finish(&n->mirror);
    member_finish(&n->member);
    mirror_view_clear(&n->seen);
    free(n->parent);
    free(n->node);
    free(n->acl);
}

/* --- a glance ---------------------------------------------------------------------- */

/* Never reported: its waiters see the reason. */
static void node_glance_tell_closed(struct host *host, int why)
{
}

static void node_glance_free(struct host *host)
{
    struct node_handle *n = node_handle_of(host);
    node_handle_finish(n);
    free(n);
}

static const struct host_class glance_class = {
    .on_state = node_handle_on_state,
    .stop = node_handle_stop,
    .tell_closed = node_glance_tell_closed,
    .free = node_glance_free,
};

int node_glance_open(struct conclave_recipes *rt, const char *path, bool once,
                     struct node_handle **ret)
{
    struct node_handle *n = calloc(1, sizeof *n);
    if (n == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int error = host_open(&n->host, rt, &glance_class, node_handle_watch(n, path, 1, 0));
    if (error == 0) {
        n->mirror.once = once;
        node_handle_begin(n);
        *ret = n;
        client_unlock(rt->client);
    }
    return error;
}

void node_glance_close(struct node_handle *n)
{
    if (n != NULL) {
        node_handle_stop(&n->host);
        handle_release(&n->host.handle);
    }
}
