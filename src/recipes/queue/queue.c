/* The queue's handle: opened, closed, and what its files share. */
#include "recipes/queue/queue.h"

#include "base/clock.h"
#include "client/core/acl.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/queue/queue_item.h"

#include <stdlib.h>
#include <string.h>

enum { ID_MAX = 1024 };

void queue_op_acl(const struct conclave_queue *q, struct conclave_op *op)
{
    op->acl = q->acl;
    op->acl_count = q->options.acl_count;
}

int64_t queue_wall_ms(void)
{
    return clock_wall_ms(clock_system());
}

bool queue_node_stays(const struct conclave_queue *q, const char *path)
{
    return q->naming.layout != CONCLAVE_QUEUE_LAYOUT_NATIVE &&
           (strcmp(path, q->path) == 0 || strcmp(path, q->claims) == 0);
}

void queue_call_ensure(const struct conclave_queue *q, struct call *call, const char *path)
{
    call->ensure.persistent = queue_node_stays(q, path);
    call_ensure(call, path, q->acl, q->options.acl_count);
}

int queue_ensure(const struct conclave_queue *q, struct ensure_path *ensure, const char *path,
                 void (*done)(struct ensure_path *ensure, int error))
{
    ensure->persistent = queue_node_stays(q, path);
    return ensure_path_start(ensure, path, q->acl, q->options.acl_count, done);
}

int queue_part_error(const struct conclave_reply *reply, size_t index)
{
    if (index >= reply->results_count) {
        return 0;
    }
    int error = reply->results[index]->error;
    return error == CONCLAVE_RUNTIME_INCONSISTENCY ? 0 : error;
}

/* --- class ------------------------------------------------------------------------- */

static void queue_on_state(struct host *host, enum conclave_state state)
{
    struct conclave_queue *q = queue_of(host);
    client_timer_stop(host->handle.rt->client, &q->size.pause);
    queue_size_run(q);
}

static bool queue_run_due(struct host *host)
{
    return queue_size_tell(queue_of(host));
}

static void queue_stop(struct host *host)
{
    queue_size_stop(queue_of(host));
    queue_items_release(queue_of(host));
    queue_order_close(queue_of(host));
}

static bool queue_is_idle(struct host *host)
{
    const struct conclave_queue *q = queue_of(host);
    return list_empty(&q->items);
}

static void queue_tell_closed(struct host *host, int why)
{
    struct conclave_queue *q = queue_of(host);
    if (q->callbacks.on_closed != NULL) {
        q->callbacks.on_closed(q, why, q->ctx);
    }
}

static void queue_free(struct host *host)
{
    struct conclave_queue *q = queue_of(host);
    queue_order_finish(&q->order);
    queue_size_finish(q);
    free(q->base);
    free(q->path);
    free(q->claims);
    free(q->prefix);
    free(q->dead);
    free(q->line);
    free(q->room);
    free(q->puts);
    free(q->id);
    free(q->acl);
    free(q);
}

static const struct host_class queue_class = {
    queue_on_state, queue_run_due, queue_stop, queue_is_idle, queue_tell_closed, queue_free,
};

/* --- opening ----------------------------------------------------------------------- */

static bool queue_layout_valid(const struct conclave_queue_options *o)
{
    bool plain = o->layout == CONCLAVE_QUEUE_LAYOUT_PLAIN;
    bool curator = o->layout >= CONCLAVE_QUEUE_LAYOUT_CURATOR &&
                   o->layout <= CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY;
    bool known = curator || (o->layout >= CONCLAVE_QUEUE_LAYOUT_NATIVE &&
                             o->layout <= CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING);
    bool prefix = o->prefix == NULL ||
                  (plain && o->prefix[0] != '\0' && strlen(o->prefix) <= CONCLAVE_QUEUE_ID_MAX &&
                   strchr(o->prefix, '/') == NULL);
    return known && prefix &&
           (o->claims_path == NULL || (curator && option_path_valid(o->claims_path)));
}

static bool queue_options_valid(const struct conclave_queue_options *o)
{
    return option_path_valid(o->path) && queue_layout_valid(o) && o->max_attempts >= 0 &&
           o->max_items >= 0 &&
           (o->id == NULL || (strchr(o->id, '\n') == NULL && strlen(o->id) <= ID_MAX));
}

static int queue_copy_options(struct conclave_queue *q, const struct conclave_queue_options *o)
{
    bool folders = o->layout == CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING;
    q->options = *o;
    q->options.path = q->base = strdup(o->path);
    q->path = folders ? text_concat(o->path, "/entries") : strdup(o->path);
    q->options.prefix = q->prefix = o->prefix != NULL ? strdup(o->prefix) : NULL;
    q->naming = (struct queue_naming){o->layout, q->prefix, false};
    q->options.id = q->id = o->id != NULL ? strdup(o->id) : default_id();
    q->claims = o->claims_path != NULL ? strdup(o->claims_path)
                                       : text_concat(o->path, folders ? "/taken" : ".claims");
    q->options.claims_path = q->claims;
    q->dead = text_concat(o->path, ".dead");
    q->line = text_concat(o->path, ".line");
    q->room = text_concat(o->path, ".room");
    q->puts = text_concat(o->path, ".puts");
    bool copied = acl_copy_option(o->acl, o->acl_count, &q->acl, &q->options.acl_count);
    q->options.acl = q->acl;
    return copied && q->base != NULL && q->path != NULL &&
                   (q->prefix != NULL) == (o->prefix != NULL) && q->claims != NULL &&
                   q->dead != NULL && q->line != NULL && q->room != NULL && q->puts != NULL &&
                   q->id != NULL
               ? 0
               : CONCLAVE_ENOMEM;
}

int conclave_queue_open(struct conclave_recipes *rt, const struct conclave_queue_options *options,
                        const struct conclave_queue_callbacks *callbacks, void *ctx,
                        struct conclave_queue **ret)
{
    struct conclave_queue_options own = CONCLAVE_QUEUE_OPTIONS_INIT;
    struct conclave_queue_callbacks calls = CONCLAVE_QUEUE_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 || !queue_options_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_queue *q = calloc(1, sizeof *q);
    if (q == NULL) {
        return CONCLAVE_ENOMEM;
    }
    q->callbacks = calls;
    q->ctx = ctx;
    list_init(&q->items);
    queue_order_init(&q->order);
    queue_size_init(q);
    int error = host_open(&q->host, rt, &queue_class, queue_copy_options(q, &own));
    if (error == 0) {
        *ret = q; /* before a callback can run */
        queue_size_run(q);
        client_unlock(rt->client);
    }
    return error;
}

void conclave_queue_close(struct conclave_queue *q)
{
    host_close(&q->host);
}

int conclave_queue_close_wait(struct conclave_queue *q, int64_t timeout_ms)
{
    return host_close_wait(&q->host, timeout_ms);
}

void conclave_queue_destroy(struct conclave_queue *q)
{
    host_destroy(q == NULL ? NULL : &q->host);
}
