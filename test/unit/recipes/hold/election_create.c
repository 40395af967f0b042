/* The candidate's node: created once, found again, removed. E01 to E20. */
#include "support/candidate.h"

/* --- hooks ---------------------------------------------------------------------- */

static void lose_first_server(struct fake_zk *zk, void *ctx)
{
    fake_zk_freeze_locked(zk, 1); /* as of before the creation */
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

static void lose_link(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

static void reap_parent(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, ELECTION_PATH);
}

static void call_at(struct fake_zk *zk, int32_t op, const char *path, int nth,
                    void (*fn)(struct fake_zk *zk, void *ctx))
{
    struct fake_hook h = {
        .endpoint = 0, .op = op, .path = path, .nth = nth, .action = FAKE_CALL, .fn = fn};
    fake_zk_hook(zk, &h);
}

/* --- creation -------------------------------------------------------------------- */

static void E01_create_reply_lost_is_adopted(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    make_parent(zk);
    hook(zk, 0, WIRE_CREATE, "-n_", 1, FAKE_DROP_REPLY);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 1);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1);
    char node[256];
    candidate_node(&a, node, sizeof node);
    assert_int_equal(fake_zk_czxid(zk, node), conclave_election_token(a.election).czxid);
    candidate_finish(&a);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 0);
}

static void E02_lookup_syncs_with_a_lagging_server(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char servers[128];
    make_parent(zk);
    call_at(zk, WIRE_CREATE, "-n_", 1, lose_first_server);
    (void)snprintf(servers, sizeof servers, "%s,%s", fake_zk_address(zk, 0),
                   fake_zk_address(zk, 1));
    fake_zk_link(zk, 1, FAKE_REFUSE); /* so that it begins on the first one */
    candidate_connect_to(&a, zk, 0, "a", servers, 5000);
    assert_int_equal(conclave_client_wait_connected(a.client, PATIENCE_MS), 0);
    fake_zk_link(zk, 1, FAKE_UP);
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 1);
    assert_int_equal(fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_CREATE2), 1);
    assert_true(fake_zk_count(zk, 1, WIRE_SYNC) >= 1);
    candidate_finish(&a);
}

static void E03_create_that_never_arrived_is_retried_once(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    make_parent(zk);
    hook(zk, 0, WIRE_CREATE, "-n_", 1, FAKE_CUT_BEFORE);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 1);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 2); /* the lost one, and one */
    assert_true(fake_zk_count(zk, 0, WIRE_SYNC) >= 1);
    candidate_finish(&a);
}

static void E05_ghost_of_an_expired_session_is_not_adopted(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char ghost[256];
    char path[320];
    char node[320];
    make_parent(zk);
    call_at(zk, WIRE_CREATE, "-n_", 1, lose_link);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(fake_zk_child(zk, ELECTION_PATH, 0, ghost));
    (void)snprintf(path, sizeof path, "%s/%s", ELECTION_PATH, ghost);
    fake_zk_expire(zk, 0);
    assert_false(fake_zk_exists(zk, path));
    fake_zk_create(zk, path, "a", 0x99); /* the ghost: same name, another session */
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 2);
    candidate_settled(&a);
    candidate_node(&a, node, sizeof node);
    assert_int_not_equal(strncmp(node, path, strlen(ELECTION_PATH) + 33), 0); /* another guid */
    assert_int_equal(fake_zk_owner(zk, node), candidate_session(&a));
    STAYS(!LEADS(&a), 100);
    fake_zk_delete(zk, path);
    EVENTUALLY(LEADS(&a));
    candidate_finish(&a);
}

static void E06_no_lead_before_the_node_of_the_last_session_is_gone(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    const char *old = ELECTION_PATH "/0123456789abcdef0123456789abcdef-n_0000000000";
    make_parent(zk);
    fake_zk_create(zk, old, "a", 0x99); /* this process's last life */
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    candidate_settled(&a);
    STAYS(!LEADS(&a), 200);
    fake_zk_delete(zk, old);
    EVENTUALLY(LEADS(&a));
    assert_int_equal(ELECTED(&a), 1);
    candidate_finish(&a);
}

static void E07_of_two_nodes_with_my_guid_the_first_is_kept(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char first[256];
    char second[320];
    char node[320];
    make_parent(zk);
    call_at(zk, WIRE_CREATE, "-n_", 1, lose_link);
    candidate_connect_to(&a, zk, 0, "a", NULL, 5000);
    candidate_join(&a);
    EVENTUALLY(fake_zk_child(zk, ELECTION_PATH, 0, first));
    (void)snprintf(second, sizeof second, "%s/%.35s0000000001", ELECTION_PATH, first);
    fake_zk_create(zk, second, "a", candidate_session(&a));
    hook(zk, 0, WIRE_DELETE, NULL, 1, FAKE_CUT_BEFORE); /* and the deletion of the other is lost */
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(LEADS(&a));
    EVENTUALLY(fake_zk_child_count(zk, ELECTION_PATH) == 1);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    candidate_node(&a, node, sizeof node);
    assert_string_equal(node + strlen(ELECTION_PATH) + 1, first);
    candidate_finish(&a);
}

static void E08_parents_are_made_as_containers_with_the_acl(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char acl[256];
    char node[320];
    struct conclave_acl mine = {CONCLAVE_PERM_ALL, "ip", "127.0.0.1"};
    candidate_connect(&a, zk, 0, "a");
    struct conclave_election_options options = candidate_options("a");
    options.acl = &mine;
    options.acl_count = 1;
    candidate_join_with(&a, &options);
    EVENTUALLY(LEADS(&a));
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE_CONTAINER), 4); /* /app comes second */
    candidate_node(&a, node, sizeof node);
    const char *const made[] = {"/app",     ELECTION_PATH,         node,
                                LEADER_DIR, LEADER_DIR "/current", LEADER_DIR "/last"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        assert_true(fake_zk_acl(zk, made[i], acl));
        assert_string_equal(acl, "ip:127.0.0.1:31");
    }
    candidate_finish(&a);
}

static void E09_parent_reaped_before_the_create_is_made_again(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    call_at(zk, WIRE_CREATE, "-n_", 2, reap_parent); /* the first one finds none, either */
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    candidate_finish(&a);
}

static void E10_foreign_children_are_ignored(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    static const char *const foreign[] = {"abc", "x-", "n_", "lock-foo", "\xc3\xa4\xc3\xb6"};
    char path[256];
    make_parent(zk);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", ELECTION_PATH, foreign[i]);
        fake_zk_create(zk, path, "", 0);
    }
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    candidate_finish(&a);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 5);
}

static void E11_place_is_by_sequence_though_the_guid_says_otherwise(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    const char *other = ELECTION_PATH "/zzzz-n_0000000000";
    make_parent(zk);
    fake_zk_create(zk, other, "z", 0x99);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    candidate_settled(&a);
    assert_false(LEADS(&a));
    fake_zk_delete(zk, other);
    EVENTUALLY(LEADS(&a));
    candidate_finish(&a);
}

/* Four candidates on one client; closes the leader again and again, and returns when they led
 * in their order. */
static void lead_in_order(struct fake_zk *zk, const char *const *expected)
{
    struct candidate c[4];
    char child[256];
    candidate_connect(&c[0], zk, 0, "0");
    for (int i = 0; i < 4; i++) {
        if (i > 0) {
            candidate_share(&c[i], &c[0], "x");
        }
        candidate_join(&c[i]);
        candidate_settled(&c[i]);
        assert_true(fake_zk_child(zk, ELECTION_PATH, (size_t)i, child));
        assert_string_equal(child + strlen(child) - strlen(expected[i]), expected[i]);
    }
    for (int i = 0; i < 4; i++) {
        EVENTUALLY(LEADS(&c[i]));
        for (int j = i + 1; j < 4; j++) {
            assert_int_equal(ELECTED(&c[j]), 0);
        }
        candidate_close_election(&c[i]);
    }
    for (int i = 3; i >= 0; i--) {
        candidate_finish(&c[i]);
    }
}

static void E12_lead_goes_on_over_the_wrap_of_the_sequence(void **state)
{
    static const char *const expected[] = {"n_2147483646", "n_2147483647", "n_-2147483648",
                                           "n_-2147483647"};
    make_parent(*state);
    fake_zk_set_sequence(*state, ELECTION_PATH, INT32_MAX - 1);
    lead_in_order(*state, expected);
}

static void E13_equal_sequences_are_ordered_by_creation(void **state)
{
    static const char *const expected[] = {"n_2147483646", "n_2147483647", "n_2147483647",
                                           "n_2147483647"};
    make_parent(*state);
    fake_zk_stick_sequence(*state, true);
    fake_zk_set_sequence(*state, ELECTION_PATH, INT32_MAX - 1);
    lead_in_order(*state, expected);
}

/* --- removal ---------------------------------------------------------------------- */

static void E15_delete_reply_lost_counts_as_done(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    candidate_connect(&a, zk, 0, "a");
    candidate_connect(&b, zk, 1, "b");
    candidate_join(&a);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    candidate_join(&b);
    candidate_settled(&b);
    hook(zk, 0, WIRE_MULTI, "clean=1", 1, FAKE_DROP_REPLY);
    candidate_close_election(&a);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    EVENTUALLY(LEADS(&b));
    STAYS(ELECTED(&b) == 1, 50);
    candidate_finish(&a);
    candidate_finish(&b);
}

static void E16_leaving_while_suspended_ends_later(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    conclave_election_close(a.election);
    assert_false(LEADS(&a));
    EVENTUALLY(REVOKED(&a) == 1);
    assert_int_equal(conclave_election_close_wait(a.election, 20), CONCLAVE_ETIMEDOUT);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 1);
    fake_zk_link(zk, 0, FAKE_UP);
    candidate_close_election(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 0);

    a.closed = 0; /* the same, and the session ends instead */
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    candidate_close_election(&a);
    EVENTUALLY(fake_zk_ephemerals(zk) == 0);
    fake_zk_link(zk, 0, FAKE_UP);
    candidate_finish(&a);
}

static void E17_a_late_deletion_does_not_hit_the_new_node(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char first[256];
    char second[256];
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(fake_zk_exists(zk, LEADER_DIR "/current"));
    candidate_node(&a, first, sizeof first);
    hook(zk, 0, WIRE_MULTI, "clean=1", 1, FAKE_CUT_BEFORE);
    hook(zk, 0, WIRE_MULTI, "clean=1", 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_election_resign(a.election, true), 0);
    EVENTUALLY(ELECTED(&a) == 2);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    candidate_node(&a, second, sizeof second);
    assert_string_not_equal(first, second);
    STAYS(fake_zk_exists(zk, second) && LEADS(&a), 150);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 1);
    candidate_finish(&a);
}

/* --- refusals --------------------------------------------------------------------- */

static void refused(struct fake_zk *zk, int error)
{
    struct candidate a;
    struct fake_hook h = {
        .op = WIRE_CREATE, .path = "-n_", .nth = 1, .action = FAKE_ERROR, .error = error};
    make_parent(zk);
    fake_zk_hook(zk, &h);
    candidate_connect(&a, zk, 0, "a");
    candidate_join(&a);
    EVENTUALLY(CLOSED(&a) == 1);
    assert_int_equal(a.closed_why, error);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1);
    assert_int_equal(conclave_election_wait(a.election, 0, NULL), error);
    candidate_finish(&a);
}

static void E18_no_permission_ends_it_without_a_storm(void **state)
{
    refused(*state, CONCLAVE_NO_AUTH);
}

static void E19_quota_ends_it(void **state)
{
    refused(*state, CONCLAVE_QUOTA_EXCEEDED);
}

static void E19_bad_paths_are_refused_at_once(void **state)
{
    static const char *const bad[] = {"", "/", "a", "/a/", "/a//b", "/a/./b", "/a\nb"};
    struct candidate a;
    candidate_connect(&a, *state, 0, "a");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct conclave_election_options options = candidate_options("a");
        options.path = bad[i];
        assert_int_equal(conclave_election_open(a.recipes, &options, NULL, NULL, &a.election),
                         CONCLAVE_EINVAL);
    }
    struct conclave_election_options options = candidate_options("two\nlines");
    assert_int_equal(conclave_election_open(a.recipes, &options, NULL, NULL, &a.election),
                     CONCLAVE_EINVAL);
    a.election = NULL;
    candidate_finish(&a);
}

static void E19_nodes_stand_below_the_chroot(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char servers[128];
    fake_zk_create(zk, "/root", "", 0);
    (void)snprintf(servers, sizeof servers, "%s/root", fake_zk_address(zk, 0));
    candidate_connect_to(&a, zk, 0, "a", servers, usual_session_ms);
    candidate_join(&a);
    EVENTUALLY(fake_zk_exists(zk, "/root" LEADER_DIR "/current"));
    assert_int_equal(fake_zk_child_count(zk, "/root" ELECTION_PATH), 1);
    candidate_finish(&a);
}

static void E20_link_lost_while_leaving_leaves_no_contender(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct candidate b;
    candidate_connect(&a, zk, 0, "a");
    candidate_connect(&b, zk, 1, "b");
    candidate_join(&a);
    EVENTUALLY(LEADS(&a));
    candidate_join(&b);
    candidate_settled(&b);
    hook(zk, 1, WIRE_MULTI, NULL, 1, FAKE_CUT_BEFORE); /* b's own leave: it has no lease yet */
    candidate_close_election(&b);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_child_count(zk, ELECTION_PATH), 1);
    candidate_finish(&b);
    candidate_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E01_create_reply_lost_is_adopted),
        E_TEST(E02_lookup_syncs_with_a_lagging_server),
        E_TEST(E03_create_that_never_arrived_is_retried_once),
        E_TEST(E05_ghost_of_an_expired_session_is_not_adopted),
        E_TEST(E06_no_lead_before_the_node_of_the_last_session_is_gone),
        E_TEST(E07_of_two_nodes_with_my_guid_the_first_is_kept),
        E_TEST(E08_parents_are_made_as_containers_with_the_acl),
        E_TEST(E09_parent_reaped_before_the_create_is_made_again),
        E_TEST(E10_foreign_children_are_ignored),
        E_TEST(E11_place_is_by_sequence_though_the_guid_says_otherwise),
        E_TEST(E12_lead_goes_on_over_the_wrap_of_the_sequence),
        E_TEST(E13_equal_sequences_are_ordered_by_creation),
        E_TEST(E15_delete_reply_lost_counts_as_done),
        EXPIRY_TEST(E16_leaving_while_suspended_ends_later),
        E_TEST(E17_a_late_deletion_does_not_hit_the_new_node),
        E_TEST(E18_no_permission_ends_it_without_a_storm),
        E_TEST(E19_quota_ends_it),
        E_TEST(E19_bad_paths_are_refused_at_once),
        E_TEST(E19_nodes_stand_below_the_chroot),
        E_TEST(E20_link_lost_while_leaving_leaves_no_contender),
    };
    return RUN_TESTS(tests);
}
