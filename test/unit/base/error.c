/* The list of errors: no code twice, every one with name and text, ZooKeeper's numbers where it has one. */
#include <conclave/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct row {
    int code;
    bool retry;
    const char *name;
    const char *text;
};

static const struct row rows[] = {
#define ROW(name, code, retry, text) {code, retry, #name, text},
    CONCLAVE_ERROR_MAP(ROW)
#undef ROW
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void test_each_row_is_found(void **state)
{
    for (size_t i = 0; i < ROWS; i++) {
        assert_string_equal(conclave_errname(rows[i].code), rows[i].name);
        assert_string_equal(conclave_strerror(rows[i].code), rows[i].text);
        assert_int_equal(conclave_error_retryable(rows[i].code), rows[i].retry);
        size_t len = strlen(rows[i].text);
        assert_true(len > 0 && rows[i].text[len - 1] != '.');
        assert_null(strchr(rows[i].text, '\n'));
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(rows[i].code, rows[j].code);
            assert_string_not_equal(rows[i].text, rows[j].text);
        }
    }
}

static void test_unknown_codes(void **state)
{
    static const int codes[] = {1, -9, -999, -5000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_string_equal(conclave_errname(codes[i]), "UNKNOWN");
        assert_string_equal(conclave_strerror(codes[i]), "unknown error");
        assert_false(conclave_error_retryable(codes[i]));
    }
}

/* KeeperException.Code of Apache ZooKeeper 3.9. */
static void test_numbers_of_zookeeper(void **state)
{
    assert_int_equal(CONCLAVE_OK, 0);
    assert_int_equal(CONCLAVE_MARSHALLING_ERROR, -5);
    assert_int_equal(CONCLAVE_UNIMPLEMENTED, -6);
    assert_int_equal(CONCLAVE_BAD_ARGUMENTS, -8);
    assert_int_equal(CONCLAVE_NO_NODE, -101);
    assert_int_equal(CONCLAVE_NO_AUTH, -102);
    assert_int_equal(CONCLAVE_BAD_VERSION, -103);
    assert_int_equal(CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS, -108);
    assert_int_equal(CONCLAVE_NODE_EXISTS, -110);
    assert_int_equal(CONCLAVE_NOT_EMPTY, -111);
    assert_int_equal(CONCLAVE_SESSION_EXPIRED, -112);
    assert_int_equal(CONCLAVE_INVALID_ACL, -114);
    assert_int_equal(CONCLAVE_AUTH_FAILED, -115);
    assert_int_equal(CONCLAVE_SESSION_MOVED, -118);
    assert_int_equal(CONCLAVE_NO_WATCHER, -121);
    assert_int_equal(CONCLAVE_QUOTA_EXCEEDED, -125);
    assert_int_equal(CONCLAVE_THROTTLED, -127);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_is_found),
        cmocka_unit_test(test_unknown_codes),
        cmocka_unit_test(test_numbers_of_zookeeper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
