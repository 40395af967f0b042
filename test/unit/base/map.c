/* The map against an array: find, walk and take apart at every moment of its growth. */
#include "base/map.h"

#include "base/list.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct item {
    struct map_node node;
    uint32_t key;
    bool present;
    unsigned seen; /* number of the walk that met it last */
};

static bool item_equal(const struct map_node *node, const void *key)
{
    return CONTAINER_OF(node, struct item, node)->key == *(const uint32_t *)key;
}

/* Few different hashes when collide is set, so that chains and equal hashes are met. */
static uint64_t item_hash(uint32_t key, bool collide)
{
    return collide ? key % 7 : hash_u64(key);
}

static struct item *item_find(const struct map *m, uint32_t key, bool collide)
{
    struct map_node *node = map_find(m, item_hash(key, collide), item_equal, &key);
    return node != NULL ? CONTAINER_OF(node, struct item, node) : NULL;
}

static void check_walk(const struct map *m, unsigned walk)
{
    size_t n = 0;
    for (struct map_node *node = map_next(m, NULL); node != NULL; node = map_next(m, node)) {
        struct item *item = CONTAINER_OF(node, struct item, node);
        assert_true(item->present);
        assert_int_not_equal(item->seen, walk); /* nobody twice */
        item->seen = walk;
        n++;
    }
    assert_int_equal(n, map_count(m));
}

static void run_model(uint64_t seed, bool collide, uint32_t keys, int steps)
{
    struct prng rnd = {seed};
    struct item *items = calloc(keys, sizeof *items);
    assert_non_null(items);
    struct map m;
    map_init(&m);
    size_t count = 0;
    unsigned walk = 0;
    for (int i = 0; i < steps; i++) {
        uint32_t key = (uint32_t)(prng_next(&rnd) % keys);
        struct item *item = &items[key];
        assert_ptr_equal(item_find(&m, key, collide), item->present ? item : NULL);
        /* Phases of mostly growing and mostly shrinking. */
        bool add = prng_next(&rnd) % 10 < (i / (steps / 4) % 2 == 0 ? 8u : 3u);
        if (add && !item->present) {
            item->key = key;
            item->present = true;
            assert_int_equal(map_insert(&m, &item->node, item_hash(key, collide)), 0);
            count++;
        } else if (!add && item->present) {
            map_remove(&m, &item->node);
            item->present = false;
            count--;
        }
        assert_int_equal(map_count(&m), count);
        if (i % 64 == 0) {
            check_walk(&m, ++walk);
        }
    }
    for (uint32_t key = 0; key < keys; key++) {
        assert_ptr_equal(item_find(&m, key, collide), items[key].present ? &items[key] : NULL);
    }
    map_finish(&m);
    free(items);
}

static void test_model(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run_model(seed, false, 2000, 8000);
    }
    run_model(100, false, 50000, 100000);
    run_model(101, true, 200, 8000);
}

/* Takes maps apart at every size, so also in the middle of a growth. */
static void test_take_all(void **state)
{
    enum { MAX = 600 };
    static struct item items[MAX];
    for (uint32_t size = 0; size <= MAX; size++) {
        struct map m;
        map_init(&m);
        for (uint32_t key = 0; key < size; key++) {
            items[key] = (struct item){.key = key, .present = true};
            assert_int_equal(map_insert(&m, &items[key].node, hash_u64(key)), 0);
        }
        check_walk(&m, 1);
        size_t n = 0;
        struct map_node *next;
        for (struct map_node *node = map_take_all(&m); node != NULL; node = next) {
            next = node->next;
            struct item *item = CONTAINER_OF(node, struct item, node);
            assert_true(item->present);
            item->present = false;
            n++;
        }
        assert_int_equal(n, size);
        assert_int_equal(map_count(&m), 0);
        assert_int_equal(map_memory(&m), 0);
        assert_null(map_next(&m, NULL));
        /* Usable again. */
        assert_int_equal(map_insert(&m, &items[0].node, 1), 0);
        map_finish(&m);
    }
}

static void test_empty(void **state)
{
    struct map m;
    map_init(&m);
    assert_null(item_find(&m, 1, false));
    assert_null(map_next(&m, NULL));
    assert_null(map_take_all(&m));
    map_finish(&m);
    map_finish(&m);
}

/* The table is as large as the nodes ask for, not larger: between one and three pointers per node. */
static void test_memory(void **state)
{
    enum { N = 100000 };
    struct item *items = calloc(N, sizeof *items);
    assert_non_null(items);
    struct map m;
    map_init(&m);
    for (uint32_t key = 0; key < N; key++) {
        assert_int_equal(map_insert(&m, &items[key].node, hash_u64(key)), 0);
        if (key > 64) {
            assert_true(map_memory(&m) <= 3 * sizeof(void *) * (key + 1));
        }
    }
    assert_true(map_memory(&m) >= N * sizeof(void *));
    map_finish(&m);
    free(items);
}

/* Hashes stand in files and between servers: they must not change. Reference: xxHash's XXH3_64bits. */
static void test_hash_values(void **state)
{
    assert_true(hash_bytes("", 0) == 0x2d06800538d394c2u);
    assert_true(hash_u64(1) == hash_bytes("\1\0\0\0\0\0\0\0", 8));
    assert_true(hash_u64(1) != hash_u64(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),       cmocka_unit_test(test_take_all),
        cmocka_unit_test(test_empty),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_hash_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
