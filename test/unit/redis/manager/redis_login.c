/* How servers are logged in to: where the password comes from, and what is refused. */
#include "redis/manager/redis_login.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void write_file(char path[64], const char *text)
{
    strcpy(path, "/tmp/conclave-access-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void test_first_line_of_the_file(void **state)
{
    char path[64];
    char why[TLS_TEXT_MAX];
    struct redis_access access;
    write_file(path, "se cret\r\nnot this\n");
    struct redis_access_settings settings = {
        .user = "ops", .password_file = path, .password = "from the environment"};
    assert_int_equal(redis_access_open(&settings, &access, why), 0);
    assert_string_equal(access.password, "se cret");
    assert_string_equal(access.user, "ops");
    assert_null(access.tls);
    redis_access_close(&access);
    assert_null(access.password);
    unlink(path);
}

static void test_without_any(void **state)
{
    char why[TLS_TEXT_MAX];
    struct redis_access access;
    struct redis_access_settings settings = {.password = ""};
    assert_int_equal(redis_access_open(&settings, &access, why), 0);
    assert_null(access.password);
    assert_null(access.user);
    redis_access_close(&access);
    settings.password = "x";
    assert_int_equal(redis_access_open(&settings, &access, why), 0);
    assert_string_equal(access.password, "x");
    redis_access_close(&access);
}

static void test_what_is_refused(void **state)
{
    char path[64];
    char why[TLS_TEXT_MAX];
    struct redis_access access;
    struct redis_access_settings user_alone = {.user = "ops"};
    struct redis_access_settings no_file = {.password_file = "/nonexistent/file"};
    struct redis_access_settings no_ca = {.ca_file = "/nonexistent/ca.pem", .password = "se cret"};
    assert_int_equal(redis_access_open(&user_alone, &access, why), CONCLAVE_EINVAL);
    assert_int_equal(redis_access_open(&no_file, &access, why), CONCLAVE_EIO);
    assert_non_null(strstr(why, "/nonexistent/file"));
    assert_int_equal(redis_access_open(&no_ca, &access, why), CONCLAVE_EINVAL);
    assert_non_null(strstr(why, "/nonexistent/ca.pem"));
    assert_null(strstr(why, "se cret"));
    write_file(path, "");
    struct redis_access_settings empty = {.password_file = path};
    assert_int_equal(redis_access_open(&empty, &access, why), CONCLAVE_EIO);
    assert_non_null(strstr(why, "empty"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_line_of_the_file),
        cmocka_unit_test(test_without_any),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
