/*
 * Two candidates and a hand-over, with one fault at every single request (support/sweep.h). Whatever the fault: no
 * node is left, no two lead at once, there is a leader in the end, callbacks alternate, and none comes after on_closed.
 */
#include "support/sweep.h"

enum { STEPS = 18, FIXED_STEPS = 12, FIXED_SCENE = 1 };

/* An election of which one case is played. */
struct play {
    struct sweep_case *s;
    struct candidate all[2];
    bool silence_ended;
};

static bool start(struct play *p, int endpoint, const char *name)
{
    struct fake_zk *zk = p->s->zk;
    struct candidate *c = &p->all[endpoint];
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_election_options election = candidate_options(name);
    if (p->s->scene == FIXED_SCENE) {
        election.naming = CONCLAVE_NAMING_FIXED;
    }
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
static void end_silence(struct play *p)
{
    struct sweep_case *s = p->s;
    if (s->fault == FAULT_STOP && !p->silence_ended && fake_zk_hooks_left(s->zk) == 0) {
        p->silence_ended = true;
        sleep_ms(SESSION_MS + 100);
        fake_zk_link(s->zk, s->endpoint, FAKE_UP);
    }
}

static bool close_candidate(struct play *p, struct candidate *c)
{
    for (int waited = 0; waited < PATIENCE_MS; waited += 20) {
        if (conclave_election_close_wait(c->election, 20) == 0) {
            conclave_election_destroy(c->election);
            conclave_recipes_destroy(c->recipes);
            conclave_client_close(c->client, 1000);
            return true;
        }
        end_silence(p);
    }
    return false;
}

static bool eventually_leads(struct play *p, struct candidate *c)
{
    struct conclave_token token;
    for (int waited = 0; waited < PATIENCE_MS; waited += 20) {
        if (conclave_election_wait(c->election, 20, &token) == 0) {
            return true;
        }
        end_silence(p);
    }
    return false;
}

/* Grants and ends of both, as intervals. */
static const char *check(const struct candidate *all, bool apart)
{
    for (size_t a = 0; a < 2; a++) {
        if (all[a].broken != 0 || all[a].closed != 1 || all[a].elected != all[a].revoked) {
            return "callbacks did not alternate, or came after the end";
        }
        for (int i = 0; i < all[a].elected; i++) {
            for (int j = 0; j < all[1 - a].elected; j++) {
                const struct term *x = &all[a].terms[i];
                const struct term *y = &all[1 - a].terms[j];
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

static const char *scenario(struct play *p)
{
    struct candidate *a = &p->all[0];
    struct candidate *b = &p->all[1];
    sweep_set_fault(p->s);
    if (!start(p, 0, "a")) {
        return "could not start";
    }
    if (!eventually_leads(p, a)) {
        return "nobody came to lead";
    }
    if (!start(p, 1, "b")) {
        return "could not start";
    }
    sleep_ms(60); /* b settles, or runs into its fault */
    end_silence(p);
    conclave_election_close(a->election); /* hand-over, with the fault in it or not */
    if (!eventually_leads(p, b)) {
        return "nobody took over";
    }
    if (!close_candidate(p, a) || !close_candidate(p, b)) {
        return "did not close";
    }
    sweep_end_fault(p->s);
    return check(p->all, !fault_is_forced(p->s));
}

static const char *hand_over(struct sweep_case *s)
{
    struct play *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return "no memory";
    }
    p->s = s;
    const char *wrong = scenario(p);
    if (wrong == NULL) {
        free(p);
    }
    return wrong;
}

int main(void)
{
    /* All of the first one's requests are met, some of the second's. */
    static const char *const names[] = {"election", "election on one node"};
    static struct sweep_plan plan = {
        .names = names,
        .scenes = 1,
        .endpoints = 2,
        .steps = STEPS,
        .beside = 16,
        .least = STEPS,
        .parent = ELECTION_PATH,
        .sets_fault = true,
        .play = hand_over,
    };
    static struct sweep_plan fixed;
    fixed = plan;
    fixed.first_scene = FIXED_SCENE;
    fixed.steps = FIXED_STEPS;
    fixed.least = FIXED_STEPS;
    fixed.parent = "/app";
    const struct CMUnitTest tests[] = {SWEEP_TESTS(&plan), SWEEP_TESTS(&fixed)};
    return RUN_TESTS(tests);
}
