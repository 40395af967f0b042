#include "support/sweep.h"

enum { CASES_MAX = 128 };

/* The present sweep; one at a time. */
static const struct sweep_plan *plan_now;

static void stop_endpoint(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, ((struct sweep_case *)ctx)->endpoint, FAKE_SILENT);
}

static void set_fault(struct sweep_case *s)
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

/* Ends the silence when the session has ended: held messages then come too late. */
static void *heal(void *arg)
{
    struct sweep_case *s = arg;
    while (!s->over && fake_zk_hooks_left(s->zk) > 0) {
        sleep_ms(2);
    }
    for (int i = 0; i < SESSION_MS + 100 && !s->over; i++) {
        sleep_ms(1);
    }
    fake_zk_link(s->zk, s->endpoint, FAKE_UP);
    return NULL;
}

static void *run_case(void *arg)
{
    struct sweep_case *s = arg;
    s->zk = fake_zk_start();
    if (s->zk == NULL) {
        s->wrong = "no memory or socket";
        return NULL;
    }
    set_fault(s); /* before the thread that looks whether it was met */
    if (pthread_create(&s->healer, NULL, heal, s) != 0) {
        s->wrong = "no thread";
        return NULL;
    }
    s->wrong = plan_now->play(s);
    s->reached = fake_zk_hooks_left(s->zk) == 0;
    fake_zk_hooks_clear(s->zk);
    s->over = true;
    (void)pthread_join(s->healer, NULL);
    if (s->wrong == NULL && plan_now->finish != NULL) {
        s->wrong = plan_now->finish(s);
    }
    if (s->wrong != NULL) {
        return NULL; /* running threads may use the server */
    }
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (fake_zk_ephemerals(s->zk) > 0 && now_ns() < end) {
        sleep_ms(1);
    }
    s->wrong = fake_zk_ephemerals(s->zk) > 0 ? "a node of a session was left" : NULL;
    fake_zk_stop(s->zk);
    return NULL;
}

void sweep_run(const struct sweep_plan *plan, enum fault fault)
{
    static struct sweep_case cases[CASES_MAX];
    size_t count = (size_t)(plan->steps * plan->scenes * plan->endpoints);
    int reached = 0;
    int wrong = 0;
    assert_true(count <= CASES_MAX);
    memset(cases, 0, sizeof cases);
    plan_now = plan;
    for (size_t i = 0; i < count; i++) {
        int n = (int)i;
        cases[i].fault = fault;
        cases[i].endpoint = n % plan->endpoints;
        cases[i].scene = plan->first_scene + n / plan->endpoints % plan->scenes;
        cases[i].step = 1 + n / plan->endpoints / plan->scenes;
    }
    for (size_t from = 0; from < count; from += plan->beside) {
        for (size_t i = from; i < from + plan->beside && i < count; i++) {
            assert_int_equal(pthread_create(&cases[i].thread, NULL, run_case, &cases[i]), 0);
        }
        for (size_t i = from; i < from + plan->beside && i < count; i++) {
            assert_int_equal(pthread_join(cases[i].thread, NULL), 0);
        }
    }
    for (size_t i = 0; i < count; i++) {
        reached += cases[i].reached ? 1 : 0;
        if (cases[i].wrong != NULL) {
            print_error("%s, request %d of endpoint %d: %s\n", plan->names[cases[i].scene],
                        cases[i].step, cases[i].endpoint, cases[i].wrong);
            wrong++;
        }
    }
    print_message("%d of %zu faults were met\n", reached, count);
    assert_int_equal(wrong, 0);
    assert_true(reached >= plan->least);
}
