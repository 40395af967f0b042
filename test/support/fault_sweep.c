#include "support/fault_sweep.h"

#include "support/candidate.h"

enum { BESIDE = 16, CASES_MAX = 64 };

static void stop_endpoint(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, ((struct fault_case *)ctx)->endpoint, FAKE_SILENT);
}

void fault_set(struct fault_case *s)
{
    static const enum fake_action actions[FAULTS] = {
        FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE, FAKE_EXPIRE_AFTER, FAKE_CALL,
    };
    struct fake_hook h = {.endpoint = s->endpoint,
                          .op = FAKE_ANY_OP,
                          .nth = s->step,
                          .action = actions[s->fault],
                          .fn = stop_endpoint,
                          .ctx = s};
    fake_zk_hook(s->zk, &h);
}

void fault_end(struct fault_case *s)
{
    s->reached = fake_zk_hooks_left(s->zk) == 0;
    fake_zk_hooks_clear(s->zk);
}

static void *run_case(void *arg)
{
    struct fault_case *s = arg;
    s->zk = fake_zk_start();
    s->wrong = s->zk == NULL ? "no memory or socket" : s->sweep->scene(s);
    if (s->wrong != NULL) {
        return NULL; /* running threads may use the server */
    }
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (fake_zk_ephemerals(s->zk) > 0 && now_ns() < end) {
        sleep_ms(1);
    }
    if (fake_zk_ephemerals(s->zk) > 0 || fake_zk_child_count(s->zk, s->sweep->parent) > 0) {
        s->wrong = "a node was left";
    }
    fake_zk_stop(s->zk);
    return NULL;
}

static void fault_sweep(const struct fault_sweep *sweep, enum fault fault)
{
    static struct fault_case cases[CASES_MAX];
    size_t count = 2 * (size_t)sweep->steps;
    int reached = 0;
    int wrong = 0;
    assert_true(count <= CASES_MAX);
    for (size_t i = 0; i < count; i++) {
        cases[i] = (struct fault_case){
            .sweep = sweep, .fault = fault, .endpoint = (int)i % 2, .step = (int)i / 2 + 1};
    }
    for (size_t from = 0; from < count; from += BESIDE) {
        for (size_t i = from; i < from + BESIDE && i < count; i++) {
            assert_int_equal(pthread_create(&cases[i].thread, NULL, run_case, &cases[i]), 0);
        }
        for (size_t i = from; i < from + BESIDE && i < count; i++) {
            assert_int_equal(pthread_join(cases[i].thread, NULL), 0);
        }
    }
    for (size_t i = 0; i < count; i++) {
        reached += cases[i].reached ? 1 : 0;
        if (cases[i].wrong != NULL) {
            print_error("%s, request %d: %s\n", cases[i].endpoint == 0 ? "first" : "second",
                        cases[i].step, cases[i].wrong);
            wrong++;
        }
    }
    print_message("%d of %zu faults were met\n", reached, count);
    assert_int_equal(wrong, 0);
    assert_true(reached >= sweep->at_least);
}

void link_cut_before_every_request(void **state)
{
    fault_sweep(*state, FAULT_CUT);
}

void answer_lost_of_every_request(void **state)
{
    fault_sweep(*state, FAULT_LOSE);
}

void session_killed_before_every_request(void **state)
{
    fault_sweep(*state, FAULT_EXPIRE);
}

void session_killed_after_every_request(void **state)
{
    fault_sweep(*state, FAULT_EXPIRED);
}

void silence_from_every_request_on(void **state)
{
    fault_sweep(*state, FAULT_STOP);
}
