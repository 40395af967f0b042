/* The elector against a server that misbehaves on command: E97 to E102, E122, and what becomes of it
 * when links, sessions and nodes go. */
#include "support/standby.h"

enum {
    TURNS = 10,         /* of two that are active in turn */
    ENDING_MS = 3000,   /* the session of one whose lease ends in time */
    NOTICED_MS = 10000, /* of one that must renew its lease soon to learn that it has lost it */
};

static void the_first_is_active_and_the_second_waits(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby b;
    standby_join(&a, zk, 0, "a");
    EVENTUALLY(ACTIVATED(&a));
    assert_true(STATE_IS(&a, ACTIVE));
    assert_int_equal(a.token, fake_zk_czxid(zk, LOCK_NODE));
    assert_int_equal(conclave_elector_token(a.elector).czxid, a.token);
    standby_join(&b, zk, 1, "b");
    EVENTUALLY(STATE_IS(&b, STANDBY));
    STAYS(!ACTIVE(&b), 300);
    assert_true(standby_crumb_has(zk, "id=a\n"));
    standby_stop(&a);
    EVENTUALLY(ACTIVATED(&b));
    assert_int_equal(standby_get(&b, &b.fenced), 0);
    assert_true(b.token > a.token);
    assert_true(b.active_from_ns > a.active_to_ns);
    standby_finish(&b);
    standby_finish(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* The owner of the lock does not tell them apart; nor does their id, if a service is opened twice. */
static void E63_two_members_of_one_session_exclude_each_other(void **state)
{
    struct fake_zk *zk = *state;
    for (int i = 0; i < 8; i++) {
        struct standby a;
        struct standby b;
        standby_open(&a, zk, 0, "a");
        standby_open(&b, zk, 1, i % 4 < 2 ? "b" : "a");
        a.layout = b.layout = (enum conclave_elector_layout)(i % 2);
        a.herd_free = b.herd_free = i >= 4;
        standby_start(&a);
        EVENTUALLY(ACTIVE(&a));
        struct conclave_recipes *own = b.base.recipes;
        b.base.recipes = a.base.recipes;
        standby_start(&b);
        b.base.recipes = own;
        EVENTUALLY(STATE_IS(&b, STANDBY) || ACTIVE(&b));
        STAYS(!ACTIVE(&b), 200);
        standby_stop(&a);
        EVENTUALLY(ACTIVE(&b));
        assert_int_equal(standby_get(&b, &b.fenced), 0);
        assert_true(b.token > a.token);
        assert_true(b.active_from_ns > a.active_to_ns);
        standby_finish(&b);
        standby_finish(&a);
        assert_int_equal(fake_zk_ephemerals(zk), 0);
    }
}

static void E97_a_dead_one_is_fenced_before_another_is_active(void **state)
{
    struct fake_zk *zk = *state;
    struct standby b;
    standby_dies(zk, "a");
    standby_open(&b, zk, 1, "b");
    b.fence_ms = 100;
    standby_start(&b);
    EVENTUALLY(STATE_IS(&b, FENCING));
    assert_int_equal(standby_get(&b, &b.activated), 0);
    EVENTUALLY(ACTIVATED(&b));
    assert_int_equal(b.fenced, 1);
    assert_true(standby_fenced(&b, "a"));
    assert_true(standby_crumb_has(zk, "id=b\n"));
    standby_finish(&b);
}

static void E97_one_that_cannot_be_fenced_blocks_and_its_breadcrumb_stays(void **state)
{
    struct fake_zk *zk = *state;
    struct standby b;
    standby_dies(zk, "a");
    standby_open(&b, zk, 1, "b");
    b.fail_fence = 3;
    standby_start(&b);
    EVENTUALLY(standby_get(&b, &b.fenced) == 2);
    assert_int_equal(standby_get(&b, &b.activated), 0);
    assert_true(standby_crumb_has(zk, "id=a\n"));
    EVENTUALLY(ACTIVATED(&b)); /* the fourth time */
    assert_int_equal(standby_get(&b, &b.fenced), 4);
    standby_finish(&b);
}

static void an_operator_may_say_that_it_is_dead(void **state)
{
    struct fake_zk *zk = *state;
    struct standby b;
    struct conclave_elector_view *view;
    struct conclave_token wrong = {1};
    standby_dies(zk, "a");
    standby_open(&b, zk, 1, "b");
    b.fail_fence = 1000;
    standby_start(&b);
    EVENTUALLY(standby_get(&b, &b.fenced) >= 2);
    assert_int_equal(conclave_elector_view(b.base.recipes, DIR, PATIENCE_MS, &view), 0);
    assert_non_null(view->active);
    assert_string_equal(view->active->id, "a");
    assert_false(view->active->clean);
    assert_int_equal(conclave_elector_override(b.base.recipes, DIR, wrong, NULL, 0, PATIENCE_MS),
                     CONCLAVE_ECONFLICT);
    assert_int_equal(
        conclave_elector_override(b.base.recipes, DIR, view->active->token, NULL, 0, PATIENCE_MS),
        0);
    conclave_elector_view_free(view);
    EVENTUALLY(ACTIVATED(&b));
    assert_false(fake_zk_exists(zk, OVERRIDE_NODE)); /* for this one only */
    standby_finish(&b);
}

static void E98_lock_lost_during_a_fence_means_no_activation(void **state)
{
    struct fake_zk *zk = *state;
    struct standby b;
    standby_dies(zk, "a");
    standby_open(&b, zk, 1, "b");
    b.fence_waits = true;
    standby_start(&b);
    EVENTUALLY(standby_get(&b, &b.fenced) == 1);
    struct standby c;
    standby_open(&c, zk, 2, "c");
    c.fail_fence = 1000;
    fake_zk_delete(zk, LOCK_NODE); /* an operator; and c is there first */
    standby_start(&c);
    fake_zk_link(zk, 1, FAKE_REFUSE);
    fake_zk_expire(zk, candidate_session(&b.base));
    b.fence_waits = false;
    STAYS(standby_get(&b, &b.activated) == 0, 200);
    assert_true(standby_crumb_has(zk, "id=a\n"));
    fake_zk_link(zk, 1, FAKE_UP);
    EVENTUALLY(ACTIVATED(&b)); /* c gives up again and again, b fences again */
    assert_true(standby_get(&b, &b.fenced) >= 2);
    standby_finish(&b);
    standby_finish(&c);
}

static void E99_the_same_id_in_another_incarnation_is_fenced(void **state)
{
    struct fake_zk *zk = *state;
    struct standby twin;
    standby_dies(zk, "a");
    standby_join(&twin, zk, 1, "a");
    EVENTUALLY(ACTIVATED(&twin));
    assert_int_equal(twin.fenced, 1);
    assert_true(standby_fenced(&twin, "a"));
    standby_finish(&twin);
}

static void the_same_incarnation_need_not_be_fenced(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    standby_open(&a, zk, 0, "a");
    a.incarnation = "one";
    standby_start(&a);
    EVENTUALLY(ACTIVATED(&a));
    fake_zk_expire(zk, 0);
    EVENTUALLY(standby_get(&a, &a.deactivated) == 1);
    EVENTUALLY(standby_get(&a, &a.activated) == 2);
    assert_int_equal(a.fenced, 0);
    standby_finish(&a);
}

static void E100_an_orderly_end_leaves_nobody_to_fence(void **state)
{
    struct fake_zk *zk = *state;
    for (int layout = 0; layout <= CONCLAVE_ELECTOR_LAYOUT_HADOOP; layout++) {
        struct standby a;
        struct standby b;
        standby_open(&a, zk, 0, "a");
        a.layout = (enum conclave_elector_layout)layout;
        standby_start(&a);
        EVENTUALLY(ACTIVATED(&a));
        standby_finish(&a);
        if (layout == CONCLAVE_ELECTOR_LAYOUT_HADOOP) {
            assert_false(fake_zk_exists(zk, CRUMB_NODE));
        } else {
            assert_true(standby_crumb_has(zk, "clean=1\n"));
        }
        standby_open(&b, zk, 1, "b");
        b.layout = (enum conclave_elector_layout)layout;
        standby_start(&b);
        EVENTUALLY(ACTIVATED(&b));
        assert_int_equal(b.fenced, 0);
        standby_finish(&b);
    }
}

static void one_that_is_not_sure_to_have_stopped_is_fenced(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby b;
    standby_join(&a, zk, 0, "a");
    EVENTUALLY(ACTIVATED(&a));
    a.fail_deactivate = -1;
    standby_finish(&a);
    assert_true(standby_crumb_has(zk, "clean=0\n"));
    standby_join(&b, zk, 1, "b");
    EVENTUALLY(ACTIVATED(&b));
    assert_int_equal(b.fenced, 1);
    standby_finish(&b);
}

static void E101_a_breadcrumb_whose_answer_was_lost_counts(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    standby_open(&a, zk, 0, "a");
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
    standby_start(&a);
    EVENTUALLY(ACTIVATED(&a));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(a.fenced, 0);
    assert_int_equal(standby_get(&a, &a.activated), 1);
    standby_finish(&a);
}

static void E102_a_lock_whose_answer_was_lost_is_active_not_standby(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    standby_open(&a, zk, 0, "a");
    hook(zk, 0, WIRE_CREATE2, LOCK_NODE, 2, FAKE_DROP_REPLY); /* the first has no parent yet */
    standby_start(&a);
    EVENTUALLY(ACTIVATED(&a));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(a.states & 1 << CONCLAVE_ELECTOR_STANDBY, 0);
    standby_finish(&a);
}

/* The answer to the first creation is lost, the second is refused: the first was carried out all the same. */
static void E102_a_lock_whose_answer_was_lost_does_not_stay_after_a_refusal(void **state)
{
    struct fake_zk *zk = *state;
    struct fake_hook refusal = {.endpoint = 0,
                                .op = WIRE_CREATE2,
                                .path = LOCK_NODE,
                                .nth = 2,
                                .action = FAKE_ERROR,
                                .error = CONCLAVE_NO_AUTH};
    struct standby a;
    standby_open_for(&a, zk, 0, "a", 10000);
    hook(zk, 0, WIRE_CREATE2, LOCK_NODE, 2, FAKE_DROP_REPLY); /* the first has no parent yet */
    fake_zk_hook(zk, &refusal);                               /* the third */
    standby_start(&a);
    EVENTUALLY(standby_get(&a, &a.closed) == 1);
    assert_false(fake_zk_exists(zk, LOCK_NODE));
    standby_finish(&a);
}

/* The client of a member may be an operator's, too. */
static void a_lock_of_the_same_session_is_not_taken_for_its_own(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    standby_open(&a, zk, 0, "a");
    a.health = CONCLAVE_HEALTH_UNHEALTHY;
    standby_start(&a);
    EVENTUALLY(candidate_session(&a.base) != 0);
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, DIR, "", 0);
    fake_zk_create(zk, LOCK_NODE, "reset", candidate_session(&a.base));
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_HEALTHY);
    EVENTUALLY(STATE_IS(&a, STANDBY));
    STAYS(!ACTIVE(&a), 50);
    standby_stop(&a);
    assert_true(fake_zk_exists(zk, LOCK_NODE));
    standby_finish(&a);
}

static int the_old_version(void *ctx, int32_t *ret)
{
    *ret = *(int32_t *)ctx;
    return 0;
}

static void E122_who_lost_the_lock_to_an_operator_is_fenced_out(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby b;
    struct conclave_op write = conclave_op_create(DIR "/x", "", 0, CONCLAVE_PERSISTENT);
    standby_join(&a, zk, 0, "a");
    EVENTUALLY(ACTIVATED(&a));
    assert_int_equal(conclave_elector_fenced_multi(a.elector, &write, 1, NULL), 0);
    int32_t version;
    client_lock(a.base.client);
    version = a.elector->crumb_version;
    client_unlock(a.base.client);
    standby_join(&b, zk, 1, "b");
    EVENTUALLY(STATE_IS(&b, STANDBY));
    a.fail_deactivate = -1;
    fake_zk_delete(zk, LOCK_NODE);
    EVENTUALLY(standby_get(&a, &a.deactivated) == 1);
    assert_int_equal(a.why, CONCLAVE_ELOST);
    assert_int_equal(a.stop_within_ms, 0);
    EVENTUALLY(ACTIVATED(&b) || ACTIVATED(&a));
    write.path = DIR "/y";
    const struct fenced_version old = {the_old_version, &version};
    assert_int_equal(fenced_multi_version(a.base.client, CRUMB_NODE, &old, &write, 1, NULL),
                     CONCLAVE_EFENCED);
    assert_false(fake_zk_exists(zk, DIR "/y"));
    standby_finish(&a);
    standby_finish(&b);
}

/* A cedes to b. When a is back before b noticed, a cedes again, for longer. Returns how long it stays out. */
static int64_t cede_to(struct standby *a, struct standby *b, int64_t stay_out_ms)
{
    for (;; stay_out_ms *= 2) {
        int active = standby_get(a, &a->activated);
        assert_int_equal(conclave_elector_cede(a->elector, stay_out_ms), 0);
        EVENTUALLY(ACTIVATED(b) || standby_get(a, &a->activated) > active);
        if (ACTIVATED(b)) {
            return stay_out_ms;
        }
    }
}

/* Writes as a says as long as it may, each time with the tokens that it had before and after. */
struct writing {
    struct standby *member;
    atomic_bool stop;
    atomic_int done;
};

static void *write_on(void *arg)
{
    struct writing *w = arg;
    struct conclave_op write =
        conclave_op_create(DIR "/log/w-", "", 0, CONCLAVE_PERSISTENT_SEQUENTIAL);
    while (!atomic_load(&w->stop)) {
        int error = conclave_elector_fenced_multi(w->member->elector, &write, 1, NULL);
        assert_true(error == 0 || error == CONCLAVE_EFENCED);
        if (error == 0) {
            atomic_fetch_add(&w->done, 1);
        }
    }
    return NULL;
}

/* In Hadoop's layout every breadcrumb is a new node, whose versions begin at 0: a transaction of a's must
 * not find the breadcrumb of b at the version that its own had. */
static void no_write_lands_in_anothers_time(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby b;
    struct writing writing = {.member = &a};
    struct conclave_op log = conclave_op_create(DIR "/log", "", 0, CONCLAVE_PERSISTENT);
    struct conclave_op list = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, DIR "/log", 0);
    struct conclave_reply *reply;
    int64_t from[TURNS];
    int64_t to[TURNS];
    pthread_t thread;
    standby_open(&a, zk, 0, "a");
    standby_open(&b, zk, 1, "b");
    a.layout = b.layout = CONCLAVE_ELECTOR_LAYOUT_HADOOP;
    standby_start(&a);
    EVENTUALLY(ACTIVATED(&a));
    assert_int_equal(conclave_call(a.base.client, &log, NULL), 0);
    standby_start(&b);
    EVENTUALLY(STATE_IS(&b, STANDBY));
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writing), 0);
    for (int turn = 0; turn < TURNS; turn++) {
        EVENTUALLY(ACTIVATED(&a));
        from[turn] = conclave_elector_token(a.elector).czxid;
        int before = atomic_load(&writing.done);
        EVENTUALLY(atomic_load(&writing.done) > before);
        EVENTUALLY(STATE_IS(&b, STANDBY));
        (void)cede_to(&a, &b, 30);
        EVENTUALLY(STATE_IS(&a, STANDBY));
        to[turn] =
            conclave_elector_token(b.elector).czxid; /* the lock was created with this zxid */
        (void)cede_to(&b, &a, 30);
    }
    atomic_store(&writing.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(conclave_call(a.base.client, &list, &reply), 0);
    assert_true(reply->children_count >= TURNS);
    for (size_t i = 0; i < reply->children_count; i++) {
        char path[256];
        struct conclave_reply *stat;
        snprintf(path, sizeof path, DIR "/log/%s", reply->children[i]);
        struct conclave_op exists = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
        assert_int_equal(conclave_call(a.base.client, &exists, &stat), 0);
        bool good =
            stat->stat.czxid > from[TURNS - 1]; /* whose time comes later is not known here */
        for (int turn = 0; turn < TURNS; turn++) {
            good = good || (stat->stat.czxid > from[turn] && stat->stat.czxid < to[turn]);
        }
        assert_true(good);
        conclave_reply_free(stat);
    }
    conclave_reply_free(reply);
    standby_finish(&a);
    standby_finish(&b);
}

static void a_breadcrumb_that_another_wrote_ends_the_lease(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct conclave_op set = conclave_op_set(CRUMB_NODE, "another", 7, -1);
    standby_open_for(&a, zk, 0, "a", NOTICED_MS);
    standby_start(&a);
    EVENTUALLY(ACTIVATED(&a));
    a.fail_deactivate = -1;
    assert_int_equal(conclave_call(a.base.client, &set, NULL), 0);
    EVENTUALLY(standby_get(&a, &a.deactivated) == 1);
    EVENTUALLY(standby_get(&a, &a.fenced) == 1); /* the node there now is a stranger's */
    assert_true(standby_fenced(&a, ""));
    standby_finish(&a);
}

static void the_lease_ends_before_another_can_be_active(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby b;
    standby_open_for(&a, zk, 0, "a", ENDING_MS);
    standby_start(&a);
    EVENTUALLY(ACTIVATED(&a));
    standby_join(&b, zk, 1, "b");
    EVENTUALLY(STATE_IS(&b, STANDBY));
    a.fail_deactivate = -1;
    fake_zk_link(zk, 0, FAKE_SILENT);
    EVENTUALLY(ACTIVATED(&b));
    assert_int_equal(standby_get(&a, &a.deactivated), 1);
    assert_true(a.active_to_ns < b.active_from_ns);
    assert_int_equal(b.fenced, 1);
    fake_zk_link(zk, 0, FAKE_UP);
    standby_finish(&b);
    standby_finish(&a);
}

static void only_a_healthy_one_takes_part(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby b;
    standby_open(&a, zk, 0, "a");
    a.health = CONCLAVE_HEALTH_INITIALIZING;
    standby_start(&a);
    STAYS(!ACTIVE(&a) && !fake_zk_exists(zk, LOCK_NODE), 100);
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_HEALTHY);
    EVENTUALLY(ACTIVATED(&a));
    standby_join(&b, zk, 1, "b");
    EVENTUALLY(STATE_IS(&b, STANDBY));
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_NOT_RESPONDING);
    EVENTUALLY(ACTIVATED(&b));
    assert_int_equal(standby_get(&b, &b.fenced), 1); /* whatever it says of itself */
    EVENTUALLY(STATE_IS(&a, NEUTRAL));
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_HEALTHY);
    EVENTUALLY(STATE_IS(&a, STANDBY));
    standby_finish(&b);
    standby_finish(&a);
}

static void who_cedes_stays_out_for_a_while(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby b;
    standby_join(&a, zk, 0, "a");
    EVENTUALLY(ACTIVATED(&a));
    standby_join(&b, zk, 1, "b");
    EVENTUALLY(STATE_IS(&b, STANDBY));
    int64_t begin_ns = now_ns();
    int64_t stay_out_ms = cede_to(&a, &b, 300);
    assert_int_equal(standby_get(&b, &b.fenced), 0);
    EVENTUALLY(STATE_IS(&a, STANDBY)); /* back in the race, and not active */
    assert_true(now_ns() - begin_ns >= stay_out_ms * 1000000);
    standby_finish(&a);
    standby_finish(&b);
}

static void a_failed_activation_passes_it_on(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    standby_open(&a, zk, 0, "a");
    a.fail_activate = 2;
    standby_start(&a);
    EVENTUALLY(standby_get(&a, &a.deactivated) == 2);
    EVENTUALLY(ACTIVATED(&a));
    assert_int_equal(standby_get(&a, &a.activated), 3);
    standby_finish(&a);
}

static void in_a_line_one_departure_wakes_one(void **state)
{
    struct fake_zk *zk = *state;
    struct standby m[4];
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        standby_open(&m[i], zk, i, names[i]);
        m[i].herd_free = true;
        standby_start(&m[i]);
        EVENTUALLY(STATE_IS(&m[i], STANDBY) || ACTIVE(&m[i]));
    }
    EVENTUALLY(ACTIVATED(&m[0]));
    requests_settled(zk, FAKE_ANY_ENDPOINT);
    fake_zk_count_reset(zk);
    standby_stop(&m[0]);
    EVENTUALLY(ACTIVATED(&m[1]));
    assert_int_equal(standby_get(&m[1], &m[1].fenced), 0);
    assert_int_equal(
        fake_zk_count(zk, 2, WIRE_GET_CHILDREN2) + fake_zk_count(zk, 2, WIRE_GET_CHILDREN) +
            fake_zk_count(zk, 3, WIRE_GET_CHILDREN2) + fake_zk_count(zk, 3, WIRE_GET_CHILDREN),
        0);
    m[1].fail_deactivate = -1;
    fake_zk_link(zk, 1, FAKE_REFUSE);
    fake_zk_expire(zk, candidate_session(&m[1].base));
    EVENTUALLY(ACTIVATED(&m[2]));
    assert_int_equal(standby_get(&m[2], &m[2].fenced), 1);
    assert_true(m[2].token > m[1].token);
    fake_zk_link(zk, 1, FAKE_UP);
    for (int i = 0; i < 4; i++) {
        standby_finish(&m[i]);
    }
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* Every request of a take-over in turn is met by trouble: in the end one is active, never two, and
 * nothing stays behind. */
static void trouble_at_every_step(void **state)
{
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE,
                                               FAKE_EXPIRE_AFTER};
    struct fake_zk *zk = *state;
    for (int herd_free = 0; herd_free <= 1; herd_free++) {
        for (size_t a = 0; a < sizeof actions / sizeof actions[0]; a++) {
            for (int nth = 1; nth <= 10; nth++) {
                struct standby old;
                struct standby new;
                fake_zk_reset(zk);
                standby_open(&old, zk, 0, "old");
                standby_open(&new, zk, 1, "new");
                old.herd_free = new.herd_free = herd_free == 1;
                standby_start(&old);
                EVENTUALLY(ACTIVATED(&old));
                hook(zk, 1, FAKE_ANY_OP, NULL, nth, actions[a]);
                standby_start(&new);
                sleep_ms(5);
                old.fail_deactivate = nth % 2 == 0 ? -1 : 0;
                standby_stop(&old);
                EVENTUALLY(ACTIVATED(&new));
                assert_true(old.active_to_ns < new.active_from_ns);
                assert_true(nth % 2 != 0 || standby_get(&new, &new.fenced) >= 1);
                fake_zk_hooks_clear(zk);
                standby_finish(&new);
                standby_finish(&old);
                assert_int_equal(fake_zk_ephemerals(zk), 0);
            }
        }
    }
}

static void closing_waits_for_the_fence(void **state)
{
    struct fake_zk *zk = *state;
    struct standby b;
    standby_dies(zk, "a");
    standby_open(&b, zk, 1, "b");
    b.fence_waits = true;
    standby_start(&b);
    EVENTUALLY(standby_get(&b, &b.fenced) == 1);
    conclave_elector_close(b.elector);
    STAYS(standby_get(&b, &b.closed) == 0, 100);
    b.fence_waits = false;
    standby_stop(&b);
    assert_int_equal(b.activated, 0);
    assert_true(standby_crumb_has(zk, "id=a\n"));
    assert_int_equal(fake_zk_ephemerals(zk), 0);
    standby_finish(&b);
}

static void a_fence_cannot_wait_for_the_end(void **state)
{
    struct fake_zk *zk = *state;
    struct standby b;
    standby_dies(zk, "a");
    standby_open(&b, zk, 1, "b");
    b.ends_in_fence = true;
    standby_start(&b);
    EVENTUALLY(standby_get(&b, &b.fenced) == 1);
    standby_stop(&b);
    assert_int_equal(b.activated, 0);
    standby_finish(&b);
}

/* Who leaves while its breadcrumb is on its way was never active: nobody has to fence it. */
static void who_leaves_while_it_marks_need_not_be_fenced(void **state)
{
    struct fake_zk *zk = *state;
    for (int lost = 0; lost <= 1; lost++) {
        struct standby a;
        standby_open(&a, zk, 0, "a");
        if (lost) {
            hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
            standby_start(&a);
            EVENTUALLY(fake_zk_hooks_left(zk) == 0);
        } else {
            fake_zk_hold(zk, 0, WIRE_MULTI);
            standby_start(&a);
            EVENTUALLY(fake_zk_holds(zk, 0));
        }
        conclave_elector_close(a.elector);
        fake_zk_release(zk, 0);
        standby_stop(&a);
        assert_true(!fake_zk_exists(zk, CRUMB_NODE) || standby_crumb_has(zk, "clean=1\n"));
        assert_int_equal(fake_zk_ephemerals(zk), 0);
        candidate_finish(&a.base);
    }
}

static void active_is_said_until_deactivate_has_returned_and_no_longer(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    standby_open_for(&a, zk, 0, "a", ENDING_MS);
    standby_start(&a);
    EVENTUALLY(ACTIVATED(&a));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    fake_zk_delete(zk, LOCK_NODE);
    EVENTUALLY(standby_get(&a, &a.deactivated) == 1);
    EVENTUALLY(STATE_IS(&a, NEUTRAL));
    STAYS(STATE_IS(&a, NEUTRAL), 50);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(STATE_IS(&a, ACTIVE));
    standby_finish(&a);
}

static void one_that_recovers_while_it_stops_is_fenced_all_the_same(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct standby b;
    standby_open(&a, zk, 0, "a");
    a.backoff_ms = 60000; /* others come first */
    standby_start(&a);
    EVENTUALLY(ACTIVATED(&a));
    standby_join(&b, zk, 1, "b");
    EVENTUALLY(STATE_IS(&b, STANDBY));
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_UNHEALTHY);
    conclave_elector_set_health(a.elector, CONCLAVE_HEALTH_HEALTHY);
    EVENTUALLY(ACTIVATED(&b));
    assert_int_equal(standby_get(&b, &b.fenced), 1);
    standby_finish(&a);
    standby_finish(&b);
}

static void bad_options_are_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct standby a;
    struct conclave_elector_options options = CONCLAVE_ELECTOR_OPTIONS_INIT;
    standby_open(&a, zk, 0, "a");
    static const char *const dirs[] = {NULL, "", "/", "app", "/app/"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        options.dir = dirs[i];
        assert_int_equal(conclave_elector_open(a.base.recipes, &options, NULL, NULL, &a.elector),
                         CONCLAVE_EINVAL);
    }
    options.dir = DIR;
    options.id = "two\nlines";
    assert_int_equal(conclave_elector_open(a.base.recipes, &options, NULL, NULL, &a.elector),
                     CONCLAVE_EINVAL);
    candidate_finish(&a.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(the_first_is_active_and_the_second_waits),
        E_TEST(E63_two_members_of_one_session_exclude_each_other),
        E_TEST(E97_a_dead_one_is_fenced_before_another_is_active),
        E_TEST(E97_one_that_cannot_be_fenced_blocks_and_its_breadcrumb_stays),
        E_TEST(an_operator_may_say_that_it_is_dead),
        E_TEST(E98_lock_lost_during_a_fence_means_no_activation),
        E_TEST(E99_the_same_id_in_another_incarnation_is_fenced),
        E_TEST(the_same_incarnation_need_not_be_fenced),
        E_TEST(E100_an_orderly_end_leaves_nobody_to_fence),
        E_TEST(one_that_is_not_sure_to_have_stopped_is_fenced),
        E_TEST(E101_a_breadcrumb_whose_answer_was_lost_counts),
        E_TEST(E102_a_lock_whose_answer_was_lost_is_active_not_standby),
        E_TEST(E102_a_lock_whose_answer_was_lost_does_not_stay_after_a_refusal),
        E_TEST(a_lock_of_the_same_session_is_not_taken_for_its_own),
        E_TEST(E122_who_lost_the_lock_to_an_operator_is_fenced_out),
        E_TEST(no_write_lands_in_anothers_time),
        E_TEST(a_breadcrumb_that_another_wrote_ends_the_lease),
        E_TEST(the_lease_ends_before_another_can_be_active),
        E_TEST(only_a_healthy_one_takes_part),
        E_TEST(who_cedes_stays_out_for_a_while),
        E_TEST(a_failed_activation_passes_it_on),
        E_TEST(in_a_line_one_departure_wakes_one),
        E_TEST(trouble_at_every_step),
        E_TEST(closing_waits_for_the_fence),
        E_TEST(a_fence_cannot_wait_for_the_end),
        E_TEST(who_leaves_while_it_marks_need_not_be_fenced),
        E_TEST(active_is_said_until_deactivate_has_returned_and_no_longer),
        E_TEST(one_that_recovers_while_it_stops_is_fenced_all_the_same),
        E_TEST(bad_options_are_refused),
    };
    return RUN_TESTS(tests);
}
