/* A contender's user is told of a grant and of its end in turn, whatever ends it, at every moment of a grant; and nobody
 * else is granted before a leader that gives up has stopped. Shown with elections. */
#include "support/candidate.h"

#include "recipes/hold/contender.h"

#include <stdatomic.h>

/* The causes that end a grant. */
enum event {
    EVENT_DELETED,   /* an operator deletes the node */
    EVENT_RESIGN,    /* the user gives it up, and joins again */
    EVENT_CLOSE,     /* the user closes the handle */
    EVENT_SUSPENDED, /* the link breaks, stop_on_suspend */
    EVENT_EXPIRED,   /* the session ends */
    EVENTS,
};

/* One leader (a), one who waits (b), and one (other) on a's client whose callback keeps a's from running. */
struct scene {
    struct fake_zk *zk;
    enum event event;
    struct candidate a;
    struct candidate b;
    struct candidate other;
    atomic_bool go_on;     /* other may return */
    atomic_bool performed; /* the event came, in a callback */
};

static struct scene *scene; /* of the test that runs: callbacks know their candidate only */

static enum contender_state state_of(struct candidate *c)
{
    client_lock(c->client);
    enum contender_state state = c->election->c.state;
    client_unlock(c->client);
    return state;
}

static void perform(struct scene *s)
{
    char node[256];
    int64_t session = candidate_session(&s->a);
    candidate_node(&s->a, node, sizeof node);
    switch (s->event) {
    case EVENT_DELETED:
        fake_zk_delete(s->zk, node);
        break;
    case EVENT_RESIGN:
        assert_int_equal(conclave_election_resign(s->a.election, true), 0);
        break;
    case EVENT_CLOSE:
        conclave_election_close(s->a.election);
        break;
    case EVENT_SUSPENDED:
        fake_zk_link(s->zk, 0, FAKE_REFUSE);
        break;
    default:
        fake_zk_expire(s->zk, session);
        break;
    }
}

static bool gives_up(const struct scene *s)
{
    return s->event == EVENT_RESIGN || s->event == EVENT_CLOSE;
}

/* Inside on_elected of the first term: is_leader turns false while it runs. */
static void ends_while_it_starts(struct candidate *c)
{
    if (ELECTED(c) > 1) {
        return;
    }
    EVENTUALLY(LEADS(c));
    assert_int_equal(state_of(c), CONTENDER_STARTING);
    perform(scene);
    EVENTUALLY(!LEADS(c));
    assert_int_equal(state_of(c), CONTENDER_INTERRUPTED);
    if (gives_up(scene)) {
        STAYS(ELECTED(&scene->b) == 0, 20);
    }
}

/* Inside on_revoked: nobody else leads before it has returned, if it was given up. */
static void stops(struct candidate *c)
{
    assert_false(LEADS(c));
    assert_int_equal(state_of(c), CONTENDER_ENDING);
    if (gives_up(scene) && REVOKED(c) == 1) {
        STAYS(ELECTED(&scene->b) == 0, 20);
    }
}

static void ends_while_it_stops(struct candidate *c)
{
    stops(c);
    if (REVOKED(c) == 1) {
        perform(scene);
        sleep_ms(20);
        assert_int_equal(state_of(c), CONTENDER_ENDING);
        atomic_store(&scene->performed, true);
    }
}

static void waits(struct candidate *c)
{
    while (!atomic_load(&scene->go_on)) {
        sleep_ms(1);
    }
}

static void scene_begin(struct scene *s, struct fake_zk *zk, enum event event)
{
    memset(s, 0, sizeof *s);
    s->zk = zk;
    s->event = event;
    scene = s;
    make_parent(zk);
    candidate_connect_to(&s->a, zk, 0, "a", NULL, LONG_SESSION_MS);
    candidate_connect_to(&s->b, zk, 1, "b", NULL, LONG_SESSION_MS);
}

static void scene_join(struct scene *s)
{
    struct conclave_election_options options = candidate_options("a");
    options.lease.stop_on_suspend = true;
    candidate_join_with(&s->a, &options);
    EVENTUALLY(candidate_has_node(&s->a));
    candidate_join(&s->b);
    EVENTUALLY(candidate_has_node(&s->b));
}

/* A handle that was not closed goes on: it joins again, and one of the two leads. */
static void scene_end(struct scene *s)
{
    fake_zk_link(s->zk, 0, FAKE_UP);
    if (s->event == EVENT_CLOSE) {
        EVENTUALLY(CLOSED(&s->a) == 1);
        EVENTUALLY(LEADS(&s->b));
    } else {
        EVENTUALLY(candidate_has_node(&s->a));
        EVENTUALLY(LEADS(&s->a) != LEADS(&s->b));
    }
    candidate_finish(&s->b);
    if (s->other.client != NULL) {
        candidate_finish(&s->other);
    }
    candidate_finish(&s->a);
    check_tokens((struct candidate *[]){&s->a, &s->b}, 2);
}

/* The callback is due, and the dispatcher busy: the user never hears of that grant. */
static void revoked_before_the_user_knows(void **state)
{
    for (enum event event = 0; event < EVENTS; event++) {
        struct scene s;
        scene_begin(&s, *state, event);
        struct conclave_election_options options = candidate_options("other");
        options.path = "/app/other";
        options.ack = false;
        candidate_share(&s.other, &s.a, "other");
        s.other.in_elected = waits;
        candidate_join_with(&s.other, &options);
        EVENTUALLY(ELECTED(&s.other) == 1);
        scene_join(&s);
        EVENTUALLY(state_of(&s.a) == CONTENDER_GRANTED);
        assert_false(LEADS(&s.a));
        perform(&s);
        EVENTUALLY(state_of(&s.a) != CONTENDER_GRANTED);
        if (event == EVENT_SUSPENDED) { /* its node exists: it is granted again */
            assert_int_equal(state_of(&s.a), CONTENDER_WAITING);
            fake_zk_link(s.zk, 0, FAKE_UP);
            EVENTUALLY(state_of(&s.a) == CONTENDER_GRANTED);
        } else {
            EVENTUALLY(LEADS(&s.b));
        }
        assert_int_equal(ELECTED(&s.a), 0);
        assert_int_equal(REVOKED(&s.a), 0);
        atomic_store(&s.go_on, true);
        if (event == EVENT_SUSPENDED) {
            EVENTUALLY(LEADS(&s.a));
            assert_int_equal(ELECTED(&s.b), 0);
        }
        scene_end(&s);
    }
}

static void revoked_while_on_elected_runs(void **state)
{
    for (enum event event = 0; event < EVENTS; event++) {
        struct scene s;
        scene_begin(&s, *state, event);
        s.a.in_elected = ends_while_it_starts;
        s.a.in_revoked = stops;
        scene_join(&s);
        EVENTUALLY(REVOKED(&s.a) == 1);
        scene_end(&s);
    }
}

static void revoked_while_it_leads(void **state)
{
    for (enum event event = 0; event < EVENTS; event++) {
        struct scene s;
        scene_begin(&s, *state, event);
        s.a.in_revoked = stops;
        scene_join(&s);
        EVENTUALLY(STARTED(&s.a) == 1);
        perform(&s);
        EVENTUALLY(REVOKED(&s.a) == 1);
        scene_end(&s);
    }
}

/* A second reason comes while on_revoked runs for the first. */
static void revoked_while_on_revoked_runs(void **state)
{
    for (enum event event = 0; event < EVENTS; event++) {
        struct scene s;
        scene_begin(&s, *state, event);
        s.a.in_revoked = ends_while_it_stops;
        scene_join(&s);
        EVENTUALLY(STARTED(&s.a) == 1);
        assert_int_equal(conclave_election_resign(s.a.election, true), 0);
        EVENTUALLY(atomic_load(&s.performed));
        scene_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(revoked_before_the_user_knows),
        E_TEST(revoked_while_on_elected_runs),
        E_TEST(revoked_while_it_leads),
        E_TEST(revoked_while_on_revoked_runs),
    };
    return RUN_TESTS(tests);
}
