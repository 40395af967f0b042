#include "admin/http/http_exchange.h"

#include "admin/http/http_parser.h"
#include "base/transition.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct http_exchange {
    struct http_answerer *answerer;
    struct http_holder holder;
    enum http_exchange_state state;
    struct http_parser parser;
    size_t body_max;
    struct buf body;               /* of the request */
    bool continues;                /* 100 Continue must be sent */
    struct http_response response; /* the answer, while SENDING */
    struct buf head;               /* head of the answer, not sent yet */
    size_t body_at;                /* bytes of the body that were sent */
    uint64_t source_left;          /* bytes that the source has still to give */
    bool rests;                    /* the endless source had nothing when it was last asked */
    bool secure;                   /* over TLS */
    bool last;                     /* the last answer of this connection */
    uint64_t answers;
};

void http_response_init(struct http_response *r)
{
    *r = (struct http_response){.status = 200, .content_type = "text/plain", .cache = "no-store"};
    buf_init(&r->body, 0);
}

void http_response_finish(struct http_response *r)
{
    buf_finish(&r->body);
    if (r->source.next != NULL) {
        r->source.close(r->source.ctx);
    }
    r->source = (struct http_source){0};
}

static const uint16_t EXCHANGE_NEXT[] = {
    [HTTP_HEAD] =
        TRANSITION_TO(HTTP_BODY) | TRANSITION_TO(HTTP_WAITING) | TRANSITION_TO(HTTP_SENDING),
    [HTTP_BODY] = TRANSITION_TO(HTTP_WAITING) | TRANSITION_TO(HTTP_SENDING),
    [HTTP_WAITING] = TRANSITION_TO(HTTP_SENDING),
    [HTTP_SENDING] = TRANSITION_TO(HTTP_HEAD) | TRANSITION_TO(HTTP_OVER),
    [HTTP_OVER] = 0,
};

static void exchange_enter(struct http_exchange *x, enum http_exchange_state state)
{
    transition_check(EXCHANGE_NEXT, x->state, state);
    if (x->state == HTTP_BODY) {
        assert(x->answerer->receiving == x);
        x->answerer->receiving = NULL;
    }
    x->state = state;
}

/* The head of an answer */

static const char *reason_phrase(unsigned status)
{
    static const struct {
        unsigned status;
        const char *phrase;
    } PHRASES[] = {
        {200, "OK"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof PHRASES / sizeof PHRASES[0]; i++) {
        if (PHRASES[i].status == status) {
            return PHRASES[i].phrase;
        }
    }
    return "Unknown";
}

/* HTTP's own names of days and months, independent of the locale. */
static void put_date(struct buf *out)
{
    static const char DAYS[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char MONTHS[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm tm;
    time_t now = time(NULL);
    if (gmtime_r(&now, &tm) != NULL) {
        buf_printf(out, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", DAYS[tm.tm_wday], tm.tm_mday,
                   MONTHS[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    }
}

static void exchange_put_head(struct http_exchange *x)
{
    const struct http_response *r = &x->response;
    struct buf *out = &x->head;
    buf_printf(out, "HTTP/1.1 %u %s\r\n", r->status, reason_phrase(r->status));
    put_date(out);
    if (x->last) {
        buf_append_str(out, "Connection: close\r\n");
    } else if (x->parser.http_1_0) {
        buf_append_str(out, "Connection: Keep-Alive\r\n");
    }
    buf_printf(out, "Content-Type: %s\r\nCache-Control: %s\r\n", r->content_type, r->cache);
    if (r->allow != NULL) {
        buf_printf(out, "Allow: %s\r\n", r->allow);
    }
    for (size_t i = 0; i < r->header_count; i++) {
        buf_printf(out, "%s: %s\r\n", r->headers[i].name, r->headers[i].value);
    }
    if (r->set_cookie[0] != '\0') {
        buf_printf(out, "Set-Cookie: %s\r\n", r->set_cookie);
    }
    buf_append_str(out, r->more_fields != NULL ? r->more_fields : "");
    /* 304 has no body; its length would be that of the answer 200. */
    if (!r->source.endless && r->status != 304) {
        buf_printf(out, "Content-Length: %" PRIu64 "\r\n",
                   r->source.next != NULL ? r->source.len : (uint64_t)r->body.len);
    }
    buf_append_str(out, "\r\n");
}

/* Requests */

/* The answer is complete; it goes out with http_exchange_fill. */
static void exchange_reply(struct http_exchange *x, struct http_response *response_take)
{
    const struct http_parser *p = &x->parser;
    x->response = *response_take;
    http_response_init(response_take);
    exchange_enter(x, HTTP_SENDING);
    buf_finish(&x->body);
    /* The rest of an unread request cannot be told from the next request, so the connection ends. */
    x->last = p->stage != HTTP_STAGE_DONE || !p->keep_alive || x->response.source.endless;
    x->rests = false;
    x->body_at = 0;
    x->source_left = x->response.source.len;
    exchange_put_head(x);
    /* The answer to HEAD is the head only. */
    if (p->stage != HTTP_STAGE_FAILED && strcmp(http_parser_method(p), "HEAD") == 0) {
        http_response_finish(&x->response);
    }
}

static void exchange_refuse(struct http_exchange *x, unsigned status, const char *text)
{
    struct http_response response;
    http_response_init(&response);
    response.status = status;
    buf_printf(&response.body, "%s\n", text);
    exchange_reply(x, &response);
    http_response_finish(&response);
}

/* The answerer wants the body: reads it, or refuses the request. */
static void exchange_receive(struct http_exchange *x, size_t max)
{
    assert(x->state == HTTP_HEAD); /* the answerer asks once */
    /* One body at a time, because bodies are kept in memory. */
    if (x->answerer->receiving != NULL) {
        exchange_refuse(x, 503, "another upload is in progress");
    } else if (x->parser.body_length > max) {
        exchange_refuse(x, 413, "the body is too long");
    } else {
        x->answerer->receiving = x;
        x->body_max = max;
        x->continues = x->parser.expects && x->parser.stage != HTTP_STAGE_DONE;
        exchange_enter(x, HTTP_BODY);
    }
}

static void exchange_ask(struct http_exchange *x)
{
    const struct http_parser *p = &x->parser;
    const struct http_request request = {
        .method = http_parser_method(p),
        .path = http_parser_path(p),
        .authorization = http_parser_field(p, "Authorization"),
        .host = http_parser_field(p, "Host"),
        .origin = http_parser_field(p, "Origin"),
        .fetch_site = http_parser_field(p, "Sec-Fetch-Site"),
        .if_none_match = http_parser_field(p, "If-None-Match"),
        .content_type = http_parser_field(p, "Content-Type"),
        .cookie = http_parser_field(p, "Cookie"),
        .key = http_parser_field(p, "X-Console-Key"),
        .secure = x->secure,
        .peer = x->holder.peer,
        .subject = x->holder.subject,
        .body = x->state == HTTP_BODY ? buf_slice(&x->body) : SLICE_NULL,
        .exchange = x,
    };
    struct http_response response;
    http_response_init(&response);
    x->answerer->fn(x->answerer->ctx, &request, &response);
    if (response.later) {
        exchange_enter(x, HTTP_WAITING);
        buf_finish(&x->body);
    } else if (response.body_max > 0) {
        exchange_receive(x, response.body_max);
    } else {
        exchange_reply(x, &response);
    }
    http_response_finish(&response);
}

static void exchange_add_body(struct http_exchange *x, struct slice piece)
{
    if (piece.len > x->body_max - x->body.len) {
        exchange_refuse(x, 413, "the body is too long");
        return;
    }
    buf_append_slice(&x->body, piece);
    if (!buf_ok(&x->body)) {
        exchange_refuse(x, 500, "out of memory");
    }
}

bool http_is_own_user(const struct http_request *request)
{
    const struct http_holder *h = &request->exchange->holder;
    return h->is_own_user != NULL && h->is_own_user(h->ctx);
}

void http_take_body(struct http_exchange *x, struct buf *ret)
{
    assert(x->state == HTTP_BODY);
    *ret = x->body;
    buf_init(&x->body, 0);
}

size_t http_exchange_take(struct http_exchange *x, struct slice bytes)
{
    struct slice rest = bytes;
    struct slice piece;
    while (x->state == HTTP_HEAD || x->state == HTTP_BODY) {
        switch (http_parser_read(&x->parser, &rest, &piece)) {
        case HTTP_EVENT_MORE:
            assert(rest.len == 0);
            return bytes.len;
        case HTTP_EVENT_HEAD:
        case HTTP_EVENT_DONE:
            exchange_ask(x);
            break;
        case HTTP_EVENT_BODY:
            exchange_add_body(x, piece);
            break;
        case HTTP_EVENT_FAILED:
            exchange_refuse(x, x->parser.status, x->parser.problem);
            break;
        }
    }
    return bytes.len - rest.len;
}

/* Answers */

/* The whole answer was sent. */
static void exchange_end(struct http_exchange *x)
{
    http_response_finish(&x->response);
    buf_finish(&x->head);
    x->answers++;
    exchange_enter(x, x->last ? HTTP_OVER : HTTP_HEAD);
    if (x->state == HTTP_HEAD) {
        http_parser_next(&x->parser);
    }
}

static void exchange_fill_body(struct http_exchange *x, struct buf *out)
{
    struct slice body = buf_slice(&x->response.body);
    assert(x->body_at <= body.len);
    size_t left = body.len - x->body_at;
    size_t len = left < HTTP_PIECE_MAX ? left : HTTP_PIECE_MAX;
    buf_append(out, body.data + x->body_at, len);
    x->body_at += len;
}

static bool exchange_fill_piece(struct http_exchange *x, struct buf *out)
{
    const struct http_source *source = &x->response.source;
    size_t at = out->len;
    if (source->endless) {
        bool goes_on = source->next(source->ctx, out, HTTP_PIECE_MAX);
        assert(out->len - at <= HTTP_PIECE_MAX);
        x->rests = out->len == at;
        if (goes_on && x->rests && source->over != NULL && source->over(source->ctx)) {
            http_response_finish(&x->response);
        }
        return goes_on;
    }
    size_t room = x->source_left < HTTP_PIECE_MAX ? (size_t)x->source_left : HTTP_PIECE_MAX;
    bool ok = room == 0 || source->next(source->ctx, out, room);
    size_t len = out->len - at;
    assert(len <= room && (len > 0 || room == 0 || !ok));
    x->source_left -= len;
    if (ok && x->source_left == 0) {
        http_response_finish(&x->response);
    }
    /* The head is already sent, so only a cut connection shows an error to the client. */
    return ok;
}

bool http_exchange_fill(struct http_exchange *x, struct buf *out)
{
    size_t at = out->len;
    bool rightly = true;
    if (x->continues) {
        x->continues = false;
        buf_append_str(out, "HTTP/1.1 100 Continue\r\n\r\n");
        return buf_ok(out);
    }
    if (x->state != HTTP_SENDING) {
        return true;
    }
    buf_append_slice(out, buf_slice(&x->head));
    rightly = buf_ok(&x->head) && buf_ok(&x->response.body);
    buf_reset(&x->head);
    bool streams = x->response.source.next != NULL;
    if (rightly && !streams) {
        exchange_fill_body(x, out);
    } else if (rightly) {
        rightly = exchange_fill_piece(x, out);
    }
    if (rightly && out->len == at && x->response.source.next == NULL) {
        exchange_end(x);
    }
    return rightly && buf_ok(out);
}

void http_answer(struct http_exchange *x, struct http_response *response_take)
{
    assert(x->state == HTTP_WAITING);
    exchange_reply(x, response_take);
    x->holder.output(x->holder.ctx);
}

void http_wake(struct http_exchange *x)
{
    assert(x->state == HTTP_SENDING && x->response.source.endless);
    x->holder.output(x->holder.ctx);
}

const char *http_argument(const struct http_request *request, const char *name)
{
    return http_parser_argument(&request->exchange->parser, name);
}

struct http_exchange *http_exchange_create(struct http_answerer *answerer,
                                           const struct http_holder *holder)
{
    struct http_exchange *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return NULL;
    }
    x->answerer = answerer;
    x->holder = *holder;
    http_parser_init(&x->parser);
    http_response_init(&x->response);
    buf_init(&x->body, 0);
    buf_init(&x->head, 0);
    return x;
}

void http_exchange_destroy(struct http_exchange *x)
{
    if (x == NULL) {
        return;
    }
    assert(x->state != HTTP_WAITING);
    if (x->answerer->receiving == x) {
        x->answerer->receiving = NULL;
    }
    http_response_finish(&x->response);
    http_parser_finish(&x->parser);
    buf_finish(&x->body);
    buf_finish(&x->head);
    free(x);
}

void http_exchange_set_subject(struct http_exchange *x, struct slice subject)
{
    x->holder.subject = subject;
    x->secure = true;
}

enum http_exchange_state http_exchange_state(const struct http_exchange *x)
{
    return x->state;
}

bool http_exchange_streams(const struct http_exchange *x)
{
    return x->state == HTTP_SENDING && x->response.source.next != NULL;
}

bool http_exchange_rests(const struct http_exchange *x)
{
    return http_exchange_streams(x) && x->response.source.endless && x->rests;
}

uint64_t http_exchange_answers(const struct http_exchange *x)
{
    return x->answers;
}
