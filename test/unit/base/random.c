/* Random bytes are filled to the last one; numbers stay below their bound; seeds repeat; clocks go on. */
#include "base/random.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

static void test_all_bytes_are_filled(void **state)
{
    /* A byte that stays 0 in 40 fills was not filled. */
    for (size_t len = 0; len < 300; len += 37) {
        uint8_t bytes[301], seen[301] = {0};
        for (int i = 0; i < 40; i++) {
            memset(bytes, 0, sizeof bytes);
            random_bytes(bytes, len);
            for (size_t j = 0; j < sizeof bytes; j++) {
                seen[j] |= bytes[j];
            }
        }
        for (size_t j = 0; j < sizeof seen; j++) {
            assert_int_equal(seen[j] != 0, j < len);
        }
    }
}

static void test_below(void **state)
{
    bool seen[7] = {false};
    for (int i = 0; i < 1000; i++) {
        uint64_t v = random_below(7);
        assert_true(v < 7);
        seen[v] = true;
        assert_int_equal(random_below(1), 0);
        assert_true(random_below(UINT64_MAX) < UINT64_MAX);
        assert_true(random_below((UINT64_MAX / 2) + 2) < UINT64_MAX / 2 + 2);
    }
    for (int i = 0; i < 7; i++) {
        assert_true(seen[i]);
    }
}

/* splitmix64 from seed 0; its author's reference program gives these. */
static void test_seed_repeats(void **state)
{
    struct prng p = {0};
    assert_true(prng_next(&p) == 0xe220a8397b1dcdafu);
    assert_true(prng_next(&p) == 0x6e789e6aa1b965f4u);
}

static int64_t fake_ns(void *ctx)
{
    return *(int64_t *)ctx;
}

static void test_clocks(void **state)
{
    const struct clock_source *c = clock_system();
    int64_t before = clock_monotonic_ns(c);
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock_monotonic_ns(c);
        assert_true(now >= before);
        before = now;
    }
    assert_true(clock_wall_ms(c) > 1700000000000);
    int64_t ns = 5999999;
    struct clock_source fake = {fake_ns, fake_ns, &ns};
    assert_int_equal(clock_monotonic_ms(&fake), 5);
    assert_int_equal(clock_wall_ms(&fake), 5999999);
}

static void test_text(void **state)
{
    char text[2 * RANDOM_TEXT_BYTES + 2];
    char other[2 * RANDOM_TEXT_BYTES + 2];
    for (size_t bytes = 0; bytes <= RANDOM_TEXT_BYTES; bytes += 8) {
        memset(text, '?', sizeof text);
        random_text(text, bytes);
        random_text(other, bytes);
        assert_int_equal(strspn(text, "0123456789abcdef"), 2 * bytes);
        assert_int_equal(strlen(text), 2 * bytes);
        assert_int_equal(text[2 * bytes + 1], '?');
        assert_true(bytes == 0 || strcmp(text, other) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_bytes_are_filled),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_seed_repeats),
        cmocka_unit_test(test_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
