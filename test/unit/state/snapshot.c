/* Snapshots: reading one restores the state at begin, and a damaged one is never taken for a good
 * one. */
#include "support/world.h"

#include "state/snapshot_format.h"
#include "state/state_internal.h"

#include "base/endian.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void finish(struct world *w, size_t max_bytes, struct buf *out)
{
    int rc;
    while ((rc = state_snapshot_step(w->s, max_bytes, out)) == 1) {}
    assert_int_equal(rc, 0);
}

static void expect_digest(const struct buf *snapshot, uint64_t digest)
{
    struct state *restored = NULL;
    assert_int_equal(state_restore(buf_slice(snapshot), &hash_key_fixed, &restored), 0);
    assert_true(state_digest(restored) == digest);
    state_destroy(restored);
}

/* Some of everything. */
static void populate(struct world *w)
{
    char path[64];
    char data[300];
    memset(data, 'd', sizeof data - 1);
    data[sizeof data - 1] = '\0';
    world_session(w, 2);
    for (int i = 0; i < 30; i++) {
        snprintf(path, sizeof path, "/n%d", i);
        world_create(w, path, data + (i * 10), i % 7 == 0 ? 1 : 0);
        snprintf(path, sizeof path, "/n%d/child", i);
        world_create(w, path, i % 2 == 0 ? NULL : "", i % 3 == 0 ? 2 : 0);
    }
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, 31, "digest", "u:p");
    world_create(w, "/n1/secret", "s", 0);
    world_set_acl(w, "/n2", -1);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, 31, "world", "anyone");
    apply(w->s, &w->e, &w->m, 2, WIRE_CREATE_CONTAINER, make_create(&w->m, "/box", "", 4));
    apply(w->s, &w->e, &w->m, 2, WIRE_CREATE, make_create(&w->m, "/box/e", "", 1));
    world_set(w, "/", "root data", -1);
    world_delete(w, "/n5/child", -1);
    /* A count of creates that wrapped to 0, though there were some. */
    znode_dir(tree_find(&w->s->tree, slice_str("/n10")))->cversion = -1;
    world_create(w, "/n10/last", "", 0);
    world_delete(w, "/n10/last", -1);
    world_delete(w, "/n10/child", -1);
    assert_int_equal(world_stat(w, "/n10").cversion, 0);
    assert_int_equal(world_stat(w, "/n10").pzxid, w->e.zxid);
}

static void comes_back(void **state)
{
    struct world *w = *state;
    struct buf out;
    buf_init(&out, 0);
    populate(w);
    uint64_t digest = state_digest(w->s);
    static const size_t steps[] = {1, 100, 1000000};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        buf_reset(&out);
        assert_int_equal(state_snapshot_begin(w->s), 0);
        finish(w, steps[i], &out);
        expect_digest(&out, digest);
        assert_true(state_digest(w->s) == digest);
    }
    assert_int_equal(state_snapshot_step(w->s, 1, &out), CONCLAVE_EINVAL);
    buf_finish(&out);
}

static void steps_are_small(void **state)
{
    struct world *w = *state;
    struct buf out;
    buf_init(&out, 0);
    populate(w);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    assert_int_equal(state_snapshot_step(w->s, 1, &out), 1);
    int steps = 1;
    for (int rc = 1; rc == 1; steps++) {
        size_t before = out.len;
        rc = state_snapshot_step(w->s, 600, &out);
        assert_in_range(out.len - before, 1, 600 + 500);
    }
    assert_in_range(steps, 10, 1000);
    buf_finish(&out);
}

/* The walk stands on the nodes that go: each deletion happens at another place of it. */
static void nodes_go_under_the_walk(void **state)
{
    struct world *w = *state;
    struct buf out;
    char path[64];
    buf_init(&out, 0);
    populate(w);
    maker_ids_add(&w->m, "super", "");
    uint64_t digest = state_digest(w->s);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(state_snapshot_step(w->s, 1, &out), 1);
        while (w->s->snapshot.cursor != NULL && (znode_children(w->s->snapshot.cursor) > 0 ||
                                                 w->s->snapshot.cursor->name[0] != 'c')) {
            assert_in_range(state_snapshot_step(w->s, 1, &out), 0, 1);
        }
        if (w->s->snapshot.cursor == NULL) {
            break;
        }
        size_t len = znode_path_len(w->s->snapshot.cursor);
        znode_path(w->s->snapshot.cursor, path, len);
        path[len] = '\0';
        if (slice_starts_with(slice_str(path), slice_str("/zookeeper"))) {
            continue;
        }
        assert_int_equal(world_delete(w, path, -1), 0);
    }
    world_close(w, 1);
    world_close(w, 2);
    if (w->s->snapshot.active) {
        finish(w, 50, &out);
    }
    expect_digest(&out, digest);
    buf_finish(&out);
}

static void children_may_come_before_parents(void **state)
{
    struct world *w = *state;
    struct buf out;
    buf_init(&out, 0);
    populate(w);
    world_create(w, "/x", "", 0);
    world_create(w, "/x/y", "", 0);
    apply(w->s, &w->e, &w->m, 1, WIRE_CREATE_CONTAINER, make_create(&w->m, "/x/y/box", "", 4));
    world_create(w, "/x/y/box/leaf", "", 1);
    uint64_t digest = state_digest(w->s);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    world_set(w, "/x/y/box/leaf", "changed", -1);
    world_set(w, "/x/y", "changed", -1);
    finish(w, 100, &out);
    expect_digest(&out, digest);

    /* The container is one again, and the rest is not. */
    struct state *restored;
    assert_int_equal(state_restore(buf_slice(&out), &hash_key_fixed, &restored), 0);
    assert_true(znode_owner(tree_find(&restored->tree, slice_str("/x/y/box"))) ==
                TREE_OWNER_CONTAINER);
    assert_int_equal(znode_owner(tree_find(&restored->tree, slice_str("/x/y"))), 0);
    struct state_stats stats;
    struct state_stats live;
    state_stats(restored, &stats);
    state_stats(w->s, &live);
    assert_int_equal(stats.nodes, live.nodes);
    assert_int_equal(stats.ephemerals, live.ephemerals);
    assert_int_equal(stats.data_bytes, live.data_bytes - 2 * strlen("changed"));
    state_destroy(restored);
    buf_finish(&out);
}

static void a_refused_multi_leaves_the_snapshot_whole(void **state)
{
    struct world *w = *state;
    struct buf out;
    buf_init(&out, 0);
    populate(w);
    uint64_t digest = state_digest(w->s);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    while (w->s->snapshot.cursor != tree_find(&w->s->tree, slice_str("/n4/child"))) {
        assert_int_equal(state_snapshot_step(w->s, 1, &out), 1);
    }
    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE, "/n4/new", "", 0);
    make_multi_delete(&w->m, "/n4/child", -1);
    make_multi_check(&w->m, "/none", -1);
    apply(w->s, &w->e, &w->m, 1, WIRE_MULTI, make_multi_end(&w->m));
    assert_int_equal(w->e.events_count, 0);
    finish(w, 100, &out);
    expect_digest(&out, digest);
    buf_finish(&out);
}

static void abort_and_again(void **state)
{
    struct world *w = *state;
    struct buf out;
    buf_init(&out, 0);
    populate(w);
    for (int i = 0; i < 5; i++) {
        uint64_t digest = state_digest(w->s);
        assert_int_equal(state_snapshot_begin(w->s), 0);
        world_set(w, "/n3", "x", -1);
        assert_int_equal(state_snapshot_step(w->s, 300, &out), 1);
        state_snapshot_abort(w->s);
        state_snapshot_abort(w->s);
        digest = state_digest(w->s);
        buf_reset(&out);
        assert_int_equal(state_snapshot_begin(w->s), 0);
        assert_int_equal(state_snapshot_begin(w->s), CONCLAVE_EBUSY);
        world_set(w, "/n4", "y", -1);
        finish(w, 300, &out);
        expect_digest(&out, digest);
    }
    buf_finish(&out);
}

static void out_of_room_is_told(void **state)
{
    struct world *w = *state;
    struct buf small;
    buf_init(&small, 200);
    populate(w);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    assert_int_equal(state_snapshot_step(w->s, 100000, &small), CONCLAVE_ENOMEM);
    assert_int_equal(small.len, 0);
    state_snapshot_abort(w->s);
    buf_finish(&small);
}

static void make_snapshot(struct world *w, struct buf *out)
{
    buf_init(out, 0);
    populate(w);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    world_set(w, "/n3", "x", -1);
    finish(w, 700, out);
}

static void truncated_is_corrupt(void **state)
{
    struct world *w = *state;
    struct buf out;
    struct state *restored = NULL;
    make_snapshot(w, &out);
    for (size_t n = 0; n < out.len; n += n < 64 ? 1 : 61) {
        assert_int_equal(state_restore(slice_make(out.data, n), &hash_key_fixed, &restored),
                         CONCLAVE_ECORRUPT);
    }
    for (size_t n = 512; n < out.len; n += 512) {
        assert_int_equal(state_restore(slice_make(out.data, n), &hash_key_fixed, &restored),
                         CONCLAVE_ECORRUPT);
    }
    buf_append_u8(&out, 0);
    assert_int_equal(state_restore(buf_slice(&out), &hash_key_fixed, &restored), CONCLAVE_ECORRUPT);
    assert_null(restored);
    buf_finish(&out);
}

/* Every block boundary is a place where a file may end. */
static void whole_blocks_missing_is_corrupt(void **state)
{
    struct world *w = *state;
    struct buf out;
    struct state *restored = NULL;
    make_snapshot(w, &out);
    size_t at = SNAPSHOT_HEADER_LEN;
    int blocks = 0;
    while (at < out.len) {
        assert_int_equal(state_restore(slice_make(out.data, at), &hash_key_fixed, &restored),
                         CONCLAVE_ECORRUPT);
        at += SNAPSHOT_BLOCK_HEAD + (size_t)get_be64(out.data + at) + SNAPSHOT_BLOCK_TAIL;
        blocks++;
    }
    assert_int_equal(at, out.len);
    assert_in_range(blocks, 5, 1000);
    buf_finish(&out);
}

static void flipped_bits_are_corrupt(void **state)
{
    struct world *w = *state;
    struct buf out;
    struct state *restored = NULL;
    struct prng prng = {99};
    make_snapshot(w, &out);
    for (size_t i = 0; i < out.len; i++) {
        uint8_t bit = (uint8_t)(1u << (prng_next(&prng) % 8));
        out.data[i] ^= bit;
        assert_int_equal(state_restore(buf_slice(&out), &hash_key_fixed, &restored),
                         CONCLAVE_ECORRUPT);
        out.data[i] ^= bit;
    }
    assert_int_equal(state_restore(buf_slice(&out), &hash_key_fixed, &restored), 0);
    state_destroy(restored);
    buf_finish(&out);
}

/* --- well-formed blocks with records that lie ------------------------------------------------- */

struct forged {
    struct buf bytes;
    int64_t sessions;
    int64_t acls;
    int64_t nodes;
    int64_t others;
};

static void forge_begin(struct forged *f)
{
    *f = (struct forged){0};
    buf_init(&f->bytes, 0);
    buf_append_str(&f->bytes, SNAPSHOT_MAGIC);
    buf_append_i32(&f->bytes, SNAPSHOT_VERSION);
    buf_append_i64(&f->bytes, 0);
    buf_append_u8(&f->bytes, SNAPSHOT_COUNTERS);
    buf_append_i64(&f->bytes, 77);
    buf_append_i32(&f->bytes, 5);
    buf_append_i64(&f->bytes, 1);
}

static void forge_session(struct forged *f, int64_t id)
{
    buf_append_u8(&f->bytes, SNAPSHOT_SESSION);
    buf_append_i64(&f->bytes, id);
    buf_append_i32(&f->bytes, 1000);
    buf_append(&f->bytes, "0123456789abcdef", 16);
    buf_append_i64(&f->bytes, 3);
    f->sessions++;
}

static void forge_origin(struct forged *f, int64_t id, int64_t sequence)
{
    buf_append_u8(&f->bytes, SNAPSHOT_ORIGIN);
    buf_append_i64(&f->bytes, id);
    buf_append_i64(&f->bytes, sequence);
    f->others++;
}

static void forge_node(struct forged *f, const char *path, int32_t acl, int64_t owner)
{
    buf_append_u8(&f->bytes, SNAPSHOT_NODE);
    wire_write_string(&f->bytes, slice_str(path));
    wire_write_buffer(&f->bytes, SLICE_NULL);
    buf_append_i32(&f->bytes, acl);
    buf_append_i64(&f->bytes, owner);
    for (int i = 0; i < 4; i++) {
        buf_append_i64(&f->bytes, 1);
    }
    for (int i = 0; i < 3; i++) {
        buf_append_i32(&f->bytes, 0);
    }
    buf_append_i64(&f->bytes, 1);
    f->nodes++;
}

/* Ends it with the right counts and checksum, and restores. */
static int forge_end(struct forged *f)
{
    struct state *restored = NULL;
    buf_append_u8(&f->bytes, SNAPSHOT_END);
    buf_append_i64(&f->bytes, f->sessions);
    buf_append_i64(&f->bytes, f->acls);
    buf_append_i64(&f->bytes, f->nodes);
    buf_append_i64(&f->bytes, f->others);
    size_t records = SNAPSHOT_HEADER_LEN + SNAPSHOT_BLOCK_HEAD;
    size_t len = f->bytes.len - records;
    put_be64(f->bytes.data + SNAPSHOT_HEADER_LEN, len);
    uint64_t chain = hash_bytes(f->bytes.data, SNAPSHOT_HEADER_LEN);
    chain = snapshot_chain(chain, slice_make(f->bytes.data + records, len));
    buf_append_i64(&f->bytes, (int64_t)chain);
    int rc = state_restore(buf_slice(&f->bytes), &hash_key_fixed, &restored);
    state_destroy(restored);
    buf_finish(&f->bytes);
    return rc;
}

static void forgeries_are_corrupt(void **state)
{
    struct forged f;
    forge_begin(&f);
    forge_node(&f, "/", 0, 0);
    forge_node(&f, "/a/b/c", 0, 0);
    forge_node(&f, "/a/b", 0, TREE_OWNER_CONTAINER);
    forge_node(&f, "/a", 0, 0);
    assert_int_equal(forge_end(&f), 0);

    forge_begin(&f); /* a parent is missing */
    forge_node(&f, "/", 0, 0);
    forge_node(&f, "/a/b", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* the root is missing */
    forge_node(&f, "/a", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* twice the same */
    forge_node(&f, "/", 0, 0);
    forge_node(&f, "/a", 0, 0);
    forge_node(&f, "/a", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* an ACL that is not in the table */
    forge_node(&f, "/", 3, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* an owner that is not in the table */
    forge_node(&f, "/", 0, 0);
    forge_node(&f, "/a", 0, 42);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* a bad path */
    forge_node(&f, "/", 0, 0);
    forge_node(&f, "/a/", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* sessions with ids that are none */
    forge_session(&f, 0);
    forge_node(&f, "/", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f);
    forge_session(&f, 5);
    forge_session(&f, 5);
    forge_node(&f, "/", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* a count that lies */
    forge_node(&f, "/", 0, 0);
    f.nodes++;
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);
}

static int forge_origins(int64_t id, int64_t sequence, int64_t id2, int64_t sequence2)
{
    struct forged f;
    forge_begin(&f);
    forge_origin(&f, id, sequence);
    forge_origin(&f, id2, sequence2);
    forge_node(&f, "/", 0, 0);
    return forge_end(&f);
}

static void forged_origins_are_corrupt(void **state)
{
    assert_int_equal(forge_origins(1, 1, 2, INT64_MAX), 0);
    assert_int_equal(forge_origins(-1, 1, 2, 1), 0);
    assert_int_equal(forge_origins(2, 1, 1, 1), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_origins(1, 1, 1, 2), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_origins(0, 1, 1, 1), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_origins(1, 0, 2, 1), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_origins(1, 1, 2, -1), CONCLAVE_ECORRUPT);
    struct forged f;
    forge_begin(&f);
    forge_origin(&f, 1, 1);
    f.others = 0;
    forge_node(&f, "/", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);
}

static void forge_member(struct forged *f, bool target, int64_t id, int32_t role,
                         const char *address)
{
    buf_append_u8(&f->bytes, SNAPSHOT_MEMBER);
    wire_write_boolean(&f->bytes, target);
    buf_append_i64(&f->bytes, id);
    buf_append_i32(&f->bytes, role);
    wire_write_string(&f->bytes, slice_str(address));
    f->others++;
}

static void forge_config(struct forged *f, int64_t version, int64_t reconfig)
{
    buf_append_u8(&f->bytes, SNAPSHOT_CONFIG);
    buf_append_i64(&f->bytes, version);
    wire_write_boolean(&f->bytes, false);
    buf_append_i64(&f->bytes, reconfig);
    buf_append_i64(&f->bytes, 3);
    buf_append_i64(&f->bytes, 5);
    buf_append_i32(&f->bytes, 1);
    f->others++;
}

/* Two members, and a config record when version is not negative. */
static int forge_members(int64_t id, int32_t role, const char *address, int64_t version)
{
    struct forged f;
    forge_begin(&f);
    forge_member(&f, false, 2, STATE_VOTER, "h:1:2");
    forge_member(&f, false, id, role, address);
    if (version >= 0) {
        forge_config(&f, version, 0);
    }
    forge_node(&f, "/", 0, 0);
    return forge_end(&f);
}

static int forge_target(bool target, int64_t reconfig)
{
    struct forged f;
    forge_begin(&f);
    forge_member(&f, false, 2, STATE_VOTER, "h:1:2");
    if (target) {
        forge_member(&f, true, 3, STATE_VOTER, "i:1:2");
    }
    forge_config(&f, 1, reconfig);
    forge_node(&f, "/", 0, 0);
    return forge_end(&f);
}

static void forged_members_are_corrupt(void **state)
{
    struct forged f;
    assert_int_equal(forge_members(3, STATE_SPARE, "i:1:2", 0), 0);
    assert_int_equal(forge_members(254, STATE_VOTER, "no address", 7), 0);
    assert_int_equal(forge_members(257, STATE_VOTER, "i:1:2", 7), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_members(2, STATE_VOTER, "i:1:2", 7), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_members(1, STATE_VOTER, "i:1:2", 7), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_members(3, 3, "i:1:2", 7), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_members(3, -1, "i:1:2", 7), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_members(3, STATE_VOTER, "", 7), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_members(3, STATE_VOTER, NULL, 7), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_members(3, STATE_VOTER, "i:1:2", -1), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_target(false, 0), 0);
    assert_int_equal(forge_target(true, 9), 0);
    assert_int_equal(forge_target(false, 9), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_target(true, 0), CONCLAVE_ECORRUPT);
    assert_int_equal(forge_target(true, -1), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* a config without members */
    forge_config(&f, 1, 0);
    forge_node(&f, "/", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* twice */
    forge_member(&f, false, 2, STATE_VOTER, "h:1:2");
    forge_config(&f, 1, 0);
    forge_config(&f, 1, 0);
    forge_node(&f, "/", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* a member behind it */
    forge_member(&f, false, 2, STATE_VOTER, "h:1:2");
    forge_config(&f, 1, 0);
    forge_member(&f, false, 3, STATE_VOTER, "i:1:2");
    forge_node(&f, "/", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);
}

static void ephemerals_have_no_children(void **state)
{
    struct forged f;
    forge_begin(&f);
    forge_session(&f, 5);
    forge_node(&f, "/", 0, 0);
    forge_node(&f, "/e", 0, 5);
    assert_int_equal(forge_end(&f), 0);

    forge_begin(&f);
    forge_session(&f, 5);
    forge_node(&f, "/", 0, 0);
    forge_node(&f, "/e", 0, 5);
    forge_node(&f, "/e/x", 0, 0);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f);
    forge_session(&f, 5);
    forge_node(&f, "/", 0, 0);
    forge_node(&f, "/e/x", 0, 0);
    forge_node(&f, "/e", 0, 5);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f);
    forge_session(&f, 5);
    forge_node(&f, "/", 0, 5);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);

    forge_begin(&f); /* and nobody owns the root */
    forge_node(&f, "/", 0, TREE_OWNER_CONTAINER);
    assert_int_equal(forge_end(&f), CONCLAVE_ECORRUPT);
}

static void digests_tell_states_apart(void **state)
{
    struct world *w = *state;
    uint64_t last = state_digest(w->s);
    static const char *const data[] = {NULL, "", "x"};
    world_create(w, "/a", "y", 0);
    for (size_t i = 0; i < 3; i++) {
        assert_true(state_digest(w->s) != last);
        last = state_digest(w->s);
        world_set(w, "/a", data[i], -1);
    }
    struct state *one = state_create(&hash_key_fixed);
    struct state *two = state_create(&hash_key_fixed);
    assert_true(state_digest(one) == state_digest(two));
    tree_find(&one->tree, slice_str("/zookeeper"))->mtime++;
    assert_true(state_digest(one) != state_digest(two));
    assert_true(state_digest(one) !=
                state_digest_now(one)); /* nobody may do that behind its back */
    assert_true(state_digest_now(one) == state_digest_now(two));
    state_destroy(one);
    state_destroy(two);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(comes_back),
        T(steps_are_small),
        T(nodes_go_under_the_walk),
        T(children_may_come_before_parents),
        T(a_refused_multi_leaves_the_snapshot_whole),
        T(abort_and_again),
        T(out_of_room_is_told),
        T(truncated_is_corrupt),
        T(whole_blocks_missing_is_corrupt),
        T(flipped_bits_are_corrupt),
        T(forgeries_are_corrupt),
        T(forged_origins_are_corrupt),
        T(forged_members_are_corrupt),
        T(ephemerals_have_no_children),
        T(digests_tell_states_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
