/* The directory of an active/standby service: E180 to E182, and each request of a reset met by a fault. */
#include "support/standby.h"

#include <conclave/elector_admin.h>

static const struct conclave_acl own_acl[] = {{31, "digest", "op:hash"}};

static struct conclave_elector_parent_options with_acl(bool set_acl, bool force)
{
    struct conclave_elector_parent_options options = CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT;
    options.acl = own_acl;
    options.acl_count = 1;
    options.set_acl = set_acl;
    options.force = force;
    return options;
}

static bool exists(struct standby *m)
{
    bool there;
    assert_int_equal(conclave_elector_parent_exists(m->base.recipes, DIR, PATIENCE_MS, &there), 0);
    return there;
}

static bool acl_is(struct fake_zk *zk, const char *path, const char *expected)
{
    char acl[256];
    return fake_zk_acl(zk, path, acl) && strcmp(acl, expected) == 0;
}

static int reset(struct standby *m, bool force)
{
    struct conclave_elector_parent_options options = CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT;
    options.force = force;
    return conclave_elector_reset(m->base.recipes, DIR, &options, PATIENCE_MS);
}

static void E180_a_reset_deletes_all_and_makes_the_directory(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    standby_open(&op, zk, 0, "op");
    assert_false(exists(&op));
    assert_int_equal(reset(&op, false), 0); /* there was nothing */
    assert_true(exists(&op));
    assert_true(fake_zk_exists(zk, DIR));
    fake_zk_create(zk, DIR "/line", "", 0);
    fake_zk_create(zk, DIR "/deep", "", 0);
    fake_zk_create(zk, DIR "/deep/er", "x", 0);
    fake_zk_create(zk, DIR "/deep/er/still", "x", 0);
    fake_zk_create(zk, CRUMB_NODE, "conclave elector\nid=a\nincarnation=1\ntoken=5\nclean=1\n\nx",
                   0);
    int64_t before = fake_zk_czxid(zk, DIR);
    struct conclave_elector_parent_options options = with_acl(false, false);
    assert_int_equal(conclave_elector_reset(op.base.recipes, DIR, &options, PATIENCE_MS), 0);
    assert_true(fake_zk_czxid(zk, DIR) > before);
    assert_int_equal(fake_zk_child_count(zk, DIR), 0);
    assert_true(acl_is(zk, DIR, "digest:op:hash:31"));
    assert_int_equal(fake_zk_ephemerals(zk), 0);
    standby_finish(&op);
}

static void E181_a_reset_without_force_is_refused_while_one_is_or_may_be_active(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby op;
    standby_open(&op, zk, 2, "op");
    for (int herd_free = 0; herd_free <= 1; herd_free++) {
        standby_open(&a, zk, 0, "a");
        a.herd_free = herd_free == 1;
        standby_start(&a);
        EVENTUALLY(ACTIVATED(&a));
        assert_int_equal(reset(&op, false), CONCLAVE_EBUSY);
        STAYS(ACTIVE(&a), 50);
        assert_true(standby_crumb_has(zk, "id=a\n"));
        standby_finish(&a);
        assert_false(fake_zk_exists(zk, LOCK_NODE));
        assert_int_equal(reset(&op, false), 0);
    }
    standby_dies(zk, "dead");
    assert_int_equal(reset(&op, false), CONCLAVE_ECONFLICT);
    assert_false(fake_zk_exists(zk, LOCK_NODE)); /* given back */
    assert_true(standby_crumb_has(zk, "id=dead\n"));
    assert_int_equal(reset(&op, true), 0);
    assert_false(fake_zk_exists(zk, CRUMB_NODE));
    standby_finish(&op);
}

static void a_forced_reset_ends_the_active_ones_time(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby op;
    standby_open(&op, zk, 2, "op");
    standby_join(&a, zk, 0, "a");
    EVENTUALLY(ACTIVATED(&a));
    assert_int_equal(reset(&op, true), 0);
    EVENTUALLY(standby_get(&a, &a.deactivated) == 1);
    EVENTUALLY(standby_get(&a, &a.activated) == 2); /* it goes on in the new directory */
    standby_finish(&a);
    standby_finish(&op);
}

/* Members on standby go on as well, whatever they make while it is at work. */
static void members_on_standby_survive_a_reset(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby op;
    standby_open(&op, zk, 2, "op");
    standby_open(&a, zk, 0, "a");
    a.health = CONCLAVE_HEALTH_UNHEALTHY;
    standby_start(&a);
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, DIR, "", 0);
    fake_zk_create(zk, LOCK_NODE, "another's", candidate_session(&op.base));
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_HEALTHY);
    EVENTUALLY(STATE_IS(&a, STANDBY));
    assert_int_equal(reset(&op, false),
                     CONCLAVE_EBUSY); /* not this call's, though this session's */
    assert_int_equal(reset(&op, true), 0);
    EVENTUALLY(ACTIVATED(&a));
    standby_finish(&a);
    standby_finish(&op);
}

static void E182_the_acl_is_set_on_existing_parents_only_when_asked_for(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    struct conclave_elector_parent_options options = with_acl(false, false);
    standby_open(&op, zk, 0, "op");
    assert_int_equal(conclave_elector_parent_make(op.base.recipes, "/app", NULL, PATIENCE_MS), 0);
    assert_true(acl_is(zk, "/app", "world:anyone:31"));
    assert_int_equal(conclave_elector_parent_make(op.base.recipes, DIR, &options, PATIENCE_MS), 0);
    assert_true(acl_is(zk, "/app", "world:anyone:31"));
    assert_true(acl_is(zk, DIR, "digest:op:hash:31"));
    options.set_acl = true;
    assert_int_equal(conclave_elector_parent_make(op.base.recipes, DIR, &options, PATIENCE_MS), 0);
    assert_true(acl_is(zk, "/app", "digest:op:hash:31"));
    assert_true(acl_is(zk, DIR, "digest:op:hash:31"));
    options.acl = NULL;
    options.acl_count = 0;
    assert_int_equal(conclave_elector_parent_make(op.base.recipes, DIR, &options, PATIENCE_MS),
                     CONCLAVE_EINVAL);
    options.size = 1;
    assert_int_equal(conclave_elector_reset(op.base.recipes, DIR, &options, PATIENCE_MS),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_elector_parent_make(op.base.recipes, "/", NULL, PATIENCE_MS),
                     CONCLAVE_EINVAL);
    standby_finish(&op);
}

/* A server that answers nothing: every question ends in time. */
static void questions_end_in_time(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    struct conclave_elector_view *view;
    struct conclave_elector_member **m;
    size_t count;
    bool there;
    standby_open_for(&op, zk, 0, "op", PATIENCE_MS);
    assert_false(exists(&op));
    fake_zk_link(zk, 0, FAKE_SILENT);
    assert_int_equal(conclave_elector_view(op.base.recipes, DIR, 20, &view), CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_elector_parent_exists(op.base.recipes, DIR, 20, &there),
                     CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_elector_parent_make(op.base.recipes, DIR, NULL, 20),
                     CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_elector_reset(op.base.recipes, DIR, NULL, 20), CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_elector_member(op.base.recipes, DIR, "a", 20, &m),
                     CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_elector_members(op.base.recipes, DIR, 20, &m, &count),
                     CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_elector_hand_over(op.base.recipes, DIR, "a", 20, NULL),
                     CONCLAVE_ETIMEDOUT);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(conclave_elector_parent_exists(op.base.recipes, DIR, PATIENCE_MS, &there) == 0);
    standby_finish(&op);
}

/* A fault at each request: it ends as it should, or with an error and can be repeated; no lock stays. */
static void E180_a_fault_at_every_request_of_a_reset(void **state)
{
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE,
                                               FAKE_EXPIRE_AFTER};
    struct fake_zk *zk = *state;
    int met = 0;
    for (size_t a = 0; a < sizeof actions / sizeof actions[0]; a++) {
        for (int nth = 1; nth <= 14; nth++) {
            struct standby op;
            struct conclave_elector_parent_options options = with_acl(true, false);
            fake_zk_reset(zk);
            standby_open(&op, zk, 0, "op");
            EVENTUALLY(candidate_session(&op.base) != 0);
            fake_zk_create(zk, "/app", "", 0);
            fake_zk_create(zk, DIR, "", 0);
            fake_zk_create(zk, DIR "/members", "", 0);
            hook(zk, 0, FAKE_ANY_OP, NULL, nth, actions[a]);
            int error = conclave_elector_reset(op.base.recipes, DIR, &options, PATIENCE_MS);
            met += fake_zk_hooks_left(zk) == 0;
            fake_zk_hooks_clear(zk);
            if (error != 0) {
                assert_int_equal(error, CONCLAVE_SESSION_EXPIRED);
                EVENTUALLY(conclave_elector_reset(op.base.recipes, DIR, &options, PATIENCE_MS) ==
                           0);
            }
            assert_int_equal(fake_zk_ephemerals(zk), 0);
            assert_int_equal(fake_zk_child_count(zk, DIR), 0);
            assert_true(acl_is(zk, DIR, "digest:op:hash:31"));
            assert_true(acl_is(zk, "/app", "digest:op:hash:31"));
            standby_finish(&op);
        }
    }
    assert_true(met >= 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E180_a_reset_deletes_all_and_makes_the_directory),
        E_TEST(E181_a_reset_without_force_is_refused_while_one_is_or_may_be_active),
        E_TEST(a_forced_reset_ends_the_active_ones_time),
        E_TEST(members_on_standby_survive_a_reset),
        E_TEST(E182_the_acl_is_set_on_existing_parents_only_when_asked_for),
        E_TEST(questions_end_in_time),
        E_TEST(E180_a_fault_at_every_request_of_a_reset),
    };
    return RUN_TESTS(tests);
}
