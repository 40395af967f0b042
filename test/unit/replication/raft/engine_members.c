/* The engine and its members: changes, their place in an append, rollback, catching up, snapshots. */
#include "unit/replication/raft/cluster.inc"

static void test_encoding(void **state)
{
    struct configuration_member members[MEMBERS_MAX];
    struct buf b, again;
    size_t n;
    buf_init(&b, 0);
    buf_init(&again, 0);
    const struct configuration_member three[] = {
        {9, MEMBER_VOTER, "c"}, {2, MEMBER_OBSERVER, "a"}, {5, MEMBER_SPARE, "b"}};
    assert_int_equal(configuration_encode(three, 3, &b), 0);
    assert_int_equal(b.len % 8, 0);
    assert_int_equal(configuration_decode(buf_slice(&b), members, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(members[0].id, 2);
    assert_int_equal(members[2].role, MEMBER_VOTER);
    assert_string_equal(members[1].address, "b");
    assert_true(configuration_equal(members, n, three, 3));
    assert_int_equal(configuration_voters(members, n), 1);
    members[0].role = MEMBER_VOTER;
    assert_int_equal(configuration_differences(members, n, three, 3), 1);
    assert_int_equal(configuration_differences(members, 2, three, 3), 2);

    /* libraft reads the same and writes the same. */
    struct raft_buffer raw = {b.data, b.len}, out;
    struct raft_configuration conf;
    assert_int_equal(raft_configuration_decode(&raw, &conf), 0);
    assert_int_equal(raft_configuration_encode(&conf, &out), 0);
    assert_true(slice_equal(slice_make(out.base, out.len), buf_slice(&b)));
    raft_free(out.base);
    raft_configuration_close(&conf);

    /* Cut anywhere it is none, save for padding. */
    for (size_t len = 0; len < b.len - 7; len++) {
        uint8_t *cut = malloc(len + 1);
        memcpy(cut, b.data, len);
        assert_int_equal(configuration_decode(slice_make(cut, len), members, &n),
                         CONCLAVE_ECORRUPT);
        free(cut);
    }
    const struct configuration_member none[] = {{1, MEMBER_OBSERVER, "a"}, {2, MEMBER_SPARE, "b"}};
    const struct configuration_member twice[] = {{1, MEMBER_VOTER, "a"}, {1, MEMBER_VOTER, "b"}};
    const struct configuration_member same[] = {{1, MEMBER_VOTER, "a"}, {2, MEMBER_VOTER, "a"}};
    const struct configuration_member zero[] = {{0, MEMBER_VOTER, "a"}};
    const struct configuration_member nowhere[] = {{1, MEMBER_VOTER, ""}};
    assert_int_equal(configuration_encode(none, 2, &again), CONCLAVE_EINVAL);
    assert_int_equal(configuration_encode(twice, 2, &again), CONCLAVE_EINVAL);
    assert_int_equal(configuration_encode(same, 2, &again), CONCLAVE_EINVAL);
    assert_int_equal(configuration_encode(zero, 1, &again), CONCLAVE_EINVAL);
    assert_int_equal(configuration_encode(nowhere, 1, &again), CONCLAVE_EINVAL);
    assert_int_equal(configuration_encode(none, 0, &again), CONCLAVE_EINVAL);
    assert_int_equal(again.len, 0);
    buf_finish(&b);
    buf_finish(&again);
}

static void test_one_change_at_a_time(void **state)
{
    struct cluster *c = cluster_start("vvvo-");
    uint64_t leader = cluster_elect(c);
    assert_int_equal(change(c, leader, "vvv-v"), CONCLAVE_EINVAL); /* two differences */
    assert_int_equal(submit(c, leader, ENTRY_CONFIGURATION, slice_str("?")), CONCLAVE_EINVAL);
    assert_int_equal(change(c, leader, "vvvv-"), 0);
    assert_int_equal(change(c, leader, "vvvvo"), CONCLAVE_EBUSY); /* the other is not committed */
    cluster_run(c, 50);
    assert_int_equal(change(c, leader, "vvvvo"), 0);
    cluster_run(c, 300);
    for (size_t i = 1; i <= 5; i++) {
        assert_true(has_roles(c, i, "vvvvo"));
        assert_true(engine_is_voter(c->nodes[i].engine, 4));
        assert_false(engine_is_voter(c->nodes[i].engine, 5));
    }
    check_same(c);
    /* Four voters: two are no quorum. */
    isolate(c, leader % 5 + 1, true);
    isolate(c, (leader + 1) % 5 + 1, true);
    cluster_run(c, 1000);
    cluster_free(c);
}

/* Before an entry of its term is committed a leader may not change the members. */
static void test_no_change_before_the_barrier(void **state)
{
    struct cluster *c = cluster_start("vvvo");
    uint64_t leader = 0;
    for (size_t i = 1; i <= 3; i++) {
        c->nodes[i].disk_slow = true;
    }
    while ((leader = cluster_leader(c)) == 0) {
        cluster_run(c, 1);
    }
    assert_int_equal(change(c, leader, "vvvv"), CONCLAVE_EBUSY);
    for (size_t i = 1; i <= 3; i++) {
        disk_finish(c, i);
    }
    cluster_run(c, 30);
    assert_int_equal(change(c, leader, "vvvv"), 0);
    cluster_free(c);
}

static struct engine_message append_of(const struct cluster *c, uint64_t from, uint64_t to,
                                       uint64_t prev, uint64_t prev_term, uint64_t commit,
                                       uint32_t count)
{
    return (struct engine_message){
        .kind = ENGINE_APPEND,
        .peer = from,
        .term = engine_term(c->nodes[to].engine),
        .append = {prev, prev_term, commit, prev + 1, count},
    };
}

/* The fault of libraft 0.22.1: a configuration that is not the first of an append. What it does
 * wrong: the change counts as committed as soon as the first entry is, so a rollback comes too late
 * or ends in the wrong place. */
static void test_change_in_the_midst_of_an_append(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvvv");
    struct replica *node = &c->nodes[2];
    struct buf four, three;
    buf_init(&four, 0);
    buf_init(&three, 0);
    encode_roles("vvvo", &four);
    encode_roles("vvv-", &three);
    isolate(c, 2, true);
    struct engine *e = node->engine;
    const struct engine_entry entries[] = {
        {2, ENTRY_COMMAND, slice_str("a")},          /* 2 */
        {2, ENTRY_COMMAND, slice_str("b")},          /* 3 */
        {2, ENTRY_CONFIGURATION, buf_slice(&four)},  /* 4 */
        {2, ENTRY_COMMAND, slice_str("c")},          /* 5 */
        {2, ENTRY_CONFIGURATION, buf_slice(&three)}, /* 6 */
        {2, ENTRY_COMMAND, slice_str("d")},          /* 7 */
    };
    struct engine_message m = append_of(c, 1, 2, 1, 1, 4, 6);
    m.term = 2;
    assert_int_equal(engine_receive(e, c->now_ms, &m, entries, 6, &result), 0);
    assert_int_equal(result.first_index, 2);
    assert_int_equal(result.count, 6);
    assert_int_equal(result.truncated_from, 0);
    assert_true(result.vote_changed);
    assert_true(result.commit_moved);
    assert_int_equal(engine_commit_index(e), 4);
    assert_int_equal(engine_last_index(e), 7);
    assert_true(has_roles(c, 2, "vvv-"));
    assert_int_equal(engine_persisted(e, c->now_ms, 7, &result), 0);
    assert_int_equal(result.messages, 1);
    engine_message(e, 0, &m);
    assert_int_equal(m.append_result.last_index, 7);

    /* Another leader has nothing behind 5: the second change goes, the first stays. */
    const struct engine_entry other[] = {{3, ENTRY_COMMAND, slice_str("e")}};
    m = append_of(c, 3, 2, 5, 2, 5, 1);
    m.term = 3;
    assert_int_equal(engine_receive(e, c->now_ms, &m, other, 1, &result), 0);
    assert_int_equal(result.truncated_from, 6);
    assert_int_equal(result.first_index, 6);
    assert_int_equal(result.count, 1);
    assert_true(has_roles(c, 2, "vvvo"));

    /* And a change that is repeated in an overlapping append is taken once. */
    const struct engine_entry more[] = {
        {2, ENTRY_COMMAND, slice_str("c")},          /* 5 */
        {3, ENTRY_COMMAND, slice_str("e")},          /* 6 */
        {3, ENTRY_CONFIGURATION, buf_slice(&three)}, /* 7 */
        {3, ENTRY_COMMAND, slice_str("f")},          /* 8 */
    };
    m = append_of(c, 3, 2, 4, 2, 6, 4);
    assert_int_equal(engine_receive(e, c->now_ms, &m, more, 4, &result), 0);
    assert_int_equal(result.first_index, 7);
    assert_int_equal(result.count, 2);
    assert_true(has_roles(c, 2, "vvv-"));
    assert_int_equal(engine_receive(e, c->now_ms, &m, more, 4, &result), 0);
    assert_int_equal(result.count, 0);
    buf_finish(&four);
    buf_finish(&three);
    cluster_free(c);
}

/* The same among servers: changes between commands, while appends gather behind a slow link. */
static void test_changes_between_commands(void **state)
{
    static const char *const steps[] = {"vvvo-", "vvvv-", "vvvvo", "vvvvv", "vvvv-", "vvvo-"};
    struct cluster *c = cluster_start("vvv--");
    uint64_t leader = cluster_elect(c);
    uint64_t behind = leader % 3 + 1;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        isolate(c, behind, i % 2 == 0);
        submit_many(c, leader, 3);
        assert_int_equal(change(c, leader, steps[i]), 0);
        submit_many(c, leader, 3);
        cluster_run(c, 120);
    }
    cluster_run(c, 500);
    for (size_t i = 1; i <= 4; i++) {
        assert_true(has_roles(c, i, "vvvo-"));
        assert_int_equal(c->nodes[i].applied, c->committed);
    }
    /* And so they come back. */
    for (size_t i = 1; i <= 4; i++) {
        node_crash(c, i);
    }
    for (size_t i = 1; i <= 4; i++) {
        node_start(c, i);
        assert_true(has_roles(c, i, "vvvo-"));
    }
    cluster_elect(c);
    cluster_run(c, 300);
    cluster_free(c);
}

static void test_removed_leader_steps_down(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c);
    char roles[] = "vvv";
    roles[leader - 1] = '-';
    cluster_run(c, 100);
    assert_int_equal(change(c, leader, roles), 0);
    assert_true(engine_is_leader(c->nodes[leader].engine));
    cluster_run(c, 20);
    assert_false(engine_is_leader(c->nodes[leader].engine));
    uint64_t next = cluster_elect(c);
    assert_int_not_equal(next, leader);
    uint64_t term = engine_term(c->nodes[next].engine);
    cluster_run(c, 2000);
    assert_int_equal(cluster_leader(c), next);
    assert_int_equal(engine_term(c->nodes[next].engine), term);
    cluster_free(c);
}

/* A change that never got a majority is taken back with the entry. */
static void test_lost_change_is_rolled_back(void **state)
{
    struct cluster *c = cluster_start("vvvo");
    uint64_t old = cluster_elect(c);
    cluster_run(c, 100);
    isolate(c, old, true);
    submit_many(c, old, 2);
    assert_int_equal(change(c, old, "vvv-"), 0);
    assert_true(has_roles(c, old, "vvv-"));
    cluster_run(c, 800);
    uint64_t leader = cluster_elect(c);
    submit_many(c, leader, 1);
    isolate(c, old, false);
    cluster_run(c, 1000);
    for (size_t i = 1; i <= 4; i++) {
        assert_true(has_roles(c, i, "vvvo"));
    }
    check_same(c);
    cluster_free(c);
}

static void test_observer_catches_up_and_votes(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvv-");
    uint64_t leader = cluster_elect(c);
    struct engine *e = c->nodes[leader].engine;
    submit_many(c, leader, 200);
    cluster_run(c, 100);
    assert_int_equal(engine_catch_up(e, c->now_ms, 4, &result), CONCLAVE_EINVAL);
    assert_int_equal(engine_catch_up(e, c->now_ms, leader % 3 + 1, &result), CONCLAVE_EINVAL);
    assert_int_equal(change(c, leader, "vvvo"), 0);
    cluster_run(c, 1);
    assert_int_equal(engine_catch_up(e, c->now_ms, 4, &result), 0);
    process(c, &c->nodes[leader], &result, NULL, SLICE_NULL, 0);
    assert_int_equal(engine_catch_up_status(e, 4), CATCH_UP_RUNNING);
    assert_int_equal(engine_catch_up(e, c->now_ms, 4, &result), CONCLAVE_EBUSY);
    cluster_run(c, 400);
    assert_int_equal(engine_catch_up_status(e, 4), CATCH_UP_FINISHED);
    /* Asked again while nothing moves: at once. */
    assert_int_equal(engine_catch_up(e, c->now_ms, 4, &result), 0);
    assert_int_equal(engine_catch_up_status(e, 4), CATCH_UP_FINISHED);
    assert_int_equal(change(c, leader, "vvvv"), 0);
    cluster_run(c, 100);
    assert_true(engine_is_voter(c->nodes[4].engine, 4));
    check_same(c);
    assert_int_equal(engine_catch_up(c->nodes[4].engine, c->now_ms, 1, &result), CONCLAVE_EBUSY);
    cluster_free(c);
}

static void test_unreachable_observer_is_given_up(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvvo");
    uint64_t leader = cluster_elect(c);
    struct engine *e = c->nodes[leader].engine;
    isolate(c, 4, true);
    submit_many(c, leader, 5);
    assert_int_equal(engine_catch_up(e, c->now_ms, 4, &result), 0);
    process(c, &c->nodes[leader], &result, NULL, SLICE_NULL, 0);
    cluster_run(c, 6000);
    assert_int_equal(engine_catch_up_status(e, 4), CATCH_UP_ABORTED);
    isolate(c, 4, false);
    cluster_run(c, 500);
    assert_int_equal(change(c, leader, "vvvv"), 0);
    cluster_free(c);
}

static void test_snapshot_is_installed(void **state)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c), behind = leader % 3 + 1;
    cluster_run(c, 100);
    isolate(c, behind, true);
    submit_many(c, leader, 30);
    cluster_run(c, 100);
    submit_many(c, leader, 30);
    cluster_run(c, 400);
    snapshot(c, leader, 5);
    submit_many(c, leader, 3);
    isolate(c, behind, false);
    cluster_run(c, 1000);
    assert_int_equal(c->nodes[behind].installs, 1);
    check_same(c);
    assert_true(has_roles(c, behind, "vvv"));
    /* It can lead with what it has. */
    node_crash(c, behind);
    node_start(c, behind);
    cluster_run(c, 300);
    check_same(c);
    cluster_free(c);
}

/* Installing takes its time: signs of life are answered, entries wait, no vote, no candidacy. */
static void test_slow_install(void **state)
{
    struct engine_result result;
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c), behind = leader % 3 + 1;
    struct replica *node = &c->nodes[behind];
    cluster_run(c, 100);
    isolate(c, behind, true);
    submit_many(c, leader, 60);
    cluster_run(c, 100);
    submit_many(c, leader, 60);
    cluster_run(c, 400);
    snapshot(c, leader, 2);
    isolate(c, behind, false);
    node->hold_install = true;
    uint64_t commit = engine_commit_index(node->engine);
    cluster_run(c, 700);
    assert_int_equal(engine_commit_index(node->engine), commit);
    assert_int_equal(engine_leader(node->engine), leader);
    assert_false(engine_is_candidate(node->engine));
    submit_many(c, leader, 10);
    cluster_run(c, 300);
    assert_int_equal(engine_commit_index(node->engine), commit);
    /* A write from before ends now; and the snapshot it was not asked for is refused. */
    assert_int_equal(engine_persisted(node->engine, c->now_ms, commit, &result), 0);
    struct snapshot_meta wrong = c->nodes[leader].snapshot;
    wrong.index--;
    assert_int_equal(engine_installed(node->engine, c->now_ms, &wrong, &result), CONCLAVE_EINVAL);
    struct wire_item item = {.from = leader, .m = {.kind = ENGINE_INSTALL}};
    item.m.install.index = c->nodes[leader].snapshot.index;
    node->hold_install = false;
    install(c, node, &item);
    cluster_run(c, 500);
    check_same(c);
    assert_int_equal(engine_installed(node->engine, c->now_ms, &c->nodes[leader].snapshot, &result),
                     CONCLAVE_EINVAL);
    cluster_free(c);
}

static uint64_t deaf; /* what this member should install is lost */

static bool lose_installs(struct cluster *c, const struct wire_item *item)
{
    return item->m.kind == ENGINE_INSTALL && item->m.peer == deaf;
}

static bool lose_answers(struct cluster *c, const struct wire_item *item)
{
    return item->m.kind == ENGINE_APPEND_RESULT && item->from == deaf;
}

/* A leader that sends a snapshot, and the member that needs it. */
static struct cluster *sending(uint64_t *ret_leader, uint64_t *ret_behind)
{
    struct cluster *c = cluster_start("vvv");
    uint64_t leader = cluster_elect(c), behind = leader % 3 + 1;
    cluster_run(c, 100);
    isolate(c, behind, true);
    submit_many(c, leader, 60);
    cluster_run(c, 400);
    snapshot(c, leader, 2);
    isolate(c, behind, false);
    deaf = *ret_behind = behind;
    *ret_leader = leader;
    return c;
}

/* The sending came to nothing, and meanwhile the leader has made the next snapshot. The member is offered that one soon,
 * not when the sending of the other one has timed out (5 s here). */
static void test_a_lost_snapshot_is_followed_by_the_next(void **state)
{
    uint64_t leader, behind;
    struct cluster *c = sending(&leader, &behind);
    c->filter = lose_installs;
    cluster_run(c, 200);
    submit_many(c, leader, 10);
    cluster_run(c, 10);
    snapshot(c, leader, 2);
    cluster_run(c, 50);
    c->filter = NULL;
    cluster_run(c, 150);
    assert_int_equal(c->nodes[behind].installs, 1);
    check_same(c);
    cluster_free(c);
}

/* The member has the snapshot, but its word did not get through. There is a newer one, and the leader has the entries
 * in between: it sends those. */
static void test_a_snapshot_that_is_there_is_followed_by_entries(void **state)
{
    uint64_t leader, behind;
    struct cluster *c = sending(&leader, &behind);
    while (c->nodes[behind].installs == 0) {
        cluster_run(c, 1);
    }
    c->filter = lose_answers;
    submit_many(c, leader, 10);
    cluster_run(c, 10);
    snapshot(c, leader, 20);
    c->filter = NULL;
    cluster_run(c, 150);
    check_same(c);
    assert_int_equal(c->nodes[behind].installs, 1);
    cluster_free(c);
}

/* A member was made a voter while it heard nothing; then the majority needs it. With and without a
 * leader in whom it still believes when it is asked. */
static void test_who_does_not_know_that_it_votes(void **state)
{
    for (int restart = 0; restart < 2; restart++) {
        struct cluster *c = cluster_start("vov");
        uint64_t leader = cluster_elect(c), other = 4 - leader;
        cluster_run(c, 100);
        isolate(c, 2, true);
        assert_int_equal(change(c, leader, "vvv"), 0);
        cluster_run(c, 100);
        assert_int_equal(change(c, leader, leader == 1 ? "vvo" : "ovv"), 0);
        cluster_run(c, 50);
        assert_true(has_roles(c, 2, "vov"));
        node_crash(c, leader);
        node_start(c, leader);
        if (restart) {
            node_crash(c, 2);
            node_start(c, 2);
        }
        assert_true(has_roles(c, other, leader == 1 ? "vvo" : "ovv"));
        isolate(c, 2, false);
        cluster_run(c, 2000);
        assert_int_equal(cluster_leader(c), leader);
        assert_true(has_roles(c, 2, leader == 1 ? "vvo" : "ovv"));
        check_same(c);
        cluster_free(c);
    }
}

/* Of four voters one is to lose its vote. The entry reached only that one before the leader died, so the other two are behind and no
 * majority of four: it stands itself, and they elect it. Then the entry is committed and one of the others leads. */
static void test_a_demoted_voter_stands_until_it_is_committed(void **state)
{
    for (int odd = 0; odd < 2; odd++) {
        struct cluster *c = cluster_start(odd ? "vvvvv" : "vvvv");
        uint64_t leader = cluster_elect(c), demoted = leader % c->n + 1;
        char roles[6] = "vvvvv";
        cluster_run(c, 100);
        for (uint64_t i = 1; i <= c->n; i++) {
            c->cut[leader][i] = i != demoted;
        }
        roles[c->n] = '\0';
        roles[demoted - 1] = 'o';
        assert_int_equal(change(c, leader, roles), 0);
        cluster_run(c, 20);
        assert_true(has_roles(c, demoted, roles));
        node_crash(c, leader);
        cluster_run(c, 2000);
        uint64_t next = cluster_elect(c);
        assert_int_not_equal(next, leader);
        submit_many(c, next, 3);
        cluster_run(c, 300);
        /* Of five, the others elect one of themselves, and what only the demoted one has is lost. */
        assert_true(next != demoted);
        assert_true(has_roles(c, next, odd ? "vvvvv" : roles));
        memset(c->cut, 0, sizeof c->cut);
        node_start(c, leader);
        cluster_run(c, 2000);
        check_same(c);
        assert_true(has_roles(c, leader, odd ? "vvvvv" : roles));
        assert_true(has_roles(c, demoted, odd ? "vvvvv" : roles));
        cluster_free(c);
    }
}

/* A member without a vote in its log does not help to unseat a leader that it hears. */
static void test_observer_stays_with_its_leader(void **state)
{
    struct engine_result result;
    struct engine_message answer;
    struct cluster *c = cluster_start("vov");
    uint64_t leader = cluster_elect(c), other = 4 - leader;
    cluster_run(c, 100);
    struct engine *e = c->nodes[2].engine;
    uint64_t term = engine_term(e);
    struct engine_message vote = {.kind = ENGINE_VOTE, .peer = other, .term = term + 1};
    vote.vote.candidate = other;
    vote.vote.last_index = engine_last_index(e);
    vote.vote.last_term = term;
    for (int silent = 0; silent < 2; silent++) {
        if (silent) {
            isolate(c, 2, true);
            cluster_run(c, 2000);
        }
        assert_int_equal(engine_receive(e, c->now_ms, &vote, NULL, 0, &result), 0);
        assert_int_equal(result.messages, 1);
        assert_int_equal(result.vote_changed, silent);
        engine_message(e, 0, &answer);
        assert_int_equal(answer.vote_result.granted, silent);
    }
    assert_false(engine_is_voter(e, 2));
    cluster_free(c);
}

/* The leader makes another the only voter, and is cut off before it knows: two leaders, but not of
 * one term. */
static void test_new_sole_voter_takes_a_new_term(void **state)
{
    for (int restart = 0; restart < 2; restart++) {
        struct cluster *c = cluster_start("vv");
        uint64_t old = cluster_elect(c), next = 3 - old;
        cluster_run(c, 100);
        assert_int_equal(change(c, old, old == 1 ? "ov" : "vo"), 0);
        cluster_run(c, 2); /* there, but the answer is not back */
        assert_true(has_roles(c, next, old == 1 ? "ov" : "vo"));
        isolate(c, old, true);
        assert_true(engine_is_leader(c->nodes[old].engine));
        if (restart) {
            node_crash(c, next);
            node_start(c, next);
        }
        while (!engine_is_leader(c->nodes[next].engine)) {
            cluster_run(c, 1);
        }
        assert_true(engine_term(c->nodes[next].engine) > engine_term(c->nodes[old].engine));
        submit_many(c, next, 5);
        cluster_run(c, 500);
        isolate(c, old, false);
        cluster_run(c, 500);
        check_same(c);
        cluster_free(c);
    }
}

/* An alone voter with an observer: its entries are on its own disk before they leave. */
static void test_sole_voter_waits_for_its_disk(void **state)
{
    struct cluster *c = cluster_start("vo");
    struct engine *e = c->nodes[1].engine;
    assert_true(engine_is_leader(e));
    assert_true(engine_appends_wait(e));
    submit_many(c, 1, 10);
    cluster_run(c, 100);
    check_same(c);
    assert_int_equal(change(c, 1, "vv"), 0);
    assert_true(engine_appends_wait(e)); /* until that is committed */
    cluster_run(c, 100);
    assert_false(engine_appends_wait(e));
    assert_int_equal(change(c, 1, "vo"), 0);
    assert_true(engine_appends_wait(e));
    cluster_run(c, 100);
    check_same(c);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_one_change_at_a_time),
        cmocka_unit_test(test_no_change_before_the_barrier),
        cmocka_unit_test(test_change_in_the_midst_of_an_append),
        cmocka_unit_test(test_changes_between_commands),
        cmocka_unit_test(test_removed_leader_steps_down),
        cmocka_unit_test(test_lost_change_is_rolled_back),
        cmocka_unit_test(test_observer_catches_up_and_votes),
        cmocka_unit_test(test_unreachable_observer_is_given_up),
        cmocka_unit_test(test_who_does_not_know_that_it_votes),
        cmocka_unit_test(test_a_demoted_voter_stands_until_it_is_committed),
        cmocka_unit_test(test_observer_stays_with_its_leader),
        cmocka_unit_test(test_snapshot_is_installed),
        cmocka_unit_test(test_slow_install),
        cmocka_unit_test(test_a_lost_snapshot_is_followed_by_the_next),
        cmocka_unit_test(test_a_snapshot_that_is_there_is_followed_by_entries),
        cmocka_unit_test(test_new_sole_voter_takes_a_new_term),
        cmocka_unit_test(test_sole_voter_waits_for_its_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
