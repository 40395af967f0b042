/* Lists: order, removal while walking, removal of what is in no list. */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int value;
    struct list link;
};

static int walk(struct list *head, int *ret, int cap)
{
    int n = 0;
    LIST_FOREACH (it, head) {
        assert_true(n < cap);
        ret[n++] = CONTAINER_OF(it, struct item, link)->value;
    }
    return n;
}

static void test_order(void **state)
{
    struct list head;
    struct item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    list_init(&head);
    assert_true(list_empty(&head));
    assert_null(list_pop_front(&head));
    list_push_back(&head, &items[1].link);
    list_push_back(&head, &items[2].link);
    list_push_front(&head, &items[0].link);
    list_push_back(&head, &items[3].link);
    int seen[4];
    assert_int_equal(walk(&head, seen, 4), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(seen[i], i);
    }
    assert_ptr_equal(list_pop_front(&head), &items[0].link);
    assert_true(list_empty(&items[0].link));
    list_remove(&items[0].link);
    list_remove(&items[2].link);
    list_remove(&items[2].link);
    assert_int_equal(walk(&head, seen, 4), 2);
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 3);
}

static void test_removal_while_walking(void **state)
{
    struct list head;
    struct item items[10];
    list_init(&head);
    for (int i = 0; i < 10; i++) {
        items[i].value = i;
        list_push_back(&head, &items[i].link);
    }
    int visited = 0;
    LIST_FOREACH (it, &head) {
        visited++;
        if (CONTAINER_OF(it, struct item, link)->value % 2 == 0) {
            list_remove(it);
        }
    }
    assert_int_equal(visited, 10);
    int seen[10];
    assert_int_equal(walk(&head, seen, 10), 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(seen[i], 2 * i + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_removal_while_walking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
