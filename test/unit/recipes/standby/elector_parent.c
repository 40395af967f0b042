/* The directory of an active/standby service: E180 to E182 and E196, and each request of a reset met by a fault. */
#include "support/standby.h"

#include <conclave/elector_admin.h>

enum { LONG_MS = 10000 /* no session ends by itself */ };

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

static void *reset_with_acl_thread(void *arg)
{
    struct standby *op = arg;
    struct conclave_elector_parent_options options = with_acl(false, false);
    int error = conclave_elector_reset(op->base.recipes, DIR, &options, PATIENCE_MS);
    return error == 0 ? NULL : op;
}

/* Others may do to it what they may do to the directory. */
static void E180_the_lock_of_a_reset_has_the_acl_of_its_options(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    pthread_t thread;
    void *failed;
    standby_open(&op, zk, 0, "op");
    assert_int_equal(reset(&op, false), 0); /* the directory is there */
    fake_zk_hold(zk, 0, WIRE_GET_CHILDREN2);
    assert_int_equal(pthread_create(&thread, NULL, reset_with_acl_thread, &op), 0);
    EVENTUALLY(fake_zk_exists(zk, LOCK_NODE));
    assert_true(acl_is(zk, LOCK_NODE, "digest:op:hash:31"));
    fake_zk_release(zk, 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
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

/* Whoever confirmed its death, confirmed it for the reset, too. */
static void E181_a_reset_believes_an_override(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    struct conclave_elector_view *view;
    standby_open(&op, zk, 0, "op");
    standby_dies(zk, "dead");
    assert_int_equal(conclave_elector_view(op.base.recipes, DIR, PATIENCE_MS, &view), 0);
    struct conclave_token token = view->active->token;
    conclave_elector_view_free(view);
    fake_zk_create(zk, OVERRIDE_NODE, "7", 0); /* of another that died */
    assert_int_equal(reset(&op, false), CONCLAVE_ECONFLICT);
    assert_int_equal(conclave_elector_override(op.base.recipes, DIR, token, NULL, 0, PATIENCE_MS),
                     0);
    assert_int_equal(reset(&op, false), 0);
    assert_int_equal(fake_zk_child_count(zk, DIR), 0);
    standby_finish(&op);
}

static void E181_a_reset_without_force_is_refused_during_a_hand_over(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    standby_open(&op, zk, 0, "op");
    assert_int_equal(reset(&op, false), 0);
    fake_zk_create(zk, DIR "/HandOver", "another's", 0);
    assert_int_equal(reset(&op, false), CONCLAVE_EBUSY);
    assert_true(fake_zk_exists(zk, DIR "/HandOver"));
    assert_false(fake_zk_exists(zk, LOCK_NODE));
    assert_int_equal(reset(&op, true), 0);
    assert_int_equal(fake_zk_child_count(zk, DIR), 0);
    standby_finish(&op);
}

/* A member of a line becomes active: it needs no lock. */
static void a_member_in_line_becomes_active(struct fake_zk *zk, void *ctx)
{
    if (!fake_zk_exists_locked(zk, DIR "/line")) {
        fake_zk_create_locked(zk, DIR "/line", "", 0);
    }
    fake_zk_create_locked(zk, DIR "/line/guid-n_0000000000", "member", 0);
    fake_zk_delete_locked(zk, CRUMB_NODE);
    fake_zk_create_locked(zk, CRUMB_NODE, "member", 0);
}

/* At each request of the reset: what makes the member active is not deleted. */
static void E181_a_member_that_joins_a_line_during_a_reset_stays_active(void **state)
{
    struct fake_zk *zk = *state;
    int refused = 0;
    for (int nth = 1; nth <= 14; nth++) {
        struct fake_hook joins = {.endpoint = 0,
                                  .op = FAKE_ANY_OP,
                                  .nth = nth,
                                  .action = FAKE_CALL,
                                  .fn = a_member_in_line_becomes_active};
        struct standby op;
        fake_zk_reset(zk);
        standby_open(&op, zk, 0, "op");
        assert_int_equal(reset(&op, false), 0);
        fake_zk_create(zk, DIR "/line", "", 0);
        fake_zk_create(zk, DIR "/members", "", 0);
        fake_zk_create(zk, CRUMB_NODE,
                       "conclave elector\nid=a\nincarnation=1\ntoken=5\nclean=1\n\nx", 0);
        fake_zk_hook(zk, &joins);
        int error = reset(&op, false);
        bool joined = fake_zk_hooks_left(zk) == 0;
        fake_zk_hooks_clear(zk);
        assert_true(error == 0 ||
                    (joined && (error == CONCLAVE_EBUSY || error == CONCLAVE_ECONFLICT)));
        refused += error != 0;
        assert_int_equal(fake_zk_child_count(zk, DIR "/line"), joined ? 1 : 0);
        assert_int_equal(fake_zk_exists(zk, CRUMB_NODE), joined);
        assert_int_equal(fake_zk_ephemerals(zk), 0);
        standby_finish(&op);
    }
    assert_true(refused >= 3);
}

/* The answer comes after the end of the call, as the node does: it must not bar the service. */
static void E196_a_lock_that_a_reset_makes_too_late_is_deleted(void **state)
{
    struct fake_zk *zk = *state;
    struct standby op;
    struct standby a;
    standby_open_for(&op, zk, 0, "op", LONG_MS);
    assert_int_equal(reset(&op, false), 0);
    fake_zk_hold(zk, 0, WIRE_CREATE2);
    assert_int_equal(conclave_elector_reset(op.base.recipes, DIR, NULL, 200), CONCLAVE_ETIMEDOUT);
    fake_zk_release(zk, 0);
    assert_true(exists(&op)); /* what was sent before has been carried out */
    EVENTUALLY(!fake_zk_exists(zk, LOCK_NODE));
    standby_join(&a, zk, 1, "a");
    EVENTUALLY(ACTIVE(&a));
    standby_finish(&a);
    standby_finish(&op);
}

/* The session of the reset ends, and a member takes over at once. */
static void a_member_takes_over(struct fake_zk *zk, void *ctx)
{
    if (fake_zk_exists_locked(zk, LOCK_NODE)) {
        fake_zk_expire_locked(zk, *(int64_t *)ctx);
        fake_zk_create_locked(zk, LOCK_NODE, "member", 0);
        fake_zk_create_locked(zk, CRUMB_NODE, "member", 0);
    }
}

static void E196_a_reset_deletes_nothing_after_the_end_of_its_session(void **state)
{
    struct fake_zk *zk = *state;
    int met = 0;
    for (int nth = 2; nth <= 14; nth++) {
        int64_t session_id;
        struct fake_hook end = {.endpoint = 0,
                                .op = FAKE_ANY_OP,
                                .nth = nth,
                                .action = FAKE_CALL,
                                .fn = a_member_takes_over,
                                .ctx = &session_id};
        struct standby op;
        fake_zk_reset(zk);
        standby_open(&op, zk, 0, "op");
        assert_int_equal(reset(&op, false), 0);
        fake_zk_create(zk, DIR "/members", "", 0);
        session_id = candidate_session(&op.base);
        fake_zk_hook(zk, &end);
        int error = reset(&op, false);
        fake_zk_hooks_clear(zk);
        assert_true(error == 0 || error == CONCLAVE_SESSION_EXPIRED);
        met += error != 0;
        assert_int_equal(fake_zk_exists(zk, LOCK_NODE), error != 0);
        assert_int_equal(fake_zk_exists(zk, CRUMB_NODE), error != 0);
        standby_finish(&op);
    }
    assert_true(met >= 5);
}

/* The answer to the last transaction is lost, and a member takes over before it is asked again. */
static void a_member_is_faster(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, LOCK_NODE, "member", 0);
    fake_zk_create_locked(zk, CRUMB_NODE, "member", 0);
}

static void E196_a_reset_does_not_delete_the_lock_of_a_member_that_is_faster(void **state)
{
    struct fake_zk *zk = *state;
    struct fake_hook faster = {
        .endpoint = 0, .op = WIRE_MULTI, .nth = 2, .action = FAKE_CALL, .fn = a_member_is_faster};
    struct standby op;
    standby_open_for(&op, zk, 0, "op", LONG_MS);
    assert_int_equal(reset(&op, false), 0);
    hook(zk, 0, WIRE_MULTI, NULL, 2, FAKE_DROP_REPLY);
    fake_zk_hook(zk, &faster); /* the third */
    assert_int_equal(reset(&op, false), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_true(fake_zk_exists(zk, LOCK_NODE));
    assert_true(fake_zk_exists(zk, CRUMB_NODE));
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
        E_TEST(E180_the_lock_of_a_reset_has_the_acl_of_its_options),
        E_TEST(E181_a_reset_without_force_is_refused_while_one_is_or_may_be_active),
        E_TEST(E181_a_reset_believes_an_override),
        E_TEST(E181_a_reset_without_force_is_refused_during_a_hand_over),
        E_TEST(E181_a_member_that_joins_a_line_during_a_reset_stays_active),
        E_TEST(E196_a_lock_that_a_reset_makes_too_late_is_deleted),
        E_TEST(E196_a_reset_deletes_nothing_after_the_end_of_its_session),
        E_TEST(E196_a_reset_does_not_delete_the_lock_of_a_member_that_is_faster),
        E_TEST(a_forced_reset_ends_the_active_ones_time),
        E_TEST(members_on_standby_survive_a_reset),
        E_TEST(E182_the_acl_is_set_on_existing_parents_only_when_asked_for),
        E_TEST(questions_end_in_time),
        E_TEST(E180_a_fault_at_every_request_of_a_reset),
    };
    return RUN_TESTS(tests);
}
