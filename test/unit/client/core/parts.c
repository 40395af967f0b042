/* The small parts: timers, dispatcher, paths. */
#include "base/random.h"
#include "client/core/dispatcher.h"
#include "client/core/path.h"
#include "client/core/timers.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TIMERS = 500 };

/* Against a plain array: starts, stops and expiry in random order. */
static void test_timers(void **state)
{
    struct timers ts = {0};
    struct timer all[TIMERS] = {0};
    struct prng rng = {7};
    int64_t now = 0;
    for (int step = 0; step < 20000; step++) {
        struct timer *t = &all[prng_next(&rng) % TIMERS];
        switch (prng_next(&rng) % 4) {
        case 0:
        case 1:
            timers_remove(&ts, t);
            timers_add(&ts, t, now + (int64_t)(prng_next(&rng) % 50));
            break;
        case 2:
            timers_remove(&ts, t);
            break;
        default:
            now++;
            struct timer *due;
            int64_t last = 0;
            uint64_t last_seq = 0;
            while ((due = timers_expire(&ts, now)) != NULL) {
                assert_false(due->active);
                assert_true(due->at_ns <= now && due->at_ns >= last);
                assert_true(due->at_ns > last || due->seq >= last_seq);
                last = due->at_ns;
                last_seq = due->seq;
            }
            for (int i = 0; i < TIMERS; i++) {
                assert_true(!all[i].active || all[i].at_ns > now);
            }
        }
    }
    for (int i = 0; i < TIMERS; i++) {
        timers_remove(&ts, &all[i]);
    }
    assert_null(timers_first(&ts));
}

struct counted {
    struct job job;
    struct dispatcher *d;
    int *order;
    int index;
    bool current;
};

static void run_counted(struct job *job)
{
    struct counted *c = CONTAINER_OF(job, struct counted, job);
    assert_int_equal(*c->order, c->index);
    (*c->order)++;
    c->current = dispatcher_is_current(c->d);
}

static void test_dispatcher_pumped(void **state)
{
    struct dispatcher d;
    assert_int_equal(dispatcher_init(&d), 0);
    int order = 0;
    struct counted jobs[10];
    for (int i = 0; i < 10; i++) {
        jobs[i] = (struct counted){.d = &d, .order = &order, .index = i};
        dispatcher_post(&d, &jobs[i].job, run_counted);
    }
    assert_true(dispatcher_pump(&d, 4));
    assert_int_equal(order, 4);
    assert_false(dispatcher_is_empty(&d));
    assert_false(dispatcher_is_current(&d));
    dispatcher_stop(&d, NULL, NULL);
    assert_int_equal(order, 10);
    assert_true(jobs[9].current);
    dispatcher_finish(&d);
}

static void test_dispatcher_threaded(void **state)
{
    struct dispatcher d;
    assert_int_equal(dispatcher_init(&d), 0);
    assert_int_equal(dispatcher_start(&d), 0);
    enum { JOBS = 10000 };
    struct counted *jobs = calloc(JOBS, sizeof *jobs);
    int order = 0;
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct counted){.d = &d, .order = &order, .index = i};
        dispatcher_post(&d, &jobs[i].job, run_counted);
    }
    assert_false(dispatcher_pump(&d, 1)); /* the thread does it */
    dispatcher_stop(&d, NULL, NULL);
    assert_int_equal(order, JOBS);
    assert_true(jobs[JOBS - 1].current);
    dispatcher_finish(&d);
    free(jobs);
}

static atomic_int ended;

static void note_end(void *ctx)
{
    dispatcher_finish(ctx);
    atomic_store(&ended, 1);
}

static void run_stop(struct job *job)
{
    struct counted *c = CONTAINER_OF(job, struct counted, job);
    dispatcher_stop(c->d, note_end, c->d);
    c->d = NULL;
}

static void test_dispatcher_stopped_by_its_job(void **state)
{
    static struct dispatcher d;
    assert_int_equal(dispatcher_init(&d), 0);
    assert_int_equal(dispatcher_start(&d), 0);
    struct counted stop = {.d = &d};
    dispatcher_post(&d, &stop.job, run_stop);
    while (!atomic_load(&ended)) {
        sched_yield();
    }
}

static void test_paths(void **state)
{
    const char *const good[] = {"/", "/a", "/a/b", "/.a", "/a..b", "/\xc3\xa4\xe2\x82\xac", "/a b"};
    const char *const bad[] = {
        "",
        "a",
        "//",
        "/a/",
        "/a//b",
        "/.",
        "/a/..",
        "/a/./b",
        "/a\x01",
        "/\x7f",
        "/\xc2\x80",
        "/\xed\xa0\x80",
        "/\xff",
        "/\xc3",
        "/\xc0\xaf",
        "/\xe0\x80\xaf",
        "/\xf0\x9f\x98\x80",
        "/\xef\xbf\xbf",
        "/\x80",
        "/a/../b",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(path_is_valid(good[i], false));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(path_is_valid(bad[i], false));
    }
    assert_false(path_is_valid(NULL, false));
    assert_true(path_is_valid("/a/", true));
    assert_false(path_is_valid("/a//", true));
}

static void test_chroot(void **state)
{
    struct slice ret;
    assert_true(path_strip(slice_str("/a"), slice_str("/a/b"), &ret));
    assert_true(slice_equal_str(ret, "/b"));
    assert_true(path_strip(slice_str("/a"), slice_str("/a"), &ret));
    assert_true(slice_equal_str(ret, "/"));
    assert_false(path_strip(slice_str("/a"), slice_str("/ab"), &ret));
    assert_false(path_strip(slice_str("/a"), slice_str("/"), &ret));
    assert_false(path_strip(slice_str(""), SLICE_NULL, &ret));
    assert_true(path_strip(slice_str(""), slice_str("/"), &ret));
    assert_int_equal(path_full_len(slice_str("/a"), "/"), 2);
    assert_int_equal(path_full_len(slice_str(""), "/"), 1);
    assert_int_equal(path_full_len(slice_str("/a"), "/b"), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_dispatcher_pumped),
        cmocka_unit_test(test_dispatcher_threaded),
        cmocka_unit_test(test_dispatcher_stopped_by_its_job),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_chroot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
