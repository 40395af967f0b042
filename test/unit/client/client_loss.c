/* What a client notes about lost links: causes, figures and sentences, from a handle that the test fills. */
#include "client/handle.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000000)

enum { T = 6000 };

/* A client whose link is up: its server was heard 100 ms ago, and a ping sent 2 s ago was answered. */
static struct conclave_client *linked(int64_t now_ns)
{
    struct conclave_client *client = calloc(1, sizeof *client);
    assert_non_null(client);
    client->core.session_id = 0x1a2b;
    client->core.timeout_ns = T * MS;
    client->core.recv_ns = now_ns - 100 * MS;
    client->core.sent_ns = now_ns - 2000 * MS;
    client->core.acked_ns = now_ns - 2000 * MS;
    snprintf(client->server, sizeof client->server, "10.0.0.1:2181");
    return client;
}

struct row {
    int error;          /* of the link */
    int64_t silent_ms;  /* of the server */
    int64_t paused_ms;  /* of the client */
    bool lost, refused; /* the session */
    enum conclave_loss_cause cause;
    const char *text;
};

static const struct row ROWS[] = {
    {CONCLAVE_EDISCONNECTED, 11000, 11200, true, true, CONCLAVE_LOSS_PAUSED,
     "this client did not run for 11.2 s or more: its process was paused, its loop was busy, or its machine was "
     "overloaded; a server then said that the session is over"},
    {CONCLAVE_ETIMEDOUT, 4000, 0, true, false, CONCLAVE_LOSS_SILENT,
     "10.0.0.1:2181 sent nothing for 4.0 s although it was asked: it stood still, or the network was cut; no server "
     "could be reached within the session's timeout of 6.0 s (2 attempts: 10.0.0.2:2181: refused)"},
    {CONCLAVE_ETIMEDOUT, 4000, 1900, false, false, CONCLAVE_LOSS_SILENT,
     "10.0.0.1:2181 sent nothing for 4.0 s although it was asked: it stood still, or the network was cut"},
    {CONCLAVE_EDISCONNECTED, 300, 0, false, false, CONCLAVE_LOSS_ENDED,
     "10.0.0.1:2181 ended the connection, 0.3 s after it had sent something"},
    {CONCLAVE_EPROTO, 300, 0, false, false, CONCLAVE_LOSS_FAILED,
     "the connection to 10.0.0.1:2181 failed: "},
    {0, 300, 0, false, false, CONCLAVE_LOSS_LEFT,
     "this client left 10.0.0.1:2181 for another server"},
};

static void test_causes(void **state)
{
    int64_t now_ns = 1000000 * MS;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const struct row *r = &ROWS[i];
        struct conclave_client *client = linked(now_ns);
        char text[512];
        char problem[] = "10.0.0.2:2181: refused";
        client->core.recv_ns = now_ns - r->silent_ms * MS;
        client->core.link_error = r->error;
        loss_note_turn(client, now_ns - r->paused_ms * MS, now_ns);
        loss_note_state(client, CONCLAVE_STATE_SUSPENDED, now_ns);
        client->problems[0] = problem;
        loss_note_attempt(client);
        loss_note_attempt(client);
        if (r->lost) {
            client->core.session_refused = r->refused;
            loss_note_state(client, CONCLAVE_STATE_LOST, now_ns + T * MS);
            loss_note_attempt(client); /* for a new session */
        }
        const struct conclave_loss *l = &client->loss.seen;
        loss_text(l, text, sizeof text);
        if (l->cause != r->cause || strncmp(text, r->text, strlen(r->text)) != 0) {
            fail_msg("row %zu: %d, \"%s\"", i, (int)l->cause, text);
        }
        assert_int_equal(l->session_lost, r->lost);
        assert_int_equal(l->refused, r->refused);
        assert_int_equal(l->session_id, 0x1a2b);
        assert_int_equal(l->heard_ms, r->silent_ms);
        assert_int_equal(l->asked_ms, 2000);
        assert_int_equal(l->paused_ms, r->paused_ms);
        assert_int_equal(l->attempts, 2);
        loss_text(l, text, 10);
        assert_int_equal(strlen(text), 9);
        free(client);
    }
}

/* A pause from before the last answered request explains nothing; the longest one since then counts, also one during the
 * search for a server. */
static void test_pauses(void **state)
{
    int64_t now_ns = 1000000 * MS;
    struct conclave_client *client = linked(now_ns);
    client->core.link_error = CONCLAVE_EDISCONNECTED;
    loss_note_turn(client, now_ns - 9000 * MS, now_ns - 3000 * MS);
    loss_note_state(client, CONCLAVE_STATE_SUSPENDED, now_ns);
    assert_int_equal(client->loss.seen.paused_ms, 0);
    assert_int_equal(client->loss.seen.cause, CONCLAVE_LOSS_ENDED);
    loss_note_turn(client, INT64_MAX, now_ns);
    loss_note_turn(client, now_ns - 50 * MS, now_ns);
    assert_int_equal(client->loss.seen.paused_ms, 0);
    loss_note_turn(client, now_ns, now_ns + 5000 * MS);
    loss_note_turn(client, now_ns + 5000 * MS, now_ns + 5500 * MS);
    loss_note_state(client, CONCLAVE_STATE_LOST, now_ns + 5500 * MS);
    assert_int_equal(client->loss.seen.paused_ms, 5000);
    assert_int_equal(client->loss.seen.cause, CONCLAVE_LOSS_PAUSED);
    free(client);
}

/* A session to resume that a server refuses: there was no link. The next loss is a new one. */
static void test_resumed(void **state)
{
    int64_t now_ns = 1000000 * MS;
    char text[512];
    struct conclave_client *client = linked(now_ns);
    client->core.session_refused = true;
    loss_note_state(client, CONCLAVE_STATE_LOST, now_ns);
    assert_int_equal(client->loss.seen.cause, CONCLAVE_LOSS_RESUME);
    loss_text(&client->loss.seen, text, sizeof text);
    assert_string_equal(
        text,
        "no link of this client had the session; a server then said that the session is over");
    client->core.link_error = CONCLAVE_EDISCONNECTED;
    loss_note_state(client, CONCLAVE_STATE_SUSPENDED, now_ns);
    loss_note_attempt(client);
    loss_note_state(client, CONCLAVE_STATE_RECONNECTED, now_ns);
    loss_note_attempt(client);
    assert_false(client->loss.seen.session_lost || client->loss.seen.refused);
    assert_int_equal(client->loss.seen.attempts, 1);
    free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
