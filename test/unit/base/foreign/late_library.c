/* A library that is loaded at the first call: another name of its file, a file or a function that does not exist. */
#include "base/foreign/late_library.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

int no_such_function(void);

#define MATH(F) F(cbrt) F(hypot)
LATE_LIBRARY(math, MATH, "libno-such-file.so.1", "libm.so.6")
LATE_LIBRARY(missing, MATH, "libno-such-file.so.1")
#define OTHER(F) F(cbrt) F(no_such_function)
LATE_LIBRARY(other, OTHER, "libm.so.6")

static void test_the_first_file_that_exists_is_loaded(void **state)
{
    const struct math_functions *math = math_load();
    assert_non_null(math);
    assert_true(math->cbrt(27.0) > 2.99 && math->cbrt(27.0) < 3.01);
    assert_true(math->hypot(3.0, 4.0) > 4.99 && math->hypot(3.0, 4.0) < 5.01);
    assert_ptr_equal(math_load(), math);
}

static void test_what_is_missing_is_told(void **state)
{
    assert_null(missing_load());
    assert_null(missing_load());
    assert_null(other_load());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_file_that_exists_is_loaded),
        cmocka_unit_test(test_what_is_missing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
