/* The simple master switch: one master at a time, in turn; what happens to it when its link, its session
 * or its master's courage goes. */
#include "support/candidate.h"

#include <conclave/master_switch.h>

#define PATH "/app/master"

struct player {
    struct conclave_master_switch *sw;
    _Atomic int mastered;
    _Atomic int slaved;
    _Atomic int64_t token;
    _Atomic int64_t stop_within_ms;
    _Atomic int refuse;      /* answers of on_master that are failures */
    _Atomic bool was_master; /* is_master when on_slave began */
    _Atomic bool broken;     /* not in turn */
};

static int on_master(struct conclave_master_switch *sw, struct conclave_token token, void *ctx)
{
    struct player *p = ctx;
    p->broken = p->broken || p->mastered != p->slaved || token.czxid <= p->token ||
                conclave_master_switch_token(sw).czxid != token.czxid;
    p->token = token.czxid;
    p->mastered++;
    return p->refuse > 0 ? p->refuse-- : 0;
}

static void on_slave(struct conclave_master_switch *sw, int64_t stop_within_ms, void *ctx)
{
    struct player *p = ctx;
    p->was_master = p->was_master || conclave_master_switch_is_master(sw);
    p->stop_within_ms = stop_within_ms;
    p->slaved++;
    p->broken = p->broken || p->mastered != p->slaved;
}

static void play(struct player *p, struct fake_zk *zk, int endpoint, const char *id)
{
    struct conclave_master_switch_options options = CONCLAVE_MASTER_SWITCH_OPTIONS_INIT;
    *p = (struct player){0};
    options.path = PATH;
    options.id = id;
    options.servers = fake_zk_address(zk, endpoint);
    options.session_timeout_ms = usual_session_ms;
    assert_int_equal(conclave_master_switch_open(&options, on_master, on_slave, p, &p->sw), 0);
    assert_non_null(p->sw);
}

static void stop(struct player *p)
{
    assert_int_equal(conclave_master_switch_close(p->sw, PATIENCE_MS), 0);
    assert_false(p->broken);
    assert_false(p->was_master);
    assert_int_equal(p->mastered, p->slaved);
}

#define MASTER(p) conclave_master_switch_is_master((p)->sw)

static void one_is_the_master_and_the_next_follows(void **state)
{
    struct fake_zk *zk = *state;
    struct player a;
    struct player b;
    play(&a, zk, 0, "a");
    EVENTUALLY(MASTER(&a));
    assert_true(conclave_master_switch_lease_left_ms(a.sw) > 0);
    play(&b, zk, 1, "b");
    STAYS(MASTER(&a) && !MASTER(&b), 50);
    assert_int_equal(conclave_master_switch_token(b.sw).czxid, 0);
    stop(&a);
    EVENTUALLY(MASTER(&b));
    assert_true(b.token > a.token);
    stop(&b);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

static void who_yields_gets_it_back_in_turn(void **state)
{
    struct fake_zk *zk = *state;
    struct player a;
    struct player b;
    play(&a, zk, 0, "a");
    EVENTUALLY(MASTER(&a));
    play(&b, zk, 1, "b");
    EVENTUALLY(fake_zk_child_count(zk, PATH) == 2);
    assert_int_equal(conclave_master_switch_yield(a.sw), 0);
    EVENTUALLY(MASTER(&b));
    assert_int_equal(a.slaved, 1);
    assert_int_equal(conclave_master_switch_yield(b.sw), 0);
    EVENTUALLY(MASTER(&a));
    stop(&a);
    stop(&b);
}

static void one_whose_link_is_lost_is_no_master_before_another_is(void **state)
{
    struct fake_zk *zk = *state;
    struct player a;
    struct player b;
    usual_session_ms = EXPIRY_SESSION_MS;
    play(&a, zk, 0, "a");
    usual_session_ms = LONG_SESSION_MS;
    EVENTUALLY(MASTER(&a));
    play(&b, zk, 1, "b");
    EVENTUALLY(fake_zk_child_count(zk, PATH) == 2);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    int64_t end_ns = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (!MASTER(&b) && now_ns() < end_ns) {
        assert_false(MASTER(&a) && MASTER(&b));
    }
    assert_true(MASTER(&b));
    assert_false(MASTER(&a));
    assert_int_equal(a.slaved, 1);
    fake_zk_link(zk, 0, FAKE_UP);
    stop(&b);
    EVENTUALLY(MASTER(&a)); /* in a new session, by itself */
    stop(&a);
}

static void one_that_cannot_leaves_it_to_another(void **state)
{
    struct fake_zk *zk = *state;
    struct player a;
    struct player b;
    struct conclave_master_switch_options options = CONCLAVE_MASTER_SWITCH_OPTIONS_INIT;
    a = (struct player){.refuse = 1};
    options.path = PATH;
    options.servers = fake_zk_address(zk, 0);
    options.session_timeout_ms = usual_session_ms;
    assert_int_equal(conclave_master_switch_open(&options, on_master, on_slave, &a, &a.sw), 0);
    EVENTUALLY(a.slaved == 1);
    play(&b, zk, 1, "b");
    EVENTUALLY(MASTER(&b) || MASTER(&a));
    stop(&b);
    EVENTUALLY(MASTER(&a));
    stop(&a);
}

static void the_programs_own_connection_serves_and_stays(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct player a = {0};
    struct conclave_master_switch_options options = CONCLAVE_MASTER_SWITCH_OPTIONS_INIT;
    candidate_connect(&c, zk, 0, "c");
    options.path = PATH;
    options.recipes = c.recipes;
    assert_int_equal(conclave_master_switch_open(&options, on_master, NULL, &a, &a.sw), 0);
    EVENTUALLY(MASTER(&a));
    assert_int_equal(conclave_master_switch_error(a.sw), 0);
    assert_int_equal(conclave_master_switch_close(a.sw, PATIENCE_MS), 0);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/", 0);
    assert_int_equal(conclave_call(c.client, &op, NULL), 0);
    candidate_finish(&c);
}

static void what_cannot_work_is_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_master_switch *sw = NULL;
    struct conclave_master_switch_options options = CONCLAVE_MASTER_SWITCH_OPTIONS_INIT;
    options.servers = fake_zk_address(zk, 0);
    assert_int_equal(conclave_master_switch_open(&options, NULL, NULL, NULL, &sw), CONCLAVE_EINVAL);
    assert_null(sw);
    options.path = PATH;
    options.servers = "::::";
    assert_int_equal(conclave_master_switch_open(&options, NULL, NULL, NULL, &sw), CONCLAVE_EINVAL);
    assert_int_equal(conclave_master_switch_open(NULL, NULL, NULL, NULL, &sw), CONCLAVE_EINVAL);
    assert_int_equal(conclave_master_switch_close(NULL, 0), 0);
}

static void one_that_reaches_nobody_can_be_stopped(void **state)
{
    struct fake_zk *zk = *state;
    struct player a;
    struct player late;
    struct conclave_master_switch_options options = CONCLAVE_MASTER_SWITCH_OPTIONS_INIT;
    play(&a, zk, 0, "a");
    EVENTUALLY(MASTER(&a));
    /* nobody is there: it goes on trying, and can be stopped */
    late = (struct player){0};
    options.path = PATH;
    options.servers = "127.0.0.1:1";
    assert_int_equal(conclave_master_switch_open(&options, on_master, on_slave, &late, &late.sw),
                     0);
    STAYS(!MASTER(&late) && conclave_master_switch_error(late.sw) == 0, 50);
    stop(&late);
    stop(&a);
}

static int setup(void **state)
{
    *state = fake_zk_start();
    return *state != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    fake_zk_stop(*state);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_is_the_master_and_the_next_follows),
        TEST(who_yields_gets_it_back_in_turn),
        TEST(one_whose_link_is_lost_is_no_master_before_another_is),
        TEST(one_that_cannot_leaves_it_to_another),
        TEST(the_programs_own_connection_serves_and_stays),
        TEST(what_cannot_work_is_refused),
        TEST(one_that_reaches_nobody_can_be_stopped),
    };
    return cmocka_run_group_tests_name("switch", tests, NULL, NULL);
}
