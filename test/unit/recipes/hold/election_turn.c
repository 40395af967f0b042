/* Turns: leading for the time of a function, one member after the other. E139. */
#include "support/candidate.h"

enum { MEMBERS = 4, ROUNDS = 3, LOG_MAX = 64, LONG_MS = 20000 }; /* no lease ends meanwhile */

/* The members that led, in their order. */
struct turn_log {
    pthread_mutex_t lock;
    char names[LOG_MAX];
    size_t count;
    int leading; /* at this moment */
    bool wrong;  /* two at once, another token, or the others did not queue again */
};

struct turner {
    struct candidate c;
    struct turn_log *log;
    pthread_t thread;
    int result;
};

/* Until all wait, in all rounds but the last: the order of the queue decides then, not which thread runs first. */
static bool all_queue(struct turner *t, size_t turn)
{
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    size_t wanted = turn <= (size_t)MEMBERS * (ROUNDS - 1) ? MEMBERS : 1;
    while (fake_zk_child_count(t->c.zk, ELECTION_PATH) < wanted && now_ns() < end) {
        sleep_ms(1);
    }
    return now_ns() < end;
}

static void lead(struct conclave_election *election, struct conclave_token token, void *ctx)
{
    struct turner *t = ctx;
    struct turn_log *log = t->log;
    pthread_mutex_lock(&log->lock);
    bool wrong = log->leading++ != 0 || log->count == LOG_MAX - 1 ||
                 conclave_election_token(election).czxid != token.czxid;
    if (!wrong) {
        log->names[log->count++] = t->c.name[0];
    }
    size_t turn = log->count;
    pthread_mutex_unlock(&log->lock);
    wrong = !all_queue(t, turn) || wrong;
    pthread_mutex_lock(&log->lock);
    log->leading--;
    log->wrong = log->wrong || wrong;
    pthread_mutex_unlock(&log->lock);
}

static void *take_turns(void *ctx)
{
    struct turner *t = ctx;
    for (int i = 0; i < ROUNDS && t->result == 0; i++) {
        t->result = conclave_election_take_turn(t->c.election, lead, t, PATIENCE_MS);
    }
    return NULL;
}

static void turner_open(struct turner *t, struct fake_zk *zk, int endpoint, const char *name,
                        struct turn_log *log)
{
    memset(t, 0, sizeof *t);
    t->log = log;
    candidate_connect_to(&t->c, zk, endpoint, name, NULL, LONG_MS);
    candidate_join(&t->c);
    candidate_settled(&t->c);
}

static void E139_members_lead_in_turn(void **state)
{
    static const char *const names[MEMBERS] = {"a", "b", "c", "d"};
    struct turn_log log = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct turner members[MEMBERS];
    make_parent(*state);
    for (int i = 0; i < MEMBERS; i++) {
        turner_open(&members[i], *state, i % 3, names[i], &log);
    }
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(pthread_create(&members[i].thread, NULL, take_turns, &members[i]), 0);
    }
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
        assert_int_equal(members[i].result, 0);
        assert_false(LEADS(&members[i].c));
    }
    assert_false(log.wrong);
    assert_string_equal(log.names, "abcdabcdabcd");
    EVENTUALLY(fake_zk_child_count(*state, ELECTION_PATH) == 0);
    for (int i = 0; i < MEMBERS; i++) {
        candidate_finish(&members[i].c);
    }
}

static void count_turn(struct conclave_election *election, struct conclave_token token, void *ctx)
{
    ++*(int *)ctx;
}

static void lose_session(struct conclave_election *election, struct conclave_token token, void *ctx)
{
    struct candidate *c = ctx;
    fake_zk_expire(c->zk, candidate_session(c));
    EVENTUALLY(!conclave_election_is_leader(election));
}

static void in_a_callback(struct candidate *c)
{
    int turns = 0;
    c->in_elected = NULL;
    c->fail_elected =
        conclave_election_take_turn(c->election, count_turn, &turns, 0) == CONCLAVE_EDEADLK ? 0
                                                                                            : 99;
}

static void E139_a_member_out_of_turns_keeps_nobody_waiting(void **state)
{
    struct candidate a;
    struct candidate b;
    struct conclave_token token;
    int turns = 0;
    make_parent(*state);
    candidate_connect_to(&a, *state, 0, "a", NULL, LONG_MS);
    candidate_connect_to(&b, *state, 1, "b", NULL, LONG_MS);
    a.in_elected = in_a_callback;
    candidate_join(&a);
    candidate_settled(&a);
    candidate_join(&b);
    assert_int_equal(conclave_election_take_turn(a.election, NULL, NULL, 0), CONCLAVE_EINVAL);
    assert_int_equal(conclave_election_take_turn(a.election, count_turn, &turns, PATIENCE_MS), 0);
    assert_int_equal(conclave_election_wait(b.election, PATIENCE_MS, &token), 0);
    /* It waits in vain, and leaves the queue again. */
    assert_int_equal(conclave_election_take_turn(a.election, count_turn, &turns, 50),
                     CONCLAVE_ETIMEDOUT);
    EVENTUALLY(fake_zk_child_count(*state, ELECTION_PATH) == 1);
    assert_int_equal(turns, 1);
    /* Its turn is the next one, though it was out of the queue. */
    assert_int_equal(conclave_election_resign(b.election, false), 0);
    assert_int_equal(conclave_election_take_turn(a.election, count_turn, &turns, PATIENCE_MS), 0);
    assert_int_equal(turns, 2);
    /* It leads no more when its function returns. */
    assert_int_equal(conclave_election_take_turn(a.election, lose_session, &a, PATIENCE_MS),
                     CONCLAVE_ELOST);
    conclave_election_close(a.election);
    assert_int_equal(conclave_election_take_turn(a.election, count_turn, &turns, 0),
                     CONCLAVE_ECLOSED);
    candidate_finish(&a);
    candidate_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E139_members_lead_in_turn),
        E_TEST(E139_a_member_out_of_turns_keeps_nobody_waiting),
    };
    return RUN_TESTS(tests);
}
