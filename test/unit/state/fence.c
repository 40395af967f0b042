/* Enforced fencing: bindings, the clients that may make one, and the writes permitted below one. */
#include "support/fencing.h"

#include "state/state_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define LEAF "/zookeeper/fence/app/conclave_fence"

static void bind_app(struct fencing *f)
{
    assert_int_equal(fencing_bind(f, "/app", "lock=/lock"), 0);
}

/* --- the nodes of bindings -------------------------------------------------------------------- */

static void a_server_without_fencing_knows_nothing_of_it(void **state)
{
    struct world *w = *state;
    assert_int_equal(state_fence(w->s), STATE_FENCE_ABSENT);
    assert_int_equal(world_create(w, "/zookeeper/fence/app", "", 0), CONCLAVE_NO_NODE);
    assert_int_equal(world_read(w, WIRE_EXISTS, "/zookeeper/fence"), CONCLAVE_NO_NODE);
    /* A client's own nodes of these names bind nothing, then and later. */
    world_create(w, "/lock", "", 0);
    world_create(w, "/app", "", 0);
    assert_int_equal(world_create(w, "/zookeeper/fence", "", 0), 0);
    assert_int_equal(world_create(w, "/zookeeper/fence/app", "", 0), 0);
    assert_int_equal(world_create(w, LEAF, "lock=/lock", 0), 0);
    assert_int_equal(world_set(w, "/app", "x", -1), 0);
    assert_int_equal(state_fence(w->s), STATE_FENCE_FOREIGN);
    assert_int_equal(apply(w->s, &w->e, &w->m, 0, COMMAND_FENCE_OPEN, slice_make("", 0)),
                     CONCLAVE_NODE_EXISTS);
    assert_int_equal(world_set(w, "/app", "x", -1), 0);
    assert_int_equal(world_set(w, "/zookeeper/fence", "x", -1), 0);
    assert_int_equal(world_delete(w, LEAF, -1), 0);
    assert_int_equal(world_delete(w, "/zookeeper/fence/app", -1), 0);
    assert_int_equal(world_delete(w, "/zookeeper/fence", -1), 0);
    assert_int_equal(apply(w->s, &w->e, &w->m, 0, COMMAND_FENCE_OPEN, slice_make("", 0)), 0);
    assert_string_equal(world_events(w), "1 /zookeeper/fence,4 /zookeeper");
    assert_int_equal(state_fence(w->s), STATE_FENCE_OPEN);
    assert_true(state_digest_now(w->s) == state_digest(w->s));
}

static void the_first_node_stays_as_it_was_made(void **state)
{
    struct fencing *f = *state;
    struct wire_stat stat = world_stat(&f->w, "/zookeeper/fence");
    assert_int_equal(stat.version, -1);
    assert_int_equal(fencing_open(f), 0);
    assert_int_equal(f->w.e.events_count, 0);
    assert_int_equal(fencing_set(f, 1, "/zookeeper/fence", "x"), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(fencing_delete(f, 1, "/zookeeper/fence"), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(
        fencing_send(f, 1, WIRE_SET_ACL, make_set_acl(&f->w.m, "/zookeeper/fence", -1)), 0);
    assert_int_equal(world_stat(&f->w, "/zookeeper/fence").czxid, stat.czxid);
    /* it is for whoever may administer the root, whatever its own ACL permits */
    maker_ids_add(&f->w.m, "digest", "u:p");
    maker_acl_reset(&f->w.m);
    maker_acl_add(&f->w.m, WIRE_PERM_ALL, "digest", "u:p");
    assert_int_equal(fencing_send(f, 1, WIRE_SET_ACL, make_set_acl(&f->w.m, "/", -1)), 0);
    maker_ids_reset(&f->w.m);
    struct slice closing = make_set_acl(&f->w.m, "/zookeeper/fence", -1);
    f->options |= COMMAND_BOUNDED;
    assert_int_equal(fencing_send(f, 1, WIRE_SET_ACL, closing), CONCLAVE_NO_AUTH);
    f->options &=
        ~(uint32_t)COMMAND_BOUNDED; /* from the log of an earlier version: as it was applied then */
    assert_int_equal(fencing_send(f, 1, WIRE_SET_ACL, closing), 0);
    f->options |= COMMAND_BOUNDED;
    maker_ids_add(&f->w.m, "digest", "u:p");
    closing = make_set_acl(&f->w.m, "/zookeeper/fence", -1);
    assert_int_equal(fencing_send(f, 1, WIRE_SET_ACL, closing), 0);
}

static void a_binding_is_well_formed(void **state)
{
    struct fencing *f = *state;
    static const struct {
        const char *prefix;
        const char *data;
        int32_t rc;
    } rows[] = {
        {"/app", "", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=lock", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/lock/", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/zookeeper/quota", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/lock\nlock=/other", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/lock\ncolour=red", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/lock\n\n", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/lock\nlock_delay_ms=-1", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/lock\nlock_delay_ms=86400001", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/lock\nlock_delay_ms=1s", CONCLAVE_BAD_ARGUMENTS},
        {"/app", "lock=/lock\nuntil_ms=5", CONCLAVE_BAD_ARGUMENTS}, /* the server's to say */
        {"/app", "lock=/app", CONCLAVE_BAD_ARGUMENTS},              /* would bind nothing */
        {"/lock/below", "lock=/lock", CONCLAVE_BAD_ARGUMENTS},
        {"/lock.leader", "lock=/lock", CONCLAVE_BAD_ARGUMENTS},
        {"/lock.leader/current", "lock=/lock", CONCLAVE_BAD_ARGUMENTS},
        {"", "lock=/lock", CONCLAVE_BAD_ARGUMENTS}, /* of "/" */
        {"/zookeeper", "lock=/lock", CONCLAVE_BAD_ARGUMENTS},
        {"/zookeeper/quota", "lock=/lock", CONCLAVE_BAD_ARGUMENTS},
        {"/zookeepers", "lock=/lock", 0},
        {"/app", "lock=/lock\nlock_delay_ms=0\n", 0},
        {"/app", "lock_delay_ms=86400000\nlock=/app/its/lock", 0},
        {"/locked", "lock=/lock", 0},
        {"/lock.leaders", "lock=/lock", 0},
        {"/not/there/yet", "lock=/neither", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(fencing_bind(f, rows[i].prefix, rows[i].data), rows[i].rc);
    }
    assert_int_equal(state_fence_bindings(f->w.s), 5);
    assert_int_equal(fencing_set(f, 1, LEAF, "lock"), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(fencing_create(f, 1, LEAF "/x", "", 0), CONCLAVE_BAD_ARGUMENTS);
}

static void a_binding_does_not_end_by_itself(void **state)
{
    struct fencing *f = *state;
    assert_int_equal(fencing_create(f, 1, "/zookeeper/fence/app", "", 0), 0);
    assert_int_equal(fencing_create(f, 1, LEAF, "lock=/lock", WIRE_MODE_EPHEMERAL),
                     CONCLAVE_BAD_ARGUMENTS);
    /* With a number behind it, it is none. */
    assert_int_equal(fencing_create(f, 1, LEAF, "x", WIRE_MODE_PERSISTENT_SEQUENTIAL), 0);
    assert_int_equal(fencing_send(f, 1, WIRE_CREATE_CONTAINER,
                                  make_create(&f->w.m, LEAF, "lock=/lock", WIRE_MODE_CONTAINER)),
                     CONCLAVE_BAD_ARGUMENTS);
    f->options |= COMMAND_TTL;
    assert_int_equal(fencing_send(f, 1, WIRE_CREATE_TTL,
                                  make_create_ttl(&f->w.m, LEAF, WIRE_MODE_PERSISTENT_TTL, 1000)),
                     CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(state_fence_bindings(f->w.s), 0);
    assert_int_equal(fencing_create(f, 1, LEAF, "lock=/lock", 0), 0);
    assert_int_equal(state_fence_bindings(f->w.s), 1);
}

static void a_server_that_has_it_off_makes_none_but_keeps_them(void **state)
{
    struct fencing *f = *state;
    bind_app(f);
    f->options = 0;
    assert_int_equal(fencing_bind(f, "/other", "lock=/lock"), CONCLAVE_UNIMPLEMENTED);
    assert_int_equal(fencing_set(f, 1, LEAF, "lock=/other"), CONCLAVE_UNIMPLEMENTED);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_delete(f, 1, LEAF), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
}

/* As with an ACL: who may not say who may do what at the prefix may not bind it either. */
static void who_binds_has_admin_at_the_prefix(void **state)
{
    struct fencing *f = *state;
    maker_ids_add(&f->w.m, "digest", "u:p");
    maker_acl_reset(&f->w.m);
    maker_acl_add(&f->w.m, WIRE_PERM_ALL, "digest", "u:p");
    assert_int_equal(fencing_create(f, 1, "/mine", "", 0), 0);
    maker_acl_reset(&f->w.m);
    maker_acl_add(&f->w.m, WIRE_PERM_ALL, "world", "anyone");
    assert_int_equal(fencing_bind(f, "/mine/below", "lock=/lock"), 0);
    maker_ids_reset(&f->w.m);
    static const char leaf[] = "/zookeeper/fence/mine/below/conclave_fence";
    assert_int_equal(fencing_bind(f, "/mine", "lock=/lock"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_bind(f, "/mine/other", "lock=/lock"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_set(f, 1, leaf, "lock=/lock"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_delete(f, 1, leaf), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_send(f, 1, WIRE_SET_ACL, make_set_acl(&f->w.m, leaf, -1)),
                     CONCLAVE_NO_AUTH);
    assert_false(f->w.e.fenced.refused);
    maker_ids_add(&f->w.m, "super", "");
    assert_int_equal(fencing_delete(f, 1, leaf), 0);
}

/* What changes no binding leaves alone what is known of them: making it costs a look at all. */
static void only_a_change_is_looked_at(void **state)
{
    struct fencing *f = *state;
    struct maker *m = &f->w.m;
    const bool *known = &f->w.s->fence.known;
    bind_app(f);
    assert_false(*known);
    assert_int_equal(state_fence_bindings(f->w.s), 1);
    assert_int_equal(fencing_create(f, 1, LEAF, "lock=/other", 0), CONCLAVE_NODE_EXISTS);
    assert_int_equal(fencing_set(f, 1, LEAF, "lock"), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(fencing_send(f, 1, WIRE_SET_DATA, make_set_data(m, LEAF, "lock=/other", 7)),
                     CONCLAVE_BAD_VERSION);
    assert_int_equal(fencing_send(f, 1, WIRE_SET_ACL, make_set_acl(m, LEAF, -1)), 0);
    assert_int_equal(fencing_create(f, 1, "/zookeeper/fence/other", "", 0), 0);
    assert_true(*known);
    assert_int_equal(fencing_set(f, 1, LEAF, "lock=/other"), 0);
    assert_false(*known);
    struct slice path = slice_str("/app");
    assert_true(slice_equal_str(fence_find(f->w.s, path)->terms.lock, "/other"));
    assert_int_equal(fencing_delete(f, 1, LEAF), 0);
    assert_false(*known);
    assert_int_equal(state_fence_bindings(f->w.s), 0);
}

static void there_is_a_limit(void **state)
{
    struct fencing *f = *state;
    char path[64];
    for (int i = 0; i < FENCE_NODES_MAX; i++) {
        (void)snprintf(path, sizeof path, "/zookeeper/fence/n%d", i);
        struct batch_header header = {.time_ms = 1, .sequence = 1};
        struct command c = {.session_id = 1,
                            .cxid = 1,
                            .type = WIRE_CREATE,
                            .ids = maker_ids(&f->w.m),
                            .body = make_create(&f->w.m, path, "", 0)};
        state_apply(f->w.s, &header, &c, &f->w.e);
        assert_int_equal(f->w.e.err, 0);
    }
    assert_int_equal(fencing_create(f, 1, "/zookeeper/fence/more", "", 0), CONCLAVE_QUOTA_EXCEEDED);
    assert_int_equal(fencing_delete(f, 1, "/zookeeper/fence/n0"), 0);
    assert_int_equal(fencing_create(f, 1, "/zookeeper/fence/more", "", 0), 0);
}

/* --- writes below a binding ------------------------------------------------------------------- */

static void expect_refused(struct fencing *f, int32_t rc, const char *prefix)
{
    assert_int_equal(rc, CONCLAVE_NO_AUTH);
    assert_true(f->w.e.fenced.refused);
    assert_true(slice_equal_str(f->w.e.fenced.prefix, prefix));
    assert_int_equal(f->w.e.events_count, 0);
}

/* Every kind of write, of the holder's session and of another. */
static void only_the_holder_writes(void **state)
{
    struct fencing *f = *state;
    struct maker *m = &f->w.m;
    assert_int_equal(fencing_create(f, 1, "/app/a", "", 0), 0);
    bind_app(f);
    fencing_join(f, 1, "/lock", "c-lock-");
    fencing_join(f, 2, "/lock", "b-lock-");
    uint64_t before = state_digest(f->w.s);
    int64_t zxid = state_zxid(f->w.s);
    expect_refused(f, fencing_create(f, 2, "/app/b", "", 0), "/app");
    expect_refused(f, fencing_create(f, 2, "/app/b", "", WIRE_MODE_EPHEMERAL), "/app");
    expect_refused(f, fencing_create(f, 2, "/app/b", "", WIRE_MODE_PERSISTENT_SEQUENTIAL), "/app");
    expect_refused(f, fencing_send(f, 2, WIRE_CREATE2, make_create(m, "/app/b", "", 0)), "/app");
    expect_refused(f, fencing_send(f, 2, WIRE_CREATE_CONTAINER, make_create(m, "/app/b", "", 4)),
                   "/app");
    f->options |= COMMAND_TTL;
    expect_refused(f, fencing_send(f, 2, WIRE_CREATE_TTL, make_create_ttl(m, "/app/b", 5, 1000)),
                   "/app");
    expect_refused(f, fencing_delete(f, 2, "/app/a"), "/app");
    expect_refused(f, fencing_set(f, 2, "/app/a", "x"), "/app");
    expect_refused(f, fencing_set(f, 2, "/app", "x"), "/app");
    expect_refused(f, fencing_delete(f, 3, "/app"), "/app");
    expect_refused(f, fencing_send(f, 2, WIRE_SET_ACL, make_set_acl(m, "/app/a", -1)), "/app");
    make_multi_begin(m);
    make_multi_create(m, WIRE_CREATE, "/elsewhere", "", 0);
    make_multi_set_data(m, "/app/a", "x", -1);
    expect_refused(f, fencing_send(f, 2, WIRE_MULTI, make_multi_end(m)), "/app");
    assert_int_equal(state_zxid(f->w.s), zxid + 12); /* each took one */
    f->w.s->zxid = zxid;
    assert_true(state_digest(f->w.s) == before); /* and changed nothing */
    f->w.s->zxid = zxid + 12;
    assert_int_equal(fencing_set(f, 2, "/application", "x"), CONCLAVE_NO_NODE);
    assert_int_equal(fencing_set(f, 2, "/", "x"), 0);
    assert_int_equal(fencing_create(f, 2, "/appendix", "", 0), 0);

    assert_int_equal(fencing_create(f, 1, "/app/b", "", 0), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    assert_int_equal(fencing_set(f, 1, "/app/a", "x"), 0);
    assert_int_equal(fencing_send(f, 1, WIRE_SET_ACL, make_set_acl(m, "/app/a", -1)), 0);
    assert_int_equal(fencing_delete(f, 1, "/app/a"), 0);
    assert_false(f->w.e.fenced.refused);
}

/* Who was fenced off is told that, and not what others did meanwhile; who may not ask at all is told no more. */
static void asked_after_the_acl_and_before_what_is_there(void **state)
{
    struct fencing *f = *state;
    assert_int_equal(fencing_create(f, 1, "/app/a", "", 0), 0);
    maker_acl_reset(&f->w.m);
    maker_acl_add(&f->w.m, WIRE_PERM_ALL, "digest", "u:p");
    assert_int_equal(fencing_create(f, 1, "/app/closed", "", 0), 0);
    maker_acl_reset(&f->w.m);
    maker_acl_add(&f->w.m, WIRE_PERM_ALL, "world", "anyone");
    bind_app(f);
    expect_refused(f, fencing_create(f, 2, "/app/a", "", 0), "/app");
    expect_refused(f, fencing_delete(f, 2, "/app/gone"), "/app");
    expect_refused(f, fencing_delete(f, 2, "/app"), "/app");
    expect_refused(f, fencing_send(f, 2, WIRE_SET_DATA, make_set_data(&f->w.m, "/app/a", "x", 7)),
                   "/app");
    assert_int_equal(fencing_create(f, 2, "/app/no/parent", "", 0), CONCLAVE_NO_NODE);
    assert_int_equal(fencing_set(f, 2, "/app/gone", "x"), CONCLAVE_NO_NODE);
    assert_int_equal(fencing_set(f, 2, "/app/closed", "x"), CONCLAVE_NO_AUTH);
    assert_false(f->w.e.fenced.refused);
    assert_int_equal(fencing_create(f, 2, "/app/", "", 0), CONCLAVE_BAD_ARGUMENTS);
}

static void the_hand_over_hands_the_writes_over(void **state)
{
    struct fencing *f = *state;
    bind_app(f);
    expect_refused(f, fencing_set(f, 1, "/app", "nobody"), "/app");
    const char *first = fencing_join(f, 1, "/lock", "z-lock-");
    fencing_join(f, 2, "/lock", "a-lock-");
    assert_int_equal(fencing_set(f, 1, "/app", "1"), 0);
    assert_int_equal(fencing_delete(f, 1, first), 0);
    expect_refused(f, fencing_set(f, 1, "/app", "late"), "/app");
    assert_int_equal(fencing_set(f, 2, "/app", "2"), 0);
    fencing_join(f, 1, "/lock", "0-lock-");
    expect_refused(f, fencing_set(f, 1, "/app", "late"), "/app");
    assert_int_equal(fencing_expire(f, 2), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "again"), 0);
    assert_int_equal(fencing_expire(f, 1), 0);
    expect_refused(f, fencing_set(f, 3, "/app", "nobody"), "/app");
}

/* A process that got the node's name from the holder has another session. */
static void a_multi_that_checks_the_holders_node_writes(void **state)
{
    struct fencing *f = *state;
    struct maker *m = &f->w.m;
    bind_app(f);
    const char *first = fencing_join(f, 1, "/lock", "z-lock-");
    const char *second = fencing_join(f, 2, "/lock", "a-lock-");
    for (int order = 0; order < 2; order++) {
        make_multi_begin(m);
        if (order == 0) {
            make_multi_check(m, first, -1);
        }
        make_multi_check(m, "/", -1);
        make_multi_set_data(m, "/app", "x", -1);
        make_multi_create(m, WIRE_CREATE, "/app/", "", WIRE_MODE_PERSISTENT_SEQUENTIAL);
        if (order == 1) {
            make_multi_check(m, first, -1);
        }
        assert_int_equal(fencing_send(f, 3, WIRE_MULTI, make_multi_end(m)), 0);
    }
    make_multi_begin(m);
    make_multi_check(m, second, -1);
    make_multi_set_data(m, "/app", "y", -1);
    expect_refused(f, fencing_send(f, 3, WIRE_MULTI, make_multi_end(m)), "/app");
    make_multi_begin(m);
    make_multi_check(m, first, 1); /* the check itself fails */
    make_multi_set_data(m, "/app", "y", -1);
    assert_int_equal(fencing_send(f, 3, WIRE_MULTI, make_multi_end(m)), CONCLAVE_BAD_VERSION);
    assert_int_equal(fencing_delete(f, 1, first), 0);
    make_multi_begin(m);
    make_multi_set_data(m, "/app", "y", -1);
    make_multi_check(m, first, -1);
    expect_refused(f, fencing_send(f, 3, WIRE_MULTI, make_multi_end(m)), "/app");
    assert_int_equal(world_stat(&f->w, "/app").version, 2);
}

static void the_parts_of_a_multi_see_those_before(void **state)
{
    struct fencing *f = *state;
    struct maker *m = &f->w.m;
    bind_app(f);
    char first[64];
    (void)snprintf(first, sizeof first, "%s", fencing_join(f, 1, "/lock", "z-lock-"));
    fencing_join(f, 2, "/lock", "a-lock-");
    make_multi_begin(m); /* let go first: too late */
    make_multi_delete(m, first, -1);
    make_multi_set_data(m, "/app", "x", -1);
    expect_refused(f, fencing_send(f, 1, WIRE_MULTI, make_multi_end(m)), "/app");
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0); /* it was taken back */
    expect_refused(f, fencing_set(f, 2, "/app", "x"), "/app");
    make_multi_begin(
        m); /* somebody else's node removed, written as the next: taken back as a whole */
    make_multi_delete(m, first, -1);
    make_multi_set_data(m, "/app", "x", -1);
    make_multi_check(m, "/not/there", -1);
    assert_int_equal(fencing_send(f, 2, WIRE_MULTI, make_multi_end(m)), CONCLAVE_NO_NODE);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    expect_refused(f, fencing_set(f, 2, "/app", "x"), "/app");
    make_multi_begin(m);
    make_multi_set_data(m, "/app", "last", -1);
    make_multi_delete(m, first, -1);
    assert_int_equal(fencing_send(f, 1, WIRE_MULTI, make_multi_end(m)), 0);
    assert_int_equal(fencing_set(f, 2, "/app", "x"), 0);
    make_multi_begin(m); /* unbound, written, and taken back */
    make_multi_delete(m, LEAF, -1);
    make_multi_set_data(m, "/app", "x", -1);
    make_multi_check(m, "/not/there", -1);
    assert_int_equal(fencing_send(f, 3, WIRE_MULTI, make_multi_end(m)), CONCLAVE_NO_NODE);
    expect_refused(f, fencing_set(f, 3, "/app", "x"), "/app");
}

static void the_deepest_binding_decides(void **state)
{
    struct fencing *f = *state;
    bind_app(f);
    assert_int_equal(fencing_create(f, 1, "/other", "", 0), 0);
    assert_int_equal(fencing_bind(f, "/app/deep", "lock=/other"), 0);
    fencing_join(f, 1, "/lock", "x-lock-");
    fencing_join(f, 2, "/other", "x-lock-");
    expect_refused(f, fencing_create(f, 1, "/app/deep", "", 0), "/app/deep");
    assert_int_equal(fencing_create(f, 2, "/app/deep", "", 0), 0);
    assert_int_equal(fencing_create(f, 2, "/app/deep/er", "", 0), 0);
    expect_refused(f, fencing_create(f, 2, "/app/deeper", "", 0), "/app");
    assert_int_equal(fencing_create(f, 1, "/app/deeper", "", 0), 0);
    assert_int_equal(fencing_delete(f, 1, "/zookeeper/fence/app/deep/conclave_fence"), 0);
    assert_int_equal(fencing_set(f, 1, "/app/deep", "x"), 0);
}

/* The lock may stand in what it fences: whoever wants it must be able to come. */
/* Who wanted the one lock would have to hold the other. */
static void a_lock_below_another_binding_is_refused(void **state)
{
    struct fencing *f = *state;
    static const struct {
        const char *prefix;
        const char *data;
        int rc;
    } rows[] = {
        {"/b", "lock=/app/lock", CONCLAVE_BAD_ARGUMENTS}, /* /app is bound to /lock */
        {"/b", "lock=/app", CONCLAVE_BAD_ARGUMENTS},
        {"/lock", "lock=/b", CONCLAVE_BAD_ARGUMENTS}, /* and the other way round */
        {"/app/deep", "lock=/lock", 0},
        {"/app/own", "lock=/app/own/lock", 0}, /* the deeper one decides over its own lock */
        {"/app/other", "lock=/app/own/lock", CONCLAVE_BAD_ARGUMENTS},
        {"/b", "lock=/lock/below", 0}, /* that lock is part of what is never fenced */
        {"/app", "lock=/lock", 0},     /* bound again */
    };
    bind_app(f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(fencing_bind(f, rows[i].prefix, rows[i].data), rows[i].rc);
    }
}

/* Who is first of a lock's contenders is found once for all that is bound to it. */
static void many_bindings_of_one_lock_are_one_look(void **state)
{
    enum { BINDINGS = 300 };
    struct fencing *f = *state;
    struct state *s = f->w.s;
    char prefix[32];
    for (int i = 0; i < BINDINGS; i++) {
        (void)snprintf(prefix, sizeof prefix, "/p%d", i);
        assert_int_equal(fencing_bind(f, prefix, "lock=/lock"), 0);
    }
    assert_int_equal(state_fence_bindings(s), BINDINGS);
    (void)fencing_join(f, 1, "/lock", "x-");
    for (int i = 0; i < BINDINGS; i++) {
        (void)snprintf(prefix, sizeof prefix, "/p%d", i);
        assert_int_equal(fencing_create(f, 2, prefix, "", 0), CONCLAVE_NO_AUTH);
        assert_int_equal(fencing_create(f, 1, prefix, "", 0), 0);
    }
    const struct fence_binding *keeper = s->fence.bindings[0].keeper;
    assert_true(keeper->memo.at != 0);
    for (size_t i = 0; i < BINDINGS; i++) {
        assert_ptr_equal(s->fence.bindings[i].keeper, keeper);
        assert_true(&s->fence.bindings[i] == keeper || s->fence.bindings[i].memo.at == 0);
    }
}

static void the_lock_and_the_way_to_it_are_open(void **state)
{
    struct fencing *f = *state;
    assert_int_equal(fencing_bind(f, "/svc", "lock=/svc/a/lock"), 0);
    assert_int_equal(fencing_create(f, 2, "/svc", "", 0), 0);
    assert_int_equal(fencing_create(f, 2, "/svc/a", "", 0), 0);
    expect_refused(f, fencing_create(f, 2, "/svc/b", "", 0), "/svc");
    expect_refused(f, fencing_set(f, 2, "/svc/a", "x"), "/svc");
    assert_int_equal(fencing_create(f, 2, "/svc/a/lock", "", 0), 0);
    const char *node = fencing_join(f, 3, "/svc/a/lock", "x-lock-");
    assert_int_equal(fencing_set(f, 2, "/svc/a/lock", "x"), 0);
    assert_int_equal(fencing_create(f, 3, "/svc/b", "", 0), 0);
    expect_refused(f, fencing_delete(f, 2, "/svc/b"), "/svc");
    assert_int_equal(fencing_create(f, 2, "/svc/a/lock.leader", "", 0), 0); /* of elections */
    assert_int_equal(fencing_create(f, 2, "/svc/a/lock.leader/current", "", 1), 0);
    expect_refused(f, fencing_create(f, 2, "/svc/a/lock.leaders", "", 0), "/svc");
    expect_refused(f, fencing_create(f, 2, "/svc/a/lock.", "", 0), "/svc");
    assert_int_equal(fencing_delete(f, 2, node), 0); /* an operator's way out */
    expect_refused(f, fencing_delete(f, 3, "/svc/b"), "/svc");
}

/* Expiry and collection are not refused. */
static void servers_clear_up_below_a_fence(void **state)
{
    struct fencing *f = *state;
    bind_app(f);
    fencing_join(f, 1, "/lock", "x-lock-");
    assert_int_equal(fencing_create(f, 1, "/app/e", "", WIRE_MODE_EPHEMERAL), 0);
    assert_int_equal(
        fencing_send(f, 1, WIRE_CREATE_CONTAINER, make_create(&f->w.m, "/app/box", "", 4)), 0);
    int64_t box = world_stat(&f->w, "/app/box").czxid;
    assert_int_equal(fencing_expire(f, 1), 0);
    assert_string_equal(world_events(&f->w), "2 /lock/x-lock-0000000000,4 /lock,2 /app/e,4 /app");
    struct buf body;
    buf_init(&body, 0);
    spent_encode(&body, &(struct spent){slice_str("/app/box"), box, box});
    assert_int_equal(fencing_send(f, 0, WIRE_DELETE_CONTAINER, buf_slice(&body)), 0);
    buf_finish(&body);
    assert_int_equal(world_read(&f->w, WIRE_EXISTS, "/app/box"), CONCLAVE_NO_NODE);
}

#define FENCED(name) cmocka_unit_test_setup_teardown(name, fencing_setup, fencing_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_server_without_fencing_knows_nothing_of_it, world_setup,
                                        world_teardown),
        FENCED(the_first_node_stays_as_it_was_made),
        FENCED(a_binding_is_well_formed),
        FENCED(a_binding_does_not_end_by_itself),
        FENCED(a_server_that_has_it_off_makes_none_but_keeps_them),
        FENCED(who_binds_has_admin_at_the_prefix),
        FENCED(only_a_change_is_looked_at),
        FENCED(there_is_a_limit),
        FENCED(only_the_holder_writes),
        FENCED(asked_after_the_acl_and_before_what_is_there),
        FENCED(the_hand_over_hands_the_writes_over),
        FENCED(a_multi_that_checks_the_holders_node_writes),
        FENCED(the_parts_of_a_multi_see_those_before),
        FENCED(the_deepest_binding_decides),
        FENCED(the_lock_and_the_way_to_it_are_open),
        FENCED(a_lock_below_another_binding_is_refused),
        FENCED(many_bindings_of_one_lock_are_one_look),
        FENCED(servers_clear_up_below_a_fence),
    };
    return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
