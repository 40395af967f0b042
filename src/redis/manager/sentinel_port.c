#include "redis/manager/sentinel_port.h"

#include "base/clock.h"
#include "base/list.h"
#include "redis/sentinel/sentinel_events.h"

#include <conclave/redis.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { REQUEST_EXPIRES_MS = 10000 };

struct sentinel_port {
    struct sentinel_port_settings s;
    struct sentinel_server *server; /* NULL: closed */
    struct conclave_redis *follow;  /* proves that the record is current; NULL: closed */
    struct sentinel_seen seen;
    struct list asked; /* node of struct asked_failover */
    bool closing;
    int parts; /* that are not closed */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* A request for a fail-over that is being stored. It may outlive the port. */
struct asked_failover {
    struct list node;
    struct sentinel_port *port; /* NULL: closed */
    uint64_t session_id;
};

static bool serves(const struct redis_current *current)
{
    return current->master[0] != '\0' &&
           (current->state == REDIS_STATE_OK || current->state == REDIS_STATE_DEGRADED ||
            current->state == REDIS_STATE_PAUSED);
}

static void port_facts(void *ctx, struct sentinel_facts *ret)
{
    const struct sentinel_port *p = ctx;
    assert(!p->closing);
    struct redis_znodes znodes = redis_store_znodes(p->s.store);
    const struct redis_current *current = znodes.known ? znodes.current : NULL;
    int verdict = p->follow != NULL
                      ? conclave_redis_may_write(p->follow, current != NULL ? current->epoch : 0)
                      : CONCLAVE_EDISCONNECTED;
    *ret = (struct sentinel_facts){.name = p->s.options->name,
                                   .id = p->s.id,
                                   .port = p->s.options->port,
                                   .config = p->s.config,
                                   .nodes = redis_monitor_nodes(p->s.monitor),
                                   .current = current,
                                   .plan = znodes.known ? znodes.plan : NULL,
                                   .managers = p->s.managers,
                                   .in_contact = verdict != CONCLAVE_EDISCONNECTED,
                                   .proved = verdict == 0 || verdict == CONCLAVE_EBUSY,
                                   .writable = verdict == 0 && serves(current),
                                   .now_ms = redis_link_now_ms()};
}

static void port_publish(void *ctx, const char *channel, const char *message)
{
    const struct sentinel_port *p = ctx;
    sentinel_server_publish(p->server, channel, message);
}

void sentinel_port_look(struct sentinel_port *port)
{
    struct sentinel_facts facts;
    if (!port->closing && port->server != NULL) {
        port_facts(port, &facts);
        sentinel_events_look(&port->seen, &facts, port_publish, port);
    }
}

/* --- requests */

static void on_stored(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct asked_failover *asked = ctx;
    if (asked->port != NULL) {
        sentinel_server_requested(asked->port->server, asked->session_id, reply->error);
    }
    list_remove(&asked->node);
    free(asked);
}

static int port_failover(void *ctx, uint64_t session_id)
{
    struct sentinel_port *p = ctx;
    char path[REDIS_PATH_MAX];
    int64_t now_ms = clock_wall_ms(clock_system());
    struct redis_request request = {.kind = REDIS_REQUEST_FAILOVER,
                                    .expires_ms = now_ms + REQUEST_EXPIRES_MS};
    struct buf out;
    if (!list_empty(&p->asked)) {
        return CONCLAVE_EBUSY; /* one at a time: each is a node that stays until the leader has seen it */
    }
    struct asked_failover *asked = calloc(1, sizeof *asked);
    if (asked == NULL) {
        return CONCLAVE_ENOMEM;
    }
    snprintf(request.by, sizeof request.by, "SENTINEL FAILOVER at %.100s", p->s.id);
    snprintf(request.id, sizeof request.id, "%.90s:%lld", p->s.id, (long long)now_ms);
    buf_init(&out, 0);
    record_write(&out, &REDIS_REQUEST, &request);
    struct conclave_op op =
        conclave_op_create(redis_path(redis_store_root(p->s.store), "requests/req-", path),
                           out.data, out.len, CONCLAVE_PERSISTENT_SEQUENTIAL);
    int error = buf_ok(&out)
                    ? conclave_submit(redis_store_client(p->s.store), &op, on_stored, asked)
                    : CONCLAVE_ENOMEM;
    buf_finish(&out);
    if (error != 0) {
        free(asked);
        return error;
    }
    asked->port = p;
    asked->session_id = session_id;
    list_push_back(&p->asked, &asked->node);
    return 0;
}

static void port_refused(void *ctx, const char *peer, const char *why)
{
    const struct sentinel_port *p = ctx;
    p->s.refused(p->s.ctx, peer, why);
}

/* --- opening and closing */

static void port_part_gone(void *ctx)
{
    struct sentinel_port *p = ctx;
    assert(p->parts > 0);
    if (--p->parts == 0) {
        void (*closed)(void *) = p->closed;
        void *closed_ctx = p->closed_ctx;
        assert(p->closing && list_empty(&p->asked));
        free(p);
        if (closed != NULL) {
            closed(closed_ctx);
        }
    }
}

static void port_on_change(struct conclave_redis *redis, const struct conclave_redis_view *view,
                           void *ctx)
{
    sentinel_port_look(ctx);
}

static void port_on_follow_closed(struct conclave_redis *redis, int why, void *ctx)
{
    struct sentinel_port *p = ctx;
    p->follow = NULL; /* from now on no master is named */
    conclave_redis_destroy(redis);
    sentinel_port_look(p);
    port_part_gone(p);
}

static int port_follow(struct sentinel_port *p)
{
    struct conclave_redis_options options = CONCLAVE_REDIS_OPTIONS_INIT;
    struct conclave_redis_callbacks callbacks = {
        .size = sizeof callbacks, .on_change = port_on_change, .on_closed = port_on_follow_closed};
    options.path = redis_store_root(p->s.store);
    options.stale_ms = p->s.options->stale_ms;
    int rc = conclave_redis_open(p->s.recipes, &options, &callbacks, p, &p->follow);
    p->parts += rc == 0;
    return rc;
}

int sentinel_port_open(const struct sentinel_port_settings *settings, struct sentinel_port **ret,
                       int *ret_detail)
{
    struct sentinel_port *p = calloc(1, sizeof *p);
    const struct sentinel_options *o = settings->options;
    *ret_detail = 0;
    if (p == NULL) {
        return CONCLAVE_ENOMEM;
    }
    p->s = *settings;
    list_init(&p->asked);
    struct sentinel_server_settings server = {.loop = settings->loop,
                                              .host = o->host,
                                              .port = o->port,
                                              .tls = o->tls,
                                              .patience_ms = SENTINEL_PATIENCE_MS,
                                              .rates = SENTINEL_RATES,
                                              .refused = port_refused,
                                              .backend = {.facts = port_facts,
                                                          .failover = port_failover,
                                                          .users = o->users,
                                                          .failover_allowed = o->failover_allowed,
                                                          .ctx = p}};
    int rc = sentinel_server_open(&server, &p->server, ret_detail);
    if (rc != 0) {
        free(p);
        return rc;
    }
    p->parts = 1;
    rc = port_follow(p);
    if (rc != 0) {
        sentinel_port_close(p, NULL, NULL);
        return rc;
    }
    *ret = p;
    return 0;
}

void sentinel_port_close(struct sentinel_port *port, void (*closed)(void *ctx), void *ctx)
{
    struct list *node;
    assert(!port->closing);
    port->closing = true;
    port->closed = closed;
    port->closed_ctx = ctx;
    while ((node = list_pop_front(&port->asked)) != NULL) {
        CONTAINER_OF(node, struct asked_failover, node)->port = NULL;
    }
    if (port->follow != NULL) {
        conclave_redis_close(port->follow);
    }
    sentinel_server_close(port->server, port_part_gone, port);
    port->server = NULL;
}
