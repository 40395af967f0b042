/* The table of entries beside a naive one: pushes, truncations, trims and evictions in any order. */
#include "replication/disk/entry_table.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 20000 };

struct naive {
    uint64_t first, next;
    uint32_t length[MAX];
    bool held[MAX];
};

static void compare(const struct entry_table *t, const struct naive *n)
{
    size_t bytes = 0;
    assert_int_equal(t->first, n->first);
    assert_int_equal(t->next, n->next);
    assert_null(entry_table_at(t, n->first - 1));
    assert_null(entry_table_at(t, n->next));
    for (uint64_t i = n->first; i < n->next; i++) {
        const struct entry_table_entry *entry = entry_table_at(t, i);
        assert_int_equal(entry->term, i * 3);
        assert_int_equal(entry->length, n->length[i]);
        assert_int_equal(entry_table_has_bytes(entry), n->held[i] || n->length[i] == 0);
        if (entry->data != NULL) {
            assert_int_equal(entry->data[0], (uint8_t)i);
            assert_int_equal(entry_table_payload(entry).len, n->length[i]);
            assert_true(i >= t->held);
            bytes += entry->length;
        }
    }
    assert_int_equal(t->bytes, bytes);
}

static void push(struct entry_table *t, struct naive *n, struct prng *p)
{
    uint64_t index = n->next++;
    uint32_t length = (uint32_t)(prng_next(p) % 30);
    const struct entry_table_entry entry = {
        .term = index * 3,
        .segment = prng_next(p) % 8 != 0,
        .length = length,
        .kind = 1,
    };
    assert_int_equal(entry_table_push(t, &entry), 0);
    n->length[index] = length;
    n->held[index] = prng_next(p) % 4 != 0;
    if (n->held[index]) {
        uint8_t *data = malloc(length + 1);
        memset(data, (int)(index & 255), length + 1);
        entry_table_hold(t, index, data);
    }
}

static void evict(struct entry_table *t, struct naive *n, uint64_t index, size_t max)
{
    size_t bytes = t->bytes;
    entry_table_evict(t, index, max);
    for (uint64_t i = n->first; i < n->next && bytes > max && i <= index; i++) {
        if (entry_table_at(t, i)->segment == 0 && i >= t->held) {
            break;
        }
        bytes -= n->held[i] ? n->length[i] : 0;
        n->held[i] = false;
    }
}

static void test_any_order(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct prng p = {seed};
        struct entry_table t;
        struct naive *n = calloc(1, sizeof *n);
        uint64_t start = 1 + prng_next(&p) % 700;
        entry_table_init(&t, start);
        n->first = n->next = start;
        for (int round = 0; round < 60; round++) {
            uint64_t count = n->next - n->first;
            uint64_t at = n->first + (count > 0 ? prng_next(&p) % (count + 1) : 0);
            switch (prng_next(&p) % 6) {
            case 0:
                entry_table_truncate(&t, at);
                n->next = at;
                break;
            case 1:
                entry_table_trim(&t, at);
                n->first = at + 1 < n->next ? at + 1 : n->next;
                break;
            case 2:
                evict(&t, n, at, (size_t)(prng_next(&p) % 5000));
                break;
            default:
                for (uint64_t i = prng_next(&p) % 600; i > 0 && n->next < MAX; i--) {
                    push(&t, n, &p);
                }
                break;
            }
            compare(&t, n);
        }
        entry_table_reset(&t, 77);
        n->first = n->next = 77;
        compare(&t, n);
        push(&t, n, &p);
        compare(&t, n);
        entry_table_finish(&t);
        free(n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
