/* Waiting in the queue, and not waking others. E21 to E37. */
#include "support/candidate.h"

/* a leads, b waits behind it. */
static void lead_and_wait(struct fake_zk *zk, struct candidate *a, struct candidate *b)
{
    make_parent(zk);
    candidate_connect(a, zk, 0, "a");
    candidate_connect(b, zk, 1, "b");
    candidate_join(a);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    candidate_join(b);
    candidate_settled(b);
    assert_true(LEADS(a));
}

static void finish_both(struct candidate *a, struct candidate *b)
{
    candidate_finish(b);
    candidate_finish(a);
}

static void E21_one_departure_wakes_one(void **state)
{
    enum { CANDIDATES = 100 };
    struct fake_zk *zk = *state;
    static struct candidate c[CANDIDATES];
    static struct candidate leader;
    make_parent(zk);
    candidate_connect(&leader, zk, 1, "leader");
    candidate_join(&leader);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    candidate_connect(&c[0], zk, 0, "c");
    for (int i = 0; i < CANDIDATES; i++) {
        if (i > 0) {
            candidate_share(&c[i], &c[0], "c");
        }
        candidate_join(&c[i]);
        EVENTUALLY(candidate_has_node(&c[i]));
    }
    candidate_settled(&c[CANDIDATES - 1]);
    fake_zk_count_reset(zk);
    fake_zk_expire(zk, candidate_session(&leader));
    EVENTUALLY(LEADS(&c[0]));
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    assert_int_equal(
        fake_zk_count(zk, 0, WIRE_GET_CHILDREN2) + fake_zk_count(zk, 0, WIRE_GET_CHILDREN), 0);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_GET_DATA), 1); /* of the one that is gone */
    assert_true(fake_zk_count_events(zk) <= 1);
    for (int i = 1; i < CANDIDATES; i++) {
        assert_int_equal(ELECTED(&c[i]), 0);
    }
    for (int i = CANDIDATES - 1; i >= 0; i--) {
        candidate_finish(&c[i]);
    }
    candidate_finish(&leader);
}

static void E22_the_one_behind_a_gap_waits_for_the_next(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct candidate c;
    lead_and_wait(zk, &a, &b);
    candidate_connect(&c, zk, 2, "c");
    candidate_join(&c);
    candidate_settled(&c);
    candidate_finish(&b);
    STAYS(ELECTED(&c) == 0 && LEADS(&a), 100);
    candidate_finish(&a);
    EVENTUALLY(LEADS(&c));
    candidate_finish(&c);
}

static void delete_first(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, ctx);
}

static void E23_predecessor_gone_before_the_watch_is_set(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate b;
    char *first = ELECTION_PATH "/aa-n_0000000000";
    make_parent(zk);
    fake_zk_create(zk, first, "x", 0x99);
    struct fake_hook h = {.endpoint = 1,
                          .op = WIRE_GET_DATA,
                          .path = "/aa-n_0000000000",
                          .nth = 1,
                          .action = FAKE_CALL,
                          .fn = delete_first,
                          .ctx = first};
    fake_zk_hook(zk, &h);
    candidate_connect(&b, zk, 1, "b");
    candidate_join(&b);
    EVENTUALLY(LEADS(&b));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    candidate_finish(&b);
}

static void E24_predecessor_goes_while_suspended(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    char before[256];
    char after[256];
    lead_and_wait(zk, &a, &b);
    candidate_node(&b, before, sizeof before);
    fake_zk_link(zk, 1, FAKE_REFUSE);
    candidate_close_election(&a);
    fake_zk_link(zk, 1, FAKE_UP);
    EVENTUALLY(LEADS(&b));
    candidate_node(&b, after, sizeof after);
    assert_string_equal(before, after);
    assert_int_equal(fake_zk_count(zk, 1, WIRE_CREATE2), 1);
    finish_both(&a, &b);
}

static void E25_a_new_link_does_not_count_as_an_event(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    lead_and_wait(zk, &a, &b);
    size_t watches = fake_zk_watches(zk);
    fake_zk_cut(zk, 1);
    EVENTUALLY(fake_zk_count(zk, 1, WIRE_SET_WATCHES) == 1);
    EVENTUALLY(fake_zk_watches(zk) == watches);
    STAYS(ELECTED(&b) == 0, 100);
    candidate_close_election(&a);
    EVENTUALLY(LEADS(&b));
    finish_both(&a, &b);
}

static void E26_own_expiry_while_waiting_is_noticed_at_once(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    char before[256];
    char after[256];
    lead_and_wait(zk, &a, &b);
    candidate_node(&b, before, sizeof before);
    fake_zk_expire(zk, candidate_session(&b));
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 2);
    EVENTUALLY(candidate_has_node(&b));
    candidate_node(&b, after, sizeof after);
    assert_string_not_equal(before, after);
    assert_true(LEADS(&a) && ELECTED(&b) == 0);
    candidate_close_election(&b);

    b.closed = 0; /* the same without queueing again */
    struct conclave_election_options options = candidate_options("b");
    options.requeue = false;
    candidate_join_with(&b, &options);
    candidate_settled(&b);
    fake_zk_expire(zk, candidate_session(&b));
    EVENTUALLY(CLOSED(&b) == 1);
    assert_int_equal(b.closed_why, CONCLAVE_SESSION_EXPIRED);
    assert_true(LEADS(&a));
    finish_both(&a, &b);
}

static void E27_own_node_deleted_by_an_operator(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    char before[256];
    char after[256];
    lead_and_wait(zk, &a, &b);
    candidate_node(&b, before, sizeof before);
    fake_zk_delete(zk, before);
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 2); /* queued again, at the end */
    candidate_settled(&b);
    candidate_node(&b, after, sizeof after);
    assert_string_not_equal(before, after);
    candidate_node(&a, before, sizeof before);
    fake_zk_delete(zk, before);
    EVENTUALLY(REVOKED(&a) == 1);
    assert_int_equal(candidate_term(&a, 0).why, CONCLAVE_ELOST);
    assert_int_equal(candidate_term(&a, 0).stop_within_ms, 0);
    EVENTUALLY(LEADS(&b));
    STAYS(REVOKED(&a) == 1 && ELECTED(&a) == 1, 100);
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 2);
    finish_both(&a, &b);
}

struct pair {
    char first[256];
    char second[256];
};

static void delete_pair(struct fake_zk *zk, void *ctx)
{
    struct pair *pair = ctx;
    fake_zk_delete_locked(zk, pair->first);
    fake_zk_delete_locked(zk, pair->second);
}

/* Somebody keeps deleting the node: not answered by new ones as fast as the network allows. */
static void E27_a_node_deleted_again_at_once_backs_off(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct conclave_election_options options = candidate_options("a");
    char node[256];
    int64_t deleted_ns = 0;
    make_parent(zk);
    candidate_connect(&a, zk, 0, "a");
    options.backoff_min_ms = 1000;
    options.backoff_max_ms = 1000;
    candidate_join_with(&a, &options);
    for (int i = 1; i <= 3; i++) {
        EVENTUALLY(ELECTED(&a) == i && LEADS(&a));
        assert_true(i < 3 || now_ns() - deleted_ns >= 990 * 1000000L);
        candidate_node(&a, node, sizeof node);
        deleted_ns = now_ns();
        fake_zk_delete(zk, node);
    }
    candidate_finish(&a);
}

static void E28_predecessor_and_self_deleted_at_once(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate b;
    struct pair pair = {.first = ELECTION_PATH "/aa-n_0000000000"};
    make_parent(zk);
    fake_zk_create(zk, pair.first, "x", 0x99);
    candidate_connect(&b, zk, 1, "b");
    candidate_join(&b);
    candidate_settled(&b);
    candidate_node(&b, pair.second, sizeof pair.second);
    int64_t old = fake_zk_czxid(zk, pair.second);
    fake_zk_do(zk, delete_pair, &pair);
    EVENTUALLY(LEADS(&b));
    assert_int_equal(ELECTED(&b), 1); /* not by the node that was deleted */
    assert_true(candidate_term(&b, 0).token > old);
    candidate_finish(&b);
}

static void E29_reconnecting_together_makes_no_new_nodes(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    lead_and_wait(zk, &a, &b);
    for (int i = 0; i < 5; i++) {
        fake_zk_cut(zk, 0);
        fake_zk_cut(zk, 1);
        sleep_ms(40);
    }
    EVENTUALLY(LEADS(&a));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1);
    assert_int_equal(fake_zk_count(zk, 1, WIRE_CREATE2), 1);
    assert_int_equal(ELECTED(&b), 0);
    assert_int_equal(ELECTED(&a), 1);
    finish_both(&a, &b);
}

static void E30_an_ensemble_rebuilt_from_nothing(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    lead_and_wait(zk, &a, &b);
    fake_zk_reset(zk);
    EVENTUALLY(REVOKED(&a) == 1);
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 2);
    EVENTUALLY(LEADS(&a) != LEADS(&b));
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    finish_both(&a, &b);
}

static void E31_a_reply_beyond_the_limit_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    make_parent(zk);
    hook(zk, 0, WIRE_GET_CHILDREN2, NULL, 1, FAKE_OVERSIZED);
    candidate_connect_to(&a, zk, 0, "a", NULL, 10000);
    candidate_join(&a);
    EVENTUALLY(CLOSED(&a) == 1);
    assert_int_equal(a.closed_why, CONCLAVE_ETOOBIG);
    candidate_finish(&a);
}

static void E32_cycles_leave_no_watches(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    make_parent(zk);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(STARTED(&a) == 1);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    size_t watches = fake_zk_watches(zk);
    for (int i = 1; i <= 300; i++) {
        assert_int_equal(conclave_election_resign(a.election, true), 0);
        EVENTUALLY(STARTED(&a) == i + 1);
    }
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    EVENTUALLY(fake_zk_watches(zk) == watches);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 1);
    candidate_close_election(&a);
    EVENTUALLY(fake_zk_watches(zk) == 0);
    candidate_finish(&a);
}

static void E33_timeouts_of_waiting(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct conclave_token token;
    lead_and_wait(zk, &a, &b);
    int64_t from = now_ns();
    assert_int_equal(conclave_election_wait(b.election, 0, &token), CONCLAVE_ETIMEDOUT);
    assert_true(now_ns() - from < (int64_t)LONG_SESSION_MS / 3 * 1000000);
    from = now_ns();
    assert_int_equal(conclave_election_wait(b.election, 60, &token), CONCLAVE_ETIMEDOUT);
    assert_true(now_ns() - from >= 59 * 1000000);
    assert_int_equal(conclave_election_wait(a.election, 0, &token), 0);
    assert_int_equal(token.czxid, conclave_election_token(a.election).czxid);
    assert_int_equal(conclave_election_wait(a.election, INT64_MAX, &token), 0);
    assert_int_equal(conclave_election_wait(a.election, CONCLAVE_FOREVER, &token), 0);
    candidate_close_election(&a);
    assert_int_equal(conclave_election_wait(b.election, INT64_MAX, &token), 0);
    finish_both(&a, &b);
}

static void E34_grant_at_the_last_moment_of_a_timeout(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct conclave_token token;
    lead_and_wait(zk, &a, &b);
    for (int i = 0; i < 20;
         i++) { /* whoever waits sees a lead that is one, or a timeout; never a mix */
        struct candidate *next = i % 2 == 0 ? &b : &a;
        struct candidate *leader = i % 2 == 0 ? &a : &b;
        token.czxid = 0;
        assert_int_equal(conclave_election_resign(leader->election, true), 0);
        int error = conclave_election_wait(next->election, i % 5, &token);
        if (error == 0) {
            assert_true(token.czxid != 0);
        } else {
            assert_int_equal(error, CONCLAVE_ETIMEDOUT);
            assert_int_equal(token.czxid, 0);
            assert_int_equal(conclave_election_wait(next->election, PATIENCE_MS, &token), 0);
        }
        candidate_settled(leader);
    }
    finish_both(&a, &b);
    check_terms((struct candidate *[]){&a, &b}, 2);
}

static void E35_close_at_every_step(void **state)
{
    struct fake_zk *zk = *state;
    for (size_t step = 0; step < 14; step++) {
        struct candidate a;
        fake_zk_count_reset(zk);
        candidate_connect(&a, zk, 0, "a");
        candidate_join(&a);
        int64_t end = now_ns() + 30 * 1000000;
        while (fake_zk_count(zk, 0, FAKE_ANY_OP) < step && now_ns() < end) {}
        candidate_close_election(&a);
        assert_int_equal(a.closed_why, CONCLAVE_ECLOSED);
        assert_int_equal(fake_zk_ephemerals(zk), 0);
        candidate_finish(&a);
    }
}

static void close_inside(struct candidate *c)
{
    struct conclave_token token;
    assert_int_equal(conclave_election_wait(c->election, 0, &token), CONCLAVE_EDEADLK);
    assert_int_equal(conclave_election_close_wait(c->election, 0), CONCLAVE_EDEADLK);
    conclave_election_close(c->election);
    conclave_election_close(c->election);
}

static void resign_inside(struct candidate *c)
{
    if (c->elected < 3) {
        assert_int_equal(conclave_election_resign(c->election, true), 0);
    }
}

/* With the runtime, as a program in a loop has no other place for it. */
static void destroy_inside(struct candidate *c)
{
    conclave_election_destroy(c->election);
    conclave_recipes_destroy(c->recipes);
    c->recipes = NULL;
}

static void E36_callbacks_may_act_on_their_own_handle(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    candidate_connect(&a, zk, 0, "a");
    a.in_elected = resign_inside;
    candidate_join(&a);
    EVENTUALLY(STARTED(&a) == 3);
    a.in_elected = NULL;
    candidate_close_election(&a);

    a.closed = 0;
    a.in_elected = close_inside;
    candidate_join(&a);
    EVENTUALLY(CLOSED(&a) == 1);
    candidate_close_election(&a);

    a.closed = 0;
    a.in_elected = NULL;
    a.in_revoked = close_inside;
    a.in_closed = destroy_inside;
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    assert_int_equal(conclave_election_resign(a.election, true), 0);
    EVENTUALLY(CLOSED(&a) == 1);
    a.election = NULL;
    candidate_finish(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void E37_a_watch_that_outlives_its_handle(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    lead_and_wait(zk, &a, &b);
    candidate_close_election(&b); /* the server still has its watch on a's node */
    assert_true(fake_zk_watches(zk) >= 1);
    candidate_close_election(&a); /* which fires now */
    EVENTUALLY(fake_zk_watches(zk) == 0);
    b.closed = 0;
    candidate_join(&b);
    EVENTUALLY(LEADS(&b));
    finish_both(&a, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E21_one_departure_wakes_one),
        E_TEST(E22_the_one_behind_a_gap_waits_for_the_next),
        E_TEST(E23_predecessor_gone_before_the_watch_is_set),
        E_TEST(E24_predecessor_goes_while_suspended),
        E_TEST(E25_a_new_link_does_not_count_as_an_event),
        E_TEST(E26_own_expiry_while_waiting_is_noticed_at_once),
        E_TEST(E27_own_node_deleted_by_an_operator),
        E_TEST(E27_a_node_deleted_again_at_once_backs_off),
        E_TEST(E28_predecessor_and_self_deleted_at_once),
        E_TEST(E29_reconnecting_together_makes_no_new_nodes),
        E_TEST(E30_an_ensemble_rebuilt_from_nothing),
        E_TEST(E31_a_reply_beyond_the_limit_is_told),
        E_TEST(E32_cycles_leave_no_watches),
        E_TEST(E33_timeouts_of_waiting),
        E_TEST(E34_grant_at_the_last_moment_of_a_timeout),
        E_TEST(E35_close_at_every_step),
        E_TEST(E36_callbacks_may_act_on_their_own_handle),
        E_TEST(E37_a_watch_that_outlives_its_handle),
    };
    return RUN_TESTS(tests);
}
