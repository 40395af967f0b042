/* Remembered decisions equal the rules' own, for all schemes; paths sort by their bytes. */
#include "tree/acl_decisions.h"

#include "base/hash.h"
#include "tree/acl_rules.h"
#include "tree/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const entry_schemes[] = {"world", "digest", "ip", "sasl", "x509", "nosuch"};
static const char *const caller_schemes[] = {
    "digest", "ip", "sasl", "x509", ACL_SCHEME_SASL_GRANT, "super", "nosuch"};
static const char *const names[] = {
    "anyone", "u:a",   "u:b",   "10.0.0.1", "10.0.0.0/8", "127.0.0.1", "127.0.0.0/24", "::1",
    "::/0",   "super", "alice", "CN=x",     "not/good",   "",          "10.0.0.1/x"};

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

#define PICK(list, seed) list[next_random(seed) % (sizeof list / sizeof list[0])]

static struct wire_vector random_acl(struct buf *out, uint64_t *seed)
{
    int32_t count = 40 + (int32_t)(next_random(seed) % 100);
    buf_reset(out);
    for (int32_t i = 0; i < count; i++) {
        struct wire_acl entry = {.perms = (int32_t)(next_random(seed) % 32)};
        entry.id.scheme = slice_str(PICK(entry_schemes, seed));
        entry.id.id = slice_str(PICK(names, seed));
        if (next_random(seed) % 30 != 0 && slice_equal_str(entry.id.scheme, "world")) {
            entry.perms = 0; /* else everybody may do everything */
        }
        wire_encode_acl(out, &entry);
    }
    return wire_vector_make(out, count);
}

static struct wire_vector random_ids(struct buf *out, uint64_t *seed)
{
    int32_t count = (int32_t)(next_random(seed) % 4);
    buf_reset(out);
    for (int32_t i = 0; i < count; i++) {
        struct wire_id id = {.scheme = slice_str(PICK(caller_schemes, seed)),
                             .id = slice_str(PICK(names, seed))};
        if (slice_equal_str(id.scheme, "super") && next_random(seed) % 8 != 0) {
            id.scheme = slice_str("digest");
        }
        wire_encode_id(out, &id);
    }
    return wire_vector_make(out, count);
}

static void the_answers_are_those_of_the_rules(void **state)
{
    struct acl_decisions *d = acl_decisions_create(&hash_key_fixed);
    struct buf acls[6];
    struct buf ids_bytes[6];
    struct wire_vector acl[6];
    struct wire_vector ids[6];
    uint64_t seed = 1;
    size_t yes = 0;
    assert_non_null(d);
    for (int i = 0; i < 6; i++) {
        buf_init(&acls[i], 0);
        buf_init(&ids_bytes[i], 0);
    }
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < 6; i++) {
            acl[i] = random_acl(&acls[i], &seed);
            ids[i] = random_ids(&ids_bytes[i], &seed);
        }
        acl_decisions_begin(d);
        for (int question = 0; question < 100; question++) {
            size_t a = next_random(&seed) % 6;
            size_t c = next_random(&seed) % 6;
            int32_t perm = 1 << next_random(&seed) % 5;
            bool wanted = acl_permits(acl[a], ids[c], perm);
            assert_int_equal(acl_decisions_permit(d, (uint32_t)a + 1, acl[a], c, ids[c], perm),
                             wanted);
            int32_t granted = acl_granted(acl[a], ids[c]);
            assert_int_equal(granted == -1 || (granted & perm) != 0, wanted);
            yes += wanted;
        }
    }
    assert_in_range(yes, 4000, 36000);
    for (int i = 0; i < 6; i++) {
        buf_finish(&acls[i]);
        buf_finish(&ids_bytes[i]);
    }
    acl_decisions_destroy(d);
}

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

static void nodes_compare_as_their_paths(void **state)
{
    static const char *const paths[] = {"/a",   "/a/b",  "/a/b/c",  "/a-b",  "/a-b/c", "/a.",
                                        "/a0",  "/a0/b", "/b",      "/b/a",  "/ab",    "/ab/c",
                                        "/a/-", "/a/b-", "/a/b-/c", "/a/b0", "/b/a/z"};
    enum { COUNT = sizeof paths / sizeof paths[0] };
    struct tree t;
    struct znode *nodes[COUNT];
    assert_int_equal(tree_init(&t, &hash_key_fixed), 0);
    for (size_t i = 0; i < COUNT; i++) {
        struct slice path = slice_str(paths[i]);
        size_t slash = (size_t)(strrchr(paths[i], '/') - paths[i]);
        struct znode_spec spec = {.path = path, .data = slice_str("xy"), .acl = ACL_OPEN};
        acl_ref(&t.acls, ACL_OPEN);
        nodes[i] = tree_add(&t, tree_find(&t, slice_make(path.data, slash)), &spec);
        assert_non_null(nodes[i]);
    }
    assert_int_equal(znode_below_bytes(t.root), 2 * COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < COUNT; k++) {
            assert_int_equal(sign(znode_compare_paths(nodes[i], nodes[k])),
                             sign(strcmp(paths[i], paths[k])));
        }
        struct tree_walk walk;
        struct slice rest = slice_str(paths[i]);
        struct slice name;
        tree_walk_begin(&walk, &t);
        while (tree_path_next(&rest, &name)) {
            assert_non_null(tree_walk_child(&walk, name));
            assert_null(tree_walk_child(&walk, slice_str("none")));
            assert_false(tree_walk_down(&walk, slice_str("none")));
            assert_true(tree_walk_down(&walk, name));
        }
        assert_ptr_equal(walk.node, nodes[i]);
    }
    tree_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answers_are_those_of_the_rules),
        cmocka_unit_test(nodes_compare_as_their_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
