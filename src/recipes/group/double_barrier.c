/* The double barrier's handle: options, membership, the public functions. */
#include "recipes/group/double_barrier.h"

#include "base/transition.h"
#include "client/core/acl.h"
#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"

#include <stdlib.h>
#include <string.h>

static struct conclave_double_barrier *db_of_host(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_double_barrier, host);
}

/* --- transitions ------------------------------------------------------------------------ */

static const uint16_t DB_NEXT[] = {
    [DB_OUT] = TRANSITION_TO(DB_ENTERING),
    [DB_ENTERING] = TRANSITION_TO(DB_IN) | TRANSITION_TO(DB_OUT),
    [DB_IN] = TRANSITION_TO(DB_LEAVING) | TRANSITION_TO(DB_OUT),
    [DB_LEAVING] = TRANSITION_TO(DB_OUT),
};

static void db_to_state(struct conclave_double_barrier *db, enum db_state state)
{
    transition_check(DB_NEXT, db->state, state);
    assert(state != DB_IN || (db->joined && db->gone == 0));
    db->state = state;
}

static const uint16_t PHASE_NEXT[] = {
    [ENTER_ROUND] = TRANSITION_TO(ENTER_MAKE_ROUND) | TRANSITION_TO(ENTER_FIRST),
    [ENTER_MAKE_ROUND] = TRANSITION_TO(ENTER_ROUND),
    [ENTER_FIRST] = TRANSITION_TO(ENTER_JOIN),
    [ENTER_JOIN] =
        TRANSITION_TO(ENTER_LOOK) | TRANSITION_TO(ENTER_ROUND) | TRANSITION_TO(ENTER_JOIN_UNKNOWN),
    [ENTER_JOIN_UNKNOWN] = TRANSITION_TO(ENTER_LOOK) | TRANSITION_TO(ENTER_JOIN),
    [ENTER_LOOK] = TRANSITION_TO(ENTER_COUNT) | TRANSITION_TO(ENTER_WITHDRAW),
    [ENTER_COUNT] =
        TRANSITION_TO(ENTER_OPEN) | TRANSITION_TO(ENTER_LOOK) | TRANSITION_TO(ENTER_WITHDRAW),
    [ENTER_OPEN] =
        TRANSITION_TO(ENTER_COUNT) | TRANSITION_TO(ENTER_LOOK) | TRANSITION_TO(ENTER_WITHDRAW),
    [ENTER_WITHDRAW] = TRANSITION_TO(ENTER_WITHDRAW_UNKNOWN),
    [ENTER_WITHDRAW_UNKNOWN] = TRANSITION_TO(ENTER_WITHDRAW),
    [LEAVE_LIST] = TRANSITION_TO(LEAVE_LIST) | TRANSITION_TO(LEAVE_LAST) |
                   TRANSITION_TO(LEAVE_REMOVE) | TRANSITION_TO(LEAVE_WATCH) |
                   TRANSITION_TO(LEAVE_READY),
    [LEAVE_LAST] =
        TRANSITION_TO(LEAVE_ROUND) | TRANSITION_TO(LEAVE_REMOVE) | TRANSITION_TO(LEAVE_LIST),
    [LEAVE_REMOVE] = TRANSITION_TO(LEAVE_LIST),
    [LEAVE_WATCH] = TRANSITION_TO(LEAVE_LIST),
    [LEAVE_READY] = TRANSITION_TO(LEAVE_ROUND) | TRANSITION_TO(LEAVE_LIST),
    [LEAVE_ROUND] = 0,
};

void db_to(struct db_call *c, enum db_phase phase)
{
    transition_check(PHASE_NEXT, c->phase, phase);
    assert((phase >= LEAVE_LIST) == (db_of(c)->state == DB_LEAVING));
    assert(phase < ENTER_LOOK || db_of(c)->joined); /* all that follows is about its node */
    c->phase = phase;
}

bool db_is_member(const struct conclave_double_barrier *db, const char *name)
{
    return db_is_foreign(db) ? strcmp(name, "ready") != 0 : strncmp(name, "m-", 2) == 0;
}

/* --- the membership --------------------------------------------------------------------- */

void db_forget_me(struct conclave_double_barrier *db)
{
    if (!db->own.pending) {
        watch_slot_clear(&db->own);
    }
    free(db->me);
    deletion_free(db->removal);
    db->me = NULL;
    db->removal = NULL;
    db->joined = false;
}

void db_remove_me(struct conclave_double_barrier *db)
{
    if (db->removal != NULL) {
        deletes_start(&db->host.handle.rt->deletes, db->removal, NULL, NULL);
        db->removal = NULL;
    }
}

/* The node is gone, and this client did not remove it. */
static void member_gone(struct conclave_double_barrier *db, int why)
{
    if (!db->joined || db->gone != 0) {
        return;
    }
    db->gone = why;
    if (db->state == DB_IN) {
        db_to_state(db, DB_OUT);
        db_forget_me(db);
        db->gone_due = db->callbacks.on_lost != NULL;
        handle_post(&db->host.handle);
    } else if (db->call != NULL) {
        call_run(db->call);
    }
}

static void double_barrier_on_own(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_double_barrier *db =
        CONTAINER_OF(step, struct conclave_double_barrier, own_step);
    watch_slot_answered(&db->own, reply->error == 0);
    if (!db->joined || db->state == DB_LEAVING) {
        watch_slot_clear(&db->own);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        member_gone(db, CONCLAVE_ELOST);
    } else if (reply->error != 0 && reply->error != CONCLAVE_CONNECTION_LOSS) {
        recipes_retry_later(db->host.handle.rt, &db->own_retry);
    }
    db_own_run(db);
}

void db_own_run(struct conclave_double_barrier *db)
{
    bool wanted = db->joined && db->gone == 0 && (db->state == DB_ENTERING || db->state == DB_IN);
    if (!wanted || db->own.armed || db->own_step.busy || client_timer_active(&db->own_retry) ||
        !recipes_connected(db->host.handle.rt)) {
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    if (watch_slot_prepare(&db->own, db->me, &op) != 0) {
        recipes_retry_later(db->host.handle.rt, &db->own_retry);
        return;
    }
    step_submit(&db->own_step, &op, double_barrier_on_own);
}

static void on_own_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    db_own_run(CONTAINER_OF(slot, struct conclave_double_barrier, own));
}

static void on_own_retry(struct conclave_client *client, void *ctx)
{
    db_own_run(ctx);
}

/* --- the handle ---------------------------------------------------------------------------- */

static void db_on_state(struct host *host, enum conclave_state state)
{
    struct conclave_double_barrier *db = db_of_host(host);
    struct conclave_client *client = host->handle.rt->client;
    client_timer_stop(client, &db->own_retry);
    if (state == CONCLAVE_STATE_LOST || state_is_final(state) ||
        (recipes_connected(host->handle.rt) && client_session_id(client) != db->session_id)) {
        member_gone(db,
                    state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_SESSION_EXPIRED);
    }
    db_own_run(db);
}

static bool db_run_due(struct host *host)
{
    struct conclave_double_barrier *db = db_of_host(host);
    struct conclave_client *client = host->handle.rt->client;
    if (!db->gone_due) {
        return false;
    }
    db->gone_due = false;
    int why = db->gone;
    client_unlock(client);
    db->callbacks.on_lost(db, why, db->ctx);
    client_lock(client);
    return true;
}

/* Enter and leave are stopped by themselves. */
static void db_stop(struct host *host)
{
    struct conclave_double_barrier *db = db_of_host(host);
    if (db->state != DB_IN) {
        return;
    }
    if (!state_is_final(client_state(host->handle.rt->client))) {
        db_remove_me(db);
    }
    db_to_state(db, DB_OUT);
    db_forget_me(db);
}

static void db_tell_closed(struct host *host, int why)
{
    struct conclave_double_barrier *db = db_of_host(host);
    if (db->callbacks.on_closed != NULL) {
        db->callbacks.on_closed(db, why, db->ctx);
    }
}

static void db_free(struct host *host)
{
    struct conclave_double_barrier *db = db_of_host(host);
    client_timer_stop(host->handle.rt->client, &db->own_retry);
    watch_slot_clear(&db->own);
    free(db->path);
    free(db->round);
    free(db->ready);
    free(db->id);
    free(db->acl);
    free(db->me);
    deletion_free(db->removal);
    free(db);
}

static const struct host_class db_class = {
    .on_state = db_on_state,
    .run_due = db_run_due,
    .stop = db_stop,
    .tell_closed = db_tell_closed,
    .free = db_free,
};

static bool db_options_valid(const struct conclave_double_barrier_options *o)
{
    return option_path_valid(o->path) && o->count > 0 && o->count <= CONCLAVE_DOUBLE_BARRIER_MAX &&
           o->layout >= CONCLAVE_BARRIER_LAYOUT_NATIVE &&
           o->layout <= CONCLAVE_BARRIER_LAYOUT_KAZOO &&
           (o->round == NULL || (o->round[0] != '\0' && strchr(o->round, '/') == NULL));
}

static int db_copy_options(struct conclave_double_barrier *db,
                           const struct conclave_double_barrier_options *o)
{
    db->layout = o->layout;
    db->path = strdup(o->path);
    db->round = db_is_foreign(db) && o->round == NULL
                    ? strdup(o->path)
                    : path_join(o->path, o->round != NULL ? o->round : "round");
    db->ready = db->round == NULL ? NULL : path_join(db->round, "ready");
    db->id = o->id != NULL ? strdup(o->id) : default_id();
    db->count = o->count;
    db->late_pass = o->late_pass;
    if (!acl_copy_option(o->acl, o->acl_count, &db->acl, &db->acl_count) || db->path == NULL ||
        db->ready == NULL || db->id == NULL) {
        return CONCLAVE_ENOMEM;
    }
    return path_is_valid(db->round, false) ? 0 : CONCLAVE_EINVAL;
}

int conclave_double_barrier_open(struct conclave_recipes *rt,
                                 const struct conclave_double_barrier_options *options,
                                 const struct conclave_double_barrier_callbacks *callbacks,
                                 void *ctx, struct conclave_double_barrier **ret)
{
    struct conclave_double_barrier_options own = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
    struct conclave_double_barrier_callbacks calls = CONCLAVE_DOUBLE_BARRIER_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 || !db_options_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_double_barrier *db = calloc(1, sizeof *db);
    if (db == NULL) {
        return CONCLAVE_ENOMEM;
    }
    db->callbacks = calls;
    db->ctx = ctx;
    step_init(&db->own_step, &db->host.handle);
    watch_slot_init(&db->own, &db->host.handle, on_own_watch);
    client_timer_init(&db->own_retry, on_own_retry, db);
    int error = host_open(&db->host, rt, &db_class, db_copy_options(db, &own));
    if (error == 0) {
        *ret = db;
        client_unlock(rt->client);
    }
    return error;
}

void conclave_double_barrier_close(struct conclave_double_barrier *db)
{
    host_close(&db->host);
}

int conclave_double_barrier_close_wait(struct conclave_double_barrier *db, int64_t timeout_ms)
{
    return host_close_wait(&db->host, timeout_ms);
}

void conclave_double_barrier_destroy(struct conclave_double_barrier *db)
{
    host_destroy(db == NULL ? NULL : &db->host);
}

/* --- enter and leave --------------------------------------------------------------------------- */

void db_call_end(struct db_call *c, int error, enum db_state state)
{
    struct conclave_double_barrier *db = db_of(c);
    int gone = db->gone;
    assert(db->call == &c->call && (state == DB_OUT || error == 0));
    watch_slot_clear(&c->watch);
    db->call = NULL;
    if (state == DB_IN) {
        db->gone = 0;
    }
    db_to_state(db, state);
    if (state == DB_OUT) {
        db_forget_me(db);
    } else if (db->host.closing.ending) {
        db_stop(&db->host);
    }
    call_end(&c->call, error);
    if (state == DB_IN && gone != 0) {
        member_gone(db, gone); /* it opened with our node, which has gone since */
    }
}

static void db_call_tell(struct call *call)
{
    struct db_call *c = db_call_of(call);
    if (c->done != NULL) {
        c->done(db_of(c), call->error, c->ctx);
    }
}

static void db_call_free(struct call *call)
{
    struct db_call *c = db_call_of(call);
    watch_slot_clear(&c->watch);
    db_members_clear(c);
    free(c->other);
    free(c);
}

static const struct call_class enter_class = {
    .run = db_enter_run,
    .fail = db_enter_end,
    .tell = db_call_tell,
    .free = db_call_free,
};

static const struct call_class leave_class = {
    .run = db_leave_run,
    .fail = db_leave_end,
    .tell = db_call_tell,
    .free = db_call_free,
};

/* Of an enter the look at `ready` is repeated, as it is not armed any more. */
static void db_call_on_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct db_call *c = CONTAINER_OF(slot, struct db_call, watch);
    if (c->phase == LEAVE_WATCH) {
        db_to(c, LEAVE_LIST);
    } else if (db_is_foreign(db_of(c)) && type == CONCLAVE_EVENT_CREATED) {
        c->opened = true;
    }
    call_run(&c->call);
}

/* The request of a public function. */
struct db_request {
    bool enter;
    conclave_double_barrier_fn done;
    void *ctx;
};

static int db_call_create(struct host *host, void *what, struct call **ret)
{
    struct conclave_double_barrier *db = db_of_host(host);
    const struct db_request *request = what;
    if (db->call != NULL || (request->enter && db->state == DB_IN)) {
        return CONCLAVE_EBUSY;
    }
    if (!request->enter && db->state != DB_IN) {
        return db->gone != 0 ? db->gone : CONCLAVE_ENOTOWNER;
    }
    struct db_call *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    call_init(&c->call, host, request->enter ? &enter_class : &leave_class);
    watch_slot_init(&c->watch, &c->call.handle, db_call_on_watch);
    bool kazoo = db->layout == CONCLAVE_BARRIER_LAYOUT_KAZOO;
    c->phase = request->enter ? ENTER_ROUND : kazoo ? LEAVE_READY : LEAVE_LIST;
    c->done = request->done;
    c->ctx = request->ctx;
    db->call = &c->call;
    db->gone = 0;
    db_to_state(db, request->enter ? DB_ENTERING : DB_LEAVING);
    *ret = &c->call;
    return 0;
}

static int db_wait(struct conclave_double_barrier *db, bool enter, int64_t timeout_ms)
{
    struct db_request request = {.enter = enter};
    return host_call_wait(&db->host, db_call_create, &request, timeout_ms, NULL);
}

static int db_begin(struct conclave_double_barrier *db, bool enter, int64_t timeout_ms,
                    conclave_double_barrier_fn done, void *ctx)
{
    struct db_request request = {enter, done, ctx};
    return host_call(&db->host, db_call_create, &request, timeout_ms);
}

int conclave_double_barrier_enter(struct conclave_double_barrier *db, int64_t timeout_ms)
{
    return db_wait(db, true, timeout_ms);
}

int conclave_double_barrier_enter_async(struct conclave_double_barrier *db, int64_t timeout_ms,
                                        conclave_double_barrier_fn done, void *ctx)
{
    return db_begin(db, true, timeout_ms, done, ctx);
}

int conclave_double_barrier_leave(struct conclave_double_barrier *db, int64_t timeout_ms)
{
    return db_wait(db, false, timeout_ms);
}

int conclave_double_barrier_leave_async(struct conclave_double_barrier *db, int64_t timeout_ms,
                                        conclave_double_barrier_fn done, void *ctx)
{
    return db_begin(db, false, timeout_ms, done, ctx);
}
