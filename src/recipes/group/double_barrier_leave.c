/*
 * Leaving: each looks at who is still there and decides anew.
 *
 *   nobody                    removes ready and the round: done
 *   nobody but me             { delete m, delete ready }: done
 *   me, with the lowest name  waits for the highest to go
 *   others                    delete m, once; then wait for the lowest to go
 *
 * So the lowest goes last, and whoever dies is not waited for longer than its session lasts.
 */
#include "recipes/group/double_barrier.h"

#include <stdlib.h>
#include <string.h>

enum leave_phase {
    LEAVE_LIST,
    LEAVE_LAST,   /* alone: node and ready go together */
    LEAVE_REMOVE, /* my node, others stay */
    LEAVE_WATCH,
    LEAVE_READY, /* nobody is left: what remains is removed */
    LEAVE_ROUND,
};

struct leave {
    struct call call; /* first */
    enum leave_phase phase;
    bool removed; /* my node, by me */
    bool maybe;   /* the answer to that was lost */
    struct step step;
    struct watch_slot watch; /* on the one it waits for */
    char *other;             /* its path */
    conclave_double_barrier_fn done;
    void *ctx;
};

static struct leave *leave_of(struct call *call)
{
    return CONTAINER_OF(call, struct leave, call);
}

static struct conclave_double_barrier *db(const struct leave *l)
{
    return db_of(l->call.host);
}

static void leave_end(struct leave *l, int error)
{
    struct conclave_double_barrier *b = db(l);
    if (!l->watch.pending) {
        watch_slot_clear(&l->watch);
    }
    if (error != 0 && !l->removed && b->gone == 0) {
        db_remove_me(b); /* it leaves all the same */
    }
    db_call_over(b, DB_OUT);
    call_end(&l->call, error);
}

static void leave_trouble(struct leave *l, int error)
{
    l->phase = LEAVE_LIST;
    if (error_is_fatal(error)) {
        leave_end(l, error);
    } else {
        call_trouble(&l->call, error);
    }
}

/* --- looking ------------------------------------------------------------------------------- */

static void double_barrier_leave_decide(struct leave *l, const struct conclave_reply *reply)
{
    const char *mine = path_name(db(l)->me);
    const char *lowest = NULL;
    const char *highest = NULL;
    bool there = false;
    size_t count = 0;
    for (size_t i = 0; i < reply->children_count; i++) {
        const char *name = reply->children[i];
        if (db_is_member(name)) {
            lowest = lowest == NULL || strcmp(name, lowest) < 0 ? name : lowest;
            highest = highest == NULL || strcmp(name, highest) > 0 ? name : highest;
            there = there || strcmp(name, mine) == 0;
            count++;
        }
    }
    l->removed = l->removed || (l->maybe && !there);
    if (!there && !l->removed) {
        l->removed = true; /* by somebody else */
        leave_end(l, CONCLAVE_ELOST);
    } else if (count == 0) {
        l->phase = LEAVE_READY;
    } else if (there && count == 1) {
        l->phase = LEAVE_LAST;
    } else if (there && strcmp(lowest, mine) != 0) {
        l->phase = LEAVE_REMOVE;
    } else {
        free(l->other);
        l->other = path_join(db(l)->round, there ? highest : lowest);
        l->phase = LEAVE_WATCH;
        if (l->other == NULL) {
            l->phase = LEAVE_LIST;
            call_retry_later(&l->call);
        }
    }
}

static void double_barrier_leave_on_listed(struct step *step, const struct conclave_reply *reply)
{
    struct leave *l = CONTAINER_OF(step, struct leave, step);
    bool was_mine = l->removed || l->maybe;
    if (reply->error == 0) {
        double_barrier_leave_decide(l, reply);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        l->removed = true;
        leave_end(l, was_mine ? 0 : CONCLAVE_ELOST);
    } else {
        leave_trouble(l, reply->error);
    }
    call_run(&l->call);
}

/* --- going ----------------------------------------------------------------------------------- */

static void on_last(struct step *step, const struct conclave_reply *reply)
{
    struct leave *l = CONTAINER_OF(step, struct leave, step);
    if (reply->error == 0) {
        l->removed = true;
        l->phase = LEAVE_ROUND;
    } else if (reply->results_count == 2 && reply->results[1].error == CONCLAVE_NO_NODE) {
        l->phase = LEAVE_REMOVE; /* ready was removed by somebody */
    } else if (reply->error == CONCLAVE_NO_NODE) {
        l->phase = LEAVE_LIST;
    } else {
        l->maybe = l->maybe || error_is_unknown(reply->error);
        leave_trouble(l, reply->error);
    }
    call_run(&l->call);
}

static void on_removed(struct step *step, const struct conclave_reply *reply)
{
    struct leave *l = CONTAINER_OF(step, struct leave, step);
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        l->removed = true;
        l->phase = LEAVE_LIST;
    } else {
        l->maybe = l->maybe || error_is_unknown(reply->error);
        leave_trouble(l, reply->error);
    }
    call_run(&l->call);
}

static void on_watched(struct step *step, const struct conclave_reply *reply)
{
    struct leave *l = CONTAINER_OF(step, struct leave, step);
    watch_slot_answered(&l->watch, reply->error == 0);
    if (reply->error == CONCLAVE_NO_NODE) {
        l->phase = LEAVE_LIST;
    } else if (reply->error != 0) {
        leave_trouble(l, reply->error);
    }
    call_run(&l->call);
}

/* Nobody is left, so that nothing hangs on whether this is done. */
static void on_cleaned(struct step *step, const struct conclave_reply *reply)
{
    struct leave *l = CONTAINER_OF(step, struct leave, step);
    if (error_is_unknown(reply->error) && !state_is_final(client_state(call_client(&l->call)))) {
        call_trouble(&l->call, reply->error);
    } else if (l->phase == LEAVE_READY) {
        l->phase = LEAVE_ROUND;
    } else {
        leave_end(l, 0);
    }
    call_run(&l->call);
}

/* --- the machine -------------------------------------------------------------------------------- */

static void run_phase(struct leave *l)
{
    struct conclave_double_barrier *b = db(l);
    struct conclave_op op;
    struct conclave_op parts[2];
    switch (l->phase) {
    case LEAVE_LIST:
        op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, b->round, 0);
        step_submit(&l->step, &op, double_barrier_leave_on_listed);
        break;
    case LEAVE_LAST:
        parts[0] = conclave_op_path(CONCLAVE_OP_DELETE, b->me, -1);
        parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, b->ready, -1);
        op = conclave_op_multi(parts, 2);
        step_submit(&l->step, &op, on_last);
        break;
    case LEAVE_REMOVE:
        op = conclave_op_path(CONCLAVE_OP_DELETE, b->me, -1);
        step_submit(&l->step, &op, on_removed);
        break;
    case LEAVE_WATCH:
        op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
        if (l->watch.armed) {
            break;
        }
        if (watch_slot_prepare(&l->watch, l->other, &op) != 0) {
            call_retry_later(&l->call);
        } else {
            step_submit(&l->step, &op, on_watched);
        }
        break;
    case LEAVE_READY:
    case LEAVE_ROUND:
        op =
            conclave_op_path(CONCLAVE_OP_DELETE, l->phase == LEAVE_READY ? b->ready : b->round, -1);
        step_submit(&l->step, &op, on_cleaned);
        break;
    }
}

static void leave_run(struct call *call)
{
    struct leave *l = leave_of(call);
    if (l->step.busy) {
        return;
    }
    if (db(l)->gone != 0 && !l->removed) {
        bool final = state_is_final(client_state(call_client(call)));
        leave_end(l, final ? call->stop : db(l)->gone);
    } else if (call->stop != 0 && (call->stop != CONCLAVE_ETIMEDOUT || l->phase == LEAVE_WATCH ||
                                   !call_can_send(call))) {
        leave_end(l, call->stop);
    } else if (call_can_send(call)) {
        run_phase(l);
    }
}

/* The session ended before it could leave. */
static void leave_on_state(struct call *call, enum conclave_state state)
{
    struct leave *l = leave_of(call);
    struct conclave_client *client = call_client(call);
    bool over = state == CONCLAVE_STATE_LOST || (recipes_connected(call->handle.rt) &&
                                                 client_session_id(client) != db(l)->session_id);
    if (over && !l->removed) {
        db(l)->gone = CONCLAVE_SESSION_EXPIRED;
    }
}

static void leave_tell(struct call *call)
{
    struct leave *l = leave_of(call);
    if (l->done != NULL) {
        l->done(db(l), call->error, l->ctx);
    }
}

static void leave_free(struct call *call)
{
    struct leave *l = leave_of(call);
    watch_slot_clear(&l->watch);
    free(l->other);
    free(l);
}

static const struct call_class leave_class = {leave_run, leave_on_state, leave_tell, leave_free};

static void double_barrier_leave_on_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct leave *l = CONTAINER_OF(slot, struct leave, watch);
    if (l->phase == LEAVE_WATCH) {
        l->phase = LEAVE_LIST;
    }
    call_run(&l->call);
}

int db_leave_create(struct conclave_double_barrier *b, conclave_double_barrier_fn done, void *ctx,
                    struct call **ret)
{
    struct leave *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return CONCLAVE_ENOMEM;
    }
    call_init(&l->call, &b->host, &leave_class);
    step_init(&l->step, &l->call.handle);
    watch_slot_init(&l->watch, &l->call.handle, double_barrier_leave_on_watch);
    l->done = done;
    l->ctx = ctx;
    *ret = &l->call;
    return 0;
}
