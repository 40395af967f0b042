/*
 * Every record of the list, filled at random: encode, decode, encode gives the same bytes; cut at any
 * byte it is a fault, and nothing beyond is read; any bytes at all do no harm.
 */
#include "wire/records.h"

#include "base/random.h"
#include "exact.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* --- filling: one function per kind of field; borrowed data live until the next record -- */

enum { KEPT_MAX = 64 };

static struct prng rnd = {1};
static struct buf kept[KEPT_MAX];
static size_t kept_count;

static struct buf *keep(void)
{
    assert_true(kept_count < KEPT_MAX);
    struct buf *b = &kept[kept_count++];
    buf_init(b, 0);
    return b;
}

static void drop_kept(void)
{
    while (kept_count > 0) {
        buf_finish(&kept[--kept_count]);
    }
}

static bool fill_boolean(void)
{
    return prng_next(&rnd) % 2 == 0;
}

static int64_t fill_i64(void)
{
    static const int64_t edges[] = {0, -1, 1, INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX};
    uint64_t v = prng_next(&rnd);
    return v % 4 == 0 ? edges[(v >> 8) % 7] : (int64_t)prng_next(&rnd);
}

static int32_t fill_i32(void)
{
    return (int32_t)fill_i64();
}

static struct slice fill_buffer(void)
{
    struct buf *b = keep();
    uint64_t v = prng_next(&rnd);
    if (v % 8 == 0) {
        return SLICE_NULL;
    }
    for (uint64_t n = v >> 32 & 31; n > 0; n--) {
        buf_append_u8(b, (uint8_t)prng_next(&rnd));
    }
    return buf_slice(b);
}

#define fill_string fill_buffer
#define fill_secret fill_buffer

static struct wire_id fill_id(void)
{
    return (struct wire_id){.scheme = fill_string(), .id = fill_string()};
}

static struct wire_stat fill_stat(void)
{
    struct wire_stat stat;
#define FILL(kind, field) stat.field = fill_##kind();
    WIRE_F_STAT_FIELDS(FILL)
    return stat;
}

static struct wire_vector fill_vector(int kind)
{
    struct buf *b = keep();
    int32_t count = (int32_t)(prng_next(&rnd) % 5) - 1;
    for (int32_t i = 0; i < count; i++) {
        if (kind == 0) {
            wire_write_string(b, fill_string());
        } else if (kind == 1) {
            struct wire_acl acl = {.perms = fill_i32(), .id = fill_id()};
            wire_encode_acl(b, &acl);
        } else {
            struct wire_client_info info = {fill_string(), fill_string()};
            wire_encode_client_info(b, &info);
        }
    }
    return count < 0 ? WIRE_VECTOR_NULL : wire_vector_make(b, count);
}

#define fill_strings() fill_vector(0)
#define fill_acls() fill_vector(1)
#define fill_clients() fill_vector(2)

/* --- one test per record -------------------------------------------------------------------------- */

#define FILL_FIELD(kind, field) record.field = fill_##kind();

#define RECORD_TEST(name, FIELDS)                                                                  \
    static void cut_##name(struct slice bytes)                                                     \
    {                                                                                              \
        for (size_t len = 0; len < bytes.len; len++) {                                             \
            struct slice part = exact_copy(bytes.data, len);                                       \
            struct wire_reader r = wire_reader_make(part);                                         \
            struct wire_##name record;                                                             \
            assert_int_equal(wire_decode_##name(&r, &record), CONCLAVE_MARSHALLING_ERROR);         \
            assert_true(r.failed &&r.pos <= r.end);                                                \
            exact_free(part);                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void noise_##name(struct buf *text)                                                     \
    {                                                                                              \
        uint8_t noise[96];                                                                         \
        for (size_t i = 0; i < sizeof noise; i++) {                                                \
            uint64_t v = prng_next(&rnd); /* mostly small numbers, so that lengths make sense */   \
            noise[i] = v % 4 == 0 ? (uint8_t)(v >> 8) : (uint8_t)((v >> 8) % 3 == 0);              \
        }                                                                                          \
        struct slice bytes = exact_copy(noise, prng_next(&rnd) % sizeof noise);                    \
        struct wire_reader r = wire_reader_make(bytes);                                            \
        struct wire_##name record;                                                                 \
        if (wire_decode_##name(&r, &record) == 0) {                                                \
            struct buf again;                                                                      \
            buf_init(&again, 0);                                                                   \
            wire_encode_##name(&again, &record);                                                   \
            assert_int_equal(again.len, r.pos - bytes.data);                                       \
            wire_print_##name(text, &record);                                                      \
            buf_finish(&again);                                                                    \
        }                                                                                          \
        buf_reset(text);                                                                           \
        exact_free(bytes);                                                                         \
    }                                                                                              \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        struct buf first, again, text, text_again;                                                 \
        buf_init(&first, 0);                                                                       \
        buf_init(&again, 0);                                                                       \
        buf_init(&text, 0);                                                                        \
        buf_init(&text_again, 0);                                                                  \
        for (int i = 0; i < 50; i++) {                                                             \
            struct wire_##name record;                                                             \
            FIELDS(FILL_FIELD)                                                                     \
            wire_encode_##name(&first, &record);                                                   \
            wire_print_##name(&text, &record);                                                     \
            struct slice bytes = exact_copy(first.data, first.len);                                \
            struct wire_reader r = wire_reader_make(bytes);                                        \
            memset(&record, 0xa5, sizeof record);                                                  \
            assert_int_equal(wire_decode_##name(&r, &record), 0);                                  \
            assert_int_equal(wire_left(&r), 0);                                                    \
            wire_encode_##name(&again, &record);                                                   \
            wire_print_##name(&text_again, &record);                                               \
            assert_true(buf_ok(&first) && buf_ok(&again) && buf_ok(&text));                        \
            assert_true(slice_equal(buf_slice(&first), buf_slice(&again)));                        \
            assert_true(slice_equal(buf_slice(&text), buf_slice(&text_again)));                    \
            assert_true(text.data[0] == '{' && text.data[text.len - 1] == '}');                    \
            cut_##name(bytes);                                                                     \
            exact_free(bytes);                                                                     \
            drop_kept();                                                                           \
            buf_reset(&first);                                                                     \
            buf_reset(&again);                                                                     \
            buf_reset(&text);                                                                      \
            buf_reset(&text_again);                                                                \
        }                                                                                          \
        for (int i = 0; i < 500; i++) {                                                            \
            noise_##name(&text);                                                                   \
        }                                                                                          \
        buf_finish(&first);                                                                        \
        buf_finish(&again);                                                                        \
        buf_finish(&text);                                                                         \
        buf_finish(&text_again);                                                                   \
    }
WIRE_FIELD_RECORDS(RECORD_TEST)
WIRE_RECORDS(RECORD_TEST)
WIRE_FILE_RECORDS(RECORD_TEST)

int main(void)
{
#define RECORD_ROW(name, FIELDS) cmocka_unit_test(test_##name),
    const struct CMUnitTest tests[] = {WIRE_FIELD_RECORDS(RECORD_ROW) WIRE_RECORDS(RECORD_ROW)
                                           WIRE_FILE_RECORDS(RECORD_ROW)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
