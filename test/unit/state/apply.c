/* Writes one by one: replies, order of checks, events, sessions. */
#include "support/world.h"

#include "state/state_internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct znode *node_at(struct world *w, const char *path)
{
    return tree_find(&w->s->tree, slice_str(path));
}

static const char *reply_path(struct world *w)
{
    static char text[128];
    struct wire_reader r = wire_reader_make(buf_slice(&w->e.reply));
    struct slice path = wire_read_string(&r);
    assert_in_range(path.len, 0, sizeof text - 1);
    memcpy(text, path.data, path.len);
    text[path.len] = '\0';
    return text;
}

static void boot_tree(void **state)
{
    struct world *w = *state;
    struct state_stats stats;
    struct state *fresh = state_create(&hash_key_fixed);
    state_stats(fresh, &stats);
    assert_int_equal(stats.nodes, 5);
    assert_int_equal(stats.data_bytes, 1 + 10 + 16 + 17);
    assert_int_equal(stats.ephemerals, 0);
    assert_int_equal(stats.sessions, 0);
    assert_int_equal(state_zxid(fresh), 0);
    state_destroy(fresh);
    assert_int_equal(world_stat(w, "/").cversion, -1);
    assert_int_equal(world_stat(w, "/zookeeper").cversion, -2);
    assert_int_equal(world_stat(w, "/zookeeper").num_children, 2);
    assert_int_equal(world_stat(w, "/zookeeper/config").aversion, -1);
    assert_int_equal(world_set(w, "/zookeeper/config", "x", -1), CONCLAVE_NO_AUTH);
    assert_int_equal(world_create(w, "/zookeeper/quota/a", "x", 0), 0);
}

static void every_write_takes_a_zxid(void **state)
{
    struct world *w = *state;
    int64_t zxid = state_zxid(w->s);
    assert_int_equal(world_create(w, "/a", "x", 0), 0);
    assert_int_equal(w->e.zxid, zxid + 1);
    assert_int_equal(world_create(w, "/a", "x", 0), CONCLAVE_NODE_EXISTS);
    assert_int_equal(w->e.zxid, zxid + 2);
    assert_int_equal(w->e.reply.len, 0);
    assert_int_equal(w->e.events_count, 0);
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, 999, slice_make("", 0)), CONCLAVE_UNIMPLEMENTED);
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_SET_DATA, slice_str("??")),
                     CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(state_zxid(w->s), zxid + 4);
    assert_int_equal(world_stat(w, "/a").czxid, zxid + 1);
    assert_int_equal(world_stat(w, "/a").ctime, 1000 + zxid + 1);
}

static void create_checks_in_order(void **state)
{
    struct world *w = *state;
    assert_int_equal(world_create(w, "/e", "", WIRE_MODE_EPHEMERAL), 0);
    assert_int_equal(world_create(w, "bad", "", 7), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_create(w, "bad", "", -1), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_create(w, "bad", "", WIRE_MODE_PERSISTENT_TTL), CONCLAVE_UNIMPLEMENTED);
    assert_int_equal(apply(w->s, &w->e, &w->m, 99, WIRE_CREATE, make_create(&w->m, "x", "", 0)),
                     CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(world_create(w, NULL, "", 0), CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(world_create(w, "x", "", 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_create(w, "", "", 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_create(w, "/none/\x01", "", 0), CONCLAVE_NO_NODE);
    assert_int_equal(world_create(w, "/\x01", "", 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_create(w, "/", "", 0), CONCLAVE_NODE_EXISTS);
    assert_int_equal(world_create(w, "//", "", 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_create(w, "/e/", "", 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_create(w, "/e/x", "", 0), CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS);
    maker_acl_reset(&w->m);
    assert_int_equal(world_create(w, "x", "", 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_create(w, "/none/x", "", 0), CONCLAVE_INVALID_ACL);
}

static void ttls_are_off(void **state)
{
    struct world *w = *state;
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_CREATE_TTL,
                           make_create_ttl(&w->m, "/t", WIRE_MODE_PERSISTENT_TTL, 5)),
                     CONCLAVE_UNIMPLEMENTED);
    assert_int_equal(
        apply(w->s, &w->e, &w->m, 1, WIRE_CREATE_TTL, make_create_ttl(&w->m, "/t", 0, 5)),
        CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_CREATE_TTL, make_create(&w->m, "/t", "", 5)),
                     CONCLAVE_MARSHALLING_ERROR);
}

static void containers(void **state)
{
    struct world *w = *state;
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_CREATE_CONTAINER,
                           make_create(&w->m, "/c", "", WIRE_MODE_CONTAINER)),
                     0);
    assert_true(znode_owner(node_at(w, "/c")) == TREE_OWNER_CONTAINER);
    assert_int_equal(world_stat(w, "/c").ephemeral_owner, 0);
    assert_int_equal(world_create(w, "/c/x", "", 0), 0);
    /* By another operation, the mode makes an ordinary node. */
    assert_int_equal(world_create(w, "/d", "", WIRE_MODE_CONTAINER), 0);
    assert_int_equal(znode_owner(node_at(w, "/d")), 0);
}

static void sequences(void **state)
{
    struct world *w = *state;
    world_create(w, "/p", "", 0);
    assert_int_equal(world_create(w, "/p/", "", WIRE_MODE_PERSISTENT_SEQUENTIAL), 0);
    assert_string_equal(reply_path(w), "/p/0000000000");
    world_create(w, "/p/other", "", 0);
    world_delete(w, "/p/other", -1);
    assert_int_equal(world_create(w, "/p/n-", "", WIRE_MODE_EPHEMERAL_SEQUENTIAL), 0);
    assert_string_equal(reply_path(w), "/p/n-0000000002");
    znode_dir(node_at(w, "/p"))->cversion = INT32_MAX;
    world_create(w, "/p/n-", "", WIRE_MODE_PERSISTENT_SEQUENTIAL);
    assert_string_equal(reply_path(w), "/p/n-2147483647");
    world_create(w, "/p/n-", "", WIRE_MODE_PERSISTENT_SEQUENTIAL);
    assert_string_equal(reply_path(w), "/p/n--2147483648");
    world_create(w, "/p/n-", "", WIRE_MODE_PERSISTENT_SEQUENTIAL);
    assert_string_equal(reply_path(w), "/p/n--2147483647");
}

static void delete_checks_in_order(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "", 0);
    world_create(w, "/a/b", "", 0);
    assert_int_equal(apply(w->s, &w->e, &w->m, 9, WIRE_DELETE, make_delete(&w->m, "/", -1)),
                     CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(world_delete(w, NULL, -1), CONCLAVE_MARSHALLING_ERROR);
    static const char *const special[] = {
        "x", "", "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        assert_int_equal(world_delete(w, special[i], -1), CONCLAVE_BAD_ARGUMENTS);
    }
    assert_int_equal(world_delete(w, "/none/x", -1), CONCLAVE_NO_NODE);
    assert_int_equal(world_delete(w, "/none", -1), CONCLAVE_NO_NODE);
    assert_int_equal(world_delete(w, "/a/", -1), CONCLAVE_NO_NODE);
    assert_int_equal(world_delete(w, "/a", 5), CONCLAVE_BAD_VERSION);
    assert_int_equal(world_delete(w, "/a", 0), CONCLAVE_NOT_EMPTY);
    assert_int_equal(world_delete(w, "/a/b", 0), 0);
    assert_string_equal(world_events(w), "2 /a/b,4 /a");
    assert_int_equal(w->e.reply.len, 0);
    assert_int_equal(world_delete(w, "/a", -1), 0);
    assert_string_equal(world_events(w), "2 /a,4 /");
}

static void set_data_and_versions(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "old", 0);
    assert_string_equal(world_events(w), "1 /a,4 /");
    assert_int_equal(world_set(w, NULL, "", -1), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_set(w, "/a/", "", -1), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_set(w, "/b", "", -1), CONCLAVE_NO_NODE);
    assert_int_equal(world_set(w, "/a", "", 1), CONCLAVE_BAD_VERSION);
    assert_int_equal(world_set(w, "/a", "newer", 0), 0);
    assert_string_equal(world_events(w), "3 /a");
    struct wire_stat stat = world_stat(w, "/a");
    assert_int_equal(stat.version, 1);
    assert_int_equal(stat.mzxid, w->e.zxid);
    assert_int_equal(stat.mtime, 1000 + w->e.zxid);
    assert_int_equal(stat.data_length, 5);
    assert_int_equal(stat.pzxid, stat.czxid);
    node_at(w, "/a")->version = INT32_MAX;
    assert_int_equal(world_set(w, "/a", "", -1), 0);
    assert_int_equal(world_stat(w, "/a").version, INT32_MIN);
    node_at(w, "/a")->version = -2;
    assert_int_equal(world_set(w, "/a", "", -2), 0);
    assert_int_equal(world_stat(w, "/a").version, 0); /* never -1 */
    assert_int_equal(world_set(w, "/", "root", -1), 0);
    assert_string_equal(world_events(w), "3 /");
}

static void set_acl_and_permissions(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "", 0);
    struct wire_stat before = world_stat(w, "/a");
    maker_acl_reset(&w->m);
    assert_int_equal(world_set_acl(w, "/none/", -1), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_set_acl(w, "/none", -1), CONCLAVE_INVALID_ACL);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "digest", "u:p");
    assert_int_equal(world_set_acl(w, "/none", -1), CONCLAVE_NO_NODE);
    assert_int_equal(world_set_acl(w, "/a", 3), CONCLAVE_BAD_VERSION);
    assert_int_equal(world_set_acl(w, "/a", 0), 0);
    assert_int_equal(w->e.events_count, 0);
    assert_int_equal(world_read(w, WIRE_EXISTS, "/a"), CONCLAVE_NO_AUTH);
    assert_int_equal(world_set(w, "/a", "", 7), CONCLAVE_NO_AUTH);
    assert_int_equal(world_set_acl(w, "/a", 7), CONCLAVE_NO_AUTH);
    assert_int_equal(world_create(w, "/a/b", "", 0), CONCLAVE_NO_AUTH);
    assert_int_equal(world_delete(w, "/a/b", -1), CONCLAVE_NO_AUTH);
    maker_ids_add(&w->m, "digest", "u:p");
    struct wire_stat after = world_stat(w, "/a");
    assert_int_equal(after.aversion, 1);
    assert_int_equal(after.mzxid, before.mzxid);
    assert_int_equal(after.mtime, before.mtime);
    assert_int_equal(world_create(w, "/a/b", "", 0), 0);
}

/* Gives /a, as superuser, a list with all permissions but one for anyone. */
static void forbid(struct world *w, int32_t perm)
{
    maker_ids_add(&w->m, "super", "");
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL & ~perm, "world", "anyone");
    assert_int_equal(world_set_acl(w, "/a", -1), 0);
    maker_ids_reset(&w->m);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "world", "anyone");
}

/* Each operation asks for its own permission and no other: a bit of `refused` for each that was
 * refused. */
static int32_t try_all(struct world *w)
{
    int32_t refused = 0;
    refused |= world_create(w, "/a/new", "", 0) == CONCLAVE_NO_AUTH ? WIRE_PERM_CREATE : 0;
    refused |= world_delete(w, "/a/old", -1) == CONCLAVE_NO_AUTH ? WIRE_PERM_DELETE : 0;
    refused |= world_set(w, "/a", "", -1) == CONCLAVE_NO_AUTH ? WIRE_PERM_WRITE : 0;
    refused |= world_read(w, WIRE_GET_DATA, "/a") == CONCLAVE_NO_AUTH ? WIRE_PERM_READ : 0;
    refused |= world_set_acl(w, "/a", 99) == CONCLAVE_NO_AUTH ? WIRE_PERM_ADMIN : 0;
    return refused;
}

static void each_operation_has_its_permission(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "", 0);
    for (int32_t perm = WIRE_PERM_READ; perm <= WIRE_PERM_ADMIN; perm *= 2) {
        forbid(w, perm);
        assert_int_equal(try_all(w), perm);
    }
}

static void sessions_and_ephemerals(void **state)
{
    struct world *w = *state;
    struct state_session found;
    assert_int_equal(world_session(w, 5), 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_CREATED);
    assert_int_equal(w->e.session_id, 5);
    assert_true(state_session_find(w->s, 5, &found));
    assert_int_equal(found.timeout_ms, 4000);
    assert_int_equal(found.passwd[15], 5);
    world_create(w, "/d", "", 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_SAME);
    apply(w->s, &w->e, &w->m, 5, WIRE_CREATE, make_create(&w->m, "/d/2", "", 1));
    apply(w->s, &w->e, &w->m, 5, WIRE_CREATE, make_create(&w->m, "/d/1", "", 1));
    world_create(w, "/mine", "", 1);
    assert_int_equal(world_stat(w, "/d/1").ephemeral_owner, 5);
    assert_int_equal(world_close(w, 5), 0);
    assert_string_equal(world_events(w), "2 /d/2,4 /d,2 /d/1,4 /d");
    assert_int_equal(w->e.session_change, STATE_SESSION_CLOSED);
    assert_int_equal(w->e.session_id, 5);
    assert_int_equal(world_stat(w, "/d").pzxid, w->e.zxid);
    assert_int_equal(world_stat(w, "/d").cversion, 4);
    assert_int_equal(world_read(w, WIRE_EXISTS, "/mine"), 0);
    assert_false(state_session_find(w->s, 5, &found));
    assert_int_equal(world_close(w, 5), 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_SAME);
    assert_int_equal(
        apply(w->s, &w->e, &w->m, 5, WIRE_SET_DATA, make_set_data(&w->m, "/d", "", -1)),
        CONCLAVE_SESSION_EXPIRED);
}

static void bad_sessions(void **state)
{
    struct world *w = *state;
    assert_int_equal(world_session(w, 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(world_session(w, INT64_MIN), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(
        apply(w->s, &w->e, &w->m, 8, WIRE_CREATE_SESSION, make_session(&w->m, 9, 4000)),
        CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(apply(w->s, &w->e, &w->m, 8, WIRE_CREATE_SESSION, slice_str("short")),
                     CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(w->e.session_change, STATE_SESSION_SAME);
}

static void count_session(void *ctx, const struct state_session *session)
{
    *(int64_t *)ctx += session->id;
}

static void each_session_is_met(void **state)
{
    struct world *w = *state;
    int64_t sum = 0;
    for (int64_t id = 2; id <= 100; id++) {
        world_session(w, id);
    }
    state_session_each(w->s, count_session, &sum);
    assert_int_equal(sum, 5050);
}

static void reconfig_is_off(void **state)
{
    struct world *w = *state;
    struct wire_reconfig_request r = {SLICE_NULL, SLICE_NULL, SLICE_NULL, -1};
    buf_reset(&w->m.body);
    wire_encode_reconfig_request(&w->m.body, &r);
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_RECONFIG, buf_slice(&w->m.body)),
                     CONCLAVE_RECONFIG_DISABLED);
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_RECONFIG, slice_str("x")),
                     CONCLAVE_MARSHALLING_ERROR);
}

static void internal_operations_are_refused(void **state)
{
    struct world *w = *state;
    static const int32_t types[] = {WIRE_CHECK, WIRE_GET_DATA, WIRE_ERROR, WIRE_NOTIFICATION};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        assert_int_equal(apply(w->s, &w->e, &w->m, 1, types[i], make_delete(&w->m, "/a", -1)),
                         CONCLAVE_UNIMPLEMENTED);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(boot_tree),
        T(every_write_takes_a_zxid),
        T(create_checks_in_order),
        T(ttls_are_off),
        T(containers),
        T(sequences),
        T(delete_checks_in_order),
        T(set_data_and_versions),
        T(set_acl_and_permissions),
        T(each_operation_has_its_permission),
        T(sessions_and_ephemerals),
        T(bad_sessions),
        T(each_session_is_met),
        T(reconfig_is_off),
        T(internal_operations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
