/* Persistent nodes: a member with plain data, of any mode; a sequential one gets its name first, and one with a TTL has
 * a second member below it, which is written again and again. */
#include "recipes/group/node_handle.h"

#include "client/core/path.h"
#include "client/core/request.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"

#include <conclave/persistent_node.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_MAX = 512 * 1024, TOUCHES_PER_TTL = 3 };

struct conclave_persistent_node {
    struct node_handle nodes; /* first */
    struct conclave_persistent_node_callbacks callbacks;
    void *ctx;
    bool stopping;

    char *label; /* of a sequential node, until it has its name; NULL: it has it */
    struct protected_create create;
    char *first; /* the data that it is created with */
    size_t first_len;

    struct member touch; /* path NULL: no TTL */
    char *touch_path;
    struct client_timer touching;
};

static struct conclave_persistent_node *kept_node_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_persistent_node, nodes.host);
}

/* --- a sequential node gets its name ------------------------------------------------------ */

static void name_wanted(struct conclave_persistent_node *p)
{
    struct handle *h = &p->nodes.host.handle;
    if (p->label == NULL || p->stopping || p->create.phase != PROTECTED_IDLE ||
        !recipes_connected(h->rt)) {
        return;
    }
    protected_create_start(&p->create, &(struct protected_node){
                                           .parent = p->nodes.parent,
                                           .naming = CONCLAVE_NAMING_CURATOR_LATCH,
                                           .label = p->label,
                                           .data = p->first,
                                           .data_len = p->first_len,
                                           .acl = p->nodes.member.acl,
                                           .acl_count = p->nodes.member.acl_count,
                                       });
}

/* Memory may be there later; what else is tried again begins with the next session. */
static void on_name_pause(struct conclave_client *client, void *ctx)
{
    name_wanted(ctx);
}

static void on_named(struct protected_create *create, int error, char *path,
                     const struct conclave_stat *stat)
{
    struct conclave_persistent_node *p =
        CONTAINER_OF(create, struct conclave_persistent_node, create);
    struct member *m = &p->nodes.member;
    if (error == 0) {
        assert(!p->stopping && m->path == NULL);
        m->path = p->nodes.node = path;
        free(p->label);
        p->label = NULL;
        m->place = MEMBER_DOUBT; /* it is read, and its data compared */
        m->synced = true;
        member_start(m);
    } else if (!p->stopping && (error == CONCLAVE_ENOMEM || error_is_refusal(error))) {
        recipes_retry_later(p->nodes.host.handle.rt, &p->touching);
    } else if (error != CONCLAVE_ECANCELED && error != CONCLAVE_SESSION_EXPIRED) {
        host_end(&p->nodes.host, error);
    }
    host_check(&p->nodes.host);
}

/* --- the touched node of a TTL ------------------------------------------------------------ */

static void touch_again(struct conclave_persistent_node *p)
{
    struct conclave_client *client = p->nodes.host.handle.rt->client;
    int64_t period_ns = p->touch.ttl_ms * 1000000 / TOUCHES_PER_TTL;
    client_timer_start(client, &p->touching, client_now_ns(client) + period_ns);
}

static void on_touch_due(struct conclave_client *client, void *ctx)
{
    struct conclave_persistent_node *p = ctx;
    member_set_data_take(&p->touch, NULL, 0);
    touch_again(p);
}

static void on_touch_changed(struct member *m)
{
    struct conclave_persistent_node *p = CONTAINER_OF(m, struct conclave_persistent_node, touch);
    client_notify(p->nodes.host.handle.rt->client);
    if (p->stopping && m->left) {
        node_handle_stop(&p->nodes.host); /* now the node can be deleted */
    }
    host_check(&p->nodes.host);
}

static void on_touch_failed(struct member *m, int error)
{
    struct conclave_persistent_node *p = CONTAINER_OF(m, struct conclave_persistent_node, touch);
    if (m->czxid == 0) {
        p->nodes.member.keep = false; /* no TTL would end it */
    }
    host_end(&p->nodes.host, error);
}

static void on_node_changed(struct node_handle *n)
{
    struct conclave_persistent_node *p = CONTAINER_OF(n, struct conclave_persistent_node, nodes);
    if (p->touch.path != NULL && !p->touch.active && !p->stopping && member_is_in(&n->member)) {
        member_start(&p->touch);
        touch_again(p);
    }
}

/* --- the handle ------------------------------------------------------------------------- */

static void kept_node_on_state(struct host *host, enum conclave_state state)
{
    struct conclave_persistent_node *p = kept_node_of(host);
    if (p->touch.path != NULL) {
        member_on_state(&p->touch,
                        state); /* its end may begin the node's, which must see this state */
    }
    node_handle_on_state(host, state);
    if (p->label != NULL) {
        protected_create_run(&p->create);
        name_wanted(p);
    }
}

static bool kept_node_run_due(struct host *host)
{
    struct conclave_persistent_node *p = kept_node_of(host);
    struct conclave_client *client = host->handle.rt->client;
    enum conclave_membership presence;
    if (!node_handle_take_membership(&p->nodes, &presence)) {
        return false;
    }
    if (p->callbacks.on_presence != NULL) {
        client_unlock(client);
        p->callbacks.on_presence(p, presence, p->ctx);
        client_lock(client);
    }
    return true;
}

/* "touch" goes first: a node with children cannot be deleted. */
static void kept_node_stop(struct host *host)
{
    struct conclave_persistent_node *p = kept_node_of(host);
    p->stopping = true;
    client_timer_stop(host->handle.rt->client, &p->touching);
    if (p->touch.path != NULL && !p->touch.left) {
        member_leave(&p->touch);
        return;
    }
    if (p->create.phase != PROTECTED_IDLE) {
        protected_create_cancel(&p->create);
    }
    node_handle_stop(host);
}

static bool kept_node_is_idle(struct host *host)
{
    const struct conclave_persistent_node *p = kept_node_of(host);
    return node_handle_is_idle(host) && p->create.phase == PROTECTED_IDLE;
}

static void kept_node_tell_closed(struct host *host, int why)
{
    struct conclave_persistent_node *p = kept_node_of(host);
    if (p->callbacks.on_closed != NULL) {
        p->callbacks.on_closed(p, why, p->ctx);
    }
}

static void kept_node_free(struct host *host)
{
    struct conclave_persistent_node *p = kept_node_of(host);
    client_timer_stop(host->handle.rt->client, &p->touching);
    if (p->create.machine.owner != NULL) {
        protected_create_finish(&p->create);
    }
    member_finish(&p->touch);
    node_handle_finish(&p->nodes);
    free(p->label);
    free(p->first);
    free(p->touch_path);
    free(p);
}

static const struct host_class kept_node_class = {
    .on_state = kept_node_on_state,
    .run_due = kept_node_run_due,
    .stop = kept_node_stop,
    .is_idle = kept_node_is_idle,
    .tell_closed = kept_node_tell_closed,
    .free = kept_node_free,
};

/* --- options ------------------------------------------------------------------------------ */

static bool kept_node_options_valid(const struct conclave_persistent_node_options *o)
{
    return option_path_valid(o->path) && o->data_len <= DATA_MAX &&
           (o->data != NULL || o->data_len == 0) && o->mode >= 0 && o->mode <= CONCLAVE_CONTAINER &&
           o->mode != CONCLAVE_PERSISTENT_SEQUENTIAL && o->ttl_ms >= 0 &&
           o->ttl_ms <= CONCLAVE_TTL_MAX_MS && (o->ttl_ms == 0 || o->mode == CONCLAVE_PERSISTENT);
}

static int sequential_options(struct conclave_persistent_node *p,
                              const struct conclave_persistent_node_options *o)
{
    protected_create_init(&p->create, &p->nodes.host.handle, on_named);
    client_timer_init(&p->touching, on_name_pause, p);
    p->first = bytes_copy(o->data, o->data_len);
    p->first_len = o->data_len;
    p->label = strdup(path_name(o->path));
    free(p->nodes.node);
    p->nodes.node = NULL;
    p->nodes.member.path = NULL;
    return p->first == NULL || p->label == NULL ? CONCLAVE_ENOMEM : 0;
}

static int ttl_options(struct conclave_persistent_node *p,
                       const struct conclave_persistent_node_options *o)
{
    struct member *m = &p->touch;
    p->nodes.member.mode = CONCLAVE_CONTAINER;
    client_timer_init(&p->touching, on_touch_due, p);
    member_init(m, &p->nodes.host.handle);
    m->path = p->touch_path = path_join(o->path, "touch");
    m->parent = p->nodes.node;
    m->acl = p->nodes.acl;
    m->acl_count = p->nodes.member.acl_count;
    m->mode = CONCLAVE_PERSISTENT;
    m->ttl_ms = o->ttl_ms;
    m->keep = o->keep;
    m->changed = on_touch_changed;
    m->failed = on_touch_failed;
    member_set_data_take(m, NULL, 0); /* to be written also to one that is there already */
    return p->touch_path == NULL ? CONCLAVE_ENOMEM : 0;
}

static int kept_node_copy_options(struct conclave_persistent_node *p,
                                  const struct conclave_persistent_node_options *o)
{
    const char *name = path_name(o->path);
    size_t above = (size_t)(name - o->path) > 1 ? (size_t)(name - o->path) - 1 : 1;
    int error = node_handle_keep(&p->nodes, strndup(o->path, above), name, o->acl, o->acl_count,
                                 bytes_copy(o->data, o->data_len), o->data_len);
    p->nodes.member_changed = on_node_changed;
    p->nodes.member.mode = o->mode;
    p->nodes.member.keep = o->keep && o->mode != CONCLAVE_EPHEMERAL;
    if (error == 0 && o->mode == CONCLAVE_EPHEMERAL_SEQUENTIAL) {
        p->nodes.member.mode = CONCLAVE_EPHEMERAL;
        p->nodes.member.keep = false;
        error = sequential_options(p, o);
    }
    return error == 0 && o->ttl_ms > 0 ? ttl_options(p, o) : error;
}

int conclave_persistent_node_open(struct conclave_recipes *rt,
                                  const struct conclave_persistent_node_options *options,
                                  const struct conclave_persistent_node_callbacks *callbacks,
                                  void *ctx, struct conclave_persistent_node **ret)
{
    struct conclave_persistent_node_options own = CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT;
    struct conclave_persistent_node_callbacks calls = CONCLAVE_PERSISTENT_NODE_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 || !kept_node_options_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_persistent_node *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return CONCLAVE_ENOMEM;
    }
    p->callbacks = calls;
    p->ctx = ctx;
    int error = host_open(&p->nodes.host, rt, &kept_node_class, kept_node_copy_options(p, &own));
    if (error == 0) {
        *ret = p; /* before a callback can run */
        if (p->label == NULL) {
            node_handle_begin(&p->nodes);
        }
        name_wanted(p);
        client_unlock(rt->client);
    }
    return error;
}

/* --- asking ------------------------------------------------------------------------------- */

int conclave_persistent_node_set_data(struct conclave_persistent_node *p, const void *data,
                                      size_t len)
{
    if (len > DATA_MAX || (data == NULL && len > 0)) {
        return CONCLAVE_EINVAL;
    }
    return node_handle_write(&p->nodes, bytes_copy(data, len), len);
}

enum conclave_membership conclave_persistent_node_presence(struct conclave_persistent_node *p)
{
    return node_handle_membership(&p->nodes);
}

int conclave_persistent_node_path(struct conclave_persistent_node *p, char *buf, size_t len)
{
    struct conclave_client *client = p->nodes.host.handle.rt->client;
    int error = client_check(client);
    if (error == 0 && len > 0) {
        client_lock(client);
        const char *path = p->label != NULL ? "" : p->nodes.node;
        int wanted = snprintf(buf, len, "%s", path);
        error = wanted == 0 ? CONCLAVE_EEMPTY : (size_t)wanted >= len ? CONCLAVE_ENOBUFS : 0;
        client_unlock(client);
    }
    return error;
}

static bool touch_is_in(void *ctx)
{
    return member_is_in(&((struct conclave_persistent_node *)ctx)->touch);
}

int conclave_persistent_node_wait(struct conclave_persistent_node *p, int64_t timeout_ms)
{
    struct conclave_client *client = p->nodes.host.handle.rt->client;
    int64_t deadline_ns = client_deadline_ns(client, timeout_ms);
    int error = node_handle_wait_in(&p->nodes, timeout_ms);
    if (error == 0 && p->touch.path != NULL) {
        int64_t left_ms = (deadline_ns - client_now_ns(client)) / 1000000;
        client_lock(client);
        error = host_wait(&p->nodes.host, touch_is_in, p,
                          timeout_ms == CONCLAVE_FOREVER ? timeout_ms
                          : left_ms > 0                  ? left_ms
                                                         : 0);
        client_unlock(client);
    }
    return error;
}

void conclave_persistent_node_close(struct conclave_persistent_node *p)
{
    host_close(&p->nodes.host);
}

int conclave_persistent_node_close_wait(struct conclave_persistent_node *p, int64_t timeout_ms)
{
    return host_close_wait(&p->nodes.host, timeout_ms);
}

void conclave_persistent_node_destroy(struct conclave_persistent_node *p)
{
    host_destroy(p == NULL ? NULL : &p->nodes.host);
}
