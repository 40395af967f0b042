/* A server's part in its ensemble: its messages to the leader, and their fate in the log. */
#include "cluster/ensemble.h"

#include "base/log.h"
#include "cluster/reconfig.h"
#include "support/requests.h"
#include "support/service_harness.h"

struct fixture {
    struct service_harness h;
    struct ensemble e;
    struct buf sent; /* the newest message to the leader, without its kind */
    unsigned messages;
    uint64_t index; /* of the last entry applied */
    int failures;
    unsigned told[8]; /* digests, by receiver */
};

static void on_send(void *ctx, uint64_t to, struct buf *message_take)
{
    struct fixture *f = ctx;
    if (message_take->data[0] == ENSEMBLE_DIGEST) {
        f->told[to]++;
        buf_finish(message_take);
        return;
    }
    assert_int_equal(to, 2);
    f->messages++;
    buf_reset(&f->sent);
    buf_append(&f->sent, message_take->data + 1, message_take->len - 1);
    buf_finish(message_take);
}

static const struct configuration_member members[] = {
    {2, MEMBER_VOTER, "127.0.0.1:1:1:participant"},
    {7, MEMBER_VOTER, "127.0.0.7:1:1:participant"},
    {3, MEMBER_VOTER, "127.0.0.3:1:1:participant"}};

/* Server 7, which follows server 2. */
static void fixture_open(struct fixture *f)
{
    struct ensemble_links links = {on_send, f};
    *f = (struct fixture){0};
    buf_init(&f->sent, 0);
    struct service_options options = service_harness_options();
    options.skip_acl = true;
    options.command_options = COMMAND_RECONFIG | COMMAND_ENSEMBLE;
    service_harness_open(&f->h, options);
    ensemble_init(&f->e, &f->h.service, 7, &f->h.clock, &links);
    f->e.replication =
        (struct replication *)(void *)f; /* there is one; a follower asks nothing of it */
    f->h.service.pipeline.sink = ensemble_sink(&f->e);
    f->h.service.pipeline.sink.disk_wait = NULL; /* but the regular work of its service does */
    assert_int_equal(ensemble_configuration(&f->e, ++f->index, members, 3), 0);
    assert_int_equal(leadership_set(&f->h.service, false), 0);
    assert_int_equal(ensemble_role(&f->e, REPLICATION_FOLLOWER, 2), 0);
    leadership_contact(&f->h.service, f->h.now_ms);
}

static void fixture_close(struct fixture *f)
{
    ensemble_finish(&f->e);
    service_harness_finish(&f->h);
    buf_finish(&f->sent);
}

static void ask_for_session(struct fixture *f, struct guest *p)
{
    static const uint8_t zeros[WIRE_PASSWD_LEN];
    guest_init(p, &f->h);
    guest_connect(p, 0, 10000, 0, slice_make(zeros, sizeof zeros), true);
    service_harness_turn(&f->h);
}

/* How long a server has run is told as of the time of the service, like how long a session was silent: the verdict compares
 * them, and a millisecond more would charge the client. */
static void test_ages_are_of_the_time_of_the_decision(void **state)
{
    struct fixture f;
    int64_t report_ms = -1;
    int64_t reborn_ms = -1;
    fixture_open(&f);
    struct reporter *p = calloc(1, sizeof *p);
    assert_non_null(p);
    *p = (struct reporter){.id = 3, .began_ms = f.h.now_ms, .heard_ms = f.h.now_ms};
    f.e.reports.reporters = p;
    f.e.reports.n_reporters = f.e.reports.cap_reporters = 1;
    (void)service_time_ms(&f.h.service);
    f.h.now_ms += 5;
    session_reports_ages(&f.e, 3, &report_ms, &reborn_ms);
    assert_int_equal(report_ms, 0);
    assert_int_equal(reborn_ms, 0);
    fixture_close(&f);
}

/* The newest message comes back through the log. */
static void apply_sent(struct fixture *f)
{
    assert_int_equal(ensemble_apply(&f->e, ++f->index, buf_slice(&f->sent)), 0);
    service_harness_turn(&f->h);
}

static void test_a_write_comes_back(void **state)
{
    struct fixture f;
    struct guest p;
    struct wire_connect_response response;
    fixture_open(&f);
    ask_for_session(&f, &p);
    assert_int_equal(f.messages, 1);
    assert_int_equal(f.e.stats.unapplied, 1);
    apply_sent(&f);
    assert_int_equal(f.e.stats.unapplied, 0);
    guest_connected(&p, &response);
    assert_int_not_equal(response.session_id, 0);
    guest_finish(&p);
    fixture_close(&f);
}

static void on_any_failure(void *ctx, int error, const char *text)
{
    struct fixture *f = ctx;
    (void)error, (void)text;
    f->failures++;
}

/* A voter alone serves clients before the first entry of its term is on the disk, that is, before it leads: their
 * writes wait until somebody leads, and are no failure of the log. */
static void test_a_sole_voter_does_not_lead_yet(void **state)
{
    struct fixture f;
    struct guest p;
    struct wire_connect_response response;
    fixture_open(&f);
    f.e.failed = on_any_failure;
    f.e.failed_ctx = &f;
    assert_int_equal(ensemble_configuration(&f.e, ++f.index, &members[1], 1), 0);
    assert_true(f.e.sole);
    assert_int_equal(ensemble_role(&f.e, REPLICATION_CANDIDATE, 0), 0);
    assert_true(ensemble_deadline(&f.e) == INT64_MAX);
    ask_for_session(&f, &p);
    assert_int_equal(f.failures, 0);
    assert_int_equal(f.messages, 0);
    assert_int_equal(f.e.stats.unapplied, 1);
    assert_int_equal(f.h.service.pipeline.sink.in_flight(&f.e), 1);
    assert_int_equal(ensemble_role(&f.e, REPLICATION_FOLLOWER, 2),
                     0); /* a leader that the test can read */
    assert_int_equal(f.messages, 1);
    apply_sent(&f);
    assert_int_equal(f.e.stats.unapplied, 0);
    guest_connected(&p, &response);
    assert_int_not_equal(response.session_id, 0);
    guest_finish(&p);
    fixture_close(&f);
}

static void on_failed(void *ctx, int error, const char *text)
{
    struct fixture *f = ctx;
    assert_int_equal(error, CONCLAVE_ECORRUPT);
    f->failures++;
}

static void tell(struct fixture *f, uint64_t from, uint64_t index, uint64_t digest)
{
    struct buf message;
    buf_init(&message, 0);
    buf_append_u8(&message, ENSEMBLE_DIGEST);
    buf_append_i64(&message, (int64_t)index);
    buf_append_i64(&message, (int64_t)digest);
    ensemble_message(&f->e, from, buf_slice(&message));
    buf_finish(&message);
}

static uint64_t digest_of(const struct fixture *f)
{
    return state_digest(f->h.service.state);
}

/* Opened, and one write applied. */
static void compare_open(struct fixture *f, struct guest *p)
{
    fixture_open(f);
    f->e.failed = on_failed;
    f->e.failed_ctx = f;
    ask_for_session(f, p);
    apply_sent(f);
}

/* The leader's digests are compared at the entry they are about: applied before, or not yet. One of an entry that is
 * long past says nothing. While nobody says who is right, a member steps aside that differs three times in a row. */
static void test_states_are_compared(void **state)
{
    struct fixture f;
    struct guest p;
    compare_open(&f, &p);
    tell(&f, 2, f.index, digest_of(&f));
    tell(&f, 2, f.index + 1000, 1);
    assert_int_equal(f.e.stats.compared, 1);
    assert_int_equal(f.told[2] + f.told[3], 0); /* nothing to argue about */
    tell(&f, 2, f.index, digest_of(&f) + 1);
    tell(&f, 2, f.index, digest_of(&f) + 1);
    assert_int_equal(f.told[2], 1); /* once */
    assert_int_equal(f.told[3], 1);
    assert_int_equal(f.failures, 0);
    f.e.agreement.claim.index = 0;
    tell(&f, 2, f.index + 1, 12345);
    guest_finish(&p);
    ask_for_session(&f, &p);
    apply_sent(&f);
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.told[3], 2);
    assert_int_equal(f.e.stats.differed, 3);
    assert_false(f.e.beyond_repair);
    guest_finish(&p);
    fixture_close(&f);
}

/* A majority with another state is right: this member steps aside at once, and when it differs again, having agreed
 * with nobody since, its folder is wrong, too. */
static void test_the_majority_is_right(void **state)
{
    struct fixture f;
    struct guest p;
    for (int agreed = 0; agreed < 2; agreed++) {
        compare_open(&f, &p);
        uint64_t wrong = digest_of(&f) + 1;
        tell(&f, 3, f.index, wrong);
        assert_int_equal(f.failures, 0); /* one of three */
        assert_int_equal(f.told[2], 1);
        tell(&f, 2, f.index, wrong + 1);
        assert_int_equal(f.failures, 0); /* three states: nobody is right */
        tell(&f, 2, f.index, wrong);
        assert_int_equal(f.failures, 1);
        assert_false(f.e.beyond_repair);
        if (agreed) {
            tell(&f, 2, f.index, digest_of(&f));
        }
        tell(&f, 2, f.index, wrong);
        assert_int_equal(f.failures, 2);
        assert_int_equal(f.e.beyond_repair, !agreed);
        guest_finish(&p);
        fixture_close(&f);
    }
}

/* A leader whose state is not the followers' steps aside; followers who agree with each other stay. */
static void test_the_leader_is_the_odd_one(void **state)
{
    struct fixture f;
    struct guest p;
    compare_open(&f, &p);
    uint64_t right = digest_of(&f);
    tell(&f, 3, f.index, right);
    tell(&f, 2, f.index, right + 1); /* the leader's claim */
    tell(&f, 3, f.index, right);
    assert_int_equal(f.failures, 0);
    f.e.role = REPLICATION_LEADER;
    f.e.leader = 7;
    tell(&f, 3, f.index, right + 1);
    assert_int_equal(f.failures, 1); /* 2 and 3 agree against it */
    f.e.role = REPLICATION_FOLLOWER;
    guest_finish(&p);
    fixture_close(&f);
}

/* With two voters nobody can say who is right: the follower reads its folder again, at once, and never gives it up. */
static void test_one_of_two_gives_way(void **state)
{
    struct fixture f;
    struct guest p;
    compare_open(&f, &p);
    assert_int_equal(ensemble_configuration(&f.e, f.index + 1, members, 2), 0);
    f.index++;
    for (int i = 1; i <= 3; i++) {
        tell(&f, 2, f.index, digest_of(&f) + 1);
        assert_int_equal(f.failures, i);
        assert_false(f.e.beyond_repair);
    }
    guest_finish(&p);
    fixture_close(&f);
}

/* A batch that the last run of this server had sent: it makes this session. */
static void apply_late_batch(struct fixture *f, int64_t sequence, int64_t previous, int64_t session)
{
    struct maker m;
    struct buf late;
    maker_init(&m);
    buf_init(&late, 0);
    struct batch_header header = {
        .origin = 7, .sequence = sequence, .previous = previous, .time_ms = 1};
    struct command command = {.session_id = session,
                              .type = WIRE_CREATE_SESSION,
                              .body = make_session(&m, session, 4000)};
    batch_begin(&late, &header);
    batch_add(&late, 0, &command);
    assert_int_equal(ensemble_apply(&f->e, ++f->index, buf_slice(&late)), 0);
    service_harness_turn(&f->h);
    buf_finish(&late);
    maker_finish(&m);
}

/* One numbered far above this run's. Returns its number. */
static int64_t apply_late(struct fixture *f)
{
    int64_t sequence = f->h.service.pipeline.sequence + 1000;
    apply_late_batch(f, sequence, 0, 99);
    return sequence;
}

static void expect_session(struct fixture *f, struct guest *p)
{
    struct wire_connect_response response;
    ask_for_session(f, p);
    apply_sent(f);
    guest_connected(p, &response);
    assert_int_not_equal(response.session_id, 0);
}

/* The clock was set back while this server was off, and what its last run had sent is committed only now:
 * what this run numbered lower is never admitted. Who waits for it is cut off; what follows is numbered
 * above. */
static void test_the_last_run_was_ahead(void **state)
{
    struct fixture f;
    struct guest p[2];
    fixture_open(&f);
    ask_for_session(&f, &p[0]);
    (void)apply_late(&f);
    assert_true(p[0].closed);
    assert_int_equal(f.e.stats.unapplied, 0);
    assert_int_equal(f.h.service.pipeline.outstanding, 0);
    apply_sent(&f); /* it comes after all, too late */
    guest_expect_nothing(&p[0]);
    expect_session(&f, &p[1]);
    guest_finish(&p[0]);
    guest_finish(&p[1]);
    fixture_close(&f);
}

/* The same while nobody waits. */
static void test_the_last_run_was_ahead_of_nothing(void **state)
{
    struct fixture f;
    struct guest p;
    fixture_open(&f);
    (void)apply_late(&f);
    expect_session(&f, &p);
    guest_finish(&p);
    fixture_close(&f);
}

/* More of the last run follows while somebody waits for what this run has sent: it is not taken for that. */
static void test_the_last_run_goes_on(void **state)
{
    struct fixture f;
    struct guest p;
    struct wire_connect_response response;
    fixture_open(&f);
    int64_t sequence = apply_late(&f);
    ask_for_session(&f, &p);
    for (int i = 1; i <= 3; i++) {
        apply_late_batch(&f, sequence + i, sequence + i - 1, 99 + i);
        assert_false(p.closed);
        guest_expect_nothing(&p);
        assert_int_equal(f.e.stats.unapplied, 1);
    }
    apply_sent(&f);
    guest_connected(&p, &response);
    assert_int_not_equal(response.session_id, 0);
    assert_int_equal(f.e.stats.unapplied, 0);
    guest_finish(&p);
    fixture_close(&f);
}

/* The same when this run began behind what had been applied, and the rest is still in the log. */
static void test_the_last_run_is_not_all_applied(void **state)
{
    struct fixture f;
    struct guest p;
    fixture_open(&f);
    struct pipeline *pipeline = &f.h.service.pipeline;
    int64_t last = pipeline->sequence + 1000;
    pipeline_begin(pipeline, last);
    ask_for_session(&f, &p);
    apply_late_batch(&f, last + 1, 0, 99);
    assert_false(p.closed);
    guest_expect_nothing(&p);
    guest_finish(&p);
    fixture_close(&f);
}

static void on_told(void *ctx, int64_t id, int64_t heard_ms)
{
    ++*(size_t *)ctx;
}

/* How many signs of life are in a report from now on. */
static size_t count_signs(struct fixture *f, uint32_t number)
{
    size_t count = 0;
    f->h.now_ms++;
    session_tracker_reported(f->h.service.sessions, number - 1);
    leadership_touch_waiting(&f->h.service);
    session_tracker_report(f->h.service.sessions, number, on_told, &count);
    return count;
}

/* A reconfig is answered when the members have changed, which is after other entries of the log: what is
 * behind it on its connection is not taken before that, so that the answers keep their order, and its
 * session counts as heard from. */
static void test_nothing_overtakes_a_reconfig(void **state)
{
    struct fixture f;
    struct guest p;
    struct buf body;
    struct wire_reconfig_request request = {.leaving_servers = slice_str("3"), .cur_config_id = -1};
    fixture_open(&f);
    expect_session(&f, &p);
    buf_init(&body, 0);
    wire_encode_reconfig_request(&body, &request);
    int32_t reconfig = guest_request(&p, WIRE_RECONFIG, buf_slice(&body));
    int32_t write = guest_request(&p, WIRE_CREATE, body_create("/a", "", 0));
    service_harness_turn(&f.h);
    unsigned messages = f.messages;
    apply_sent(&f);
    guest_expect_nothing(&p);
    assert_int_equal(f.messages, messages);
    (void)count_signs(&f, 1);
    assert_int_equal(count_signs(&f, 2), 1);

    f.h.now_ms++;
    assert_int_equal(ensemble_configuration(&f.e, ++f.index, members, 2), 0);
    service_harness_turn(&f.h);
    guest_expect(&p, reconfig, 0);
    assert_int_equal(f.messages, messages + 1);
    apply_sent(&f);
    guest_expect(&p, write, 0);
    assert_int_equal(count_signs(&f, 3), 1); /* for the write */
    assert_int_equal(count_signs(&f, 4), 0);
    guest_finish(&p);
    buf_finish(&body);
    fixture_close(&f);
}

/* After a snapshot the state is that of its last entry, and not what it was after the entry of its configuration:
 * told to others, the digest would make them doubt it. */
static void test_a_snapshot_is_not_compared_at_its_configuration(void **state)
{
    struct fixture f;
    struct buf snapshot;
    uint64_t index;
    uint64_t digest;
    int rc;
    fixture_open(&f);
    buf_init(&snapshot, 0);
    assert_int_equal(state_snapshot_begin(f.h.service.state), 0);
    while ((rc = state_snapshot_step(f.h.service.state, 1 << 20, &snapshot)) == 1) {}
    assert_int_equal(rc, 0);
    assert_true(digest_check_newest(&f.e.agreement, &index, &digest));
    assert_int_equal(ensemble_restore(&f.e, buf_slice(&snapshot)), 0);
    assert_int_equal(ensemble_configuration(&f.e, 1, members, 3), 0);
    assert_false(digest_check_newest(&f.e.agreement, &index, &digest));
    assert_int_equal(ensemble_configuration(&f.e, 2, members, 3), 0);
    assert_true(digest_check_newest(&f.e.agreement, &index, &digest));
    assert_int_equal(index, 2);
    buf_finish(&snapshot);
    fixture_close(&f);
}

static bool is_never_linked(void *ctx, uint64_t id)
{
    return false;
}

/* A request may name 256 servers, one more than the log takes: it is given up. */
static void test_too_many_members_are_given_up(void **state)
{
    struct fixture f;
    struct guest p;
    struct buf list;
    struct buf body;
    static struct reconfig r;
    fixture_open(&f);
    expect_session(&f, &p);
    buf_init(&list, 0);
    buf_init(&body, 0);
    for (int i = 0; i < 256; i++) {
        buf_printf(&list, "server.%d=127.0.1.%d:1:2:participant;1\n", i, i);
    }
    struct wire_reconfig_request request = {.new_members = buf_slice(&list), .cur_config_id = -1};
    wire_encode_reconfig_request(&body, &request);
    (void)guest_request(&p, WIRE_RECONFIG, buf_slice(&body));
    service_harness_turn(&f.h);
    apply_sent(&f);
    reconfig_init(&r, &f.e);
    r.links = (struct reconfig_links){.linked = is_never_linked};
    r.log = f.e.replication;
    reconfig_configuration(&r, members, 3);
    f.e.role = REPLICATION_LEADER;
    assert_int_equal(f.h.service.standing.own_count, 0);
    reconfig_tick(&r);
    assert_int_equal(f.h.service.standing.own_count, 1);
    f.h.service.standing.own_count = 0;
    f.e.role = REPLICATION_FOLLOWER;
    reconfig_finish(&r);
    buf_finish(&list);
    buf_finish(&body);
    guest_finish(&p);
    fixture_close(&f);
}

int main(void)
{
    log_set_level(LOG_ERROR + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_are_compared),
        cmocka_unit_test(test_the_majority_is_right),
        cmocka_unit_test(test_the_leader_is_the_odd_one),
        cmocka_unit_test(test_one_of_two_gives_way),
        cmocka_unit_test(test_a_write_comes_back),
        cmocka_unit_test(test_ages_are_of_the_time_of_the_decision),
        cmocka_unit_test(test_a_sole_voter_does_not_lead_yet),
        cmocka_unit_test(test_the_last_run_was_ahead),
        cmocka_unit_test(test_the_last_run_was_ahead_of_nothing),
        cmocka_unit_test(test_the_last_run_goes_on),
        cmocka_unit_test(test_the_last_run_is_not_all_applied),
        cmocka_unit_test(test_nothing_overtakes_a_reconfig),
        cmocka_unit_test(test_a_snapshot_is_not_compared_at_its_configuration),
        cmocka_unit_test(test_too_many_members_are_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
