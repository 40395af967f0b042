#include "tree/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct tree t;

static int setup(void **state)
{
    return tree_init(&t, &hash_key_fixed);
}

static int teardown(void **state)
{
    tree_finish(&t);
    return 0;
}

static struct znode *find(const char *path)
{
    return tree_find(&t, slice_str(path));
}

static struct znode *add(const char *path, int64_t owner, struct list *owned, int64_t zxid)
{
    struct slice p = slice_str(path);
    struct znode *parent = tree_find(&t, slice_make(p.data, (size_t)(strrchr(path, '/') - path)));
    struct znode_spec spec = {.path = p,
                              .data = slice_str("data"),
                              .owner = owner,
                              .owned = owned,
                              .zxid = zxid,
                              .time_ms = 10 * zxid};
    acl_ref(&t.acls, ACL_OPEN);
    return tree_add(&t, parent, &spec);
}

static struct wire_stat stat_of(const struct znode *node)
{
    struct buf b;
    struct wire_stat stat;
    buf_init(&b, 0);
    znode_append_stat(node, &b);
    assert_int_equal(b.len, 68);
    struct wire_reader r = wire_reader_make(buf_slice(&b));
    assert_int_equal(wire_decode_stat(&r, &stat), 0);
    buf_finish(&b);
    return stat;
}

static void finding_is_exact(void **state)
{
    assert_ptr_equal(find("/"), t.root);
    assert_ptr_equal(find(""), t.root);
    struct znode *a = add("/a", 0, NULL, 1);
    struct znode *ab = add("/a/b", 0, NULL, 2);
    struct znode *b = add("/b", 0, NULL, 3);
    assert_ptr_equal(find("/a"), a);
    assert_ptr_equal(find("/a/b"), ab);
    assert_ptr_equal(find("/b"), b);
    static const char *const none[] = {"a", "//a",  "/a/",   "/a//b", "/ab",
                                       "b", "/b/b", "/a/b/", "/c"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_null(find(none[i]));
    }
}

static void stats_follow_creates_and_deletes(void **state)
{
    struct znode *p = add("/p", 0, NULL, 1);
    assert_int_equal(stat_of(p).pzxid, 1);
    assert_int_equal(stat_of(p).cversion, 0);
    struct znode *c = add("/p/c", 0, NULL, 2);
    add("/p/d", 0, NULL, 3);
    struct wire_stat stat = stat_of(p);
    assert_int_equal(stat.cversion, 2);
    assert_int_equal(stat.num_children, 2);
    assert_int_equal(stat.pzxid, 3);
    assert_int_equal(stat.mzxid, 1);
    tree_take_out(&t, c, 4);
    znode_destroy(&t, c);
    stat = stat_of(p);
    assert_int_equal(stat.cversion, 3);
    assert_int_equal(stat.num_children, 1);
    assert_int_equal(stat.pzxid, 4);
    assert_int_equal(stat.ctime, 10);
    assert_int_equal(stat.data_length, 4);
}

static void putting_back_restores_the_place(void **state)
{
    add("/a", 0, NULL, 1);
    struct znode *b = add("/b", 0, NULL, 2);
    add("/c", 0, NULL, 3);
    size_t bytes = t.bytes;
    tree_take_out(&t, b, 9);
    assert_null(find("/b"));
    assert_int_equal(t.bytes, bytes - 2 - 4);
    tree_put_back(&t, b, 3, NULL);
    assert_ptr_equal(find("/b"), b);
    assert_int_equal(t.bytes, bytes);
    assert_int_equal(znode_pzxid(t.root), 3);
    assert_ptr_equal(znode_first_child(t.root)->next, b);
    assert_ptr_equal(znode_first_child(t.root)->next->next, find("/c"));
    assert_int_equal(znode_children(t.root), 3);
}

static void owners_are_listed(void **state)
{
    struct list mine;
    list_init(&mine);
    struct znode *e = add("/e", 0x1234, &mine, 1);
    struct znode *c = add("/c", TREE_OWNER_CONTAINER, NULL, 2);
    struct znode *p = add("/p", 0, NULL, 3);
    assert_ptr_equal(znode_of_link(mine.next), e);
    assert_ptr_equal(znode_of_link(t.extended.next), c);
    assert_int_equal(t.ephemerals, 1);
    assert_true(znode_is_ephemeral(e) && !znode_is_ephemeral(c) && !znode_is_ephemeral(p));
    assert_int_equal(stat_of(e).ephemeral_owner, 0x1234);
    assert_int_equal(stat_of(c).ephemeral_owner, 0);
    assert_int_equal(stat_of(p).ephemeral_owner, 0);
    tree_take_out(&t, e, 4);
    assert_true(list_empty(&mine));
    assert_int_equal(t.ephemerals, 0);
    tree_put_back(&t, e, 3, &mine);
    assert_ptr_equal(znode_of_link(mine.next), e);
    tree_take_out(&t, e, 4);
    znode_destroy(&t, e);
}

static void preorder_meets_everyone(void **state)
{
    static const char *const paths[] = {"/a", "/a/x", "/a/x/1", "/a/y", "/b", "/b/z"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        add(paths[i], 0, NULL, (int64_t)i + 1);
    }
    const struct znode *node = tree_next(t.root);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct buf b;
        buf_init(&b, 0);
        znode_append_path(node, &b);
        assert_string_equal(buf_cstr(&b), paths[i]);
        assert_int_equal(znode_path_len(node), strlen(paths[i]));
        buf_finish(&b);
        node = tree_next(node);
    }
    assert_null(node);
    assert_int_equal(tree_count(&t), 8);
}

static void sizes_count_characters(void **state)
{
    assert_int_equal(t.bytes, 1);
    struct znode *node = add("/\xe4\xb8\xad", 0, NULL, 1);
    assert_int_equal(t.bytes, 1 + 2 + 4);
    struct znode_data *data;
    assert_true(znode_data_make(SLICE_NULL, &data));
    assert_null(data);
    free(tree_swap_data(&t, node, data));
    assert_int_equal(t.bytes, 1 + 2);
    assert_true(slice_is_null(znode_data(node)));
    assert_true(znode_data_make(slice_make("", 0), &data));
    free(tree_swap_data(&t, node, data));
    assert_false(slice_is_null(znode_data(node)));
    tree_take_out(&t, node, 2);
    assert_int_equal(t.bytes, 1);
    znode_destroy(&t, node);
}

static void create_counter_wraps(void **state)
{
    struct znode *p = add("/p", 0, NULL, 1);
    assert_non_null(znode_dir_need(p));
    znode_dir(p)->cversion = INT32_MAX;
    add("/p/a", 0, NULL, 2);
    assert_int_equal(znode_cversion(p), INT32_MIN);
    assert_int_equal(stat_of(p).cversion, -1);
}

static void many_nodes(void **state)
{
    char path[64];
    for (int i = 0; i < 5000; i++) {
        snprintf(path, sizeof path, "/n%d", i);
        add(path, 0, NULL, i + 1);
        snprintf(path, sizeof path, "/n%d/same", i);
        add(path, 0, NULL, i + 1);
    }
    for (int i = 0; i < 5000; i += 3) {
        snprintf(path, sizeof path, "/n%d/same", i);
        struct znode *node = find(path);
        assert_non_null(node);
        tree_take_out(&t, node, 6000);
        znode_destroy(&t, node);
        assert_null(find(path));
        snprintf(path, sizeof path, "/n%d/same", i + 1);
        assert_true(i + 1 >= 5000 || find(path) != NULL);
    }
}

static size_t longest_chain(const struct map *m)
{
    size_t longest = 0;
    for (size_t i = 0; i < (size_t)1 << m->bits; i++) {
        size_t n = 0;
        for (const struct map_node *node = m->buckets[i]; node != NULL; node = node->next) {
            n++;
        }
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Paths whose hashes without a key end alike: who knows no key cannot choose what meets. */
static void chosen_paths_do_not_meet(void **state)
{
    enum { CHOSEN = 600, BITS = 0x3ff };
    static const struct hash_key keys[] = {{{1, 2}}, {{3, 4}}};
    for (size_t k = 0; k < 2; k++) {
        struct tree saved = t;
        assert_int_equal(tree_init(&t, &keys[k]), 0);
        unsigned added = 0;
        for (unsigned i = 0; added < CHOSEN; i++) {
            char path[24];
            snprintf(path, sizeof path, "/%u", i);
            if ((hash_bytes(path, strlen(path)) & BITS) == 0) {
                assert_non_null(add(path, 0, NULL, 1));
                added++;
            }
        }
        assert_null(t.nodes.old);
        assert_in_range(longest_chain(&t.nodes), 1, 12);
        tree_finish(&t);
        t = saved;
    }
}

/* A leaf's inline data move when it gets a dir. */
static void dir_takes_over(void **state)
{
    struct znode *a = add("/a", 0, NULL, 7);
    struct znode_data *data;
    size_t bytes = t.bytes;
    assert_null(znode_dir(a));
    assert_int_equal(znode_aversion(a), 0);
    struct znode_dir *dir = znode_dir_need(a);
    assert_non_null(dir);
    assert_ptr_equal(znode_dir_need(a), dir);
    dir->aversion = 3;
    assert_true(slice_equal(znode_data(a), slice_str("data")));
    assert_int_equal(stat_of(a).data_length, 4);
    assert_int_equal(stat_of(a).aversion, 3);
    assert_int_equal(stat_of(a).pzxid, 7);
    assert_int_equal(stat_of(a).cversion, 0);
    assert_int_equal(stat_of(a).num_children, 0);
    assert_null(tree_next(a));
    assert_true(znode_data_make(slice_str("longer"), &data));
    free(tree_swap_data(&t, a, data));
    assert_true(slice_equal(znode_data(a), slice_str("longer")));
    assert_int_equal(t.bytes, bytes + 2);
    free(tree_swap_data(&t, a, NULL));
    assert_true(slice_is_null(znode_data(a)));
    assert_int_equal(t.bytes, bytes - 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finding_is_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(stats_follow_creates_and_deletes, setup, teardown),
        cmocka_unit_test_setup_teardown(putting_back_restores_the_place, setup, teardown),
        cmocka_unit_test_setup_teardown(owners_are_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(preorder_meets_everyone, setup, teardown),
        cmocka_unit_test_setup_teardown(sizes_count_characters, setup, teardown),
        cmocka_unit_test_setup_teardown(create_counter_wraps, setup, teardown),
        cmocka_unit_test_setup_teardown(many_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(dir_takes_over, setup, teardown),
        cmocka_unit_test_setup_teardown(chosen_paths_do_not_meet, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
