/*
 * Getting, watching and leaving the lock: one node for all, or with herd_free a place in a line.
 *
 * The one lock has a fixed name, so only its owner and its data, which have the incarnation, show whose it is: after a lost
 * answer the client sends another create, and if the node exists, reads both. A member deletes the lock only after a read
 * showed it to be its own. Another one can get the lock in between only if an operator deletes it. That one then tries again,
 * but keeps its guarantee, which depends on the breadcrumb.
 */
#include "recipes/standby/breadcrumb.h"
#include "recipes/standby/elector.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* From now on this node counts. */
static void elector_lock_ours(struct conclave_elector *e)
{
    e->maybe = false;
    e->in_order = true; /* nothing was done yet */
    elector_crumb_forget(e);
}

static void elector_prepare_begin(struct conclave_elector *e)
{
    e->step = ELECTOR_READING;
    contender_enter(&e->c, CONTENDER_PREPARING);
}

/* --- the one lock ------------------------------------------------------------------ */

/* The node that this member has; else, after an answer that was lost, one of this session with its data: other members of
 * the session have another incarnation. */
static bool elector_lock_is_ours(const struct conclave_elector *e,
                                 const struct conclave_reply *reply)
{
    if (reply->error != 0 ||
        reply->stat.ephemeral_owner != client_session_id(contender_client(&e->c))) {
        return false;
    }
    return e->c.node != NULL
               ? reply->stat.czxid == e->c.czxid
               : reply->data != NULL && slice_equal(slice_make(reply->data, reply->data_len),
                                                    slice_make(e->text, e->text_len));
}

/* Whose the lock is, with a watch on it. */
static void elector_on_owner(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    bool ours = elector_lock_is_ours(e, reply);
    watch_slot_answered(&e->lock_watch, reply->error == 0);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        contender_trouble(&e->c, reply->error);
    } else if (e->c.node != NULL) {
        if (!ours) {
            elector_lock_gone(e, CONCLAVE_ELOST);
        }
    } else if (e->c.state == CONTENDER_JOINING || e->c.state == CONTENDER_WAITING) {
        e->exists = reply->error == 0;
        if (!ours) {
            e->maybe = false;
        } else {
            char *node = strdup(e->lock_path);
            if (node != NULL) {
                contender_take(&e->c, node, &reply->stat);
                elector_lock_ours(e);
                elector_prepare_begin(e);
            } else {
                watch_slot_clear(&e->lock_watch); /* armed means another's, in JOINING */
                contender_trouble(&e->c, CONCLAVE_ENOMEM);
            }
        }
    }
}

static void elector_ask_owner(struct conclave_elector *e)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    if (watch_slot_prepare(&e->lock_watch, e->lock_path, &op) != 0) {
        contender_trouble(&e->c, CONCLAVE_ENOMEM);
    } else {
        step_submit(&e->lock_step, &op, elector_on_owner);
    }
}

static void elector_on_dir(struct ensure_path *ensure, int error)
{
    struct conclave_elector *e = CONTAINER_OF(ensure, struct conclave_elector, ensure);
    if (error != 0) {
        contender_trouble(&e->c, error);
    }
}

static void elector_on_lock_made(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    e->exists = reply->error == 0 || reply->error == CONCLAVE_NODE_EXISTS;
    if (reply->error == CONCLAVE_NO_NODE) {
        e->maybe = false;
        if (ensure_path_start(&e->ensure, e->c.path, e->c.acl, e->c.acl_count, elector_on_dir) !=
            0) {
            contender_trouble(&e->c, CONCLAVE_ENOMEM);
        }
    } else if (!e->exists) {
        e->maybe = e->doubt || error_is_unknown(reply->error);
        contender_trouble(&e->c, reply->error);
    }
}

static void elector_make_lock(struct conclave_elector *e)
{
    struct conclave_op op =
        contender_create_op(&e->c, e->lock_path, e->text, e->text_len, CONCLAVE_EPHEMERAL);
    e->doubt = e->maybe;
    e->maybe = true;
    step_submit(&e->lock_step, &op, elector_on_lock_made);
}

static void elector_run_one_lock(struct conclave_elector *e)
{
    if (e->lock_step.busy || ensure_path_busy(&e->ensure)) {
        return;
    }
    if (elector_leaving(&e->c)) {
        contender_enter(&e->c, CONTENDER_LEAVING);
        return;
    }
    if (!machine_can_send(&e->c.machine)) {
        return;
    }
    if (e->c.state == CONTENDER_WAITING) {
        if (!e->lock_watch.armed) {
            e->exists = false;
            contender_enter(&e->c, CONTENDER_JOINING); /* it went, or changed */
        }
    } else if (e->lock_watch.armed) {
        contender_enter(&e->c, CONTENDER_WAITING); /* read, and another's */
    } else if (e->exists) {
        elector_ask_owner(e);
    } else {
        elector_make_lock(e);
    }
}

/* --- the line ---------------------------------------------------------------------- */

void elector_joined(struct contender *c)
{
    elector_lock_ours(elector_of(c));
}

/* JOINING makes another, or leaves. */
void elector_not_joined(struct contender *c, int error)
{
    struct conclave_elector *e = elector_of(c);
    e->maybe = false;
    if (error != CONCLAVE_ECANCELED) {
        contender_trouble(c, error);
    }
}

static void elector_join_line(struct conclave_elector *e)
{
    struct protected_node node = contender_node(&e->c, NAME_PLAIN, e->text, e->text_len);
    e->maybe = true;
    protected_create_start(&e->c.create, &node);
}

static void elector_run_line(struct conclave_elector *e)
{
    struct contender *c = &e->c;
    if (c->create.phase != PROTECTED_IDLE) {
        if (elector_leaving(c) && !c->create.canceled) {
            protected_create_cancel(&c->create);
        }
        return;
    }
    if (elector_leaving(c)) {
        contender_enter(c, CONTENDER_LEAVING);
        return;
    }
    if (!machine_can_send(&c->machine)) {
        return;
    }
    if (c->node == NULL) {
        assert(c->state == CONTENDER_JOINING);
        elector_join_line(e);
    } else if (c->state == CONTENDER_FIRST && place_verified(&c->place)) {
        elector_prepare_begin(e);
    } else {
        place_run(&c->place, c->state == CONTENDER_WAITING);
    }
}

/* --- both --------------------------------------------------------------------------- */

void elector_lock_run(struct conclave_elector *e)
{
    if (e->options.herd_free) {
        elector_run_line(e);
    } else {
        elector_run_one_lock(e);
    }
}

bool elector_lock_verified(const struct conclave_elector *e)
{
    return e->options.herd_free ? e->c.place.own.armed : e->lock_watch.armed;
}

void elector_lock_doubt(struct conclave_elector *e)
{
    struct watch_slot *slot = e->options.herd_free ? &e->c.place.own : &e->lock_watch;
    if (!slot->pending) {
        watch_slot_clear(slot);
    }
}

void elector_held(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    if (machine_pauses(&c->machine) || elector_lock_verified(e)) {
        return;
    }
    if (e->options.herd_free) {
        place_run(&c->place, false);
    } else if (!e->lock_step.busy) {
        elector_ask_owner(e);
    }
}

/* --- leaving ------------------------------------------------------------------------ */

static void elector_on_left(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        elector_lock_gone(e, CONCLAVE_ELOST);
    } else {
        e->exists = true; /* look whose it is before the next try */
        contender_trouble(&e->c, reply->error);
        machine_retry_later(&e->c.machine); /* refused for good it goes with the session */
    }
}

/* Whether it is still ours: only that is deleted. */
static void elector_on_looked(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    if (reply->error == CONCLAVE_NO_NODE ||
        (reply->error == 0 && !elector_lock_is_ours(e, reply))) {
        elector_lock_gone(e, CONCLAVE_ELOST);
    } else if (reply->error != 0) {
        contender_trouble(&e->c, reply->error);
        machine_retry_later(
            &e->c.machine); /* one that may not be read is asked for until it goes */
    } else {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, e->lock_path, -1);
        step_submit(&e->lock_step, &op, elector_on_left);
    }
}

/* The breadcrumb says that we stopped in order, in one transaction with the end of the node. */
static void elector_on_left_in_order(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    if (reply->error == 0) {
        e->marked = false;
        elector_lock_gone(e, CONCLAVE_ELOST);
    } else if (error_is_unknown(reply->error)) {
        /* again: a second time it fails, which is as good */
        contender_trouble(&e->c, reply->error);
    } else {
        e->marked = false; /* done already, or another was made active: the node alone */
    }
}

static bool elector_leave_in_order(struct conclave_elector *e)
{
    struct conclave_breadcrumb crumb = elector_crumb(e, true);
    struct conclave_op parts[2];
    struct buf text;
    buf_init(&text, ELECTOR_TEXT_MAX);
    if (e->options.layout == CONCLAVE_ELECTOR_LAYOUT_HADOOP) {
        parts[0] = conclave_op_path(CONCLAVE_OP_DELETE, e->crumb_path, e->crumb_version);
    } else {
        breadcrumb_write(&text, e->options.layout, &crumb);
        parts[0] = conclave_op_set(e->crumb_path, text.data, text.len, e->crumb_version);
    }
    parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, e->c.node, -1);
    struct conclave_op op = conclave_op_multi(parts, 2);
    bool written = buf_ok(&text);
    if (written) {
        step_submit(&e->lock_step, &op, elector_on_left_in_order);
    }
    buf_finish(&text);
    return written;
}

static void elector_on_deleted(void *ctx)
{
    struct conclave_elector *e = ctx;
    e->deleting = false;
    elector_lock_gone(e, CONCLAVE_ELOST);
    contender_run(&e->c);
    handle_unref(&e->c.handle);
}

/* A node of a line has a unique name. */
static void elector_leave_line(struct conclave_elector *e)
{
    e->deleting = true;
    handle_ref(&e->c.handle);
    if (deletes_add(&elector_rt(e)->deletes, e->c.node, elector_on_deleted, e) != 0) {
        e->deleting = false;
        handle_unref(&e->c.handle);
        contender_trouble(&e->c, CONCLAVE_ENOMEM);
    }
}

void elector_leave(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    if (e->lock_step.busy || e->mark_step.busy || ensure_path_busy(&e->ensure) || e->deleting) {
        return;
    }
    if (e->c.node == NULL && !e->maybe) {
        elector_crumb_forget(e);
        contender_enter(&e->c, CONTENDER_OUT);
        return;
    }
    if (e->options.herd_free && e->c.node == NULL) {
        return; /* the creation is being canceled */
    }
    if (!machine_can_send(&e->c.machine)) {
        return;
    }
    if (elector_mark_resolve(e)) {
        return;
    }
    if (e->marked && e->in_order && e->c.node != NULL && elector_leave_in_order(e)) {
        return;
    }
    if (e->options.herd_free) {
        elector_leave_line(e);
    } else {
        /* a create whose answer was lost must not hide behind a lag */
        step_ask_latest(&e->lock_step, CONCLAVE_OP_GET, e->lock_path, elector_on_looked);
    }
}

void elector_lock_init(struct conclave_elector *e)
{
    machine_step_init(&e->c.machine, &e->lock_step);
    machine_watch_init(&e->c.machine, &e->lock_watch);
    machine_ensure_init(&e->c.machine, &e->ensure);
}

void elector_lock_finish(struct conclave_elector *e)
{
    watch_slot_clear(&e->lock_watch);
    ensure_path_finish(&e->ensure);
}
