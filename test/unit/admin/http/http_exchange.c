/* Requests and their answers on one connection, without a socket. */
#include "admin/http/http_exchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { BODY_MAX = 100, LONG = 200000 };

/* The answerer's last request, and its next answer. */
static struct {
    struct http_exchange *waiting;
    unsigned asked;
    struct http_source source;
    bool closed;
    size_t given; /* by the source */
    unsigned outputs;
    const char *event; /* the next piece of the endless source */
    const char *if_none_match;
} world;

static struct http_answerer answerer;

static bool source_next(void *ctx, struct buf *out, size_t room)
{
    size_t left = *(size_t *)ctx - world.given;
    size_t len = left < room ? left : room;
    for (size_t i = 0; i < len; i++) {
        buf_append_u8(out, 's');
    }
    world.given += len;
    return len > 0;
}

static void source_close(void *ctx)
{
    assert_false(world.closed);
    world.closed = true;
}

static bool event_next(void *ctx, struct buf *out, size_t room)
{
    buf_append_str(out, world.event);
    world.event = "";
    return true;
}

static void answer(void *ctx, const struct http_request *request, struct http_response *response)
{
    world.asked++;
    world.if_none_match = request->if_none_match;
    if (strcmp(request->path, "/events") == 0) {
        world.waiting = request->exchange;
        response->source =
            (struct http_source){.next = event_next, .close = source_close, .endless = true};
        response->more_fields = "X-More: 1\r\nX-Yet: 2\r\n";
    } else if (strcmp(request->path, "/known") == 0) {
        response->status = 304;
        response->cache = "no-cache";
    } else if (strcmp(request->path, "/later") == 0) {
        response->later = true;
        world.waiting = request->exchange;
    } else if (strcmp(request->path, "/body") == 0 && slice_is_null(request->body)) {
        response->body_max = BODY_MAX;
    } else if (strcmp(request->path, "/body") == 0) {
        buf_printf(&response->body, "<%.*s>", SLICE_FMT(request->body));
    } else if (strcmp(request->path, "/long") == 0) {
        for (size_t i = 0; i < LONG; i++) {
            buf_append_u8(&response->body, 'l');
        }
    } else if (strcmp(request->path, "/source") == 0) {
        response->source = world.source;
    } else {
        const char *argument = http_argument(request, "a");
        response->status = 404;
        response->allow = "GET";
        response->headers[response->header_count++].name = "extra";
        (void)snprintf(response->headers[0].value, sizeof response->headers[0].value, "%s",
                       request->peer);
        buf_printf(&response->body, "%s %s %s %.*s", request->method, request->path,
                   argument != NULL ? argument : "-", SLICE_FMT(request->subject));
    }
}

static void on_output(void *ctx)
{
    world.outputs++;
}

static int setup(void **state)
{
    const struct http_holder holder = {
        .output = on_output, .peer = "10.0.0.1", .subject = slice_str("CN=a")};
    memset(&world, 0, sizeof world);
    answerer = (struct http_answerer){.fn = answer};
    *state = http_exchange_create(&answerer, &holder);
    return *state == NULL;
}

static int teardown(void **state)
{
    http_exchange_destroy(*state);
    assert_null(answerer.receiving);
    return 0;
}

/* What comes out now; no piece is longer than it may be. Without the dates. */
static const char *output(struct http_exchange *x)
{
    enum { FRAME_MAX = 1024 };
    static char text[LONG + 10 * FRAME_MAX];
    struct buf all;
    buf_init(&all, 0);
    for (size_t before = 1; before != all.len;) {
        before = all.len;
        assert_true(http_exchange_fill(x, &all));
        assert_true(all.len - before <= HTTP_PIECE_MAX + FRAME_MAX);
    }
    assert_true(all.len < sizeof text);
    (void)snprintf(text, sizeof text, "%s", buf_cstr(&all));
    for (char *date; (date = strstr(text, "Date: ")) != NULL;) {
        const char *end = strstr(date, "\r\n") + 2;
        assert_int_equal(end - date, strlen("Date: Mon, 23 Nov 2026 00:00:00 GMT\r\n"));
        memmove(date, end, strlen(end) + 1);
    }
    buf_finish(&all);
    return text;
}

/* Gives all of the text, as far as it is taken; what comes out. */
static const char *exchange(struct http_exchange *x, const char *text)
{
    assert_int_equal(http_exchange_take(x, slice_str(text)), strlen(text));
    return output(x);
}

#define COMMON "Content-Type: text/plain\r\nCache-Control: no-store\r\n"

static void test_answers(void **state)
{
    struct http_exchange *x = *state;
    assert_string_equal(exchange(x, "GET /p?a=b HTTP/1.1\r\n\r\n"),
                        "HTTP/1.1 404 Not Found\r\n" COMMON
                        "Allow: GET\r\nextra: 10.0.0.1\r\nContent-Length: 13\r\n\r\nGET /p b CN=a");
    assert_int_equal(http_exchange_state(x), HTTP_HEAD);
    assert_int_equal(http_exchange_answers(x), 1);
    assert_string_equal(exchange(x, "HEAD /p HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
                        "HTTP/1.1 404 Not Found\r\nConnection: Keep-Alive\r\n" COMMON
                        "Allow: GET\r\nextra: 10.0.0.1\r\nContent-Length: 14\r\n\r\n");
    const char *text = exchange(x, "GET /long HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(text, "Connection: close\r\n"));
    assert_non_null(strstr(text, "Content-Length: 200000\r\n"));
    assert_int_equal(strlen(strstr(text, "\r\n\r\n")), LONG + 4);
    assert_int_equal(http_exchange_state(x), HTTP_OVER);
    assert_int_equal(http_exchange_take(x, slice_str("GET / HTTP/1.1\r\n\r\n")), 0);
}

/* One request at a time: the next one is taken when the answer before it has left. */
static void test_pipeline(void **state)
{
    struct http_exchange *x = *state;
    static const char TWO[] = "GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n";
    size_t taken = http_exchange_take(x, slice_str(TWO));
    assert_int_equal(taken, strlen(TWO) / 2);
    assert_int_equal(world.asked, 1);
    assert_int_equal(http_exchange_take(x, slice_str(TWO + taken)), 0);
    assert_non_null(strstr(output(x), "GET /1 "));
    assert_non_null(strstr(exchange(x, TWO + taken), "GET /2 "));
    assert_int_equal(world.asked, 2);
}

static void test_bodies(void **state)
{
    struct http_exchange *x = *state;
    assert_non_null(
        strstr(exchange(x, "POST /body HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), "<abc>"));
    assert_non_null(strstr(exchange(x, "POST /body HTTP/1.1\r\n\r\n"), "<>"));
    assert_string_equal(
        exchange(x, "POST /body HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na"), "");
    assert_int_equal(http_exchange_state(x), HTTP_BODY);
    assert_non_null(strstr(exchange(x, "b\r\n0\r\n\r\n"), "<ab>"));
    assert_string_equal(
        exchange(x, "POST /body HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"),
        "HTTP/1.1 100 Continue\r\n\r\n");
    assert_string_equal(exchange(x, "x"), "");
    assert_non_null(strstr(exchange(x, "y"), "<xy>"));
    /* Nobody wants it: not asked for, and the connection ends. */
    const char *text =
        exchange(x, "POST /p HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_non_null(strstr(text, "404"));
    assert_null(strstr(text, "100 Continue"));
    assert_int_equal(http_exchange_state(x), HTTP_OVER);
}

static void test_long_bodies(void **state)
{
    struct http_exchange *x = *state;
    char chunk[BODY_MAX + 2] = {0};
    memset(chunk, 'x', BODY_MAX);
    (void)exchange(x, "POST /body HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n");
    assert_string_equal(exchange(x, chunk), "");
    assert_non_null(strstr(exchange(x, "x"), "HTTP/1.1 413 "));
    assert_int_equal(http_exchange_state(x), HTTP_OVER);
    assert_null(answerer.receiving);
}

static void test_refusals(void **state)
{
    struct http_exchange *x = *state;
    assert_string_equal(exchange(x, "nonsense\r\n"),
                        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n" COMMON
                        "Content-Length: 17\r\n\r\nthis is not HTTP\n");
    assert_int_equal(http_exchange_state(x), HTTP_OVER);
    assert_int_equal(world.asked, 0);
}

static void test_announced_length(void **state)
{
    struct http_exchange *x = *state;
    assert_non_null(
        strstr(exchange(x, "POST /body HTTP/1.1\r\nContent-Length: 101\r\n\r\n"), "HTTP/1.1 413 "));
    assert_int_equal(http_exchange_state(x), HTTP_OVER);
}

static void test_one_upload(void **state)
{
    const struct http_holder holder = {.output = on_output, .peer = "10.0.0.2"};
    static const char HEAD[] = "POST /body HTTP/1.1\r\nContent-Length: 1\r\n\r\n";
    struct http_exchange *x = *state;
    struct http_exchange *other = http_exchange_create(&answerer, &holder);
    (void)exchange(x, HEAD);
    assert_non_null(strstr(exchange(other, HEAD), "HTTP/1.1 503 "));
    assert_non_null(strstr(exchange(x, "a"), "<a>"));
    http_exchange_destroy(other);
    other = http_exchange_create(&answerer, &holder);
    (void)exchange(other, HEAD);
    http_exchange_destroy(other); /* in the middle of it */
    (void)exchange(x, HEAD);
    assert_int_equal(http_exchange_state(x), HTTP_BODY);
}

static void test_later(void **state)
{
    struct http_exchange *x = *state;
    struct http_response response;
    assert_string_equal(exchange(x, "GET /later HTTP/1.1\r\n\r\n"), "");
    assert_int_equal(http_exchange_state(x), HTTP_WAITING);
    assert_int_equal(http_exchange_take(x, slice_str("GET / HTTP/1.1\r\n\r\n")), 0);
    assert_ptr_equal(world.waiting, x);
    http_response_init(&response);
    buf_append_str(&response.body, "done");
    http_answer(x, &response);
    assert_int_equal(world.outputs, 1);
    assert_non_null(strstr(output(x), "\r\n\r\ndone"));
    assert_int_equal(http_exchange_state(x), HTTP_HEAD);
}

static void test_source(void **state)
{
    static size_t len = LONG;
    struct http_exchange *x = *state;
    world.source =
        (struct http_source){.next = source_next, .close = source_close, .ctx = &len, .len = LONG};
    assert_int_equal(http_exchange_take(x, slice_str("GET /source HTTP/1.1\r\n\r\n")), 24);
    assert_true(http_exchange_streams(x));
    const char *text = output(x);
    assert_true(world.closed);
    assert_non_null(strstr(text, "Content-Length: 200000\r\n"));
    assert_int_equal(strlen(strstr(text, "\r\n\r\n")), LONG + 4);
    assert_int_equal(http_exchange_state(x), HTTP_HEAD);
}

/* It has less than it said. */
static void test_short_source(void **state)
{
    static size_t len = 10;
    struct http_exchange *x = *state;
    struct buf out;
    buf_init(&out, 0);
    world.source =
        (struct http_source){.next = source_next, .close = source_close, .ctx = &len, .len = LONG};
    (void)http_exchange_take(x, slice_str("GET /source HTTP/1.1\r\n\r\n"));
    assert_true(http_exchange_fill(x, &out));
    assert_false(http_exchange_fill(x, &out));
    buf_finish(&out);
}

static void test_dropped_source(void **state)
{
    static size_t len = LONG;
    struct http_exchange *x = *state;
    struct buf out;
    buf_init(&out, 0);
    world.source =
        (struct http_source){.next = source_next, .close = source_close, .ctx = &len, .len = LONG};
    (void)http_exchange_take(x, slice_str("GET /source HTTP/1.1\r\n\r\n"));
    assert_true(http_exchange_fill(x, &out));
    assert_false(world.closed);
    http_exchange_destroy(x);
    *state = NULL;
    assert_true(world.closed);
    buf_finish(&out);
}

/* It gives something now and then, until the connection ends. */
static void test_endless_source(void **state)
{
    struct http_exchange *x = *state;
    world.event = "first";
    const char *text = exchange(x, "GET /events HTTP/1.1\r\n\r\n");
    assert_non_null(strstr(text, "Connection: close\r\n"));
    assert_non_null(strstr(text, "X-More: 1\r\nX-Yet: 2\r\n\r\nfirst"));
    assert_null(strstr(text, "Content-Length"));
    assert_true(http_exchange_streams(x));
    assert_true(http_exchange_rests(x));
    world.event = "second";
    http_wake(world.waiting);
    assert_int_equal(world.outputs, 1);
    struct buf out;
    buf_init(&out, 0);
    assert_true(http_exchange_fill(x, &out));
    assert_false(http_exchange_rests(x));
    assert_string_equal(buf_cstr(&out), "second");
    assert_true(http_exchange_fill(x, &out));
    assert_true(http_exchange_rests(x));
    assert_int_equal(http_exchange_state(x), HTTP_SENDING);
    assert_int_equal(http_exchange_take(x, slice_str("GET / HTTP/1.1\r\n\r\n")), 0);
    assert_false(world.closed);
    http_exchange_destroy(x);
    *state = NULL;
    assert_true(world.closed);
    buf_finish(&out);
}

static void test_not_modified(void **state)
{
    struct http_exchange *x = *state;
    const char *text = exchange(x, "GET /known HTTP/1.1\r\nIf-None-Match: \"a\"\r\n\r\n");
    assert_memory_equal(text, "HTTP/1.1 304 Not Modified\r\n", 27);
    assert_non_null(strstr(text, "Cache-Control: no-cache\r\n"));
    assert_null(strstr(text, "Content-Length"));
    assert_int_equal(http_exchange_state(x), HTTP_HEAD);
    text = exchange(x, "GET / HTTP/1.1\r\n\r\n");
    assert_null(world.if_none_match);
    assert_non_null(strstr(text, "Cache-Control: no-store\r\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answers),      TEST(test_pipeline),       TEST(test_bodies),
        TEST(test_long_bodies),  TEST(test_refusals),       TEST(test_announced_length),
        TEST(test_one_upload),   TEST(test_later),          TEST(test_source),
        TEST(test_short_source), TEST(test_dropped_source), TEST(test_endless_source),
        TEST(test_not_modified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
