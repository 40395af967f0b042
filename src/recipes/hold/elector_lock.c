/*
 * Getting, watching and leaving the lock: one node for all, or with herd_free a place in a line.
 *
 * The one lock has a fixed name, so whose it is says only its owner: a create whose answer was lost
 * is followed by another, and whoever finds a node there reads who owns it. It is deleted only after
 * it was read to be this session's; what another does in between needs an operator who deletes
 * locks, and costs that other a new try, not its promise: that hangs on the breadcrumb.
 */
#include "recipes/hold/breadcrumb.h"
#include "recipes/hold/elector.h"

#include <stdlib.h>
#include <string.h>

static struct conclave_elector *of_step(struct step *step)
{
    return CONTAINER_OF(step, struct conclave_elector, lock_step);
}

static struct conclave_client *client_of(const struct conclave_elector *e)
{
    return elector_rt(e)->client;
}

/* It is ours: from now on this node is what counts. */
static void take(struct conclave_elector *e, char *node, const struct conclave_stat *stat)
{
    e->node = node;
    e->node_session = stat->ephemeral_owner;
    e->czxid = stat->czxid;
    e->maybe = false;
    e->in_order = true; /* nothing was done yet */
    e->generation++;
    elector_crumb_forget(e);
    client_notify(client_of(e));
}

/* --- the one lock ------------------------------------------------------------------ */

static void on_lock_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    (void)type;
    elector_run(CONTAINER_OF(slot, struct conclave_elector, lock_watch));
}

/* Whose the lock is, with a watch on it. */
static void on_owner(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = of_step(step);
    int64_t session_id = client_session_id(client_of(e));
    bool ours = reply->error == 0 && reply->stat.ephemeral_owner == session_id;
    watch_slot_answered(&e->lock_watch, reply->error == 0);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        elector_trouble(e, reply->error);
    } else if (e->node != NULL) {
        if (!ours || reply->stat.czxid != e->czxid) {
            elector_lock_gone(e, CONCLAVE_ELOST);
        }
    } else if (e->phase == PHASE_JOINING || e->phase == PHASE_WAITING) {
        e->exists = reply->error == 0;
        if (!ours) {
            e->maybe = false;
        } else {
            char *node = strdup(e->lock_path);
            if (node != NULL) {
                take(e, node, &reply->stat);
                elector_enter(e, PHASE_READING);
            } else {
                watch_slot_clear(&e->lock_watch); /* armed means another's, in JOINING */
                elector_trouble(e, CONCLAVE_ENOMEM);
            }
        }
    }
    elector_run(e);
}

static void ask_owner(struct conclave_elector *e)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    if (watch_slot_prepare(&e->lock_watch, e->lock_path, &op) != 0) {
        elector_trouble(e, CONCLAVE_ENOMEM);
    } else {
        step_submit(&e->lock_step, &op, on_owner);
    }
}

static void on_ensured(struct ensure_path *ensure, int error)
{
    struct conclave_elector *e = CONTAINER_OF(ensure, struct conclave_elector, ensure);
    e->ensuring = false;
    if (error != 0) {
        elector_trouble(e, error);
    }
    elector_run(e);
}

static void on_made(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = of_step(step);
    e->exists = reply->error == 0 || reply->error == CONCLAVE_NODE_EXISTS;
    if (reply->error == CONCLAVE_NO_NODE) {
        e->maybe = false;
        e->ensuring =
            ensure_path_start(&e->ensure, e->dir, e->acl, e->options.acl_count, on_ensured) == 0;
        if (!e->ensuring) {
            elector_trouble(e, CONCLAVE_ENOMEM);
        }
    } else if (!e->exists) {
        e->maybe = e->maybe && error_is_unknown(reply->error);
        elector_trouble(e, reply->error);
    }
    elector_run(e);
}

static void make_lock(struct conclave_elector *e)
{
    struct conclave_op op =
        conclave_op_create(e->lock_path, e->text, e->text_len, CONCLAVE_EPHEMERAL);
    op.acl = e->acl;
    op.acl_count = e->options.acl_count;
    e->maybe = true;
    step_submit(&e->lock_step, &op, on_made);
}

static void run_one_lock(struct conclave_elector *e)
{
    if (e->lock_step.busy || e->ensuring) {
        return;
    }
    if (elector_leaving(e)) {
        elector_enter(e, PHASE_LEAVING);
        return;
    }
    if (!recipes_connected(elector_rt(e)) || client_timer_active(&e->wake)) {
        return;
    }
    if (e->phase == PHASE_WAITING) {
        if (!e->lock_watch.armed) {
            e->exists = false;
            elector_enter(e, PHASE_JOINING); /* it went, or changed */
        }
    } else if (e->lock_watch.armed) {
        elector_enter(e, PHASE_WAITING); /* read, and another's */
    } else if (e->exists) {
        ask_owner(e);
    } else {
        make_lock(e);
    }
}

/* --- the line ---------------------------------------------------------------------- */

static struct conclave_elector *of_place(struct place *place)
{
    return CONTAINER_OF(place, struct conclave_elector, place);
}

static void on_free(struct place *place)
{
    of_place(place)->place_free = true;
}

static void on_gone(struct place *place)
{
    elector_lock_gone(of_place(place), CONCLAVE_ELOST);
}

static void on_place_trouble(struct place *place, int error)
{
    elector_trouble(of_place(place), error);
}

static void on_place_wake(struct place *place)
{
    elector_run(of_place(place));
}

static const struct place_class line_class = {
    .judge = place_judge_first,
    .free = on_free,
    .gone = on_gone,
    .trouble = on_place_trouble,
    .wake = on_place_wake,
};

static void on_created(struct protected_create *create, int error, char *path,
                       const struct conclave_stat *stat)
{
    struct conclave_elector *e = CONTAINER_OF(create, struct conclave_elector, create);
    e->maybe = false;
    if (error != 0) {
        if (error != CONCLAVE_ECANCELED) {
            elector_trouble(e, error);
        }
    } else {
        take(e, path, stat);
        place_enter(&e->place, path, stat->ephemeral_owner, stat->czxid);
        e->place_free = false;
        if (e->node_session != client_session_id(client_of(e))) {
            elector_lock_gone(e, CONCLAVE_SESSION_EXPIRED);
        }
    }
    elector_run(e);
}

static void join_line(struct conclave_elector *e)
{
    struct protected_node node = {
        .parent = e->line_path,
        .naming = CONCLAVE_NAMING_NATIVE,
        .data = e->text,
        .data_len = e->text_len,
        .acl = e->acl,
        .acl_count = e->options.acl_count,
    };
    e->maybe = true;
    protected_create_start(&e->create, &node);
}

static void run_line(struct conclave_elector *e)
{
    if (e->maybe) {
        if (elector_leaving(e) && !e->create.canceled) {
            protected_create_cancel(&e->create);
        }
        return;
    }
    if (elector_leaving(e) || (e->phase == PHASE_WAITING && e->node == NULL)) {
        elector_enter(e, PHASE_LEAVING);
        return;
    }
    if (!recipes_connected(elector_rt(e)) || client_timer_active(&e->wake)) {
        return;
    }
    if (e->node == NULL) {
        join_line(e);
    } else if (e->phase == PHASE_JOINING) {
        elector_enter(e, PHASE_WAITING);
    } else if (e->place_free && e->place.own.armed) {
        elector_enter(e, PHASE_READING);
    } else {
        place_run(&e->place, !e->place_free);
    }
}

/* --- both --------------------------------------------------------------------------- */

void elector_lock_run(struct conclave_elector *e)
{
    if (e->options.herd_free) {
        run_line(e);
    } else {
        run_one_lock(e);
    }
}

bool elector_lock_verified(const struct conclave_elector *e)
{
    return e->options.herd_free ? e->place.own.armed : e->lock_watch.armed;
}

void elector_lock_doubt(struct conclave_elector *e)
{
    struct watch_slot *slot = e->options.herd_free ? &e->place.own : &e->lock_watch;
    if (!slot->pending) {
        watch_slot_clear(slot);
    }
}

void elector_lock_watch(struct conclave_elector *e)
{
    if (client_timer_active(&e->wake) || elector_lock_verified(e)) {
        return;
    }
    if (e->options.herd_free) {
        place_run(&e->place, false);
    } else if (!e->lock_step.busy) {
        ask_owner(e);
    }
}

/* --- leaving ------------------------------------------------------------------------ */

static void on_left(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = of_step(step);
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        elector_lock_gone(e, CONCLAVE_ELOST);
    } else {
        e->exists = true; /* look whose it is before the next try */
        elector_trouble(e, reply->error);
        elector_retry_later(e); /* refused for good it goes with the session */
    }
    elector_run(e);
}

/* Whether it is still ours: only that is deleted. */
static void on_looked(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = of_step(step);
    int64_t session_id = client_session_id(client_of(e));
    if (reply->error == CONCLAVE_NO_NODE ||
        (reply->error == 0 && reply->stat.ephemeral_owner != session_id)) {
        elector_lock_gone(e, CONCLAVE_ELOST);
    } else if (reply->error != 0) {
        elector_trouble(e, reply->error);
    } else {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, e->lock_path, -1);
        step_submit(&e->lock_step, &op, on_left);
        return;
    }
    elector_run(e);
}

/* The breadcrumb says that we stopped in order, in one transaction with the end of the node. */
static void on_left_in_order(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = of_step(step);
    if (reply->error == 0) {
        e->marked = false;
        elector_lock_gone(e, CONCLAVE_ELOST);
    } else if (error_is_unknown(reply->error)) {
        elector_trouble(e, reply->error); /* again: a second time it fails, which is as good */
    } else {
        e->marked = false; /* done already, or another was made active: the node alone */
    }
    elector_run(e);
}

static bool leave_in_order(struct conclave_elector *e)
{
    struct conclave_breadcrumb crumb = {.id = e->id,
                                        .incarnation = e->incarnation,
                                        .token = {e->czxid},
                                        .clean = true,
                                        .data = e->data,
                                        .data_len = e->data_len};
    struct conclave_op parts[2];
    struct buf text;
    buf_init(&text, ELECTOR_TEXT_MAX);
    if (e->options.layout == CONCLAVE_ELECTOR_LAYOUT_HADOOP) {
        parts[0] = conclave_op_path(CONCLAVE_OP_DELETE, e->crumb_path, e->crumb_version);
    } else {
        breadcrumb_write(&text, e->options.layout, &crumb);
        parts[0] = conclave_op_set(e->crumb_path, text.data, text.len, e->crumb_version);
    }
    parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, e->node, -1);
    struct conclave_op op = conclave_op_multi(parts, 2);
    bool written = buf_ok(&text);
    if (written) {
        step_submit(&e->lock_step, &op, on_left_in_order);
    }
    buf_finish(&text);
    return written;
}

static void on_deleted(void *ctx)
{
    struct conclave_elector *e = ctx;
    e->deleting = false;
    elector_lock_gone(e, CONCLAVE_ELOST);
    elector_run(e);
    handle_unref(&e->handle);
}

/* A node of a line has a name that nobody else has. */
static void leave_line(struct conclave_elector *e)
{
    e->deleting = true;
    handle_ref(&e->handle);
    if (deletes_add(&elector_rt(e)->deletes, e->node, on_deleted, e) != 0) {
        e->deleting = false;
        handle_unref(&e->handle);
        elector_trouble(e, CONCLAVE_ENOMEM);
    }
}

void elector_leave_run(struct conclave_elector *e)
{
    if (e->lock_step.busy || e->mark_step.busy || e->ensuring || e->deleting) {
        return;
    }
    if (e->node == NULL && !e->maybe) {
        elector_enter(e, PHASE_OUT);
        return;
    }
    if (e->options.herd_free && e->node == NULL) {
        return; /* the creation is being canceled */
    }
    if (!recipes_connected(elector_rt(e)) || client_timer_active(&e->wake)) {
        return;
    }
    if (elector_mark_resolve(e)) {
        return;
    }
    if (e->marked && e->in_order && e->node != NULL && leave_in_order(e)) {
        return;
    }
    if (e->options.herd_free) {
        leave_line(e);
    } else {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, e->lock_path, 0);
        op.linearizable = true; /* a create whose answer was lost must not hide behind a lag */
        step_submit(&e->lock_step, &op, on_looked);
    }
}

void elector_lock_init(struct conclave_elector *e)
{
    step_init(&e->lock_step, &e->handle);
    watch_slot_init(&e->lock_watch, &e->handle, on_lock_watch);
    ensure_path_init(&e->ensure, &e->handle);
    protected_create_init(&e->create, &e->handle, on_created);
    place_init(&e->place, &e->handle, &line_class, e->line_path, CONCLAVE_NAMING_NATIVE);
}

void elector_lock_finish(struct conclave_elector *e)
{
    watch_slot_clear(&e->lock_watch);
    ensure_path_finish(&e->ensure);
    protected_create_finish(&e->create);
    place_finish(&e->place);
}
