/*
 * A put, a take with its ack, a wait, and a round of a double barrier, with one fault at every
 * single request of the one or the other client in turn. Whatever the fault: no item is lost, none
 * is there twice (but for a put that said so), nobody waits for ever, no node of a session is left,
 * and nothing is told after the end.
 *
 * Every case has a server of its own and they run beside each other, as nearly all of their
 * time is waiting.
 */
#include "support/queue_user.h"

#include <conclave/barrier.h>

enum { STEPS = 16, BESIDE = 16, ROUND_MS = 2500 };

enum fault {
    FAULT_CUT,
    FAULT_LOSE,
    FAULT_EXPIRE,
    FAULT_EXPIRED,
    FAULT_STOP, /* nothing is answered any more until the session has expired */
    FAULTS
};

struct sweep_case {
    pthread_t thread;
    pthread_t silence;
    enum fault fault;
    int endpoint;
    int step;
    bool barrier;
    bool reached;
    _Atomic bool over;
    struct fake_zk *zk;
    const char *wrong; /* NULL: all was right */
};

struct side {
    struct conclave_client *client;
    struct conclave_recipes *recipes;
};

static void stop_endpoint(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, ((struct sweep_case *)ctx)->endpoint, FAKE_SILENT);
}

static void set_fault(struct fake_zk *zk, struct sweep_case *s)
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
    fake_zk_hook(zk, &h);
}

/* The silence ends when the session has. */
static void *end_silence(void *arg)
{
    struct sweep_case *s = arg;
    while (!s->over) {
        if (fake_zk_hooks_left(s->zk) == 0) {
            sleep_ms(SESSION_MS + 100);
            fake_zk_link(s->zk, s->endpoint, FAKE_UP);
            return NULL;
        }
        sleep_ms(5);
    }
    return NULL;
}

static bool side_open(struct side *side, struct fake_zk *zk, int endpoint)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.servers = fake_zk_address(zk, endpoint);
    options.session_timeout_ms = SESSION_MS;
    return conclave_client_open(&options, &side->client) == 0 &&
           conclave_client_start(side->client) == 0 &&
           conclave_recipes_open(side->client, &side->recipes) == 0;
}

static void side_close(struct side *side)
{
    conclave_recipes_destroy(side->recipes);
    conclave_client_close(side->client, 1000);
}

/* --- the queue --------------------------------------------------------------------------- */

/* Puts until it is sure; how often nobody could say. */
static int put_surely(struct conclave_queue *queue, const char *text)
{
    for (int unknown = 0;; unknown++) {
        int error = conclave_queue_put(queue, 500, text, strlen(text), PATIENCE_MS, NULL);
        if (error != 0 && error != CONCLAVE_SESSION_EXPIRED) {
            print_error("put: %s\n", conclave_errname(error));
            return -1;
        }
        if (error == 0) {
            return unknown;
        }
    }
}

static const char *take_all(struct sweep_case *s, struct conclave_queue *queue,
                            const char *const *texts, int unknown)
{
    int seen[2] = {0};
    while (seen[0] == 0 || seen[1] == 0) {
        struct conclave_item *item;
        char path[128];
        if (conclave_queue_take(queue, PATIENCE_MS, &item) != 0) {
            return "an item was lost, or a wake-up";
        }
        int which = item_is(item, texts[0]) ? 0 : 1;
        int error = conclave_item_ack(item, PATIENCE_MS);
        (void)snprintf(path, sizeof path, "%s/%s", QUEUE_PATH, conclave_item_name(item));
        conclave_item_free(item);
        if (error == CONCLAVE_ELOST && !fake_zk_exists(s->zk, path)) {
            error = 0; /* it was acknowledged, and the session ended with the answer */
        }
        if (error == 0) {
            seen[which]++;
        } else if (error != CONCLAVE_ELOST) { /* that comes again */
            return "an ack failed";
        }
    }
    return seen[0] + seen[1] <= 2 + unknown ? NULL : "an item came twice";
}

static const char *queue_scenario(struct sweep_case *s)
{
    static const char *const texts[] = {"first", "second"};
    struct conclave_queue_options options = queue_options();
    struct conclave_queue *queues[2];
    struct side sides[2];
    queue_make(s->zk);
    for (int i = 0; i < 2; i++) {
        if (!side_open(&sides[i], s->zk, i) ||
            conclave_queue_open(sides[i].recipes, &options, NULL, NULL, &queues[i]) != 0) {
            return "could not start";
        }
    }
    int unknown = put_surely(queues[0], texts[0]);
    int more = put_surely(queues[0], texts[1]);
    if (unknown < 0 || more < 0) {
        return "a put failed";
    }
    const char *wrong = take_all(s, queues[1], texts, unknown + more);
    if (wrong != NULL) {
        return wrong;
    }
    struct conclave_item *item;
    if (conclave_queue_take(queues[1], 30, &item) == 0) {
        conclave_item_free(item);
        if (unknown + more == 0) {
            return "an item too many";
        }
    }
    for (int i = 0; i < 2; i++) {
        if (conclave_queue_close_wait(queues[i], PATIENCE_MS) != 0) {
            return "did not close";
        }
        conclave_queue_destroy(queues[i]);
        side_close(&sides[i]);
    }
    return NULL;
}

/* --- the double barrier ---------------------------------------------------------------------- */

struct barrier_side {
    struct side side;
    struct conclave_double_barrier *barrier;
    pthread_t thread;
    int enters; /* attempts that a lost session ended */
    int error;
};

/* Until it has been in and out: whose session ends comes again. */
static void *barrier_run(void *arg)
{
    struct barrier_side *b = arg;
    for (b->enters = 0; b->enters < 5; b->enters++) {
        b->error = conclave_double_barrier_enter(b->barrier, ROUND_MS);
        if (b->error == 0) {
            b->error = conclave_double_barrier_leave(b->barrier, ROUND_MS);
            if (b->error == CONCLAVE_SESSION_EXPIRED) {
                b->error = 0; /* it has been in, and is out */
            }
            return NULL;
        }
        if (b->error != CONCLAVE_SESSION_EXPIRED && b->error != CONCLAVE_ECONFLICT) {
            return NULL;
        }
    }
    return NULL;
}

static const char *barrier_scenario(struct sweep_case *s)
{
    struct conclave_double_barrier_options options = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct barrier_side sides[2] = {0};
    options.path = "/app/barrier";
    options.count = 2;
    options.late_pass = true; /* whose session is killed inside comes late */
    for (int i = 0; i < 2; i++) {
        if (!side_open(&sides[i].side, s->zk, i) ||
            conclave_double_barrier_open(sides[i].side.recipes, &options, NULL, NULL,
                                         &sides[i].barrier) != 0 ||
            pthread_create(&sides[i].thread, NULL, barrier_run, &sides[i]) != 0) {
            return "could not start";
        }
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(sides[i].thread, NULL);
    }
    /* A member whose session is killed may be let in too late for the other, who has left. */
    bool killed = s->fault == FAULT_EXPIRE || s->fault == FAULT_EXPIRED || s->fault == FAULT_STOP;
    if (sides[0].error != 0 || sides[1].error != 0) {
        bool alone = killed && (sides[0].error == 0) != (sides[1].error == 0) &&
                     sides[0].error + sides[1].error == CONCLAVE_ETIMEDOUT;
        if (!alone) {
            return "did not pass";
        }
    }
    for (int i = 0; i < 2; i++) {
        if (conclave_double_barrier_close_wait(sides[i].barrier, PATIENCE_MS) != 0) {
            return "did not close";
        }
        conclave_double_barrier_destroy(sides[i].barrier);
        side_close(&sides[i].side);
    }
    if (!killed && fake_zk_exists(s->zk, "/app/barrier/round")) {
        return "the round was left";
    }
    return NULL;
}

/* --- the sweep --------------------------------------------------------------------------------- */

static void *run_case(void *arg)
{
    struct sweep_case *s = arg;
    s->zk = fake_zk_start();
    if (s->zk == NULL) {
        s->wrong = "no memory or socket";
        return NULL;
    }
    set_fault(s->zk, s); /* before the thread that looks whether it was met */
    bool silent = s->fault == FAULT_STOP;
    if (silent && pthread_create(&s->silence, NULL, end_silence, s) != 0) {
        s->wrong = "no thread";
        return NULL;
    }
    s->wrong = s->barrier ? barrier_scenario(s) : queue_scenario(s);
    s->over = true;
    if (silent) {
        (void)pthread_join(s->silence, NULL);
    }
    if (s->wrong != NULL) {
        return NULL; /* what still runs may use the server */
    }
    s->reached = fake_zk_hooks_left(s->zk) == 0;
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (fake_zk_ephemerals(s->zk) > 0 && now_ns() < end) {
        sleep_ms(1);
    }
    if (fake_zk_ephemerals(s->zk) > 0) {
        s->wrong = "a node was left";
    }
    fake_zk_stop(s->zk);
    return NULL;
}

static void sweep(bool barrier, enum fault fault)
{
    static struct sweep_case cases[2 * STEPS];
    size_t count = 0;
    int reached = 0;
    int wrong = 0;
    memset(cases, 0, sizeof cases);
    for (int step = 1; step <= STEPS; step++) {
        for (int endpoint = 0; endpoint < 2; endpoint++) {
            cases[count].barrier = barrier;
            cases[count].fault = fault;
            cases[count].endpoint = endpoint;
            cases[count++].step = step;
        }
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
    assert_true(reached >= (barrier ? STEPS : 12));
}

#define SWEEP(name, barrier, fault)                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        sweep(barrier, fault);                                                                     \
    }

SWEEP(queue_link_cut_before_every_request, false, FAULT_CUT)
SWEEP(queue_answer_lost_of_every_request, false, FAULT_LOSE)
SWEEP(queue_session_killed_before_every_request, false, FAULT_EXPIRE)
SWEEP(queue_session_killed_after_every_request, false, FAULT_EXPIRED)
SWEEP(queue_silence_from_every_request_on, false, FAULT_STOP)
SWEEP(barrier_link_cut_before_every_request, true, FAULT_CUT)
SWEEP(barrier_answer_lost_of_every_request, true, FAULT_LOSE)
SWEEP(barrier_session_killed_before_every_request, true, FAULT_EXPIRE)
SWEEP(barrier_session_killed_after_every_request, true, FAULT_EXPIRED)
SWEEP(barrier_silence_from_every_request_on, true, FAULT_STOP)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_link_cut_before_every_request),
        cmocka_unit_test(queue_answer_lost_of_every_request),
        cmocka_unit_test(queue_session_killed_before_every_request),
        cmocka_unit_test(queue_session_killed_after_every_request),
        cmocka_unit_test(queue_silence_from_every_request_on),
        cmocka_unit_test(barrier_link_cut_before_every_request),
        cmocka_unit_test(barrier_answer_lost_of_every_request),
        cmocka_unit_test(barrier_session_killed_before_every_request),
        cmocka_unit_test(barrier_session_killed_after_every_request),
        cmocka_unit_test(barrier_silence_from_every_request_on),
    };
    return RUN_TESTS(tests);
}
