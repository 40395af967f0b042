/* Probes, and the errands of the leader: INFO of some servers now, and commands for one. */
#include "redis/manager/monitor.h"

#include "base/random.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AGAIN_MS = 100, SUSPECT_PART = 10 };

/* All managers subscribe to it; nothing is ever published there. */
#define ALARM_CHANNEL "__conclave__"

/* One server. */
struct eye {
    struct redis_monitor *monitor;
    int place;
    struct redis_link *probe; /* INFO and commands */
    struct redis_link *alarm; /* in SUBSCRIBE: its end shows the end of the server */
    uv_timer_t timer;         /* the next probe */
    bool probing;
    bool subscribing;
};

struct redis_monitor {
    uv_loop_t *loop;
    const struct redis_config *config;
    void (*on_probed)(void *ctx, int node, bool changed, const char *text);
    void *ctx;
    struct eye eyes[REDIS_NODES_MAX];
    struct redis_node nodes[REDIS_NODES_MAX];
    int parts; /* links and timers that are not closed */
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* One INFO of an errand. */
struct monitor_look {
    struct errand *errand;
    struct eye *eye;
};

/* Work for the leader: one refresh, or one list of commands. */
struct errand {
    struct redis_monitor *monitor;
    void (*refreshed)(void *ctx); /* NULL: commands */
    struct redis_orders orders;   /* the commands; ctx of both */
    struct redis_command list[REDIS_COMMANDS_MAX];
    char run_id[REDIS_ID_SIZE];
    size_t at; /* the next command */
    struct redis_outcome outcome;
    int left; /* INFOs under way */
    struct monitor_look looks[REDIS_NODES_MAX];
};

static void eye_probe(struct eye *e);

static void monitor_on_timer(uv_timer_t *timer)
{
    eye_probe(timer->data);
}

/* A few percent of randomness keep the probes of several managers apart. */
static void eye_arm(struct eye *e)
{
    const struct redis_config *config = e->monitor->config;
    struct redis_node *node = &e->monitor->nodes[e->place];
    int64_t now = redis_link_now_ms();
    int64_t left = redis_node_next_probe_ms(node, config) - now;
    if (e->monitor->closing) {
        return;
    }
    if (left > 0) {
        left -= (int64_t)random_below((uint64_t)left / 16 + 1);
    }
    if (node->state == REDIS_NODE_SUSPECT && node->failures > 1 &&
        (node->probe == REDIS_PROBE_CUT || node->probe == REDIS_PROBE_REFUSED)) {
        left = config->period_ms /
               SUSPECT_PART; /* such an answer costs little: soon, but not at once */
    }
    uv_update_time(e->monitor->loop);
    uv_timer_start(&e->timer, monitor_on_timer, left > 0 ? (uint64_t)left : 0, 0);
}

static void on_subscribed(void *ctx, const struct redis_answer *answer)
{
    struct eye *e = ctx;
    e->subscribing = false;
}

static void eye_subscribe(struct eye *e)
{
    static const char *const SUBSCRIBE[] = {"SUBSCRIBE", ALARM_CHANNEL};
    if (e->subscribing || redis_link_stands(e->alarm)) {
        return;
    }
    e->subscribing = redis_link_send(e->alarm, 2, SUBSCRIBE, e->monitor->config->op_timeout_ms,
                                     on_subscribed, e) == 0;
}

/* Counts the result of a probe. */
static void eye_count(struct eye *e, enum redis_probe probe, const struct redis_facts *facts,
                      int64_t sent_ms, int64_t latency_us, const char *text)
{
    struct redis_monitor *m = e->monitor;
    struct redis_node *node = &m->nodes[e->place];
    bool changed = redis_node_probed(node, m->config, probe, facts, sent_ms, redis_link_now_ms());
    if (facts != NULL && latency_us >= 0) {
        node->latency_us = latency_us;
    }
    if (facts != NULL) {
        snprintf(node->peer, sizeof node->peer, "%.*s", REDIS_PEER_SIZE - 1,
                 redis_link_peer(e->probe));
        eye_subscribe(e);
    }
    m->on_probed(m->ctx, e->place, changed, text);
}

static void eye_take(struct eye *e, const struct redis_answer *answer)
{
    struct redis_facts facts;
    enum redis_probe probe = answer->outcome;
    if (probe != REDIS_PROBE_OK) {
        eye_count(e, probe, NULL, answer->sent_ms, -1, answer->text);
    } else if (redis_facts_read(answer->text, answer->len, &facts) != 0) {
        eye_count(e, REDIS_PROBE_ERROR, NULL, answer->sent_ms, -1, "this is no Redis server");
    } else {
        eye_count(e, REDIS_PROBE_OK, &facts, answer->sent_ms, answer->latency_us, "");
    }
}

static void on_probe(void *ctx, const struct redis_answer *answer)
{
    struct eye *e = ctx;
    assert(e->probing);
    e->probing = false;
    if (e->monitor->closing) {
        return;
    }
    eye_take(e, answer);
    eye_arm(e);
}

static int eye_ask(struct eye *e, redis_answer_fn fn, void *ctx)
{
    static const char *const INFO[] = {"INFO"};
    return redis_link_send(e->probe, 1, INFO, e->monitor->config->op_timeout_ms, fn, ctx);
}

static void eye_probe(struct eye *e)
{
    if (e->probing || e->monitor->closing) {
        return;
    }
    if (eye_ask(e, on_probe, e) == 0) {
        e->probing = true;
    } else {
        uv_timer_start(&e->timer, monitor_on_timer, AGAIN_MS, 0);
    }
}

/* Both connections end with the server's process, one after the other: that counts as one failure, and the next
 * connection shows whether it is one. If a command waits on the probe connection, its answer decides: a leader that
 * demotes a server cuts the other connection (CLIENT KILL), and its commands go on. */
static void eye_cut(struct eye *e, enum redis_probe why, const char *text)
{
    if (redis_link_waits(e->probe) || e->monitor->closing) {
        return;
    }
    redis_link_drop(e->probe);
    eye_count(e, why, NULL, redis_link_now_ms(), -1, text);
    eye_probe(e);
}

static void on_cut(void *ctx, enum redis_probe why, const char *text)
{
    eye_cut(ctx, why, text);
}

/* --- errands of the leader */

static void errand_end(struct errand *errand)
{
    assert(errand->left == 0);
    assert((errand->refreshed == NULL) != (errand->orders.done == NULL));
    if (!errand->monitor->closing && errand->refreshed != NULL) {
        errand->refreshed(errand->orders.ctx);
    } else if (!errand->monitor->closing) {
        errand->orders.done(errand->orders.ctx, &errand->outcome);
    }
    free(errand);
}

/* No further command is sent. */
static void errand_fail(struct errand *errand, const char *text)
{
    errand->outcome = (struct redis_outcome){.failed = (int)errand->at};
    snprintf(errand->outcome.text, sizeof errand->outcome.text, "%.*s",
             (int)sizeof errand->outcome.text - 1, text);
    errand->at = errand->orders.count;
}

static void on_look(void *ctx, const struct redis_answer *answer)
{
    struct monitor_look *look = ctx;
    struct errand *errand = look->errand;
    if (!errand->monitor->closing) {
        eye_take(look->eye, answer);
        if (!look->eye->probing) {
            eye_arm(look->eye);
        }
    }
    assert(errand->left > 0);
    if (--errand->left == 0) {
        errand_end(errand);
    }
}

/* INFO for an errand. A server that cannot be asked for want of memory is left out: its facts stay old. */
static void errand_look(struct errand *errand, int node)
{
    struct monitor_look *look = &errand->looks[node];
    *look = (struct monitor_look){.errand = errand, .eye = &errand->monitor->eyes[node]};
    errand->left += eye_ask(look->eye, on_look, look) == 0;
}

int redis_monitor_refresh(struct redis_monitor *monitor, uint32_t nodes, void (*done)(void *ctx),
                          void *ctx)
{
    struct errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL) {
        return CONCLAVE_ENOMEM;
    }
    errand->monitor = monitor;
    errand->refreshed = done;
    errand->orders.ctx = ctx;
    for (size_t i = 0; i < monitor->config->node_count; i++) {
        if ((nodes & (UINT32_C(1) << i)) != 0) {
            errand_look(errand, (int)i);
        }
    }
    if (errand->left == 0) {
        free(errand);
        return CONCLAVE_ENOMEM;
    }
    return 0;
}

static void errand_go_on(struct errand *errand);

static void on_command(void *ctx, const struct redis_answer *answer)
{
    struct errand *errand = ctx;
    bool failed = answer->outcome != REDIS_PROBE_OK;
    bool tolerated = errand->list[errand->at].optional && redis_probe_answers(answer->outcome);
    if (errand->monitor->closing) {
        free(errand);
        return;
    }
    if (failed && !tolerated) {
        errand_fail(errand, answer->text);
    } else {
        errand->at++;
        if (answer->text[0] != '\0' && !failed) {
            snprintf(errand->outcome.text, sizeof errand->outcome.text, "%.*s",
                     (int)sizeof errand->outcome.text - 1, answer->text);
        }
    }
    errand_go_on(errand);
}

/* Sends the next command. */
static int errand_send(struct errand *errand)
{
    const struct redis_command *command = &errand->list[errand->at];
    const char *argv[REDIS_ARGS_MAX];
    for (int i = 0; i < command->argc; i++) {
        argv[i] = command->argv[i];
    }
    return redis_link_send(errand->monitor->eyes[errand->orders.node].probe, command->argc, argv,
                           errand->monitor->config->op_timeout_ms, on_command, errand);
}

/* The next command, or the INFO at the end. The lease is checked again: answers take time. */
static void errand_go_on(struct errand *errand)
{
    if (errand->at < errand->orders.count) {
        bool may = errand->orders.may_act(errand->orders.ctx);
        if (may && errand_send(errand) == 0) {
            return;
        }
        errand_fail(errand, may ? "out of memory" : "the lease is over");
    }
    errand_look(errand, errand->orders.node);
    if (errand->left == 0) {
        errand_end(errand);
    }
}

/* Why this server gets no commands; NULL: it gets them. */
static const char *errand_stranger(const struct errand *errand, const struct redis_answer *answer)
{
    const struct redis_facts *facts = &errand->monitor->nodes[errand->orders.node].facts;
    if (answer->outcome != REDIS_PROBE_OK) {
        return answer->text;
    }
    if (strcmp(facts->run_id, errand->run_id) != 0) {
        return "it was restarted meanwhile";
    }
    return facts->role != errand->orders.role ? "its role has changed meanwhile" : NULL;
}

/* INFO comes first: since the facts were read, the process may have been restarted or changed its role. */
static void on_asked_who(void *ctx, const struct redis_answer *answer)
{
    struct errand *errand = ctx;
    if (errand->monitor->closing) {
        free(errand);
        return;
    }
    eye_take(&errand->monitor->eyes[errand->orders.node], answer);
    const char *stranger = errand_stranger(errand, answer);
    if (stranger != NULL) {
        errand_fail(errand, stranger);
    }
    errand_go_on(errand);
}

int redis_monitor_command(struct redis_monitor *monitor, const struct redis_orders *orders)
{
    struct errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL) {
        return CONCLAVE_ENOMEM;
    }
    assert(orders->count > 0 && orders->count <= REDIS_COMMANDS_MAX);
    errand->monitor = monitor;
    errand->orders = *orders;
    errand->outcome = (struct redis_outcome){.ok = true, .failed = -1};
    memcpy(errand->list, orders->list, orders->count * sizeof *orders->list);
    snprintf(errand->run_id, sizeof errand->run_id, "%s", orders->run_id);
    int rc = errand->run_id[0] != '\0' ? eye_ask(&monitor->eyes[orders->node], on_asked_who, errand)
                                       : errand_send(errand);
    if (rc != 0) {
        free(errand);
    }
    return rc;
}

/* --- opening and closing */

static void monitor_part_closed(struct redis_monitor *m)
{
    assert(m->closing && m->parts > 0);
    if (--m->parts > 0) {
        return;
    }
    void (*closed)(void *) = m->closed;
    void *ctx = m->closed_ctx;
    free(m);
    if (closed != NULL) {
        closed(ctx);
    }
}

static void on_link_closed(void *ctx)
{
    monitor_part_closed(ctx);
}

static void monitor_on_timer_closed(uv_handle_t *handle)
{
    monitor_part_closed(((struct eye *)handle->data)->monitor);
}

void redis_monitor_close(struct redis_monitor *monitor, void (*closed)(void *ctx), void *ctx)
{
    assert(!monitor->closing);
    monitor->closing = true;
    monitor->closed = closed;
    monitor->closed_ctx = ctx;
    monitor->parts++; /* until this call ends */
    for (size_t i = 0; i < monitor->config->node_count; i++) {
        struct eye *e = &monitor->eyes[i];
        if (e->probe != NULL) {
            redis_link_close(e->probe, on_link_closed, monitor);
        }
        if (e->alarm != NULL) {
            redis_link_close(e->alarm, on_link_closed, monitor);
        }
        if (e->monitor != NULL) {
            uv_close((uv_handle_t *)&e->timer, monitor_on_timer_closed);
        }
    }
    monitor_part_closed(monitor);
}

static int eye_open(struct redis_monitor *m, int place, const struct redis_monitor_settings *s)
{
    struct eye *e = &m->eyes[place];
    const struct redis_node_config *node = &s->config->nodes[place];
    struct redis_link_settings settings = {.loop = s->loop,
                                           .read_buffer = s->read_buffer,
                                           .access = s->access,
                                           .host = node->host,
                                           .port = node->port,
                                           .silence_ms = s->config->op_timeout_ms,
                                           .on_cut = on_cut,
                                           .ctx = e};
    e->monitor = m;
    e->place = place;
    if (uv_timer_init(s->loop, &e->timer) != 0) {
        abort(); /* cannot fail: it allocates nothing */
    }
    e->timer.data = e;
    m->parts++;
    int rc = redis_link_create(&settings, &e->probe);
    m->parts += rc == 0;
    rc = rc != 0 ? rc : redis_link_create(&settings, &e->alarm);
    m->parts += rc == 0;
    return rc;
}

int redis_monitor_create(const struct redis_monitor_settings *settings, struct redis_monitor **ret)
{
    size_t count = settings->config->node_count;
    assert(count > 0 && count <= REDIS_NODES_MAX);
    struct redis_monitor *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return CONCLAVE_ENOMEM;
    }
    m->loop = settings->loop;
    m->config = settings->config;
    m->on_probed = settings->on_probed;
    m->ctx = settings->ctx;
    for (size_t i = 0; i < count; i++) {
        redis_node_init(&m->nodes[i]);
        int rc = eye_open(m, (int)i, settings);
        if (rc != 0) {
            redis_monitor_close(m, NULL, NULL);
            return rc;
        }
    }
    for (size_t i = 0; i < count; i++) {
        eye_probe(&m->eyes[i]);
    }
    *ret = m;
    return 0;
}

const struct redis_node *redis_monitor_nodes(const struct redis_monitor *monitor)
{
    return monitor->nodes;
}

bool redis_monitor_local(const struct redis_monitor *monitor, char host[NET_HOST_MAX])
{
    struct net_address first = {.host = ""};
    struct net_address at;
    for (size_t i = 0; i < monitor->config->node_count; i++) {
        if (!redis_link_local(monitor->eyes[i].probe, &at)) {
            continue;
        }
        if (strcmp(at.host, host) == 0) {
            return true;
        }
        first = first.host[0] == '\0' ? at : first;
    }
    if (first.host[0] != '\0') {
        memcpy(host, first.host, NET_HOST_MAX);
    }
    return first.host[0] != '\0';
}
