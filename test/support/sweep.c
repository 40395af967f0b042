#include "support/sweep.h"

enum { CASES_MAX = 192, BESIDE_MAX = 16 };

static void stop_endpoint(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, ((struct sweep_case *)ctx)->endpoint, FAKE_SILENT);
}

void sweep_set_fault(struct sweep_case *s)
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

void sweep_end_fault(struct sweep_case *s)
{
    s->reached = fake_zk_hooks_left(s->zk) == 0;
    fake_zk_hooks_clear(s->zk);
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

static const char *play_with_fault(struct sweep_case *s)
{
    sweep_set_fault(s); /* before the thread that looks whether it was met */
    if (pthread_create(&s->healer, NULL, heal, s) != 0) {
        return "no thread";
    }
    const char *wrong = s->plan->play(s);
    sweep_end_fault(s);
    s->over = true;
    (void)pthread_join(s->healer, NULL);
    return wrong;
}

static const char *play_whole(struct sweep_case *s)
{
    const char *wrong = s->plan->sets_fault ? s->plan->play(s) : play_with_fault(s);
    return wrong == NULL && s->plan->finish != NULL ? s->plan->finish(s) : wrong;
}

static void *run_case(void *arg)
{
    struct sweep_case *s = arg;
    s->zk = fake_zk_start();
    s->wrong = s->zk == NULL ? "no memory or socket" : play_whole(s);
    if (s->wrong != NULL) {
        return NULL; /* running threads may use the server */
    }
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (fake_zk_ephemerals(s->zk) > 0 && now_ns() < end) {
        sleep_ms(1);
    }
    const char *parent = s->plan->parent;
    if (fake_zk_ephemerals(s->zk) > 0 ||
        (parent != NULL && fake_zk_child_count(s->zk, parent) > 0)) {
        s->wrong = "a node was left";
    }
    fake_zk_stop(s->zk);
    return NULL;
}

void sweep_beside(void *(*run)(void *), void *cases, size_t size, size_t count, size_t beside)
{
    pthread_t threads[BESIDE_MAX];
    assert_true(beside <= BESIDE_MAX);
    for (size_t from = 0; from < count; from += beside) {
        for (size_t i = from; i < from + beside && i < count; i++) {
            assert_int_equal(
                pthread_create(&threads[i - from], NULL, run, (char *)cases + i * size), 0);
        }
        for (size_t i = from; i < from + beside && i < count; i++) {
            assert_int_equal(pthread_join(threads[i - from], NULL), 0);
        }
    }
}

static void sweep(const struct sweep_plan *plan, enum fault fault)
{
    static struct sweep_case cases[CASES_MAX];
    size_t count = (size_t)(plan->steps * plan->scenes * plan->endpoints);
    int reached = 0;
    int wrong = 0;
    assert_true(count <= CASES_MAX);
    memset(cases, 0, sizeof cases);
    for (size_t i = 0; i < count; i++) {
        int n = (int)i;
        cases[i].plan = plan;
        cases[i].fault = fault;
        cases[i].endpoint = n % plan->endpoints;
        cases[i].scene = plan->first_scene + n / plan->endpoints % plan->scenes;
        cases[i].step = 1 + n / plan->endpoints / plan->scenes;
    }
    sweep_beside(run_case, cases, sizeof cases[0], count, plan->beside);
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

void link_cut_before_every_request(void **state)
{
    sweep(*state, FAULT_CUT);
}

void answer_lost_of_every_request(void **state)
{
    sweep(*state, FAULT_LOSE);
}

void session_killed_before_every_request(void **state)
{
    sweep(*state, FAULT_EXPIRE);
}

void session_killed_after_every_request(void **state)
{
    sweep(*state, FAULT_EXPIRED);
}

void silence_from_every_request_on(void **state)
{
    sweep(*state, FAULT_STOP);
}
