/*
 * Leaving: each member reads the list of members again and decides by it.
 *
 *   nobody                    removes ready and the round: done
 *   nobody but me             { delete m, delete ready }: done
 *   me, with the lowest name  waits for the highest to go
 *   others                    delete m, once; then wait for the lowest to go
 *
 * In kazoo's layout ready goes first of all: a member of kazoo takes it for one that it has to wait for.
 *
 * So the lowest goes last, and the others wait for a dead member only until its session ends.
 */
#include "recipes/group/double_barrier.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void db_leave_end(struct call *call, int error)
{
    struct db_call *c = db_call_of(call);
    if (error != 0 && !c->removed && db_of(c)->gone == 0) {
        db_remove_me(db_of(c)); /* it leaves all the same */
    }
    db_call_end(c, error, DB_OUT);
}

static void leave_trouble(struct db_call *c, int error)
{
    db_to(c, LEAVE_LIST);
    call_trouble(&c->call, error);
}

/* --- looking ------------------------------------------------------------------------------- */

static void leave_decide(struct db_call *c, const struct conclave_reply *reply)
{
    const char *mine = path_name(db_of(c)->me);
    const char *lowest = NULL;
    const char *highest = NULL;
    bool there = false;
    size_t count = 0;
    for (size_t i = 0; i < reply->children_count; i++) {
        const char *name = reply->children[i];
        if (db_is_member(db_of(c), name)) {
            lowest = lowest == NULL || strcmp(name, lowest) < 0 ? name : lowest;
            highest = highest == NULL || strcmp(name, highest) > 0 ? name : highest;
            there = there || strcmp(name, mine) == 0;
            count++;
        }
    }
    c->removed = c->removed || (c->maybe && !there);
    if (!there && !c->removed) {
        c->removed = true; /* by somebody else */
        db_leave_end(&c->call, CONCLAVE_ELOST);
    } else if (count == 0 && db_of(c)->layout == CONCLAVE_BARRIER_LAYOUT_KAZOO) {
        db_leave_end(&c->call, 0);
    } else if (count == 0) {
        db_to(c, LEAVE_READY);
    } else if (there && count == 1) {
        db_to(c, LEAVE_LAST);
    } else if (there && strcmp(lowest, mine) != 0) {
        db_to(c, LEAVE_REMOVE);
    } else {
        free(c->other);
        c->other = path_join(db_of(c)->round, there ? highest : lowest);
        if (c->other != NULL) {
            db_to(c, LEAVE_WATCH);
        } else {
            call_retry_later(&c->call);
        }
    }
}

static void leave_on_listed(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    if (reply->error == 0) {
        leave_decide(c, reply);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        bool by_me = c->removed || c->maybe;
        c->removed = true;
        db_leave_end(call, by_me ? 0 : CONCLAVE_ELOST);
    } else {
        leave_trouble(c, reply->error);
    }
}

/* --- going ----------------------------------------------------------------------------------- */

/* No member is left, and ready is gone. The node of another library's barrier stays. */
static void left(struct db_call *c)
{
    if (db_is_foreign(db_of(c))) {
        db_leave_end(&c->call, 0);
    } else {
        db_to(c, LEAVE_ROUND);
    }
}

static void on_last(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    if (reply->error == 0) {
        c->removed = true;
        left(c);
    } else if (reply->results_count == 2 && reply->results[1]->error == CONCLAVE_NO_NODE) {
        db_to(c, LEAVE_REMOVE); /* ready was removed by somebody */
    } else if (reply->error == CONCLAVE_NO_NODE) {
        db_to(c, LEAVE_LIST);
    } else {
        c->maybe = c->maybe || error_is_unknown(reply->error);
        leave_trouble(c, reply->error);
    }
}

static void leave_on_removed(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        c->removed = true;
        db_to(c, LEAVE_LIST);
    } else {
        c->maybe = c->maybe || error_is_unknown(reply->error);
        leave_trouble(c, reply->error);
    }
}

static void on_watched(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    watch_slot_answered(&c->watch, reply->error == 0);
    if (reply->error == CONCLAVE_NO_NODE) {
        db_to(c, LEAVE_LIST);
    } else if (reply->error != 0) {
        leave_trouble(c, reply->error);
    }
}

/* No member is left, so nothing depends on this deletion; or it is the first step of a leave in kazoo's layout. */
static void on_cleaned(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    assert(c->removed || db_of(c)->layout == CONCLAVE_BARRIER_LAYOUT_KAZOO);
    if (error_is_unknown(reply->error) && !state_is_final(client_state(call_client(call)))) {
        call_trouble(call, reply->error);
    } else if (!c->removed) {
        db_to(c, LEAVE_LIST);
    } else if (c->phase == LEAVE_READY) {
        left(c);
    } else {
        db_leave_end(call, 0);
    }
}

/* --- the machine -------------------------------------------------------------------------------- */

static void leave_run_phase(struct db_call *c)
{
    struct conclave_double_barrier *db = db_of(c);
    struct conclave_op op;
    struct conclave_op parts[2];
    switch (c->phase) {
    case LEAVE_LIST:
        op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, db->round, 0);
        call_send(&c->call, &op, leave_on_listed);
        break;
    case LEAVE_LAST:
        parts[0] = conclave_op_path(CONCLAVE_OP_DELETE, db->me, -1);
        parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, db->ready, -1);
        op = conclave_op_multi(parts, 2);
        call_send(&c->call, &op, on_last);
        break;
    case LEAVE_REMOVE:
        op = conclave_op_path(CONCLAVE_OP_DELETE, db->me, -1);
        call_send(&c->call, &op, leave_on_removed);
        break;
    case LEAVE_WATCH:
        if (!c->watch.armed) {
            op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
            call_send_watch(&c->call, &c->watch, c->other, op, on_watched);
        }
        break;
    default:
        assert(c->phase == LEAVE_READY || c->phase == LEAVE_ROUND);
        op = conclave_op_path(CONCLAVE_OP_DELETE, c->phase == LEAVE_READY ? db->ready : db->round,
                              -1);
        call_send(&c->call, &op, on_cleaned);
        break;
    }
}

void db_leave_run(struct call *call)
{
    struct db_call *c = db_call_of(call);
    if (db_of(c)->gone != 0 && !c->removed) {
        bool final = state_is_final(client_state(call_client(call)));
        db_leave_end(call, final ? call->stop : db_of(c)->gone);
    } else if (call->stop != 0 && (call->stop != CONCLAVE_ETIMEDOUT || c->phase == LEAVE_WATCH ||
                                   !call_can_send(call))) {
        db_leave_end(call, call->stop);
    } else if (call_can_send(call)) {
        leave_run_phase(c);
    }
}
