/* The samples of an hour: each counts its own time, the ring keeps the newest. */
#include "admin/console/samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WALL = 1000000 };

static struct samples samples;
static struct server_metrics metrics;

static int setup(void **state)
{
    samples_init(&samples);
    memset(&metrics, 0, sizeof metrics);
    return 0;
}

/* A sample at second s; whether it was taken. */
static bool take(int64_t s)
{
    return samples_take(&samples, &metrics, s * 1000, WALL + s * 1000);
}

static void test_first_call_only_begins(void **state)
{
    summary_add_many(&metrics.readlatency, 100, 50);
    assert_false(take(3));
    assert_null(samples_newest(&samples));
    assert_null(samples_at(&samples, 0));
    assert_false(take(7)); /* too early */
    assert_true(take(8));
    assert_int_equal(samples_newest(&samples)->reads, 0); /* those came before */
}

static void test_counts_its_own_time(void **state)
{
    summary_add_many(&metrics.readlatency, 1000, 1000000);
    assert_false(take(0));
    summary_add_many(&metrics.readlatency, 8, 60);
    summary_add_many(&metrics.updatelatency, 2000, 40);
    summary_add(&metrics.fsynctime, 700);
    summary_add(&metrics.jvm_pause_time_ms, 300);
    assert_true(take(10));
    const struct server_sample *s = samples_newest(&samples);
    assert_int_equal(s->at_ms, WALL + 10000);
    assert_int_equal(s->reads, 6);
    assert_int_equal(s->writes, 4);
    assert_int_equal(s->p50_us, 8); /* the million before would make it 1000 */
    assert_in_range(s->p99_us, 1875, 2125);
    assert_in_range(s->fsync_p99_us, 656, 744);
    assert_in_range(s->stall_ms, 281, 319);
    assert_true(take(15));
    assert_int_equal(samples_newest(&samples)->p99_us, 0);
    assert_int_equal(samples_newest(&samples)->stall_ms, 0);
}

/* The word srst resets the summaries. */
static void test_survives_a_reset(void **state)
{
    summary_add_many(&metrics.readlatency, 10, 100);
    assert_false(take(0));
    memset(&metrics, 0, sizeof metrics);
    summary_add_many(&metrics.readlatency, 20, 200); /* more than before, but other values */
    assert_true(take(5));
    assert_int_equal(samples_newest(&samples)->reads, 40);
    memset(&metrics, 0, sizeof metrics);
    assert_true(take(10));
    assert_int_equal(samples_newest(&samples)->reads, 0);
}

static void test_ring(void **state)
{
    struct json j;
    (void)take(0);
    for (int64_t i = 1; i <= SAMPLES_MAX + 10; i++) {
        summary_add_many(&metrics.readlatency, 1, (uint64_t)i * 5);
        assert_true(take(i * 5));
    }
    assert_int_equal(samples_at(&samples, 0)->reads, 11);
    assert_int_equal(samples_at(&samples, SAMPLES_MAX - 1)->reads, SAMPLES_MAX + 10);
    assert_ptr_equal(samples_at(&samples, SAMPLES_MAX - 1), samples_newest(&samples));
    assert_null(samples_at(&samples, SAMPLES_MAX));
    json_init(&j);
    json_array_begin(&j);
    samples_write(&samples, samples_at(&samples, 0), &j); /* the oldest is number 10 of 0 to 729 */
    samples_write(&samples, samples_newest(&samples), &j);
    samples_write(&samples, NULL, &j);
    json_array_end(&j);
    assert_string_equal(buf_cstr(&j.out),
                        "[[10,1055000,11,0,1,1,0],[729,4650000,730,0,1,1,0],null]");
    json_finish(&j);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_call_only_begins),
        TEST(test_counts_its_own_time),
        TEST(test_survives_a_reset),
        TEST(test_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
