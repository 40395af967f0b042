/*
 * Which servers apply, and how a list of them is taken apart.
 */
#include "client/server_list.h"

#include <conclave/servers.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void default_of_the_list(void **state)
{
    assert_int_equal(unsetenv("CONCLAVE_SERVER"), 0);
    assert_string_equal(server_list_text(NULL), "127.0.0.1:2181");
    assert_int_equal(setenv("CONCLAVE_SERVER", "", 1), 0);
    assert_string_equal(server_list_text(NULL), "127.0.0.1:2181");
    assert_int_equal(setenv("CONCLAVE_SERVER", "zk1:1,zk2:2/a", 1), 0);
    assert_string_equal(server_list_text(NULL), "zk1:1,zk2:2/a");
    assert_string_equal(server_list_text("other"), "other");
    assert_string_equal(server_list_text(""), "");
}

static void list_is_taken_apart_in_its_order(void **state)
{
    static const char TEXT[] = "zk2, zk1:2,[fd00::1],[::1]:9/a/b";
    static const char *const ADDRESSES[] = {"zk2:2181", "zk1:2", "[fd00::1]:2181", "[::1]:9"};
    struct conclave_server_list *list = NULL;
    assert_int_equal(conclave_server_list_parse(TEXT, &list), 0);
    assert_string_equal(list->text, TEXT);
    assert_string_equal(list->chroot, "/a/b");
    assert_int_equal(list->count, 4);
    for (size_t i = 0; i < list->count; i++) {
        assert_string_equal(list->addresses[i], ADDRESSES[i]);
    }
    conclave_server_list_free(list);
    assert_int_equal(setenv("CONCLAVE_SERVER", "zk3:5/", 1), 0);
    assert_int_equal(conclave_server_list_parse(NULL, &list), 0);
    assert_string_equal(list->chroot, "");
    assert_int_equal(list->count, 1);
    assert_string_equal(list->addresses[0], "zk3:5");
    conclave_server_list_free(list);
}

static void malformed_list_is_refused(void **state)
{
    static const char *const BAD[] = {"",        "/a",   "a,,b", "a:0",
                                      "a:70000", "a/b/", "a b",  "[1.2.3.4]"};
    struct conclave_server_list *list = NULL;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_int_equal(conclave_server_list_parse(BAD[i], &list), CONCLAVE_EINVAL);
        assert_null(list);
    }
    conclave_server_list_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_of_the_list),
        cmocka_unit_test(list_is_taken_apart_in_its_order),
        cmocka_unit_test(malformed_list_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
