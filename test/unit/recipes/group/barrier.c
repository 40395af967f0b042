/*
 * The plain and the double barrier.
 */
#include "support/candidate.h"

#include "recipes/group/double_barrier.h"

#include <conclave/barrier.h>

#define BARRIER_PATH "/app/barrier"
#define ROUND_PATH BARRIER_PATH "/round"

/* The result of a call: set once. */
struct outcome {
    _Atomic int done;
    _Atomic int error;
};

/* A client with one double barrier. */
struct member {
    struct candidate link;
    struct conclave_double_barrier *barrier;
    struct outcome enter;
    struct outcome leave;
    _Atomic int lost;
    _Atomic int closed;
};

static void on_enter(struct conclave_double_barrier *barrier, int error, void *ctx)
{
    struct member *m = ctx;
    m->enter.error = error;
    m->enter.done++;
}

static void on_leave(struct conclave_double_barrier *barrier, int error, void *ctx)
{
    struct member *m = ctx;
    m->leave.error = error;
    m->leave.done++;
}

static void on_lost(struct conclave_double_barrier *barrier, int why, void *ctx)
{
    struct member *m = ctx;
    m->lost = why;
}

static void on_closed(struct conclave_double_barrier *barrier, int why, void *ctx)
{
    struct member *m = ctx;
    m->closed++;
}

static const struct conclave_double_barrier_callbacks callbacks = {sizeof callbacks, on_lost,
                                                                   on_closed};

static struct conclave_double_barrier_options options_of(uint32_t count)
{
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    options.path = BARRIER_PATH;
    options.count = count;
    return options;
}

static void member_open_with(struct member *m, struct fake_zk *zk, int endpoint,
                             const struct conclave_double_barrier_options *options)
{
    memset(m, 0, sizeof *m);
    candidate_connect(&m->link, zk, endpoint, "m");
    assert_int_equal(
        conclave_double_barrier_open(m->link.recipes, options, &callbacks, m, &m->barrier), 0);
}

static void member_open(struct member *m, struct fake_zk *zk, int endpoint, uint32_t count)
{
    struct conclave_double_barrier_options options = options_of(count);
    member_open_with(m, zk, endpoint, &options);
}

static void enter(struct member *m, int64_t timeout_ms)
{
    m->enter.done = 0;
    assert_int_equal(conclave_double_barrier_enter_async(m->barrier, timeout_ms, on_enter, m), 0);
}

static void leave(struct member *m, int64_t timeout_ms)
{
    m->leave.done = 0;
    assert_int_equal(conclave_double_barrier_leave_async(m->barrier, timeout_ms, on_leave, m), 0);
}

static void member_finish(struct member *m)
{
    assert_int_equal(conclave_double_barrier_close_wait(m->barrier, PATIENCE_MS), 0);
    assert_int_equal(m->closed, 1);
    conclave_double_barrier_destroy(m->barrier);
    candidate_finish(&m->link);
}

/* Members of the round; `ready` does not count. */
static size_t members_in(struct fake_zk *zk)
{
    size_t count = fake_zk_exists(zk, ROUND_PATH) ? fake_zk_child_count(zk, ROUND_PATH) : 0;
    return count - (fake_zk_exists(zk, ROUND_PATH "/ready") ? 1 : 0);
}

static void make_round(struct fake_zk *zk, const char *count)
{
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, BARRIER_PATH, "", 0);
    fake_zk_create(zk, ROUND_PATH, count, 0);
}

/* --- plain ------------------------------------------------------------------------------- */

static void on_wait(struct conclave_barrier *barrier, int error, void *ctx)
{
    struct outcome *o = ctx;
    o->error = error;
    o->done++;
}

static void all_wait_until_the_barrier_is_removed(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate link;
    struct candidate other;
    struct conclave_barrier *b;
    struct conclave_barrier *far;
    struct outcome o = {0};
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    options.path = "/app/deep/gate";
    candidate_connect(&link, zk, 0, "a");
    candidate_connect(&other, zk, 1, "b");
    assert_int_equal(conclave_barrier_open(link.recipes, &options, NULL, NULL, &b), 0);
    assert_int_equal(conclave_barrier_open(other.recipes, &options, NULL, NULL, &far), 0);
    assert_int_equal(conclave_barrier_wait(b, PATIENCE_MS), 0); /* there is none */
    assert_int_equal(conclave_barrier_remove(b, PATIENCE_MS), 0);
    hook(zk, 0, WIRE_CREATE, "/gate", 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_barrier_set(b, PATIENCE_MS), 0);
    assert_int_equal(conclave_barrier_set(b, PATIENCE_MS), 0);
    assert_int_equal(conclave_barrier_wait(b, 0), CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_barrier_wait(b, 50), CONCLAVE_ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(conclave_barrier_wait_async(far, CONCLAVE_FOREVER, on_wait, &o), 0);
    }
    STAYS(o.done == 0, 60);
    fake_zk_cut(zk, 1); /* a session event wakes nobody */
    STAYS(o.done == 0, 60);
    fake_zk_expire(zk, candidate_session(&other)); /* nor does a new session */
    STAYS(o.done == 0, 100);
    hook(zk, 0, WIRE_DELETE, "/gate", 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_barrier_remove(b, PATIENCE_MS), 0);
    EVENTUALLY(o.done == 3);
    assert_int_equal(o.error, 0);
    assert_int_equal(conclave_barrier_set(b, PATIENCE_MS), 0);
    assert_int_equal(conclave_barrier_wait_async(far, CONCLAVE_FOREVER, on_wait, &o), 0);
    assert_int_equal(conclave_barrier_close_wait(far, PATIENCE_MS), 0);
    EVENTUALLY(o.done == 4);
    assert_int_equal(o.error, CONCLAVE_ECLOSED);
    assert_int_equal(conclave_barrier_close_wait(b, PATIENCE_MS), 0);
    conclave_barrier_destroy(b);
    conclave_barrier_destroy(far);
    candidate_finish(&link);
    candidate_finish(&other);
}

static void E18_a_barrier_that_is_not_permitted_fails_once(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate link;
    struct conclave_barrier *b;
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_GET_DATA,
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    options.path = "/gate";
    candidate_connect(&link, zk, 0, "a");
    assert_int_equal(conclave_barrier_open(link.recipes, &options, NULL, NULL, &b), 0);
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_barrier_wait(b, PATIENCE_MS), CONCLAVE_NO_AUTH);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_GET_DATA), 1);
    options.path = "/";
    struct conclave_barrier *wrong;
    assert_int_equal(conclave_barrier_open(link.recipes, &options, NULL, NULL, &wrong),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_barrier_close_wait(b, PATIENCE_MS), 0);
    conclave_barrier_destroy(b);
    candidate_finish(&link);
}

/* --- entering ----------------------------------------------------------------------------- */

static void all_enter_when_the_last_one_comes_and_leave_together(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[3];
    for (int i = 0; i < 3; i++) {
        member_open(&m[i], zk, i, 3);
    }
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < i; j++) {
            assert_int_equal(m[j].enter.done, 0);
        }
        enter(&m[i], CONCLAVE_FOREVER);
        EVENTUALLY(i == 2 || members_in(zk) == (size_t)i + 1);
    }
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(m[i].enter.done == 1);
        assert_int_equal(m[i].enter.error, 0);
    }
    leave(&m[0], CONCLAVE_FOREVER);
    leave(&m[1], CONCLAVE_FOREVER);
    STAYS(m[0].leave.done + m[1].leave.done == 0, 80);
    leave(&m[2], CONCLAVE_FOREVER);
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(m[i].leave.done == 1);
        assert_int_equal(m[i].leave.error, 0);
    }
    EVENTUALLY(!fake_zk_exists(zk, ROUND_PATH));
    for (int i = 0; i < 3; i++) { /* and again, in the same round */
        enter(&m[i], CONCLAVE_FOREVER);
    }
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(m[i].enter.done == 1);
        assert_int_equal(m[i].enter.error, 0);
        leave(&m[i], CONCLAVE_FOREVER);
    }
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(m[i].leave.done == 1);
        assert_int_equal(m[i].leave.error, 0);
        member_finish(&m[i]);
    }
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void touch_ready(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, ROUND_PATH "/ready", "", 0);
    fake_zk_delete_locked(zk, ROUND_PATH "/ready");
}

static void E82_nobody_enters_for_a_wake_up_that_means_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[3];
    make_round(zk, "3");
    for (int i = 0; i < 3; i++) {
        member_open(&m[i], zk, i, 3);
    }
    enter(&m[0], CONCLAVE_FOREVER);
    enter(&m[1], CONCLAVE_FOREVER);
    EVENTUALLY(members_in(zk) == 2);
    fake_zk_cut(zk, 0);                         /* a session event */
    fake_zk_do(zk, touch_ready, NULL);          /* its watch goes off, and there is nothing */
    fake_zk_create(zk, ROUND_PATH "/x", "", 0); /* no member */
    fake_zk_create(zk, ROUND_PATH "/n-1", "", 0);
    STAYS(m[0].enter.done + m[1].enter.done == 0, 200);
    enter(&m[2], CONCLAVE_FOREVER);
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(m[i].enter.done == 1);
        assert_int_equal(m[i].enter.error, 0);
    }
    for (int i = 0; i < 3; i++) {
        member_finish(&m[i]);
    }
}

static void E83_a_barrier_left_open_refuses_or_lets_pass(void **state)
{
    struct fake_zk *zk = *state;
    struct member m;
    struct conclave_double_barrier_options options = options_of(5);
    make_round(zk, "5");
    fake_zk_create(zk, ROUND_PATH "/ready", "", 0);
    member_open_with(&m, zk, 0, &options);
    assert_int_equal(conclave_double_barrier_enter(m.barrier, PATIENCE_MS), CONCLAVE_ECONFLICT);
    assert_int_equal(members_in(zk), 0);
    member_finish(&m);
    options.late_pass = true;
    member_open_with(&m, zk, 0, &options);
    assert_int_equal(conclave_double_barrier_enter(m.barrier, PATIENCE_MS), 0);
    assert_int_equal(members_in(zk), 1);
    assert_int_equal(conclave_double_barrier_enter(m.barrier, PATIENCE_MS), CONCLAVE_EBUSY);
    assert_int_equal(conclave_double_barrier_leave(m.barrier, PATIENCE_MS), 0);
    assert_int_equal(conclave_double_barrier_leave(m.barrier, 0), CONCLAVE_ENOTOWNER);
    assert_false(fake_zk_exists(zk, ROUND_PATH));
    member_finish(&m);
}

static void open_early(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, ROUND_PATH "/ready", "", 0);
}

static void E83_who_joins_while_it_opens_is_late(void **state)
{
    struct fake_zk *zk = *state;
    struct member m;
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_CREATE,
                          .path = NULL,
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = open_early};
    make_round(zk, "2");
    member_open(&m, zk, 0, 2);
    fake_zk_hook(zk, &h); /* between the first look and the join */
    assert_int_equal(conclave_double_barrier_enter(m.barrier, PATIENCE_MS), CONCLAVE_ECONFLICT);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    EVENTUALLY(members_in(zk) == 0);
    member_finish(&m);
}

static void members_that_say_another_number_are_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[2];
    char data[16];
    member_open(&m[0], zk, 0, 3);
    member_open(&m[1], zk, 1, 4);
    enter(&m[0], CONCLAVE_FOREVER);
    EVENTUALLY(members_in(zk) == 1);
    assert_true(fake_zk_data(zk, ROUND_PATH, data, sizeof data));
    assert_string_equal(data, "3");
    assert_int_equal(conclave_double_barrier_enter(m[1].barrier, PATIENCE_MS), CONCLAVE_ECONFLICT);
    assert_int_equal(members_in(zk), 1);
    member_finish(&m[0]);
    assert_int_equal(m[0].enter.error, CONCLAVE_ECLOSED);
    member_finish(&m[1]);
    EVENTUALLY(fake_zk_ephemerals(zk) == 0);
}

/* The last one joins while the first one's time runs out, from before to after. */
static void E84_at_the_deadline_all_enter_or_one_has_withdrawn(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[2];
    int entered = 0;
    int withdrawn = 0;
    member_open(&m[0], zk, 0, 2);
    member_open(&m[1], zk, 1, 2);
    for (int i = 0; i < 60; i++) {
        enter(&m[0], 12);
        (void)usleep((useconds_t)(8000 + 120 * i));
        enter(&m[1], CONCLAVE_FOREVER);
        EVENTUALLY(m[0].enter.done == 1);
        if (m[0].enter.error == 0) {
            EVENTUALLY(m[1].enter.done == 1);
            assert_int_equal(m[1].enter.error, 0);
            leave(&m[0], PATIENCE_MS);
            leave(&m[1], PATIENCE_MS);
            EVENTUALLY(m[0].leave.done == 1 && m[1].leave.done == 1);
            assert_int_equal(m[0].leave.error + m[1].leave.error, 0);
            entered++;
        } else {
            assert_int_equal(m[0].enter.error, CONCLAVE_ETIMEDOUT);
            assert_int_equal(m[1].enter.done, 0);
            enter(&m[0], CONCLAVE_FOREVER); /* the other one still waits, and is met */
            EVENTUALLY(m[0].enter.done == 1 && m[1].enter.done == 1);
            assert_int_equal(m[0].enter.error + m[1].enter.error, 0);
            leave(&m[0], PATIENCE_MS);
            leave(&m[1], PATIENCE_MS);
            EVENTUALLY(m[0].leave.done == 1 && m[1].leave.done == 1);
            withdrawn++;
        }
    }
    print_message("%d entered, %d withdrew\n", entered, withdrawn);
    member_finish(&m[0]);
    member_finish(&m[1]);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void open_before_withdrawal(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, ROUND_PATH "/ready", "", 0);
}

/* Until its withdrawal has met the hook: it had the time to join before. */
static int enter_until_withdrawal(struct member *m, struct fake_zk *zk)
{
    int error = CONCLAVE_ETIMEDOUT;
    for (int64_t time_ms = 50; fake_zk_hooks_left(zk) > 0; time_ms *= 2) {
        assert_int_equal(error, CONCLAVE_ETIMEDOUT);
        error = conclave_double_barrier_enter(m->barrier, time_ms);
    }
    return error;
}

static void E84_a_withdrawal_that_comes_too_late_has_entered(void **state)
{
    struct fake_zk *zk = *state;
    struct member m;
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_MULTI,
                          .path = "/ready",
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = open_before_withdrawal};
    make_round(zk, "2");
    member_open(&m, zk, 0, 2);
    fake_zk_hook(zk, &h);
    assert_int_equal(enter_until_withdrawal(&m, zk), 0);
    assert_int_equal(members_in(zk), 1);
    member_finish(&m);
    EVENTUALLY(members_in(zk) == 0);
    fake_zk_delete(zk, ROUND_PATH "/ready");
    member_open(&m, zk, 0, 2);
    hook(zk, 0, WIRE_MULTI, "/ready", 1, FAKE_DROP_REPLY); /* withdrawn, and nobody heard */
    assert_int_equal(enter_until_withdrawal(&m, zk), CONCLAVE_ETIMEDOUT);
    assert_int_equal(members_in(zk), 0);
    member_finish(&m);
}

/* It opened without us, between our first look and our node, and the look that would tell us fails until our time is up. */
static void E84_a_withdrawal_from_a_barrier_that_opened_before_is_no_entry(void **state)
{
    struct fake_zk *zk = *state;
    struct member m;
    struct fake_hook opened = {
        .endpoint = 0, .op = WIRE_CREATE, .nth = 1, .action = FAKE_CALL, .fn = open_early};
    struct fake_hook unseen = {.endpoint = 0,
                               .op = WIRE_EXISTS,
                               .path = "/ready",
                               .nth = 2,
                               .action = FAKE_ERROR,
                               .error = CONCLAVE_THROTTLED};
    int error = CONCLAVE_ETIMEDOUT;
    make_round(zk, "2");
    member_open(&m, zk, 0, 2);
    /* it looks again after 250 ms; if it did not get as far as that look in time, it gets more time */
    for (int64_t time_ms = 150; error == CONCLAVE_ETIMEDOUT; time_ms *= 2) {
        fake_zk_hooks_clear(zk);
        fake_zk_hook(zk, &opened);
        fake_zk_hook(zk, &unseen);
        error = conclave_double_barrier_enter(m.barrier, time_ms);
    }
    assert_int_equal(error, CONCLAVE_ECONFLICT);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    EVENTUALLY(members_in(zk) == 0);
    member_finish(&m);
}

/* One member hears nothing for a moment, in which its time runs out and the other one comes: it is in, or the other one
 * is not left waiting for it. */
static void E84_a_member_that_hears_nothing_is_in_or_is_not_waited_for(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[2];
    struct conclave_double_barrier_options options = options_of(2);
    int entered = 0;
    for (int i = 0; i < 2; i++) {
        memset(&m[i], 0, sizeof m[i]);
        candidate_connect_to(&m[i].link, zk, i, "m", NULL, PATIENCE_MS); /* no session ends */
        assert_int_equal(conclave_double_barrier_open(m[i].link.recipes, &options, &callbacks,
                                                      &m[i], &m[i].barrier),
                         0);
    }
    for (int i = 0; i < 40; i++) {
        enter(&m[0], 12);
        (void)usleep((useconds_t)(1000 * (i % 14)));
        fake_zk_link(zk, 0, FAKE_SILENT);
        enter(&m[1], CONCLAVE_FOREVER);
        (void)usleep((useconds_t)(500 * (i % 9)));
        fake_zk_link(zk, 0, FAKE_UP);
        EVENTUALLY(m[0].enter.done == 1);
        if (m[0].enter.error == 0) {
            entered++;
        } else {
            assert_int_equal(m[0].enter.error, CONCLAVE_ETIMEDOUT);
            assert_int_equal(m[1].enter.done, 0);
            enter(&m[0], CONCLAVE_FOREVER); /* the other one waits for it */
            EVENTUALLY(m[0].enter.done == 1);
            assert_int_equal(m[0].enter.error, 0);
        }
        EVENTUALLY(m[1].enter.done == 1);
        assert_int_equal(m[1].enter.error, 0);
        leave(&m[0], CONCLAVE_FOREVER);
        leave(&m[1], CONCLAVE_FOREVER);
        EVENTUALLY(m[0].leave.done == 1 && m[1].leave.done == 1);
        assert_int_equal(m[0].leave.error + m[1].leave.error, 0);
    }
    print_message("%d of 40 entered\n", entered);
    member_finish(&m[0]);
    member_finish(&m[1]);
}

static void E87_a_member_whose_session_ends_while_it_waits_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[2];
    for (int i = 0; i < 2; i++) {
        member_open(&m[i], zk, i, 2);
    }
    enter(&m[0], CONCLAVE_FOREVER);
    EVENTUALLY(members_in(zk) == 1);
    fake_zk_expire(zk, candidate_session(&m[0].link));
    EVENTUALLY(m[0].enter.done == 1);
    assert_int_equal(m[0].enter.error, CONCLAVE_SESSION_EXPIRED);
    enter(&m[1], CONCLAVE_FOREVER);
    STAYS(m[1].enter.done == 0, 80);
    enter(&m[0], CONCLAVE_FOREVER);
    EVENTUALLY(m[0].enter.done == 1 && m[1].enter.done == 1);
    assert_int_equal(m[0].enter.error + m[1].enter.error, 0);
    /* Inside, it is told by callback, and leave says so. */
    fake_zk_expire(zk, candidate_session(&m[0].link));
    EVENTUALLY(m[0].lost == CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(conclave_double_barrier_leave(m[0].barrier, 100), CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(conclave_double_barrier_leave(m[1].barrier, PATIENCE_MS), 0);
    for (int i = 0; i < 2; i++) {
        member_finish(&m[i]);
    }
}

static void E27_a_member_whose_node_is_deleted_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct member m;
    char name[256];
    char path[320];
    make_round(zk, "2");
    member_open(&m, zk, 0, 2);
    enter(&m, CONCLAVE_FOREVER);
    EVENTUALLY(members_in(zk) == 1);
    assert_true(fake_zk_child(zk, ROUND_PATH, 0, name));
    (void)snprintf(path, sizeof path, "%s/%s", ROUND_PATH, name);
    fake_zk_delete(zk, path);
    EVENTUALLY(m.enter.done == 1);
    assert_int_equal(m.enter.error, CONCLAVE_ELOST);
    member_finish(&m);
}

/* --- leaving -------------------------------------------------------------------------------- */

static void enter_all(struct member *m, struct fake_zk *zk, int count)
{
    for (int i = 0; i < count; i++) {
        member_open(&m[i], zk, i, (uint32_t)count);
        enter(&m[i], CONCLAVE_FOREVER);
    }
    for (int i = 0; i < count; i++) {
        EVENTUALLY(m[i].enter.done == 1);
        assert_int_equal(m[i].enter.error, 0);
    }
}

static void E85_the_others_leave_after_a_member_died_inside(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[3];
    enter_all(m, zk, 3);
    leave(&m[0], CONCLAVE_FOREVER);
    leave(&m[1], CONCLAVE_FOREVER);
    STAYS(m[0].leave.done + m[1].leave.done == 0, 60);
    fake_zk_expire(zk, candidate_session(&m[2].link));
    EVENTUALLY(m[0].leave.done == 1 && m[1].leave.done == 1);
    assert_int_equal(m[0].leave.error + m[1].leave.error, 0);
    for (int i = 0; i < 3; i++) {
        member_finish(&m[i]);
    }
}

static void E86_nobody_returns_early_when_the_lowest_dies_while_leaving(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[3];
    enter_all(m, zk, 3);
    int lowest = 0;
    for (int i = 1; i < 3; i++) {
        lowest = strcmp(m[i].barrier->me, m[lowest].barrier->me) < 0 ? i : lowest;
    }
    int stays = (lowest + 1) % 3;
    int goes = (lowest + 2) % 3;
    leave(&m[lowest], CONCLAVE_FOREVER);
    leave(&m[goes], CONCLAVE_FOREVER);
    EVENTUALLY(members_in(zk) == 2); /* the one that goes has removed its node, and waits */
    fake_zk_expire(zk, candidate_session(&m[lowest].link));
    EVENTUALLY(m[lowest].leave.done == 1);
    assert_int_equal(m[lowest].leave.error, CONCLAVE_SESSION_EXPIRED);
    STAYS(m[goes].leave.done == 0, 100);
    leave(&m[stays], CONCLAVE_FOREVER);
    EVENTUALLY(m[goes].leave.done == 1 && m[stays].leave.done == 1);
    assert_int_equal(m[goes].leave.error + m[stays].leave.error, 0);
    EVENTUALLY(!fake_zk_exists(zk, ROUND_PATH));
    for (int i = 0; i < 3; i++) {
        member_finish(&m[i]);
    }
}

static void a_leave_that_times_out_has_left(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[2];
    enter_all(m, zk, 2);
    assert_int_equal(conclave_double_barrier_leave(m[0].barrier, 50), CONCLAVE_ETIMEDOUT);
    EVENTUALLY(members_in(zk) == 1);
    assert_int_equal(conclave_double_barrier_leave(m[1].barrier, 0), 0);
    assert_false(fake_zk_exists(zk, ROUND_PATH));
    for (int i = 0; i < 2; i++) {
        member_finish(&m[i]);
    }
}

static void E33_a_try_does_not_wait(void **state)
{
    struct fake_zk *zk = *state;
    struct member m[2];
    for (int i = 0; i < 2; i++) {
        member_open(&m[i], zk, i, 2);
        assert_int_equal(conclave_client_wait_connected(m[i].link.client, PATIENCE_MS), 0);
    }
    assert_int_equal(conclave_double_barrier_enter(m[0].barrier, 0), CONCLAVE_ETIMEDOUT);
    assert_int_equal(members_in(zk), 0);
    enter(&m[0], CONCLAVE_FOREVER);
    EVENTUALLY(members_in(zk) == 1);
    assert_int_equal(conclave_double_barrier_enter(m[1].barrier, 0), 0);
    EVENTUALLY(m[0].enter.done == 1);
    for (int i = 0; i < 2; i++) {
        member_finish(&m[i]);
    }
}

static void E59_closing_the_client_ends_everything(void **state)
{
    struct fake_zk *zk = *state;
    struct member m;
    member_open(&m, zk, 0, 2);
    enter(&m, CONCLAVE_FOREVER);
    EVENTUALLY(members_in(zk) == 1);
    conclave_client_close(m.link.client, 1000);
    EVENTUALLY(m.enter.done == 1);
    assert_int_equal(m.enter.error, CONCLAVE_ECLOSED);
    EVENTUALLY(m.closed == 1);
    conclave_double_barrier_destroy(m.barrier);
    conclave_recipes_destroy(m.link.recipes);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* --- double barriers of other libraries ------------------------------------------------------------ */

static const enum conclave_barrier_layout others[] = {CONCLAVE_BARRIER_LAYOUT_CURATOR,
                                                      CONCLAVE_BARRIER_LAYOUT_KAZOO};

static void foreign_open(struct member *m, struct fake_zk *zk, int endpoint, uint32_t count,
                         enum conclave_barrier_layout layout)
{
    struct conclave_double_barrier_options options = options_of(count);
    options.layout = layout;
    member_open_with(m, zk, endpoint, &options);
}

static size_t children_of_barrier(struct fake_zk *zk)
{
    return fake_zk_exists(zk, BARRIER_PATH) ? fake_zk_child_count(zk, BARRIER_PATH) : 0;
}

static void E144_members_meet_in_each_layout_and_leave_the_path(void **state)
{
    struct fake_zk *zk = *state;
    for (int l = 0; l < 2; l++) {
        struct member m[3];
        for (int i = 0; i < 3; i++) {
            foreign_open(&m[i], zk, i, 3, others[l]);
        }
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 3; i++) {
                enter(&m[i], PATIENCE_MS);
                EVENTUALLY(children_of_barrier(zk) > (size_t)i);
                assert_true(i == 2 || m[i].enter.done == 0);
            }
            for (int i = 0; i < 3; i++) {
                EVENTUALLY(m[i].enter.done == 1);
                assert_int_equal(m[i].enter.error, 0);
            }
            for (int i = 0; i < 3; i++) {
                leave(&m[i], PATIENCE_MS);
                assert_true(i == 2 || m[0].leave.done == 0);
            }
            for (int i = 0; i < 3; i++) {
                EVENTUALLY(m[i].leave.done == 1);
                assert_int_equal(m[i].leave.error, 0);
            }
            assert_true(fake_zk_exists(zk, BARRIER_PATH));
            assert_int_equal(children_of_barrier(zk), 0);
        }
        for (int i = 0; i < 3; i++) {
            member_finish(&m[i]);
        }
    }
}

/* Members of the others are nodes that the test makes. */
static void E144_a_member_of_another_library_counts_and_is_waited_for(void **state)
{
    struct fake_zk *zk = *state;
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, BARRIER_PATH, "", 0);
    for (int l = 0; l < 2; l++) {
        for (int lowest = 0; lowest < 2; lowest++) {
            const char *theirs = lowest == 1 ? BARRIER_PATH "/0" : BARRIER_PATH "/zzzz";
            struct member m;
            foreign_open(&m, zk, 0, 2, others[l]);
            enter(&m, PATIENCE_MS);
            EVENTUALLY(children_of_barrier(zk) == 1);
            assert_int_equal(m.enter.done, 0);
            fake_zk_create(zk, theirs, "", 0);
            fake_zk_create(zk, BARRIER_PATH "/ready", "", 0); /* who comes last opens */
            EVENTUALLY(m.enter.done == 1);
            assert_int_equal(m.enter.error, 0);
            leave(&m, PATIENCE_MS);
            /* It waits for the other: its own node goes unless it is the lowest. */
            EVENTUALLY(fake_zk_watches(zk) > 0);
            sleep_ms(20);
            assert_int_equal(m.leave.done, 0);
            fake_zk_delete(zk, theirs);
            EVENTUALLY(m.leave.done == 1);
            assert_int_equal(m.leave.error, 0);
            assert_int_equal(children_of_barrier(zk), 0);
            member_finish(&m);
        }
    }
}

static void open_and_leave_at_once(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, BARRIER_PATH "/ready", "", 0);
    fake_zk_delete_locked(zk, BARRIER_PATH "/ready");
}

static void E144_an_opening_that_is_gone_again_lets_in(void **state)
{
    struct fake_zk *zk = *state;
    struct member m;
    foreign_open(&m, zk, 0, 2, CONCLAVE_BARRIER_LAYOUT_KAZOO);
    enter(&m, PATIENCE_MS);
    EVENTUALLY(children_of_barrier(zk) == 1 && fake_zk_watches(zk) >= 2);
    fake_zk_do(zk, open_and_leave_at_once, NULL);
    EVENTUALLY(m.enter.done == 1);
    assert_int_equal(m.enter.error, 0);
    member_finish(&m);
    assert_int_equal(children_of_barrier(zk), 0);
}

static void E144_a_withdrawal_lets_nobody_in(void **state)
{
    struct fake_zk *zk = *state;
    for (int l = 0; l < 2; l++) {
        struct member stays;
        struct member gives_up;
        foreign_open(&stays, zk, 0, 3, others[l]);
        foreign_open(&gives_up, zk, 1, 3, others[l]);
        enter(&stays, PATIENCE_MS);
        EVENTUALLY(children_of_barrier(zk) == 1);
        enter(&gives_up, 50);
        EVENTUALLY(gives_up.enter.done == 1);
        assert_int_equal(gives_up.enter.error, CONCLAVE_ETIMEDOUT);
        EVENTUALLY(children_of_barrier(zk) == 1);
        sleep_ms(20);
        assert_int_equal(stays.enter.done, 0);
        /* The answer to the withdrawal is lost. */
        hook(zk, 1, WIRE_DELETE, NULL, 1, FAKE_DROP_REPLY);
        enter(&gives_up, 50);
        EVENTUALLY(gives_up.enter.done == 1);
        assert_int_equal(gives_up.enter.error, CONCLAVE_ETIMEDOUT);
        EVENTUALLY(children_of_barrier(zk) == 1);
        assert_int_equal(stays.enter.done, 0);
        member_finish(&gives_up);
        member_finish(&stays);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(all_wait_until_the_barrier_is_removed),
        E_TEST(E18_a_barrier_that_is_not_permitted_fails_once),
        E_TEST(all_enter_when_the_last_one_comes_and_leave_together),
        E_TEST(E82_nobody_enters_for_a_wake_up_that_means_nothing),
        E_TEST(E83_a_barrier_left_open_refuses_or_lets_pass),
        E_TEST(E83_who_joins_while_it_opens_is_late),
        E_TEST(members_that_say_another_number_are_refused),
        E_TEST(E84_at_the_deadline_all_enter_or_one_has_withdrawn),
        E_TEST(E84_a_withdrawal_that_comes_too_late_has_entered),
        E_TEST(E84_a_withdrawal_from_a_barrier_that_opened_before_is_no_entry),
        E_TEST(E84_a_member_that_hears_nothing_is_in_or_is_not_waited_for),
        E_TEST(E87_a_member_whose_session_ends_while_it_waits_is_told),
        E_TEST(E27_a_member_whose_node_is_deleted_is_told),
        E_TEST(E85_the_others_leave_after_a_member_died_inside),
        E_TEST(E86_nobody_returns_early_when_the_lowest_dies_while_leaving),
        E_TEST(a_leave_that_times_out_has_left),
        E_TEST(E33_a_try_does_not_wait),
        E_TEST(E59_closing_the_client_ends_everything),
        E_TEST(E144_members_meet_in_each_layout_and_leave_the_path),
        E_TEST(E144_a_member_of_another_library_counts_and_is_waited_for),
        E_TEST(E144_an_opening_that_is_gone_again_lets_in),
        E_TEST(E144_a_withdrawal_lets_nobody_in),
    };
    return RUN_TESTS(tests);
}
