/* Streams of events: how many there may be, what a slow reader costs, and what goes out when. */
#include "admin/http/event_streams.h"
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { READERS_MAX = 64, LATE_MS = 60000 };

static struct {
    uv_loop_t loop;
    struct admin_options options;
    struct view view;
    struct console console;
    struct event_streams *events;
    struct http_answerer answerer;
    bool closed;
} world;

/* A client: an exchange without a socket. */
struct reader {
    struct http_exchange *exchange;
    struct buf in; /* what it has read */
    unsigned woken;
    char peer[32];
    char text[4096];
};

static struct reader readers[READERS_MAX];

static void answer(void *ctx, const struct http_request *request, struct http_response *response)
{
    event_streams_add(world.events, request, response);
}

static void on_closed(void *ctx)
{
    world.closed = true;
}

static void on_output(void *ctx)
{
    struct reader *r = ctx;
    r->woken++;
}

static int setup(void **state)
{
    memset(&world, 0, sizeof world);
    memset(readers, 0, sizeof readers);
    world.options = admin_options_default();
    world.view.options = &world.options;
    console_init(&world.console, &world.view);
    world.answerer.fn = answer;
    assert_int_equal(uv_loop_init(&world.loop), 0);
    world.events = event_streams_create(&world.loop, &world.console, true);
    return world.events == NULL;
}

static void reader_end(struct reader *r)
{
    http_exchange_destroy(r->exchange);
    buf_finish(&r->in);
    r->exchange = NULL;
}

static int teardown(void **state)
{
    event_streams_close(world.events, on_closed, NULL);
    (void)uv_run(&world.loop, UV_RUN_DEFAULT);
    bool streams = false;
    for (size_t i = 0; i < READERS_MAX; i++) {
        streams |= readers[i].exchange != NULL && http_exchange_streams(readers[i].exchange);
    }
    assert_int_equal(world.closed, !streams);
    for (size_t i = 0; i < READERS_MAX; i++) {
        reader_end(&readers[i]);
    }
    assert_true(world.closed);
    assert_int_equal(uv_loop_close(&world.loop), 0);
    return 0;
}

/* Asks for events from this address. */
static struct reader *reader_open(size_t i, const char *peer)
{
    struct reader *r = &readers[i];
    (void)snprintf(r->peer, sizeof r->peer, "%s", peer);
    const struct http_holder holder = {
        .output = on_output, .ctx = r, .peer = r->peer, .subject = slice_str("")};
    r->exchange = http_exchange_create(&world.answerer, &holder);
    assert_non_null(r->exchange);
    buf_init(&r->in, 0);
    const char *request = "GET /console/events HTTP/1.1\r\n\r\n";
    assert_int_equal(http_exchange_take(r->exchange, slice_str(request)), strlen(request));
    return r;
}

/* Everything that comes now. */
static const char *reader_read(struct reader *r)
{
    buf_reset(&r->in);
    size_t before;
    do {
        before = r->in.len;
        assert_true(http_exchange_fill(r->exchange, &r->in));
    } while (r->in.len > before && r->in.len < sizeof r->text);
    (void)snprintf(r->text, sizeof r->text, "%s", buf_cstr(&r->in));
    return r->text;
}

static void test_first_event(void **state)
{
    struct reader *r = reader_open(0, "10.0.0.1");
    const char *text = reader_read(r);
    assert_memory_equal(text, "HTTP/1.1 200 OK\r\n", 17);
    assert_non_null(strstr(text, "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n"));
    assert_non_null(strstr(text, "\r\n\r\ndata: {\"server\":null,"));
    assert_string_equal(text + strlen(text) - 2, "\n\n");
    assert_string_equal(reader_read(r), "");
    assert_true(http_exchange_rests(r->exchange));
    /* The second one gets the same event, although it is not new. */
    assert_non_null(strstr(reader_read(reader_open(1, "10.0.0.1")), "data: {"));
}

/* What changes between two events waits for the next one: a newcomer makes none. */
static void test_newcomer(void **state)
{
    const char *first = strstr(reader_read(reader_open(0, "10.0.0.1")), "data: {");
    world.console.samples.ring[0].at_ms = 7;
    world.console.samples.count = 1;
    assert_string_equal(strstr(reader_read(reader_open(1, "10.0.0.2")), "data: {"), first);
}

static void test_bounds(void **state)
{
    char peer[32];
    size_t i = 0;
    for (; i < EVENT_STREAMS_PER_ADDRESS; i++) {
        assert_true(http_exchange_streams(reader_open(i, "10.0.0.1")->exchange));
    }
    struct reader *refused = reader_open(i++, "10.0.0.1");
    assert_false(http_exchange_streams(refused->exchange));
    assert_non_null(strstr(reader_read(refused), "503 Service Unavailable"));
    for (unsigned n = 0; event_streams_count(world.events) < EVENT_STREAMS_MAX; n++) {
        (void)snprintf(peer, sizeof peer, "10.0.1.%u", n);
        assert_true(http_exchange_streams(reader_open(i++, peer)->exchange));
    }
    assert_false(http_exchange_streams(reader_open(i++, "10.0.2.1")->exchange));
    reader_end(&readers[0]);
    assert_int_equal(event_streams_count(world.events), EVENT_STREAMS_MAX - 1);
    assert_true(http_exchange_streams(reader_open(i++, "10.0.2.1")->exchange));
}

/* All addresses of one network of 64 bits count as one. */
static void test_bound_of_ipv6(void **state)
{
    char peer[32];
    for (unsigned i = 0; i <= EVENT_STREAMS_PER_ADDRESS; i++) {
        (void)snprintf(peer, sizeof peer, "2001:db8::%x", i + 1);
        bool streams = http_exchange_streams(reader_open(i, peer)->exchange);
        assert_int_equal(streams, i < EVENT_STREAMS_PER_ADDRESS);
    }
}

/* Runs the loop until the reader was woken so often, at most LATE_MS. */
static void wait_woken(struct reader *r, unsigned times)
{
    uint64_t end = uv_now(&world.loop) + LATE_MS;
    while (r->woken < times && uv_now(&world.loop) < end) {
        (void)uv_run(&world.loop, UV_RUN_ONCE);
    }
    assert_true(r->woken >= times);
}

/* The overview does not change, so only beats come; a reader that reads nothing keeps one event, however long it
 * waits. */
static void test_slow_reader(void **state)
{
    struct reader *quick = reader_open(0, "10.0.0.1");
    struct reader *slow = reader_open(1, "10.0.0.2");
    (void)reader_read(quick);
    wait_woken(quick, 1);
    assert_string_equal(reader_read(quick), ": beat\n\n");
    /* Another state than before: the server was there, and is gone. */
    assert_true(slow->woken > 0);
    const char *text = reader_read(slow);
    assert_non_null(strstr(text, "data: {"));
    assert_null(strstr(strstr(text, "data: {") + 1, "data: {"));
    assert_string_equal(reader_read(slow), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_event),   TEST(test_newcomer),    TEST(test_bounds),
        TEST(test_bound_of_ipv6), TEST(test_slow_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
