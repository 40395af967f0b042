/*
 * Passwords against the file of users: which file is refused, what is right the first and the next time, what a file that
 * is read again changes, and the end of checks that nobody waits for any more.
 */
#include "front/login/password_check.h"

#include <openssl/evp.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PENDING = 1, WAITING_MAX = 64, COST_LOG = 10, TEXT_MAX = 256 };

static uv_loop_t loop;
static struct password_checker *checker;
static char folder[] = "/tmp/conclave-users-XXXXXX";
static char path[64];
static bool closed;

static void on_closed(void *ctx)
{
    closed = true;
}

/* --- files ---------------------------------------------------------------------------------------- */

/* "NAME:HASH" with a hash that costs little. */
static const char *user_line(const char *name, const char *password)
{
    static char line[TEXT_MAX];
    static const unsigned char salt[16] = {1, 2, 3};
    unsigned char key[32];
    char salt64[32];
    char key64[64];
    assert_int_equal(EVP_PBE_scrypt(password, strlen(password), salt, sizeof salt,
                                    (uint64_t)1 << COST_LOG, 8, 1, 0, key, sizeof key),
                     1);
    assert_true(EVP_EncodeBlock((unsigned char *)salt64, salt, sizeof salt) > 0);
    assert_true(EVP_EncodeBlock((unsigned char *)key64, key, sizeof key) > 0);
    snprintf(line, sizeof line, "%s:$scrypt$ln=%d,r=8,p=1$%.*s$%.*s\n", name, COST_LOG,
             (int)strcspn(salt64, "="), salt64, (int)strcspn(key64, "="), key64);
    return line;
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void append_user(const char *name, const char *password)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(user_line(name, password), file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    closed = false;
    checker = NULL;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/users", folder);
    return uv_loop_init(&loop);
}

static int teardown(void **state)
{
    if (checker != NULL) {
        password_checker_close(checker, on_closed, NULL);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        assert_true(closed);
    }
    (void)unlink(path);
    (void)rmdir(folder);
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    return uv_loop_close(&loop);
}

static void expect_refused(const char *wanted)
{
    char *text = NULL;
    struct password_checker *none = NULL;
    assert_int_equal(password_checker_open(&loop, path, &none, &text), CONCLAVE_EINVAL);
    assert_null(none);
    assert_non_null(text);
    if (strstr(text, wanted) == NULL || strstr(text, path) == NULL) {
        fail_msg("'%s' does not say '%s'", text, wanted);
    }
    free(text);
}

static void test_files_that_are_refused(void **state)
{
    char text[2 * TEXT_MAX];
    expect_refused("No such file");
    write_file(user_line("anna", "secret"), 0640);
    expect_refused("chmod 600");
    write_file(user_line("anna", "secret"), 0604);
    expect_refused("chmod 600");
    snprintf(text, sizeof text, "%sotto:password in clear\n", user_line("anna", "secret"));
    write_file(text, 0600);
    expect_refused("line 2: ");
    char *big = malloc((1 << 20) + 2);
    assert_non_null(big);
    memset(big, '#', (1 << 20) + 1);
    big[(1 << 20) + 1] = '\0';
    write_file(big, 0600);
    free(big);
    expect_refused("larger than 1 MiB");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused("cannot be read");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0); /* without end */
    expect_refused("cannot be read");
    password_checker_close(NULL, on_closed, NULL);
    assert_false(closed);
}

/* --- passwords ------------------------------------------------------------------------------------ */

static void open_with(const char *name, const char *password)
{
    char *text = NULL;
    write_file("", 0600);
    append_user(name, password);
    assert_int_equal(password_checker_open(&loop, path, &checker, &text), 0);
    assert_null(text);
}

static void on_verified(void *ctx, int error)
{
    *(int *)ctx = error;
}

static enum password_answer ask(const char *text, int *ret_rc)
{
    struct password_check *check = NULL;
    *ret_rc = PENDING;
    return password_checker_begin(checker, slice_str(text), on_verified, ret_rc, &check);
}

/* What comes of it, which it takes the thread to know. */
static int check(const char *text)
{
    int rc;
    assert_int_equal(ask(text, &rc), VERIFYING);
    while (rc == PENDING) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    return rc;
}

static void expect_known(const char *text)
{
    int rc;
    assert_int_equal(ask(text, &rc), VERIFIED);
    assert_int_equal(rc, PENDING); /* nobody is called */
}

/* good: the file can be used. */
static void reload(bool good)
{
    char *text = NULL;
    assert_true((password_checker_reload(checker, &text) == 0) == good);
    assert_true((text == NULL) == good);
    free(text);
}

static void test_right_and_wrong(void **state)
{
    open_with("anna", "se:cret");
    append_user("mute", "");
    reload(true);
    static const char *const wrong[] = {"anna:secret", "anna:se:cre",  "anna:se:cret ", "anna:",
                                        "anna",        "otto:se:cret", ":se:cret",      "",
                                        ":",           "mute:x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(check(wrong[i]), CONCLAVE_AUTH_FAILED);
        assert_int_equal(check(wrong[i]), CONCLAVE_AUTH_FAILED); /* not remembered as right */
    }
    assert_int_equal(check("anna:se:cret"), 0);
    expect_known("anna:se:cret");
    assert_int_equal(check("anna:secret"), CONCLAVE_AUTH_FAILED);
    expect_known("anna:se:cret");
    assert_int_equal(check("mute:"), 0);
}

/* Who nobody has an entry for is not told apart by the time: the thread computes a hash as well. */
static void test_the_hash_of_nobody_admits_nobody(void **state)
{
    open_with("anna", "secret");
    assert_int_equal(check("nobody:"), CONCLAVE_AUTH_FAILED);
    assert_int_equal(check("nobody:nobody"), CONCLAVE_AUTH_FAILED);
}

/* --- the file is read again ----------------------------------------------------------------------- */

static void test_reloading(void **state)
{
    open_with("anna", "one");
    append_user("otto", "two");
    reload(true);
    assert_int_equal(check("anna:one"), 0);
    assert_int_equal(check("otto:two"), 0);
    reload(true);
    expect_known("anna:one"); /* the same hash: known as before */
    write_file("", 0600);
    append_user("anna", "new");
    reload(true);
    assert_int_equal(check("anna:one"), CONCLAVE_AUTH_FAILED);
    assert_int_equal(check("anna:new"), 0);
    assert_int_equal(check("otto:two"), CONCLAVE_AUTH_FAILED);
    write_file("rubbish\n", 0600);
    reload(false);
    expect_known("anna:new"); /* a file that cannot be used changes nothing */
    assert_int_equal(unlink(path), 0);
    reload(false);
    expect_known("anna:new");
}

/* The password was right when it was asked for, and is not any more. */
static void test_reloading_during_a_check(void **state)
{
    int changed;
    int gone;
    open_with("anna", "one");
    append_user("otto", "two");
    reload(true);
    assert_int_equal(ask("anna:one", &changed), VERIFYING);
    assert_int_equal(ask("otto:two", &gone), VERIFYING);
    write_file("", 0600);
    append_user("anna", "new");
    reload(true);
    while (changed == PENDING || gone == PENDING) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(changed, CONCLAVE_AUTH_FAILED);
    assert_int_equal(gone, CONCLAVE_AUTH_FAILED);
    assert_int_equal(check("anna:one"), CONCLAVE_AUTH_FAILED);
}

/* --- limits and ends ------------------------------------------------------------------------------ */

static void test_no_more_than_the_thread_can_do(void **state)
{
    int rcs[WAITING_MAX];
    int rc;
    open_with("anna", "secret");
    for (int i = 0; i < WAITING_MAX; i++) {
        assert_int_equal(ask("anna:wrong", &rcs[i]), VERIFYING);
    }
    assert_int_equal(ask("anna:secret", &rc), VERIFIER_BUSY);
    for (int i = 0; i < WAITING_MAX; i++) {
        while (rcs[i] == PENDING) {
            (void)uv_run(&loop, UV_RUN_ONCE);
        }
        assert_int_equal(rcs[i], CONCLAVE_AUTH_FAILED);
    }
    assert_int_equal(rc, PENDING);
    assert_int_equal(check("anna:secret"), 0);
}

/* The clients are gone: nobody is called, and the end waits for the thread. */
static void test_dropped(void **state)
{
    int rcs[3] = {PENDING, PENDING, PENDING};
    open_with("anna", "secret");
    password_check_drop(NULL);
    for (int i = 0; i < 3; i++) {
        struct password_check *x = NULL;
        assert_int_equal(
            password_checker_begin(checker, slice_str("anna:secret"), on_verified, &rcs[i], &x),
            VERIFYING);
        password_check_drop(x);
    }
    password_checker_close(checker, on_closed, NULL);
    checker = NULL;
    assert_false(closed);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(closed);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rcs[i], PENDING);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_files_that_are_refused),
        T(test_right_and_wrong),
        T(test_the_hash_of_nobody_admits_nobody),
        T(test_reloading),
        T(test_reloading_during_a_check),
        T(test_no_more_than_the_thread_can_do),
        T(test_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
