/* A leading manager acts only for a while after a report that the ensemble has confirmed. */
#include "redis/manager/leader_watch.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int64_t time_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

static void note_closed(void *ctx)
{
    int *closed = ctx;
    (*closed)++;
}

static void run(void (*body)(struct leader_watch *watch))
{
    struct leader_watch *watch;
    uv_loop_t loop;
    int closed = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct leader_watch_settings settings = {.loop = &loop};
    assert_int_equal(leader_watch_create(&settings, &watch), 0);
    body(watch);
    leader_watch_close(watch, note_closed, &closed);
    assert_int_equal(closed, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(closed, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void confirm_some(struct leader_watch *watch)
{
    assert_false(leader_watch_may_act(watch)); /* nothing was reported yet */
    leader_watch_confirms(watch, 7);
    assert_false(leader_watch_may_act(watch)); /* of an earlier process */
    leader_watch_reports(watch, 8);
    assert_false(leader_watch_may_act(watch));
    leader_watch_confirms(watch, 7);
    assert_false(leader_watch_may_act(watch));
    leader_watch_confirms(watch, 8);
    assert_true(leader_watch_may_act(watch));
}

static void E110_a_leader_acts_after_a_confirmed_report(void **state)
{
    run(confirm_some);
}

static void let_expire(struct leader_watch *watch)
{
    int64_t before = time_ms();
    leader_watch_reports(watch, 1);
    int64_t after = time_ms();
    while (time_ms() < after + REDIS_LEAD_MS / 2) {
        leader_watch_reports(watch, 2); /* later ones do not make the first one younger */
    }
    leader_watch_confirms(watch, 2);
    int64_t asked = time_ms();
    while (leader_watch_may_act(watch)) {
        assert_true(asked - after < REDIS_LEAD_MS);
        asked = time_ms();
    }
    assert_in_range(time_ms() - before, REDIS_LEAD_MS, INT32_MAX);
    leader_watch_reports(watch, 3);
    assert_false(leader_watch_may_act(watch));
    leader_watch_confirms(watch, 4); /* a later one shows the same */
    assert_true(leader_watch_may_act(watch));
}

static void E110_a_leader_waits_once_its_reports_are_old(void **state)
{
    run(let_expire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E110_a_leader_acts_after_a_confirmed_report),
        cmocka_unit_test(E110_a_leader_waits_once_its_reports_are_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
