/* Traces from their begin until the exporter has them: parts, the moment of sending, limits, and the bytes for a collector. */
#define _GNU_SOURCE /* memmem */
#include "front/traces/request_traces.h"

#include "front/limits/server_metrics.h"
#include "front/traces/otlp.h"
#include "wire/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct request_traces traces;
    struct server_metrics metrics;
    int owners[2];
};

static void world_open(struct world *w, bool on, int64_t sample)
{
    struct trace_options options = {.on = on, .sample = sample};
    memset(w, 0, sizeof *w);
    assert_int_equal(request_traces_init(&w->traces, &options, &w->metrics), 0);
}

static struct request_trace *begin(struct world *w, int owner, int32_t xid, int64_t ns)
{
    struct request_trace *r = request_traces_begin(&w->traces, &w->owners[owner], ns);
    assert_non_null(r);
    r->what.xid = xid;
    return r;
}

static void nothing_when_off(void **state)
{
    struct world w;
    world_open(&w, false, 1);
    assert_null(w.traces.open);
    assert_false(request_traces_sample(&w.traces, 1, 1));
    request_traces_finish(&w.traces);
    assert_int_equal(request_traces_init(&w.traces, NULL, &w.metrics), 0);
    assert_false(w.traces.on);
}

static void samples(void **state)
{
    struct world w;
    world_open(&w, true, 1);
    assert_true(request_traces_sample(&w.traces, 1, 1));
    assert_false(request_traces_sample(&w.traces, 1, 0));
    assert_false(request_traces_sample(&w.traces, 1, WIRE_XID_PING));
    request_traces_finish(&w.traces);
    world_open(&w, true, 0);
    assert_false(request_traces_sample(&w.traces, 1, 1));
    request_traces_finish(&w.traces);
}

/* A part that ended before the part in front of it takes no time; the parts fill the request. */
static void parts_add_up(void **state)
{
    struct world w;
    world_open(&w, true, 1);
    struct request_trace *r = begin(&w, 0, 1, 1000);
    request_trace_part(r, PART_QUEUE, 1500);
    request_trace_part(r, PART_FORWARD, 1400);
    request_trace_part(r, PART_DISK, 1700);
    r->applying = true;
    request_traces_sent(&w.traces, &w.owners[0], true, true, 1750);
    assert_int_equal(w.traces.open_count, 1); /* it is not answered yet */
    request_traces_applied(&w.traces, 1800);
    request_traces_sent(&w.traces, &w.owners[0], true, true, 2000);
    const struct request_trace *done = request_traces_peek(&w.traces, 0);
    assert_non_null(done);
    assert_null(request_traces_peek(&w.traces, 1));
    const int64_t wanted[PART_COUNT] = {500, 0, 200, 0, 100, 200};
    assert_memory_equal(done->part_ns, wanted, sizeof wanted);
    assert_true(done->begun_ns > INT64_C(1500000000000000000)); /* now a time of the wall clock */
    request_traces_finish(&w.traces);
}

/* Bytes that the socket keeps are sent when it takes the next ones. */
static void sent_in_two_steps(void **state)
{
    struct world w;
    world_open(&w, true, 1);
    (void)begin(&w, 0, 1, 0);
    (void)begin(&w, 1, 1, 0);
    request_traces_sent(&w.traces, &w.owners[0], true, false, 10); /* given, not taken */
    (void)begin(&w, 0, 2, 20);
    request_traces_sent(&w.traces, &w.owners[0], false, false, 30); /* the socket still has them */
    assert_int_equal(w.traces.done_count, 0);
    request_traces_sent(&w.traces, &w.owners[0], true, false, 40);
    assert_int_equal(w.traces.done_count, 1);
    assert_int_equal(request_traces_peek(&w.traces, 0)->part_ns[PART_SEND], 40);
    assert_non_null(request_traces_find(&w.traces, &w.owners[0], 2));
    assert_null(request_traces_find(&w.traces, &w.owners[0], 1));
    request_traces_gone(&w.traces, &w.owners[0], 50);
    assert_int_equal(w.traces.done_count, 2);
    assert_true(request_traces_peek(&w.traces, 1)->unsent);
    assert_non_null(request_traces_find(&w.traces, &w.owners[1], 1));
    request_traces_finish(&w.traces);
}

static void limits_hold(void **state)
{
    struct world w;
    world_open(&w, true, 1);
    for (int32_t i = 0; i < TRACES_OPEN_MAX; i++) {
        (void)begin(&w, 0, i + 1, 0);
    }
    assert_null(request_traces_begin(&w.traces, &w.owners[0], 0));
    assert_int_equal(w.metrics.conclave_traces_dropped_total, 1);
    request_traces_gone(&w.traces, &w.owners[0], 1);
    for (int32_t i = TRACES_OPEN_MAX; i < TRACES_DONE_MAX + 3; i++) {
        (void)begin(&w, 0, i + 1, 0);
        request_traces_sent(&w.traces, &w.owners[0], true, true, 1);
    }
    assert_int_equal(w.traces.done_count, TRACES_DONE_MAX);
    assert_int_equal(w.metrics.conclave_traces_dropped_total, 4);
    request_traces_pop(&w.traces, TRACES_DONE_MAX - 1);
    int32_t newest = request_traces_peek(&w.traces, 0)->what.xid;
    assert_true(newest > 0 && newest <= TRACES_DONE_MAX);
    (void)begin(&w, 1, 7777, 0);
    request_traces_sent(&w.traces, &w.owners[1], true, true, 1);
    assert_int_equal(request_traces_peek(&w.traces, 1)->what.xid, 7777);
    request_traces_finish(&w.traces);
}

static bool has(const struct buf *out, const void *bytes, size_t len)
{
    return memmem(out->data, out->len, bytes, len) != NULL;
}

#define HAS(out, literal) has(out, literal, sizeof(literal) - 1)

/* The bytes are as the collector of the suite traces reads them; a path that is not UTF-8 becomes UTF-8. */
static void bytes_of_a_trace(void **state)
{
    struct world w;
    struct buf out;
    buf_init(&out, 0);
    world_open(&w, true, 1);
    struct request_trace *r = begin(&w, 0, 300, 0);
    r->what.type = WIRE_CREATE;
    r->what.session_id = -1;
    r->client_spans = true;
    r->err = CONCLAVE_NODE_EXISTS;
    strcpy(r->what.path, "/\"\xff\xc3\xa4\xc3");
    request_trace_part(r, PART_QUEUE, 7);
    request_traces_sent(&w.traces, &w.owners[0], true, true, 7);
    otlp_encode(&w.traces, 1, 3, &out);
    assert_true(buf_ok(&out));
    assert_true(HAS(&out, "\x0a\x0d"
                          "conclave.path\x12\x8c\0\x0a\x0a/\"\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd"));
    assert_true(HAS(&out, "\x0a\x12"
                          "0xffffffffffffffff"));
    assert_true(HAS(&out, "\x0a\x0b"
                          "NODE_EXISTS"));
    assert_true(HAS(&out, "conclave.xid\x12\x83\0\x18\xac\x02"));
    assert_true(HAS(&out, "\x2a\x06"
                          "create\x30\x02\x22\x08")); /* then the id of the parent */
    assert_true(HAS(&out, "\x2a\x05"
                          "queue\x30\x01\x22\x08"));
    assert_false(HAS(&out, "send"));
    buf_finish(&out);
    request_traces_finish(&w.traces);
}

/* The longest texts, and as many traces as may wait, have room, and the lengths in front add up. */
static void the_largest_request(void **state)
{
    struct world w;
    struct buf out;
    buf_init(&out, 0);
    world_open(&w, true, 1);
    for (int32_t i = 1; i <= TRACES_DONE_MAX; i++) {
        struct request_trace *r = begin(&w, 0, INT32_MAX - i, 0);
        r->what.type = WIRE_CREATE_CONTAINER;
        r->what.session_id = -i;
        r->what.count = UINT32_MAX;
        r->client_spans = r->slow = r->unsent = true;
        r->err = CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS;
        memset(r->what.path, 0xff, sizeof r->what.path - 1);
        memset(r->what.client, 'c', sizeof r->what.client - 1);
        for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
            request_trace_part(r, p, 7 * (1 + (int)p));
        }
        request_traces_sent(&w.traces, &w.owners[0], true, true, 50);
    }
    otlp_encode(&w.traces, TRACES_DONE_MAX, INT64_MIN, &out);
    assert_true(buf_ok(&out));
    assert_int_equal(out.data[0], 1 << 3 | 2);
    size_t len = 0;
    for (unsigned i = 0; i < 4; i++) {
        len |= (size_t)(out.data[1 + i] & 0x7f) << 7 * i;
    }
    assert_int_equal(out.data[4] & 0x80, 0);
    assert_int_equal(out.len, 5 + len);
    buf_finish(&out);
    request_traces_finish(&w.traces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_when_off),    cmocka_unit_test(samples),
        cmocka_unit_test(parts_add_up),        cmocka_unit_test(sent_in_two_steps),
        cmocka_unit_test(limits_hold),         cmocka_unit_test(bytes_of_a_trace),
        cmocka_unit_test(the_largest_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
