/* The lease page: the layout that foreign programs read, who may write, and readers beside a
 * writer. */
#include "cli/run/lease_page.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static void test_layout(void **state)
{
    struct lease_page page;
    uint32_t u32;
    uint64_t u64;
    int64_t i64;
    assert_int_equal(lease_page_init(&page), 0);
    const char *read_only = mmap(NULL, LEASE_PAGE_SIZE, PROT_READ, MAP_SHARED, page.fd, 0);
    assert_ptr_not_equal(read_only, MAP_FAILED);
    assert_int_equal(lease_page_until_ns(&page), 0);
    lease_page_write(&page, LEASE_LEADING, 0x1122334455667788, 42);
    memcpy(&u32, read_only, 4);
    assert_int_equal(u32, 0x31534c43);
    assert_memory_equal(read_only, "CLS1", 4);
    memcpy(&u32, read_only + 4, 4);
    assert_int_equal(u32, 1);
    memcpy(&u64, read_only + 8, 8);
    assert_int_equal(u64, 2);
    memcpy(&i64, read_only + 16, 8);
    assert_int_equal(i64, 0x1122334455667788);
    memcpy(&i64, read_only + 24, 8);
    assert_int_equal(i64, 42);
    assert_int_equal(lease_page_until_ns(&page), 0x1122334455667788);
    lease_page_write(&page, LEASE_REVOKED, 0, 42);
    assert_int_equal(lease_page_until_ns(&page), 0);
    munmap((void *)(uintptr_t)read_only, LEASE_PAGE_SIZE);
    lease_page_finish(&page);
}

static void test_child_cannot_write(void **state)
{
    struct lease_page page;
    assert_int_equal(lease_page_init(&page), 0);
    void *map = mmap(NULL, LEASE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd, 0);
    assert_ptr_equal(map, MAP_FAILED);
    assert_int_equal(errno, EPERM);
    lease_page_finish(&page);
}

/* Writes pairs of which the token is the negative of the end. */
static void *write_pairs(void *ctx)
{
    for (int64_t i = 1; i <= 20000; i++) {
        lease_page_write(ctx, LEASE_LEADING, i, -i);
    }
    return NULL;
}

static void test_values_belong_together(void **state)
{
    struct lease_page page;
    pthread_t writer;
    int64_t until = 0;
    assert_int_equal(lease_page_init(&page), 0);
    struct lease_values *v = page.values;
    lease_page_write(&page, LEASE_LEADING, 1, -1);
    assert_int_equal(pthread_create(&writer, NULL, write_pairs, &page), 0);
    while (until < 20000) {
        unsigned long long before = atomic_load(&v->sequence);
        until = atomic_load(&v->until_ns);
        int64_t token = atomic_load(&v->token);
        if (before % 2 == 0 && atomic_load(&v->sequence) == before) {
            assert_int_equal(token, -until);
        }
    }
    pthread_join(writer, NULL);
    lease_page_finish(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_child_cannot_write),
        cmocka_unit_test(test_values_belong_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
