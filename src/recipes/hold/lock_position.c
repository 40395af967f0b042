/* Whom a lock's contender waits for, and what it makes of its place (line_position.h). */
#include "recipes/hold/lock.h"

#include <stdlib.h>

static struct conclave_lock *of(struct place *place)
{
    return CONTAINER_OF(place, struct conclave_lock, place);
}

/* A reader waits for the last writer before it, whoever else stands between; everybody else for
 * the one right before. Of a semaphore the first permits contenders hold it; the next one waits
 * until one of them leaves, those behind it until the one before them stops waiting. */
static enum place_verdict judge(const struct conclave_lock *l, enum name_kind kind,
                                const struct contender *list, size_t at, size_t *ret_before)
{
    if (l->permits > 0 && at < (size_t)l->permits) {
        return PLACE_FREE;
    }
    if (l->permits > 0 && at == (size_t)l->permits) {
        return PLACE_CROWD;
    }
    while (at > 0) {
        at--;
        if (kind != NAME_READ || list[at].kind != NAME_READ) {
            *ret_before = at;
            return PLACE_BEHIND;
        }
    }
    return PLACE_FREE;
}

static enum place_verdict on_judge(const struct place *place, const struct contender *list,
                                   size_t count, size_t at, size_t *ret_before)
{
    const struct conclave_lock *l = CONTAINER_OF(place, struct conclave_lock, place);
    (void)count;
    return judge(l, l->kind, list, at, ret_before);
}

static void on_free(struct place *place)
{
    struct conclave_lock *l = of(place);
    l->free = l->state == LOCK_WAITING;
    l->mark_due = l->permits > 0 && place->behind > 0;
}

static bool on_wait(struct place *place)
{
    struct conclave_lock *l = of(place);
    if (l->serving == NULL) {
        return false;
    }
    if (l->serving->try || l->serving->overdue) {
        lock_fail(l, l->serving->try ? CONCLAVE_EBUSY : CONCLAVE_ETIMEDOUT);
        return false;
    }
    return true;
}

static void on_gone(struct place *place)
{
    lock_node_gone(of(place), CONCLAVE_ELOST);
}

static void on_own(struct place *place, const struct conclave_reply *reply)
{
    lock_revoke_look(of(place), reply);
}

static void on_trouble(struct place *place, int error)
{
    lock_trouble(of(place), error);
}

static void on_wake(struct place *place)
{
    lock_run(of(place));
}

const struct place_class lock_place_class = {
    .judge = on_judge,
    .free = on_free,
    .gone = on_gone,
    .own = on_own,
    .wait = on_wait,
    .trouble = on_trouble,
    .wake = on_wake,
    .kinds = true,
    .together = true,
};

/* --- try ------------------------------------------------------------------------- */

static enum name_kind kind_of(const struct conclave_lock *l)
{
    return l->options.kind == CONCLAVE_LOCK_READ ? NAME_READ : NAME_WRITE;
}

static void on_probed(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_lock *l = CONTAINER_OF(step, struct conclave_lock, probe);
    struct contender *list = NULL;
    size_t count = 0;
    size_t before;
    if (l->state != LOCK_PROBING || l->serving == NULL) {
        /* given up meanwhile */
    } else if (reply->error == CONCLAVE_NO_NODE) {
        l->probed = true;
    } else if (reply->error != 0) {
        lock_fail(l, error_without_waiting(reply->error));
    } else if (place_contenders(&l->place, reply, &list, &count) != 0) {
        lock_fail(l, CONCLAVE_ENOMEM);
    } else if (judge(l, kind_of(l), list, count, &before) == PLACE_FREE) {
        l->probed = true;
    } else {
        lock_fail(l, CONCLAVE_EBUSY);
    }
    free(list);
    lock_run(l);
}

/* As if we stood behind all that are there. */
void lock_probe_run(struct conclave_lock *l)
{
    if (l->probe.busy) {
        return;
    }
    bool go_on = l->probed && l->serving != NULL;
    l->probed = false;
    if (go_on) {
        lock_enter(l, LOCK_JOINING);
    } else if (l->serving == NULL) {
        lock_enter(l, LOCK_IDLE);
    } else {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, l->path, 0);
        step_submit(&l->probe, &op, on_probed);
    }
}
