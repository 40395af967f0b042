/* Structs of programs that were built with older or newer headers. */
#include "client/core/sized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct today {
    size_t size;
    int64_t first;
    int64_t second;
};

struct tomorrow {
    struct today known;
    int64_t third;
};

#define TODAY_INIT                                                                                 \
    {                                                                                              \
        .size = sizeof(struct today), .first = 1, .second = 2                                      \
    }

static void older_struct_leaves_defaults(void **state)
{
    struct today own = TODAY_INIT;
    struct today given = {offsetof(struct today, second), 10, 20};
    assert_int_equal(sized_read(&own, &given), 0);
    assert_int_equal(own.size, sizeof own);
    assert_int_equal(own.first, 10);
    assert_int_equal(own.second, 2); /* lies behind the older struct: never read */
}

static void newer_struct_may_not_set_unknown_members(void **state)
{
    struct today own = TODAY_INIT;
    struct tomorrow given = {.known = {sizeof given, 10, 20}};
    assert_int_equal(sized_read(&own, &given), 0);
    assert_int_equal(own.size, sizeof own);
    assert_int_equal(own.first, 10);
    assert_int_equal(own.second, 20);
    given.third = 1;
    given.known.first = 11;
    assert_int_equal(sized_read(&own, &given), CONCLAVE_EINVAL);
    assert_int_equal(own.first, 10);
}

static void impossible_sizes_are_refused(void **state)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t), SIZED_MAX + 1, SIZE_MAX};
    struct today own = TODAY_INIT;
    struct today given = TODAY_INIT;
    assert_int_equal(sized_read(&own, NULL), CONCLAVE_EINVAL);
    assert_true(sized_can_write(NULL) && sized_can_write(&given));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        given.size = sizes[i];
        assert_int_equal(sized_read(&own, &given), CONCLAVE_EINVAL);
        assert_false(sized_can_write(&given));
        given.first = 7;
        sized_write(&given, &own);
        assert_int_equal(given.first, 7);
    }
}

static void callbacks_may_be_missing_and_options_not(void **state)
{
    struct today options = TODAY_INIT;
    struct today callbacks = TODAY_INIT;
    struct today given = {sizeof given, 10, 20};
    assert_int_equal(sized_read_both(&options, &given, &callbacks, NULL), 0);
    assert_int_equal(callbacks.first, 1);
    assert_int_equal(sized_read_both(&options, &given, &callbacks, &given), 0);
    assert_int_equal(callbacks.first, 10);
    assert_int_equal(sized_read_both(&options, NULL, &callbacks, NULL), CONCLAVE_EINVAL);
    given.size = 0;
    assert_int_equal(sized_read_both(&options, &callbacks, &callbacks, &given), CONCLAVE_EINVAL);
}

static void array_has_the_stride_of_its_first_element(void **state)
{
    struct tomorrow newer[] = {{.known = {sizeof newer[0], 1, 2}},
                               {.known = {sizeof newer[0], 3, 4}}};
    uint8_t older[2][offsetof(struct today, second)];
    struct today own = TODAY_INIT;
    assert_int_equal(sized_read_item(&own, newer, 1), 0);
    assert_int_equal(own.second, 4);
    for (int64_t i = 0; i < 2; i++) {
        struct today given = {sizeof older[0], 10 + i, 99};
        memcpy(older[i], &given, sizeof older[i]);
    }
    own = (struct today)TODAY_INIT;
    assert_int_equal(sized_read_item(&own, older, 1), 0);
    assert_int_equal(own.first, 11);
    assert_int_equal(own.second, 2);
    newer[1].known.size = sizeof(struct today);
    assert_int_equal(sized_read_item(&own, newer, 1), CONCLAVE_EINVAL);
}

static void result_fills_what_the_caller_has(void **state)
{
    const struct today own = {sizeof own, 10, 20};
    struct today older = {offsetof(struct today, second), 1, 2};
    struct tomorrow newer = {.known = {sizeof newer, 1, 2}, .third = 3};
    sized_write(&older, &own);
    assert_int_equal(older.first, 10);
    assert_int_equal(older.second, 2);
    sized_write(&newer, &own);
    assert_int_equal(newer.known.size, sizeof newer);
    assert_int_equal(newer.known.second, 20);
    assert_int_equal(newer.third, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_struct_leaves_defaults),
        cmocka_unit_test(newer_struct_may_not_set_unknown_members),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(callbacks_may_be_missing_and_options_not),
        cmocka_unit_test(array_has_the_stride_of_its_first_element),
        cmocka_unit_test(result_fills_what_the_caller_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
