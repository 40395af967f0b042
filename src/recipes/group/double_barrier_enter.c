/*
 * Entering. Opening and withdrawing are transactions:
 *
 *   open      { check every member counted, create ready }   only while all stand there
 *   withdraw  { create ready, delete ready, delete m }       only while it is not open
 *
 * so that it opens only with as many as it takes, and who withdraws is not among them. Who joined
 * after it was opened is late: its node is younger than `ready`. Waiting is for `ready` alone,
 * asked for each time; what woke it says nothing.
 *
 *   ROUND --number agrees--> FIRST --not open--> JOIN --m stands--> LOOK <--> COUNT --all--> OPEN
 *                              |                                     | time over
 *                              '-- open: late                        '--> WITHDRAW --> out, or entered
 */
#include "recipes/group/double_barrier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum enter_phase {
    ENTER_ROUND,
    ENTER_MAKE_ROUND,
    ENTER_FIRST, /* whether it is open before we came */
    ENTER_JOIN,
    ENTER_JOIN_UNKNOWN,
    ENTER_LOOK, /* whether it is open */
    ENTER_COUNT,
    ENTER_OPEN,
    ENTER_WITHDRAW,
    ENTER_WITHDRAW_UNKNOWN,
};

struct enter {
    struct call call; /* first */
    enum enter_phase phase;
    bool now;     /* timeout 0 */
    bool counted; /* once at least: then a try without waiting is over */
    bool plain;   /* the server has no containers */
    struct step step;
    struct ensure_path ensure;
    bool ensuring;
    struct watch_slot ready_watch;
    char **members; /* paths of all that stand there, for opening */
    size_t members_count;
    int64_t sent_session;
    int64_t czxid; /* of our node */
    conclave_double_barrier_fn done;
    void *ctx;
};

static struct enter *enter_of(struct call *call)
{
    return CONTAINER_OF(call, struct enter, call);
}

static struct conclave_double_barrier *db(const struct enter *e)
{
    return db_of(e->call.host);
}

static void members_clear(struct enter *e)
{
    for (size_t i = 0; i < e->members_count; i++) {
        free(e->members[i]);
    }
    free(e->members);
    e->members = NULL;
    e->members_count = 0;
}

static void enter_end(struct enter *e, int error)
{
    if (!e->ready_watch.pending) {
        watch_slot_clear(&e->ready_watch);
    }
    struct conclave_double_barrier *b = db(e);
    bool leaves = error == 0 && e->call.stop == CONCLAVE_ECLOSED; /* at the last moment */
    if (b->joined && b->gone == 0 && (error != 0 || leaves)) {
        db_remove_me(b);
    }
    error = leaves ? CONCLAVE_ECLOSED : error;
    db_call_over(b, error == 0 ? DB_IN : DB_OUT);
    call_end(&e->call, error);
}

static void to(struct enter *e, enum enter_phase phase)
{
    e->phase = phase;
}

/* --- the round ------------------------------------------------------------------------------ */

/* An error that will not pass ends it. */
static void enter_trouble(struct enter *e, int error)
{
    if (error_is_fatal(error)) {
        enter_end(e, error);
    } else {
        call_trouble(&e->call, error);
    }
}

static void double_barrier_enter_on_ensured(struct ensure_path *ensure, int error)
{
    struct enter *e = CONTAINER_OF(ensure, struct enter, ensure);
    e->ensuring = false;
    if (error != 0) {
        enter_trouble(e, error);
    }
    call_run(&e->call);
}

static void on_round(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    char text[16];
    if (reply->error == CONCLAVE_NO_NODE) {
        to(e, ENTER_MAKE_ROUND);
    } else if (reply->error != 0) {
        enter_trouble(e, reply->error);
    } else {
        (void)snprintf(text, sizeof text, "%" PRIu32, db(e)->count);
        if (reply->data_len == strlen(text) && memcmp(reply->data, text, strlen(text)) == 0) {
            to(e, ENTER_FIRST);
        } else {
            enter_end(e, CONCLAVE_ECONFLICT);
        }
    }
    call_run(&e->call);
}

static void on_round_made(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    if (reply->error == 0 || reply->error == CONCLAVE_NODE_EXISTS) {
        to(e, ENTER_ROUND);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        e->ensuring = ensure_path_start(&e->ensure, db(e)->path, db(e)->acl, db(e)->acl_count,
                                        double_barrier_enter_on_ensured) == 0;
        if (!e->ensuring) {
            call_retry_later(&e->call);
        }
    } else if (reply->error == CONCLAVE_UNIMPLEMENTED && !e->plain) {
        e->plain = true;
    } else {
        enter_trouble(e, reply->error);
    }
    call_run(&e->call);
}

static void make_round(struct enter *e)
{
    char text[16];
    int len = snprintf(text, sizeof text, "%" PRIu32, db(e)->count);
    struct conclave_op op = conclave_op_create(db(e)->round, text, (size_t)len,
                                               e->plain ? CONCLAVE_PERSISTENT : CONCLAVE_CONTAINER);
    op.acl = db(e)->acl;
    op.acl_count = db(e)->acl_count;
    step_submit(&e->step, &op, on_round_made);
}

/* --- joining --------------------------------------------------------------------------------- */

static int make_me(struct enter *e)
{
    char prefix[NAME_PREFIX_MAX];
    char name[NAME_PREFIX_MAX + 2];
    db_forget_me(db(e));
    name_make_prefix(CONCLAVE_NAMING_NATIVE, NAME_PLAIN, prefix);
    prefix[strcspn(prefix, "-")] = '\0'; /* the guid alone */
    (void)snprintf(name, sizeof name, "m-%s", prefix);
    db(e)->me = path_join(db(e)->round, name);
    db(e)->removal = db(e)->me == NULL ? NULL : deletion_create(db(e)->me);
    return db(e)->removal == NULL ? CONCLAVE_ENOMEM : 0;
}

static void joined(struct enter *e, int64_t czxid)
{
    db(e)->joined = true;
    db(e)->session_id = e->sent_session;
    e->czxid = czxid;
    to(e, ENTER_LOOK);
    db_own_run(db(e));
}

static void on_first(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    if (reply->error == CONCLAVE_NO_NODE || (reply->error == 0 && db(e)->late_pass)) {
        to(e, ENTER_JOIN);
    } else if (reply->error == 0) {
        enter_end(e, CONCLAVE_ECONFLICT);
    } else {
        enter_trouble(e, reply->error);
    }
    call_run(&e->call);
}

static void on_joined(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    if (reply->error == 0 && reply->has_stat) {
        joined(e, reply->stat.czxid);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        to(e, ENTER_ROUND); /* reaped */
    } else if (reply->error == 0 || error_is_unknown(reply->error) ||
               reply->error == CONCLAVE_SESSION_EXPIRED) {
        to(e, ENTER_JOIN_UNKNOWN);
    } else {
        enter_trouble(e, reply->error);
    }
    call_run(&e->call);
}

static void double_barrier_enter_join(struct enter *e)
{
    struct conclave_double_barrier *b = db(e);
    if (make_me(e) != 0) {
        call_retry_later(&e->call);
        return;
    }
    e->sent_session = client_session_id(call_client(&e->call));
    struct conclave_op op = conclave_op_create(b->me, b->id, strlen(b->id), CONCLAVE_EPHEMERAL);
    op.acl = b->acl;
    op.acl_count = b->acl_count;
    step_submit(&e->step, &op, on_joined);
}

/* --- lost answers ------------------------------------------------------------------------------ */

static void withdrawn(struct enter *e)
{
    db(e)->joined = false;
    enter_end(e, e->call.stop);
}

/* Of a join: whether our node stands. Of a withdrawal: whether it still does. */
static void on_found(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    bool mine = reply->error == 0 && reply->stat.ephemeral_owner == e->sent_session;
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        enter_trouble(e, reply->error);
    } else if (e->phase == ENTER_JOIN_UNKNOWN && mine) {
        joined(e, reply->stat.czxid);
    } else if (e->phase == ENTER_JOIN_UNKNOWN) {
        to(e, ENTER_JOIN);
    } else if (mine) {
        to(e, ENTER_WITHDRAW);
    } else {
        withdrawn(e);
    }
    call_run(&e->call);
}

static void double_barrier_enter_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    if (reply->error != 0) {
        enter_trouble(e, reply->error);
        call_run(&e->call);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, db(e)->me, 0);
    step_submit(&e->step, &op, on_found);
}

/* --- waiting and opening ------------------------------------------------------------------------- */

static void double_barrier_enter_on_ready(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    watch_slot_answered(&e->ready_watch, reply->error == 0 || reply->error == CONCLAVE_NO_NODE);
    if (reply->error == 0 && reply->stat.czxid < e->czxid && !db(e)->late_pass) {
        enter_end(e, CONCLAVE_ECONFLICT); /* opened without us */
    } else if (reply->error == 0 && db(e)->gone == 0) {
        enter_end(e, 0);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        to(e, ENTER_COUNT);
    } else if (reply->error != 0) {
        enter_trouble(e, reply->error);
    }
    call_run(&e->call);
}

static void double_barrier_enter_look(struct enter *e)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, NULL, 0);
    if (watch_slot_prepare(&e->ready_watch, db(e)->ready, &op) != 0) {
        call_retry_later(&e->call);
        return;
    }
    step_submit(&e->step, &op, double_barrier_enter_on_ready);
}

static int keep_members(struct enter *e, const struct conclave_reply *reply, bool *ret_me)
{
    const char *me = path_name(db(e)->me);
    members_clear(e);
    *ret_me = false;
    e->members = calloc(reply->children_count + 1, sizeof *e->members);
    if (e->members == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < reply->children_count; i++) {
        if (!db_is_member(reply->children[i])) {
            continue;
        }
        char *path = path_join(db(e)->round, reply->children[i]);
        if (path == NULL) {
            return CONCLAVE_ENOMEM;
        }
        e->members[e->members_count++] = path;
        *ret_me = *ret_me || strcmp(reply->children[i], me) == 0;
    }
    return 0;
}

static void on_counted(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    bool me = false;
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        enter_trouble(e, reply->error);
    } else if (keep_members(e, reply, &me) != 0) {
        call_retry_later(&e->call);
    } else if (!me) {
        if (db(e)->gone == 0) {
            db(e)->gone = CONCLAVE_ELOST;
        }
    } else if (e->members_count >= db(e)->count) {
        to(e, ENTER_OPEN);
    } else {
        e->counted = true;
        to(e, ENTER_LOOK); /* with a watch that stands: who comes as the last one opens */
    }
    call_run(&e->call);
}

static void on_opened(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    if (reply->error == 0) {
        enter_end(e, 0);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        to(e, ENTER_COUNT); /* somebody has gone */
    } else {
        watch_slot_clear(&e->ready_watch); /* opened by another, or nobody knows: looked at anew */
        to(e, ENTER_LOOK);
        if (reply->error != CONCLAVE_NODE_EXISTS) {
            enter_trouble(e, reply->error);
        }
    }
    call_run(&e->call);
}

static void open_it(struct enter *e)
{
    size_t count = e->members_count;
    struct conclave_op *parts = calloc(count + 1, sizeof *parts);
    if (parts == NULL) {
        call_retry_later(&e->call);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        parts[i] = conclave_op_path(CONCLAVE_OP_CHECK, e->members[i], -1);
    }
    parts[count] = conclave_op_create(db(e)->ready, "", 0, CONCLAVE_PERSISTENT);
    parts[count].acl = db(e)->acl;
    parts[count].acl_count = db(e)->acl_count;
    struct conclave_op op = conclave_op_multi(parts, count + 1);
    step_submit(&e->step, &op, on_opened);
    free(parts);
}

/* --- withdrawing ------------------------------------------------------------------------------------ */

/* The error of a part; 0 when it was not that part. */
static int part_error(const struct conclave_reply *reply, size_t index)
{
    int error = index < reply->results_count ? reply->results[index].error : 0;
    return error == CONCLAVE_RUNTIME_INCONSISTENCY ? 0 : error;
}

static void on_withdrawn(struct step *step, const struct conclave_reply *reply)
{
    struct enter *e = CONTAINER_OF(step, struct enter, step);
    if (part_error(reply, 0) == CONCLAVE_NODE_EXISTS) {
        enter_end(e, 0); /* it opened first, with us */
    } else if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        withdrawn(e);
    } else if (error_is_unknown(reply->error)) {
        to(e, ENTER_WITHDRAW_UNKNOWN);
    } else {
        call_retry_later(&e->call); /* as long as the session lives */
    }
    call_run(&e->call);
}

static void double_barrier_enter_withdraw(struct enter *e)
{
    struct conclave_op parts[3];
    parts[0] = conclave_op_create(db(e)->ready, "", 0, CONCLAVE_PERSISTENT);
    parts[0].acl = db(e)->acl;
    parts[0].acl_count = db(e)->acl_count;
    parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, db(e)->ready, -1);
    parts[2] = conclave_op_path(CONCLAVE_OP_DELETE, db(e)->me, -1);
    struct conclave_op op = conclave_op_multi(parts, 3);
    step_submit(&e->step, &op, on_withdrawn);
}

/* --- the machine -------------------------------------------------------------------------------------- */

/* The session that a join was sent in is over: nothing of it stands. */
static bool session_over(struct enter *e)
{
    struct conclave_client *client = call_client(&e->call);
    enum conclave_state state = client_state(client);
    return state == CONCLAVE_STATE_LOST || state_is_final(state) ||
           client_session_id(client) != e->sent_session;
}

/* True: it has ended, or goes another way. */
static bool run_stop(struct enter *e)
{
    struct conclave_double_barrier *b = db(e);
    if (e->call.stop == 0 || e->phase >= ENTER_WITHDRAW) {
        return false;
    }
    if (e->now && !e->counted && e->call.stop == CONCLAVE_ETIMEDOUT && call_can_send(&e->call)) {
        return false; /* a try that does not wait looks once */
    }
    if (b->joined) {
        to(e, ENTER_WITHDRAW);
    } else if (e->phase != ENTER_JOIN_UNKNOWN) {
        enter_end(e, e->call.stop);
        return true;
    }
    return false;
}

static void run_phase(struct enter *e)
{
    struct conclave_op op;
    switch (e->phase) {
    case ENTER_ROUND:
        op = conclave_op_path(CONCLAVE_OP_GET, db(e)->round, 0);
        step_submit(&e->step, &op, on_round);
        break;
    case ENTER_MAKE_ROUND:
        make_round(e);
        break;
    case ENTER_FIRST:
        op = conclave_op_path(CONCLAVE_OP_EXISTS, db(e)->ready, 0);
        step_submit(&e->step, &op, on_first);
        break;
    case ENTER_JOIN:
        double_barrier_enter_join(e);
        break;
    case ENTER_JOIN_UNKNOWN:
    case ENTER_WITHDRAW_UNKNOWN:
        op = conclave_op_path(CONCLAVE_OP_SYNC, db(e)->round, 0);
        step_submit(&e->step, &op, double_barrier_enter_on_synced);
        break;
    case ENTER_LOOK:
        if (!e->ready_watch.armed) {
            double_barrier_enter_look(e);
        }
        break;
    case ENTER_COUNT:
        op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, db(e)->round, 0);
        step_submit(&e->step, &op, on_counted);
        break;
    case ENTER_OPEN:
        open_it(e);
        break;
    case ENTER_WITHDRAW:
        double_barrier_enter_withdraw(e);
        break;
    }
}

static void enter_run(struct call *call)
{
    struct enter *e = enter_of(call);
    if (e->step.busy || e->ensuring) {
        return;
    }
    if (db(e)->gone == CONCLAVE_ELOST && e->phase >= ENTER_WITHDRAW) {
        withdrawn(e); /* its answer was lost, and the watch tells */
        return;
    }
    if (db(e)->gone != 0) {
        bool final = state_is_final(client_state(call_client(call)));
        enter_end(e, final ? call->stop : db(e)->gone);
        return;
    }
    if (e->phase == ENTER_JOIN_UNKNOWN && session_over(e)) {
        enter_end(e, CONCLAVE_SESSION_EXPIRED);
        return;
    }
    if (!run_stop(e) && call_can_send(call)) {
        run_phase(e);
    }
}

static void enter_on_state(struct call *call, enum conclave_state state)
{
    struct enter *e = enter_of(call);
    if (db(e)->joined && db(e)->gone == 0 && session_over(e)) {
        db(e)->gone = CONCLAVE_SESSION_EXPIRED;
    }
}

static void enter_tell(struct call *call)
{
    struct enter *e = enter_of(call);
    if (e->done != NULL) {
        e->done(db(e), call->error, e->ctx);
    }
}

static void enter_free(struct call *call)
{
    struct enter *e = enter_of(call);
    watch_slot_clear(&e->ready_watch);
    ensure_path_finish(&e->ensure);
    members_clear(e);
    free(e);
}

static const struct call_class enter_class = {enter_run, enter_on_state, enter_tell, enter_free};

static void on_ready_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    call_run(&CONTAINER_OF(slot, struct enter, ready_watch)->call);
}

int db_enter_create(struct conclave_double_barrier *b, conclave_double_barrier_fn done, void *ctx,
                    bool now, struct call **ret)
{
    struct enter *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return CONCLAVE_ENOMEM;
    }
    call_init(&e->call, &b->host, &enter_class);
    step_init(&e->step, &e->call.handle);
    ensure_path_init(&e->ensure, &e->call.handle);
    watch_slot_init(&e->ready_watch, &e->call.handle, on_ready_watch);
    e->now = now;
    e->done = done;
    e->ctx = ctx;
    *ret = &e->call;
    return 0;
}
