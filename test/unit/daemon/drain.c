/* Draining: clients go evenly spread over the time, the lead is handed over, again when it comes back, and all of it can be
 * taken back. */
#include "daemon/drain.h"

#include "support/service_harness.h"

enum { GUESTS = 10, WITHIN_MS = 1000, STEP_MS = 100, AGAIN_MS = 2000 };

struct drained {
    struct service_harness h;
    struct guest guests[GUESTS];
    struct drain drain;
};

static void drained_init(struct drained *t)
{
    service_harness_init(&t->h, NULL);
    for (size_t i = 0; i < GUESTS; i++) {
        guest_open(&t->guests[i], &t->h, 10000);
    }
    t->drain = (struct drain){.on = false};
}

static void drained_finish(struct drained *t)
{
    for (size_t i = 0; i < GUESTS; i++) {
        guest_finish(&t->guests[i]);
    }
    service_harness_finish(&t->h);
}

static unsigned left(const struct drained *t)
{
    unsigned count = 0;
    for (size_t i = 0; i < GUESTS; i++) {
        count += t->guests[i].c.sent_away || t->guests[i].closed;
    }
    return count;
}

static void clients_go_step_by_step(void **state)
{
    struct drained t;
    drained_init(&t);
    assert_int_equal(drain_deadline(&t.drain), INT64_MAX);
    assert_false(drain_tick(&t.drain, &t.h.service, true, 0)); /* not begun */
    drain_begin(&t.drain, &t.h.service, 5000, WITHIN_MS);
    assert_true(t.h.service.standing.drained);
    assert_int_equal(drain_deadline(&t.drain), 5000);
    for (unsigned i = 0; i < GUESTS; i++) {
        assert_int_equal(left(&t), i);
        int64_t now_ms = 5000 + (int64_t)i * STEP_MS;
        assert_false(drain_tick(&t.drain, &t.h.service, false, now_ms));
        assert_int_equal(left(&t), i + 1);
        assert_false(drain_tick(&t.drain, &t.h.service, false, now_ms)); /* too early: nothing */
        assert_int_equal(left(&t), i + 1);
        assert_int_equal(drain_deadline(&t.drain), now_ms + STEP_MS);
        service_harness_settle(&t.h);
    }
    drained_finish(&t);
}

/* A process that was paused, or a time of 0, sends all away at once. */
static void the_rest_goes_when_it_is_late(void **state)
{
    for (int64_t within_ms = 0; within_ms <= WITHIN_MS; within_ms += WITHIN_MS) {
        struct drained t;
        drained_init(&t);
        drain_begin(&t.drain, &t.h.service, 0, within_ms);
        assert_false(drain_tick(&t.drain, &t.h.service, false, within_ms * 3));
        assert_int_equal(left(&t), GUESTS);
        drained_finish(&t);
    }
}

/* A second order while it drains sets another time. */
static void another_time(void **state)
{
    struct drained t;
    drained_init(&t);
    drain_begin(&t.drain, &t.h.service, 0, DRAIN_WITHIN_MAX_MS);
    assert_false(drain_tick(&t.drain, &t.h.service, false, 0));
    assert_int_equal(left(&t), 1);
    drain_begin(&t.drain, &t.h.service, 1, 0);
    assert_false(drain_tick(&t.drain, &t.h.service, false, 1));
    assert_int_equal(left(&t), GUESTS);
    drained_finish(&t);
}

static void the_lead_goes_again_and_again(void **state)
{
    struct drained t;
    drained_init(&t);
    drain_begin(&t.drain, &t.h.service, 0, 100 * WITHIN_MS);
    assert_true(drain_tick(&t.drain, &t.h.service, true, 0));
    assert_false(drain_tick(&t.drain, &t.h.service, true, STEP_MS)); /* it is on its way */
    assert_false(drain_tick(&t.drain, &t.h.service, false, AGAIN_MS));
    assert_true(drain_tick(&t.drain, &t.h.service, true, AGAIN_MS + STEP_MS)); /* it came back */
    assert_false(drain_tick(&t.drain, &t.h.service, true, AGAIN_MS + 2 * STEP_MS));
    drained_finish(&t);
}

static void it_can_be_taken_back(void **state)
{
    struct drained t;
    drained_init(&t);
    drain_begin(&t.drain, &t.h.service, 0, WITHIN_MS);
    assert_false(drain_tick(&t.drain, &t.h.service, false, 0));
    drain_end(&t.drain, &t.h.service);
    assert_false(t.h.service.standing.drained);
    assert_false(drain_tick(&t.drain, &t.h.service, true, 2 * WITHIN_MS));
    assert_int_equal(left(&t), 1);
    assert_int_equal(drain_deadline(&t.drain), INT64_MAX);
    drain_end(&t.drain, &t.h.service); /* again: nothing */
    drained_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_go_step_by_step),
        cmocka_unit_test(the_rest_goes_when_it_is_late),
        cmocka_unit_test(another_time),
        cmocka_unit_test(the_lead_goes_again_and_again),
        cmocka_unit_test(it_can_be_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
