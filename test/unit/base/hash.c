#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

enum { LONGEST = 64 };

static uint64_t hash_of_length(const struct hash_key *key, size_t len)
{
    uint8_t data[LONGEST] = {0};
    for (size_t i = 0; i < len; i++) {
        data[i] = (uint8_t)i;
    }
    return hash_keyed(key, data, len);
}

/* Under the key 00 01 … 0f, as SipHash's tests have it: every length of the last word, and a long text. */
static void known_values(void **state)
{
    static const struct hash_key key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
    static const uint64_t want[] = {
        0xabac0158050fc4dcu, 0xc9f49bf37d57ca93u, 0x82cb9b024dc7d44du,
        0x8bf80ab8e7ddf7fbu, 0xcf75576088d38328u, 0xdef9d52f49533b67u,
        0xc50d2b50c59f22a7u, 0xd3927d989bb11140u, 0x369095118d299a8eu,
    };
    for (size_t len = 0; len < sizeof want / sizeof want[0]; len++) {
        assert_true(hash_of_length(&key, len) == want[len]);
    }
    assert_true(hash_of_length(&key, 63) == 0x9d199062b7bbb3a8u);
}

/* Python's hash() of bytes is SipHash-1-3 too, under the key 0 with PYTHONHASHSEED=0. */
static void values_of_python(void **state)
{
    static const struct hash_key zero = {{0, 0}};
    assert_true(hash_keyed(&zero, "a", 1) == 0x407448d2b89b1813u);
    assert_true(hash_keyed(&zero, "/dir000000/node000001", 21) == 0xed0a4fbb5b0c5dd2u);
    assert_true(hash_of_length(&zero, 15) == 0xf30eb725bb91c9eau);
}

/* Each word of the key counts, for every length. */
static void keys_differ(void **state)
{
    static const struct hash_key one = {{1, 0}};
    static const struct hash_key other = {{0, 1}};
    for (size_t len = 0; len <= LONGEST; len++) {
        assert_true(hash_of_length(&one, len) != hash_of_length(&other, len));
        assert_true(hash_of_length(&one, len) != hash_of_length(&hash_key_fixed, len));
    }
}

/* However a key is cut into pieces, each prefix has the hash that it has at once. */
static void a_stream_hashes_all_prefixes(void **state)
{
    uint8_t key[80];
    for (size_t i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)(i * 37 + 1);
    }
    for (size_t step = 1; step < 20; step++) {
        struct hash_stream h;
        hash_stream_begin(&h, &hash_key_fixed);
        for (size_t at = 0; at + step <= sizeof key; at += step) {
            assert_int_equal(hash_stream_value(&h), hash_keyed(&hash_key_fixed, key, at));
            hash_stream_add(&h, key + at, step);
            hash_stream_add(&h, key, 0);
            assert_int_equal(hash_stream_value(&h), hash_keyed(&hash_key_fixed, key, at + step));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_hashes_all_prefixes),
        cmocka_unit_test(known_values),
        cmocka_unit_test(values_of_python),
        cmocka_unit_test(keys_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
