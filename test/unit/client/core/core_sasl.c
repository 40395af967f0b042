/* The connection core's login by SASL: the order of messages on the link, and refused servers. */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void open_peer(struct peer *p)
{
    struct core_options options = peer_options("");
    options.login = true;
    peer_init_with(p, &options);
}

static enum conclave_state newest_state(const struct peer *p)
{
    return p->states_count > 0 ? p->states[p->states_count - 1] : CONCLAVE_STATE_CONNECTING;
}

static void assert_problem(const struct peer *p, const char *text)
{
    assert_non_null(p->core.link_problem);
    assert_string_equal(p->core.link_problem, text);
}

/* Puts a token on the link; the frame that came out of it. */
static struct peer_frame send_token(struct peer *p, enum core_login_step step, const char *token)
{
    core_login(&p->core, step, slice_str(token), p->now_ns);
    struct peer_frame f = peer_expect(p, WIRE_SASL);
    struct wire_reader rd = wire_reader_make(f.body);
    struct wire_sasl_request request;
    assert_int_equal(wire_decode_sasl_request(&rd, &request), 0);
    assert_false(slice_is_null(request.token));
    assert_true(slice_equal_str(request.token, token));
    return f;
}

/* DIGEST-MD5's way: the server speaks first and proves itself last. */
static void log_in(struct peer *p)
{
    struct peer_frame f = send_token(p, CORE_LOGIN_MORE, "");
    peer_answer_token(p, &f, 0, "challenge");
    f = send_token(p, CORE_LOGIN_MORE, "response");
    peer_answer_token(p, &f, 0, "proof");
    core_login(&p->core, CORE_LOGIN_DONE, SLICE_NULL, p->now_ns);
}

static void submit_get(struct peer *p, int id)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/a", 0);
    assert_int_equal(peer_submit(p, &op, id), 0);
}

/* Nothing else is on the link before the exchange is over, then all of it in its order. */
static void test_order(void **state)
{
    struct peer p;
    open_peer(&p);
    assert_int_equal(core_add_auth(&p.core, "digest", slice_str("a:b")), 0);
    submit_get(&p, 1);
    peer_connect(&p, PEER_SESSION);
    assert_int_equal(p.core.link, LINK_LOGIN);
    assert_int_equal(p.states_count, 0);
    assert_int_equal(p.logins, 1);
    assert_true(p.challenge_first);
    submit_get(&p, 2);
    assert_int_equal(core_add_auth(&p.core, "digest", slice_str("c:d")), 0);
    struct peer_frame f;
    assert_false(peer_take(&p, &f, false));

    f = send_token(&p, CORE_LOGIN_MORE, "");
    assert_int_equal(p.logins, 1);
    peer_answer_token(&p, &f, 0, "challenge");
    assert_int_equal(p.logins, 2);
    assert_false(p.challenge_first);
    assert_string_equal(p.challenge, "challenge");
    f = send_token(&p, CORE_LOGIN_MORE, "response");
    assert_false(peer_take(&p, &f, false));
    peer_answer_token(&p, &f, 0, "proof");
    assert_int_equal(p.logins, 3);
    assert_int_equal(p.states_count, 0);
    core_login(&p.core, CORE_LOGIN_DONE, SLICE_NULL, p.now_ns);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_CONNECTED);
    peer_expect(&p, WIRE_AUTH);
    peer_expect(&p, WIRE_AUTH);
    peer_expect(&p, WIRE_EXISTS);
    peer_expect(&p, WIRE_EXISTS);
    assert_false(peer_take(&p, &f, false));
    peer_finish(&p);
}

/* GSSAPI's way: the last token is ours, and the server's consent has none. */
static void test_last_token_is_ours(void **state)
{
    struct peer p;
    open_peer(&p);
    peer_connect(&p, PEER_SESSION);
    struct peer_frame f = send_token(&p, CORE_LOGIN_MORE, "request");
    peer_answer_token(&p, &f, 0, "answer");
    f = send_token(&p, CORE_LOGIN_MORE, "");
    peer_answer_token(&p, &f, 0, "layers");
    f = send_token(&p, CORE_LOGIN_LAST, "none");
    assert_int_equal(p.states_count, 0);
    peer_answer_token(&p, &f, 0, NULL);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_CONNECTED);
    assert_int_equal(p.logins, 3);
    peer_finish(&p);
}

/* Each new link logs in again, before watches are set again. */
static void test_every_link(void **state)
{
    struct peer p;
    open_peer(&p);
    peer_connect(&p, PEER_SESSION);
    log_in(&p);
    peer_watch(&p, CONCLAVE_OP_EXISTS, "/a", 1);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 3);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_SUSPENDED);
    peer_connect(&p, PEER_SESSION);
    assert_int_equal(p.logins, 4);
    assert_true(p.challenge_first);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_SUSPENDED);
    log_in(&p);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_RECONNECTED);
    peer_expect(&p, WIRE_SET_WATCHES);
    peer_finish(&p);
}

static void assert_refused(struct peer *p, const char *problem)
{
    assert_int_equal(newest_state(p), CONCLAVE_STATE_AUTH_FAILED);
    assert_int_equal(p->core.link, LINK_NONE);
    assert_int_equal(p->core.link_error, CONCLAVE_AUTH_FAILED);
    assert_false(core_wants_link(&p->core));
    if (problem != NULL) {
        assert_problem(p, problem);
    }
    assert_int_equal(peer_reply_of(p, 1)->error, CONCLAVE_AUTH_FAILED);
    submit_get(p, 2);
    core_tick(&p->core, p->now_ns);
    assert_int_equal(peer_reply_of(p, 2)->error, CONCLAVE_AUTH_FAILED);
}

static void test_refused(void **state)
{
    static const int32_t errors[] = {CONCLAVE_AUTH_FAILED, CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH,
                                     CONCLAVE_UNIMPLEMENTED};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        for (int later = 0; later < 2; later++) {
            struct peer p;
            open_peer(&p);
            submit_get(&p, 1);
            peer_connect(&p, PEER_SESSION);
            struct peer_frame f = send_token(&p, CORE_LOGIN_MORE, "");
            if (later) {
                peer_answer_token(&p, &f, 0, "challenge");
                f = send_token(&p, CORE_LOGIN_MORE, "response");
            }
            peer_answer_token(&p, &f, errors[i], NULL);
            assert_refused(&p, "the server refused the login by SASL");
            peer_finish(&p);
        }
    }
}

/* An error that passes ends the link only. */
static void test_overloaded_server(void **state)
{
    struct peer p;
    open_peer(&p);
    submit_get(&p, 1);
    peer_connect(&p, PEER_SESSION);
    struct peer_frame f = send_token(&p, CORE_LOGIN_MORE, "");
    peer_answer_token(&p, &f, CONCLAVE_THROTTLED, NULL);
    assert_int_equal(p.core.link_error, CONCLAVE_THROTTLED);
    assert_true(core_wants_link(&p.core));
    assert_int_equal(p.states_count, 0);
    peer_connect(&p, PEER_SESSION);
    log_in(&p);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_CONNECTED);
    assert_int_equal(p.core.session_id, PEER_SESSION);
    peer_expect(&p, WIRE_EXISTS);
    peer_finish(&p);
}

/* Success without a token: there is no SASL there, or the server goes on with whom it did not
 * know. */
static void test_no_token(void **state)
{
    struct peer p;
    open_peer(&p);
    submit_get(&p, 1);
    peer_connect(&p, PEER_SESSION);
    struct peer_frame f = send_token(&p, CORE_LOGIN_MORE, "");
    peer_answer_token(&p, &f, 0, NULL);
    assert_refused(&p, "the server does not offer SASL");
    peer_finish(&p);

    open_peer(&p);
    submit_get(&p, 1);
    peer_connect(&p, PEER_SESSION);
    f = send_token(&p, CORE_LOGIN_MORE, "");
    peer_answer_token(&p, &f, 0, "challenge");
    f = send_token(&p, CORE_LOGIN_MORE, "response");
    peer_answer_token(&p, &f, 0, NULL);
    assert_refused(&p, "the server did not accept the login by SASL");
    peer_finish(&p);
}

/* An error on our own side is final at first, and temporary after a login that worked. */
static void test_no_token_of_ours(void **state)
{
    struct peer p;
    open_peer(&p);
    submit_get(&p, 1);
    peer_connect(&p, PEER_SESSION);
    core_login_failed(&p.core, p.now_ns);
    assert_refused(&p, NULL);
    peer_finish(&p);

    open_peer(&p);
    peer_connect(&p, PEER_SESSION);
    log_in(&p);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    for (int i = 0; i < 3; i++) {
        peer_connect(&p, PEER_SESSION);
        core_login_failed(&p.core, p.now_ns);
        assert_int_equal(p.core.link_error, CONCLAVE_ESASL);
        assert_int_equal(newest_state(&p), CONCLAVE_STATE_SUSPENDED);
        assert_true(core_wants_link(&p.core));
    }
    peer_connect(&p, PEER_SESSION);
    log_in(&p);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_RECONNECTED);
    assert_int_equal(p.core.session_id, PEER_SESSION);
    peer_finish(&p);
}

static void test_link_that_ends(void **state)
{
    struct peer p;
    open_peer(&p);
    peer_connect(&p, PEER_SESSION);
    send_token(&p, CORE_LOGIN_MORE, "");
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    assert_problem(&p, "closed by the server during the login");
    /* A token that comes too late has no link any more. */
    core_login(&p.core, CORE_LOGIN_MORE, slice_str("late"), p.now_ns);
    core_login_failed(&p.core, p.now_ns);
    assert_int_equal(p.states_count, 0);
    assert_true(core_wants_link(&p.core));

    peer_connect(&p, PEER_SESSION);
    assert_null(p.core.link_problem);
    peer_advance_ms(&p, 1000); /* of peer_connect */
    assert_int_equal(p.core.link_error, CONCLAVE_ETIMEDOUT);
    assert_problem(&p, "the login by SASL timed out");

    p.login_error = CONCLAVE_ENOMEM;
    peer_connect(&p, PEER_SESSION);
    assert_int_equal(p.core.link_error, CONCLAVE_ENOMEM);
    assert_true(core_wants_link(&p.core));
    peer_finish(&p);
}

static void test_frames_out_of_turn(void **state)
{
    for (int i = 0; i < 4; i++) {
        struct peer p;
        open_peer(&p);
        peer_connect(&p, PEER_SESSION);
        struct peer_frame f = {.xid = 0};
        if (i > 0) {
            f = send_token(&p, CORE_LOGIN_MORE, "");
        }
        switch (i) {
        case 0: /* nothing was asked */
        case 1: /* a number that was not sent */
            f.xid += i;
            peer_answer_token(&p, &f, 0, "challenge");
            break;
        case 2: /* half a record */
            peer_reply(&p, f.xid, 0, 0, slice_make("\0\0\0\5ab", 6));
            break;
        default: /* a token beyond all measure */
            peer_feed(&p, slice_make("\x7f\0\0\0", 4), 0);
            peer_feed(&p, slice_make("0123456789012345", 16), 0);
            break;
        }
        assert_int_equal(p.core.link, LINK_NONE);
        assert_int_equal(p.core.link_error, CONCLAVE_EPROTO);
        assert_int_equal(p.states_count, 0);
        peer_finish(&p);
    }
}

/* The session ends while logging in again: LOST is told in time, and the session is closed, as the
 * server has given it a new span of life; what it says of the login is of no interest. */
static void test_lost_while_logging_in(void **state)
{
    struct peer p;
    open_peer(&p);
    peer_connect(&p, PEER_SESSION);
    log_in(&p);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    core_link_up(&p.core, p.now_ns, 20000);
    struct peer_frame f;
    assert_true(peer_take(&p, &f, true));
    struct buf b;
    buf_init(&b, 0);
    peer_put_connect(&b, PEER_TIMEOUT_MS, PEER_SESSION, WIRE_PASSWD_LEN);
    peer_feed(&p, buf_slice(&b), 0);
    buf_finish(&b);
    struct peer_frame token = send_token(&p, CORE_LOGIN_MORE, "");
    peer_advance_ms(&p, PEER_TIMEOUT_MS - 1);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_SUSPENDED);
    peer_advance_ms(&p, 1);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_LOST);
    assert_int_equal(p.core.link, LINK_FAREWELL);
    f = peer_expect(&p, WIRE_CLOSE_SESSION);
    peer_answer_token(&p, &token, 0, "challenge");
    assert_int_equal(p.core.link, LINK_FAREWELL);
    assert_int_equal(p.logins, 4);
    peer_reply(&p, f.xid, 9, 0, SLICE_NULL);
    assert_int_equal(p.core.link, LINK_NONE);
    peer_connect(&p, PEER_SESSION + 1);
    log_in(&p);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_NEW_SESSION);
    peer_finish(&p);
}

/* A session that the program never saw ends silently, and requests that wait for one wait on. */
static void test_first_session_ends_unheard(void **state)
{
    struct peer p;
    open_peer(&p);
    submit_get(&p, 1);
    peer_connect(&p, PEER_SESSION);
    core_link_down(&p.core, p.now_ns, CONCLAVE_EDISCONNECTED);
    peer_advance_ms(&p, PEER_TIMEOUT_MS);
    assert_int_equal(p.states_count, 0);
    assert_int_equal(p.core.session_id, 0);
    peer_connect(&p, PEER_SESSION + 1);
    log_in(&p);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_CONNECTED);
    struct peer_frame f = peer_expect(&p, WIRE_EXISTS);
    peer_answer_stat(&p, &f, 3);
    assert_int_equal(peer_reply_of(&p, 1)->error, 0);
    peer_finish(&p);
}

static void test_close(void **state)
{
    struct peer p;
    open_peer(&p);
    peer_connect(&p, PEER_SESSION);
    core_close(&p.core, p.now_ns, 5000);
    assert_int_equal(p.core.link, LINK_LOGIN);
    log_in(&p);
    struct peer_frame f = peer_expect(&p, WIRE_CLOSE_SESSION);
    peer_reply(&p, f.xid, 5, 0, SLICE_NULL);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_CLOSED);
    peer_finish(&p);

    open_peer(&p);
    peer_connect(&p, PEER_SESSION);
    f = send_token(&p, CORE_LOGIN_MORE, "");
    core_close(&p.core, p.now_ns, CONCLAVE_FOREVER);
    peer_answer_token(&p, &f, CONCLAVE_AUTH_FAILED, NULL);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_CLOSED);
    peer_finish(&p);

    open_peer(&p);
    peer_connect(&p, PEER_SESSION);
    core_close(&p.core, p.now_ns, CONCLAVE_FOREVER);
    core_login_failed(&p.core, p.now_ns);
    assert_int_equal(newest_state(&p), CONCLAVE_STATE_CLOSED);
    peer_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_last_token_is_ours),
        cmocka_unit_test(test_every_link),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_overloaded_server),
        cmocka_unit_test(test_no_token),
        cmocka_unit_test(test_no_token_of_ours),
        cmocka_unit_test(test_link_that_ends),
        cmocka_unit_test(test_frames_out_of_turn),
        cmocka_unit_test(test_lost_while_logging_in),
        cmocka_unit_test(test_first_session_ends_unheard),
        cmocka_unit_test(test_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
