#include "client/core/timers.h"

#include <assert.h>
#include <stddef.h>

static bool timer_before(const struct timer *a, const struct timer *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

/* Makes one heap from two roots; either may be NULL. Roots have no siblings. */
static struct timer *heap_meld(struct timer *a, struct timer *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    assert(a->prev == NULL && a->next == NULL && b->prev == NULL && b->next == NULL);
    if (timer_before(b, a)) {
        struct timer *t = a;
        a = b;
        b = t;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child != NULL) {
        a->child->prev = b;
    }
    a->child = b;
    a->next = a->prev = NULL;
    return a;
}

/* Melds a chain of siblings: in pairs from the left, then the pairs from the right. */
static struct timer *heap_meld_siblings(struct timer *first)
{
    struct timer *pairs = NULL; /* stack by `next` */
    while (first != NULL) {
        struct timer *a = first;
        struct timer *b = a->next;
        first = b != NULL ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b != NULL) {
            b->next = b->prev = NULL;
        }
        a = heap_meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    struct timer *root = NULL;
    while (pairs != NULL) {
        struct timer *next = pairs->next;
        pairs->next = NULL;
        root = heap_meld(root, pairs);
        pairs = next;
    }
    return root;
}

void timers_add(struct timers *ts, struct timer *t, int64_t at_ns)
{
    assert(!t->active);
    *t = (struct timer){.at_ns = at_ns, .seq = ts->seq++, .active = true};
    ts->root = heap_meld(ts->root, t);
}

void timers_remove(struct timers *ts, struct timer *t)
{
    if (!t->active) {
        return;
    }
    if (t == ts->root) {
        ts->root = heap_meld_siblings(t->child);
    } else {
        assert(t->prev != NULL && !timer_before(t, ts->root));
        if (t->prev->child == t) {
            t->prev->child = t->next;
        } else {
            t->prev->next = t->next;
        }
        if (t->next != NULL) {
            t->next->prev = t->prev;
        }
        ts->root = heap_meld(ts->root, heap_meld_siblings(t->child));
    }
    t->child = t->next = t->prev = NULL;
    t->active = false;
}

struct timer *timers_expire(struct timers *ts, int64_t now_ns)
{
    struct timer *t = ts->root;
    if (t == NULL || t->at_ns > now_ns) {
        return NULL;
    }
    timers_remove(ts, t);
    return t;
}
