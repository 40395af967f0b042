/* Hand-over to a named member: E186 to E196, and a fault at every request of those that take part. */
#include "support/standby.h"

#include <conclave/elector_admin.h>

#define REQUEST_NODE DIR "/HandOver"

enum { MEMBERS = 3, LONG_MS = 10000 /* no session ends by itself */ };

struct service {
    struct fake_zk *zk;
    struct standby op;
    struct standby m[MEMBERS];
    struct conclave_hand_over result;
    int error;
    pthread_t thread;
    const char *to;
    int64_t limit_ms;
};

static const char *const names[MEMBERS] = {"a", "b", "c"};

static bool listed_as(struct service *s, const char *id, enum conclave_elector_state state)
{
    struct conclave_elector_member **m;
    if (conclave_elector_member(s->op.base.recipes, DIR, id, PATIENCE_MS, &m) != 0) {
        return false;
    }
    bool same = m[0]->state == state && (state != CONCLAVE_ELECTOR_ACTIVE || m[0]->ready);
    conclave_elector_members_free(m, 1);
    return same;
}

/* The first is active, b and c are on standby. A first that is not "a" is not listed. */
static void service_begin_as(struct service *s, struct fake_zk *zk, bool herd_free,
                             const char *first)
{
    memset(s, 0, sizeof *s);
    s->zk = zk;
    s->result = (struct conclave_hand_over)CONCLAVE_HAND_OVER_INIT;
    s->limit_ms = PATIENCE_MS;
    standby_open_for(&s->op, zk, 3, "op", LONG_MS);
    for (int i = 0; i < MEMBERS; i++) {
        standby_open_for(&s->m[i], zk, i, i == 0 ? first : names[i], LONG_MS);
        s->m[i].listed = i > 0 || strcmp(first, "a") == 0;
        s->m[i].herd_free = herd_free;
        standby_start(&s->m[i]);
        EVENTUALLY(i == 0 ? STATE_IS(&s->m[0], ACTIVE) : STATE_IS(&s->m[i], STANDBY));
        EVENTUALLY(
            !s->m[i].listed ||
            listed_as(s, names[i], i == 0 ? CONCLAVE_ELECTOR_ACTIVE : CONCLAVE_ELECTOR_STANDBY));
    }
}

static void service_begin(struct service *s, struct fake_zk *zk, bool herd_free)
{
    service_begin_as(s, zk, herd_free, "a");
}

static void service_end(struct service *s)
{
    for (int i = 0; i < MEMBERS; i++) {
        standby_finish(&s->m[i]);
    }
    assert_false(fake_zk_exists(s->zk, REQUEST_NODE));
    assert_int_equal(fake_zk_ephemerals(s->zk), 0);
    standby_finish(&s->op);
}

static void hand_over(struct service *s, const char *to)
{
    s->error = conclave_elector_hand_over(s->op.base.recipes, DIR, to, s->limit_ms, &s->result);
}

static void *hand_over_thread(void *arg)
{
    struct service *s = arg;
    hand_over(s, s->to);
    return NULL;
}

static void hand_over_begin(struct service *s, const char *to)
{
    s->to = to;
    assert_int_equal(pthread_create(&s->thread, NULL, hand_over_thread, s), 0);
}

static void hand_over_end(struct service *s)
{
    assert_int_equal(pthread_join(s->thread, NULL), 0);
}

static void E186_the_named_member_takes_over_and_no_other(void **state)
{
    for (int herd_free = 0; herd_free <= 1; herd_free++) {
        struct service s;
        fake_zk_reset(*state);
        service_begin(&s, *state, herd_free == 1);
        for (int turn = 0; turn < 6; turn++) {
            int next = 2 - turn % MEMBERS; /* not the one that has waited longest */
            hand_over(&s, names[next]);
            assert_int_equal(s.error, 0);
            assert_int_equal(s.result.outcome, CONCLAVE_HAND_OVER_DONE);
            assert_string_equal(s.result.active, names[next]);
            assert_true(ACTIVE(&s.m[next]));
            assert_int_equal(s.result.token.czxid, s.m[next].token);
        }
        hand_over(&s, "a"); /* it is */
        assert_int_equal(s.error, 0);
        for (int i = 0; i < MEMBERS; i++) {
            assert_int_equal(standby_get(&s.m[i], &s.m[i].fenced), 0);
            assert_int_equal(standby_get(&s.m[i], &s.m[i].activated), i == 0 ? 3 : 2);
        }
        EVENTUALLY(STATE_IS(&s.m[1], STANDBY) && STATE_IS(&s.m[2], STANDBY));
        service_end(&s);
    }
}

/* It is asked for, so it does not stay out. */
static void E186_one_that_has_ceded_takes_over_at_once(void **state)
{
    struct service s;
    service_begin(&s, *state, false);
    assert_int_equal(conclave_elector_cede(s.m[0].elector, 100 * PATIENCE_MS), 0);
    EVENTUALLY(ACTIVE(&s.m[1]) || ACTIVE(&s.m[2]));
    STAYS(!ACTIVE(&s.m[0]), 50);
    hand_over(&s, "a");
    assert_int_equal(s.error, 0);
    assert_true(ACTIVE(&s.m[0]));
    service_end(&s);
}

static void refused_as(struct service *s, const char *to, enum conclave_hand_over_outcome outcome)
{
    hand_over(s, to);
    assert_int_equal(s->error, CONCLAVE_ECANCELED);
    assert_int_equal(s->result.outcome, outcome);
    assert_true(ACTIVE(&s->m[0]));
    assert_int_equal(standby_get(&s->m[0], &s->m[0].deactivated), 0);
}

static void E187_what_cannot_take_over_is_refused_and_the_old_one_goes_on(void **state)
{
    struct service s;
    service_begin(&s, *state, false);
    refused_as(&s, "nobody", CONCLAVE_HAND_OVER_NO_MEMBER);
    refused_as(&s, "not/listed", CONCLAVE_HAND_OVER_NO_MEMBER);
    refused_as(&s, "..", CONCLAVE_HAND_OVER_NO_MEMBER);
    refused_as(&s, "a line\nmore", CONCLAVE_HAND_OVER_NO_MEMBER);
    conclave_elector_set_health(s.m[1].elector, CONCLAVE_HEALTH_UNHEALTHY);
    assert_int_equal(conclave_elector_observe(s.m[2].elector, true), 0);
    EVENTUALLY(listed_as(&s, "b", CONCLAVE_ELECTOR_NEUTRAL));
    EVENTUALLY(listed_as(&s, "c", CONCLAVE_ELECTOR_OBSERVER));
    refused_as(&s, "b", CONCLAVE_HAND_OVER_NOT_HEALTHY);
    refused_as(&s, "c", CONCLAVE_HAND_OVER_OBSERVER);
    assert_string_equal(conclave_hand_over_outcome_name(s.result.outcome), "OBSERVER");
    fake_zk_create(s.zk, REQUEST_NODE, "another's", 0);
    hand_over(&s, "a");
    assert_int_equal(s.error, 0); /* it is active */
    conclave_elector_set_health(s.m[1].elector, CONCLAVE_HEALTH_HEALTHY);
    EVENTUALLY(listed_as(&s, "b", CONCLAVE_ELECTOR_STANDBY));
    hand_over(&s, "b");
    assert_int_equal(s.error, CONCLAVE_EBUSY);
    fake_zk_delete(s.zk, REQUEST_NODE);
    assert_int_equal(conclave_elector_observe(s.m[0].elector, true), 0);
    EVENTUALLY(ACTIVE(&s.m[1]));
    standby_stop(&s.m[1]);
    assert_int_equal(conclave_elector_observe(s.m[2].elector, true), 0);
    hand_over(&s, "c");
    assert_int_equal(s.error, CONCLAVE_ECANCELED);
    service_end(&s);
}

/* The named member cannot begin: the previous one is active again, not the third. */
static void E188_one_that_fails_or_dies_gives_way_to_the_one_before(void **state)
{
    struct service s;
    service_begin(&s, *state, false);
    s.m[1].fail_activate = 1000;
    s.limit_ms = 2500;
    hand_over(&s, "b");
    assert_int_equal(s.error, CONCLAVE_ECANCELED);
    assert_int_equal(s.result.outcome, CONCLAVE_HAND_OVER_LATE);
    assert_string_equal(s.result.active, "a");
    EVENTUALLY(ACTIVE(&s.m[0]));
    assert_int_equal(standby_get(&s.m[2], &s.m[2].activated), 0);
    s.m[1].fail_activate = 0;
    s.limit_ms = PATIENCE_MS;
    /* it dies before it has the lock */
    EVENTUALLY(STATE_IS(&s.m[1], STANDBY));
    EVENTUALLY(listed_as(&s, "b", CONCLAVE_ELECTOR_STANDBY));
    fake_zk_hold(s.zk, 1, WIRE_CREATE2);
    hand_over_begin(&s, "b");
    EVENTUALLY(!ACTIVE(&s.m[0]));
    fake_zk_link(s.zk, 1, FAKE_REFUSE);
    fake_zk_expire(s.zk, candidate_session(&s.m[1].base));
    hand_over_end(&s);
    assert_int_equal(s.error, CONCLAVE_ECANCELED);
    assert_int_equal(s.result.outcome, CONCLAVE_HAND_OVER_NO_MEMBER);
    assert_string_equal(s.result.active, "a");
    assert_int_equal(standby_get(&s.m[2], &s.m[2].activated), 0);
    fake_zk_release(s.zk, 1);
    fake_zk_link(s.zk, 1, FAKE_UP);
    service_end(&s);
}

/* It is active and never ready: it steps down for the one before. */
static void E188_one_that_is_never_ready_gives_way_to_the_one_before(void **state)
{
    struct service s;
    service_begin(&s, *state, false);
    standby_stop(&s.m[1]);
    s.m[1].reports_ready = true;
    standby_start(&s.m[1]);
    EVENTUALLY(listed_as(&s, "b", CONCLAVE_ELECTOR_STANDBY));
    s.limit_ms = 3000;
    hand_over(&s, "b");
    assert_int_equal(s.error, CONCLAVE_ECANCELED);
    assert_int_equal(s.result.outcome, CONCLAVE_HAND_OVER_LATE);
    assert_string_equal(s.result.active, "a");
    EVENTUALLY(ACTIVE(&s.m[0]));
    assert_int_equal(standby_get(&s.m[0], &s.m[0].fenced), 0);
    assert_int_equal(standby_get(&s.m[2], &s.m[2].activated), 0);
    service_end(&s);
}

static bool request_names(struct service *s, const char *line)
{
    char text[512];
    return fake_zk_data(s->zk, REQUEST_NODE, text, sizeof text) && strstr(text, line) != NULL;
}

/* It stops when the operator has given up: no third member uses the moment. */
static void E188_one_that_is_slow_to_stop_is_active_again(void **state)
{
    struct service s;
    service_begin(&s, *state, false);
    s.m[0].slow_to_stop = true;
    s.limit_ms = 3000;
    hand_over_begin(&s, "b");
    EVENTUALLY(standby_get(&s.m[0], &s.m[0].deactivated) == 1);
    EVENTUALLY(request_names(&s, "\nid=a\n"));
    STAYS(request_names(&s, "\nid=a\n"), 1500);
    s.m[0].slow_to_stop = false;
    hand_over_end(&s);
    assert_int_equal(s.error, CONCLAVE_ECANCELED);
    assert_int_equal(s.result.outcome, CONCLAVE_HAND_OVER_LATE);
    assert_string_equal(s.result.active, "a");
    EVENTUALLY(standby_get(&s.m[0], &s.m[0].activated) == 2);
    assert_int_equal(standby_get(&s.m[2], &s.m[2].activated), 0);
    service_end(&s);
}

/* Longer than the name of a node may be. */
static void E188_the_one_before_may_have_an_id_of_any_length(void **state)
{
    char id[301];
    struct service s;
    memset(id, 'x', 300);
    memcpy(id, "first / of all", 14);
    id[300] = '\0';
    service_begin_as(&s, *state, false, id);
    hand_over(&s, id);
    assert_int_equal(s.error, 0); /* it is active */
    s.m[1].fail_activate = 1000;
    s.limit_ms = 3000;
    hand_over(&s, "b");
    assert_int_equal(s.error, CONCLAVE_ECANCELED);
    assert_int_equal(s.result.outcome, CONCLAVE_HAND_OVER_LATE);
    assert_int_equal(strlen(s.result.active), 255);
    assert_memory_equal(s.result.active, id, 255);
    EVENTUALLY(ACTIVE(&s.m[0]));
    assert_int_equal(standby_get(&s.m[2], &s.m[2].activated), 0);
    service_end(&s);
}

/* The answer comes after the end of the call, as the node does: nobody waits for the named member. */
static void E196_a_request_that_is_made_too_late_is_deleted(void **state)
{
    bool there;
    struct service s;
    service_begin(&s, *state, false);
    fake_zk_hold(s.zk, 3, WIRE_CREATE2);
    s.limit_ms = 1000;
    hand_over(&s, "b");
    assert_int_equal(s.error, CONCLAVE_ETIMEDOUT);
    fake_zk_release(s.zk, 3);
    assert_int_equal(conclave_elector_parent_exists(s.op.base.recipes, DIR, PATIENCE_MS, &there),
                     0);
    EVENTUALLY(!fake_zk_exists(s.zk, REQUEST_NODE)); /* what was sent before is done */
    s.limit_ms = PATIENCE_MS;
    EVENTUALLY((hand_over(&s, "c"), s.error == 0)); /* one of them is active again, soon */
    service_end(&s);
}

static void E196_a_request_that_is_not_taken_back_in_time_is_deleted(void **state)
{
    struct service s;
    service_begin(&s, *state, false);
    fake_zk_hold(s.zk, 3, WIRE_DELETE);
    hand_over(&s, "b");
    assert_int_equal(s.error, 0);
    assert_string_equal(s.result.active, "b");
    fake_zk_release(s.zk, 3);
    EVENTUALLY(!fake_zk_exists(s.zk, REQUEST_NODE));
    service_end(&s);
}

/* To create is permitted, to delete is not: the caller is told, and nobody asks for it for ever. */
static void E196_a_request_that_may_not_be_deleted_goes_with_its_session(void **state)
{
    enum { HOOKS = 8 };
    struct service s;
    service_begin(&s, *state, false);
    for (int i = 0; i < HOOKS; i++) {
        struct fake_hook refuse = {.endpoint = 3,
                                   .op = WIRE_DELETE,
                                   .path = "/HandOver",
                                   .nth = 1,
                                   .action = FAKE_ERROR,
                                   .error = CONCLAVE_NO_AUTH};
        fake_zk_hook(s.zk, &refuse);
    }
    hand_over(&s, "b");
    assert_int_equal(s.error, CONCLAVE_NO_AUTH);
    EVENTUALLY(ACTIVE(&s.m[1]));
    sleep_ms(2500);
    assert_int_equal(fake_zk_hooks_left(s.zk), HOOKS - 1);
    fake_zk_hooks_clear(s.zk);
    fake_zk_expire(s.zk, candidate_session(&s.op.base));
    service_end(&s);
}

#define ANOTHERS "conclave elector\nid=c\nincarnation=\ntoken=0\nclean=0\n\n"

static void another_operator_is_next(struct fake_zk *zk, void *ctx)
{
    struct service *s = ctx;
    fake_zk_expire_locked(zk, candidate_session(&s->op.base));
    fake_zk_create_locked(zk, REQUEST_NODE, ANOTHERS, 0);
}

static void E196_an_operator_whose_session_has_ended_spares_the_request_of_another(void **state)
{
    char text[512];
    struct service s;
    service_begin(&s, *state, false);
    fake_zk_hold(s.zk, 1, WIRE_CREATE2); /* b does not get the lock */
    hand_over_begin(&s, "b");
    EVENTUALLY(!ACTIVE(&s.m[0]));
    fake_zk_do(s.zk, another_operator_is_next, &s);
    hand_over_end(&s);
    assert_int_not_equal(s.error, 0);
    assert_true(fake_zk_data(s.zk, REQUEST_NODE, text, sizeof text));
    assert_string_equal(text, ANOTHERS);
    EVENTUALLY(ACTIVE(&s.m[2]));
    fake_zk_delete(s.zk, REQUEST_NODE);
    fake_zk_release(s.zk, 1);
    EVENTUALLY(STATE_IS(&s.m[1], STANDBY));
    service_end(&s);
}

static void E188_when_the_operator_dies_anybody_may_be_active(void **state)
{
    struct service s;
    service_begin(&s, *state, false);
    s.m[1].fail_activate = 1000;
    hand_over_begin(&s, "b");
    EVENTUALLY(standby_get(&s.m[1], &s.m[1].activated) >= 1);
    fake_zk_expire(s.zk, candidate_session(&s.op.base));
    EVENTUALLY(ACTIVE(&s.m[0]) || ACTIVE(&s.m[2]));
    hand_over_end(&s);
    assert_int_not_equal(s.error, 0);
    service_end(&s);
}

/* One fault at each request of the operator, of the one that goes and of the one that comes: one is active in the end,
 * never two are, and no request is left. */
static void E188_a_fault_at_every_request_of_a_hand_over(void **state)
{
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE,
                                               FAKE_EXPIRE_AFTER};
    static const int endpoints[] = {0, 1, 3};
    int met = 0;
    for (size_t e = 0; e < sizeof endpoints / sizeof endpoints[0]; e++) {
        for (size_t a = 0; a < sizeof actions / sizeof actions[0]; a++) {
            for (int nth = 1; nth <= 8; nth++) {
                struct service s;
                fake_zk_reset(*state);
                service_begin(&s, *state, false);
                s.limit_ms = 3000;
                hook(s.zk, endpoints[e], FAKE_ANY_OP, NULL, nth, actions[a]);
                hand_over(&s, "b");
                met += fake_zk_hooks_left(s.zk) == 0;
                fake_zk_hooks_clear(s.zk);
                EVENTUALLY(ACTIVE(&s.m[0]) + ACTIVE(&s.m[1]) + ACTIVE(&s.m[2]) == 1);
                if (s.error == 0) {
                    assert_string_equal(s.result.active, "b");
                }
                service_end(&s);
            }
        }
    }
    assert_true(met >= 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E186_the_named_member_takes_over_and_no_other),
        E_TEST(E186_one_that_has_ceded_takes_over_at_once),
        E_TEST(E187_what_cannot_take_over_is_refused_and_the_old_one_goes_on),
        E_TEST(E188_one_that_fails_or_dies_gives_way_to_the_one_before),
        E_TEST(E188_one_that_is_never_ready_gives_way_to_the_one_before),
        E_TEST(E188_one_that_is_slow_to_stop_is_active_again),
        E_TEST(E188_the_one_before_may_have_an_id_of_any_length),
        E_TEST(E196_a_request_that_is_made_too_late_is_deleted),
        E_TEST(E196_a_request_that_is_not_taken_back_in_time_is_deleted),
        E_TEST(E196_a_request_that_may_not_be_deleted_goes_with_its_session),
        E_TEST(E196_an_operator_whose_session_has_ended_spares_the_request_of_another),
        E_TEST(E188_when_the_operator_dies_anybody_may_be_active),
        E_TEST(E188_a_fault_at_every_request_of_a_hand_over),
    };
    return RUN_TESTS(tests);
}
