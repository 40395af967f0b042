/* Expiry under a fake clock: the window (timeout, timeout + tick], pauses, re-arming, the ends of time. */
#include "session/session.h"

#include "base/random.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TICK = 2000 };

struct fired {
    int64_t ids[64];
    size_t count;
    struct session_tracker *tracker;
    int64_t remove; /* id to remove from inside, 0: the one that fired, -1: none */
};

static int64_t on_fired(void *ctx, int64_t id, int64_t heard_ms, int32_t timeout_ms)
{
    struct fired *fired = ctx;
    assert_true(fired->count < 64);
    fired->ids[fired->count++] = id;
    if (fired->remove >= 0) {
        session_tracker_remove(fired->tracker, fired->remove == 0 ? id : fired->remove);
    }
    return SESSION_ENDS;
}

static size_t expire(struct session_tracker *t, int64_t now_ms, struct fired *ret)
{
    *ret = (struct fired){.tracker = t, .remove = -1};
    session_tracker_expire(t, now_ms, on_fired, ret);
    return ret->count;
}

static struct session_tracker *create(int32_t tick_ms)
{
    struct session_tracker *t = session_tracker_create(tick_ms);
    assert_non_null(t);
    return t;
}

static void add(struct session_tracker *t, int64_t id, int32_t timeout_ms, int64_t now_ms)
{
    assert_int_equal(session_tracker_add(t, id, timeout_ms, now_ms), 0);
}

static void test_rounding(void **state)
{
    static const struct {
        int64_t now;
        int32_t timeout;
        int64_t due; /* (now + timeout) / tick * tick + tick, as ExpiryQueue.roundToNextInterval */
    } rows[] = {
        {0, 0, 2000},
        {0, 1999, 2000},
        {0, 2000, 4000},
        {1, 4000, 6000},
        {1999, 4001, 8000},
        {4000, 4000, 10000},
        {-1, 0, 0},
        {-1, 1, 2000},
        {-4001, 2000, -2000},
        {-4001, 2001, 0},
        {0, INT32_MAX, 2147484000},
        {7, 40000, 42000},
        {1000000007, 4000, 1000006000},
        {0, 512000, 514000},
        {0, 511999, 512000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct session_tracker *t = create(TICK);
        struct fired fired;
        add(t, 5, rows[i].timeout, rows[i].now);
        if (rows[i].timeout < 255 * TICK) {
            assert_int_equal(session_tracker_deadline(t), rows[i].due);
        } else {
            assert_true(session_tracker_deadline(t) <= rows[i].due);
        }
        assert_int_equal(expire(t, rows[i].due - 1, &fired), 0);
        assert_int_equal(expire(t, rows[i].due, &fired), 1);
        assert_int_equal(fired.ids[0], 5);
        session_tracker_destroy(t);
    }
}

static void test_life_and_death(void **state)
{
    struct session_tracker *t = create(TICK);
    struct fired fired;
    assert_int_equal(session_tracker_deadline(t), INT64_MAX);
    assert_int_equal(expire(t, 1000000, &fired), 0);
    assert_false(session_tracker_touch(t, 1, 0));
    session_tracker_remove(t, 1);
    assert_int_equal(session_tracker_add(t, 1, -1, 0), CONCLAVE_EINVAL);
    assert_int_equal(session_tracker_count(t), 0);

    add(t, 1, 4000, 1000000);
    add(t, -2, 4000, 1000000);
    assert_int_equal(session_tracker_count(t), 2);
    assert_int_equal(session_tracker_deadline(t), 1006000);
    assert_true(session_tracker_touch(t, 1, 1003000));
    assert_int_equal(expire(t, 1006000, &fired), 1);
    assert_int_equal(fired.ids[0], -2);
    session_tracker_remove(t, -2);
    assert_int_equal(session_tracker_deadline(t), 1008000);
    /* Known already: the timeout is replaced, shorter and longer. */
    add(t, 1, 2000, 1006000);
    assert_int_equal(session_tracker_deadline(t), 1010000);
    add(t, 1, 0, 1006000);
    assert_int_equal(session_tracker_deadline(t), 1008000);
    add(t, 1, 10000, 1006000);
    assert_int_equal(session_tracker_deadline(t), 1018000);
    assert_int_equal(session_tracker_count(t), 1);
    session_tracker_remove(t, 1);
    assert_int_equal(session_tracker_deadline(t), INT64_MAX);
    session_tracker_destroy(t);
    session_tracker_destroy(NULL);
}

/* Named, but its close did not come through: named again one timeout later, not before. */
static void test_named_again(void **state)
{
    struct session_tracker *t = create(TICK);
    struct fired fired;
    add(t, 1, 4000, 0);
    assert_int_equal(expire(t, 6000, &fired), 1);
    assert_int_equal(session_tracker_count(t), 1);
    assert_int_equal(expire(t, 6000, &fired), 0);
    assert_int_equal(session_tracker_deadline(t), 12000);
    assert_int_equal(expire(t, 11999, &fired), 0);
    assert_int_equal(expire(t, 12000, &fired), 1);
    /* It may live after all: a sign of life counts from now. */
    assert_true(session_tracker_touch(t, 1, 15000));
    assert_int_equal(expire(t, 19999, &fired), 0);
    assert_int_equal(expire(t, 20000, &fired), 1);
    session_tracker_destroy(t);
}

static void test_removal_from_inside(void **state)
{
    struct session_tracker *t = create(TICK);
    for (int64_t id = 1; id <= 10; id++) {
        add(t, id, 4000, 0);
    }
    struct fired fired = {.tracker = t, .remove = 0};
    session_tracker_expire(t, 6000, on_fired, &fired);
    assert_int_equal(fired.count, 10);
    assert_int_equal(session_tracker_count(t), 0);

    /* The first to fire removes another that is due, which then does not fire. */
    for (int64_t id = 1; id <= 3; id++) {
        add(t, id, 4000, 10000);
    }
    fired = (struct fired){.tracker = t, .remove = 2};
    session_tracker_expire(t, 16000, on_fired, &fired);
    assert_int_equal(fired.count, 2);
    assert_int_equal(fired.ids[0], 1);
    assert_int_equal(fired.ids[1], 3);
    session_tracker_destroy(t);
}

static void test_pause(void **state)
{
    struct session_tracker *t = create(TICK);
    struct fired fired;
    add(t, 1, 4000, 1000); /* due at 6000 */
    session_tracker_pause(t, 0);
    session_tracker_pause(t, -500);
    assert_int_equal(session_tracker_deadline(t), 6000);
    session_tracker_pause(t, 7500); /* stopped from 2000 to 9500 */
    assert_int_equal(session_tracker_deadline(t), 13500);
    assert_int_equal(expire(t, 9500, &fired), 0);
    add(t, 2, 4000, 9500); /* after the pause: the whole window as ever */
    assert_int_equal(expire(t, 13499, &fired), 0);
    assert_int_equal(expire(t, 13500, &fired), 2 - 1);
    assert_int_equal(fired.ids[0], 1);
    session_tracker_remove(t, 1);
    assert_int_equal(expire(t, 13501, &fired), 0);
    assert_int_equal(session_tracker_deadline(t), 15500);
    assert_int_equal(expire(t, 15500, &fired), 1);
    assert_int_equal(fired.ids[0], 2);
    session_tracker_remove(t, 2);
    /* A pause that is told longer than it was makes the own clock go back: nothing gets lost. */
    add(t, 3, 4000, 20000);
    session_tracker_pause(t, 1000000);
    add(t, 4, 4000, 20001);
    assert_true(session_tracker_deadline(t) <= 20001 + 4000 + TICK);
    assert_int_equal(expire(t, 20001 + 4000, &fired), 0);
    assert_int_equal(expire(t, 20001 + 4000 + TICK, &fired), 1);
    assert_int_equal(fired.ids[0], 4);
    session_tracker_destroy(t);
}

/* Near the ends of int64 nothing overflows, and nothing dies before its time. */
static void test_ends_of_time(void **state)
{
    static const int32_t ticks[] = {1, 3, TICK, INT32_MAX};
    for (size_t i = 0; i < sizeof ticks / sizeof ticks[0]; i++) {
        struct session_tracker *t = create(ticks[i]);
        struct fired fired;
        add(t, 1, 4000, INT64_MAX - 10);
        assert_int_equal(expire(t, INT64_MAX - 1, &fired), 0);
        assert_int_equal(expire(t, INT64_MAX, &fired), 0);
        assert_true(session_tracker_touch(t, 1, INT64_MAX));
        assert_true(session_tracker_deadline(t) > INT64_MAX - INT32_MAX - (int64_t)INT32_MAX);
        session_tracker_pause(t, INT64_MAX);
        session_tracker_pause(t, INT64_MAX);
        assert_true(session_tracker_touch(t, 1, INT64_MAX));
        assert_int_equal(expire(t, INT64_MAX, &fired), 0);
        session_tracker_destroy(t);

        t = create(ticks[i]);
        add(t, 1, 4000, INT64_MIN);
        assert_int_equal(expire(t, INT64_MIN + 4000, &fired), 0);
        assert_int_equal(expire(t, INT64_MIN + 4001 + (int64_t)INT32_MAX, &fired), 1);
        assert_int_equal(expire(t, INT64_MAX, &fired), 1);
        session_tracker_destroy(t);
    }
}

/* --- a naive model: every session with its last sign of life, looked at one by one ---------------- */

enum { MODEL_SESSIONS = 40 };

struct model_session {
    bool known;
    int32_t timeout;
    int64_t seen; /* last sign of life, on the clock without the pauses */
    bool fired;
};

struct model {
    struct model_session sessions[MODEL_SESSIONS];
    int64_t lost;
};

static int64_t on_model_fired(void *ctx, int64_t id, int64_t heard_ms, int32_t timeout_ms)
{
    struct model *m = ctx;
    assert_in_range(id, 0, MODEL_SESSIONS - 1);
    assert_true(m->sessions[id].known);
    assert_false(m->sessions[id].fired); /* once per call */
    assert_int_equal(timeout_ms, m->sessions[id].timeout);
    m->sessions[id].fired = true;
    return SESSION_ENDS;
}

/* The least multiple of the tick above seen + timeout. */
static int64_t model_due(const struct model_session *s, int32_t tick)
{
    int64_t due = s->seen + s->timeout + 1;
    return due + (tick - due % tick) % tick;
}

static void model_expire(struct model *m, struct session_tracker *t, int64_t now, int32_t tick)
{
    int64_t deadline = session_tracker_deadline(t);
    session_tracker_expire(t, now, on_model_fired, m);
    int64_t own = now - m->lost;
    for (int i = 0; i < MODEL_SESSIONS; i++) {
        struct model_session *s = &m->sessions[i];
        if (!s->known) {
            assert_false(s->fired);
            continue;
        }
        assert_int_equal(s->fired, own >= model_due(s, tick));
        if (s->fired) {
            assert_true(deadline <= now);
            assert_true(own - s->seen > s->timeout);
            s->seen = own;
            s->fired = false;
        } else {
            assert_true(own - s->seen < s->timeout + tick);
        }
    }
}

static void run_model(uint64_t seed)
{
    static const int32_t ticks[] = {1, 7, 100, 2000};
    struct prng rnd = {seed};
    int32_t tick = ticks[seed % 4];
    int32_t longest = seed % 3 == 0 ? tick * 1000 : tick * 20;
    struct session_tracker *t = create(tick);
    struct model m = {.lost = 0};
    int64_t now = (int64_t)(prng_next(&rnd) % 1000000000);
    size_t count = 0;
    for (int i = 0; i < 3000; i++) {
        int64_t id = (int64_t)(prng_next(&rnd) % MODEL_SESSIONS);
        struct model_session *s = &m.sessions[id];
        uint64_t what = prng_next(&rnd) % 100;
        if (what < 10) {
            int32_t timeout = (int32_t)(prng_next(&rnd) % (uint64_t)(longest + 1));
            add(t, id, timeout, now);
            count += s->known ? 0 : 1;
            *s = (struct model_session){true, timeout, now - m.lost, false};
        } else if (what < 60) {
            assert_int_equal(session_tracker_touch(t, id, now), s->known);
            s->seen = now - m.lost;
        } else if (what < 64) {
            session_tracker_remove(t, id);
            count -= s->known ? 1 : 0;
            s->known = false;
        } else if (what < 65) {
            int64_t lost = (int64_t)(prng_next(&rnd) % (uint64_t)(tick * 30));
            now += lost;
            m.lost += lost;
            session_tracker_pause(t, lost);
        } else if (what < 90) {
            now += (int64_t)(prng_next(&rnd) % (uint64_t)(what == 65 ? tick * 400 : tick + 1));
            model_expire(&m, t, now, tick);
        } else if (session_tracker_deadline(t) != INT64_MAX) {
            /* To the millisecond: nobody just before the deadline. */
            int64_t deadline = session_tracker_deadline(t);
            if (deadline - 1 > now) {
                model_expire(&m, t, deadline - 1, tick);
            }
            now = deadline > now ? deadline : now;
            model_expire(&m, t, now, tick);
        }
        assert_int_equal(session_tracker_count(t), count);
        assert_int_equal(session_tracker_deadline(t) == INT64_MAX, count == 0);
    }
    session_tracker_destroy(t);
}

static void test_model(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        run_model(seed);
    }
}

/* The caller sleeps until the deadline and calls, over and over: nobody dies early or late. */
static void test_deadline_is_enough(void **state)
{
    struct session_tracker *t = create(TICK);
    struct prng rnd = {3};
    struct model m = {.lost = 0};
    for (int64_t id = 0; id < MODEL_SESSIONS; id++) {
        int32_t timeout = (int32_t)(prng_next(&rnd) % 2000000); /* up to 1,000 ticks */
        add(t, id, timeout, 5);
        m.sessions[id] = (struct model_session){true, timeout, 5, false};
    }
    int64_t now = 5;
    for (int i = 0; i < 3000; i++) {
        int64_t deadline = session_tracker_deadline(t);
        assert_true(deadline > now); /* never a busy loop */
        now = deadline;
        model_expire(&m, t, now, TICK);
    }
    session_tracker_destroy(t);
}

static int64_t on_counted(void *ctx, int64_t id, int64_t heard_ms, int32_t timeout_ms)
{
    ++*(size_t *)ctx;
    return SESSION_ENDS;
}

/* A hundred thousand sessions: about a hundred bytes each, and signs of life allocate nothing. */
static void test_many(void **state)
{
    enum { N = 100000 };
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    struct session_tracker *t = create(TICK);
    int64_t now = 1000;
    for (int64_t id = 0; id < N; id++) {
        add(t, id * 0x100000001, 10000 + (int32_t)(id % 20000), now);
    }
    size_t heap = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_true(heap - before <= (size_t)N * 100);
    size_t fired = 0;
    for (int round = 0; round < 20; round++) {
        now += 1000;
        for (int64_t id = 0; id < N; id++) {
            assert_true(session_tracker_touch(t, id * 0x100000001, now));
        }
        session_tracker_expire(t, now, on_counted, &fired);
    }
    assert_int_equal(fired, 0);
    assert_int_equal(mallinfo2().uordblks + mallinfo2().hblkhd, heap);
    session_tracker_expire(t, now + 32000, on_counted, &fired);
    assert_int_equal(fired, N);
    session_tracker_destroy(t);
}

struct seen {
    size_t count;
    size_t most;
    int64_t ids;
    int64_t due_ms;
};

static bool on_seen(void *ctx, int64_t id, int64_t due_ms)
{
    struct seen *seen = ctx;
    seen->ids += id;
    seen->due_ms = due_ms;
    return ++seen->count < seen->most;
}

static void test_each(void **state)
{
    struct session_tracker *t = create(TICK);
    struct seen seen = {.most = 10};
    session_tracker_each(t, on_seen, &seen);
    assert_int_equal(seen.count, 0);
    add(t, 1, 10000, 0);
    session_tracker_pause(t, 500);
    session_tracker_each(t, on_seen, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.due_ms, session_tracker_deadline(t));
    int64_t heard_ms;
    int64_t due_ms;
    assert_true(session_tracker_look(t, 1, &heard_ms, &due_ms));
    assert_true(heard_ms == 0 && due_ms == seen.due_ms);
    assert_false(session_tracker_look(t, 2, &heard_ms, &due_ms));
    add(t, 2, 10000, 0);
    add(t, 4, 10000, 0);
    seen = (struct seen){.most = 10};
    session_tracker_each(t, on_seen, &seen);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.ids, 7);
    seen = (struct seen){.most = 2};
    session_tracker_each(t, on_seen, &seen);
    assert_int_equal(seen.count, 2);
    session_tracker_destroy(t);
}

struct told {
    int64_t ids[8];
    int64_t heard_ms[8];
    size_t count;
};

static void on_told(void *ctx, int64_t id, int64_t heard_ms)
{
    struct told *told = ctx;
    assert_true(told->count < 8);
    told->ids[told->count] = id;
    told->heard_ms[told->count++] = heard_ms;
}

static size_t report(struct session_tracker *t, uint32_t number, struct told *ret)
{
    *ret = (struct told){0};
    session_tracker_report(t, number, on_told, ret);
    return ret->count;
}

/* A server that does not lead: each sign of life is in all reports until one that has it was acknowledged,
 * in order, and nobody is ended. */
static void test_reports(void **state)
{
    struct session_tracker *t = create(TICK);
    struct told told;
    struct fired fired;
    session_tracker_lead(t, false);
    for (int64_t id = 1; id <= 3; id++) {
        add(t, id, 4000, 1000); /* an entry in the log is no sign of life here */
    }
    assert_int_equal(report(t, 1, &told), 0);
    assert_true(session_tracker_touch(t, 2, 1100));
    assert_true(session_tracker_touch(t, 1, 1200));
    assert_int_equal(report(t, 2, &told), 2);
    assert_int_equal(told.ids[0], 2);
    assert_int_equal(told.heard_ms[0], 1100);
    assert_int_equal(told.ids[1], 1);
    assert_true(session_tracker_touch(t, 2, 1300)); /* after the report, which does not have that */
    assert_true(session_tracker_touch(t, 1, 1100)); /* older than the last sign of life */
    session_tracker_reported(t, 1);                 /* late */
    assert_int_equal(report(t, 3, &told), 2);
    session_tracker_reported(t, 2);
    assert_int_equal(report(t, 4, &told), 1);
    assert_int_equal(told.ids[0], 2);
    assert_int_equal(told.heard_ms[0], 1300);
    add(t, 2, 6000, 1400); /* and the log goes on */
    assert_int_equal(report(t, 5, &told), 1);
    session_tracker_remove(t, 2);
    assert_int_equal(report(t, 6, &told), 0);
    assert_true(session_tracker_touch(t, 1, 1500));

    /* It leads now: all are added again, and each ends at its time. */
    session_tracker_lead(t, true);
    add(t, 1, 4000, 2000);
    add(t, 3, 4000, 2000);
    assert_int_equal(report(t, 7, &told), 0);
    assert_int_equal(expire(t, 7999, &fired), 0);
    assert_int_equal(expire(t, 8000, &fired), 2);
    session_tracker_destroy(t);
}

/* A report that was acknowledged only after the session was due: the session counts from its last sign of life. */
static void test_late_acknowledgement(void **state)
{
    struct session_tracker *t = create(TICK);
    struct told told;
    struct fired fired;
    add(t, 1, 4000, 1000);
    session_tracker_lead(t, false);
    assert_true(session_tracker_touch(t, 1, 2000));
    assert_int_equal(report(t, 1, &told), 1);
    assert_int_equal(session_tracker_deadline(t),
                     INT64_MAX); /* nothing is due while it is reported */
    assert_int_equal(expire(t, 20000, &fired), 0);
    session_tracker_reported(t, 1);
    assert_int_equal(session_tracker_deadline(t), 8000);
    session_tracker_lead(t, true);
    assert_int_equal(expire(t, 20000, &fired), 1);
    assert_int_equal(fired.ids[0], 1);
    session_tracker_destroy(t);
}

/* What the servers cannot tell apart counts as life: until when the session may have been alive. */
static void test_extend(void **state)
{
    struct session_tracker *t = create(TICK);
    struct fired fired;
    add(t, 1, 4000, 3000); /* due at 8000 */
    session_tracker_extend(t, 2, 0, 9000);
    assert_int_equal(session_tracker_count(t), 1);
    session_tracker_extend(t, 1, 3001, 9000); /* heard of before that: silent since */
    assert_int_equal(session_tracker_deadline(t), 8000);
    session_tracker_extend(t, 1, 0, 3000); /* known already */
    assert_int_equal(session_tracker_deadline(t), 8000);
    session_tracker_extend(t, 1, 3000, 5000);
    assert_int_equal(session_tracker_deadline(t), 10000);
    assert_int_equal(expire(t, 9999, &fired), 0);
    assert_int_equal(expire(t, 10000, &fired), 1);
    session_tracker_doubt(t, 2, 0); /* not known */
    assert_false(session_tracker_is_over(t, 2, 10000));
    session_tracker_destroy(t);
}

/* A pause longer than the clock says takes the own clock to its lower end, and no further. */
static void test_beginning_of_time(void **state)
{
    struct session_tracker *t = create(TICK);
    session_tracker_pause(t, INT64_MAX);
    assert_int_equal(session_tracker_own_ms(t, -2), INT64_MIN);
    assert_int_equal(session_tracker_own_ms(t, 0), -INT64_MAX);
    session_tracker_destroy(t);
}

/* Over are: for a server that does not lead, the sessions silent for their whole timeout; for the leader, those it ended. */
static void test_over(void **state)
{
    struct session_tracker *t = create(TICK);
    struct fired fired;
    add(t, 1, 4000, 1000);
    assert_false(session_tracker_is_over(t, 2, 1000)); /* not known */
    assert_false(session_tracker_is_over(t, 1, 100000));
    assert_int_equal(expire(t, 6000, &fired), 1);
    assert_true(session_tracker_is_over(t, 1, 6000));
    add(t, 1, 4000, 6000); /* it was taken up again */
    assert_false(session_tracker_is_over(t, 1, 6000));
    session_tracker_lead(t, false);
    assert_false(session_tracker_is_over(t, 1, 9999));
    assert_true(session_tracker_is_over(t, 1, 10000));
    session_tracker_doubt(t, 1, 7000); /* later than the last sign of life: no doubt */
    assert_true(session_tracker_is_over(t, 1, 10000));
    session_tracker_doubt(t, 1, 5000);
    assert_false(session_tracker_is_over(t, 1, 8999));
    assert_true(session_tracker_is_over(t, 1, 9000));
    session_tracker_destroy(t);
}

struct waiting {
    int64_t verdict;
    unsigned asked;
};

static int64_t on_asked(void *ctx, int64_t id, int64_t heard_ms, int32_t timeout_ms)
{
    struct waiting *w = ctx;
    assert_int_equal(id, 1);
    assert_int_equal(heard_ms, 1000);
    assert_int_equal(timeout_ms, 4000);
    w->asked++;
    return w->verdict;
}

/* The judge may want to be asked again. */
static void test_verdicts(void **state)
{
    struct session_tracker *t = create(20);
    struct waiting w = {.verdict = 35};
    add(t, 1, 4000, 1000);
    session_tracker_expire(t, 5020, on_asked, &w);
    assert_int_equal(w.asked, 1);
    assert_false(session_tracker_is_over(t, 1, 5020));
    assert_int_equal(session_tracker_deadline(t), 5060);
    session_tracker_expire(t, 5059, on_asked, &w);
    assert_int_equal(w.asked, 1);
    w.verdict = SESSION_LIVES;
    session_tracker_expire(t, 5060, on_asked, &w);
    assert_int_equal(w.asked, 2);
    assert_false(session_tracker_is_over(t, 1, 5060));
    assert_int_equal(session_tracker_deadline(t), 9080);
    session_tracker_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),    cmocka_unit_test(test_life_and_death),
        cmocka_unit_test(test_named_again), cmocka_unit_test(test_removal_from_inside),
        cmocka_unit_test(test_pause),       cmocka_unit_test(test_ends_of_time),
        cmocka_unit_test(test_model),       cmocka_unit_test(test_deadline_is_enough),
        cmocka_unit_test(test_many),        cmocka_unit_test(test_each),
        cmocka_unit_test(test_reports),     cmocka_unit_test(test_over),
        cmocka_unit_test(test_verdicts),    cmocka_unit_test(test_late_acknowledgement),
        cmocka_unit_test(test_extend),      cmocka_unit_test(test_beginning_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
