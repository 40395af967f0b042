#include "cli/common/server_query.h"

#include "cli/common/command.h"
#include "cli/common/credentials.h"
#include "cli/common/values.h"
#include "net/connector.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The common state of all questions. */
struct query_run {
    uv_loop_t loop;
    uv_timer_t timer; /* the end of the time */
    struct stream_buffer *read_buffer;
    struct tls_context *tls; /* NULL: none */
    const char *tls_name;    /* the name that certificates must have; NULL: the host */
};

/* One question on its way. */
struct asking {
    struct query_run *run;
    struct server_query *ask;
    struct connector *connector; /* NULL: not any more */
    struct stream *stream;       /* NULL: not yet, or not any more */
    bool over;                   /* ask says how it ended */
};

static void asking_end(struct asking *g, int error, const char *why)
{
    if (g->over) {
        return;
    }
    g->over = true;
    g->ask->error = error;
    snprintf(g->ask->why, sizeof g->ask->why, "%s", why);
    connector_cancel(g->connector);
    g->connector = NULL;
    if (g->stream != NULL) {
        stream_close(g->stream);
    }
}

static void asking_send(struct asking *g)
{
    struct buf out;
    buf_init(&out, 0);
    buf_append_slice(&out, g->ask->question);
    if (buf_ok(&out)) {
        stream_send(g->stream, &out);
    } else {
        asking_end(g, CONCLAVE_ENOMEM, "out of memory");
    }
    buf_finish(&out);
}

static size_t asking_on_data(void *owner, struct slice bytes)
{
    struct asking *g = owner;
    if (g->ask->take != NULL) {
        int error = g->ask->take(g->ask->take_ctx, bytes);
        if (error != 0) {
            asking_end(g, error, conclave_strerror(error));
        }
        (void)uv_timer_again(&g->run->timer);
        return bytes.len;
    }
    buf_append_slice(&g->ask->answer, bytes);
    if (!buf_ok(&g->ask->answer)) {
        asking_end(g, CONCLAVE_ENOMEM, "the answer is too long");
    }
    return bytes.len;
}

static void asking_on_sent(void *owner)
{
}

static void asking_on_secured(void *owner)
{
    asking_send(owner);
}

static void asking_on_ended(void *owner, int error)
{
    struct asking *g = owner;
    const char *problem = stream_tls_problem(g->stream);
    if (problem != NULL) {
        asking_end(g, CONCLAVE_ETLS, problem);
    } else {
        asking_end(g, error == 0 ? 0 : CONCLAVE_EDISCONNECTED, error == 0 ? "" : strerror(-error));
    }
}

static void asking_on_closed(void *owner)
{
    struct asking *g = owner;
    assert(g->over);
    g->stream = NULL;
}

static const struct stream_handler asking_handler = {
    .data = asking_on_data,
    .sent = asking_on_sent,
    .secured = asking_on_secured,
    .ended = asking_on_ended,
    .closed = asking_on_closed,
};

static void asking_on_connected(void *ctx, struct stream *stream, int error)
{
    struct asking *g = ctx;
    struct query_run *run = g->run;
    bool found = error > UV__EAI_ADDRFAMILY; /* a code of the system, not of the lookup */
    g->connector = NULL;
    if (stream == NULL) {
        asking_end(g, found ? CONCLAVE_EDISCONNECTED : CONCLAVE_ERESOLVE,
                   found ? strerror(-error) : uv_strerror(error));
        return;
    }
    const char *name = run->tls_name != NULL ? run->tls_name : g->ask->host;
    int rc = run->tls != NULL ? stream_use_tls_client(stream, run->tls, name, true) : 0;
    g->stream = stream;
    if (stream_start(stream, &asking_handler, g) != 0) {
        asking_end(g, CONCLAVE_EDISCONNECTED, strerror(ENOTCONN));
    } else if (rc != 0) {
        asking_end(g, rc, "out of memory");
    } else if (run->tls == NULL) {
        asking_send(g);
    }
}

static void asking_start(struct asking *g)
{
    struct net_address to = {.port = g->ask->port};
    buf_init(&g->ask->answer, ASK_ANSWER_MAX);
    if ((size_t)snprintf(to.host, sizeof to.host, "%s", g->ask->host) >= sizeof to.host) {
        asking_end(g, CONCLAVE_ERESOLVE, "the name is too long");
    } else if (connector_start(&g->run->loop, &to, 0, g->run->read_buffer, asking_on_connected, g,
                               &g->connector) != 0) {
        asking_end(g, CONCLAVE_ENOMEM, "out of memory");
    }
}

static int open_tls(const char *command, const struct connection_security *security,
                    struct tls_context **ret)
{
    char why[TLS_TEXT_MAX];
    const struct conclave_tls_options *o = &security->tls;
    struct tls_settings settings = {
        .peer = TLS_PEER_NEED,
        .cert_file = o->cert_file,
        .key_file = o->key_file,
        .cert_password = o->key_password,
        .trust_file = o->ca_file,
        .trust_password = o->ca_password,
    };
    int rc = tls_context_create(&settings, ret, why);
    if (rc != 0) {
        fprintf(stderr, "conclave %s: TLS: %s\n", command,
                rc == CONCLAVE_EINVAL ? why : conclave_strerror(rc));
        return CLI_EXIT_USAGE;
    }
    return 0;
}

/* Controls of one byte; a carriage return only where it does not end a line together with a newline. */
static bool is_control(const struct buf *answer, size_t i)
{
    uint8_t c = answer->data[i];
    bool ends = c == '\r' && i + 1 < answer->len && answer->data[i + 1] == '\n';
    return (c < 0x20 && c != '\t' && c != '\n' && !ends) || c == 0x7f;
}

/* Those of two bytes, U+0080 to U+009F: some terminals take them for the same as ESC and a letter. */
static bool is_long_control(const struct buf *answer, size_t i)
{
    return answer->data[i] == 0xc2 && i + 1 < answer->len && answer->data[i + 1] >= 0x80 &&
           answer->data[i + 1] < 0xa0;
}

void server_query_clean(struct buf *answer)
{
    for (size_t i = 0; i < answer->len; i++) {
        if (is_long_control(answer, i)) {
            answer->data[i] = answer->data[i + 1] = '?';
        } else if (is_control(answer, i)) {
            answer->data[i] = '?';
        }
    }
}

bool server_query_address(struct server_query *ask, const char *text)
{
    const char *colon = strrchr(text, ':');
    bool v6 = text[0] == '[';
    int64_t port = 0;
    if (colon == NULL || colon == text || (v6 && colon[-1] != ']') ||
        !integer_parse(colon + 1, 1, UINT16_MAX, &port)) {
        return false;
    }
    int len = (int)(colon - text) - (v6 ? 2 : 0);
    ask->port = (uint16_t)port;
    return snprintf(ask->host, sizeof ask->host, "%.*s", len, text + (v6 ? 1 : 0)) <
           (int)sizeof ask->host;
}

struct all_askings {
    struct asking *list;
    size_t count;
};

static void query_on_timer(uv_timer_t *timer)
{
    const struct all_askings *all = timer->data;
    for (size_t i = 0; i < all->count; i++) {
        asking_end(&all->list[i], CONCLAVE_ETIMEDOUT, "no answer in time");
    }
}

/* Asks until all are over. False: memory is out. */
static bool query_run_all(struct query_run *run, int64_t timeout_ms, struct server_query *asks,
                          size_t count)
{
    struct all_askings all = {calloc(count + 1, sizeof *all.list), count};
    run->read_buffer = stream_buffer_create();
    bool ready = all.list != NULL && run->read_buffer != NULL && uv_loop_init(&run->loop) == 0;
    if (ready) {
        (void)uv_timer_init(&run->loop, &run->timer); /* cannot fail, nor can the start */
        (void)uv_timer_start(&run->timer, query_on_timer, (uint64_t)timeout_ms,
                             (uint64_t)timeout_ms);
        uv_unref((uv_handle_t *)&run->timer); /* the loop ends with the last question */
        run->timer.data = &all;
        for (size_t i = 0; i < count; i++) {
            all.list[i] = (struct asking){.run = run, .ask = &asks[i]};
            asking_start(&all.list[i]);
        }
        (void)uv_run(&run->loop, UV_RUN_DEFAULT);
        uv_close((uv_handle_t *)&run->timer, NULL);
        (void)uv_run(&run->loop, UV_RUN_DEFAULT);
        int rc = uv_loop_close(&run->loop);
        assert(rc == 0);
    }
    stream_buffer_release(run->read_buffer);
    free(all.list);
    return ready;
}

int server_query_all(const char *command, const struct common_options *options, int64_t timeout_ms,
                     struct server_query *asks, size_t count)
{
    struct conclave_client_options client = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct connection_security security;
    struct query_run run = {.tls = NULL};
    connection_security_fill(&security, command, options, &client);
    int code = client.tls != NULL ? open_tls(command, &security, &run.tls) : 0;
    run.tls_name = security.tls.server_name;
    if (code == 0 && !query_run_all(&run, timeout_ms, asks, count)) {
        fprintf(stderr, "conclave %s: out of memory\n", command);
        code = CLI_EXIT_INTERNAL;
    }
    tls_context_release(run.tls);
    return code;
}
