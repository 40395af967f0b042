/* Leading: lease, revocation, acknowledgement, tokens. E38 to E52. */
#include "support/candidate.h"

#include "recipes/engine/lease.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static void start_both(struct fake_zk *zk, struct candidate *a, struct candidate *b)
{
    make_parent(zk);
    candidate_connect(a, zk, 0, "a");
    candidate_connect_to(b, zk, 1, "b", NULL, LONG_SESSION_MS);
}

static void lead_and_wait(struct fake_zk *zk, struct candidate *a, struct candidate *b)
{
    start_both(zk, a, b);
    candidate_join(a);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    candidate_join(b);
    candidate_settled(b);
    assert_true(LEADS(a));
}

static void stop_first(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, 0, FAKE_SILENT);
}

static void finish_both(struct candidate *a, struct candidate *b)
{
    candidate_finish(b);
    candidate_finish(a);
    check_terms((struct candidate *[]){a, b}, 2);
}

static void block_client_thread(struct conclave_client *client, const struct conclave_reply *reply,
                                void *ctx)
{
    *(_Atomic bool *)ctx = true;
    sleep_ms(2 * EXPIRY_SESSION_MS);
}

static void E38_blackholed_leader_is_revoked_in_time(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    _Atomic bool blocked = false;
    lead_and_wait(zk, &a, &b);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/", 0);
    assert_int_equal(conclave_submit(a.client, &op, block_client_thread, &blocked), 0);
    EVENTUALLY(blocked);
    int64_t until = conclave_election_lease_until_ns(a.election);
    assert_true(until != 0);
    int64_t silent = now_ns();
    fake_zk_link(zk, 0, FAKE_SILENT);
    EVENTUALLY(!LEADS(&a));
    assert_true(until < silent + (int64_t)EXPIRY_SESSION_MS * 1000000);
    EVENTUALLY(REVOKED(&a) == 1);
    assert_true(candidate_term(&a, 0).to_ns < silent + (int64_t)EXPIRY_SESSION_MS * 1000000);
    assert_int_equal(candidate_term(&a, 0).why, CONCLAVE_ELOST);
    assert_true(candidate_term(&a, 0).stop_within_ms <= EXPIRY_SESSION_MS / 3);
    EVENTUALLY(LEADS(&b));
    assert_true(candidate_term(&b, 0).from_ns > candidate_term(&a, 0).to_ns);
    fake_zk_link(zk, 0, FAKE_UP);
    finish_both(&a, &b);
}

/* All threads of a process may come late: the first thing that runs may be the one that tells. */
static void hold_everything(struct candidate *c)
{
    if (ELECTED(c) > 1) {
        return; /* the session may end meanwhile: whoever waits shall be told the next time */
    }
    sleep_ms(100); /* until the other one is granted and waits to be told */
    client_lock(c->client);
    sleep_ms(EXPIRY_SESSION_MS);
    client_unlock(c->client);
    /* Most often the one who gives a lock up is the next to have it. */
}

static void elected_with_lease(struct candidate *c)
{
    c->leaders += LEADS(c) ? 1000 : 1;
}

static void E38_what_has_ended_is_not_granted(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    make_parent(zk);
    candidate_connect(&a, zk, 0, "a");
    candidate_share(&b, &a, "b");
    struct conclave_election_options options = candidate_options("b");
    options.path = "/app/other";
    options.ack = false;
    a.in_elected = hold_everything;
    b.in_elected = elected_with_lease;
    candidate_join(&a);
    candidate_join_with(&b, &options);
    EVENTUALLY(STARTED(&b) > 0);
    assert_int_equal(b.leaders % 1000, 0);
    candidate_finish(&b);
    candidate_finish(&a);
}

static void E39_pongs_alone_do_not_keep_the_lead(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    lead_and_wait(zk, &a, &b);
    fake_zk_hold(zk, 0, WIRE_MULTI); /* as a server cut off from its quorum: pings only */
    EVENTUALLY(REVOKED(&a) == 1);
    conclave_client_session(a.client, &session);
    assert_true(fake_zk_sessions(zk) == 2); /* the session lives, only its proof is missing */
    fake_zk_expire(zk, session.id);         /* by the others */
    EVENTUALLY(LEADS(&b));
    assert_true(candidate_term(&b, 0).from_ns > candidate_term(&a, 0).to_ns);
    fake_zk_release(zk, 0);
    finish_both(&a, &b);
}

/* --- a process that is stopped ------------------------------------------------------- */

/* As a program of its own: leads, and says on stdout: L when it leads, then, after the first
 * gap of more than a session timeout in its own time, what is_leader answers first: 1 or 0. */
static int stopped_candidate(const char *address)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_election_options election = candidate_options("stopped");
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_election *e;
    options.servers = address;
    options.session_timeout_ms = EXPIRY_SESSION_MS;
    if (conclave_client_open(&options, &client) != 0 || conclave_client_start(client) != 0 ||
        conclave_recipes_open(client, &recipes) != 0 ||
        conclave_election_open(recipes, &election, NULL, NULL, &e) != 0 ||
        conclave_election_wait(e, PATIENCE_MS, NULL) != 0) {
        return 1;
    }
    (void)!write(STDOUT_FILENO, "L", 1);
    for (int64_t last = now_ns();;) {
        int64_t now = now_ns();
        if (now - last > (int64_t)EXPIRY_SESSION_MS * 1000000) {
            (void)!write(STDOUT_FILENO, conclave_election_is_leader(e) ? "1" : "0", 1);
            return 0;
        }
        last = now;
        sleep_ms(1);
    }
}

static void E40_stopped_for_two_timeouts_then_first_answer_is_no(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate b;
    char self[] = "/proc/self/exe";
    char address[32];
    int out[2];
    pid_t pid;
    char said = 0;
    int status;
    make_parent(zk);
    (void)snprintf(address, sizeof address, "%s", fake_zk_address(zk, 0));
    char *argv[] = {self, (char[]){"stopped"}, address, NULL};
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe(out), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn(&pid, self, &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(read(out[0], &said, 1), 1);
    assert_int_equal(said, 'L');
    int64_t token = 0;
    candidate_connect(&b, zk, 1, "b");
    candidate_join(&b);
    candidate_settled(&b);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    sleep_ms(2 * EXPIRY_SESSION_MS);
    EVENTUALLY(LEADS(&b)); /* meanwhile */
    token = conclave_election_token(b.election).czxid;
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(read(out[0], &said, 1), 1);
    assert_int_equal(said, '0');
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_true(token > 0);
    (void)close(out[0]);
    (void)close(out[1]);
    candidate_finish(&b);
}

static void pump(struct candidate *c)
{
    struct pollfd fd = {.fd = conclave_client_fd(c->client), .events = POLLIN};
    int64_t wait = conclave_client_timeout_ms(c->client);
    (void)poll(&fd, 1, wait < 0 || wait > 2 ? 2 : (int)wait);
    assert_int_equal(conclave_client_dispatch(c->client), 0);
}

/* The program's own loop stands still until the lease is over; a proof that would still be good has
 * come meanwhile. Who has seen is_leader false must be told of the end. */
static void E40_a_proof_that_is_read_too_late_does_not_bring_the_lease_back(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a = {.name = "a", .zk = zk};
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    make_parent(zk);
    (void)pthread_mutex_init(&a.lock, NULL);
    options.servers = fake_zk_address(zk, 0);
    options.session_timeout_ms = 2L * EXPIRY_SESSION_MS;
    assert_int_equal(conclave_client_open(&options, &a.client), 0);
    assert_int_equal(conclave_recipes_open(a.client, &a.recipes), 0);
    candidate_join(&a);
    while (STARTED(&a) == 0 || !fake_zk_exists(zk, LEADER_DIR "/current")) {
        pump(&a);
    }
    int64_t until = conclave_election_lease_until_ns(a.election);
    while (conclave_election_lease_until_ns(a.election) == until) {
        pump(&a); /* proved again: the next heartbeat is a sixth of the timeout away */
    }
    until = conclave_election_lease_until_ns(a.election);
    fake_zk_hold(zk, 0, WIRE_MULTI);
    for (int64_t end = now_ns() + (int64_t)EXPIRY_SESSION_MS * 450000; now_ns() < end;) {
        pump(&a); /* sends one more */
    }
    fake_zk_release(zk, 0);
    assert_true(conclave_election_lease_until_ns(a.election) == until); /* its answer is not read */
    sleep_ms((until - now_ns()) / 1000000 + 20);
    assert_false(LEADS(&a));
    pump(&a);
    assert_false(LEADS(&a));
    while (REVOKED(&a) == 0) {
        pump(&a);
    }
    assert_int_equal(candidate_term(&a, 0).why, CONCLAVE_ELOST);
    conclave_election_close(a.election);
    while (CLOSED(&a) == 0) {
        pump(&a);
    }
    candidate_finish(&a);
}

static void E41_the_clock_counts_suspend(void **state)
{
    struct candidate a;
    struct timespec ts;
    candidate_connect(&a, *state, 0, "a");
    int64_t before = client_now_ns(a.client);
    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
    int64_t after = client_now_ns(a.client);
    int64_t boot = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    assert_true(before <= boot && boot <= after);
    candidate_finish(&a);
}

/* --- links that come back --------------------------------------------------------------- */

static void E42_a_short_suspension_keeps_the_lead(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    lead_and_wait(zk, &a, &b);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    sleep_ms(EXPIRY_SESSION_MS / 8);
    assert_true(LEADS(&a));
    fake_zk_link(zk, 0, FAKE_UP);
    STAYS(LEADS(&a), EXPIRY_SESSION_MS);
    assert_int_equal(REVOKED(&a), 0);
    finish_both(&a, &b);
}

static void E42_stop_on_suspend_revokes_and_grants_again(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    start_both(zk, &a, &b);
    struct conclave_election_options options = candidate_options("a");
    options.lease.stop_on_suspend = true;
    options.regrant = true;
    candidate_join_with(&a, &options);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    candidate_join(&b);
    candidate_settled(&b);
    fake_zk_cut(zk, 0);
    EVENTUALLY(ELECTED(&a) == 2);
    assert_int_equal(REVOKED(&a), 1);
    assert_true(candidate_term(&a, 1).regrant);
    assert_int_equal(candidate_term(&a, 0).token, candidate_term(&a, 1).token);
    EVENTUALLY(LEADS(&a));
    assert_int_equal(ELECTED(&b), 0);
    finish_both(&a, &b);
}

static void lapse(struct fake_zk *zk, struct candidate *a)
{
    fake_zk_hold(zk, 0, WIRE_MULTI);
    EVENTUALLY(REVOKED(a) == 1);
    sleep_ms(30);
    assert_int_equal(REVOKED(a), 1);
    assert_int_equal(candidate_term(a, 0).why, CONCLAVE_ELOST);
    fake_zk_release(zk, 0);
}

static void E43_a_lapsed_lease_queues_again(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    lead_and_wait(zk, &a, &b);
    lapse(zk, &a);
    EVENTUALLY(LEADS(&b));
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 2);
    candidate_close_election(&b);
    EVENTUALLY(ELECTED(&a) == 2);
    assert_true(candidate_term(&a, 1).token > candidate_term(&a, 0).token);
    assert_false(candidate_term(&a, 1).regrant);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    finish_both(&a, &b);
}

static void E43_a_lapsed_lease_is_granted_again_by_option(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    start_both(zk, &a, &b);
    struct conclave_election_options options = candidate_options("a");
    options.regrant = true;
    candidate_join_with(&a, &options);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    candidate_join(&b);
    candidate_settled(&b);
    lapse(zk, &a);
    EVENTUALLY(ELECTED(&a) == 2);
    assert_true(candidate_term(&a, 1).regrant);
    assert_int_equal(candidate_term(&a, 0).token, candidate_term(&a, 1).token);
    assert_int_equal(ELECTED(&b), 0);
    EVENTUALLY(LEADS(&a));
    assert_true(fake_zk_exists(zk, LEADER_DIR "/current"));
    finish_both(&a, &b);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

/* --- arithmetic --------------------------------------------------------------------------- */

static void E44_the_negotiated_timeout_counts(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    fake_zk_session_max(zk, EXPIRY_SESSION_MS);
    candidate_connect_to(&a, zk, 0, "a", NULL, 30000);
    struct conclave_election_options options = candidate_options("a");
    options.lease.grace_ms = 9000; /* fits what was asked for, not what was given */
    int error = conclave_election_open(a.recipes, &options, &candidate_callbacks, &a, &a.election);
    if (error == 0) { /* started before the session */
        EVENTUALLY(CLOSED(&a) == 1);
        assert_int_equal(a.closed_why, CONCLAVE_EINVAL);
        candidate_close_election(&a);
        error = conclave_election_open(a.recipes, &options, &candidate_callbacks, &a, &a.election);
    }
    assert_int_equal(error, CONCLAVE_EINVAL);
    a.closed = 0;
    options.lease.grace_ms = EXPIRY_SESSION_MS / 6;
    candidate_join_with(&a, &options);
    EVENTUALLY(LEADS(&a));
    assert_true(conclave_election_lease_left_ms(a.election) <= EXPIRY_SESSION_MS * 2 / 3);
    candidate_finish(&a);
}

static void E44_arithmetic_of_the_lease(void **state)
{
    assert_int_equal(lease_end_ns(5, 9000), 5 + INT64_C(6000000000));
    assert_int_equal(lease_period_ms(0, 6000), 1000);
    assert_int_equal(lease_period_ms(50, 6000), 50);
    assert_int_equal(lease_period_ms(5000, 6000), 1000);
    assert_int_equal(lease_period_ms(0, 3), 1);
    assert_int_equal(lease_grace_max_ms(9000), 2500);
    assert_int_equal(lease_grace_max_ms(600), 100);
    /* Whoever stops in time has stopped before anybody else can be elected, 500 ms before the
     * timeout. */
    assert_int_equal(lease_stop_within_ms(0, lease_end_ns(0, 9000), 9000), 8500);
    assert_int_equal(lease_stop_within_ms(lease_end_ns(0, 9000), lease_end_ns(0, 9000), 9000),
                     2500);
    assert_int_equal(lease_stop_within_ms(INT64_C(9000000000), lease_end_ns(0, 9000), 9000), 0);
}

/* --- hand-over ------------------------------------------------------------------------------ */

/* What on_revoked saw: set in the callbacks' thread, where cmocka's asserts must not be used. */
static _Atomic int nodes_stood;

static void see_nodes(struct candidate *c)
{
    char node[256];
    candidate_node(c, node, sizeof node);
    bool both = fake_zk_exists(c->zk, node) && fake_zk_exists(c->zk, LEADER_DIR "/current");
    sleep_ms(50);
    nodes_stood = both && fake_zk_exists(c->zk, node) ? 1 : -1;
}

static void join_with_delay(struct fake_zk *zk, struct candidate *a, struct candidate *b,
                            int64_t delay_ms)
{
    struct conclave_election_options options = candidate_options("a");
    options.takeover_delay_ms = delay_ms;
    candidate_join_with(a, &options);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    options.id = "b";
    candidate_join_with(b, &options);
    candidate_settled(b);
}

static void start_with_delay(struct fake_zk *zk, struct candidate *a, struct candidate *b,
                             int64_t delay_ms)
{
    start_both(zk, a, b);
    join_with_delay(zk, a, b, delay_ms);
}

static void E45_a_clean_resignation_spares_the_delay(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    char last[64];
    start_with_delay(zk, &a, &b, 5000);
    a.in_revoked = see_nodes;
    nodes_stood = 0;
    int64_t from = now_ns();
    assert_int_equal(conclave_election_resign(a.election, false), 0);
    EVENTUALLY(LEADS(&b));
    assert_true(now_ns() - from < INT64_C(3000000000));
    assert_int_equal(candidate_term(&a, 0).why, CONCLAVE_ECANCELED);
    assert_int_equal(nodes_stood, 1);
    assert_true(fake_zk_data(zk, LEADER_DIR "/last", last, sizeof last));
    assert_non_null(strstr(last, "clean=0")); /* of the term that runs now */
    EVENTUALLY(!candidate_has_node(&a));      /* b may lead before a reads the answer */
    STAYS(!candidate_has_node(&a), 50);       /* parked */
    assert_int_equal(conclave_election_resign(a.election, true), 0);
    EVENTUALLY(candidate_has_node(&a));
    finish_both(&a, &b);
}

/* What tells the next leader how the last one ended goes with the last candidate, not before. */
static void the_last_candidate_removes_the_record_of_the_last_leader(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    start_with_delay(zk, &a, &b, 0);
    candidate_close_election(&a);
    EVENTUALLY(LEADS(&b) && fake_zk_exists(zk, LEADER_DIR "/current"));
    assert_true(fake_zk_exists(zk, LEADER_DIR "/last"));
    candidate_close_election(&b);
    assert_false(fake_zk_exists(zk, LEADER_DIR "/last"));
    assert_false(fake_zk_exists(zk, LEADER_DIR "/current"));
    finish_both(&a, &b);
}

static void E46_an_unclean_end_costs_the_delay(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    start_with_delay(zk, &a, &b, 250);
    fake_zk_link(zk, 0, FAKE_REFUSE); /* as if killed: the session ends by its timeout */
    int64_t from = now_ns();          /* before its node was last seen: the delay begins later */
    for (int64_t look = from; fake_zk_child_count(zk, ELECTION_PATH) > 1; look = now_ns()) {
        from = look;
        sleep_ms(1);
    }
    EVENTUALLY(LEADS(&b));
    assert_true(now_ns() - from >= 240 * 1000000);
    fake_zk_link(zk, 0, FAKE_UP);
    finish_both(&a, &b);
}

static void E46_a_delay_longer_than_any_clock_does_not_end(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    candidate_connect_to(&a, zk, 0, "a", NULL, PATIENCE_MS); /* no session ends by itself */
    candidate_connect_to(&b, zk, 1, "b", NULL, PATIENCE_MS);
    join_with_delay(zk, &a, &b, INT64_MAX);
    fake_zk_expire(zk, candidate_session(&a));
    STAYS(!LEADS(&b), 80);
    finish_both(&a, &b);
}

static void E46_without_a_delay_the_next_leads_at_once(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    lead_and_wait(zk, &a, &b);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 1);
    int64_t from = now_ns();
    EVENTUALLY(LEADS(&b));
    assert_true(now_ns() - from < (int64_t)LONG_SESSION_MS / 6 * 1000000); /* of b's session */
    fake_zk_link(zk, 0, FAKE_UP);
    finish_both(&a, &b);
}

static void pass_on(struct candidate *c)
{
    sleep_ms(10);
    assert_int_equal(conclave_election_resign(c->election, true), 0);
}

static void E47_who_fails_to_start_backs_off_and_others_lead(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    start_both(zk, &a, &b);
    a.fail_elected = 3;
    b.in_elected = pass_on;
    candidate_join(&a);
    EVENTUALLY(ELECTED(&a) == 1);
    candidate_join(&b);
    EVENTUALLY(STARTED(&a) == 4 && LEADS(&a));
    assert_true(ELECTED(&b) >= 1);
    for (int i = 1; i < 4; i++) {
        assert_true(candidate_term(&a, i).token > candidate_term(&a, i - 1).token);
        assert_int_equal(candidate_term(&a, i - 1).why, CONCLAVE_ECANCELED);
        /* half of 20, 40, 80 ms at least */
        assert_true(candidate_term(&a, i).from_ns - candidate_term(&a, i - 1).to_ns >=
                    (INT64_C(9) << (i - 1)) * 1000000);
    }
    finish_both(&a, &b);
}

static void E48_tokens_grow_over_all_failovers(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c[3];
    struct candidate *all[] = {&c[0], &c[1], &c[2]};
    unsigned seed = 7;
    for (int i = 0; i < 3; i++) {
        candidate_connect(&c[i], zk, i, "c");
        candidate_join(&c[i]);
    }
    for (int round = 0; round < 24; round++) {
        int leader = -1;
        EVENTUALLY((leader = LEADS(&c[0]) ? 0 : LEADS(&c[1]) ? 1 : LEADS(&c[2]) ? 2 : -1) >= 0);
        seed = seed * 1103515245u + 12345u;
        int elected = ELECTED(&c[leader]);
        switch (seed >> 16 & 3) {
        case 0:
            fake_zk_expire(zk, candidate_session(&c[leader]));
            break;
        case 1:
            assert_int_equal(conclave_election_resign(c[leader].election, true), 0);
            break;
        case 2:
            candidate_close_election(&c[leader]);
            c[leader].closed = 0;
            candidate_join(&c[leader]);
            break;
        default:
            fake_zk_expire(zk, 0); /* all of them, and the container goes: numbers start again */
            fake_zk_delete(zk, ELECTION_PATH);
            break;
        }
        EVENTUALLY(REVOKED(&c[leader]) >= elected);
    }
    for (int i = 0; i < 3; i++) {
        candidate_finish(&c[i]);
    }
    check_tokens(all, 3); /* a session killed by force may leave its holder a moment too long */
}

/* A resource that remembers the largest token it has seen. */
struct resource {
    int64_t max_token;
    int value;
};

static bool resource_write(struct resource *r, int64_t token, int value)
{
    if (token < r->max_token) {
        return false;
    }
    r->max_token = token;
    r->value = value;
    return true;
}

static void E49_a_late_write_is_refused_by_its_token(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct resource resource = {0, 0};
    lead_and_wait(zk, &a, &b);
    int64_t old = conclave_election_token(a.election).czxid;
    assert_true(resource_write(&resource, old, 1));
    candidate_close_election(&a);
    EVENTUALLY(LEADS(&b));
    int64_t new = conclave_election_token(b.election).czxid;
    assert_true(resource_write(&resource, new, 2)); /* first thing the new one does */
    assert_false(resource_write(&resource, old, 3));
    assert_int_equal(resource.value, 2);
    finish_both(&a, &b);
}

static void delete_node(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, ctx);
}

static void E50_fenced_transactions(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct conclave_reply *reply;
    char node[256];
    make_parent(zk);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    struct conclave_op create = conclave_op_create("/mine", "1", 1, CONCLAVE_PERSISTENT);
    assert_int_equal(conclave_election_fenced_multi(a.election, &create, 1, &reply), 0);
    assert_int_equal(reply->results_count, 1);
    assert_string_equal(reply->results[0]->path, "/mine");
    conclave_reply_free(reply);
    assert_int_equal(conclave_election_fenced_multi(a.election, &create, 1, NULL),
                     CONCLAVE_NODE_EXISTS);

    /* The node goes while the transaction is on its way. */
    struct conclave_op set = conclave_op_set("/mine", "2", 1, -1);
    char data[8];
    candidate_node(&a, node, sizeof node);
    struct fake_hook h = {.op = WIRE_MULTI,
                          .path = "/mine",
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = delete_node,
                          .ctx = node};
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_election_fenced_multi(a.election, &set, 1, &reply), CONCLAVE_EFENCED);
    conclave_reply_free(reply);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_true(fake_zk_data(zk, "/mine", data, sizeof data));
    assert_string_equal(data, "1");
    EVENTUALLY(ELECTED(&a) == 2 && LEADS(&a));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(REVOKED(&a) == 2);
    assert_int_equal(conclave_election_fenced_multi(a.election, &set, 1, NULL), CONCLAVE_EFENCED);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(ELECTED(&a) == 3 && LEADS(&a));
    struct conclave_election_options options = candidate_options("a");
    candidate_close_election(&a);
    options.requeue = false;
    a.closed = 0;
    candidate_join_with(&a, &options);
    EVENTUALLY(LEADS(&a));
    fake_zk_expire(zk, candidate_session(&a));
    EVENTUALLY(CLOSED(&a) == 1);
    assert_int_equal(REVOKED(&a), 4);
    assert_int_equal(conclave_election_fenced_multi(a.election, &set, 1, NULL),
                     CONCLAVE_SESSION_EXPIRED);
    candidate_finish(&a);
}

/* --- acknowledgement ------------------------------------------------------------------------- */

static void E51_a_lost_reply_to_the_acknowledgement(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char data[256];
    char token[64];
    make_parent(zk);
    hook(zk, 0, WIRE_MULTI, "session=0x", 1, FAKE_DROP_REPLY);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(fake_zk_count(zk, 0, WIRE_SET_WATCHES) == 1);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0 && fake_zk_exists(zk, LEADER_DIR "/current"));
    STAYS(LEADS(&a), 100);
    assert_true(fake_zk_data(zk, LEADER_DIR "/current", data, sizeof data));
    (void)snprintf(token, sizeof token, "token=%" PRId64 "\n",
                   conclave_election_token(a.election).czxid);
    assert_int_equal(strncmp(data, token, strlen(token)), 0);
    candidate_finish(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
    assert_false(fake_zk_exists(zk, LEADER_DIR "/current"));
}

static void E51_a_lost_reply_and_closed_before_it_is_known(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    make_parent(zk);
    hook(zk, 0, WIRE_MULTI, "session=0x", 1, FAKE_DROP_REPLY);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0);
    candidate_close_election(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0); /* though its session lives */
    assert_int_equal(fake_zk_sessions(zk), 1);
    candidate_finish(&a);
}

static void E52_a_stale_acknowledgement_is_respected_unless_stolen(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    char data[256];
    start_both(zk, &a, &b);
    assert_int_equal(conclave_client_wait_connected(b.client, PATIENCE_MS), 0);
    fake_zk_create(zk, LEADER_DIR "/current", "token=1\nsession=0x1\nnode=x\n\nold",
                   candidate_session(&b));
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    sleep_ms(100);
    assert_true(LEADS(&a));
    assert_int_equal(fake_zk_owner(zk, LEADER_DIR "/current"), candidate_session(&b));
    fake_zk_delete(zk, LEADER_DIR "/current");
    EVENTUALLY(fake_zk_owner(zk, LEADER_DIR "/current") == candidate_session(&a));
    candidate_close_election(&a);
    assert_false(fake_zk_exists(zk, LEADER_DIR "/current"));

    fake_zk_create(zk, LEADER_DIR "/current", "token=1\nsession=0x1\nnode=x\n\nold",
                   candidate_session(&b));
    struct conclave_election_options options = candidate_options("a");
    options.steal_stale_ack = true;
    a.closed = 0;
    candidate_join_with(&a, &options);
    EVENTUALLY(fake_zk_owner(zk, LEADER_DIR "/current") == candidate_session(&a));
    assert_true(fake_zk_data(zk, LEADER_DIR "/current", data, sizeof data));
    assert_non_null(strstr(data, "\n\na"));
    finish_both(&a, &b);
}

/* Another leader's acknowledgement in place of the stale one, and at version 0 as it was: as they
 * are written, with `last`. Called at the server as the stale one is read, and then just before the
 * next transaction. */
static void replace_acknowledgement(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, LEADER_DIR "/current");
    fake_zk_create_locked(zk, LEADER_DIR "/current", "token=2\nsession=0x1\nnode=y\n\nnew", 0);
    fake_zk_write_locked(zk, LEADER_DIR "/last", "token=2\nclean=0\n");
}

static void at_next_transaction(struct fake_zk *zk, void *ctx)
{
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_MULTI,
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = replace_acknowledgement,
                          .ctx = ctx};
    fake_zk_hook_locked(zk, &h);
}

static void E52_an_acknowledgement_that_came_meanwhile_is_not_stolen_for_the_old_one(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    make_parent(zk);
    candidate_connect(&a, zk, 0, "a");
    fake_zk_create(zk, LEADER_DIR "/current", "token=1\nsession=0x1\nnode=x\n\nold", 0);
    struct fake_hook h = {.endpoint = 0,
                          .op = WIRE_GET_DATA,
                          .path = LEADER_DIR "/current",
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = at_next_transaction};
    fake_zk_hook(zk, &h);
    /* The second look at it is held back: until then the new one stands. */
    h.fn = stop_first;
    fake_zk_hook(zk, &h);
    struct conclave_election_options options = candidate_options("a");
    options.steal_stale_ack = true;
    candidate_join_with(&a, &options);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0);
    assert_int_equal(fake_zk_owner(zk, LEADER_DIR "/current"), 0);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(fake_zk_owner(zk, LEADER_DIR "/current") == candidate_session(&a));
    candidate_finish(&a);
}

/* The one whose node was deleted is slow to stop; meanwhile the next one has replaced its
 * acknowledgement. */
static void E52_who_leaves_late_does_not_remove_the_acknowledgement_of_the_next(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    char node[256];
    start_both(zk, &a, &b);
    a.revoked_ms = 300;
    candidate_join(&a);
    EVENTUALLY(fake_zk_owner(zk, LEADER_DIR "/current") == candidate_session(&a));
    struct conclave_election_options options = candidate_options("b");
    options.steal_stale_ack = true;
    candidate_join_with(&b, &options);
    candidate_settled(&b);
    candidate_node(&a, node, sizeof node);
    fake_zk_delete(zk, node);
    EVENTUALLY(fake_zk_owner(zk, LEADER_DIR "/current") == candidate_session(&b));
    EVENTUALLY(REVOKED(&a) == 1); /* b need not wait for a: somebody else deleted the node */
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 2); /* it has left, and queues again */
    assert_int_equal(fake_zk_owner(zk, LEADER_DIR "/current"), candidate_session(&b));
    candidate_finish(&b);
    candidate_finish(&a);
    check_tokens((struct candidate *[]){&a, &b}, 2);
}

static void manual_acknowledgement_and_data(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char data[256];
    make_parent(zk);
    candidate_connect(&a, zk, 0, "a");
    struct conclave_election_options options = candidate_options("a");
    options.ack = false;
    options.data = "one";
    options.data_len = 3;
    candidate_join_with(&a, &options);
    EVENTUALLY(STARTED(&a) == 1);
    STAYS(!fake_zk_exists(zk, LEADER_DIR "/current"), 50);
    assert_int_equal(conclave_election_ack(a.election), 0);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    assert_true(fake_zk_data(zk, LEADER_DIR "/current", data, sizeof data));
    assert_non_null(strstr(data, "\n\na\none"));
    assert_int_equal(conclave_election_set_data(a.election, "two", 3), 0);
    EVENTUALLY(fake_zk_data(zk, LEADER_DIR "/current", data, sizeof data) &&
               strstr(data, "\n\na\ntwo") != NULL);
    char node[256];
    candidate_node(&a, node, sizeof node);
    assert_true(fake_zk_data(zk, node, data, sizeof data));
    assert_string_equal(data, "a\ntwo");
    STAYS(LEADS(&a), 50);
    candidate_finish(&a);
}

static void acknowledge(struct candidate *c)
{
    assert_int_equal(conclave_election_ack(c->election), 0);
}

static void acknowledgement_asked_for_inside_on_elected(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    candidate_connect(&a, zk, 0, "a");
    struct conclave_election_options options = candidate_options("a");
    options.ack = false;
    a.in_elected = acknowledge;
    candidate_join_with(&a, &options);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    candidate_finish(&a);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "stopped") == 0) {
        return stopped_candidate(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        EXPIRY_TEST(E38_blackholed_leader_is_revoked_in_time),
        EXPIRY_TEST(E38_what_has_ended_is_not_granted),
        EXPIRY_TEST(E39_pongs_alone_do_not_keep_the_lead),
        E_TEST(E40_stopped_for_two_timeouts_then_first_answer_is_no),
        E_TEST(E40_a_proof_that_is_read_too_late_does_not_bring_the_lease_back),
        E_TEST(E41_the_clock_counts_suspend),
        EXPIRY_TEST(E42_a_short_suspension_keeps_the_lead),
        E_TEST(E42_stop_on_suspend_revokes_and_grants_again),
        EXPIRY_TEST(E43_a_lapsed_lease_queues_again),
        EXPIRY_TEST(E43_a_lapsed_lease_is_granted_again_by_option),
        EXPIRY_TEST(E44_the_negotiated_timeout_counts),
        E_TEST(E44_arithmetic_of_the_lease),
        E_TEST(E45_a_clean_resignation_spares_the_delay),
        EXPIRY_TEST(E46_an_unclean_end_costs_the_delay),
        E_TEST(E46_a_delay_longer_than_any_clock_does_not_end),
        EXPIRY_TEST(E46_without_a_delay_the_next_leads_at_once),
        E_TEST(E47_who_fails_to_start_backs_off_and_others_lead),
        E_TEST(E48_tokens_grow_over_all_failovers),
        E_TEST(E49_a_late_write_is_refused_by_its_token),
        EXPIRY_TEST(E50_fenced_transactions),
        E_TEST(E51_a_lost_reply_to_the_acknowledgement),
        E_TEST(E51_a_lost_reply_and_closed_before_it_is_known),
        E_TEST(E52_an_acknowledgement_that_came_meanwhile_is_not_stolen_for_the_old_one),
        E_TEST(E52_a_stale_acknowledgement_is_respected_unless_stolen),
        E_TEST(E52_who_leaves_late_does_not_remove_the_acknowledgement_of_the_next),
        E_TEST(the_last_candidate_removes_the_record_of_the_last_leader),
        E_TEST(manual_acknowledgement_and_data),
        E_TEST(acknowledgement_asked_for_inside_on_elected),
    };
    return RUN_TESTS(tests);
}
