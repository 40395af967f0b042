/* Observers, lists, several elections on a client, bad endings. E53 to E61; own loop. */
#include "support/candidate.h"

#include <poll.h>
#include <sys/wait.h>

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#else
#define THREAD_SANITIZER 0
#endif

static void observe(struct candidate *o, struct fake_zk *zk, int endpoint)
{
    candidate_connect(o, zk, endpoint, "o");
    struct conclave_election_options options = candidate_options("o");
    options.observe_only = true;
    candidate_join_with(o, &options);
}

static void E53_an_observer_sees_leaders_in_order(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate o;
    struct candidate a;
    struct candidate b;
    observe(&o, zk, 2);
    EVENTUALLY(candidate_log_is(&o, "-"));
    candidate_connect(&a, zk, 0, "a");
    candidate_connect(&b, zk, 1, "b");
    candidate_join(&a);
    EVENTUALLY(candidate_log_has(&o, "a*"));
    int64_t first = candidate_leader_token(&o);
    assert_int_equal(first, conclave_election_token(a.election).czxid);
    candidate_close_election(&a);
    EVENTUALLY(candidate_log_has(&o, "a* -"));
    candidate_join(&b);
    EVENTUALLY(candidate_log_has(&o, "b*"));
    assert_true(candidate_leader_token(&o) > first);
    fake_zk_cut(zk, 2);
    sleep_ms(100);
    assert_true(candidate_log_ends(&o, "b*")); /* no report twice, and never back to a */
    fake_zk_link(zk, 2, FAKE_REFUSE);          /* misses a change: gets the current one */
    candidate_close_election(&b);
    a.closed = 0;
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    fake_zk_link(zk, 2, FAKE_UP);
    EVENTUALLY(candidate_log_ends(&o, "a*"));
    assert_true(fake_zk_child_count(zk, ELECTION_PATH) == 1);
    candidate_finish(&o);
    candidate_finish(&b);
    candidate_finish(&a);
}

static void E53_a_candidate_that_has_not_acknowledged_is_told_as_such(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate o;
    struct candidate a;
    make_parent(zk);
    observe(&o, zk, 2);
    EVENTUALLY(candidate_log_is(&o, "-"));
    candidate_connect(&a, zk, 0, "a");
    struct conclave_election_options options = candidate_options("a");
    options.ack = false;
    options.observe = true;
    candidate_join_with(&a, &options);
    EVENTUALLY(candidate_log_is(&o, "- a"));
    EVENTUALLY(LEADS(&a));
    assert_int_equal(conclave_election_ack(a.election), 0);
    EVENTUALLY(candidate_log_is(&o, "- a a*"));
    EVENTUALLY(candidate_log_has(&a, "a*")); /* it sees itself */
    candidate_finish(&a);
    EVENTUALLY(candidate_log_is(&o, "- a a* -"));
    candidate_finish(&o);
}

static void delete_node(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, ctx);
}

static void E54_a_list_leaves_out_who_leaves_meanwhile(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct conclave_participant **list;
    size_t count;
    char ghost[] = ELECTION_PATH "/zz-n_0000000777";
    make_parent(zk);
    candidate_connect(&a, zk, 0, "a");
    candidate_connect(&b, zk, 1, "b");
    assert_int_equal(
        conclave_election_participants(a.recipes, ELECTION_PATH, PATIENCE_MS, &list, &count), 0);
    assert_int_equal(count, 0);
    conclave_participants_free(list, count);
    struct conclave_election_options options = candidate_options("a");
    options.data = "x\ny";
    options.data_len = 3;
    candidate_join_with(&a, &options);
    EVENTUALLY(LEADS(&a));
    candidate_join(&b);
    candidate_settled(&b);
    fake_zk_create(zk, ghost, "ghost", 0x99);
    struct fake_hook h = {.op = WIRE_GET_DATA,
                          .endpoint = 0,
                          .path = "/zz-n_0000000777",
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = delete_node,
                          .ctx = ghost};
    fake_zk_hook(zk, &h);
    assert_int_equal(
        conclave_election_participants(a.recipes, ELECTION_PATH, PATIENCE_MS, &list, &count), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(count, 2);
    assert_string_equal(list[0]->id, "a");
    assert_int_equal(list[0]->data_len, 3);
    assert_memory_equal(list[0]->data, "x\ny", 3);
    assert_true(list[0]->self);
    assert_int_equal(list[0]->session_id, candidate_session(&a));
    assert_int_equal(list[0]->token.czxid, conclave_election_token(a.election).czxid);
    assert_string_equal(list[1]->id, "b");
    assert_int_equal(list[1]->data_len, 0);
    assert_false(list[1]->self);
    conclave_participants_free(list, count);
    assert_int_equal(conclave_election_participants(a.recipes, "/nothing", 1000, &list, &count),
                     CONCLAVE_NO_NODE);
    fake_zk_link(zk, 0, FAKE_SILENT);
    assert_int_equal(conclave_election_participants(a.recipes, ELECTION_PATH, 20, &list, &count),
                     CONCLAVE_ETIMEDOUT);
    fake_zk_link(zk, 0, FAKE_UP);
    candidate_finish(&b);
    candidate_finish(&a);
}

static void E55_two_elections_of_one_client_do_not_touch_each_other(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    candidate_connect(&a, zk, 0, "a");
    candidate_share(&b, &a, "b");
    struct conclave_election_options options = candidate_options("b");
    options.path = "/app/other";
    candidate_join(&a);
    candidate_join_with(&b, &options);
    EVENTUALLY(LEADS(&a) && LEADS(&b));
    candidate_close_election(&a);
    STAYS(LEADS(&b), 200);
    assert_int_equal(REVOKED(&b), 0);
    candidate_finish(&b);
    candidate_finish(&a);
}

static void E56_callbacks_alternate_whatever_flaps(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    candidate_connect(&a, zk, 0, "a");
    struct conclave_election_options options = candidate_options("a");
    options.lease.stop_on_suspend = true;
    options.regrant = true;
    a.elected_ms = 3;
    a.revoked_ms = 2;
    candidate_join_with(&a, &options);
    for (int i = 0; i < 24; i++) {
        EVENTUALLY(ELECTED(&a) > i / 2); /* every other time in the midst of something */
        sleep_ms(i % 5);
        if (i % 3 == 0) {
            assert_int_equal(conclave_election_resign(a.election, true), 0);
        } else if (i % 8 == 1) {
            fake_zk_expire(zk, candidate_session(&a));
        } else {
            fake_zk_cut(zk, 0);
        }
    }
    EVENTUALLY(LEADS(&a));
    assert_true(ELECTED(&a) >= 12);
    candidate_finish(&a); /* checks that they alternated */
    check_tokens((struct candidate *[]){&a}, 1);
}

static void E57_no_grant_by_a_read_only_server(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    make_parent(zk);
    fake_zk_read_only(zk, 0, true);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    STAYS(!LEADS(&a), 150);
    fake_zk_read_only(zk, 0, false);
    EVENTUALLY(LEADS(&a));
    fake_zk_read_only(zk, 0, true); /* the lead ends with the lease */
    EVENTUALLY(REVOKED(&a) == 1);
    STAYS(!LEADS(&a), 50);
    fake_zk_read_only(zk, 0, false);
    EVENTUALLY(LEADS(&a));
    candidate_finish(&a);
}

struct waiter {
    pthread_t thread;
    struct candidate *c;
    int result;
};

static void *wait_to_lead(void *arg)
{
    struct waiter *w = arg;
    w->result = conclave_election_wait(w->c->election, CONCLAVE_FOREVER, NULL);
    return NULL;
}

/* a leads, b waits in a blocked call. */
static void block(struct fake_zk *zk, struct candidate *a, struct candidate *b, struct waiter *w)
{
    candidate_connect(a, zk, 0, "a");
    candidate_connect(b, zk, 1, "b");
    candidate_join(a);
    EVENTUALLY(LEADS(a));
    candidate_join(b);
    candidate_settled(b);
    w->c = b;
    assert_int_equal(pthread_create(&w->thread, NULL, wait_to_lead, w), 0);
}

static void E58_refused_credentials_end_handles_and_waits(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct waiter w;
    block(zk, &a, &b, &w);
    fake_zk_refuse_auth(zk, true);
    assert_int_equal(conclave_client_add_auth(b.client, "digest", "u:p", 3), 0);
    assert_int_equal(pthread_join(w.thread, NULL), 0);
    assert_int_equal(w.result, CONCLAVE_AUTH_FAILED);
    EVENTUALLY(CLOSED(&b) == 1);
    assert_int_equal(b.closed_why, CONCLAVE_AUTH_FAILED);
    candidate_finish(&b);
    candidate_finish(&a);
}

static void E59_a_closed_client_unblocks_waits(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct waiter w;
    block(zk, &a, &b, &w);
    sleep_ms(20);
    conclave_client_close(b.client, 1000);
    assert_int_equal(pthread_join(w.thread, NULL), 0);
    assert_int_equal(w.result, CONCLAVE_ECLOSED);
    EVENTUALLY(CLOSED(&b) == 1);
    assert_int_equal(b.closed_why, CONCLAVE_ECLOSED);
    struct conclave_election *late;
    struct conclave_election_options options = candidate_options("b");
    assert_int_equal(conclave_election_open(b.recipes, &options, NULL, NULL, &late),
                     CONCLAVE_ECLOSED);
    candidate_close_election(&b);
    conclave_recipes_destroy(b.recipes);
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 1);
    candidate_finish(&a);
}

static void E59_a_leader_whose_client_is_closed(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    conclave_client_close(a.client, 1000);
    assert_false(LEADS(&a));
    EVENTUALLY(CLOSED(&a) == 1);
    assert_int_equal(REVOKED(&a), 1);
    assert_int_equal(candidate_term(&a, 0).why, CONCLAVE_ECLOSED);
    candidate_close_election(&a);
    conclave_recipes_destroy(a.recipes);
}

static void E60_one_of_three_nodes_gone_revokes_one(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c[3];
    static const char *const paths[] = {"/app/x", "/app/y", "/app/z"};
    char name[128];
    char node[256];
    for (int i = 0; i < 3; i++) {
        if (i == 0) {
            candidate_connect(&c[0], zk, 0, "c");
        } else {
            candidate_share(&c[i], &c[0], "c");
        }
        struct conclave_election_options options = candidate_options("c");
        options.path = paths[i];
        options.lease.heartbeat_ms = 2;
        candidate_join_with(&c[i], &options);
        EVENTUALLY(STARTED(&c[i]) == 1);
    }
    for (int i = 0; i < 3; i++) {
        char current[64];
        (void)snprintf(current, sizeof current, "%s.leader/current", paths[i]);
        EVENTUALLY(fake_zk_exists(zk, current));
    }
    sleep_ms(100); /* what follows the acknowledgements */
    fake_zk_count_reset(zk);
    EVENTUALLY(fake_zk_count(zk, 0, WIRE_MULTI) >= 100);
    assert_int_equal(fake_zk_count_events(zk), 0);
    assert_int_equal(fake_zk_count(zk, 0, FAKE_ANY_OP), fake_zk_count(zk, 0, WIRE_MULTI));
    conclave_election_node(c[1].election, name, sizeof name);
    (void)snprintf(node, sizeof node, "%s/%s", paths[1], name);
    int64_t from = now_ns();
    fake_zk_delete(zk, node);
    EVENTUALLY(REVOKED(&c[1]) == 1);
    assert_true(now_ns() - from <
                (int64_t)LONG_SESSION_MS / 3 * 1000000); /* not by the end of the lease */
    STAYS(LEADS(&c[0]) && LEADS(&c[2]), 50);
    assert_int_equal(REVOKED(&c[0]) + REVOKED(&c[2]), 0);
    for (int i = 2; i >= 0; i--) {
        candidate_finish(&c[i]);
    }
}

static void E61_a_child_of_fork_holds_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    int status;
    if (THREAD_SANITIZER) {
        print_message("E61: the thread sanitizer does not bear fork in a program with threads\n");
        skip();
    }
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    pid_t pid = fork();
    if (pid == 0) {
        struct conclave_election *e;
        struct conclave_election_options options = candidate_options("child");
        bool right = !LEADS(&a) && conclave_election_token(a.election).czxid == 0 &&
                     conclave_election_lease_left_ms(a.election) == 0 &&
                     conclave_election_wait(a.election, 0, NULL) == CONCLAVE_EFORK &&
                     conclave_election_resign(a.election, true) == CONCLAVE_EFORK &&
                     conclave_election_ack(a.election) == CONCLAVE_EFORK &&
                     conclave_election_set_data(a.election, "", 0) == CONCLAVE_EFORK &&
                     conclave_election_fenced_multi(a.election, NULL, 0, NULL) == CONCLAVE_EFORK &&
                     conclave_election_open(a.recipes, &options, NULL, NULL, &e) == CONCLAVE_EFORK;
        conclave_election_close(a.election);
        conclave_election_destroy(a.election);
        conclave_recipes_destroy(a.recipes);
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    STAYS(LEADS(&a), SESSION_MS);
    candidate_finish(&a);
}

/* --- without threads ----------------------------------------------------------------- */

static void turn(struct conclave_client *client, int64_t ms)
{
    int64_t end = now_ns() + ms * 1000000;
    while (now_ns() < end) {
        struct pollfd fd = {conclave_client_fd(client), POLLIN, 0};
        int64_t timeout = conclave_client_timeout_ms(client);
        (void)poll(&fd, 1, timeout < 0 || timeout > 5 ? 5 : (int)timeout);
        (void)conclave_client_dispatch(client);
    }
}

static void an_election_in_a_loop_of_ones_own(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct candidate a;
    memset(&a, 0, sizeof a);
    a.zk = zk;
    (void)pthread_mutex_init(&a.lock, NULL);
    options.servers = fake_zk_address(zk, 0);
    options.session_timeout_ms = EXPIRY_SESSION_MS;
    assert_int_equal(conclave_client_open(&options, &a.client), 0);
    assert_int_equal(conclave_recipes_open(a.client, &a.recipes), 0);
    a.name = "a";
    candidate_join(&a);
    struct conclave_token token;
    assert_int_equal(conclave_election_wait(a.election, PATIENCE_MS, &token), 0);
    assert_int_equal(a.elected, 1);
    turn(a.client, EXPIRY_SESSION_MS * 2L);
    assert_true(LEADS(&a));
    fake_zk_expire(zk, candidate_session(&a));
    EVENTUALLY((turn(a.client, 5), a.revoked == 1));
    assert_int_equal(conclave_election_wait(a.election, PATIENCE_MS, &token), 0);
    assert_int_equal(a.elected, 2);
    candidate_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E53_an_observer_sees_leaders_in_order),
        E_TEST(E53_a_candidate_that_has_not_acknowledged_is_told_as_such),
        E_TEST(E54_a_list_leaves_out_who_leaves_meanwhile),
        E_TEST(E55_two_elections_of_one_client_do_not_touch_each_other),
        E_TEST(E56_callbacks_alternate_whatever_flaps),
        EXPIRY_TEST(E57_no_grant_by_a_read_only_server),
        E_TEST(E58_refused_credentials_end_handles_and_waits),
        E_TEST(E59_a_closed_client_unblocks_waits),
        E_TEST(E59_a_leader_whose_client_is_closed),
        E_TEST(E60_one_of_three_nodes_gone_revokes_one),
        E_TEST(E61_a_child_of_fork_holds_nothing),
        E_TEST(an_election_in_a_loop_of_ones_own),
    };
    return RUN_TESTS(tests);
}
