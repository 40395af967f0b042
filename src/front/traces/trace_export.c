#include "front/traces/trace_export.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/transition.h"
#include "front/limits/server_metrics.h"
#include "front/traces/otlp.h"
#include "net/connector.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEAT_MS = 500,          /* how long a trace waits at most while the collector answers */
    BATCH_MAX = 256,        /* traces of one request: writing them takes about 100 microseconds */
    DEADLINE_MS = 10000,    /* of one request */
    PAUSE_MIN_MS = 1000,    /* after a failure, */
    PAUSE_MAX_MS = 30000,   /* twice as long after each further one */
    LINGER_MS = 1000,       /* for the rest of the answer */
    BODY_MAX = 1024 * 1024, /* of a request */
};

enum export_stage {
    EXPORT_IDLE,
    EXPORT_CONNECTING,
    EXPORT_ASKING,
    EXPORT_CLOSING, /* the stream is being closed */
};

struct trace_export {
    uv_loop_t *loop;
    uv_timer_t timer;
    const struct trace_options *options;
    struct request_traces *traces;
    int64_t server;
    enum export_stage stage;
    struct stream_buffer *read_buffer;
    struct connector *connector;
    struct stream *stream;
    struct buf body;                         /* of the request */
    struct buf out;                          /* the request */
    size_t batch;                            /* traces in it, the oldest ones that are done */
    int64_t due_ms;                          /* deadline of the request, or the end of the pause */
    int64_t pause_ms;                        /* the last pause; 0: the collector answered */
    char url[NET_TEXT_MAX + TRACE_PATH_MAX]; /* for log lines */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static int64_t export_now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

static void export_enter(struct trace_export *e, enum export_stage stage)
{
    static const uint16_t NEXT[] = {
        [EXPORT_IDLE] = TRANSITION_TO(EXPORT_CONNECTING),
        [EXPORT_CONNECTING] = TRANSITION_TO(EXPORT_ASKING) | TRANSITION_TO(EXPORT_IDLE),
        [EXPORT_ASKING] = TRANSITION_TO(EXPORT_CLOSING),
        [EXPORT_CLOSING] = TRANSITION_TO(EXPORT_IDLE),
    };
    transition_check(NEXT, e->stage, stage);
    e->stage = stage;
}

/* The end of a request */

static void export_succeed(struct trace_export *e)
{
    assert(e->batch > 0);
    e->traces->metrics->conclave_traces_exported_total += e->batch;
    request_traces_pop(e->traces, e->batch);
    e->pause_ms = e->due_ms = 0;
}

/* again: the same batch is sent again after a pause. */
static void export_fail(struct trace_export *e, bool again, const char *why)
{
    struct server_metrics *m = e->traces->metrics;
    m->conclave_trace_exports_failed_total++;
    if (!again) {
        m->conclave_traces_dropped_total += e->batch;
        request_traces_pop(e->traces, e->batch);
    }
    int64_t pause_ms = e->pause_ms * 2;
    e->pause_ms = pause_ms < PAUSE_MIN_MS   ? PAUSE_MIN_MS
                  : pause_ms > PAUSE_MAX_MS ? PAUSE_MAX_MS
                                            : pause_ms;
    e->due_ms = export_now_ms() + e->pause_ms;
    log_cause(LOG_WARN, "server", "trace-export-failed", e->url, why,
              "look whether the collector runs and takes OTLP over HTTP at trace.endpoint",
              "endpoint=%s reason=\"%s\"", e->url, why);
}

/* politely: the collector can send the rest of its answer. */
static void export_close_stream(struct trace_export *e, bool politely)
{
    export_enter(e, EXPORT_CLOSING);
    if (politely) {
        stream_finish(e->stream, LINGER_MS);
    } else {
        stream_close(e->stream);
    }
}

/* "HTTP/1.1 200 OK". False: the status line is not complete. */
static bool export_status(struct slice bytes, int *ret)
{
    char line[64];
    size_t len = bytes.len < sizeof line - 1 ? bytes.len : sizeof line - 1;
    memcpy(line, bytes.data, len);
    line[len] = '\0';
    if (strchr(line, '\n') == NULL && len < sizeof line - 1) {
        return false;
    }
    static const char VERSION[] = "HTTP/1.";
    bool http = strncmp(line, VERSION, sizeof VERSION - 1) == 0 && line[sizeof VERSION] == ' ';
    long status = http ? strtol(line + sizeof VERSION, NULL, 10) : 0;
    *ret = status >= 100 && status <= 999 ? (int)status : 0;
    return true;
}

static size_t export_on_data(void *owner, struct slice bytes)
{
    struct trace_export *e = owner;
    int status = 0;
    if (e->stage != EXPORT_ASKING || !export_status(bytes, &status)) {
        return e->stage == EXPORT_ASKING ? 0 : bytes.len; /* it is offered again with more */
    }
    char why[64];
    (void)snprintf(why, sizeof why, "the collector answered status %d", status);
    if (status >= 200 && status < 300) {
        export_succeed(e);
    } else if (status == 0) {
        export_fail(e, true, "the answer is not HTTP");
    } else {
        export_fail(e, status < 400 || status >= 500 || status == 408 || status == 429, why);
    }
    export_close_stream(e, true);
    return bytes.len;
}

static void export_on_sent(void *owner)
{
}

static void export_on_ended(void *owner, int error)
{
    struct trace_export *e = owner;
    if (e->stage == EXPORT_ASKING) {
        export_fail(e, true,
                    error == 0 ? "the collector closed without an answer" : uv_strerror(error));
        export_close_stream(e, false);
    }
}

static void export_begin(struct trace_export *e);

static void export_free(struct trace_export *e)
{
    stream_buffer_release(e->read_buffer);
    buf_finish(&e->body);
    buf_finish(&e->out);
    e->closed(e->closed_ctx);
    free(e);
}

static void export_on_timer_closed(uv_handle_t *handle)
{
    export_free(handle->data);
}

static void export_on_closed(void *owner)
{
    struct trace_export *e = owner;
    export_enter(e, EXPORT_IDLE);
    e->stream = NULL;
    if (e->closed != NULL) {
        uv_close((uv_handle_t *)&e->timer, export_on_timer_closed);
    } else if (e->due_ms == 0 && e->traces->done_count >= BATCH_MAX) {
        export_begin(e);
    }
}

static const struct stream_handler export_handler = {
    .data = export_on_data,
    .sent = export_on_sent,
    .ended = export_on_ended,
    .closed = export_on_closed,
};

/* The begin of a request */

static void export_on_connected(void *ctx, struct stream *stream, int error)
{
    struct trace_export *e = ctx;
    e->connector = NULL;
    if (stream == NULL) {
        export_enter(e, EXPORT_IDLE);
        export_fail(e, true, uv_strerror(error));
        return;
    }
    export_enter(e, EXPORT_ASKING);
    e->stream = stream;
    if (stream_start(stream, &export_handler, e) != 0) {
        export_fail(e, true, "the collector closed the connection");
        export_close_stream(e, false);
        return;
    }
    stream_send(stream, &e->out);
}

static bool export_encode(struct trace_export *e)
{
    char host[NET_TEXT_MAX];
    buf_reset(&e->body);
    buf_reset(&e->out);
    otlp_encode(e->traces, e->batch, e->server, &e->body);
    buf_printf(
        &e->out,
        "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: conclave\r\nContent-Type: application/x-protobuf\r\n"
        "Content-Length: %zu\r\nConnection: close\r\n\r\n",
        e->options->path, net_address_format(&e->options->to, host), e->body.len);
    buf_append_slice(&e->out, buf_slice(&e->body));
    return buf_ok(&e->body) && buf_ok(&e->out);
}

static void export_begin(struct trace_export *e)
{
    assert(e->stage == EXPORT_IDLE && e->stream == NULL && e->connector == NULL);
    e->batch = e->traces->done_count < BATCH_MAX ? e->traces->done_count : BATCH_MAX;
    if (!export_encode(e)) {
        export_fail(e, true, "out of memory");
        return;
    }
    export_enter(e, EXPORT_CONNECTING);
    e->due_ms = export_now_ms() + DEADLINE_MS;
    if (connector_start(e->loop, &e->options->to, 0, e->read_buffer, export_on_connected, e,
                        &e->connector) != 0) {
        export_enter(e, EXPORT_IDLE);
        export_fail(e, true, "out of memory");
    }
}

static void export_give_up(struct trace_export *e)
{
    if (e->stage == EXPORT_CONNECTING) {
        connector_cancel(e->connector);
        e->connector = NULL;
        export_enter(e, EXPORT_IDLE);
    } else {
        export_close_stream(e, false);
    }
}

static void export_on_timer(uv_timer_t *timer)
{
    struct trace_export *e = timer->data;
    bool due = export_now_ms() >= e->due_ms;
    if (e->stage == EXPORT_IDLE && due && e->traces->done_count > 0) {
        export_begin(e);
    } else if ((e->stage == EXPORT_CONNECTING || e->stage == EXPORT_ASKING) && due) {
        export_give_up(e);
        export_fail(e, true, "no answer within 10 s");
    }
}

/* Open and close */

int trace_export_open(uv_loop_t *loop, const struct trace_options *options, int64_t server,
                      struct request_traces *traces, struct trace_export **ret)
{
    char text[NET_TEXT_MAX];
    struct trace_export *e = calloc(1, sizeof *e);
    struct stream_buffer *read_buffer = stream_buffer_create();
    assert(options->on && traces->on);
    if (e == NULL || read_buffer == NULL) {
        stream_buffer_release(read_buffer);
        free(e);
        return CONCLAVE_ENOMEM;
    }
    e->loop = loop;
    e->options = options;
    e->traces = traces;
    e->server = server;
    e->read_buffer = read_buffer;
    buf_init(&e->body, BODY_MAX);
    buf_init(&e->out, 2 * (size_t)BODY_MAX);
    (void)snprintf(e->url, sizeof e->url, "http://%s%s", net_address_format(&options->to, text),
                   options->path);
    if (uv_timer_init(loop, &e->timer) != 0 ||
        uv_timer_start(&e->timer, export_on_timer, BEAT_MS, BEAT_MS) != 0) {
        abort(); /* these calls allocate nothing and cannot fail */
    }
    e->timer.data = e;
    *ret = e;
    return 0;
}

void trace_export_close(struct trace_export *e, void (*cb)(void *ctx), void *ctx)
{
    if (e == NULL) {
        return;
    }
    assert(e->closed == NULL && cb != NULL);
    e->closed = cb;
    e->closed_ctx = ctx;
    if (uv_timer_stop(&e->timer) != 0) {
        abort();
    }
    if (e->stage == EXPORT_CONNECTING || e->stage == EXPORT_ASKING) {
        export_give_up(e);
    } else if (e->stage == EXPORT_CLOSING) {
        stream_close(e->stream); /* at once */
    }
    if (e->stage == EXPORT_IDLE) {
        uv_close((uv_handle_t *)&e->timer, export_on_timer_closed);
    }
}
