/* The file of users: what is read, what is refused and where, who may log in. */
#include "redis/sentinel/sentinel_users.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int users_of(const char *text, struct sentinel_users **users, char why[SENTINEL_WHY_MAX])
{
    char path[] = "/tmp/conclave-users-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    int rc = sentinel_users_open(path, users, why);
    unlink(path);
    return rc;
}

static bool permits(const struct sentinel_users *users, const char *name, const char *password)
{
    return sentinel_users_permit(users, slice_str(name), slice_str(password));
}

static void test_lines(void **state)
{
    struct sentinel_users *users;
    char why[SENTINEL_WHY_MAX];
    assert_int_equal(users_of("# no user\r\n\nops   se cret \r\ndefault x\nops new", &users, why),
                     0);
    assert_true(permits(users, "ops", "se cret "));
    assert_true(permits(users, "ops", "new")); /* two lines: both count */
    assert_true(permits(users, "default", "x"));
    assert_false(permits(users, "ops", "x"));
    assert_false(permits(users, "ops", "se cret"));
    assert_false(permits(users, "ops", ""));
    assert_false(permits(users, "", ""));
    assert_false(permits(users, "#", "no user"));
    sentinel_users_close(users);
    sentinel_users_close(NULL);
}

/* No more is compared than a password can have. */
static void test_the_longest(void **state)
{
    struct sentinel_users *users;
    char why[SENTINEL_WHY_MAX];
    char line[SENTINEL_USER_MAX + SENTINEL_PASSWORD_MAX + 10];
    memset(line, 'a', sizeof line);
    line[SENTINEL_USER_MAX] = ' ';
    line[SENTINEL_USER_MAX + 1 + SENTINEL_PASSWORD_MAX] = '\0';
    assert_int_equal(users_of(line, &users, why), 0);
    struct slice name = slice_make(line, SENTINEL_USER_MAX);
    const char *password = line + SENTINEL_USER_MAX + 1;
    assert_true(sentinel_users_permit(users, name, slice_make(password, SENTINEL_PASSWORD_MAX)));
    assert_false(
        sentinel_users_permit(users, name, slice_make(password, SENTINEL_PASSWORD_MAX + 1)));
    sentinel_users_close(users);
}

static void expect_bad(const char *text, const char *said)
{
    struct sentinel_users *users = NULL;
    char why[SENTINEL_WHY_MAX];
    assert_int_equal(users_of(text, &users, why), CONCLAVE_EINVAL);
    assert_non_null(strstr(why, said));
    assert_null(strstr(why, "secret"));
    assert_null(users);
}

static void test_what_is_refused(void **state)
{
    struct sentinel_users *users = NULL;
    char why[SENTINEL_WHY_MAX];
    char many[2000] = "";
    char line[3000];
    expect_bad("", "no user");
    expect_bad("# only\n", "no user");
    expect_bad("a secret\nsecret\n", "line 2 is not");
    expect_bad("a secret\nsecret  \n", "line 2 is not");
    expect_bad(" a secret\n", "line 1 is not");
    for (int i = 0; i <= SENTINEL_USERS_MAX; i++) {
        snprintf(many + strlen(many), sizeof many - strlen(many), "user%d secret\n", i);
    }
    expect_bad(many, "line 65 is one user too many");
    memset(line, 'a', sizeof line);
    memcpy(line, "u secret", 8);
    line[sizeof line - 1] = '\0';
    expect_bad(line, "line 1 is too long");
    line[2 + SENTINEL_PASSWORD_MAX + 1] = '\0';
    expect_bad(line, "line 1 is too long");
    line[1] = 'a';
    line[SENTINEL_USER_MAX + 1] = ' ';
    expect_bad(line, "line 1 is too long");
    assert_int_equal(sentinel_users_open("/nonexistent/file", &users, why), CONCLAVE_EIO);
    assert_non_null(strstr(why, "/nonexistent/file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_the_longest),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
