#include "admin/http/event_streams.h"

#include "base/list.h"
#include "net/address.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct event_streams {
    uv_timer_t timer;
    struct console *console;
    struct list streams; /* event_stream.link */
    size_t count;
    struct buf event;    /* the newest, as it is sent */
    struct buf next;     /* to compare it with */
    uint64_t number;     /* of the newest event; 0: none yet */
    uint64_t made_ms;    /* when it was made */
    bool closing;        /* the timer closes or is closed */
    unsigned open_parts; /* the timer and, while closing, each stream */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct event_stream {
    struct list link;
    struct event_streams *all;
    struct http_exchange *exchange;
    struct buf out; /* the event or beat that is being sent */
    size_t out_at;
    uint64_t number;  /* of the newest event in out; 0: none */
    uint64_t beat_ms; /* when something was last put there */
    char address[NET_NETWORK_MAX];
};

static uint64_t events_now_ms(const struct event_streams *e)
{
    return uv_now(e->timer.loop);
}

/* Events */

/* Makes a new event if the overview has changed. */
static void events_make(struct event_streams *e)
{
    buf_reset(&e->next);
    buf_append_str(&e->next, "data: ");
    console_write_overview(e->console, &e->next);
    buf_append_str(&e->next, "\n\n");
    if (!buf_ok(&e->next) || slice_equal(buf_slice(&e->next), buf_slice(&e->event))) {
        return;
    }
    struct buf old = e->event;
    e->event = e->next;
    e->next = old;
    e->number++;
}

/* Whoever comes between two events gets the newest: many that come do not make many. */
static void events_make_if_due(struct event_streams *e, bool urgent)
{
    uint64_t now_ms = events_now_ms(e);
    if (urgent || e->number == 0 || now_ms - e->made_ms >= EVENT_PAUSE_MS) {
        events_make(e);
        e->made_ms = now_ms;
    }
}

/* Puts into a stream what it must send next, if anything. */
static void stream_refill(struct event_stream *s)
{
    const struct event_streams *e = s->all;
    assert(s->out_at == s->out.len);
    buf_reset(&s->out);
    s->out_at = 0;
    if (s->number != e->number) {
        buf_append_slice(&s->out, buf_slice(&e->event));
        s->number = e->number;
    } else if (events_now_ms(e) - s->beat_ms >= EVENT_BEAT_MS) {
        buf_append_str(&s->out, ": beat\n\n");
    } else {
        return;
    }
    s->beat_ms = events_now_ms(e);
}

static bool stream_next(void *ctx, struct buf *out, size_t room)
{
    struct event_stream *s = ctx;
    if (s->out_at == s->out.len) {
        stream_refill(s);
    }
    size_t left = s->out.len - s->out_at;
    size_t len = left < room ? left : room;
    buf_append(out, buf_slice(&s->out).data + s->out_at, len);
    s->out_at += len;
    return buf_ok(&s->out);
}

static void events_wake_all(struct event_streams *e)
{
    /* A stream may end while it is woken. */
    for (struct list *it = e->streams.next, *next; it != &e->streams; it = next) {
        struct event_stream *s = CONTAINER_OF(it, struct event_stream, link);
        next = it->next;
        if (s->number != e->number || events_now_ms(e) - s->beat_ms >= EVENT_BEAT_MS) {
            http_wake(s->exchange);
        }
    }
}

static void events_on_timer(uv_timer_t *timer)
{
    struct event_streams *e = timer->data;
    bool urgent = console_look(e->console);
    if (e->count > 0) {
        events_make_if_due(e, urgent);
    }
    events_wake_all(e);
    uint64_t pause_ms = e->count > 0 ? EVENT_LOOK_MS : EVENT_REST_MS;
    if (!e->closing && uv_timer_start(&e->timer, events_on_timer, pause_ms, 0) != 0) {
        abort(); /* fails only for a handle that is closing */
    }
}

/* Streams */

static void events_part_closed(struct event_streams *e)
{
    assert(e->open_parts > 0);
    if (--e->open_parts > 0) {
        return;
    }
    buf_finish(&e->event);
    buf_finish(&e->next);
    if (e->closed != NULL) {
        e->closed(e->closed_ctx);
    }
    free(e);
}

static void stream_end(void *ctx)
{
    struct event_stream *s = ctx;
    struct event_streams *e = s->all;
    assert(e->count > 0);
    list_remove(&s->link);
    buf_finish(&s->out);
    free(s);
    e->count--;
    if (e->closing) {
        events_part_closed(e);
    }
}

static bool events_have_room(const struct event_streams *e, const char *address)
{
    size_t same = 0;
    for (const struct list *it = e->streams.next; it != &e->streams; it = it->next) {
        same += strcmp(CONTAINER_OF(it, struct event_stream, link)->address, address) == 0;
    }
    return !e->closing && e->count < EVENT_STREAMS_MAX && same < EVENT_STREAMS_PER_ADDRESS;
}

void event_streams_add(struct event_streams *e, const struct http_request *request,
                       struct http_response *response)
{
    char address[NET_NETWORK_MAX];
    net_network_name(request->peer, address);
    bool room = events_have_room(e, address);
    struct event_stream *s = room ? calloc(1, sizeof *s) : NULL;
    if (s == NULL) {
        response->status = 503;
        buf_append_str(&response->body,
                       room ? "out of memory\n" : "too many consoles are open: close one\n");
        return;
    }
    s->all = e;
    s->exchange = request->exchange;
    memcpy(s->address, address, sizeof address);
    buf_init(&s->out, EVENT_MAX);
    list_push_back(&e->streams, &s->link);
    e->count++;
    events_make_if_due(e, console_look(e->console));
    if (e->count == 1 && uv_timer_start(&e->timer, events_on_timer, EVENT_LOOK_MS, 0) != 0) {
        abort(); /* as above */
    }
    response->content_type = "text/event-stream";
    response->source =
        (struct http_source){.next = stream_next, .close = stream_end, .ctx = s, .endless = true};
}

/* Begin and end */

struct event_streams *event_streams_create(uv_loop_t *loop, struct console *console, bool active)
{
    struct event_streams *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    e->console = console;
    list_init(&e->streams);
    buf_init(&e->event, EVENT_MAX);
    buf_init(&e->next, EVENT_MAX);
    e->open_parts = 1;
    if (uv_timer_init(loop, &e->timer) != 0) {
        abort(); /* cannot fail */
    }
    e->timer.data = e;
    if (active && uv_timer_start(&e->timer, events_on_timer, EVENT_REST_MS, 0) != 0) {
        abort(); /* as above */
    }
    return e;
}

size_t event_streams_count(const struct event_streams *e)
{
    return e->count;
}

static void events_on_closed(uv_handle_t *handle)
{
    events_part_closed(handle->data);
}

void event_streams_close(struct event_streams *e, void (*cb)(void *ctx), void *ctx)
{
    if (e == NULL) {
        return;
    }
    assert(!e->closing);
    e->closing = true;
    e->closed = cb;
    e->closed_ctx = ctx;
    e->open_parts += (unsigned)e->count;
    uv_close((uv_handle_t *)&e->timer, events_on_closed);
}
