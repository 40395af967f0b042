/*
 * Which batches are admitted. The rule case by case; and random streams as a cluster makes them,
 * with batches lost, doubled, late and out of order, servers that send again and servers that begin
 * anew: each batch is applied once, in its origin's order, the same on every server.
 */
#include "support/world.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static enum state_batch admit(struct world *w, int64_t origin, int64_t sequence, int64_t previous)
{
    struct batch_header header = {.origin = origin, .sequence = sequence, .previous = previous};
    return state_batch_admit(w->s, &header);
}

static void a_run_is_a_chain(void **state)
{
    struct world *w = *state;
    assert_int_equal(state_origin_sequence(w->s, 3), 0);
    assert_int_equal(admit(w, 3, 101, 100), STATE_BATCH_GAP);
    assert_int_equal(admit(w, 3, 100, 0), STATE_BATCH_APPLY);
    assert_int_equal(admit(w, 3, 100, 0), STATE_BATCH_DUPLICATE);
    assert_int_equal(admit(w, 3, 102, 101), STATE_BATCH_GAP);
    assert_int_equal(state_origin_sequence(w->s, 3), 100);
    assert_int_equal(admit(w, 3, 101, 100), STATE_BATCH_APPLY);
    assert_int_equal(admit(w, 3, 101, 100), STATE_BATCH_DUPLICATE);
    assert_int_equal(admit(w, 3, 100, 0), STATE_BATCH_DUPLICATE);
    assert_int_equal(admit(w, 3, 102, 101), STATE_BATCH_APPLY);
    assert_int_equal(state_origin_sequence(w->s, 3), 102);
}

static void a_new_run_overtakes_the_old(void **state)
{
    struct world *w = *state;
    admit(w, 3, 100, 0);
    assert_int_equal(admit(w, 3, 200, 0), STATE_BATCH_APPLY);
    assert_int_equal(admit(w, 3, 101, 100), STATE_BATCH_DUPLICATE);
    assert_int_equal(admit(w, 3, 150, 0), STATE_BATCH_DUPLICATE);
    assert_int_equal(admit(w, 3, 201, 100), STATE_BATCH_GAP);
    assert_int_equal(admit(w, 3, 201, 200), STATE_BATCH_APPLY);
}

static void origins_do_not_meet(void **state)
{
    struct world *w = *state;
    static const int64_t ids[] = {5, 1, 254, 3, 4, 2, 9, 8, 7, 6, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        assert_int_equal(admit(w, ids[i], 10 + (int64_t)i, 0), STATE_BATCH_APPLY);
    }
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        assert_int_equal(state_origin_sequence(w->s, ids[i]), 10 + (int64_t)i);
        assert_int_equal(admit(w, ids[i], 30, 10 + (int64_t)i), STATE_BATCH_APPLY);
    }
    assert_int_equal(state_origin_sequence(w->s, 10), 0);
}

/* A batch that is not sent again leaves no trace. */
static void the_leaders_and_old_ones_pass(void **state)
{
    struct world *w = *state;
    uint64_t digest = state_digest(w->s);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(admit(w, BATCH_ORIGIN_LEADER, 5, 4), STATE_BATCH_APPLY);
        assert_int_equal(admit(w, 3, 5, BATCH_PREVIOUS_UNKNOWN), STATE_BATCH_APPLY);
    }
    assert_int_equal(state_origin_sequence(w->s, 0), 0);
    assert_int_equal(state_origin_sequence(w->s, 3), 0);
    assert_true(state_digest(w->s) == digest);
    admit(w, 3, 5, 0);
    assert_true(state_digest(w->s) != digest);
}

/* A sequence that does not grow could be admitted again and again. */
static void sequences_grow(void **state)
{
    struct world *w = *state;
    assert_int_equal(admit(w, 3, 0, 0), STATE_BATCH_DUPLICATE);
    assert_int_equal(admit(w, 3, -1, 0), STATE_BATCH_DUPLICATE);
    assert_int_equal(admit(w, 3, 7, 0), STATE_BATCH_APPLY);
    assert_int_equal(admit(w, 3, 7, 7), STATE_BATCH_DUPLICATE);
    assert_int_equal(admit(w, 3, 6, 7), STATE_BATCH_DUPLICATE);
}

/* --- streams ---------------------------------------------------------------------------------- */

enum { ORIGINS = 3, BATCHES = 400, LOG_ENTRIES = 4000 };

/* The batches of an origin: batch i creates nodes numbered i. */
struct sender {
    int64_t sequences[BATCHES + 1]; /* of each batch, from 1; [0] is 0 */
    int64_t previous[BATCHES + 1];
    int first;                /* batch of this run */
    int made;                 /* batches so far */
    int settled;              /* all up to this one are applied, as far as the origin knows */
    int applied[BATCHES + 1]; /* how often */
    int last_applied;
    int sent; /* next to send */
};

struct cluster {
    struct prng prng;
    struct state *states[2]; /* the second one is now and then replaced by a restored first */
    struct effects e;
    struct maker m;
    struct sender senders[ORIGINS + 1]; /* from 1 */
    int verdicts[3];
};

static unsigned below(struct cluster *c, unsigned n)
{
    return (unsigned)(prng_next(&c->prng) % n);
}

static void make_batch(struct cluster *c, struct sender *s)
{
    bool first = s->made + 1 == s->first;
    s->made++;
    s->sequences[s->made] = s->sequences[s->made - 1] + 1 + (first ? below(c, 1000) : 0);
    s->previous[s->made] = first ? 0 : s->sequences[s->made - 1];
}

/* It forgets what it sent, some of which may be on its way still. */
static void begin_anew(struct sender *s)
{
    s->first = s->made + 1;
    s->settled = s->made;
    s->sent = s->first;
}

static void apply_batch(struct cluster *c, int origin, int number)
{
    struct sender *s = &c->senders[origin];
    s->applied[number]++;
    assert_true(number > s->last_applied);
    s->last_applied = number;
    for (int i = 0; i < 2; i++) {
        char path[32];
        for (int n = 0; n < number % 3; n++) {
            snprintf(path, sizeof path, "/o%d/%d-%d", origin, number, n);
            assert_int_equal(apply_from(c->states[i], &c->e, &c->m, origin, origin, WIRE_CREATE,
                                        make_create(&c->m, path, "", 0)),
                             0);
        }
    }
}

/* One entry of the log: every server judges it by itself. */
static enum state_batch deliver(struct cluster *c, int origin, int number)
{
    struct sender *s = &c->senders[origin];
    struct batch_header header = {
        .origin = origin, .sequence = s->sequences[number], .previous = s->previous[number]};
    int64_t zxid = state_zxid(c->states[0]);
    enum state_batch verdict = state_batch_admit(c->states[0], &header);
    assert_int_equal(state_batch_admit(c->states[1], &header), verdict);
    c->verdicts[verdict]++;
    if (verdict == STATE_BATCH_APPLY) {
        apply_batch(c, origin, number);
        assert_true(number < s->first || number == s->settled + 1);
        s->settled = number >= s->first ? number : s->settled;
    } else {
        assert_int_equal(state_zxid(c->states[0]), zxid);
    }
    return verdict;
}

/* A restored server goes on like the one whose snapshot it has. */
static void restore_second(struct cluster *c)
{
    struct buf snapshot;
    struct state *restored;
    buf_init(&snapshot, 0);
    assert_int_equal(state_snapshot_begin(c->states[0]), 0);
    int rc;
    while ((rc = state_snapshot_step(c->states[0], 300, &snapshot)) == 1) {}
    assert_int_equal(rc, 0);
    assert_int_equal(state_restore(buf_slice(&snapshot), &hash_key_fixed, &restored), 0);
    assert_true(state_digest(restored) == state_digest(c->states[1]));
    state_destroy(c->states[1]);
    c->states[1] = restored;
    buf_finish(&snapshot);
}

/* Possible events between two entries. */
static void one_entry(struct cluster *c)
{
    int origin = 1 + (int)below(c, ORIGINS);
    struct sender *s = &c->senders[origin];
    if (s->made < BATCHES && below(c, 3) == 0) {
        make_batch(c, s);
    }
    if (s->made == 0) {
        return;
    }
    if (s->made < BATCHES && below(c, 60) == 0) {
        begin_anew(s);
        make_batch(c, s);
    }
    if (below(c, 8) == 0) { /* something late, of any run */
        (void)deliver(c, origin, 1 + (int)below(c, (unsigned)s->made));
        return;
    }
    if (below(c, 20) == 0) { /* a new leader: all that is not settled once more */
        s->sent = s->settled + 1;
    }
    if (s->sent > s->made) {
        return;
    }
    int number = s->sent++;
    if (below(c, 6) != 0 && deliver(c, origin, number) == STATE_BATCH_GAP) {
        s->sent = s->settled + 1;
    }
}

static void run_stream(uint64_t seed)
{
    struct cluster c = {.prng = {seed}};
    effects_init(&c.e);
    maker_init(&c.m);
    c.states[0] = state_create(&hash_key_fixed);
    c.states[1] = state_create(&hash_key_fixed);
    for (int origin = 1; origin <= ORIGINS; origin++) {
        char path[8];
        snprintf(path, sizeof path, "/o%d", origin);
        c.senders[origin].first = 1;
        c.senders[origin].sent = 1;
        for (int i = 0; i < 2; i++) {
            apply_from(c.states[i], &c.e, &c.m, origin, origin, WIRE_CREATE_SESSION,
                       make_session(&c.m, origin, 4000));
            apply_from(c.states[i], &c.e, &c.m, origin, origin, WIRE_CREATE,
                       make_create(&c.m, path, "", 0));
        }
    }
    for (int i = 0; i < LOG_ENTRIES; i++) {
        one_entry(&c);
        if (below(&c, 100) == 0) {
            restore_second(&c);
        }
    }
    for (int origin = 1; origin <= ORIGINS; origin++) {
        struct sender *s = &c.senders[origin];
        for (int number = s->settled + 1; number <= s->made; number++) {
            assert_int_equal(deliver(&c, origin, number), STATE_BATCH_APPLY);
        }
        for (int number = 1; number <= s->made; number++) {
            assert_int_equal(s->applied[number] > 1, 0);
            assert_true(s->applied[number] == 1 || number < s->first);
        }
        assert_int_equal(state_origin_sequence(c.states[0], origin), s->sequences[s->made]);
    }
    assert_true(state_digest(c.states[0]) == state_digest(c.states[1]));
    assert_true(c.verdicts[STATE_BATCH_APPLY] > 300 && c.verdicts[STATE_BATCH_DUPLICATE] > 100 &&
                c.verdicts[STATE_BATCH_GAP] > 50);
    state_destroy(c.states[0]);
    state_destroy(c.states[1]);
    effects_finish(&c.e);
    maker_finish(&c.m);
}

static void streams(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run_stream(seed);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(a_run_is_a_chain),    T(a_new_run_overtakes_the_old),
        T(origins_do_not_meet), T(the_leaders_and_old_ones_pass),
        T(sequences_grow),      cmocka_unit_test(streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
