/* The health of a service by its checks' results: counts in a row, and flapping; and the thread. */
#define _GNU_SOURCE /* usleep */
#include "cli/switch/health_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <unistd.h>

static const struct health_rules rules = {.failures = 3, .successes = 2};

/* Results as letters: + success, u says no, t no end in time, m cannot be run. */
static enum conclave_health after(const char *results)
{
    struct health_track track = {CONCLAVE_HEALTH_INITIALIZING, 0};
    for (; *results != '\0'; results++) {
        health_take(&track, &rules,
                    *results == '+'   ? CONCLAVE_HEALTH_HEALTHY
                    : *results == 'u' ? CONCLAVE_HEALTH_UNHEALTHY
                    : *results == 't' ? CONCLAVE_HEALTH_NOT_RESPONDING
                                      : CONCLAVE_HEALTH_MONITOR_FAILED);
    }
    return track.state;
}

static void the_first_success_suffices_and_failures_are_counted(void **state)
{
    assert_int_equal(after(""), CONCLAVE_HEALTH_INITIALIZING);
    assert_int_equal(after("+"), CONCLAVE_HEALTH_HEALTHY);
    assert_int_equal(after("u+"), CONCLAVE_HEALTH_HEALTHY);
    assert_int_equal(after("uu"), CONCLAVE_HEALTH_INITIALIZING);
    assert_int_equal(after("uuu"), CONCLAVE_HEALTH_UNHEALTHY);
    assert_int_equal(after("+uu"), CONCLAVE_HEALTH_HEALTHY);
    assert_int_equal(after("+uuu"), CONCLAVE_HEALTH_UNHEALTHY);
    assert_int_equal(after("+ttt"), CONCLAVE_HEALTH_NOT_RESPONDING);
    assert_int_equal(after("+mmm"), CONCLAVE_HEALTH_MONITOR_FAILED);
}

static void flapping_changes_nothing(void **state)
{
    assert_int_equal(after("+uu+uu+uu+uu+"), CONCLAVE_HEALTH_HEALTHY);
    assert_int_equal(after("+uuu+u+u+u+u"), CONCLAVE_HEALTH_UNHEALTHY);
    assert_int_equal(after("+uuu+u++"), CONCLAVE_HEALTH_HEALTHY);
}

static void the_last_kind_of_failure_counts(void **state)
{
    assert_int_equal(after("+utm"), CONCLAVE_HEALTH_MONITOR_FAILED);
    assert_int_equal(after("+uuut"), CONCLAVE_HEALTH_NOT_RESPONDING);
    assert_int_equal(after("+uuu+t+"), CONCLAVE_HEALTH_NOT_RESPONDING);
}

static void what_the_end_of_a_check_means(void **state)
{
    assert_int_equal(health_of_end(0, 0), CONCLAVE_HEALTH_HEALTHY);
    assert_int_equal(health_of_end(0, 1), CONCLAVE_HEALTH_UNHEALTHY);
    assert_int_equal(health_of_end(0, 137), CONCLAVE_HEALTH_UNHEALTHY);
    assert_int_equal(health_of_end(0, 127), CONCLAVE_HEALTH_MONITOR_FAILED);
    assert_int_equal(health_of_end(0, 126), CONCLAVE_HEALTH_MONITOR_FAILED);
    assert_int_equal(health_of_end(CONCLAVE_ETIMEDOUT, 0), CONCLAVE_HEALTH_NOT_RESPONDING);
    assert_int_equal(health_of_end(CONCLAVE_EIO, 12), CONCLAVE_HEALTH_MONITOR_FAILED);
}

static atomic_int latest;

static void on_change(enum conclave_health health, void *ctx)
{
    atomic_store(&latest, (int)health);
}

static bool becomes(enum conclave_health health)
{
    for (int i = 0; i < 30000; i++) {
        if (atomic_load(&latest) == (int)health) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

static void the_monitor_runs_and_can_be_stopped(void **state)
{
    char file[] = "/tmp/conclave-health-XXXXXX";
    char command[128];
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    /* while the file is there it is well; what it says hangs is killed */
    snprintf(command, sizeof command,
             "test -e %s && exit 0; test -n \"$HANGS\" && sleep 100; exit 1", file);
    struct health_rules fast = {command, 10, 300, 2, 1};
    const char *const more[] = {"HANGS=", NULL};
    const char *const hangs[] = {"HANGS=1", NULL};
    struct health_monitor m = {.rules = &fast, .more = more, .changed = on_change};
    assert_int_equal(health_start(&m), 0);
    assert_true(becomes(CONCLAVE_HEALTH_HEALTHY));
    unlink(file);
    assert_true(becomes(CONCLAVE_HEALTH_UNHEALTHY));
    health_stop(&m);
    m.more = hangs;
    assert_int_equal(health_start(&m), 0);
    assert_true(becomes(CONCLAVE_HEALTH_NOT_RESPONDING));
    health_stop(&m); /* in the middle of a check */
    health_stop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_success_suffices_and_failures_are_counted),
        cmocka_unit_test(flapping_changes_nothing),
        cmocka_unit_test(the_last_kind_of_failure_counts),
        cmocka_unit_test(what_the_end_of_a_check_means),
        cmocka_unit_test(the_monitor_runs_and_can_be_stopped),
    };
    return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
