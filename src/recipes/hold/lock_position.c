/* The contender that a lock's contender waits for, and the meaning of its place (line_position.h).
 * */
#include "recipes/hold/lock.h"

#include <stdlib.h>

static struct conclave_lock *lock_of_place(struct place *place)
{
    return CONTAINER_OF(place, struct conclave_lock, c.place);
}

/* The first contenders that ask together for no more than all permits hold the semaphore; the next one waits until one
 * of them leaves, those behind it until the one before them stops waiting, even if they ask for fewer. */
static enum place_verdict lock_judge_permits(const struct conclave_lock *l, int32_t own,
                                             const struct line_entry *list, size_t at,
                                             size_t *ret_before)
{
    int64_t taken = 0;
    for (size_t i = 0; i < at; i++) {
        taken += list[i].weight;
    }
    if (taken + own <= l->permits) {
        return PLACE_FREE;
    }
    if (taken <= l->permits) {
        return PLACE_CROWD;
    }
    *ret_before = at - 1;
    return PLACE_BEHIND;
}

/* A reader waits for the last writer before it, even with others between; any other contender for
 * the one right before. */
static enum place_verdict lock_judge_kind(enum name_kind kind, const struct line_entry *list,
                                          size_t at, size_t *ret_before)
{
    while (at > 0) {
        at--;
        if (kind != NAME_READ || list[at].kind != NAME_READ) {
            *ret_before = at;
            return PLACE_BEHIND;
        }
    }
    return PLACE_FREE;
}

static enum place_verdict lock_judge(const struct place *place, const struct line_entry *list,
                                     size_t count, size_t at, size_t *ret_before)
{
    const struct conclave_lock *l = CONTAINER_OF(place, struct conclave_lock, c.place);
    return l->permits > 0 ? lock_judge_permits(l, list[at].weight, list, at, ret_before)
                          : lock_judge_kind(l->kind, list, at, ret_before);
}

static void lock_place_free(struct place *place)
{
    struct conclave_lock *l = lock_of_place(place);
    contender_place_free(place);
    l->mark_due = l->permits > 0 && place->behind > 0;
}

static bool lock_place_wait(struct place *place)
{
    struct conclave_lock *l = lock_of_place(place);
    if (l->serving == NULL) {
        return false;
    }
    if (l->serving->try || l->serving->overdue) {
        lock_fail(l, l->serving->try ? CONCLAVE_EBUSY : CONCLAVE_ETIMEDOUT);
        return false;
    }
    return true;
}

/* One that joined before N was written the last time may hold by another N. */
static bool lock_place_doubts(const struct place *place, const struct conclave_stat *before)
{
    const struct conclave_lock *l = CONTAINER_OF(place, struct conclave_lock, c.place);
    return l->permits > 0 && (!l->limit_known || before->czxid < l->limit_zxid);
}

static void lock_place_own(struct place *place, const struct conclave_reply *reply)
{
    lock_revoke_look(lock_of_place(place), reply);
}

/* A holder is asked to release; an acquire that waits joins again, at the end. */
static bool lock_place_pass(struct place *place)
{
    struct conclave_lock *l = lock_of_place(place);
    if (l->permits > 0) {
        return false;
    }
    if (l->c.state == CONTENDER_HELD) {
        l->hand_over_due = true;
        handle_post(&l->c.handle);
    } else if (lock_place_wait(place)) {
        l->serving = NULL;
    }
    return true;
}

const struct place_class lock_place_class = {
    .judge = lock_judge,
    .free = lock_place_free,
    .gone = contender_place_gone,
    .own = lock_place_own,
    .wait = lock_place_wait,
    .pass = lock_place_pass,
    .doubts = lock_place_doubts,
    .trouble = contender_place_trouble,
    .kinds = true,
    .together = true,
};

/* --- try ------------------------------------------------------------------------- */

static enum name_kind lock_kind_asked(const struct conclave_lock *l)
{
    return l->options.kind == CONCLAVE_LOCK_READ ? NAME_READ : NAME_WRITE;
}

/* Behind all of them. */
static enum place_verdict lock_judge_last(const struct conclave_lock *l,
                                          const struct line_entry *list, size_t count)
{
    size_t before;
    return l->permits > 0 ? lock_judge_permits(l, l->take, list, count, &before)
                          : lock_judge_kind(lock_kind_asked(l), list, count, &before);
}

static void lock_probed(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_lock *l = CONTAINER_OF(step, struct conclave_lock, probe);
    struct line_entry *list = NULL;
    size_t count = 0;
    if (l->c.state != CONTENDER_ASKING || l->serving == NULL) {
        /* given up meanwhile */
    } else if (reply->error == CONCLAVE_NO_NODE) {
        l->probed = true;
    } else if (reply->error != 0) {
        lock_fail(l, error_without_waiting(reply->error));
    } else if (place_contenders(&l->c.place, reply, &list, &count) != 0) {
        lock_fail(l, CONCLAVE_ENOMEM);
    } else if (lock_judge_last(l, list, count) == PLACE_FREE) {
        l->probed = true;
    } else {
        lock_fail(l, CONCLAVE_EBUSY);
    }
    free(list);
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
        lock_join(l);
    } else if (l->serving == NULL) {
        contender_enter(&l->c, CONTENDER_OUT);
    } else {
        step_ask(&l->probe, CONCLAVE_OP_GET_CHILDREN, l->c.path, lock_probed);
    }
}
