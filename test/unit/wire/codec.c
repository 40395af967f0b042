/* The codec: edges of every kind, null beside empty, lengths and counts that lie, frames, printing. */
#include "wire/codec.h"

#include "exact.h"
#include "wire/records.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define READER(bytes) wire_reader_make(slice_make(bytes, sizeof bytes - 1))

static void check_text(struct buf *b, const char *want)
{
    assert_string_equal(buf_cstr(b), want);
    buf_reset(b);
}

static void test_null_beside_empty(void **state)
{
    struct wire_reader r = READER("\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\0\0\0\0");
    struct slice s = wire_read_string(&r);
    assert_true(slice_is_null(s));
    s = wire_read_string(&r);
    assert_false(slice_is_null(s));
    assert_int_equal(s.len, 0);
    assert_true(slice_is_null(wire_read_buffer(&r)));
    s = wire_read_buffer(&r); /* empty at the end */
    assert_false(slice_is_null(s));
    assert_int_equal(s.len, 0);
    assert_false(r.failed);

    struct buf b;
    buf_init(&b, 0);
    wire_write_string(&b, SLICE_NULL);
    wire_write_string(&b, slice_str(""));
    wire_write_vector(&b, &WIRE_VECTOR_NULL);
    struct wire_vector none = {SLICE_NULL, 0};
    wire_write_vector(&b, &none);
    assert_int_equal(b.len, 16);
    assert_memory_equal(b.data, "\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\0\0\0\0", 16);
    buf_finish(&b);
}

static void test_bad_lengths(void **state)
{
    static const char *const bad[] = {
        "\xff\xff\xff\xfe", /* -2 */
        "\x80\0\0\0",       /* INT32_MIN */
        "\x7f\xff\xff\xff", "\0\0\0\1", "\0\1\0\0",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct slice bytes = exact_copy(bad[i], 4);
        struct wire_reader r = wire_reader_make(bytes);
        assert_true(slice_is_null(wire_read_buffer(&r)));
        assert_true(r.failed);
        r = wire_reader_make(bytes);
        assert_true(slice_is_null(wire_read_string(&r)));
        assert_true(r.failed);
        /* The fault sticks: all that is read later is 0 or null. */
        r.pos = bytes.data;
        assert_int_equal(wire_read_i32(&r), 0);
        assert_int_equal(wire_read_i64(&r), 0);
        assert_false(wire_read_boolean(&r));
        assert_true(slice_is_null(wire_read_string(&r)));
        /* As a count of a vector. */
        r = wire_reader_make(bytes);
        struct wire_vector v = wire_read_ids(&r);
        assert_int_equal(v.count, -1);
        assert_true(r.failed);
        struct wire_id id;
        assert_false(wire_next_id(&v, &id));
        exact_free(bytes);
    }
}

/* Nothing at all, also at address null. */
static void test_no_bytes(void **state)
{
    struct wire_reader r = wire_reader_make(SLICE_NULL);
    assert_int_equal(wire_left(&r), 0);
    assert_int_equal(wire_rest(&r).len, 0);
    assert_int_equal(wire_read_i32(&r), 0);
    assert_true(r.failed);
    r = wire_reader_make(SLICE_NULL);
    assert_false(wire_read_boolean(&r));
    assert_true(r.failed);
}

/* A count of two thousand million over few bytes ends at the first fault; nothing is allocated. */
static void test_count_that_lies(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_i32(&b, INT32_MAX);
    for (int i = 0; i < 1000; i++) {
        wire_write_string(&b, slice_str(""));
    }
    struct slice bytes = exact_copy(b.data, b.len);
    struct wire_reader r = wire_reader_make(bytes);
    struct wire_get_children_response record;
    assert_int_equal(wire_decode_get_children_response(&r, &record), CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(record.children.count, -1);
    exact_free(bytes);
    buf_finish(&b);
}

static void test_vectors_are_read_to_their_end(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    wire_write_string(&b, slice_str("one"));
    wire_write_string(&b, SLICE_NULL);
    wire_write_string(&b, slice_str(""));
    struct wire_vector v = wire_vector_make(&b, 3);
    struct slice s;
    assert_true(wire_next_string(&v, &s));
    assert_true(slice_equal_str(s, "one"));
    assert_true(wire_next_string(&v, &s));
    assert_true(slice_is_null(s));
    assert_true(wire_next_string(&v, &s));
    assert_false(slice_is_null(s));
    assert_false(wire_next_string(&v, &s));
    assert_false(wire_next_string(&v, &s));
    v = WIRE_VECTOR_NULL;
    assert_false(wire_next_string(&v, &s));
    buf_finish(&b);
}

static void test_integers(void **state)
{
    struct wire_reader r = READER("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xfe\2\1\0");
    assert_int_equal(wire_read_i32(&r), INT32_MIN);
    assert_true(wire_read_i64(&r) == 0x7ffffffffffffffe);
    assert_true(wire_read_boolean(&r)); /* any byte but 0, as Java reads it */
    assert_true(wire_read_boolean(&r));
    assert_false(wire_read_boolean(&r));
    assert_false(r.failed);
    assert_int_equal(wire_left(&r), 0);
}

static void test_frames(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_str(&b, "x");
    size_t frame = wire_frame_begin(&b);
    buf_append_str(&b, "hello");
    wire_frame_end(&b, frame);
    frame = wire_frame_begin(&b);
    wire_frame_end(&b, frame);
    assert_int_equal(b.len, 1 + 9 + 4);
    assert_memory_equal(b.data, "x\0\0\0\5hello\0\0\0\0", b.len);

    struct slice body;
    int32_t len;
    for (size_t n = 0; n < 9; n++) {
        struct slice in = exact_copy(b.data + 1, n);
        len = -7;
        assert_int_equal(wire_frame_cut(in, 5, &body, &len), 0);
        assert_int_equal(len, n < 4 ? -7 : 5);
        exact_free(in);
    }
    struct slice in = slice_make(b.data + 1, 13);
    assert_int_equal(wire_frame_cut(in, 5, &body, &len), 1);
    assert_true(slice_equal_str(body, "hello"));
    assert_int_equal(wire_frame_cut(in, 4, &body, &len), CONCLAVE_EPROTO);
    assert_int_equal(len, 5);
    in = slice_make(b.data + 10, 4);
    assert_int_equal(wire_frame_cut(in, 0, &body, &len), 1); /* an empty body */
    assert_int_equal(body.len, 0);
    assert_false(slice_is_null(body));
    assert_int_equal(wire_frame_cut(slice_str("\xff\xff\xff\xff"), 100, &body, &len),
                     CONCLAVE_EPROTO);
    assert_int_equal(len, -1);
    /* HTTP at the wrong door: the number that users see in logs. */
    assert_int_equal(wire_frame_cut(slice_str("GET / HTTP/1.1"), 0xfffff, &body, &len),
                     CONCLAVE_EPROTO);
    assert_int_equal(len, 1195725856);
    buf_finish(&b);

    /* A frame that did not fit is marked, not half a frame with a wrong length. */
    buf_init(&b, 6);
    frame = wire_frame_begin(&b);
    buf_append_str(&b, "hello");
    wire_frame_end(&b, frame);
    assert_false(buf_ok(&b));
    buf_finish(&b);
}

/* A length that its four bytes cannot say is no frame. */
static void test_endless_frame(void **state)
{
    uint8_t room[8] = {0};
    struct buf b = {.data = room, .len = (size_t)INT32_MAX + 4, .cap = SIZE_MAX / 2};
    wire_frame_end(&b, 0);
    assert_true(buf_ok(&b));
    b.len++;
    wire_frame_end(&b, 0);
    assert_false(buf_ok(&b));
}

static void test_printing(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    wire_print_boolean(&b, true);
    check_text(&b, "true");
    wire_print_i32(&b, INT32_MIN);
    check_text(&b, "-2147483648");
    wire_print_i64(&b, -1);
    check_text(&b, "0xffffffffffffffff");
    wire_print_string(&b, SLICE_NULL);
    check_text(&b, "null");
    wire_print_string(&b, slice_str(""));
    check_text(&b, "\"\"");
    wire_print_string(&b, slice_make("a\n\"\\\0\x7f\xc3\xa9", 8));
    check_text(&b, "\"a\\x0a\\x22\\x5c\\x00\\x7f\xc3\xa9\"");
    wire_print_buffer(&b, slice_str("12345678901234567890123456789012"));
    check_text(&b, "32:\"12345678901234567890123456789012\"");
    wire_print_buffer(&b, slice_str("123456789012345678901234567890123"));
    check_text(&b, "33:\"12345678901234567890123456789012\"...");
    wire_print_buffer(&b, SLICE_NULL);
    check_text(&b, "null");
    wire_print_secret(&b, slice_str("user:password"));
    check_text(&b, "13:***");
    wire_print_secret(&b, SLICE_NULL);
    check_text(&b, "null");
    buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_beside_empty),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_no_bytes),
        cmocka_unit_test(test_count_that_lies),
        cmocka_unit_test(test_vectors_are_read_to_their_end),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_endless_frame),
        cmocka_unit_test(test_printing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
