/* An election on one node of a fixed name, also beside plain clients. E130 to E135. */
#include "support/candidate.h"

enum { OTHER = 0x99, DELAY_MS = 300 };

static struct conclave_election_options fixed_options(const char *name)
{
    struct conclave_election_options options = candidate_options(name);
    options.naming = CONCLAVE_NAMING_FIXED;
    return options;
}

static void fixed_join(struct candidate *c, struct fake_zk *zk, int endpoint, const char *name)
{
    struct conclave_election_options options = fixed_options(name);
    candidate_connect(c, zk, endpoint, name);
    candidate_join_with(c, &options);
}

/* It has read the node and watches it: nothing of it is under way. */
static void fixed_waits(struct candidate *c)
{
    EVENTUALLY(fake_zk_count(c->zk, c->endpoint, WIRE_GET_DATA) > 0);
    for (int quiet = 0, last = -1; quiet < 15;) {
        int now = (int)fake_zk_count(c->zk, c->endpoint, FAKE_ANY_OP);
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        sleep_ms(1);
    }
    assert_false(candidate_has_node(c));
}

static bool path_data_is(struct fake_zk *zk, const char *wanted)
{
    char data[64];
    return fake_zk_data(zk, ELECTION_PATH, data, sizeof data) && strcmp(data, wanted) == 0;
}

/* The parents are made, the node is the address alone, and nothing is beside it. */
static void E130_the_node_is_the_address_of_the_leader(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct conclave_election_options options = fixed_options("a");
    options.data = "10.0.0.1:80\nx";
    options.data_len = 13;
    candidate_connect(&a, zk, 0, "a");
    candidate_join_with(&a, &options);
    EVENTUALLY(LEADS(&a));
    assert_true(path_data_is(zk, "10.0.0.1:80\nx"));
    assert_int_equal(fake_zk_owner(zk, ELECTION_PATH), candidate_session(&a));
    assert_int_equal(fake_zk_czxid(zk, ELECTION_PATH), conclave_election_token(a.election).czxid);
    fixed_join(&b, zk, 1, "b");
    fixed_waits(&b);
    assert_int_equal(conclave_election_set_data(a.election, "10.0.0.2:80", 11), 0);
    EVENTUALLY(path_data_is(zk, "10.0.0.2:80"));
    STAYS(!LEADS(&b), 50);
    assert_int_equal(conclave_election_ack(a.election), 0);
    candidate_finish(&a);
    EVENTUALLY(LEADS(&b));
    assert_true(path_data_is(zk, "b"));
    assert_int_equal(fake_zk_child_count(zk, "/app"), 1);
    candidate_finish(&b);
    assert_int_equal(fake_zk_child_count(zk, "/app"), 0);
    check_terms((struct candidate *[]){&a, &b}, 2);
}

static void E131_a_lost_create_is_adopted_by_its_owner(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    make_parent(zk);
    fake_zk_delete(zk, ELECTION_PATH);
    hook(zk, 0, WIRE_CREATE, "/election", 1, FAKE_DROP_REPLY);
    fixed_join(&a, zk, 0, "a");
    EVENTUALLY(LEADS(&a));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1);
    assert_true(fake_zk_count(zk, 0, WIRE_SYNC) >= 1);
    candidate_finish(&a);
    assert_false(fake_zk_exists(zk, ELECTION_PATH));
}

/* Its server stays behind, so the client's watch says nothing of the deletion, either. */
static void lose_link(struct fake_zk *zk, void *ctx)
{
    fake_zk_freeze_locked(zk, 0);
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

static void E131_a_lost_delete_does_not_end_another(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct conclave_election_options options = fixed_options("a");
    candidate_connect_to(&a, zk, 0, "a", NULL, PATIENCE_MS); /* no heartbeat comes in between */
    candidate_join_with(&a, &options);
    EVENTUALLY(STARTED(&a) == 1);
    fixed_join(&b, zk, 1, "b");
    fixed_waits(&b);
    struct fake_hook lost = {.endpoint = 0,
                             .op = WIRE_MULTI,
                             .path = "/election",
                             .nth = 1,
                             .action = FAKE_CALL,
                             .fn = lose_link};
    fake_zk_hook(zk, &lost);
    conclave_election_close(a.election);
    EVENTUALLY(LEADS(&b));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    int64_t czxid = fake_zk_czxid(zk, ELECTION_PATH);
    fake_zk_link(zk, 0, FAKE_UP);
    candidate_finish(&a);
    assert_int_equal(fake_zk_owner(zk, ELECTION_PATH), candidate_session(&b));
    assert_int_equal(fake_zk_czxid(zk, ELECTION_PATH), czxid); /* and was not made again */
    candidate_finish(&b);
    check_terms((struct candidate *[]){&a, &b}, 2);
}

static void E130_of_one_session_one_leads(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct conclave_election_options options = fixed_options("b");
    fixed_join(&a, zk, 0, "a");
    EVENTUALLY(LEADS(&a));
    candidate_share(&b, &a, "b");
    candidate_join_with(&b, &options);
    STAYS(!LEADS(&b), 100);
    candidate_finish(&b);
    assert_true(path_data_is(zk, "a"));
    candidate_finish(&a);
    check_terms((struct candidate *[]){&a, &b}, 2);
}

static void E132_deleted_by_hand_and_made_by_another_it_is_revoked(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    fixed_join(&a, zk, 0, "a");
    EVENTUALLY(LEADS(&a));
    fixed_join(&b, zk, 1, "b");
    fixed_waits(&b);
    fake_zk_delete(zk, ELECTION_PATH);
    EVENTUALLY(REVOKED(&a) == 1);
    assert_int_equal(candidate_term(&a, 0).stop_within_ms, 0);
    EVENTUALLY(LEADS(&a) || LEADS(&b));
    candidate_finish(&a);
    EVENTUALLY(LEADS(&b));
    candidate_finish(&b);
    check_tokens((struct candidate *[]){&a, &b}, 2);
}

static void E132_the_node_of_another_is_not_deleted(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct conclave_election_options options = fixed_options("a");
    candidate_connect_to(&a, zk, 0, "a", NULL, PATIENCE_MS);
    candidate_join_with(&a, &options);
    EVENTUALLY(LEADS(&a));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    conclave_election_close(a.election);
    fake_zk_delete(zk, ELECTION_PATH);
    fake_zk_create(zk, ELECTION_PATH, "other", OTHER);
    fake_zk_link(zk, 0, FAKE_UP);
    candidate_finish(&a);
    assert_true(path_data_is(zk, "other"));
}

static void E133_a_race_is_lost_at_once_with_the_address(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct conclave_election_options options = fixed_options("a");
    struct conclave_election *election = NULL;
    struct conclave_participant *leader = NULL;
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, ELECTION_PATH, "10.0.0.9:80", OTHER);
    candidate_connect(&a, zk, 0, "a");
    assert_int_equal(
        conclave_election_race(a.recipes, &options, NULL, NULL, PATIENCE_MS, &election, &leader),
        CONCLAVE_EBUSY);
    assert_null(election);
    assert_string_equal(leader->id, "10.0.0.9:80");
    assert_int_equal(leader->data_len, 11);
    assert_memory_equal(leader->data, "10.0.0.9:80", 11);
    assert_string_equal(leader->node, "election");
    assert_int_equal(leader->session_id, OTHER);
    assert_int_equal(leader->token.czxid, fake_zk_czxid(zk, ELECTION_PATH));
    assert_true(leader->since_ms > 0);
    assert_false(leader->self);
    conclave_participant_free(leader);
    fake_zk_delete(zk, ELECTION_PATH);
    assert_int_equal(conclave_election_find_leader(a.recipes, ELECTION_PATH, PATIENCE_MS, &leader),
                     CONCLAVE_NO_NODE);
    assert_int_equal(conclave_election_race(a.recipes, &options, &candidate_callbacks, &a,
                                            PATIENCE_MS, &a.election, &leader),
                     0);
    assert_null(leader);
    assert_true(LEADS(&a));
    assert_int_equal(conclave_election_find_leader(a.recipes, ELECTION_PATH, PATIENCE_MS, &leader),
                     0);
    assert_true(leader->self);
    conclave_participant_free(leader);
    candidate_finish(&a);
}

/* The same in a line: the node goes again. */
static void E133_a_race_is_lost_in_a_line(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct conclave_election_options options = candidate_options("b");
    struct conclave_election *election;
    struct conclave_participant *leader;
    make_parent(zk);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    assert_int_equal(
        conclave_election_race(a.recipes, &options, NULL, NULL, PATIENCE_MS, &election, &leader),
        CONCLAVE_EBUSY);
    assert_string_equal(leader->id, "a");
    assert_true(leader->self);
    conclave_participant_free(leader);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 1);
    assert_int_equal(
        conclave_election_race(a.recipes, &options, NULL, NULL, PATIENCE_MS, &election, NULL),
        CONCLAVE_EBUSY);
    options.observe_only = true;
    assert_int_equal(
        conclave_election_race(a.recipes, &options, NULL, NULL, PATIENCE_MS, &election, NULL),
        CONCLAVE_EINVAL);
    candidate_finish(&a);
}

static void E134_the_delay_follows_a_leader_of_another_library(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    struct conclave_election_options options = fixed_options("a");
    options.takeover_delay_ms = DELAY_MS;
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, ELECTION_PATH, "other", OTHER);
    candidate_connect(&a, zk, 0, "a");
    candidate_join_with(&a, &options);
    fixed_waits(&a);
    int64_t gone = now_ns();
    fake_zk_delete(zk, ELECTION_PATH);
    EVENTUALLY(fake_zk_owner(zk, ELECTION_PATH) == candidate_session(&a)); /* it owns the node */
    EVENTUALLY(LEADS(&a));
    assert_true(now_ns() >= gone + (int64_t)DELAY_MS * 1000000);
    /* Ours says that it stopped cleanly: no delay. */
    options.id = "b";
    options.takeover_delay_ms = PATIENCE_MS * 10L;
    candidate_connect(&b, zk, 1, "b");
    candidate_join_with(&b, &options);
    fixed_waits(&b);
    candidate_finish(&a);
    EVENTUALLY(LEADS(&b));
    candidate_finish(&b);
    check_terms((struct candidate *[]){&a, &b}, 2);
}

static void E135_observers_see_each_leader(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate watcher;
    struct candidate a;
    struct conclave_election_options options = fixed_options("watcher");
    options.observe_only = true;
    candidate_connect(&watcher, zk, 2, "watcher");
    candidate_join_with(&watcher, &options);
    EVENTUALLY(candidate_log_is(&watcher, "-"));
    fixed_join(&a, zk, 0, "a");
    EVENTUALLY(candidate_log_is(&watcher, "- a"));
    EVENTUALLY(LEADS(&a)); /* the watcher may hear of it first */
    assert_int_equal(candidate_leader_token(&watcher), conclave_election_token(a.election).czxid);
    assert_int_equal(conclave_election_set_data(a.election, "b", 1), 0);
    EVENTUALLY(candidate_log_is(&watcher, "- a b"));
    candidate_finish(&a);
    EVENTUALLY(candidate_log_is(&watcher, "- a b -"));
    fake_zk_create(zk, ELECTION_PATH, "c", OTHER);
    EVENTUALLY(candidate_log_is(&watcher, "- a b - c"));
    candidate_finish(&watcher);
}

static void E135_the_list_is_the_leader_alone(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct conclave_participant **list;
    size_t count;
    fixed_join(&a, zk, 0, "a");
    EVENTUALLY(LEADS(&a));
    assert_int_equal(
        conclave_election_participants(a.recipes, ELECTION_PATH, PATIENCE_MS, &list, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(list[0]->id, "a");
    assert_string_equal(list[0]->node, "election");
    conclave_participants_free(list, count);
    candidate_finish(&a);
}

static void E130_resigned_it_waits_or_races_again(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    fixed_join(&a, zk, 0, "a");
    EVENTUALLY(STARTED(&a) == 1);
    fixed_join(&b, zk, 1, "b");
    fixed_waits(&b);
    assert_int_equal(conclave_election_resign(a.election, false), 0);
    EVENTUALLY(STARTED(&b) == 1);
    assert_int_equal(conclave_election_resign(b.election, true), 0);
    EVENTUALLY(STARTED(&b) == 2); /* nobody else races */
    assert_int_equal(conclave_election_resign(a.election, true), 0);
    assert_int_equal(conclave_election_resign(b.election, false), 0);
    EVENTUALLY(LEADS(&a));
    /* Waiting, it leaves nothing. */
    assert_int_equal(conclave_election_resign(b.election, true), 0);
    candidate_finish(&b);
    assert_true(LEADS(&a));
    candidate_finish(&a);
    assert_false(fake_zk_exists(zk, ELECTION_PATH));
    check_terms((struct candidate *[]){&a, &b}, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E130_the_node_is_the_address_of_the_leader),
        E_TEST(E130_resigned_it_waits_or_races_again),
        E_TEST(E130_of_one_session_one_leads),
        E_TEST(E131_a_lost_create_is_adopted_by_its_owner),
        E_TEST(E131_a_lost_delete_does_not_end_another),
        E_TEST(E132_deleted_by_hand_and_made_by_another_it_is_revoked),
        E_TEST(E132_the_node_of_another_is_not_deleted),
        E_TEST(E133_a_race_is_lost_at_once_with_the_address),
        E_TEST(E133_a_race_is_lost_in_a_line),
        E_TEST(E134_the_delay_follows_a_leader_of_another_library),
        E_TEST(E135_observers_see_each_leader),
        E_TEST(E135_the_list_is_the_leader_alone),
    };
    return RUN_TESTS(tests);
}
