/* Spans of requests: parents as W3C Trace Context writes them, the ids of the last try, and times that never go back. */
#include "client/core/request_span.h"

#include "base/clock.h"
#include "wire/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static const uint8_t none[WIRE_TRACE_ID_LEN];

static struct request_span *span_of(const char *path, int64_t now_ns)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    struct request_span *s = request_span_create(&op, now_ns);
    assert_non_null(s);
    return s;
}

static void parents(void **state)
{
    static const char *const good[] = {"00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-00",
                                       "cc-" TRACE "-" SPAN "-01", "cc-" TRACE "-" SPAN "-01-more"};
    static const char *const bad[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-01-more",
        "00-" TRACE "-" SPAN "-01x",
        "cc-" TRACE "-" SPAN "-01x",
        "ff-" TRACE "-" SPAN "-01",
        "0x-" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-0AF7651916cd43dd8448eb211c80319c-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(conclave_span_parent(good[i]), 0);
        struct request_span *s = span_of("/a", 0);
        assert_int_equal(s->span.parent_trace_id[0], 0x0a);
        assert_int_equal(s->span.parent_trace_id[15], 0x9c);
        assert_int_equal(s->span.parent_span_id[0], 0xb7);
        assert_int_equal(s->span.parent_span_id[7], 0x31);
        free(s);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(conclave_span_parent(good[0]), 0);
        assert_int_equal(conclave_span_parent(bad[i]), CONCLAVE_EINVAL);
        struct request_span *s = span_of("/a", 0);
        assert_memory_equal(s->span.parent_trace_id, none, sizeof none);
        assert_memory_equal(s->span.parent_span_id, none, sizeof s->span.parent_span_id);
        free(s);
    }
    assert_int_equal(conclave_span_parent(NULL), 0);
}

static void ids_of_the_last_try(void **state)
{
    struct request_span *s = span_of("/a", 0);
    assert_memory_equal(s->span.trace_id, none, sizeof none);
    request_span_sent(s, 0, 5, 7); /* a server without a quorum */
    assert_memory_equal(s->span.trace_id, none, sizeof none);
    request_span_sent(s, 3, 5, 7);
    request_span_sent(s, 3, 6, 8);
    struct wire_trace wanted = wire_trace_of(3, 6, 8);
    uint8_t span[WIRE_SPAN_ID_LEN];
    wire_span_id(&wanted, TRACE_SPAN_CLIENT, span);
    assert_memory_equal(s->span.trace_id, wanted.id, sizeof wanted.id);
    assert_memory_equal(s->span.span_id, span, sizeof span);
    assert_int_equal(s->span.session_id, 3);
    assert_int_equal(s->span.xid, 8);
    free(s);
}

static void ends(void **state)
{
    struct request_span *s = span_of("/a", 1000);
    request_span_end(s, WIRE_EXISTS, CONCLAVE_NO_NODE, 3000);
    assert_string_equal(s->span.name, "exists");
    assert_string_equal(s->span.path, "/a");
    assert_int_equal(s->span.error, CONCLAVE_NO_NODE);
    assert_int_equal(s->span.end_ns - s->span.start_ns, 2000);
    assert_true(s->span.end_ns <= clock_wall_ns());
    request_span_end(s, 0, 0, 10);
    assert_string_equal(s->span.name, "other");
    assert_int_equal(s->span.end_ns, s->span.start_ns);
    free(s);
}

static void paths(void **state)
{
    const struct conclave_op parts[] = {conclave_op_path(CONCLAVE_OP_DELETE, "/first", -1),
                                        conclave_op_path(CONCLAVE_OP_DELETE, "/second", -1)};
    struct conclave_op op = conclave_op_multi(parts, 2);
    struct request_span *s = request_span_create(&op, 0);
    assert_string_equal(s->span.path, "/first");
    free(s);
    op = conclave_op_multi(NULL, 0);
    s = request_span_create(&op, 0);
    assert_string_equal(s->span.path, "");
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parents),
        cmocka_unit_test(ids_of_the_last_try),
        cmocka_unit_test(ends),
        cmocka_unit_test(paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
