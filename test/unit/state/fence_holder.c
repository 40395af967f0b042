/* Enforced fencing: whose node comes first, what is remembered of that, and how long nobody writes behind a holder that
 * did not let go. */
#include "support/fencing.h"

#include "state/state_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { DELAY_MS = 15000 };

static int64_t holder(struct fencing *f)
{
    struct state_holder h;
    if (!state_holder(f->w.s, slice_str("/lock"), &h)) {
        return 0;
    }
    return h.shared ? -h.session_id : h.session_id;
}

/* --- who is first ----------------------------------------------------------------------------- */

static void contenders_are_told_from_the_rest(void **state)
{
    struct fencing *f = *state;
    static const struct {
        const char *name;
        int32_t mode;
        int64_t session; /* that holds then: minus, it reads; 0: nobody */
    } rows[] = {
        {"persistent-0000000001", 0, 0},
        {"_c_guid-lock-0000000001", 1, 2},
        {"guid__lock__2147483647", 1, 2},
        {"n_-2147483648", 1, 2},
        {"n_-000000001", 1, 2},
        {"0000000001", 1, 2},
        {"n_000000001", 1, 0}, /* nine digits are nobody's */
        {"n_0000000001x", 1, 0},
        {"n_-00000-001", 1, 0},
        {"config", 1, 0},
        {"_c_guid-__READ__0000000001", 1, -2},
        {"_c_guid-__WRIT__0000000001", 1, 2},
        {"guid__rlock__0000000001", 1, -2},
        {"guid-__READ__n0000000001", 1, -2},
        {"guid-__READ__n_0000000001", 1, -2},
        {"guid-__WRIT__n0000000001", 1, 2},
        {"__READ__-lock-0000000001", 1, 2},
    };
    for (int bound = 0; bound < 2; bound++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            char path[64];
            (void)snprintf(path, sizeof path, "/lock/%s", rows[i].name);
            assert_int_equal(fencing_create(f, 2, path, "", rows[i].mode), 0);
            assert_int_equal(holder(f), rows[i].session);
            assert_int_equal(fencing_set(f, 2, "/app", "x"),
                             bound == 0 || rows[i].session == 2 ? 0 : CONCLAVE_NO_AUTH);
            assert_int_equal(fencing_delete(f, 2, path), 0);
            assert_int_equal(holder(f), 0);
        }
        assert_int_equal(fencing_bind(f, "/app", "lock=/lock"), 0);
    }
}

/* Behind a reader nobody holds the whole lock, and a reader holds nothing. */
static void readers_hold_nothing(void **state)
{
    struct fencing *f = *state;
    assert_int_equal(fencing_bind(f, "/app", "lock=/lock"), 0);
    const char *reader = fencing_join(f, 1, "/lock", "a-__READ__");
    fencing_join(f, 2, "/lock", "b-__WRIT__");
    for (int64_t session = 1; session <= 2; session++) {
        assert_int_equal(fencing_set(f, session, "/app", "x"), CONCLAVE_NO_AUTH);
    }
    make_multi_begin(&f->w.m);
    make_multi_check(&f->w.m, reader, -1);
    make_multi_set_data(&f->w.m, "/app", "x", -1);
    assert_int_equal(fencing_send(f, 1, WIRE_MULTI, make_multi_end(&f->w.m)), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_delete(f, 1, reader), 0);
    assert_int_equal(fencing_set(f, 2, "/app", "x"), 0);
}

/* Its name is the same for every holder, so only its session counts. */
static void a_lock_of_one_fixed_node(void **state)
{
    struct fencing *f = *state;
    assert_int_equal(fencing_bind(f, "/app", "lock=/leader"), 0);
    assert_int_equal(fencing_create(f, 1, "/leader", "", WIRE_MODE_EPHEMERAL), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    make_multi_begin(&f->w.m);
    make_multi_check(&f->w.m, "/leader", -1);
    make_multi_set_data(&f->w.m, "/app", "x", -1);
    struct slice multi = make_multi_end(&f->w.m);
    assert_int_equal(fencing_send(f, 2, WIRE_MULTI, multi), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_delete(f, 1, "/leader"), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_create(f, 2, "/leader", "", WIRE_MODE_EPHEMERAL), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_set(f, 2, "/app", "x"), 0);
    struct state_holder h;
    assert_true(state_holder(f->w.s, slice_str("/leader"), &h));
    assert_int_equal(h.session_id, 2);
    assert_true(slice_is_null(h.name));
}

/* The one that is remembered does not stand for another of its name, nor for an older one that came in the same
 * transaction. */
static void what_is_remembered_is_looked_up(void **state)
{
    struct fencing *f = *state;
    struct maker *m = &f->w.m;
    assert_int_equal(fencing_bind(f, "/app", "lock=/lock"), 0);
    assert_int_equal(fencing_create(f, 1, "/lock/x0000000001", "", 1), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    fencing_join(f, 2, "/lock", "y");
    make_multi_begin(m); /* made again, it comes last */
    make_multi_delete(m, "/lock/x0000000001", -1);
    make_multi_create(m, WIRE_CREATE, "/lock/x0000000001", "", 1);
    assert_int_equal(fencing_send(f, 1, WIRE_MULTI, make_multi_end(m)), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_set(f, 2, "/app", "x"), 0);
    assert_int_equal(fencing_expire(f, 1), 0);
    assert_int_equal(fencing_expire(f, 2), 0);
    make_multi_begin(m);
    make_multi_create(m, WIRE_CREATE, "/lock/z0000000009", "", 1);
    make_multi_set_data(m, "/app", "x", -1);
    make_multi_create(m, WIRE_CREATE, "/lock/a0000000009", "", 1);
    assert_int_equal(fencing_send(f, 3, WIRE_MULTI, make_multi_end(m)), 0);
    struct state_holder h;
    assert_true(state_holder(f->w.s, slice_str("/lock"), &h));
    assert_true(slice_equal_str(h.name, "a0000000009"));
    fencing_restart(f);
    assert_true(state_holder(f->w.s, slice_str("/lock"), &h));
    assert_true(slice_equal_str(h.name, "a0000000009"));
}

static void a_lock_that_goes_and_comes_again(void **state)
{
    struct fencing *f = *state;
    assert_int_equal(fencing_bind(f, "/app", "lock=/lock"), 0);
    assert_int_equal(fencing_create(f, 1, "/lock/x0000000001", "", 1), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    assert_int_equal(fencing_delete(f, 1, "/lock/x0000000001"), 0);
    assert_int_equal(fencing_delete(f, 1, "/lock"), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_create(f, 1, "/lock", "", 0), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_create(f, 2, "/lock/x0000000001", "", 1), 0);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_int_equal(fencing_set(f, 2, "/app", "x"), 0);
}

/* Ten thousand wait: a write costs no look at them, and their leaving neither. */
static void a_write_looks_at_one_node(void **state)
{
    struct fencing *f = *state;
    enum { WAITERS = 10000 };
    assert_int_equal(fencing_bind(f, "/app", "lock=/lock\nlock_delay_ms=5"), 0);
    fencing_join(f, 1, "/lock", "x");
    for (int i = 0; i < WAITERS; i++) {
        struct batch_header header = {.time_ms = 1, .sequence = 1};
        struct command c = {.session_id = 2,
                            .cxid = 1,
                            .type = WIRE_CREATE,
                            .ids = maker_ids(&f->w.m),
                            .body = make_create(&f->w.m, "/lock/y", "", 3)};
        state_apply(f->w.s, &header, &c, &f->w.e);
        assert_int_equal(f->w.e.err, 0);
    }
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    const struct fence_memo *memo = &f->w.s->fence.bindings[0].memo;
    int64_t looked = memo->at;
    assert_true(looked > 0);
    fencing_join(f, 3, "/lock", "z");
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    assert_int_equal(fencing_expire(f, 2), 0); /* each of its nodes goes by itself */
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    assert_int_equal(memo->at, looked);
    assert_int_equal(fencing_expire(f, 1), 0);
    assert_int_equal(fencing_set(f, 3, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_true(f->w.e.fenced.delayed);
    f->now_ms += 5;
    assert_int_equal(fencing_set(f, 3, "/app", "x"), 0);
    assert_true(memo->at > looked);
}

/* --- the delay -------------------------------------------------------------------------------- */

static void bind_delayed(struct fencing *f)
{
    assert_int_equal(fencing_bind(f, "/app", "lock=/lock\nlock_delay_ms=15000"), 0);
}

static void expect_delayed(struct fencing *f, int64_t session)
{
    assert_int_equal(fencing_set(f, session, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_true(f->w.e.fenced.delayed);
}

static void an_expiry_begins_it(void **state)
{
    struct fencing *f = *state;
    bind_delayed(f);
    fencing_join(f, 1, "/lock", "x");
    const char *next = fencing_join(f, 2, "/lock", "x");
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    struct wire_stat before = world_stat(&f->w, "/zookeeper/fence/app/conclave_fence");
    assert_int_equal(fencing_expire(f, 1), 0);
    struct wire_stat stat = world_stat(&f->w, "/zookeeper/fence/app/conclave_fence");
    assert_int_equal(stat.version, before.version); /* written to the node, without an event */
    assert_int_equal(stat.mzxid, before.mzxid);
    assert_true(stat.data_length > before.data_length);
    assert_string_equal(world_events(&f->w), "2 /lock/x0000000000,4 /lock");
    expect_delayed(f, 2);
    make_multi_begin(&f->w.m);
    make_multi_check(&f->w.m, next, -1);
    make_multi_set_data(&f->w.m, "/app", "x", -1);
    assert_int_equal(fencing_send(f, 3, WIRE_MULTI, make_multi_end(&f->w.m)), CONCLAVE_NO_AUTH);
    f->now_ms += DELAY_MS - 1;
    expect_delayed(f, 2);
    fencing_restart(f);
    expect_delayed(f, 2);
    f->now_ms++;
    assert_int_equal(fencing_set(f, 2, "/app", "x"), 0);
    assert_int_equal(fencing_set(f, 3, "/app", "x"), CONCLAVE_NO_AUTH);
    assert_false(f->w.e.fenced.delayed);
}

static void who_lets_go_begins_none(void **state)
{
    struct fencing *f = *state;
    bind_delayed(f);
    const char *first = fencing_join(f, 1, "/lock", "x");
    fencing_join(f, 2, "/lock", "x");
    fencing_join(f, 3, "/lock", "x");
    assert_int_equal(fencing_delete(f, 1, first), 0);
    assert_int_equal(fencing_set(f, 2, "/app", "x"), 0);
    assert_int_equal(fencing_send(f, 2, WIRE_CLOSE_SESSION, slice_make("", 0)), 0);
    assert_int_equal(fencing_set(f, 3, "/app", "x"), 0);
}

static void only_the_first_ones_going_counts(void **state)
{
    struct fencing *f = *state;
    bind_delayed(f);
    fencing_join(f, 1, "/lock", "x");
    const char *second = fencing_join(f, 2, "/lock", "x");
    const char *third = fencing_join(f, 2, "/lock", "x");
    assert_int_equal(fencing_delete(f, 3, second), 0);
    assert_int_equal(fencing_expire(f, 2), 0);
    (void)third;
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    fencing_join(f, 3, "/lock", "x");
    char first[64];
    (void)snprintf(first, sizeof first, "/lock/x0000000000");
    assert_int_equal(fencing_delete(f, 3, first), 0); /* not its own */
    expect_delayed(f, 3);
    expect_delayed(f, 1);
}

static void a_readers_going_begins_none(void **state)
{
    struct fencing *f = *state;
    bind_delayed(f);
    fencing_join(f, 1, "/lock", "x-__READ__");
    fencing_join(f, 2, "/lock", "x-__WRIT__");
    assert_int_equal(fencing_expire(f, 1), 0);
    assert_int_equal(fencing_set(f, 2, "/app", "x"), 0);
}

static void it_begins_anew_and_ends_by_binding_again(void **state)
{
    struct fencing *f = *state;
    bind_delayed(f);
    assert_int_equal(fencing_bind(f, "/also", "lock=/lock\nlock_delay_ms=1"), 0);
    for (int64_t session = 1; session <= 3; session++) {
        fencing_join(f, session, "/lock", "x");
    }
    assert_int_equal(fencing_expire(f, 1), 0);
    f->now_ms += DELAY_MS - 1;
    assert_int_equal(fencing_create(f, 2, "/also", "", 0), 0);
    assert_int_equal(fencing_expire(f, 2), 0);
    f->now_ms += DELAY_MS - 1;
    expect_delayed(f, 3);
    world_session(&f->w, 1);
    bind_delayed(f);
    assert_int_equal(fencing_set(f, 3, "/app", "x"), 0);
}

/* Clocks may say anything. */
static void it_is_written_down_whatever_the_time_is(void **state)
{
    struct fencing *f = *state;
    static const int64_t times[] = {INT64_MIN, -DELAY_MS, 0, FENCE_TIME_MAX_MS - 1, INT64_MAX};
    bind_delayed(f);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        f->now_ms = times[i];
        fencing_join(f, 2, "/lock", "x");
        fencing_join(f, 3, "/lock", "x");
        assert_int_equal(fencing_expire(f, 2), 0);
        fencing_restart(f);
        assert_int_equal(state_fence_bindings(f->w.s), 1);
        assert_int_equal(fencing_set(f, 3, "/app", "x"),
                         times[i] <= -DELAY_MS || times[i] == INT64_MAX ? 0 : CONCLAVE_NO_AUTH);
        assert_int_equal(fencing_set(f, 1, "/app", "x"), CONCLAVE_NO_AUTH);
        assert_int_equal(fencing_expire(f, 3), 0);
        world_session(&f->w, 2);
        world_session(&f->w, 3);
        bind_delayed(f);
    }
}

static void one_that_was_taken_back_did_not_begin(void **state)
{
    struct fencing *f = *state;
    struct maker *m = &f->w.m;
    bind_delayed(f);
    const char *first = fencing_join(f, 1, "/lock", "x");
    fencing_join(f, 2, "/lock", "x");
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    make_multi_begin(m);
    make_multi_delete(m, first, -1);
    make_multi_check(m, "/not/there", -1);
    assert_int_equal(fencing_send(f, 2, WIRE_MULTI, make_multi_end(m)), CONCLAVE_NO_NODE);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    fencing_restart(f);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
    make_multi_begin(m); /* within one, it begins at once */
    make_multi_delete(m, first, -1);
    make_multi_set_data(m, "/app", "x", -1);
    assert_int_equal(fencing_send(f, 2, WIRE_MULTI, make_multi_end(m)), CONCLAVE_NO_AUTH);
    assert_true(f->w.e.fenced.delayed);
    assert_int_equal(fencing_set(f, 1, "/app", "x"), 0);
}

/* --- by chance -------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void random_part(struct maker *m, uint32_t *seed)
{
    static const char *const paths[] = {"/app", "/app/a", "/app/a/b", "/lock/q", "/x"};
    char path[64];
    const char *any = paths[next_random(seed) % 5];
    switch (next_random(seed) % 7) {
    case 0:
        make_multi_create(m, WIRE_CREATE, any, "", (int32_t)(next_random(seed) % 4));
        return;
    case 1:
        make_multi_delete(m, any, -1);
        return;
    case 2:
        make_multi_create(m, WIRE_CREATE, "/lock/c", "", 3);
        return;
    case 3:
    case 4:
        (void)snprintf(path, sizeof path, "/lock/c%010u", next_random(seed) % 60);
        if (next_random(seed) % 2 == 0) {
            make_multi_check(m, path, -1);
        } else {
            make_multi_delete(m, path, -1);
        }
        return;
    case 5:
        make_multi_delete(m, "/zookeeper/fence/app/a/conclave_fence", -1);
        return;
    default:
        make_multi_set_data(m, any, "x", -1);
        return;
    }
}

/* The same commands to a state that remembers all and to one that comes from a snapshot each time. */
static void what_is_remembered_makes_no_difference(void **state)
{
    struct fencing *remembers = *state;
    void *other;
    uint32_t seed = 7;
    int refused = 0;
    assert_int_equal(fencing_setup(&other), 0);
    struct fencing *forgets = other;
    struct fencing *both[] = {remembers, forgets};
    for (int i = 0; i < 4000; i++) {
        uint32_t command = next_random(&seed);
        int64_t session = 1 + next_random(&seed) % 3;
        int32_t rc[2];
        if (i % 10 == 0) {
            fencing_restart(forgets);
        }
        for (int k = 0; k < 2; k++) {
            struct fencing *f = both[k];
            uint32_t own = command;
            f->now_ms += 3;
            if (command % 17 == 0) {
                rc[k] = fencing_expire(f, session);
                world_session(&f->w, session);
            } else if (command % 17 == 1) {
                rc[k] = fencing_bind(f, "/app/a", "lock=/lock\nlock_delay_ms=10");
            } else if (command % 17 == 2) {
                rc[k] = fencing_bind(f, "/app", "lock=/lock");
            } else {
                make_multi_begin(&f->w.m);
                for (uint32_t part = 0; part < 1 + command % 3; part++) {
                    random_part(&f->w.m, &own);
                }
                rc[k] = fencing_send(f, session, WIRE_MULTI, make_multi_end(&f->w.m));
            }
        }
        refused += remembers->w.e.fenced.refused;
        assert_int_equal(rc[0], rc[1]);
        assert_true(state_digest_now(remembers->w.s) == state_digest_now(forgets->w.s));
        assert_int_equal(holder(remembers), holder(forgets));
    }
    assert_in_range(refused, 200, 3500);
    fencing_teardown(&other);
}

#define FENCED(name) cmocka_unit_test_setup_teardown(name, fencing_setup, fencing_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED(contenders_are_told_from_the_rest),
        FENCED(readers_hold_nothing),
        FENCED(a_lock_of_one_fixed_node),
        FENCED(what_is_remembered_is_looked_up),
        FENCED(a_lock_that_goes_and_comes_again),
        FENCED(a_write_looks_at_one_node),
        FENCED(an_expiry_begins_it),
        FENCED(who_lets_go_begins_none),
        FENCED(only_the_first_ones_going_counts),
        FENCED(a_readers_going_begins_none),
        FENCED(it_begins_anew_and_ends_by_binding_again),
        FENCED(it_is_written_down_whatever_the_time_is),
        FENCED(one_that_was_taken_back_did_not_begin),
        FENCED(what_is_remembered_makes_no_difference),
    };
    return cmocka_run_group_tests_name("fence holder", tests, NULL, NULL);
}
