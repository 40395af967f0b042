/*
 * Entering. Opening and withdrawing are transactions:
 *
 *   open      { check every member counted, create ready }   only while all stand there
 *   withdraw  { create ready, delete ready, delete m }       only while it is not open
 *
 * If it is open, the one that withdraws looks whether `ready` is younger than its node: then it has entered.
 *
 * (in the layouts of others: a look at ready, then { delete m })
 *
 * so it opens only with the required number of members, and a withdrawn member is not among them. A
 * member that joins an open barrier is late: its node is younger than `ready`. A waiting member waits
 * only for `ready`, and reads it after each wake-up.
 *
 *   ROUND --number agrees--> FIRST --not open--> JOIN --m stands--> LOOK <--> COUNT --all--> OPEN
 *                              |                                     | time over
 *                              '-- open: late                        '--> WITHDRAW --> out, or entered
 */
#include "recipes/group/double_barrier.h"

#include "recipes/engine/persistent_node.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void db_members_clear(struct db_call *c)
{
    for (size_t i = 0; i < c->members_count; i++) {
        free(c->members[i]);
    }
    free(c->members);
    c->members = NULL;
    c->members_count = 0;
}

void db_enter_end(struct call *call, int error)
{
    struct db_call *c = db_call_of(call);
    struct conclave_double_barrier *db = db_of(c);
    bool leaves = error == 0 && call->stop == CONCLAVE_ECLOSED; /* at the last moment */
    assert(error != 0 || db->joined);
    if (db->joined && db->gone == 0 && (error != 0 || leaves)) {
        db_remove_me(db);
    }
    error = leaves ? CONCLAVE_ECLOSED : error;
    db_call_end(c, error, error == 0 ? DB_IN : DB_OUT);
}

/* --- the round ------------------------------------------------------------------------------ */

static size_t count_text(const struct conclave_double_barrier *db, char buf[16])
{
    return (size_t)snprintf(buf, 16, "%" PRIu32, db->count);
}

static void on_round(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    char text[16];
    size_t len = count_text(db_of(c), text);
    if (reply->error == CONCLAVE_NO_NODE) {
        db_to(c, ENTER_MAKE_ROUND);
    } else if (reply->error != 0) {
        call_trouble(call, reply->error);
    } else if (db_is_foreign(db_of(c)) ||
               (reply->data_len == len && memcmp(reply->data, text, len) == 0)) {
        db_to(c, ENTER_FIRST);
    } else {
        db_enter_end(call, CONCLAVE_ECONFLICT);
    }
}

static void on_round_made(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    struct conclave_double_barrier *db = db_of(c);
    if (reply->error == 0 || reply->error == CONCLAVE_NODE_EXISTS) {
        db_to(c, ENTER_ROUND);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        call->ensure.persistent = db_is_foreign(db);
        call_ensure(call, db->path, db->acl, db->acl_count);
    } else if (reply->error == CONCLAVE_UNIMPLEMENTED && !c->plain) {
        c->plain = true;
    } else {
        call_trouble(call, reply->error);
    }
}

/* The node's ACL is the barrier's. */
static struct conclave_op create_op(const struct conclave_double_barrier *db, const char *path,
                                    const char *data, enum conclave_create_mode mode)
{
    struct conclave_op op = conclave_op_create(path, data, strlen(data), mode);
    op.acl = db->acl;
    op.acl_count = db->acl_count;
    return op;
}

/* --- joining --------------------------------------------------------------------------------- */

static int make_me(struct conclave_double_barrier *db)
{
    char guid[MEMBER_INCARNATION_MAX];
    char name[MEMBER_INCARNATION_MAX + 2];
    db_forget_me(db);
    member_incarnation(guid);
    (void)snprintf(name, sizeof name, "%s%s", db_is_foreign(db) ? "" : "m-", guid);
    db->me = path_join(db->round, name);
    db->removal = db->me == NULL ? NULL : deletion_create(db->me);
    return db->removal == NULL ? CONCLAVE_ENOMEM : 0;
}

static void joined(struct db_call *c, int64_t czxid)
{
    struct conclave_double_barrier *db = db_of(c);
    assert(!db->joined && db->gone == 0);
    db->joined = true;
    c->czxid = czxid;
    db_to(c, ENTER_LOOK);
    db_own_run(db);
}

static void on_first(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    if (reply->error == CONCLAVE_NO_NODE || (reply->error == 0 && db_of(c)->late_pass)) {
        db_to(c, ENTER_JOIN);
    } else if (reply->error == 0) {
        db_enter_end(call, CONCLAVE_ECONFLICT);
    } else {
        call_trouble(call, reply->error);
    }
}

static void on_joined(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    if (reply->error == 0 && reply->has_stat) {
        joined(c, reply->stat.czxid);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        db_to(c, ENTER_ROUND); /* reaped */
    } else if (reply->error == 0 || error_is_unknown(reply->error) ||
               reply->error == CONCLAVE_SESSION_EXPIRED) {
        db_to(c, ENTER_JOIN_UNKNOWN);
    } else {
        call_trouble(call, reply->error);
    }
}

static void enter_join(struct db_call *c)
{
    struct conclave_double_barrier *db = db_of(c);
    if (make_me(db) != 0) {
        call_retry_later(&c->call);
        return;
    }
    db->session_id = client_session_id(call_client(&c->call));
    struct conclave_op op = create_op(db, db->me, db->id, CONCLAVE_EPHEMERAL);
    call_send(&c->call, &op, on_joined);
}

/* --- lost answers ------------------------------------------------------------------------------ */

static void withdrawn(struct db_call *c)
{
    assert(c->call.stop != 0);
    db_of(c)->joined = false;
    db_enter_end(&c->call, c->call.stop);
}

/* Of a join: whether our node exists. Of a withdrawal: whether it still does. */
static void enter_on_found(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    bool join = c->phase == ENTER_JOIN_UNKNOWN;
    bool mine = reply->error == 0 && reply->stat.ephemeral_owner == db_of(c)->session_id;
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        call_trouble(call, reply->error);
    } else if (join && mine) {
        joined(c, reply->stat.czxid);
    } else if (join || mine) {
        db_to(c, join ? ENTER_JOIN : ENTER_WITHDRAW);
    } else {
        withdrawn(c);
    }
}

static void enter_on_synced(struct call *call, const struct conclave_reply *reply)
{
    if (reply->error != 0) {
        call_trouble(call, reply->error);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, db_of(db_call_of(call))->me, 0);
    call_send(call, &op, enter_on_found);
}

/* --- waiting and opening ------------------------------------------------------------------------- */

static void enter_on_ready(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    struct conclave_double_barrier *db = db_of(c);
    watch_slot_answered(&c->watch, reply->error == 0 || reply->error == CONCLAVE_NO_NODE);
    if (reply->error == 0 && reply->stat.czxid < c->czxid && !db->late_pass) {
        db_enter_end(call, CONCLAVE_ECONFLICT); /* opened without us */
    } else if (reply->error == 0 && db->gone == 0) {
        db_enter_end(call, 0);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        db_to(c, ENTER_COUNT);
    } else if (reply->error != 0) {
        call_trouble(call, reply->error);
    }
}

static int keep_members(struct db_call *c, const struct conclave_reply *reply, bool *ret_me)
{
    const char *me = path_name(db_of(c)->me);
    db_members_clear(c);
    *ret_me = false;
    c->members = calloc(reply->children_count + 1, sizeof *c->members);
    if (c->members == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < reply->children_count; i++) {
        if (!db_is_member(db_of(c), reply->children[i])) {
            continue;
        }
        char *path = path_join(db_of(c)->round, reply->children[i]);
        if (path == NULL) {
            return CONCLAVE_ENOMEM;
        }
        c->members[c->members_count++] = path;
        *ret_me = *ret_me || strcmp(reply->children[i], me) == 0;
    }
    return 0;
}

static void enter_on_counted(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    struct conclave_double_barrier *db = db_of(c);
    bool me = false;
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        call_trouble(call, reply->error);
    } else if (keep_members(c, reply, &me) != 0) {
        call_retry_later(call);
    } else if (!me) {
        db->gone = db->gone == 0 ? CONCLAVE_ELOST : db->gone;
    } else if (c->members_count >= db->count) {
        db_to(c, ENTER_OPEN);
    } else {
        c->counted = true;
        db_to(c, ENTER_LOOK); /* with a watch that is set: the last member to come opens */
    }
}

static void on_opened(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    if (reply->error == 0) {
        db_enter_end(call, 0);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        db_to(c, ENTER_COUNT); /* somebody has gone */
    } else {
        watch_slot_clear(&c->watch); /* opened by another, or unknown: look again */
        db_to(c, ENTER_LOOK);
        if (reply->error != CONCLAVE_NODE_EXISTS) {
            call_trouble(call, reply->error);
        }
    }
}

static void open_it(struct db_call *c)
{
    size_t count = c->members_count;
    struct conclave_op *parts = calloc(count + 1, sizeof *parts);
    if (parts == NULL) {
        call_retry_later(&c->call);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        parts[i] = conclave_op_path(CONCLAVE_OP_CHECK, c->members[i], -1);
    }
    parts[count] = create_op(db_of(c), db_of(c)->ready, "", CONCLAVE_PERSISTENT);
    struct conclave_op op = conclave_op_multi(parts, count + 1);
    call_send(&c->call, &op, on_opened);
    free(parts);
}

/* --- withdrawing ------------------------------------------------------------------------------------ */

static void on_withdraw_ready(struct call *call, const struct conclave_reply *reply);

static void look_at_ready(struct db_call *c)
{
    struct conclave_op look = conclave_op_path(CONCLAVE_OP_EXISTS, db_of(c)->ready, 0);
    look.linearizable = true;
    call_send(&c->call, &look, on_withdraw_ready);
}

static void on_withdrawn(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    if (reply->results_count > 0 && reply->results[0]->error == CONCLAVE_NODE_EXISTS) {
        look_at_ready(c); /* it opened first: with us? */
    } else if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        withdrawn(c);
    } else if (error_is_unknown(reply->error)) {
        db_to(c, ENTER_WITHDRAW_UNKNOWN);
    } else {
        call_retry_later(call); /* as long as the session lives */
    }
}

/* Open, with us or before we came. In a layout of others also: not open a moment ago. */
static void on_withdraw_ready(struct call *call, const struct conclave_reply *reply)
{
    struct db_call *c = db_call_of(call);
    struct conclave_double_barrier *db = db_of(c);
    if (reply->error == 0 && reply->stat.czxid < c->czxid && !db->late_pass) {
        db_enter_end(call, CONCLAVE_ECONFLICT); /* it opened before we came */
    } else if (reply->error == 0) {
        db_enter_end(call, 0); /* it opened first, with us */
    } else if (reply->error == CONCLAVE_NO_NODE) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, db->me, -1);
        if (db_is_foreign(db)) {
            call_send(call, &op, on_withdrawn);
        } /* else somebody removed it: it withdraws again */
    } else if (error_is_unknown(reply->error)) {
        call_trouble(call, reply->error);
    } else {
        call_retry_later(call);
    }
}

static void enter_withdraw(struct db_call *c)
{
    struct conclave_double_barrier *db = db_of(c);
    struct conclave_op parts[3];
    if (db_is_foreign(db)) {
        look_at_ready(c);
        return;
    }
    parts[0] = create_op(db, db->ready, "", CONCLAVE_PERSISTENT);
    parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, db->ready, -1);
    parts[2] = conclave_op_path(CONCLAVE_OP_DELETE, db->me, -1);
    struct conclave_op op = conclave_op_multi(parts, 3);
    call_send(&c->call, &op, on_withdrawn);
}

/* --- the machine -------------------------------------------------------------------------------------- */

/* The join's session is over: its node is gone. */
static bool session_over(struct db_call *c)
{
    struct conclave_client *client = call_client(&c->call);
    enum conclave_state state = client_state(client);
    return state == CONCLAVE_STATE_LOST || state_is_final(state) ||
           client_session_id(client) != db_of(c)->session_id;
}

static void enter_run_phase(struct db_call *c)
{
    struct conclave_double_barrier *db = db_of(c);
    struct conclave_op op;
    switch (c->phase) {
    case ENTER_ROUND:
        op = conclave_op_path(CONCLAVE_OP_GET, db->round, 0);
        call_send(&c->call, &op, on_round);
        break;
    case ENTER_MAKE_ROUND: {
        char text[16];
        (void)count_text(db, text);
        bool plain = c->plain || db_is_foreign(db); /* others do not make it again */
        op = create_op(db, db->round, db_is_foreign(db) ? "" : text,
                       plain ? CONCLAVE_PERSISTENT : CONCLAVE_CONTAINER);
        call_send(&c->call, &op, on_round_made);
        break;
    }
    case ENTER_FIRST:
        op = conclave_op_path(CONCLAVE_OP_EXISTS, db->ready, 0);
        call_send(&c->call, &op, on_first);
        break;
    case ENTER_JOIN:
        enter_join(c);
        break;
    case ENTER_JOIN_UNKNOWN:
    case ENTER_WITHDRAW_UNKNOWN:
        op = conclave_op_path(CONCLAVE_OP_SYNC, db->round, 0);
        call_send(&c->call, &op, enter_on_synced);
        break;
    case ENTER_LOOK:
        if (!c->watch.armed) {
            op = conclave_op_path(CONCLAVE_OP_EXISTS, NULL, 0);
            call_send_watch(&c->call, &c->watch, db->ready, op, enter_on_ready);
        }
        break;
    case ENTER_COUNT:
        op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, db->round, 0);
        call_send(&c->call, &op, enter_on_counted);
        break;
    case ENTER_OPEN:
        open_it(c);
        break;
    default:
        assert(c->phase == ENTER_WITHDRAW);
        enter_withdraw(c);
        break;
    }
}

void db_enter_run(struct call *call)
{
    struct db_call *c = db_call_of(call);
    struct conclave_double_barrier *db = db_of(c);
    bool gives_up = call->stop != 0 && (c->counted || call_gives_up(call));
    if (db->gone == CONCLAVE_ELOST && c->phase >= ENTER_WITHDRAW) {
        withdrawn(c); /* its answer was lost, and the watch tells */
        return;
    }
    if (db->gone != 0) {
        bool final = state_is_final(client_state(call_client(call)));
        db_enter_end(call, final ? call->stop : db->gone);
        return;
    }
    if (c->opened && db->joined && c->phase <= ENTER_WITHDRAW) {
        db_enter_end(call, 0);
        return;
    }
    if (c->phase == ENTER_JOIN_UNKNOWN && session_over(c)) {
        db_enter_end(call, CONCLAVE_SESSION_EXPIRED);
        return;
    }
    if (gives_up && db->joined && c->phase < ENTER_WITHDRAW) {
        db_to(c, ENTER_WITHDRAW);
    } else if (gives_up && !db->joined && c->phase != ENTER_JOIN_UNKNOWN) {
        db_enter_end(call, call->stop);
        return;
    }
    if (call_can_send(call)) {
        enter_run_phase(c);
    }
}
