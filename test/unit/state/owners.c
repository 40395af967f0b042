/* Who may write for a session: the server that its client is connected to. */
#include "state/state_internal.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CLIENT = 100 };

/* One command of a client, or of a server when cxid is 0. */
static int32_t send(struct world *w, int64_t origin, int32_t cxid, int32_t type, struct slice body)
{
    struct batch_header header = {.origin = origin, .sequence = 1, .time_ms = 5};
    struct command c = {
        .session_id = CLIENT, .cxid = cxid, .type = type, .ids = maker_ids(&w->m), .body = body};
    state_apply(w->s, &header, &c, &w->e);
    return w->e.err;
}

static int64_t owner(const struct world *w)
{
    struct state_session session;
    assert_true(state_session_find(w->s, CLIENT, &session));
    assert_true(state_digest_now(w->s) == state_digest(w->s));
    return session.owner;
}

static int32_t open_at(struct world *w, int64_t origin)
{
    return send(w, origin, 0, WIRE_CREATE_SESSION, make_session(&w->m, CLIENT, 4000));
}

static int32_t attach_at(struct world *w, int64_t origin)
{
    return send(w, origin, 0, COMMAND_ATTACH_SESSION, make_attach(&w->m, CLIENT, 7000, CLIENT));
}

static void creation_makes_the_owner(void **state)
{
    struct world *w = *state;
    assert_int_equal(open_at(w, 2), 0);
    assert_int_equal(owner(w), 2);
    assert_int_equal(open_at(w, 0), 0);
    assert_int_equal(owner(w), 0);
}

/* Every kind of write, at the place of ZooKeeper's checkSession. A zxid is taken. */
static void others_may_not_write(void **state)
{
    struct world *w = *state;
    open_at(w, 2);
    assert_int_equal(send(w, 2, 1, WIRE_CREATE, make_create(&w->m, "/a", "", 0)), 0);
    int64_t zxid = w->e.zxid;
    assert_int_equal(send(w, 3, 1, WIRE_CREATE, make_create(&w->m, "bad", "", 0)),
                     CONCLAVE_SESSION_MOVED);
    assert_int_equal(send(w, 3, 1, WIRE_CREATE, make_create(&w->m, "/b", "", 9)),
                     CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(send(w, 3, 1, WIRE_DELETE, make_delete(&w->m, "bad", -1)),
                     CONCLAVE_SESSION_MOVED);
    assert_int_equal(send(w, 3, 1, WIRE_SET_DATA, make_set_data(&w->m, "bad", "", -1)),
                     CONCLAVE_SESSION_MOVED);
    assert_int_equal(send(w, 3, 1, WIRE_SET_ACL, make_set_acl(&w->m, "bad", -1)),
                     CONCLAVE_SESSION_MOVED);
    assert_int_equal(w->e.zxid, zxid + 5);
    assert_int_equal(w->e.reply.len, 0);
    assert_int_equal(w->e.events_count, 0);
    assert_int_equal(send(w, 2, 2, WIRE_DELETE, make_delete(&w->m, "/a", -1)), 0);
    world_close(w, CLIENT);
    assert_int_equal(send(w, 3, 1, WIRE_DELETE, make_delete(&w->m, "/a", -1)),
                     CONCLAVE_SESSION_EXPIRED);
}

static void a_multi_says_it_in_its_results(void **state)
{
    struct world *w = *state;
    open_at(w, 2);
    make_multi_begin(&w->m);
    make_multi_check(&w->m, "/", -1);
    make_multi_create(&w->m, WIRE_CREATE, "/m", "", 0);
    assert_int_equal(send(w, 3, 1, WIRE_MULTI, make_multi_end(&w->m)), 0);
    struct wire_reader r = wire_reader_make(buf_slice(&w->e.reply));
    struct wire_multi_header header;
    assert_int_equal(wire_decode_multi_header(&r, &header), 0);
    assert_int_equal(header.err, CONCLAVE_SESSION_MOVED);
    assert_int_equal(wire_read_i32(&r), CONCLAVE_SESSION_MOVED);
    assert_int_equal(wire_decode_multi_header(&r, &header), 0);
    assert_int_equal(header.err, CONCLAVE_RUNTIME_INCONSISTENCY);
    assert_int_equal(world_read(w, WIRE_EXISTS, "/m"), CONCLAVE_NO_NODE);
}

static void nobody_in_particular_may(void **state)
{
    struct world *w = *state;
    open_at(w, 2);
    assert_int_equal(send(w, BATCH_ORIGIN_LEADER, 1, WIRE_CREATE, make_create(&w->m, "/a", "", 0)),
                     0);
    open_at(w, 0);
    assert_int_equal(send(w, 3, 1, WIRE_CREATE, make_create(&w->m, "/b", "", 0)), 0);
    assert_int_equal(owner(w), 0);
    assert_int_equal(send(w, 2, 1, WIRE_CREATE, make_create(&w->m, "/c", "", 0)), 0);
}

/* A client's late close by the server it left; an expiry, which comes from anywhere. */
static void close_is_the_owners_and_the_clocks(void **state)
{
    struct world *w = *state;
    open_at(w, 2);
    assert_int_equal(send(w, 3, 8, WIRE_CLOSE_SESSION, slice_make("", 0)), CONCLAVE_SESSION_MOVED);
    assert_int_equal(owner(w), 2);
    assert_int_equal(send(w, 3, 0, WIRE_CLOSE_SESSION, slice_make("", 0)), 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_CLOSED);
    assert_int_equal(send(w, 3, 8, WIRE_CLOSE_SESSION, slice_make("", 0)), 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_SAME);
    open_at(w, 2);
    assert_int_equal(send(w, 2, 9, WIRE_CLOSE_SESSION, slice_make("", 0)), 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_CLOSED);
    open_at(w, 2);
    assert_int_equal(send(w, BATCH_ORIGIN_LEADER, 9, WIRE_CLOSE_SESSION, slice_make("", 0)), 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_CLOSED);
}

static void attaching_moves_it(void **state)
{
    struct world *w = *state;
    struct state_session session;
    open_at(w, 2);
    int64_t zxid = w->e.zxid;
    uint64_t digest = state_digest(w->s);
    assert_int_equal(attach_at(w, 3), 0);
    assert_int_equal(w->e.session_change, STATE_SESSION_ATTACHED);
    assert_int_equal(w->e.session_id, CLIENT);
    assert_int_equal(w->e.reply.len, 0);
    assert_int_equal(w->e.zxid, zxid);
    assert_int_equal(state_zxid(w->s), zxid);
    assert_true(state_digest(w->s) != digest);
    assert_true(state_session_find(w->s, CLIENT, &session));
    assert_int_equal(session.owner, 3);
    assert_int_equal(session.timeout_ms, 7000);
    assert_int_equal(send(w, 2, 1, WIRE_CREATE, make_create(&w->m, "/a", "", 1)),
                     CONCLAVE_SESSION_MOVED);
    assert_int_equal(send(w, 3, 1, WIRE_CREATE, make_create(&w->m, "/a", "", 1)), 0);
    assert_int_equal(attach_at(w, 2), 0);
    assert_int_equal(world_stat(w, "/a").ephemeral_owner, CLIENT);
}

static void attaching_takes_the_password(void **state)
{
    struct world *w = *state;
    struct state_session session;
    open_at(w, 2);
    int64_t zxid = w->e.zxid;
    uint64_t digest = state_digest(w->s);
    struct slice wrong = make_attach(&w->m, CLIENT, 9000, CLIENT + 1);
    assert_int_equal(send(w, 3, 0, COMMAND_ATTACH_SESSION, wrong), CONCLAVE_SESSION_EXPIRED);
    assert_int_equal(w->e.session_change, STATE_SESSION_SAME);
    struct slice other = make_attach(&w->m, CLIENT + 1, 9000, CLIENT + 1);
    assert_int_equal(send(w, 3, 0, COMMAND_ATTACH_SESSION, other), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(send(w, 3, 0, COMMAND_ATTACH_SESSION, slice_str("x")),
                     CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(state_zxid(w->s), zxid);
    assert_true(state_digest(w->s) == digest);
    world_close(w, CLIENT);
    assert_int_equal(attach_at(w, 3), CONCLAVE_SESSION_EXPIRED);

    open_at(w, 2);
    assert_true(state_session_find(w->s, CLIENT, &session));
    struct slice right = slice_make(session.passwd, WIRE_PASSWD_LEN);
    assert_true(state_session_passwd_is(&session, right));
    assert_false(state_session_passwd_is(&session, slice_make(right.data, right.len - 1)));
    assert_false(state_session_passwd_is(&session, slice_str("0123456789abcdef")));
    assert_false(state_session_passwd_is(&session, SLICE_NULL));
}

static void a_snapshot_keeps_owners(void **state)
{
    struct world *w = *state;
    struct state_session session;
    struct state *restored = NULL;
    open_at(w, 250);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    attach_at(w, 3); /* after begin: not in it */
    assert_int_equal(state_snapshot_step(w->s, 1 << 20, &w->out), 0);
    assert_int_equal(state_restore(buf_slice(&w->out), &hash_key_fixed, &restored), 0);
    assert_true(state_session_find(restored, CLIENT, &session));
    assert_int_equal(session.owner, 250);
    state_destroy(restored);
}

/* A state that takes another's place knows what was admitted, and nobody who is connected. */
static void succession(void **state)
{
    struct world *w = *state;
    struct state_session session;
    struct state *older = state_create(&hash_key_fixed);
    struct batch_header header = {.origin = 2, .sequence = 7};
    state_batch_admit(older, &(struct batch_header){.origin = 2, .sequence = 9});
    state_batch_admit(older, &(struct batch_header){.origin = 5, .sequence = 9});
    state_batch_admit(w->s, &header);
    open_at(w, 2);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    assert_int_equal(state_snapshot_step(w->s, 1 << 20, &w->out), 0);
    struct state *restored = NULL;
    assert_int_equal(state_restore(buf_slice(&w->out), &hash_key_fixed, &restored), 0);
    state_succeed(restored, older);
    assert_int_equal(state_zxid(restored), state_zxid(w->s) + 1);
    assert_int_equal(state_origin_sequence(restored, 2), 9);
    assert_int_equal(state_origin_sequence(restored, 5), 9);
    assert_true(state_session_find(restored, CLIENT, &session));
    assert_int_equal(session.owner, 0);
    assert_true(state_digest_now(restored) == state_digest(restored));
    state_succeed(older, restored);
    assert_int_equal(state_zxid(older), state_zxid(w->s) + 2);
    state_destroy(restored);
    state_destroy(older);
}

/* A session of a log that was written before there were owners belongs to nobody. */
static void version_2_owns_nothing(void **state)
{
    struct world *w = *state;
    struct batch_header old = {.origin = 7, .sequence = 1, .previous = BATCH_PREVIOUS_UNKNOWN};
    struct command c = {.session_id = CLIENT,
                        .type = WIRE_CREATE_SESSION,
                        .ids = maker_ids(&w->m),
                        .body = make_session(&w->m, CLIENT, 4000)};
    state_apply(w->s, &old, &c, &w->e);
    assert_int_equal(owner(w), 0);
    open_at(w, 2);
    c.type = WIRE_CREATE;
    c.cxid = 1;
    c.body = make_create(&w->m, "/a", "", 0);
    state_apply(w->s, &old, &c, &w->e);
    assert_int_equal(w->e.err, 0);
}

/* A create that was on its way through the old server when the client went to another. */
static void E04_straggler_of_the_old_server_is_refused(void **state)
{
    struct world *w = *state;
    open_at(w, 2);
    assert_int_equal(attach_at(w, 3), 0);
    assert_int_equal(send(w, 2, 1, WIRE_CREATE, make_create(&w->m, "/late", "", 1)),
                     CONCLAVE_SESSION_MOVED);
    assert_int_equal(w->e.events_count, 0);
    assert_int_equal(send(w, 3, 2, WIRE_CREATE, make_create(&w->m, "/late", "", 1)), 0);
    assert_int_equal(send(w, 2, 3, WIRE_DELETE, make_delete(&w->m, "/late", -1)),
                     CONCLAVE_SESSION_MOVED);
    assert_int_equal(send(w, 3, 4, WIRE_DELETE, make_delete(&w->m, "/late", -1)), 0);
    world_close(w, CLIENT);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(creation_makes_the_owner),
        T(others_may_not_write),
        T(E04_straggler_of_the_old_server_is_refused),
        T(a_multi_says_it_in_its_results),
        T(nobody_in_particular_may),
        T(close_is_the_owners_and_the_clocks),
        T(attaching_moves_it),
        T(attaching_takes_the_password),
        T(a_snapshot_keeps_owners),
        T(succession),
        T(version_2_owns_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
