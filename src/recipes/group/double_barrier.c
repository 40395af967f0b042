/* The double barrier's handle: options, membership, the public functions. */
#include "recipes/group/double_barrier.h"

#include "client/core/acl.h"
#include "client/core/path.h"
#include "recipes/engine/option_copies.h"

#include <stdlib.h>
#include <string.h>

enum { RETRY_MS = 250 };

bool db_is_member(const char *name)
{
    return strncmp(name, "m-", 2) == 0;
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

/* The node is not there any more, and it was not us who removed it. */
static void member_gone(struct conclave_double_barrier *db, int why)
{
    if (!db->joined || db->gone != 0) {
        return;
    }
    db->gone = why;
    if (db->state == DB_IN) {
        db->state = DB_OUT;
        db_forget_me(db);
        db->gone_due = db->callbacks.on_lost != NULL;
        handle_post(&db->host.handle);
    } else if (db->call != NULL) {
        call_run(db->call);
    }
}

/* There may be no memory just now. */
static void own_later(struct conclave_double_barrier *db)
{
    struct conclave_client *client = db->host.handle.rt->client;
    client_timer_start(client, &db->own_retry, client_now_ns(client) + (int64_t)RETRY_MS * 1000000);
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
        own_later(db);
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
        own_later(db);
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
    struct conclave_double_barrier *db = db_of(host);
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
    struct conclave_double_barrier *db = db_of(host);
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
    struct conclave_double_barrier *db = db_of(host);
    if (db->state == DB_IN && !state_is_final(client_state(host->handle.rt->client))) {
        db_remove_me(db);
    }
    if (db->state == DB_IN) {
        db->state = DB_OUT;
        db_forget_me(db);
    }
}

static void db_tell_closed(struct host *host, int why)
{
    struct conclave_double_barrier *db = db_of(host);
    if (db->callbacks.on_closed != NULL) {
        db->callbacks.on_closed(db, why, db->ctx);
    }
}

static void db_free_all(struct conclave_double_barrier *db)
{
    free(db->path);
    free(db->round);
    free(db->ready);
    free(db->id);
    free(db->acl);
    free(db->me);
    deletion_free(db->removal);
    free(db);
}

static void db_free(struct host *host)
{
    struct conclave_double_barrier *db = db_of(host);
    client_timer_stop(host->handle.rt->client, &db->own_retry);
    watch_slot_clear(&db->own);
    db_free_all(db);
}

static const struct host_class db_class = {
    .on_state = db_on_state,
    .run_due = db_run_due,
    .stop = db_stop,
    .tell_closed = db_tell_closed,
    .free = db_free,
};

void db_call_over(struct conclave_double_barrier *db, enum db_state state)
{
    db->call = NULL;
    db->state = state;
    if (state == DB_OUT) {
        db_forget_me(db);
    } else if (db->host.closing.ending) {
        db_stop(&db->host);
    }
}

static bool double_barrier_options_valid(const struct conclave_double_barrier_options *o)
{
    return o->size >= sizeof *o && o->path != NULL && path_is_valid(o->path, false) &&
           strcmp(o->path, "/") != 0 && o->count > 0 && o->count <= CONCLAVE_DOUBLE_BARRIER_MAX &&
           (o->round == NULL || (o->round[0] != '\0' && strchr(o->round, '/') == NULL));
}

static bool double_barrier_copy_options(struct conclave_double_barrier *db,
                                        const struct conclave_double_barrier_options *o)
{
    db->path = strdup(o->path);
    db->round = path_join(o->path, o->round != NULL ? o->round : "round");
    db->id = o->id != NULL ? strdup(o->id) : default_id();
    db->count = o->count;
    db->late_pass = o->late_pass;
    if (db->path == NULL || db->round == NULL || db->id == NULL ||
        (db->ready = path_join(db->round, "ready")) == NULL) {
        return false;
    }
    return acl_copy_option(o->acl, o->acl_count, &db->acl, &db->acl_count);
}

int conclave_double_barrier_open(struct conclave_recipes *rt,
                                 const struct conclave_double_barrier_options *options,
                                 const struct conclave_double_barrier_callbacks *callbacks,
                                 void *ctx, struct conclave_double_barrier **ret)
{
    int error = client_check(rt->client);
    if (error != 0) {
        return error;
    }
    if (options == NULL || !double_barrier_options_valid(options)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_double_barrier *db = calloc(1, sizeof *db);
    if (db == NULL || !double_barrier_copy_options(db, options) ||
        !path_is_valid(db->round, false)) {
        error = db == NULL || db->ready == NULL ? CONCLAVE_ENOMEM : CONCLAVE_EINVAL;
        if (db != NULL) {
            db_free_all(db);
        }
        return error;
    }
    if (callbacks != NULL) {
        db->callbacks = *callbacks;
    }
    db->ctx = ctx;
    client_lock(rt->client);
    if (state_is_final(client_state(rt->client))) {
        client_unlock(rt->client);
        db_free_all(db);
        return CONCLAVE_ECLOSED;
    }
    host_init(&db->host, rt, &db_class);
    step_init(&db->own_step, &db->host.handle);
    watch_slot_init(&db->own, &db->host.handle, on_own_watch);
    client_timer_init(&db->own_retry, on_own_retry, db);
    *ret = db;
    client_unlock(rt->client);
    return 0;
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
    if (db != NULL) {
        host_destroy(&db->host);
    }
}

/* --- enter and leave --------------------------------------------------------------------------- */

/* Lock held. */
static int create_call(struct conclave_double_barrier *db, bool enter, int64_t timeout_ms,
                       conclave_double_barrier_fn done, void *ctx, struct call **ret)
{
    int error;
    if (db->host.closing.ending) {
        return CONCLAVE_ECLOSED;
    }
    if (db->call != NULL || (enter && db->state == DB_IN)) {
        return CONCLAVE_EBUSY;
    }
    if (!enter && db->state != DB_IN) {
        return db->gone != 0 ? db->gone : CONCLAVE_ENOTOWNER;
    }
    error = enter ? db_enter_create(db, done, ctx, timeout_ms == 0, ret)
                  : db_leave_create(db, done, ctx, ret);
    if (error == 0) {
        db->call = *ret;
        db->state = enter ? DB_ENTERING : DB_LEAVING;
        db->gone = enter ? 0 : db->gone;
    }
    return error;
}

static int db_block(struct conclave_double_barrier *db, bool enter, int64_t timeout_ms)
{
    struct conclave_client *client = db->host.handle.rt->client;
    struct call *call;
    int error = recipes_may_block(db->host.handle.rt);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = create_call(db, enter, timeout_ms, NULL, NULL, &call);
    if (error == 0) {
        error = call_wait(call, timeout_ms);
        call_release(call);
    }
    client_unlock(client);
    return error;
}

static int db_begin(struct conclave_double_barrier *db, bool enter, int64_t timeout_ms,
                    conclave_double_barrier_fn done, void *ctx)
{
    struct conclave_client *client = db->host.handle.rt->client;
    struct call *call;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = create_call(db, enter, timeout_ms, done, ctx, &call);
    if (error == 0) {
        call_start(call, timeout_ms);
    }
    client_unlock(client);
    return error;
}

int conclave_double_barrier_enter(struct conclave_double_barrier *db, int64_t timeout_ms)
{
    return db_block(db, true, timeout_ms);
}

int conclave_double_barrier_enter_async(struct conclave_double_barrier *db, int64_t timeout_ms,
                                        conclave_double_barrier_fn done, void *ctx)
{
    return db_begin(db, true, timeout_ms, done, ctx);
}

int conclave_double_barrier_leave(struct conclave_double_barrier *db, int64_t timeout_ms)
{
    return db_block(db, false, timeout_ms);
}

int conclave_double_barrier_leave_async(struct conclave_double_barrier *db, int64_t timeout_ms,
                                        conclave_double_barrier_fn done, void *ctx)
{
    return db_begin(db, false, timeout_ms, done, ctx);
}
