/* What a server does for fencing beside applying it: the first node, what is counted and said, and questions that wait
 * for a quorum. */
#include "support/service_harness.h"

#include "base/log.h"
#include "front/state_replacement.h"

static void open_with(struct service_harness *h, uint32_t command_options)
{
    struct service_options options = service_harness_options();
    options.command_options = command_options;
    service_harness_open(h, options);
}

static void test_nothing_is_there_unless_asked_for(void **state)
{
    struct service_harness h;
    open_with(&h, 0);
    for (int i = 0; i < 20; i++) {
        service_harness_settle(&h);
        service_harness_advance(&h, 1000);
    }
    assert_int_equal(h.log_total, 0);
    assert_int_equal(state_fence(h.service.state), STATE_FENCE_ABSENT);
    service_harness_finish(&h);
}

/* At once, and once; again when it was lost with the log's leader, or when the state was replaced. */
static void test_the_leader_makes_the_first_node(void **state)
{
    struct service_harness h;
    open_with(&h, COMMAND_FENCING);
    service_harness_turn(&h);
    assert_int_equal(h.log_count, 1);
    buf_finish(&h.log[--h.log_count]); /* lost */
    service_harness_advance(&h, 600);
    service_harness_turn(&h);
    assert_int_equal(h.log_count, 0); /* it may still come */
    service_harness_advance(&h, 2000);
    service_harness_settle(&h);
    assert_int_equal(state_fence(h.service.state), STATE_FENCE_OPEN);
    size_t written = h.log_total;
    for (int i = 0; i < 20; i++) {
        service_harness_settle(&h);
        service_harness_advance(&h, 1000);
    }
    assert_int_equal(h.log_total, written);
    assert_int_equal(leadership_set(&h.service, false), 0);
    struct state *fresh = state_create(&h.service.key);
    assert_int_equal(state_replacement_adopt(&h.service, fresh), 0);
    service_harness_advance(&h, 3000);
    service_harness_settle(&h);
    assert_int_equal(state_fence(h.service.state), STATE_FENCE_ABSENT); /* the leader's business */
    assert_int_equal(leadership_set(&h.service, true), 0);
    service_harness_settle(&h);
    assert_int_equal(state_fence(h.service.state), STATE_FENCE_OPEN);
    service_harness_finish(&h);
}

static int write_as(struct service_harness *h, struct guest *p, int32_t type, struct slice body)
{
    int32_t xid = guest_request(p, type, body);
    struct frame frame;
    service_harness_settle(h);
    assert_true(guest_next(p, &frame));
    assert_int_equal(frame.xid, xid);
    return frame.err;
}

static void test_a_clients_node_is_in_the_way(void **state)
{
    struct service_harness h;
    struct guest p;
    open_with(&h, 0);
    guest_open(&p, &h, 10000);
    assert_int_equal(write_as(&h, &p, WIRE_CREATE, body_create("/zookeeper/fence", "", 0)), 0);
    h.service.command_options = COMMAND_FENCING; /* as after a restart */
    size_t written = h.log_total;
    service_harness_advance(&h, 600);
    service_harness_settle(&h);
    assert_int_equal(h.log_total, written);
    assert_true(h.service.fencing.told);
    assert_int_equal(write_as(&h, &p, WIRE_DELETE, body_delete("/zookeeper/fence")), 0);
    service_harness_advance(&h, 600);
    service_harness_settle(&h);
    assert_int_equal(state_fence(h.service.state), STATE_FENCE_OPEN);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_what_is_refused_is_counted(void **state)
{
    struct service_harness h;
    struct guest p;
    open_with(&h, COMMAND_FENCING);
    guest_open(&p, &h, 10000);
    static const char leaf[] = "/zookeeper/fence/a/conclave_fence";
    assert_int_equal(write_as(&h, &p, WIRE_CREATE, body_create("/a", "", 0)), 0);
    assert_int_equal(write_as(&h, &p, WIRE_CREATE, body_create("/zookeeper/fence/a", "", 0)), 0);
    assert_int_equal(write_as(&h, &p, WIRE_CREATE, body_create(leaf, "lock=/l", 0)), 0);
    assert_int_equal(write_as(&h, &p, WIRE_SET_DATA, body_set("/a", "x")), CONCLAVE_NO_AUTH);
    assert_int_equal(h.service.metrics->conclave_fenced_writes_refused_total, 1);
    assert_int_equal(write_as(&h, &p, WIRE_CREATE, body_create("/l", "", 1)), 0);
    assert_int_equal(write_as(&h, &p, WIRE_SET_DATA, body_set("/a", "x")), 0);
    assert_int_equal(h.service.metrics->conclave_fenced_writes_refused_total, 1);
    /* Switched off with a binding left: it stays in force, and the log says so. */
    assert_int_equal(write_as(&h, &p, WIRE_DELETE, body_delete("/l")), 0);
    h.service.command_options = 0;
    service_harness_advance(&h, 600);
    assert_true(h.service.fencing.told);
    assert_int_equal(write_as(&h, &p, WIRE_SET_DATA, body_set("/a", "x")), CONCLAVE_NO_AUTH);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void count_one(void *ctx)
{
    ++*(int *)ctx;
}

static void test_a_question_waits_for_a_quorum(void **state)
{
    struct service_harness h;
    struct confirmation c[3];
    int told = 0;
    open_with(&h, COMMAND_FENCING);
    confirmation_ask(&h.service, &c[0], count_one, &told);
    assert_int_equal(told, 1); /* alone, at once */
    service_harness_join(&h);
    confirmation_ask(&h.service, &c[0], count_one, &told);
    service_harness_settle(&h);
    assert_int_equal(h.tickets, 1);
    confirmation_ask(&h.service, &c[1], count_one, &told); /* too late for this round */
    confirmation_ask(&h.service, &c[2], count_one, &told);
    service_harness_settle(&h);
    assert_int_equal(told, 1);
    leadership_confirmed(&h.service, 1);
    assert_int_equal(told, 2);
    list_remove(&c[2].link);
    service_harness_settle(&h);
    assert_int_equal(h.tickets, 2);
    leadership_confirmed(&h.service, 2);
    assert_int_equal(told, 3);
    service_harness_finish(&h);
}

/* A round that is given up with the quorum is asked for again when there is one. */
static void test_a_question_outlives_the_loss_of_the_quorum(void **state)
{
    struct service_harness h;
    struct confirmation c;
    int told = 0;
    open_with(&h, 0);
    service_harness_join(&h);
    confirmation_ask(&h.service, &c, count_one, &told);
    service_harness_settle(&h);
    assert_int_equal(h.tickets, 1);
    leadership_lose_contact(&h.service);
    service_harness_settle(&h);
    leadership_confirmed(&h.service, 1); /* of a log that is no more */
    assert_int_equal(told, 0);
    leadership_contact(&h.service, h.now_ms);
    service_harness_settle(&h);
    assert_int_equal(h.tickets, 2);
    leadership_confirmed(&h.service, 2);
    assert_int_equal(told, 1);
    service_harness_finish(&h);
}

static int quiet(void **state)
{
    log_set_level(LOG_ERROR);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_there_unless_asked_for),
        cmocka_unit_test(test_the_leader_makes_the_first_node),
        cmocka_unit_test(test_a_clients_node_is_in_the_way),
        cmocka_unit_test(test_what_is_refused_is_counted),
        cmocka_unit_test(test_a_question_waits_for_a_quorum),
        cmocka_unit_test(test_a_question_outlives_the_loss_of_the_quorum),
    };
    int rc = cmocka_run_group_tests_name("fencing", tests, quiet, NULL);
    body_finish();
    return rc;
}
