/*
 * Two candidates and a hand-over, with one fault at every single request of the one or the
 * other in turn. Whatever the fault: no node is left, no two lead at once, there is a leader
 * in the end, callbacks alternate, and none comes after on_closed.
 *
 * Every case has a server of its own and they run beside each other, as nearly all of their
 * time is waiting.
 */
#include "support/candidate.h"

enum { STEPS = 18, BESIDE = 18 };

enum fault {
    FAULT_CUT,     /* the link is cut before the request arrives */
    FAULT_LOSE,    /* the request is carried out, its answer lost */
    FAULT_EXPIRE,  /* the session is killed by force before it */
    FAULT_EXPIRED, /* the session is killed by force after it */
    FAULT_STOP,    /* nothing is answered any more until the session has expired */
    FAULTS
};

struct sweep_case {
    pthread_t thread;
    enum fault fault;
    int endpoint; /* whose requests */
    int step;
    bool silence_ended;
    bool reached;      /* there was such a request */
    const char *wrong; /* NULL: all was right */
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

static bool start(struct candidate *c, struct fake_zk *zk, int endpoint, const char *name)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_election_options election = candidate_options(name);
    memset(c, 0, sizeof *c);
    c->zk = zk;
    c->endpoint = endpoint;
    (void)pthread_mutex_init(&c->lock, NULL);
    options.servers = fake_zk_address(zk, endpoint);
    options.session_timeout_ms = SESSION_MS;
    return conclave_client_open(&options, &c->client) == 0 &&
           conclave_client_start(c->client) == 0 &&
           conclave_recipes_open(c->client, &c->recipes) == 0 &&
           conclave_election_open(c->recipes, &election, &candidate_callbacks, c, &c->election) ==
               0;
}

/* The silence ends when the session has: what is held back then comes too late. The fault may be
 * met at any time, so this is asked for in every wait. */
static void end_silence(struct fake_zk *zk, struct sweep_case *s)
{
    if (s->fault == FAULT_STOP && !s->silence_ended && fake_zk_hooks_left(zk) == 0) {
        s->silence_ended = true;
        sleep_ms(SESSION_MS + 100);
        fake_zk_link(zk, s->endpoint, FAKE_UP);
    }
}

static bool close_candidate(struct sweep_case *s, struct fake_zk *zk, struct candidate *c)
{
    for (int waited = 0; waited < PATIENCE_MS; waited += 20) {
        if (conclave_election_close_wait(c->election, 20) == 0) {
            conclave_election_destroy(c->election);
            conclave_recipes_destroy(c->recipes);
            conclave_client_close(c->client, 1000);
            return true;
        }
        end_silence(zk, s);
    }
    return false;
}

static bool eventually_leads(struct sweep_case *s, struct fake_zk *zk, struct candidate *c)
{
    struct conclave_token token;
    for (int waited = 0; waited < PATIENCE_MS; waited += 20) {
        if (conclave_election_wait(c->election, 20, &token) == 0) {
            return true;
        }
        end_silence(zk, s);
    }
    return false;
}

/* Grants and ends of both, as intervals. */
static const char *check(struct candidate *const *all, bool apart)
{
    for (size_t a = 0; a < 2; a++) {
        if (all[a]->broken != 0 || all[a]->closed != 1 || all[a]->elected != all[a]->revoked) {
            return "callbacks did not alternate, or came after the end";
        }
        for (int i = 0; i < all[a]->elected; i++) {
            for (int j = 0; j < all[1 - a]->elected; j++) {
                const struct term *x = &all[a]->terms[i];
                const struct term *y = &all[1 - a]->terms[j];
                if (term_was_void(x) || term_was_void(y)) {
                    continue;
                }
                if (y->from_ns >= x->from_ns && y->token <= x->token) {
                    return "a later lead has no larger token";
                }
                if (apart && y->from_ns >= x->from_ns && y->from_ns < x->over_ns) {
                    return "two led at once";
                }
            }
        }
    }
    return NULL;
}

static const char *scenario(struct sweep_case *s, struct fake_zk *zk, struct candidate *a,
                            struct candidate *b)
{
    set_fault(zk, s);
    if (!start(a, zk, 0, "a")) {
        return "could not start";
    }
    if (!eventually_leads(s, zk, a)) {
        return "nobody came to lead";
    }
    if (!start(b, zk, 1, "b")) {
        return "could not start";
    }
    sleep_ms(60); /* b settles, or runs into its fault */
    end_silence(zk, s);
    conclave_election_close(a->election); /* hand-over, with the fault in it or not */
    if (!eventually_leads(s, zk, b)) {
        return "nobody took over";
    }
    if (!close_candidate(s, zk, a) || !close_candidate(s, zk, b)) {
        return "did not close";
    }
    s->reached = fake_zk_hooks_left(zk) == 0;
    fake_zk_hooks_clear(zk);
    return NULL;
}

static void *run_case(void *arg)
{
    struct sweep_case *s = arg;
    struct candidate *a = calloc(1, sizeof *a);
    struct candidate *b = calloc(1, sizeof *b);
    struct fake_zk *zk = fake_zk_start();
    if (a == NULL || b == NULL || zk == NULL) {
        s->wrong = "no memory or socket";
        return NULL;
    }
    s->wrong = scenario(s, zk, a, b);
    if (s->wrong != NULL) {
        return NULL; /* what still runs may use a and b */
    }
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (fake_zk_ephemerals(zk) > 0 && now_ns() < end) {
        sleep_ms(1);
    }
    if (fake_zk_ephemerals(zk) > 0 || fake_zk_child_count(zk, ELECTION_PATH) > 0) {
        s->wrong = "a node was left";
    } else {
        bool forced = s->fault == FAULT_EXPIRE || s->fault == FAULT_EXPIRED;
        s->wrong = check((struct candidate *[]){a, b}, !forced);
    }
    fake_zk_stop(zk);
    free(a);
    free(b);
    return NULL;
}

static void sweep(enum fault fault)
{
    static struct sweep_case cases[2 * STEPS];
    size_t count = 0;
    int reached = 0;
    int wrong = 0;
    memset(cases, 0, sizeof cases);
    for (int step = 1; step <= STEPS; step++) {
        for (int endpoint = 0; endpoint < 2; endpoint++) {
            cases[count++] =
                (struct sweep_case){.fault = fault, .endpoint = endpoint, .step = step};
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
    assert_true(reached >= STEPS); /* all of the first one, some of the second */
}

static void link_cut_before_every_request(void **state)
{
    sweep(FAULT_CUT);
}

static void answer_lost_of_every_request(void **state)
{
    sweep(FAULT_LOSE);
}

static void session_killed_before_every_request(void **state)
{
    sweep(FAULT_EXPIRE);
}

static void session_killed_after_every_request(void **state)
{
    sweep(FAULT_EXPIRED);
}

static void silence_from_every_request_on(void **state)
{
    sweep(FAULT_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_cut_before_every_request),
        cmocka_unit_test(answer_lost_of_every_request),
        cmocka_unit_test(session_killed_before_every_request),
        cmocka_unit_test(session_killed_after_every_request),
        cmocka_unit_test(silence_from_every_request_on),
    };
    return RUN_TESTS(tests);
}
