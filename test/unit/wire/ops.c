/* The table of operations: numbers, flags, and the printed form of every request and reply. */
#include "wire/ops.h"

#include "exact.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct row {
    int32_t number;
    int flags;
    const char *name;
};

static const struct row rows[] = {
#define ROW(NAME, number, name, request, reply, flags) {number, flags, name},
    WIRE_OPS(ROW)
#undef ROW
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void test_table(void **state)
{
    for (size_t i = 0; i < ROWS; i++) {
        assert_string_equal(wire_op_name(rows[i].number), rows[i].name);
        assert_int_equal(wire_op_flags(rows[i].number), rows[i].flags);
        int what = rows[i].flags & (WIRE_OP_READ | WIRE_OP_WRITE | WIRE_OP_SESSION);
        /* Every one that a client may send is exactly one of the three. */
        assert_true((what & (what - 1)) == 0);
        assert_true(what != 0 || (rows[i].flags & WIRE_OP_INTERNAL) != 0);
        assert_true((rows[i].flags & WIRE_OP_MULTI) == 0 || what == WIRE_OP_WRITE);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(rows[i].number, rows[j].number);
            assert_string_not_equal(rows[i].name, rows[j].name);
        }
    }
    assert_null(wire_op_name(10));
    assert_null(wire_op_name(INT32_MIN));
    assert_int_equal(wire_op_flags(10), 0);
    assert_int_equal(wire_op_flags(99), 0);
    assert_int_equal(wire_op_flags(108), 0);
}

/* Operations that the server must never take from a client on their own: spec of Request.isValid, and deleteContainer.
 * */
static void test_internal(void **state)
{
    static const int32_t refused[] = {WIRE_NOTIFICATION, WIRE_CHECK, WIRE_DELETE_CONTAINER,
                                      WIRE_CREATE_SESSION, WIRE_ERROR};
    size_t found = 0;
    for (size_t i = 0; i < ROWS; i++) {
        found += (rows[i].flags & WIRE_OP_INTERNAL) != 0;
    }
    assert_int_equal(found, sizeof refused / sizeof refused[0]);
    for (size_t i = 0; i < found; i++) {
        assert_true((wire_op_flags(refused[i]) & WIRE_OP_INTERNAL) != 0);
    }
}

static void check_print(int32_t op, bool reply, struct slice bytes, const char *want)
{
    struct buf out;
    buf_init(&out, 0);
    struct slice body = exact_copy(bytes.data, bytes.len);
    (reply ? wire_print_reply : wire_print_request)(&out, op, body);
    assert_string_equal(buf_cstr(&out), want);
    exact_free(body);
    buf_finish(&out);
}

#define BYTES(literal) slice_make(literal, sizeof(literal) - 1)

static void test_print_some(void **state)
{
    check_print(WIRE_EXISTS, false, BYTES("\0\0\0\2/a\1"), "{path=\"/a\" watch=true}");
    check_print(WIRE_SET_DATA, false, BYTES("\0\0\0\2/a\xff\xff\xff\xff\xff\xff\xff\xff"),
                "{path=\"/a\" data=null version=-1}");
    check_print(WIRE_CREATE, true, BYTES("\0\0\0\2/a"), "{path=\"/a\"}");
    check_print(WIRE_GET_CHILDREN, true, BYTES("\0\0\0\2\0\0\0\1a\0\0\0\1b"),
                "{children=[\"a\" \"b\"]}");
    check_print(WIRE_GET_CHILDREN, true, BYTES("\xff\xff\xff\xff"), "{children=[]}");
    check_print(WIRE_PING, false, BYTES(""), "");
    check_print(WIRE_DELETE, true, BYTES(""), "");
}

static void test_print_what_cannot_be_decoded(void **state)
{
    check_print(WIRE_EXISTS, false, BYTES("\0\0\0\2/"), "(5 bytes)");
    check_print(WIRE_EXISTS, false, BYTES(""), "(0 bytes)");
    check_print(4711, false, BYTES("abc"), "(3 bytes)");
    check_print(WIRE_MULTI, false, BYTES("\0\0"), "[](2 bytes)");
    check_print(WIRE_MULTI, false,
                BYTES("\0\0\0\x63\0\xff\xff\xff\xff"
                      "abc"),
                "[? ](12 bytes)");
}

static void test_print_secrets_never(void **state)
{
    check_print(WIRE_AUTH, false, BYTES("\0\0\0\0\0\0\0\6digest\0\0\0\5u:pwd"),
                "{type=0 scheme=\"digest\" auth=5:***}");
    check_print(WIRE_SASL, false, BYTES("\0\0\0\3tok"), "{token=3:***}");
    check_print(WIRE_SASL, true, BYTES("\0\0\0\3tok"), "{token=3:***}");
}

static void test_print_multi(void **state)
{
    check_print(WIRE_MULTI, false, BYTES("\xff\xff\xff\xff\1\xff\xff\xff\xff"), "[]");
    check_print(WIRE_MULTI, false,
                BYTES("\0\0\0\x0d\0\xff\xff\xff\xff\0\0\0\2/a\0\0\0\3"
                      "\0\0\0\2\0\xff\xff\xff\xff\0\0\0\2/b\xff\xff\xff\xff"
                      "\xff\xff\xff\xff\1\xff\xff\xff\xff"),
                "[check {path=\"/a\" version=3}, delete {path=\"/b\" version=-1}]");
    /* A failed one: every result is an error record. */
    check_print(WIRE_MULTI, true,
                BYTES("\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0"
                      "\xff\xff\xff\xff\0\xff\xff\xff\x9b\xff\xff\xff\x9b"
                      "\xff\xff\xff\xff\1\xff\xff\xff\xff"),
                "[error {err=0}, error {err=-101}]");
    /* delete and check answer nothing, create its path. */
    check_print(WIRE_MULTI, true,
                BYTES("\0\0\0\2\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\2/c"
                      "\xff\xff\xff\xff\1\xff\xff\xff\xff"),
                "[delete , create {path=\"/c\"}]");
    check_print(WIRE_MULTI_READ, false,
                BYTES("\0\0\0\4\0\xff\xff\xff\xff\0\0\0\2/a\0"
                      "\xff\xff\xff\xff\1\xff\xff\xff\xff"),
                "[getData {path=\"/a\" watch=false}]");
}

/* Every operation over bytes of every length: something readable, no harm. */
static void test_print_all(void **state)
{
    static const uint8_t fills[] = {0x00, 0x01, 0xff};
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t f = 0; f < sizeof fills; f++) {
            for (size_t len = 0; len < 150; len++) {
                uint8_t bytes[150];
                memset(bytes, fills[f], sizeof bytes);
                struct slice body = exact_copy(bytes, len);
                struct buf out;
                buf_init(&out, 0);
                wire_print_request(&out, rows[i].number, body);
                wire_print_reply(&out, rows[i].number, body);
                assert_true(buf_ok(&out));
                for (size_t at = 0; at < out.len; at++) {
                    assert_true(out.data[at] >= 0x20);
                }
                buf_finish(&out);
                exact_free(body);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_internal),
        cmocka_unit_test(test_print_some),
        cmocka_unit_test(test_print_what_cannot_be_decoded),
        cmocka_unit_test(test_print_secrets_never),
        cmocka_unit_test(test_print_multi),
        cmocka_unit_test(test_print_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
