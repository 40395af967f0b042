/* Hand-over of elections and locks to a named contender: E197 to E200, and a fault at every request of the operator, the
 * leader and the one between. */
#include "support/locker.h"

#include <conclave/hand_over.h>

enum { MANY = 4, OPERATOR = 3 };

struct line {
    struct fake_zk *zk;
    struct candidate op;
    struct candidate c[MANY];
    struct candidate *all[MANY];
    size_t count;
    struct conclave_hand_over result;
    int error;
    int64_t limit_ms;
    bool expired; /* the session of a leader ended by a word, before its lease: terms may overlap */
    const char *to;
    pthread_t thread;
};

static const char *const names[MANY] = {"a", "b", "c", "d"};

/* The first leads; the third and those behind it share a client. */
static void line_begin(struct line *l, struct fake_zk *zk, size_t count)
{
    memset(l, 0, sizeof *l);
    l->zk = zk;
    l->count = count;
    l->limit_ms = PATIENCE_MS;
    l->result = (struct conclave_hand_over)CONCLAVE_HAND_OVER_INIT;
    candidate_connect(&l->op, zk, OPERATOR, "op");
    for (size_t i = 0; i < count; i++) {
        if (i < 3) {
            candidate_connect(&l->c[i], zk, (int)i, names[i]);
        } else {
            candidate_share(&l->c[i], &l->c[2], names[i]);
        }
        candidate_join(&l->c[i]);
        candidate_settled(&l->c[i]);
        l->all[i] = &l->c[i];
    }
    EVENTUALLY(LEADS(&l->c[0]));
}

static bool request_is_there(struct line *l, const char *path)
{
    char name[256];
    bool there = false;
    for (size_t i = 0; fake_zk_child(l->zk, path, i, name); i++) {
        there = there || strncmp(name, "hand-over-", 10) == 0;
    }
    return there;
}

static void line_end(struct line *l)
{
    EVENTUALLY(!request_is_there(l, ELECTION_PATH));
    for (size_t i = l->count; i-- > 0;) {
        candidate_close_election(&l->c[i]);
    }
    check_history(l->all, l->count, !l->expired);
    for (size_t i = l->count; i-- > 0;) {
        candidate_finish(&l->c[i]);
    }
    assert_int_equal(fake_zk_ephemerals(l->zk), 0);
    candidate_finish(&l->op);
}

static void hand_over(struct line *l, const char *to)
{
    l->error =
        conclave_election_hand_over(l->op.recipes, ELECTION_PATH, to, l->limit_ms, &l->result);
}

static void *hand_over_thread(void *arg)
{
    struct line *l = arg;
    hand_over(l, l->to);
    return NULL;
}

static void hand_over_begin(struct line *l, const char *to)
{
    l->to = to;
    assert_int_equal(pthread_create(&l->thread, NULL, hand_over_thread, l), 0);
}

static void hand_over_end(struct line *l)
{
    assert_int_equal(pthread_join(l->thread, NULL), 0);
}

/* The ids in their order; '?' is any. */
static bool order_is(struct line *l, const char *order)
{
    struct conclave_participant **p = NULL;
    size_t count = 0;
    int error =
        conclave_election_participants(l->op.recipes, ELECTION_PATH, PATIENCE_MS, &p, &count);
    bool same = error == 0 && strlen(order) == count;
    for (size_t i = 0; same && i < count; i++) {
        same = order[i] == '?' || p[i]->id[0] == order[i];
    }
    conclave_participants_free(p, count);
    return same;
}

static void E197_the_named_candidate_leads_and_no_other_in_between(void **state)
{
    struct line l;
    line_begin(&l, *state, MANY);
    int64_t token = conclave_election_token(l.c[0].election).czxid;
    hand_over(&l, "d");
    assert_int_equal(l.error, 0);
    assert_int_equal(l.result.outcome, CONCLAVE_HAND_OVER_DONE);
    assert_string_equal(l.result.active, "d");
    EVENTUALLY(LEADS(&l.c[3]));
    assert_int_equal(l.result.token.czxid, conclave_election_token(l.c[3].election).czxid);
    assert_true(l.result.token.czxid > token);
    assert_int_equal(candidate_term(&l.c[0], 0).why, CONCLAVE_ECANCELED);
    assert_int_equal(ELECTED(&l.c[1]) + ELECTED(&l.c[2]), 0);
    EVENTUALLY(order_is(&l, "d???")); /* those that were passed wait again */
    EVENTUALLY(candidate_has_node(&l.c[0]));
    hand_over(&l, "d"); /* it leads */
    assert_int_equal(l.error, 0);
    char node[96];
    candidate_node(&l.c[0], node, sizeof node);
    hand_over(&l, strrchr(node, '/') + 1);
    assert_int_equal(l.error, 0);
    assert_string_equal(l.result.active, "a");
    EVENTUALLY(order_is(&l, "a???") && LEADS(&l.c[0]));
    assert_int_equal(ELECTED(&l.c[1]) + ELECTED(&l.c[2]), 0);
    line_end(&l);
}

/* Each of three in turn, often: never two lead, and tokens grow. */
static void E197_again_and_again(void **state)
{
    struct line l;
    line_begin(&l, *state, 3);
    for (int turn = 0; turn < 12; turn++) {
        int next = turn % 3 == 0 ? 2 : turn % 3 == 1 ? 1 : 0;
        hand_over(&l, names[next]);
        assert_int_equal(l.error, 0);
        assert_string_equal(l.result.active, names[next]);
        EVENTUALLY(LEADS(&l.c[next]));
    }
    line_end(&l);
}

static void E197_a_leader_that_does_not_queue_again_ends(void **state)
{
    struct line l;
    line_begin(&l, *state, 3);
    hand_over(&l, "b");
    EVENTUALLY(order_is(&l, "bca"));
    candidate_close_election(&l.c[1]);
    EVENTUALLY(LEADS(&l.c[2]));
    struct conclave_election_options options = candidate_options("b");
    options.requeue = false;
    candidate_join_with(&l.c[1], &options);
    l.c[1].closed = 0;
    candidate_settled(&l.c[1]);
    EVENTUALLY(order_is(&l, "cab"));
    hand_over(&l, "b"); /* a waits and is passed */
    assert_int_equal(l.error, 0);
    EVENTUALLY(LEADS(&l.c[1]));
    hand_over(&l, "a");
    assert_int_equal(l.error, 0);
    EVENTUALLY(CLOSED(&l.c[1]) == 1);
    assert_int_equal(l.c[1].closed_why, CONCLAVE_ECANCELED);
    line_end(&l);
}

static void refused_as(struct line *l, const char *to, enum conclave_hand_over_outcome outcome)
{
    hand_over(l, to);
    assert_int_equal(l->error, CONCLAVE_ECANCELED);
    assert_int_equal(l->result.outcome, outcome);
}

static void E198_what_cannot_take_over_is_refused_and_the_leader_goes_on(void **state)
{
    struct line l;
    line_begin(&l, *state, 3);
    refused_as(&l, "nobody", CONCLAVE_HAND_OVER_NO_MEMBER);
    assert_string_equal(l.result.active, "a");
    candidate_share(&l.c[3], &l.c[2], "b");
    candidate_join(&l.c[3]);
    candidate_settled(&l.c[3]);
    refused_as(&l, "b", CONCLAVE_HAND_OVER_AMBIGUOUS);
    assert_string_equal(conclave_hand_over_outcome_name(l.result.outcome), "AMBIGUOUS");
    candidate_finish(&l.c[3]);
    assert_int_equal(conclave_election_hand_over(l.op.recipes, "bad", "b", 0, NULL),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_election_hand_over(l.op.recipes, ELECTION_PATH, "", 0, NULL),
                     CONCLAVE_EINVAL);
    assert_int_equal(REVOKED(&l.c[0]), 0);
    candidate_close_election(&l.c[0]);
    candidate_close_election(&l.c[1]);
    candidate_close_election(&l.c[2]);
    refused_as(&l, "a", CONCLAVE_HAND_OVER_NOBODY_ACTIVE);
    assert_string_equal(l.result.active, "");
    line_end(&l);
}

static void E198_clients_of_other_libraries_are_refused(void **state)
{
    static const enum conclave_naming namings[] = {CONCLAVE_NAMING_CURATOR_LATCH,
                                                   CONCLAVE_NAMING_CURATOR_LOCK,
                                                   CONCLAVE_NAMING_KAZOO, CONCLAVE_NAMING_FIXED};
    for (size_t n = 0; n < sizeof namings / sizeof namings[0]; n++) {
        struct line l;
        fake_zk_reset(*state);
        line_begin(&l, *state, 1);
        candidate_close_election(&l.c[0]);
        for (int i = 0; i < 2; i++) {
            struct conclave_election_options options = candidate_options(names[i]);
            options.naming = namings[n];
            if (namings[n] == CONCLAVE_NAMING_FIXED && i == 0) {
                EVENTUALLY(fake_zk_child_count(l.zk, ELECTION_PATH) == 0);
                fake_zk_delete(l.zk, ELECTION_PATH);
            }
            l.c[i].closed = 0;
            if (i == 1) {
                candidate_connect(&l.c[1], l.zk, 1, "b");
            }
            candidate_join_with(&l.c[i], &options);
            EVENTUALLY(LEADS(&l.c[0]));
        }
        if (namings[n] != CONCLAVE_NAMING_FIXED) {
            candidate_settled(&l.c[1]);
        }
        refused_as(&l, "b", CONCLAVE_HAND_OVER_FOREIGN);
        assert_true(LEADS(&l.c[0]));
        candidate_finish(&l.c[1]);
        line_end(&l);
    }
}

/* Its link is down, and its session lives: nobody else leads, and nothing is left of the request. */
static void E199_a_leader_that_does_not_answer_goes_on(void **state)
{
    struct line l;
    line_begin(&l, *state, 3);
    fake_zk_link(l.zk, 0, FAKE_SILENT);
    l.limit_ms = 700;
    refused_as(&l, "c", CONCLAVE_HAND_OVER_LATE);
    assert_string_equal(l.result.active, "a");
    EVENTUALLY(!request_is_there(&l, ELECTION_PATH));
    fake_zk_link(l.zk, 0, FAKE_UP);
    candidate_settled(&l.c[0]);
    STAYS(!LEADS(&l.c[1]) && !LEADS(&l.c[2]), 100);
    l.limit_ms = PATIENCE_MS;
    hand_over(&l, "c");
    assert_int_equal(l.error, 0);
    line_end(&l);
}

static void E199_the_leader_dies_meanwhile(void **state)
{
    struct line l;
    line_begin(&l, *state, 3);
    fake_zk_link(l.zk, 0, FAKE_SILENT);
    hand_over_begin(&l, "c");
    EVENTUALLY(request_is_there(&l, ELECTION_PATH));
    l.expired = true;
    fake_zk_expire(l.zk, candidate_session(&l.c[0]));
    hand_over_end(&l);
    assert_int_equal(l.error, 0);
    EVENTUALLY(LEADS(&l.c[2]));
    assert_int_equal(ELECTED(&l.c[1]), 0); /* it was next */
    fake_zk_link(l.zk, 0, FAKE_UP);
    EVENTUALLY(order_is(&l, "cba") || order_is(&l, "cab"));
    line_end(&l);
}

/* The one that was named goes while the leader stops: the next in line leads. */
static void E199_the_named_one_dies_meanwhile(void **state)
{
    struct line l;
    line_begin(&l, *state, 3);
    l.c[0].revoked_ms = 300;
    hand_over_begin(&l, "c");
    EVENTUALLY(REVOKED(&l.c[0]) == 1);
    fake_zk_link(l.zk, 2, FAKE_REFUSE);
    fake_zk_expire(l.zk, candidate_session(&l.c[2]));
    hand_over_end(&l);
    assert_int_equal(l.error, CONCLAVE_ECANCELED);
    assert_int_equal(l.result.outcome, CONCLAVE_HAND_OVER_NO_MEMBER);
    EVENTUALLY(LEADS(&l.c[1]));
    EVENTUALLY(order_is(&l, "ba"));
    fake_zk_link(l.zk, 2, FAKE_UP);
    EVENTUALLY(order_is(&l, "bac"));
    line_end(&l);
}

static void E199_the_operator_dies_meanwhile(void **state)
{
    struct line l;
    line_begin(&l, *state, 3);
    fake_zk_link(l.zk, 0, FAKE_SILENT);
    hand_over_begin(&l, "c");
    EVENTUALLY(request_is_there(&l, ELECTION_PATH));
    fake_zk_expire(l.zk, candidate_session(&l.op));
    hand_over_end(&l);
    assert_int_not_equal(l.error, 0);
    fake_zk_link(l.zk, 0, FAKE_UP);
    candidate_settled(&l.c[0]);
    EVENTUALLY(LEADS(&l.c[0]) || LEADS(&l.c[2])); /* it may have seen the request */
    line_end(&l);
}

static void E200_of_two_operators_one_succeeds(void **state)
{
    struct line l;
    struct line other;
    line_begin(&l, *state, 3);
    fake_zk_link(l.zk, 0, FAKE_SILENT);
    hand_over_begin(&l, "c");
    EVENTUALLY(request_is_there(&l, ELECTION_PATH));
    other = l;
    hand_over(&other, "b");
    assert_int_equal(other.error, CONCLAVE_EBUSY);
    fake_zk_link(l.zk, 0, FAKE_UP);
    hand_over_end(&l);
    assert_int_equal(l.error, 0);
    EVENTUALLY(LEADS(&l.c[2]));
    line_end(&l);
}

/* Both at the same moment, many times: whatever they are told, one request at most is there, and one leads. */
static void E200_two_operators_at_once(void **state)
{
    struct line l;
    struct line other;
    int both = 0;
    line_begin(&l, *state, 3);
    for (int turn = 0; turn < 10; turn++) {
        other = l;
        hand_over_begin(&l, names[turn % 3]);
        hand_over(&other, names[(turn + 1) % 3]);
        hand_over_end(&l);
        assert_true(l.error == 0 || l.error == CONCLAVE_EBUSY || l.error == CONCLAVE_ECANCELED);
        both += (l.error == 0) + (other.error == 0);
        assert_false(request_is_there(&l, ELECTION_PATH));
        EVENTUALLY(LEADS(&l.c[0]) + LEADS(&l.c[1]) + LEADS(&l.c[2]) == 1);
        for (int i = 0; i < 3; i++) {
            candidate_settled(&l.c[i]);
        }
    }
    assert_true(both >= 10);
    line_end(&l);
}

static void E200_an_answer_that_is_lost_or_late_leaves_nothing(void **state)
{
    struct line l;
    line_begin(&l, *state, 3);
    hook(l.zk, OPERATOR, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
    hand_over(&l, "c");
    assert_int_equal(l.error, 0);
    EVENTUALLY(LEADS(&l.c[2]));
    fake_zk_hold(l.zk, OPERATOR, WIRE_MULTI);
    l.limit_ms = 500;
    hand_over(&l, "a");
    assert_int_not_equal(l.error, 0);
    fake_zk_release(l.zk, OPERATOR);
    requests_settled(l.zk, OPERATOR);
    EVENTUALLY(!request_is_there(&l, ELECTION_PATH));
    line_end(&l);
}

/* --- locks ---------------------------------------------------------------------------- */

static void E197_a_lock_is_handed_over_by_its_owner(void **state)
{
    struct locker l[MANY];
    struct conclave_hand_over result = CONCLAVE_HAND_OVER_INIT;
    for (int i = 0; i < 3; i++) {
        locker_open(&l[i], *state, i, names[i]);
        locker_ask(&l[i], CONCLAVE_FOREVER);
        locker_settled(&l[i]);
    }
    EVENTUALLY(ANSWER(&l[0]) == 0);
    locker_connect(&l[3], *state, OPERATOR, "op");
    /* it is asked, and does not release */
    assert_int_equal(conclave_lock_hand_over(l[3].recipes, LOCK_PATH, "c", 500, &result),
                     CONCLAVE_ECANCELED);
    assert_int_equal(result.outcome, CONCLAVE_HAND_OVER_LATE);
    assert_string_equal(result.active, "a");
    EVENTUALLY(locker_get(&l[0], &l[0].revokes) == 1);
    assert_true(HELD(&l[0]));
    assert_int_equal(fake_zk_child_count(*state, LOCK_PATH), 3);
    locker_let_go(&l[0]);
    EVENTUALLY(ANSWER(&l[1]) == 0);
    locker_ask(&l[0], CONCLAVE_FOREVER);
    locker_settled(&l[0]);
    assert_int_equal(conclave_lock_hand_over(l[3].recipes, LOCK_PATH, "b", 500, &result), 0);
    assert_int_equal(locker_get(&l[1], &l[1].revokes), 0);
    locker_let_go(&l[1]);
    EVENTUALLY(ANSWER(&l[2]) == 0);
    for (int i = 2; i >= 0; i--) {
        locker_finish(&l[i]);
    }
    locker_finish(&l[3]);
}

struct lock_order {
    struct conclave_recipes *recipes;
    struct conclave_hand_over result;
    int error;
};

static void *lock_hand_over_thread(void *arg)
{
    struct lock_order *o = arg;
    o->error = conclave_lock_hand_over(o->recipes, LOCK_PATH, "c", PATIENCE_MS, &o->result);
    return NULL;
}

static void lock_line(void **state, struct locker *l, const enum conclave_lock_kind *kinds,
                      int holders)
{
    for (int i = 0; i < 3; i++) {
        locker_open_kind(&l[i], *state, i, names[i], kinds[i]);
        locker_ask(&l[i], CONCLAVE_FOREVER);
        locker_settled(&l[i]);
        EVENTUALLY(i >= holders || ANSWER(&l[i]) == 0);
    }
    locker_connect(&l[3], *state, OPERATOR, "op");
}

/* One waits between: its acquire goes on, and is granted after the named one's. */
static void E197_a_named_contender_of_a_lock_comes_before_another(void **state)
{
    static const enum conclave_lock_kind kinds[][3] = {
        {CONCLAVE_LOCK_EXCLUSIVE, CONCLAVE_LOCK_EXCLUSIVE, CONCLAVE_LOCK_EXCLUSIVE},
        {CONCLAVE_LOCK_READ, CONCLAVE_LOCK_WRITE, CONCLAVE_LOCK_READ},
        {CONCLAVE_LOCK_READ, CONCLAVE_LOCK_READ, CONCLAVE_LOCK_WRITE},
    };
    for (int k = 0; k < 3; k++) {
        struct locker l[MANY];
        struct lock_order order = {.result = CONCLAVE_HAND_OVER_INIT};
        pthread_t thread;
        int holders = k == 2 ? 2 : 1;
        fake_zk_reset(*state);
        lock_line(state, l, kinds[k], holders);
        order.recipes = l[3].recipes;
        assert_int_equal(pthread_create(&thread, NULL, lock_hand_over_thread, &order), 0);
        for (int i = 0; i < holders; i++) {
            EVENTUALLY(locker_get(&l[i], &l[i].revokes) == 1);
            locker_let_go(&l[i]);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(order.error, 0);
        assert_string_equal(order.result.active, "c");
        EVENTUALLY(ANSWER(&l[2]) == 0);
        assert_int_equal(order.result.token.czxid, l[2].token);
        if (holders == 1) {
            assert_int_equal(ANSWER(&l[1]), UNTOLD);
            locker_let_go(&l[2]);
            EVENTUALLY(ANSWER(&l[1]) == 0);
            assert_true(l[1].token > l[2].token);
        }
        for (int i = 3; i >= 0; i--) {
            locker_finish(&l[i]);
        }
        assert_int_equal(fake_zk_ephemerals(*state), 0);
    }
}

/* --- a fault at every request --------------------------------------------------------------- */

static void E199_a_fault_at_every_request_of_a_hand_over(void **state)
{
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE,
                                               FAKE_EXPIRE_AFTER};
    static const int endpoints[] = {0, 1, OPERATOR};
    int met = 0;
    for (size_t e = 0; e < sizeof endpoints / sizeof endpoints[0]; e++) {
        for (size_t a = 0; a < sizeof actions / sizeof actions[0]; a++) {
            for (int nth = 1; nth <= 8; nth++) {
                struct line l;
                fake_zk_reset(*state);
                line_begin(&l, *state, 3);
                l.limit_ms = 3000;
                l.expired = actions[a] == FAKE_EXPIRE_BEFORE || actions[a] == FAKE_EXPIRE_AFTER;
                hook(l.zk, endpoints[e], FAKE_ANY_OP, NULL, nth, actions[a]);
                hand_over(&l, "c");
                met += fake_zk_hooks_left(l.zk) == 0;
                fake_zk_hooks_clear(l.zk);
                EVENTUALLY(LEADS(&l.c[0]) + LEADS(&l.c[1]) + LEADS(&l.c[2]) == 1);
                if (l.error == 0) {
                    assert_string_equal(l.result.active, "c");
                }
                line_end(&l);
            }
        }
    }
    assert_true(met >= 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E197_the_named_candidate_leads_and_no_other_in_between),
        E_TEST(E197_again_and_again),
        E_TEST(E197_a_leader_that_does_not_queue_again_ends),
        E_TEST(E197_a_lock_is_handed_over_by_its_owner),
        E_TEST(E197_a_named_contender_of_a_lock_comes_before_another),
        E_TEST(E198_what_cannot_take_over_is_refused_and_the_leader_goes_on),
        E_TEST(E198_clients_of_other_libraries_are_refused),
        E_TEST(E199_a_leader_that_does_not_answer_goes_on),
        E_TEST(E199_the_leader_dies_meanwhile),
        E_TEST(E199_the_named_one_dies_meanwhile),
        E_TEST(E199_the_operator_dies_meanwhile),
        E_TEST(E199_a_fault_at_every_request_of_a_hand_over),
        E_TEST(E200_of_two_operators_one_succeeds),
        E_TEST(E200_two_operators_at_once),
        E_TEST(E200_an_answer_that_is_lost_or_late_leaves_nothing),
    };
    return RUN_TESTS(tests);
}
