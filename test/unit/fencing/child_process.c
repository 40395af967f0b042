/* A program with a deadline: how it ended, what it wrote, and that nothing of it is left. */
#define _GNU_SOURCE /* usleep */
#include "fencing/child_process.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

static char output[256];

static int run_shell(const char *script, int64_t timeout_ms, int stop_fd, int *ret_code)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *const more[] = {"FIRST=one", "SECOND=", NULL};
    struct process_spec spec = {.argv = argv,
                                .more = more,
                                .output = output,
                                .output_size = sizeof output,
                                .timeout_ms = timeout_ms,
                                .stop_fd = stop_fd};
    return process_run(&spec, ret_code);
}

static bool gone(pid_t pid)
{
    for (int i = 0; i < 30000; i++) {
        if (kill(pid, 0) != 0 && errno == ESRCH) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

static void how_it_ended_is_told(void **state)
{
    int code = -1;
    assert_int_equal(run_shell("exit 0", 30000, -1, &code), 0);
    assert_int_equal(code, 0);
    assert_int_equal(run_shell("exit 7", -1, -1, &code), 0);
    assert_int_equal(code, 7);
    assert_int_equal(run_shell("kill -9 $$", 30000, -1, &code), 0);
    assert_int_equal(code, 137);
}

/* Inherited over exec by whoever was started by a careless parent: the kernel throws away how it ended. */
static void an_end_that_is_not_told_is_no_success(void **state)
{
    int code = 0;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    /* Before and after the program is waited for. */
    for (int i = 0; i < 50; i++) {
        int error = run_shell(i % 2 == 0 ? "exit 1" : "sleep 0.01", 30000, -1, &code);
        assert_int_equal(error, CONCLAVE_EIO);
        assert_int_equal(code, ECHILD);
    }
    signal(SIGCHLD, before);
}

static void it_reads_and_writes_what_it_is_given(void **state)
{
    const char *const argv[] = {"cat", NULL};
    char small[5];
    int code = -1;
    struct process_spec spec = {.argv = argv,
                                .input = slice_str("some input"),
                                .output = small,
                                .output_size = sizeof small,
                                .timeout_ms = 30000,
                                .stop_fd = -1};
    assert_int_equal(process_run(&spec, &code), 0);
    assert_string_equal(small, "some"); /* cut */
    setenv("FIRST", "hidden", 1);
    setenv("THIRD", "three", 1);
    assert_int_equal(run_shell("echo $FIRST-$SECOND-$THIRD; cat", 30000, -1, &code), 0);
    assert_string_equal(output, "one--three\n"); /* and no input: cat ends at once */
}

static void what_cannot_be_executed_is_an_error(void **state)
{
    const char *const argv[] = {"/nonexistent/program", NULL};
    struct process_spec spec = {.argv = argv, .timeout_ms = 30000, .stop_fd = -1};
    int code = 0;
    assert_int_equal(process_run(&spec, &code), CONCLAVE_EIO);
    assert_int_equal(code, ENOENT);
}

static void its_group_is_killed_at_the_timeout(void **state)
{
    int code;
    char file[] = "/tmp/conclave-process-XXXXXX";
    char script[256];
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    /* ignores what can be ignored, and so does what it starts */
    snprintf(script, sizeof script,
             "trap '' TERM HUP INT; sleep 100 & echo $! >%s; sleep 100; :", file);
    int64_t before = clock_monotonic_ms(clock_system());
    assert_int_equal(run_shell(script, 300, -1, &code), CONCLAVE_ETIMEDOUT);
    int64_t took = clock_monotonic_ms(clock_system()) - before;
    assert_in_range(took, 300, 3000);
    char text[16] = "";
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_true(gone((pid_t)strtol(text, NULL, 10)));
    close(fd);
    unlink(file);
}

static void what_it_leaves_behind_is_killed(void **state)
{
    int code;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1),
                     0); /* orphans are ours: none stays a zombie */
    assert_int_equal(run_shell("sleep 100 & echo $!", 30000, -1, &code), 0);
    assert_int_equal(code, 0);
    pid_t orphan = (pid_t)strtol(output, NULL, 10);
    assert_true(orphan > 1);
    assert_true(gone(orphan));
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void *stop_later(void *arg)
{
    uint64_t one = 1;
    usleep(100000);
    assert_int_equal(write(*(int *)arg, &one, sizeof one), sizeof one);
    return NULL;
}

static void the_wait_can_be_broken_off(void **state)
{
    pthread_t thread;
    int code;
    int fd = eventfd(0, EFD_CLOEXEC);
    int64_t before = clock_monotonic_ms(clock_system());
    assert_int_equal(pthread_create(&thread, NULL, stop_later, &fd), 0);
    assert_int_equal(run_shell("sleep 100", -1, fd, &code), CONCLAVE_ECANCELED);
    assert_true(clock_monotonic_ms(clock_system()) - before < 60000);
    pthread_join(thread, NULL);
    /* it was said before: nothing runs for long */
    assert_int_equal(run_shell("sleep 100", -1, fd, &code), CONCLAVE_ECANCELED);
    close(fd);
}

static bool three_times(void *ctx)
{
    return ++*(int *)ctx < 3;
}

static void the_wait_goes_on_while_it_is_wanted(void **state)
{
    const char *const argv[] = {"sleep", "100", NULL};
    int asked = 0;
    int code;
    struct process_spec spec = {
        .argv = argv, .timeout_ms = -1, .stop_fd = -1, .go_on = three_times, .go_on_ctx = &asked};
    assert_int_equal(process_run(&spec, &code), CONCLAVE_ECANCELED);
    assert_int_equal(asked, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_it_ended_is_told),
        cmocka_unit_test(an_end_that_is_not_told_is_no_success),
        cmocka_unit_test(it_reads_and_writes_what_it_is_given),
        cmocka_unit_test(what_cannot_be_executed_is_an_error),
        cmocka_unit_test(its_group_is_killed_at_the_timeout),
        cmocka_unit_test(what_it_leaves_behind_is_killed),
        cmocka_unit_test(the_wait_can_be_broken_off),
        cmocka_unit_test(the_wait_goes_on_while_it_is_wanted),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
