/*
 * Every allocation of the state fails once, in turn. Outside of apply that is an error after which all is as before;
 * inside apply it ends the process, as going on would diverge; a read decides as ever.
 */
#include "support/starve.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ALLOCATIONS_MOST = 10000, RESULTS_MOST = 10, RESULTS_BYTES = 10000, NEW_SESSION = 8 };

/* --- some of everything ------------------------------------------------------------------------- */

static int32_t run_numbered(struct world *w, int32_t number, int32_t type, struct slice body)
{
    struct batch_header header = {.origin = 2, .sequence = number, .time_ms = 5};
    struct command c = {.session_id = 7,
                        .cxid = number,
                        .type = type,
                        .options = number > 0 ? COMMAND_NUMBERED | COMMAND_FENCING : 0u,
                        .ids = maker_ids(&w->m),
                        .body = body,
                        .number = number,
                        .unanswered = number};
    state_apply(w->s, &header, &c, &w->e);
    return w->e.err;
}

static void make_members(struct world *w)
{
    static const struct state_member members[] = {
        {1, STATE_VOTER, "127.0.0.1:2881:3881:participant;127.0.0.1:2181"},
        {2, STATE_VOTER, "127.0.0.1:2882:3882:participant;127.0.0.1:2182"},
        {3, STATE_SPARE, "127.0.0.1:2883:3883:observer;127.0.0.1:2183"},
    };
    state_configure(w->s, members, 3, &w->e);
}

static void populate(struct world *w)
{
    const struct batch_header header = {.origin = 2, .sequence = 9, .time_ms = 5};
    assert_int_equal(state_batch_admit(w->s, &header), STATE_BATCH_APPLY);
    make_members(w);
    make_session(&w->m, 7, 4000);
    wire_write_i32(&w->m.body, RESULTS_MOST);
    wire_write_i32(&w->m.body, RESULTS_BYTES);
    assert_int_equal(run_numbered(w, 0, WIRE_CREATE_SESSION, buf_slice(&w->m.body)), 0);
    assert_int_equal(run_numbered(w, 1, WIRE_CREATE, make_create(&w->m, "/app", "x", 0)), 0);
    assert_int_equal(run_numbered(w, 2, WIRE_CREATE2, make_create(&w->m, "/app/n-", "y", 3)), 0);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_READ, "digest", "u:p");
    maker_acl_add(&w->m, WIRE_PERM_ALL, "ip", "10.0.0.0/8");
    maker_acl_add(&w->m, WIRE_PERM_WRITE, "digest", "v:p");
    assert_int_equal(world_create(w, "/secret", "hidden", 0), 0);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "world", "anyone");
    assert_int_equal(world_create(w, "/app/child", "", 0), 0);
    struct slice box = make_create(&w->m, "/box", "", WIRE_MODE_CONTAINER);
    assert_int_equal(apply(w->s, &w->e, &w->m, 1, WIRE_CREATE_CONTAINER, box), 0);
}

static void take_snapshot(struct world *w, struct buf *out)
{
    int rc;
    assert_int_equal(state_snapshot_begin(w->s), 0);
    while ((rc = state_snapshot_step(w->s, 100, out)) == 1) {}
    assert_int_equal(rc, 0);
}

static struct starve *starve_begin(void)
{
    struct starve *memory = starve_create();
    assert_non_null(memory);
    return memory;
}

/* --- outside of apply ----------------------------------------------------------------------------- */

static void a_state_is_made_whole_or_not_at_all(void **state)
{
    struct starve *memory = starve_begin();
    struct state *s = NULL;
    long n = 0;
    for (; s == NULL && n < ALLOCATIONS_MOST; n++) {
        starve_enter(memory);
        starve_arm(memory, n);
        s = state_create(&hash_key_fixed);
        starve_leave();
        if (s == NULL) {
            assert_int_equal(starve_live(memory), 0);
        }
    }
    assert_non_null(s);
    assert_true(n > 10);
    state_destroy(s);
    assert_int_equal(starve_live(memory), 0);
    starve_destroy(memory);
}

static void a_snapshot_is_restored_whole_or_not_at_all(void **state)
{
    struct world *w = *state;
    struct starve *memory = starve_begin();
    struct buf bytes;
    buf_init(&bytes, 0);
    populate(w);
    take_snapshot(w, &bytes);
    struct state *untouched = w->s;
    struct state *s = untouched;
    int rc = CONCLAVE_ENOMEM;
    long n = 0;
    for (; rc == CONCLAVE_ENOMEM && n < ALLOCATIONS_MOST; n++) {
        starve_enter(memory);
        starve_arm(memory, n);
        rc = state_restore(buf_slice(&bytes), &hash_key_fixed, &s);
        starve_leave();
        if (rc != 0) {
            assert_int_equal(rc, CONCLAVE_ENOMEM); /* a good snapshot is never called corrupt */
            assert_ptr_equal(s, untouched);
            assert_int_equal(starve_live(memory), 0);
        }
    }
    assert_int_equal(rc, 0);
    assert_true(n > 40);
    assert_true(state_digest(s) == state_digest(w->s));
    state_destroy(s);
    assert_int_equal(starve_live(memory), 0);
    buf_finish(&bytes);
    starve_destroy(memory);
}

/* A failed snapshot is given up; the state is as it was, and the next snapshot is good. */
static void a_snapshot_that_fails_harms_nothing(void **state)
{
    struct world *w = *state;
    struct starve *memory = starve_begin();
    populate(w);
    uint64_t digest = state_digest(w->s);
    bool failed = true;
    long n = 0;
    for (; failed && n < ALLOCATIONS_MOST; n++) {
        struct buf out;
        buf_init(&out, 0);
        starve_enter(memory);
        starve_arm(memory, n);
        int rc = state_snapshot_begin(w->s);
        for (bool more = rc == 0; more;) {
            rc = state_snapshot_step(w->s, 100, &out);
            more = rc == 1;
        }
        starve_leave();
        failed = starve_failed(memory);
        assert_int_equal(rc, failed ? CONCLAVE_ENOMEM : 0);
        state_snapshot_abort(w->s);
        assert_true(state_digest(w->s) == digest);
        buf_finish(&out);
    }
    assert_true(n > 2);
    struct buf bytes;
    struct state *s;
    buf_init(&bytes, 0);
    take_snapshot(w, &bytes);
    assert_int_equal(state_restore(buf_slice(&bytes), &hash_key_fixed, &s), 0);
    assert_true(state_digest(s) == digest);
    state_destroy(s);
    buf_finish(&bytes);
    starve_destroy(memory);
}

/* An answer that does not fit into memory is an error and leaves out as it was; who may read is decided as ever. */
static void a_read_answers_whole_or_not_at_all(void **state)
{
    static const struct {
        int32_t type;
        const char *path;
        int expected;
    } reads[] = {
        {WIRE_GET_DATA, "/app", 0},
        {WIRE_GET_CHILDREN2, "/", 0},
        {WIRE_GET_ACL, "/secret", CONCLAVE_NO_AUTH},
        {WIRE_GET_DATA, "/secret", CONCLAVE_NO_AUTH},
        {WIRE_GET_ALL_CHILDREN_NUMBER, "/app", 0},
    };
    struct world *w = *state;
    struct starve *memory = starve_begin();
    populate(w);
    maker_ids_add(&w->m, "ip", "192.168.0.1");
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        struct slice body = make_read(&w->m, reads[i].path, false);
        for (long n = 0;; n++) {
            struct buf out;
            struct state_watch watch;
            buf_init(&out, 0);
            state_caller_begin(w->s);
            starve_enter(memory);
            starve_arm(memory, n);
            int rc = state_query(w->s, reads[i].type, maker_ids(&w->m), body, &out, &watch);
            starve_leave();
            assert_true(rc == reads[i].expected ||
                        (starve_failed(memory) && rc == CONCLAVE_SYSTEM_ERROR));
            assert_int_equal(out.len > 0, rc == 0);
            buf_finish(&out);
            if (!starve_failed(memory)) {
                assert_int_equal(rc, reads[i].expected);
                break;
            }
        }
    }
    starve_destroy(memory);
}

/* --- inside apply --------------------------------------------------------------------------------- */

/* In a process of its own, with the nth allocation failing. */
static int run_in_child(struct world *w, int32_t type, struct slice body, long n)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int64_t session_id = type == WIRE_CREATE_SESSION ? NEW_SESSION : 1;
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        struct starve *memory = starve_create();
        starve_enter(memory);
        starve_arm(memory, n);
        int32_t err = apply(w->s, &w->e, &w->m, session_id, type, body);
        starve_leave();
        _exit(starve_failed(memory) ? 2 : err == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The command is applied whole, or the process has ended: no third way. */
static void expect_whole_or_end(struct world *w, int32_t type, struct slice body)
{
    int status;
    long n = 0;
    do {
        status = run_in_child(w, type, body, n++);
        if (WIFSIGNALED(status)) {
            assert_int_equal(WTERMSIG(status), SIGABRT);
        } else {
            assert_int_equal(WEXITSTATUS(status), 0);
        }
    } while (WIFSIGNALED(status));
    assert_true(n > 1);
}

static void apply_ends_without_memory(void **state)
{
    struct world *w = *state;
    populate(w);
    expect_whole_or_end(w, WIRE_CREATE, make_create(&w->m, "/app/child/deep", "data", 1));
    expect_whole_or_end(w, WIRE_SET_DATA, make_set_data(&w->m, "/app", "longer than before", -1));
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "digest", "new:one");
    expect_whole_or_end(w, WIRE_SET_ACL, make_set_acl(&w->m, "/app", -1));
    expect_whole_or_end(w, WIRE_CREATE_SESSION, make_session(&w->m, NEW_SESSION, 4000));
    make_multi_begin(&w->m);
    make_multi_create(&w->m, WIRE_CREATE, "/app/m", "", 0);
    make_multi_delete(&w->m, "/app/child", -1);
    make_multi_check(&w->m, "/box", -1);
    expect_whole_or_end(w, WIRE_MULTI, make_multi_end(&w->m));
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_state_is_made_whole_or_not_at_all), T(a_snapshot_is_restored_whole_or_not_at_all),
        T(a_snapshot_that_fails_harms_nothing), T(a_read_answers_whole_or_not_at_all),
        T(apply_ends_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
