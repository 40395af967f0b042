/* The cause of a session's end: a table of facts and causes, and what the sentences name. */
#include "session/cause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { T = 4000 };

#define TCP(...)                                                                                   \
    {                                                                                              \
        .known = true, __VA_ARGS__                                                                 \
    }

/* `text`: a part of the sentence. */
struct row {
    const char *name;
    enum session_cause cause;
    const char *text;
    struct session_facts f;
};

static const struct row ROWS[] = {
    {"closed", SESSION_CAUSE_CLOSED, "The client closed", {.end = SESSION_END_CLOSED}},
    {"closed while the server had stalled",
     SESSION_CAUSE_CLOSED,
     "closed",
     {.end = SESSION_END_CLOSED, .link = SESSION_LINK_OPEN, .stalled_ms = T}},
    {"killed",
     SESSION_CAUSE_KILLED,
     "operator ended the session: digest:anna",
     {.end = SESSION_END_KILLED, .by = "digest:anna"}},
    {"alive, its connection ended",
     SESSION_CAUSE_LIVES,
     "was alive",
     {.end = SESSION_END_NONE, .link = SESSION_LINK_LEFT}},
    {"alive, moved",
     SESSION_CAUSE_MOVED,
     "another server",
     {.end = SESSION_END_NONE, .link = SESSION_LINK_MOVED}},
    {"moved, and expired there",
     SESSION_CAUSE_MOVED,
     "another server",
     {.end = SESSION_END_EXPIRED, .link = SESSION_LINK_MOVED}},

    {"silent, its host answered the probe",
     SESSION_CAUSE_CLIENT_PAUSED,
     "silent for 4.1 s: its process was paused",
     {.link = SESSION_LINK_OPEN, .silent_ms = 4050, .tcp = TCP(.heard_ms = 2000)}},
    {"silent, its host answered long ago, then nothing asked it",
     SESSION_CAUSE_CLIENT_PAUSED,
     "paused",
     {.link = SESSION_LINK_OPEN, .silent_ms = 11200, .tcp = TCP(.heard_ms = 8000)}},
    {"silent, its host answered, and the next probe is on its way",
     SESSION_CAUSE_CLIENT_PAUSED,
     "paused",
     {.link = SESSION_LINK_OPEN, .silent_ms = 4050, .tcp = TCP(.probes = 1, .heard_ms = 2010)}},
    {"silent, its segments arrive but answers do not",
     SESSION_CAUSE_NETWORK,
     "20 bytes",
     {.link = SESSION_LINK_OPEN,
      .silent_ms = 6300,
      .tcp = TCP(.retransmits = 4, .unacknowledged = 20, .heard_ms = 2984)}},
    {"silent, cut off soon after it had acknowledged an event",
     SESSION_CAUSE_NETWORK,
     "network was cut",
     {.link = SESSION_LINK_OPEN, .silent_ms = 4050, .tcp = TCP(.probes = 2, .heard_ms = 3000)}},
    {"silent, only its last request was acknowledged",
     SESSION_CAUSE_CLIENT_SILENT,
     "does not tell",
     {.link = SESSION_LINK_OPEN, .silent_ms = 4050, .tcp = TCP(.heard_ms = 4010)}},
    {"silent, no kernel to ask",
     SESSION_CAUSE_CLIENT_SILENT,
     "does not tell",
     {.link = SESSION_LINK_OPEN, .silent_ms = 4050}},
    {"silent, probes without an answer",
     SESSION_CAUSE_NETWORK,
     "silent for 11.2 s: the network was cut",
     {.link = SESSION_LINK_OPEN, .silent_ms = 11200, .tcp = TCP(.probes = 3, .heard_ms = 11200)}},
    {"silent, retransmissions without an answer",
     SESSION_CAUSE_NETWORK,
     "because 20 bytes of answers stayed unacknowledged",
     {.link = SESSION_LINK_OPEN,
      .silent_ms = 4050,
      .tcp = TCP(.retransmits = 2, .unacknowledged = 20, .heard_ms = 4000)}},
    {"silent, an early retransmission was answered",
     SESSION_CAUSE_CLIENT_PAUSED,
     "paused",
     {.link = SESSION_LINK_OPEN,
      .silent_ms = 4050,
      .tcp = TCP(.retransmits_all = 9, .heard_ms = 1000)}},
    {"silent, its window is full but its host answers",
     SESSION_CAUSE_CLIENT_NOT_READING,
     "did not read its answers (100000 bytes wait)",
     {.link = SESSION_LINK_OPEN,
      .silent_ms = 4050,
      .tcp = TCP(.unacknowledged = 100000, .heard_ms = 300)}},

    {"left",
     SESSION_CAUSE_CLIENT_LEFT,
     "exited, crashed or was killed",
     {.link = SESSION_LINK_LEFT, .silent_ms = 100, .tcp = TCP(.heard_ms = 0)}},
    {"left with an answer on its way",
     SESSION_CAUSE_CLIENT_LEFT,
     "exited",
     {.link = SESSION_LINK_LEFT, .silent_ms = 100, .tcp = TCP(.unacknowledged = 20)}},
    {"gave up, because answers did not arrive",
     SESSION_CAUSE_NETWORK,
     "(20 bytes unacknowledged)",
     {.link = SESSION_LINK_LEFT,
      .silent_ms = 100,
      .tcp = TCP(.unacknowledged = 20, .retransmits = 3)}},
    {"left, because the disk of its server hung",
     SESSION_CAUSE_DISK_STALL,
     "waited 9.0 s for the disk, and a request of the client 2.7 s",
     {.link = SESSION_LINK_LEFT,
      .silent_ms = 20,
      .unanswered = 1,
      .owed_ms = 2700,
      .sync_longest_ms = 9000,
      .tcp = TCP(.heard_ms = 0)}},
    {"left an attempt to come back while the disk hung",
     SESSION_CAUSE_DISK_STALL,
     "for the disk",
     {.link = SESSION_LINK_LEFT, .unanswered = 1, .owed_ms = 900, .sync_longest_ms = 4000}},
    {"left while the disk hung, but all was answered",
     SESSION_CAUSE_CLIENT_LEFT,
     "exited",
     {.link = SESSION_LINK_LEFT, .silent_ms = 20, .sync_longest_ms = 9000}},
    {"left at a request that the disk held for a moment",
     SESSION_CAUSE_CLIENT_LEFT,
     "exited",
     {.link = SESSION_LINK_LEFT, .unanswered = 1, .owed_ms = 300, .sync_longest_ms = 300}},
    {"left, because the other members stored nothing",
     SESSION_CAUSE_COMMIT_STALL,
     "waited 2.7 s for its answer, not for the disk",
     {.link = SESSION_LINK_LEFT, .unanswered = 1, .owed_ms = 2700, .sync_longest_ms = 20}},
    {"cut off while the disk hung",
     SESSION_CAUSE_NETWORK,
     "(20 bytes unacknowledged)",
     {.link = SESSION_LINK_LEFT,
      .unanswered = 1,
      .owed_ms = 2700,
      .sync_longest_ms = 9000,
      .tcp = TCP(.unacknowledged = 20, .retransmits = 3)}},
    {"silent for its whole timeout while the disk hung",
     SESSION_CAUSE_CLIENT_PAUSED,
     "paused",
     {.link = SESSION_LINK_OPEN,
      .silent_ms = 4050,
      .sync_longest_ms = 9000,
      .tcp = TCP(.heard_ms = 10)}},
    {"TCP gave up",
     SESSION_CAUSE_NETWORK,
     "network was cut",
     {.link = SESSION_LINK_LOST, .silent_ms = 3000}},
    {"dropped",
     SESSION_CAUSE_DROPPED,
     "closed the connection: it was too slow",
     {.link = SESSION_LINK_DROPPED, .reason = "it was too slow"}},
    {"dropped without a reason", SESSION_CAUSE_DROPPED, "closed", {.link = SESSION_LINK_DROPPED}},

    {"the server was stopped all the time",
     SESSION_CAUSE_SERVER_STALL,
     "did not run for 7.5 s",
     {.link = SESSION_LINK_OPEN,
      .silent_ms = 8000,
      .stalled_ms = 7500,
      .tcp = TCP(.heard_ms = 10)}},
    {"the server was stopped, and then the client was silent for its whole timeout",
     SESSION_CAUSE_CLIENT_PAUSED,
     "paused",
     {.link = SESSION_LINK_OPEN,
      .silent_ms = 11500,
      .stalled_ms = 7500,
      .tcp = TCP(.heard_ms = 10)}},
    {"a blip of the server",
     SESSION_CAUSE_CLIENT_PAUSED,
     "paused",
     {.link = SESSION_LINK_OPEN, .silent_ms = 4100, .stalled_ms = 100, .tcp = TCP(.heard_ms = 10)}},
    {"the server was stopped until the client gave up",
     SESSION_CAUSE_SERVER_STALL,
     "did not run for 3.0 s",
     {.link = SESSION_LINK_LEFT, .silent_ms = 3000, .stalled_ms = 3000}},
    {"the server stalled a little, and the client left",
     SESSION_CAUSE_CLIENT_LEFT,
     "exited",
     {.link = SESSION_LINK_LEFT, .silent_ms = 3000, .stalled_ms = 200}},
    {"the server woke and dropped it",
     SESSION_CAUSE_SERVER_STALL,
     "did not run",
     {.link = SESSION_LINK_DROPPED,
      .reason = "this server has no leader with a quorum",
      .stalled_ms = 6000,
      .cut_off_ms = 5000,
      .leader_changes = 1}},
    {"the server had no leader, and a new one came",
     SESSION_CAUSE_LEADER_CHANGE,
     "no leader for 3.0 s",
     {.link = SESSION_LINK_OPEN, .silent_ms = 4100, .cut_off_ms = 3000, .leader_changes = 1}},
    {"the server was cut off",
     SESSION_CAUSE_SERVER_LOST,
     "no leader with a quorum for 4.0 s",
     {.link = SESSION_LINK_DROPPED, .cut_off_ms = 4000}},
    {"the server was cut off for a part of a long timeout",
     SESSION_CAUSE_SERVER_LOST,
     "no leader with a quorum for 0.5 s",
     {.link = SESSION_LINK_DROPPED, .silent_ms = 900, .cut_off_ms = 500}},
    {"cut off from a client that was mute before",
     SESSION_CAUSE_NETWORK,
     "network was cut",
     {.link = SESSION_LINK_DROPPED,
      .silent_ms = 4760,
      .cut_off_ms = 1000,
      .leader_changes = 1,
      .tcp = TCP(.probes = 3, .heard_ms = 4700)}},
    {"dropped when it spoke after its timeout",
     SESSION_CAUSE_CLIENT_PAUSED,
     "paused",
     {.link = SESSION_LINK_DROPPED,
      .reason = "its session was silent for its whole timeout",
      .silent_ms = 9000,
      .tcp = TCP(.heard_ms = 0)}},

    {"the leader decided, a new one",
     SESSION_CAUSE_LEADER_CHANGE,
     "4.0 s before the end; the client had used server 2",
     {.decided = true,
      .heard_ms = 4000,
      .led_ms = 4000,
      .owner = 2,
      .report_ms = 50,
      .reborn_ms = -1}},
    {"the leader decided, of its own client of an earlier run",
     SESSION_CAUSE_LEADER_CHANGE,
     "restarted",
     {.decided = true,
      .heard_ms = 4000,
      .led_ms = 3990,
      .owner = 1,
      .owner_here = true,
      .report_ms = -1,
      .reborn_ms = -1}},
    {"the leader decided, the client's server is mute",
     SESSION_CAUSE_SERVER_LOST,
     "Server 3, which the client used, reported nothing for 6.0 s",
     {.decided = true,
      .heard_ms = 6100,
      .led_ms = 90000,
      .owner = 3,
      .report_ms = 6000,
      .reborn_ms = -1}},
    {"the leader decided, the client's server was restarted",
     SESSION_CAUSE_SERVER_LOST,
     "Server 3, which the client used, was restarted 3.0 s before",
     {.decided = true,
      .heard_ms = 4100,
      .led_ms = 90000,
      .owner = 3,
      .report_ms = 50,
      .reborn_ms = 3000}},
    {"the leader decided, the client's server is well",
     SESSION_CAUSE_CLIENT_SILENT,
     "No server heard of the client for 4.1 s",
     {.decided = true,
      .heard_ms = 4100,
      .led_ms = 90000,
      .owner = 3,
      .report_ms = 50,
      .reborn_ms = -1}},
    {"the leader decided, that server was restarted before",
     SESSION_CAUSE_CLIENT_SILENT,
     "No server heard",
     {.decided = true,
      .heard_ms = 4100,
      .led_ms = 90000,
      .owner = 3,
      .report_ms = 50,
      .reborn_ms = 9000}},
    {"nothing is known", SESSION_CAUSE_CLIENT_SILENT, "expired", {.link = SESSION_LINK_NONE}},
};

static struct session_facts facts_of(const struct row *row)
{
    struct session_facts f = row->f;
    f.timeout_ms = T;
    bool given = strcmp(row->name, "closed") == 0 || row->cause == SESSION_CAUSE_LIVES ||
                 (row->cause == SESSION_CAUSE_MOVED && f.end == SESSION_END_NONE);
    f.end = given || f.end != SESSION_END_NONE ? f.end : SESSION_END_EXPIRED;
    return f;
}

static void test_causes(void **state)
{
    bool seen[SESSION_CAUSE_COUNT] = {false};
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct session_facts f = facts_of(&ROWS[i]);
        struct buf text;
        enum session_cause cause = session_cause_find(&f);
        buf_init(&text, 0);
        session_cause_text(cause, &f, &text);
        if (cause != ROWS[i].cause || strstr(buf_cstr(&text), ROWS[i].text) == NULL) {
            fail_msg("%s: %s, \"%s\"", ROWS[i].name, session_cause_code(cause), buf_cstr(&text));
        }
        seen[cause] = true;
        buf_finish(&text);
    }
    for (size_t i = 0; i < SESSION_CAUSE_COUNT; i++) {
        assert_true(seen[i]);
    }
}

/* Codes are unique; what a server saw itself outweighs what the leader concludes. */
static void test_weights(void **state)
{
    static const enum session_cause OF_LEADER[] = {
        SESSION_CAUSE_CLIENT_SILENT, SESSION_CAUSE_SERVER_LOST, SESSION_CAUSE_LEADER_CHANGE};
    static const enum session_cause SEEN[] = {
        SESSION_CAUSE_CLIENT_LEFT,  SESSION_CAUSE_CLIENT_PAUSED, SESSION_CAUSE_CLIENT_NOT_READING,
        SESSION_CAUSE_COMMIT_STALL, SESSION_CAUSE_NETWORK,       SESSION_CAUSE_DISK_STALL,
        SESSION_CAUSE_SERVER_STALL, SESSION_CAUSE_CLOSED,        SESSION_CAUSE_KILLED};
    for (size_t i = 0; i < sizeof OF_LEADER / sizeof OF_LEADER[0]; i++) {
        assert_true(session_cause_weight(OF_LEADER[i]) > session_cause_weight(SESSION_CAUSE_MOVED));
        for (size_t k = 0; k < sizeof SEEN / sizeof SEEN[0]; k++) {
            assert_true(session_cause_weight(SEEN[k]) > session_cause_weight(OF_LEADER[i]));
        }
    }
    for (size_t i = 0; i < SESSION_CAUSE_COUNT; i++) {
        for (size_t k = i + 1; k < SESSION_CAUSE_COUNT; k++) {
            assert_string_not_equal(session_cause_code(i), session_cause_code(k));
            assert_int_not_equal(session_cause_weight(i), session_cause_weight(k));
        }
    }
}

static void expect_text(const struct session_facts *f, const char *want)
{
    struct buf text;
    buf_init(&text, 0);
    session_facts_text(f, &text);
    assert_string_equal(buf_cstr(&text), want);
    buf_finish(&text);
}

static void test_facts(void **state)
{
    struct session_facts f = {
        .end = SESSION_END_EXPIRED,
        .timeout_ms = T,
        .link = SESSION_LINK_DROPPED,
        .client = "10.0.0.9:5000",
        .reason = "a frame has a negative length",
        .last_request = "getData",
        .requests = 12,
        .linked_ms = 60000,
        .unlinked_ms = 3000,
        .silent_ms = 1049,
        .gap_ms = 1351,
        .unanswered = 1,
        .owed_ms = 740,
        .sync_ms = 1000,
        .sync_longest_ms = 700,
        .tcp = TCP(.unacknowledged = 3, .retransmits = 1, .retransmits_all = 4, .heard_ms = 950),
        .stalled_ms = 200,
        .leader_changes_linked = 2,
        .decided = true,
        .heard_ms = 4020,
        .led_ms = 100000,
        .owner = 2,
        .report_ms = 60,
        .reborn_ms = -1,
    };
    expect_text(
        &f,
        "Session timeout: 4000 ms.\n"
        "Client 10.0.0.9:5000, closed by this server (a frame has a negative length); connected "
        "for 60.0 s, until 3.0 s before the end.\n"
        "Requests: 12, the last one getData; silent for 1.0 s, before that for 1.4 s at most; "
        "1 unanswered, for 0.7 s at most.\n"
        "TCP: 3 bytes unacknowledged, 1 retransmissions (4 in all) and 0 probes unanswered; last "
        "heard of the host 1.0 s before.\n"
        "This server in the silence: it did not run for 0.2 s, its log waited for the disk for 1.0 s, "
        "for 0.7 s in one write, 2 changes of leader during the connection.\n"
        "The leader, which had led for 100.0 s, had not heard of the session for 4.0 s; the "
        "client used server 2, whose last report was 0.1 s old.\n");
    f = (struct session_facts){.timeout_ms = T, .decided = true, .owner = 2, .report_ms = -1};
    expect_text(&f, "Session timeout: 4000 ms.\n"
                    "The leader, which had led for 0.0 s, had not heard of the session for 0.0 s; "
                    "the client used server 2, which had not reported to it.\n");
    f = (struct session_facts){.timeout_ms = T, .link = SESSION_LINK_OPEN, .client = "a:1"};
    expect_text(&f, "Session timeout: 4000 ms.\n"
                    "Client a:1, open until the end; connected for 0.0 s.\n"
                    "Requests: 0; silent for 0.0 s, before that for 0.0 s at most; 0 unanswered.\n"
                    "This server in the silence: no stall, no wait, no change of leader.\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
