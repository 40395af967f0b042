#include "session/session.h"

#include "base/list.h"
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

/*
 * A wheel of ticks, each of one granule. A session is in the slot of the tick at whose beginning it is due. Ticks that
 * are WHEEL_SLOTS apart share a slot, so the session keeps its tick for comparison. After a session was added nothing
 * is allocated: a sign of life cannot fail.
 *
 * Where the tracker reports, a session with a sign of life that the leader may not know is in `unreported` instead, in
 * the order of these signs; no session ends there.
 *
 *        next                        a session is due at tick
 *          v                         (last sign of life + timeout) / tick_ms + 1
 *   ... | 7 | 8 | 9 | ... | 7 + WHEEL_SLOTS - 1 | (7 again)
 *
 * Ticks count the tracker's own time, which stops during a pause: the caller's clock minus `lost_ms`. No session is due
 * before tick `next`.
 */
enum { WHEEL_SLOTS = 256 };

#define TICK_NEVER INT64_MAX

struct tracked_session {
    struct map_node node; /* in by_id */
    struct list link;     /* in its slot, or in unreported */
    int64_t id;
    int64_t due;              /* tick at which it expires */
    int64_t heard_ms;         /* last sign of life, on the caller's clock */
    uint32_t report;          /* the first report that contains it; 0: it is in its slot */
    uint32_t timeout_ms : 31; /* negotiated */
    uint32_t ending : 1;      /* it was reported as due, and gave no sign of life since */
};

struct session_tracker {
    struct map by_id;               /* struct tracked_session */
    struct list slots[WHEEL_SLOTS]; /* struct tracked_session, by due % WHEEL_SLOTS */
    struct list unreported;         /* struct tracked_session, oldest sign of life first */
    uint32_t reports;               /* number of the last report */
    bool leads;                     /* this server ends sessions and does not report them */
    int64_t next;                   /* first tick that was not checked yet */
    int64_t lost_ms;                /* sum of the pauses */
    int32_t tick_ms;                /* the granule */
};

/* --- time ----------------------------------------------------------------------------------------- */

static int64_t saturating_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return b > 0 ? INT64_MAX : INT64_MIN;
    }
    return sum;
}

static int64_t saturating_multiply(int64_t a, int64_t b)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
    }
    return product;
}

int64_t session_tracker_own_ms(const struct session_tracker *t, int64_t now_ms)
{
    return saturating_add(now_ms, -t->lost_ms);
}

/* The tick of a time on the caller's clock. */
static int64_t session_tick(const struct session_tracker *t, int64_t now_ms, int64_t more_ms)
{
    int64_t own_ms = saturating_add(session_tracker_own_ms(t, now_ms), more_ms);
    int64_t tick = own_ms / t->tick_ms;
    return own_ms % t->tick_ms < 0 ? tick - 1 : tick;
}

static struct list *session_slot(struct session_tracker *t, int64_t tick)
{
    return &t->slots[(uint64_t)tick % WHEEL_SLOTS];
}

/* --- the wheel ------------------------------------------------------------------------------------ */

/* Puts the session into the slot in which it is due `more_ms` from now. */
static void session_arm(struct session_tracker *t, struct tracked_session *s, int64_t now_ms,
                        int64_t more_ms)
{
    int64_t due = saturating_add(session_tick(t, now_ms, more_ms), 1);
    if (due == s->due && s->report == 0 && !list_empty(&s->link)) {
        return;
    }
    s->due = due;
    if (s->report != 0 && !t->leads) {
        return; /* it moves to its slot after its report */
    }
    s->report = 0;
    list_remove(&s->link);
    list_push_back(session_slot(t, due), &s->link);
    if (due < t->next) {
        t->next = due;
    }
    assert(s->due >= t->next && s->report == 0); /* its tick will find it */
}

/* A sign of life. */
static void session_hear(struct session_tracker *t, struct tracked_session *s, int64_t heard_ms)
{
    s->heard_ms = heard_ms;
    s->ending = 0;
    if (!t->leads) {
        s->report = t->reports + 1;
        list_remove(&s->link);
        list_push_back(&t->unreported, &s->link);
    }
    assert(!t->leads || s->report == 0 || !list_empty(&s->link));
    session_arm(t, s, heard_ms, s->timeout_ms);
}

static bool session_equal(const struct map_node *node, const void *key)
{
    return CONTAINER_OF(node, struct tracked_session, node)->id == *(const int64_t *)key;
}

static struct tracked_session *tracked_session_find(const struct session_tracker *t, int64_t id)
{
    struct map_node *node = map_find(&t->by_id, hash_number((uint64_t)id), session_equal, &id);
    return node != NULL ? CONTAINER_OF(node, struct tracked_session, node) : NULL;
}

struct session_tracker *session_tracker_create(int32_t granule_ms)
{
    assert(granule_ms > 0);
    struct session_tracker *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    map_init(&t->by_id);
    for (size_t i = 0; i < WHEEL_SLOTS; i++) {
        list_init(&t->slots[i]);
    }
    list_init(&t->unreported);
    t->leads = true;
    t->tick_ms = granule_ms;
    return t;
}

void session_tracker_destroy(struct session_tracker *t)
{
    if (t == NULL) {
        return;
    }
    struct map_node *next;
    for (struct map_node *node = map_take_all(&t->by_id); node != NULL; node = next) {
        next = node->next;
        free(CONTAINER_OF(node, struct tracked_session, node));
    }
    free(t);
}

int session_tracker_add(struct session_tracker *t, int64_t id, int32_t timeout_ms, int64_t now_ms)
{
    if (timeout_ms < 0) {
        return CONCLAVE_EINVAL;
    }
    struct tracked_session *s = tracked_session_find(t, id);
    if (s == NULL) {
        s = malloc(sizeof *s);
        if (s == NULL) {
            return CONCLAVE_ENOMEM;
        }
        *s = (struct tracked_session){.id = id};
        list_init(&s->link);
        if (map_insert(&t->by_id, &s->node, hash_number((uint64_t)id)) != 0) {
            free(s);
            return CONCLAVE_ENOMEM;
        }
        if (map_count(&t->by_id) == 1) {
            t->next = session_tick(t, now_ms, 0);
        }
    }
    s->timeout_ms = (uint32_t)timeout_ms;
    s->heard_ms = now_ms;
    s->ending = 0;
    session_arm(t, s, now_ms, timeout_ms);
    return 0;
}

void session_tracker_lead(struct session_tracker *t, bool leads)
{
    t->leads = leads;
}

bool session_tracker_touch(struct session_tracker *t, int64_t id, int64_t heard_ms)
{
    struct tracked_session *s = tracked_session_find(t, id);
    if (s == NULL) {
        return false;
    }
    if (heard_ms >= s->heard_ms) {
        session_hear(t, s, heard_ms);
    }
    return true;
}

void session_tracker_extend(struct session_tracker *t, int64_t id, int64_t since_ms,
                            int64_t until_ms)
{
    struct tracked_session *s = tracked_session_find(t, id);
    if (s != NULL && s->heard_ms >= since_ms && s->heard_ms < until_ms) {
        session_hear(t, s, until_ms);
    }
}

void session_tracker_doubt(struct session_tracker *t, int64_t id, int64_t heard_ms)
{
    struct tracked_session *s = tracked_session_find(t, id);
    if (s != NULL && heard_ms < s->heard_ms) {
        s->heard_ms = heard_ms;
    }
}

bool session_tracker_is_over(const struct session_tracker *t, int64_t id, int64_t now_ms)
{
    const struct tracked_session *s = tracked_session_find(t, id);
    if (s == NULL) {
        return false;
    }
    return t->leads ? s->ending != 0 : now_ms - s->heard_ms >= (int64_t)s->timeout_ms;
}

void session_tracker_remove(struct session_tracker *t, int64_t id)
{
    struct tracked_session *s = tracked_session_find(t, id);
    if (s == NULL) {
        return;
    }
    list_remove(&s->link);
    map_remove(&t->by_id, &s->node);
    free(s);
}

int64_t session_tracker_deadline(struct session_tracker *t)
{
    if (map_count(&t->by_id) == 0) {
        return INT64_MAX;
    }
    for (uint64_t i = 0; i < WHEEL_SLOTS; i++) {
        uint64_t tick = (uint64_t)t->next + i;
        if (!list_empty(&t->slots[tick % WHEEL_SLOTS])) {
            t->next = saturating_add(t->next, (int64_t)i);
            return saturating_add(saturating_multiply(t->next, t->tick_ms), t->lost_ms);
        }
    }
    return INT64_MAX;
}

/* Moves the sessions of one slot that are due by tick `now` to the end of `due`. */
static void session_collect(struct list *slot, int64_t now, struct list *due)
{
    LIST_FOREACH (link, slot) {
        const struct tracked_session *s = CONTAINER_OF(link, struct tracked_session, link);
        if (s->due <= now && s->due != TICK_NEVER) {
            list_remove(link);
            list_push_back(due, link);
        }
    }
}

/* Asks the owner about a session that is due. */
static void session_judge(struct session_tracker *t, struct tracked_session *s, int64_t now_ms,
                          session_verdict fn, void *ctx)
{
    int64_t id = s->id;
    session_arm(t, s, now_ms, s->timeout_ms);
    int64_t verdict = fn(ctx, id, s->heard_ms, (int32_t)s->timeout_ms);
    if (verdict == SESSION_LIVES || (s = tracked_session_find(t, id)) == NULL) {
        return;
    }
    if (verdict == SESSION_ENDS) {
        s->ending = 1;
    } else {
        session_arm(t, s, now_ms, verdict);
    }
}

void session_tracker_expire(struct session_tracker *t, int64_t now_ms, session_verdict fn,
                            void *ctx)
{
    int64_t now = session_tick(t, now_ms, 0);
    if (now < t->next) {
        return;
    }
    struct list due;
    list_init(&due);
    uint64_t ticks = (uint64_t)now - (uint64_t)t->next;
    for (uint64_t i = 0; i <= ticks && i < WHEEL_SLOTS; i++) {
        session_collect(&t->slots[((uint64_t)t->next + i) % WHEEL_SLOTS], now, &due);
    }
    t->next = saturating_add(now, 1);
    /* Sessions that fn removes leave the list by themselves; those that it adds or touches are due later. */
    struct list *link;
    while ((link = list_pop_front(&due)) != NULL) {
        session_judge(t, CONTAINER_OF(link, struct tracked_session, link), now_ms, fn, ctx);
    }
}

void session_tracker_pause(struct session_tracker *t, int64_t lost_ms)
{
    if (lost_ms > 0) {
        t->lost_ms = saturating_add(t->lost_ms, lost_ms);
    }
}

void session_tracker_pass(struct session_tracker *t, int64_t ms)
{
    assert(ms >= 0);
    t->lost_ms = saturating_add(t->lost_ms, -ms);
}

void session_tracker_report(struct session_tracker *t, uint32_t number,
                            void (*fn)(void *ctx, int64_t id, int64_t heard_ms), void *ctx)
{
    t->reports = number;
    LIST_FOREACH (link, &t->unreported) {
        const struct tracked_session *s = CONTAINER_OF(link, struct tracked_session, link);
        fn(ctx, s->id, s->heard_ms);
    }
}

void session_tracker_reported(struct session_tracker *t, uint32_t number)
{
    while (!list_empty(&t->unreported)) {
        struct tracked_session *s = CONTAINER_OF(t->unreported.next, struct tracked_session, link);
        if (s->report > number) {
            break;
        }
        s->report = 0;
        list_remove(&s->link);
        list_push_back(session_slot(t, s->due), &s->link);
        t->next = s->due < t->next ? s->due : t->next;
    }
}

static int64_t session_due_ms(const struct session_tracker *t, const struct tracked_session *s)
{
    return saturating_add(saturating_multiply(s->due, t->tick_ms), t->lost_ms);
}

bool session_tracker_look(const struct session_tracker *t, int64_t id, int64_t *ret_heard_ms,
                          int64_t *ret_due_ms)
{
    const struct tracked_session *s = tracked_session_find(t, id);
    if (s != NULL) {
        *ret_heard_ms = s->heard_ms;
        *ret_due_ms = session_due_ms(t, s);
    }
    return s != NULL;
}

void session_tracker_each(const struct session_tracker *t,
                          bool (*fn)(void *ctx, int64_t id, int64_t due_ms), void *ctx)
{
    struct map_node *n = NULL;
    while ((n = map_next(&t->by_id, n)) != NULL) {
        const struct tracked_session *s = CONTAINER_OF(n, struct tracked_session, node);
        if (!fn(ctx, s->id, session_due_ms(t, s))) {
            return;
        }
    }
}

size_t session_tracker_count(const struct session_tracker *t)
{
    return map_count(&t->by_id);
}
