/* Buffers: all or nothing, the limit to the byte, the sticky mark, a NUL that never counts. */
#include "base/buf.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_limit_is_exact(void **state)
{
    for (size_t max = 1; max < 200; max++) {
        struct buf b;
        buf_init(&b, max);
        for (size_t i = 0; i < max; i++) {
            buf_append_u8(&b, (uint8_t)i);
        }
        assert_true(buf_ok(&b));
        assert_int_equal(b.len, max);
        buf_append_u8(&b, 1);
        assert_false(buf_ok(&b));
        assert_int_equal(b.len, max);
        for (size_t i = 0; i < max; i++) {
            assert_int_equal(b.data[i], (uint8_t)i);
        }
        buf_finish(&b);
        assert_true(buf_ok(&b));
        assert_int_equal(b.max, max);
    }
}

static void test_nothing_of_what_does_not_fit(void **state)
{
    struct buf b;
    buf_init(&b, 10);
    buf_append(&b, "1234", 4);
    buf_append(&b, "1234567", 7);
    assert_int_equal(b.len, 4);
    assert_false(buf_ok(&b));
    buf_append_i64(&b, 1);
    assert_int_equal(b.len, 4);
    buf_append_i32(&b, 1);
    assert_int_equal(b.len, 8);
    assert_false(buf_ok(&b)); /* the mark sticks */
    buf_append_i32(&b, 1);
    assert_int_equal(b.len, 8);
    buf_printf(&b, "%d", 123);
    assert_int_equal(b.len, 8);
    buf_reset(&b);
    assert_true(buf_ok(&b));
    assert_int_equal(buf_reserve(&b, 11), CONCLAVE_ETOOBIG);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), CONCLAVE_ETOOBIG);
    assert_false(buf_ok(&b));
    assert_int_equal(buf_reserve(&b, 10), 0);
    buf_finish(&b);
}

static void test_text_fills_the_limit(void **state)
{
    struct buf b;
    buf_init(&b, 5);
    buf_printf(&b, "%s", "");
    assert_true(buf_ok(&b));
    assert_null(b.data);
    buf_printf(&b, "%d", 12345); /* five bytes: the NUL is not one of them */
    assert_true(buf_ok(&b));
    assert_string_equal(buf_cstr(&b), "12345");
    assert_true(buf_ok(&b));
    assert_int_equal(b.len, 5);
    buf_finish(&b);

    buf_init(&b, 1);
    assert_string_equal(buf_cstr(&b), "");
    assert_int_equal(b.len, 0);
    buf_finish(&b);
}

static void test_printf_grows(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    size_t want = 0;
    for (int i = 0; i < 2000; i++) {
        buf_printf(&b, "%0*d", i % 97, 7);
        want += i % 97 == 0 ? 1 : (size_t)(i % 97);
    }
    assert_true(buf_ok(&b));
    assert_int_equal(b.len, want);
    assert_int_equal(strlen(buf_cstr(&b)), want);
    buf_finish(&b);
}

static void test_integers_are_big_endian(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    buf_append_u8(&b, 0xfe);
    buf_append_i32(&b, -2);
    buf_append_i64(&b, 0x0102030405060708);
    buf_put_i32(&b, 1, 0x11223344);
    static const uint8_t want[] = {0xfe, 0x11, 0x22, 0x33, 0x44, 1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(b.len, sizeof want);
    assert_memory_equal(b.data, want, sizeof want);
    buf_finish(&b);
}

static void test_consume_and_take(void **state)
{
    struct buf b;
    buf_init(&b, 100);
    buf_consume(&b, 0);
    assert_int_equal(buf_slice(&b).len, 0);
    assert_false(slice_is_null(buf_slice(&b)));
    buf_append_str(&b, "abcdef");
    buf_consume(&b, 2);
    assert_true(slice_equal_str(buf_slice(&b), "cdef"));
    buf_consume(&b, 4);
    assert_int_equal(b.len, 0);
    buf_append_slice(&b, slice_str("xyz"));
    buf_append_slice(&b, SLICE_NULL);
    size_t len = 0;
    uint8_t *block = buf_take(&b, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(block, "xyz", 3);
    assert_null(b.data);
    assert_int_equal(b.max, 100);
    free(block);
    buf_append_u8(&b, 1);
    assert_true(buf_ok(&b));
    buf_finish(&b);
    buf_finish(&b);
}

/* The server lowers the limit of a connection's output for one answer: the memory may already be larger than that. */
static void test_limit_lowered_below_the_memory(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    for (int i = 0; i < 100; i++) {
        buf_append_u8(&b, (uint8_t)i);
    }
    assert_true(b.cap > 101);
    b.max = 101;
    while (b.len < b.cap) {
        buf_append_u8(&b, 7);
    }
    size_t cap = b.cap;
    buf_append_u8(&b, 7);
    assert_false(buf_ok(&b));
    assert_int_equal(buf_reserve(&b, 1), CONCLAVE_ETOOBIG);
    assert_int_equal(b.len, cap);
    assert_int_equal(b.cap, cap);
    assert_int_equal(b.data[99], 99);
    buf_finish(&b);
}

/* Random appends and cuts against a plain array. */
static void test_model(void **state)
{
    enum { MAX = 3000 };
    static uint8_t model[MAX];
    size_t model_len = 0;
    struct prng rnd = {1};
    struct buf b;
    buf_init(&b, MAX);
    for (int i = 0; i < 20000; i++) {
        uint8_t chunk[64];
        size_t n = prng_next(&rnd) % sizeof chunk;
        if (prng_next(&rnd) % 3 == 0) {
            n = n > model_len ? model_len : n;
            buf_consume(&b, n);
            memmove(model, model + n, model_len - n);
            model_len -= n;
        } else {
            memset(chunk, (int)(prng_next(&rnd) & 0xff), sizeof chunk);
            buf_append(&b, chunk, n);
            assert_int_equal(buf_ok(&b), n <= MAX - model_len);
            if (buf_ok(&b)) {
                memcpy(model + model_len, chunk, n);
                model_len += n;
            } else {
                buf_reset(&b);
                model_len = 0;
            }
        }
        assert_true(b.cap <= MAX);
        assert_true(slice_equal(buf_slice(&b), slice_make(model, model_len)));
    }
    buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_is_exact),
        cmocka_unit_test(test_nothing_of_what_does_not_fit),
        cmocka_unit_test(test_text_fills_the_limit),
        cmocka_unit_test(test_printf_grows),
        cmocka_unit_test(test_integers_are_big_endian),
        cmocka_unit_test(test_consume_and_take),
        cmocka_unit_test(test_limit_lowered_below_the_memory),
        cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
