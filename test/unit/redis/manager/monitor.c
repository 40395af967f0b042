/* The monitor against servers that live in the same loop: what a probe, the end of a connection and a list of commands
 * make of a node. */
#include "redis/manager/monitor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { SERVERS = 2, CONNS_MAX = 16, PATIENCE_MS = 10000 };

#define RUN_ID "0123456789012345678901234567890123456789"
#define OTHER_RUN_ID "9876543210987654321098765432109876543210"

struct server;

struct conn {
    struct server *server;
    uv_tcp_t tcp;
    uv_timer_t later; /* an answer that is held back */
    const char *answer;
    bool open;
    bool subscriber;
};

struct server {
    uv_tcp_t listener;
    bool listening;
    int port;
    int infos;
    int accepted;
    const char *run_id;
    const char *role;
    bool cut_on_slow; /* SLOW cuts the subscribers, and is answered later */
    char heard[1024]; /* commands but INFO and SUBSCRIBE, a blank between */
    struct conn conns[CONNS_MAX];
};

struct world {
    uv_loop_t loop;
    struct server servers[SERVERS];
    struct stream_buffer *buffer;
    struct redis_config config;
    struct redis_access access;
    struct redis_monitor *monitor;
    int changes[SERVERS];
    int cuts[SERVERS];
    int refreshed;
    int commanded;
    int leads; /* times that may_act says yes; it counts down */
    struct redis_outcome outcome;
    bool closed;
};

/* The servers */

static void on_conn_closed(uv_handle_t *handle)
{
    ((struct conn *)handle->data)->open = false;
}

static void conn_cut(struct conn *c)
{
    if (c->open && !uv_is_closing((uv_handle_t *)&c->tcp)) {
        uv_close((uv_handle_t *)&c->later, NULL);
        uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
    }
}

static void conn_say(struct conn *c, const char *text)
{
    uv_buf_t out = uv_buf_init((char *)text, (unsigned)strlen(text));
    assert_int_equal(uv_try_write((uv_stream_t *)&c->tcp, &out, 1), (int)strlen(text));
}

static void on_later(uv_timer_t *timer)
{
    struct conn *c = timer->data;
    conn_say(c, c->answer);
}

static void conn_info(struct conn *c)
{
    char info[512];
    char text[600];
    snprintf(info, sizeof info,
             "# Server\r\nredis_version:7.0.15\r\nrun_id:%s\r\n# Replication\r\nrole:%s\r\n",
             c->server->run_id, c->server->role);
    snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(info), info);
    c->server->infos++;
    conn_say(c, text);
}

static void conn_take(struct conn *c, const char *word)
{
    struct server *s = c->server;
    if (strcmp(word, "INFO") == 0) {
        conn_info(c);
        return;
    }
    if (strcmp(word, "SUBSCRIBE") == 0) {
        c->subscriber = true;
        conn_say(c, "*3\r\n$9\r\nsubscribe\r\n$12\r\n__conclave__\r\n:1\r\n");
        return;
    }
    snprintf(s->heard + strlen(s->heard), sizeof s->heard - strlen(s->heard), "%s ", word);
    if (strcmp(word, "SLOW") == 0) {
        for (size_t i = 0; i < CONNS_MAX && s->cut_on_slow; i++) {
            if (s->conns[i].subscriber) {
                conn_cut(&s->conns[i]);
            }
        }
        c->answer = "+SLOWLY\r\n";
        uv_timer_start(&c->later, on_later, 100, 0);
    } else {
        conn_say(c, strcmp(word, "BAD") == 0 ? "-ERR bad\r\n" : "+OK\r\n");
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char room[8192];
    *buf = uv_buf_init(room, sizeof room - 1);
}

/* The first word of each command: lines "*N", "$len", "WORD". Commands of these tests come whole. */
static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct conn *c = stream->data;
    if (nread < 0) {
        conn_cut(c);
        return;
    }
    buf->base[nread] = '\0';
    char *line = buf->base;
    while (line != NULL && line[0] == '*' && !uv_is_closing((uv_handle_t *)stream)) {
        char word[32];
        int words = 0;
        assert_int_equal(sscanf(line, "*%d\r\n$%*d\r\n%31s", &words, word), 2);
        for (int skip = 0; skip < 1 + 2 * words; skip++) {
            line = strchr(line, '\n') + 1;
        }
        conn_take(c, word);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct server *s = listener->data;
    assert_int_equal(status, 0);
    struct conn *c = s->conns;
    while (c->open) {
        c++;
        assert_true(c < s->conns + CONNS_MAX);
    }
    *c = (struct conn){.server = s, .open = true};
    uv_tcp_init(listener->loop, &c->tcp);
    uv_timer_init(listener->loop, &c->later);
    c->tcp.data = c->later.data = c;
    s->accepted++;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&c->tcp), 0);
    assert_int_equal(uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read), 0);
}

static void server_start(struct world *w, struct server *s)
{
    struct sockaddr_in at;
    int len = sizeof at;
    s->run_id = RUN_ID;
    s->role = "master";
    s->listener.data = s;
    uv_ip4_addr("127.0.0.1", 0, &at);
    assert_int_equal(uv_tcp_init(&w->loop, &s->listener), 0);
    assert_int_equal(uv_tcp_bind(&s->listener, (struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&s->listener, 8, on_connection), 0);
    uv_tcp_getsockname(&s->listener, (struct sockaddr *)&at, &len);
    s->port = ntohs(at.sin_port);
    s->listening = true;
}

/* As if by signal 9. */
static void server_kill(struct server *s)
{
    if (s->listening) {
        s->listening = false;
        uv_close((uv_handle_t *)&s->listener, NULL);
    }
    for (size_t i = 0; i < CONNS_MAX; i++) {
        conn_cut(&s->conns[i]);
    }
}

/* The monitor */

static void on_probed(void *ctx, int node, bool changed, const char *text)
{
    struct world *w = ctx;
    w->changes[node] += changed;
    w->cuts[node] += redis_monitor_nodes(w->monitor)[node].probe == REDIS_PROBE_CUT;
}

static void on_refreshed(void *ctx)
{
    ((struct world *)ctx)->refreshed++;
}

static bool on_may_act(void *ctx)
{
    return ((struct world *)ctx)->leads-- > 0;
}

static void on_commanded(void *ctx, const struct redis_outcome *outcome)
{
    struct world *w = ctx;
    w->commanded++;
    w->outcome = *outcome;
}

static void on_closed(void *ctx)
{
    ((struct world *)ctx)->closed = true;
}

static const struct redis_node *node_of(const struct world *w, int node)
{
    return &redis_monitor_nodes(w->monitor)[node];
}

static void run_until_state(struct world *w, int node, enum redis_node_state state)
{
    int64_t end = redis_link_now_ms() + PATIENCE_MS;
    while (node_of(w, node)->state != state) {
        assert_true(redis_link_now_ms() < end);
        uv_run(&w->loop, UV_RUN_ONCE);
    }
}

static void run_until(struct world *w, const int *count, int wanted)
{
    int64_t end = redis_link_now_ms() + PATIENCE_MS;
    while (*count < wanted) {
        assert_true(redis_link_now_ms() < end);
        uv_run(&w->loop, UV_RUN_ONCE);
    }
}

static bool subscribed(const struct server *s)
{
    bool found = false;
    for (size_t i = 0; i < CONNS_MAX; i++) {
        found = found || (s->conns[i].open && s->conns[i].subscriber);
    }
    return found;
}

static struct world *world_create(void)
{
    char nodes[128];
    const char *bad;
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    w->buffer = stream_buffer_create();
    w->leads = INT32_MAX;
    for (int i = 0; i < SERVERS; i++) {
        server_start(w, &w->servers[i]);
    }
    redis_config_init(&w->config);
    w->config.min_down_ms = 150;
    snprintf(nodes, sizeof nodes, "127.0.0.1:%d,127.0.0.1:%d", w->servers[0].port,
             w->servers[1].port);
    assert_int_equal(redis_config_nodes(&w->config, nodes, &bad), 0);
    struct redis_monitor_settings settings = {.loop = &w->loop,
                                              .read_buffer = w->buffer,
                                              .config = &w->config,
                                              .access = &w->access,
                                              .on_probed = on_probed,
                                              .ctx = w};
    assert_int_equal(redis_monitor_create(&settings, &w->monitor), 0);
    for (int i = 0; i < SERVERS; i++) {
        run_until_state(w, i, REDIS_NODE_UP);
        while (!subscribed(&w->servers[i])) {
            uv_run(&w->loop, UV_RUN_ONCE);
        }
    }
    return w;
}

static void world_destroy(struct world *w)
{
    redis_monitor_close(w->monitor, on_closed, w);
    for (int i = 0; i < SERVERS; i++) {
        server_kill(&w->servers[i]);
    }
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_true(w->closed);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    stream_buffer_release(w->buffer);
    free(w);
}

static struct redis_command command(const char *word, bool optional)
{
    struct redis_command c = {.argc = 1, .optional = optional};
    snprintf(c.argv[0], sizeof c.argv[0], "%s", word);
    return c;
}

static void test_sees_and_says(void **state)
{
    struct world *w = world_create();
    assert_string_equal(node_of(w, 0)->facts.run_id, RUN_ID);
    assert_int_equal(node_of(w, 0)->facts.role, REDIS_ROLE_MASTER);
    assert_true(node_of(w, 0)->latency_us >= 0);
    assert_string_equal(node_of(w, 0)->peer, "127.0.0.1");
    assert_int_equal(w->servers[0].accepted, 2); /* one asks, one waits */
    world_destroy(w);
}

static void test_the_end_is_one_failure_and_noticed_at_once(void **state)
{
    struct world *w = world_create();
    int64_t began = redis_link_now_ms();
    server_kill(&w->servers[0]);
    run_until_state(w, 0, REDIS_NODE_SUSPECT);
    assert_true(redis_link_now_ms() - began < w->config.period_ms / 2);
    assert_int_equal(node_of(w, 0)->failures, 1);
    run_until_state(w, 0, REDIS_NODE_DOWN);
    assert_int_equal(w->cuts[0], 1); /* though two connections ended */
    assert_int_equal(node_of(w, 0)->probe, REDIS_PROBE_REFUSED);
    assert_true(redis_link_now_ms() - began >= w->config.min_down_ms);
    assert_true(node_of(w, 0)->failures < 10); /* no storm of connections */
    assert_int_equal(node_of(w, 1)->state, REDIS_NODE_UP);
    world_destroy(w);
}

static void test_a_lost_connection_is_no_death(void **state)
{
    struct world *w = world_create();
    for (size_t i = 0; i < CONNS_MAX; i++) {
        conn_cut(&w->servers[0].conns[i]);
    }
    run_until(w, &w->cuts[0], 1);
    run_until_state(w, 0, REDIS_NODE_UP);
    assert_int_equal(w->cuts[0], 1);
    while (!subscribed(&w->servers[0])) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    world_destroy(w);
}

static int give(struct world *w, int node, const char *run_id, const struct redis_command *list,
                size_t count)
{
    struct redis_orders orders = {.node = node,
                                  .run_id = run_id,
                                  .role = REDIS_ROLE_MASTER,
                                  .list = list,
                                  .count = count,
                                  .may_act = on_may_act,
                                  .done = on_commanded,
                                  .ctx = w};
    return redis_monitor_command(w->monitor, &orders);
}

static void run_commands(struct world *w, const char *run_id, const struct redis_command *list,
                         size_t count)
{
    int before = w->commanded;
    assert_int_equal(give(w, 0, run_id, list, count), 0);
    assert_int_equal(w->commanded, before); /* never from inside */
    run_until(w, &w->commanded, before + 1);
}

static void test_commands_stop_at_what_counts(void **state)
{
    struct world *w = world_create();
    struct redis_command good[] = {command("ONE", false), command("BAD", true),
                                   command("TWO", false)};
    struct redis_command bad[] = {command("THREE", false), command("BAD", false),
                                  command("FOUR", false)};
    int infos = w->servers[0].infos;
    run_commands(w, "", good, 3);
    assert_true(w->outcome.ok);
    assert_string_equal(w->servers[0].heard, "ONE BAD TWO ");
    assert_true(w->servers[0].infos > infos); /* its facts are fresh */
    run_commands(w, RUN_ID, bad, 3);
    assert_false(w->outcome.ok);
    assert_int_equal(w->outcome.failed, 1);
    assert_string_equal(w->outcome.text, "ERR bad");
    assert_string_equal(w->servers[0].heard, "ONE BAD TWO THREE BAD ");
    world_destroy(w);
}

static void test_another_process_gets_no_command(void **state)
{
    struct world *w = world_create();
    struct redis_command list[] = {command("ONE", false)};
    w->servers[0].run_id = OTHER_RUN_ID; /* restarted, and nobody has looked since */
    run_commands(w, RUN_ID, list, 1);
    assert_false(w->outcome.ok);
    assert_int_equal(w->outcome.failed, 0);
    assert_string_equal(w->servers[0].heard, "");
    assert_string_equal(node_of(w, 0)->facts.run_id, OTHER_RUN_ID);
    world_destroy(w);
}

static void test_another_role_gets_no_command(void **state)
{
    struct world *w = world_create();
    struct redis_command list[] = {command("ONE", false)};
    w->servers[0].role = "slave"; /* the same process, re-made by somebody else since */
    run_commands(w, RUN_ID, list, 1);
    assert_false(w->outcome.ok);
    assert_int_equal(w->outcome.failed, 0);
    assert_string_equal(w->servers[0].heard, "");
    assert_int_equal(node_of(w, 0)->facts.role, REDIS_ROLE_REPLICA);
    world_destroy(w);
}

static void test_no_command_after_the_lease(void **state)
{
    struct world *w = world_create();
    struct redis_command list[] = {command("ONE", false), command("TWO", true)};
    w->leads = 0; /* it ended while the server was asked who it is */
    run_commands(w, RUN_ID, list, 2);
    assert_false(w->outcome.ok);
    assert_int_equal(w->outcome.failed, 0);
    assert_string_equal(w->servers[0].heard, "");
    w->leads = 1; /* while it answered the first command */
    run_commands(w, RUN_ID, list, 2);
    assert_false(w->outcome.ok);
    assert_int_equal(w->outcome.failed, 1);
    assert_string_equal(w->outcome.text, "the lease is over");
    assert_string_equal(w->servers[0].heard, "ONE ");
    world_destroy(w);
}

static void test_fencing_cuts_subscribers_and_goes_on(void **state)
{
    struct world *w = world_create();
    struct redis_command list[] = {command("SLOW", false), command("AFTER", false)};
    w->servers[0].cut_on_slow = true;
    run_commands(w, RUN_ID, list, 2);
    assert_true(w->outcome.ok);
    assert_string_equal(w->servers[0].heard, "SLOW AFTER ");
    assert_int_equal(node_of(w, 0)->state, REDIS_NODE_UP);
    world_destroy(w);
}

static void test_a_server_that_dies_under_a_command(void **state)
{
    struct world *w = world_create();
    struct redis_command list[] = {command("SLOW", false), command("AFTER", true)};
    assert_int_equal(give(w, 0, "", list, 2), 0);
    while (w->servers[0].heard[0] == '\0') {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    server_kill(&w->servers[0]);
    run_until(w, &w->commanded, 1);
    assert_false(w->outcome.ok);
    assert_int_equal(w->outcome.failed, 0);
    assert_int_equal(node_of(w, 0)->state, REDIS_NODE_SUSPECT); /* the INFO behind it was refused */
    assert_int_equal(node_of(w, 0)->probe, REDIS_PROBE_REFUSED);
    world_destroy(w);
}

static void test_refresh_waits_for_all(void **state)
{
    struct world *w = world_create();
    int infos = w->servers[1].infos;
    int64_t began = redis_link_now_ms();
    server_kill(&w->servers[0]);
    assert_int_equal(redis_monitor_refresh(w->monitor, 3, on_refreshed, w), 0);
    assert_int_equal(w->refreshed, 0);
    run_until(w, &w->refreshed, 1);
    assert_true(w->servers[1].infos > infos);
    assert_true(node_of(w, 1)->facts_ms >= began);
    assert_true(node_of(w, 0)->failures > 0);
    world_destroy(w);
}

static void test_closed_in_the_midst(void **state)
{
    struct world *w = world_create();
    struct redis_command list[] = {command("SLOW", false)};
    assert_int_equal(give(w, 0, RUN_ID, list, 1), 0);
    assert_int_equal(give(w, 1, "", list, 1), 0);
    assert_int_equal(redis_monitor_refresh(w->monitor, 3, on_refreshed, w), 0);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    redis_monitor_close(w->monitor, on_closed, w);
    while (!w->closed) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    assert_int_equal(w->commanded + w->refreshed, 0);
    for (int i = 0; i < SERVERS; i++) {
        server_kill(&w->servers[i]);
    }
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    stream_buffer_release(w->buffer);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sees_and_says),
        cmocka_unit_test(test_the_end_is_one_failure_and_noticed_at_once),
        cmocka_unit_test(test_a_lost_connection_is_no_death),
        cmocka_unit_test(test_commands_stop_at_what_counts),
        cmocka_unit_test(test_another_process_gets_no_command),
        cmocka_unit_test(test_another_role_gets_no_command),
        cmocka_unit_test(test_no_command_after_the_lease),
        cmocka_unit_test(test_fencing_cuts_subscribers_and_goes_on),
        cmocka_unit_test(test_a_server_that_dies_under_a_command),
        cmocka_unit_test(test_refresh_waits_for_all),
        cmocka_unit_test(test_closed_in_the_midst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
