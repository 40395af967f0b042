/* Ids of traces: those that docs/traces.md promises, different for different requests, and never zero. */
#include "wire/trace_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_bytes(const uint8_t *bytes, size_t len, const char *wanted)
{
    char text[64];
    assert_true(2 * len < sizeof text);
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    assert_string_equal(text, wanted);
}

/* The values come from test/support/otlp.py, another program for the same formula. */
static void ids_are_as_documented(void **state)
{
    uint8_t span[WIRE_SPAN_ID_LEN];
    struct wire_trace t = wire_trace_of(0x100000001a2b3c4, wire_trace_link(0, false), 1);
    assert_bytes(t.id, sizeof t.id, "558539eec9031200e929b0883f511aa5");
    wire_span_id(&t, TRACE_SPAN_CLIENT, span);
    assert_bytes(span, sizeof span, "6ffbf7a8263f1991");
    wire_span_id(&t, TRACE_SPAN_SERVER, span);
    assert_bytes(span, sizeof span, "26a1d5e481fa06e9");
    t = wire_trace_of(INT64_MIN, wire_trace_link(INT64_MAX, true), INT32_MAX);
    assert_bytes(t.id, sizeof t.id, "3864b5864f9984516a7a9c4abb8bdf1d");
    wire_span_id(&t, TRACE_SPAN_PARTS + 5, span);
    assert_bytes(span, sizeof span, "f386601462d3d156");
}

static void each_fact_counts(void **state)
{
    const uint64_t links[] = {wire_trace_link(0, false), wire_trace_link(0, true),
                              wire_trace_link(1, false), wire_trace_link(1, true)};
    struct wire_trace traces[16];
    size_t count = 0;
    for (size_t link = 0; link < 4; link++) {
        for (int32_t xid = 1; xid <= 2; xid++) {
            for (int64_t session = 1; session <= 2; session++) {
                traces[count++] = wire_trace_of(session, links[link], xid);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(traces[i].id, traces[j].id, WIRE_TRACE_ID_LEN);
            assert_memory_not_equal(traces[i].id + 8, traces[j].id + 8, 8);
        }
    }
}

/* A sample of one in eight is one in eight, for neighbouring requests and for neighbouring sessions. */
static void lots_are_spread(void **state)
{
    enum { COUNT = 80000 };
    unsigned by_xid = 0;
    unsigned by_session = 0;
    uint64_t link = wire_trace_link(0, false);
    for (int32_t i = 1; i <= COUNT; i++) {
        by_xid += wire_trace_lot(wire_trace_seed(0x100000000000001, link), i) <= UINT64_MAX / 8;
        by_session +=
            wire_trace_lot(wire_trace_seed(0x100000000000001 + i, link), 1) <= UINT64_MAX / 8;
    }
    assert_in_range(by_xid, COUNT / 8 - 600, COUNT / 8 + 600);
    assert_in_range(by_session, COUNT / 8 - 600, COUNT / 8 + 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_as_documented),
        cmocka_unit_test(each_fact_counts),
        cmocka_unit_test(lots_are_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
