/*
 * The breadcrumb: read when the lock is ours, written before activate.
 *
 * It is written with the version that was read, so of two that believe to have the lock only one
 * succeeds, and the heartbeat of the lease checks the version that was written: whoever writes it
 * next ends the lease of the one before.
 */
#include "recipes/engine/option_copies.h"
#include "recipes/standby/breadcrumb.h"
#include "recipes/standby/elector.h"

#include <stdlib.h>
#include <string.h>

static void elector_mark_submit(struct conclave_elector *e, const struct conclave_op *op,
                                step_fn fn)
{
    contender_submit(&e->c, &e->mark_step, op, fn);
}

static bool elector_still(const struct conclave_elector *e, enum elector_step step)
{
    return contender_is_current(&e->c, &e->mark_step) && elector_prepares(e, step);
}

void elector_crumb_forget(struct conclave_elector *e)
{
    free(e->old_text);
    e->old_text = NULL;
    e->crumb_known = e->crumb_exists = false;
    e->override_known = e->overridden = false;
    e->fenced = e->marked = e->mark_maybe = false;
    e->override_exists = false;
}

struct conclave_breadcrumb elector_crumb(const struct conclave_elector *e, bool clean)
{
    return (struct conclave_breadcrumb){.id = e->c.id,
                                        .incarnation = e->incarnation,
                                        .token = {e->c.czxid},
                                        .clean = clean,
                                        .data = e->data,
                                        .data_len = e->data_len};
}

/* --- reading ------------------------------------------------------------------------ */

static bool elector_crumb_is_own(const struct conclave_elector *e)
{
    return strcmp(e->old.id, e->c.id) == 0 && strcmp(e->old.incarnation, e->incarnation) == 0;
}

static bool elector_crumb_keep(struct conclave_elector *e, const struct conclave_reply *reply)
{
    char *text = bytes_copy(reply->data, reply->data_len);
    if (text == NULL) {
        return false;
    }
    elector_crumb_forget(e);
    e->old_text = text;
    breadcrumb_read(text, reply->data_len, &e->old);
    if (e->old.token.czxid == 0) {
        e->old.token.czxid = reply->stat.mzxid;
    }
    e->crumb_known = e->crumb_exists = true;
    e->crumb_version = reply->stat.version;
    return true;
}

static void elector_on_crumb(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    if (!elector_still(e, ELECTOR_READING)) {
        /* of no interest any more */
    } else if (reply->error == CONCLAVE_NO_NODE) {
        elector_crumb_forget(e);
        e->crumb_known = true;
    } else if (reply->error != 0) {
        contender_trouble(&e->c, reply->error);
    } else if (!elector_crumb_keep(e, reply)) {
        contender_trouble(&e->c, CONCLAVE_ENOMEM);
    }
}

static void elector_on_override(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    if (!elector_still(e, ELECTOR_READING)) {
        /* of no interest any more */
    } else if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        contender_trouble(&e->c, reply->error);
    } else {
        e->override_known = true;
        e->override_exists = reply->error == 0;
        e->override_version = reply->stat.version;
        e->overridden = reply->error == 0 &&
                        override_confirms(reply->data, reply->data_len, e->old.token.czxid);
    }
}

static void elector_crumb_ask(struct conclave_elector *e, const char *path, step_fn fn)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
    op.linearizable = true; /* an own write whose answer was lost is in it */
    elector_mark_submit(e, &op, fn);
}

void elector_read_run(struct conclave_elector *e)
{
    if (e->mark_step.busy || machine_pauses(&e->c.machine)) {
        return;
    }
    if (!e->crumb_known) {
        elector_crumb_ask(e, e->crumb_path, elector_on_crumb);
    } else if (e->crumb_exists && elector_crumb_is_own(e) && !e->old.clean &&
               e->old.token.czxid == e->c.czxid) {
        e->marked = true; /* the answer was lost, the write was not */
        contender_enter(&e->c, CONTENDER_PROVING);
    } else if (!e->crumb_exists || elector_crumb_is_own(e) || e->old.clean || e->fenced ||
               e->overridden) {
        elector_prepare(e, ELECTOR_MARKING);
    } else if (!e->override_known) {
        elector_crumb_ask(e, e->override_path, elector_on_override);
    } else {
        elector_prepare(e, ELECTOR_FENCING);
    }
}

/* --- writing ------------------------------------------------------------------------ */

/* Part 0 checks the lock, part 1 writes the breadcrumb, part 2 takes the override away. */
static void elector_on_marked(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    bool done = reply->error == 0 && reply->results_count >= 2;
    if (done && contender_is_current(&e->c, step)) {
        e->crumb_version = e->crumb_exists ? reply->results[1]->stat.version : 0;
        e->marked = true;
    }
    if (!elector_still(e, ELECTOR_MARKING)) {
        e->mark_maybe = contender_is_current(&e->c, step) && error_is_unknown(reply->error);
        return;
    }
    if (done) {
        contender_enter(&e->c, CONTENDER_PROVING);
    } else {
        bool lock_gone = reply->results_count > 0 && reply->results[0]->error == CONCLAVE_NO_NODE;
        bool raced = reply->error == CONCLAVE_BAD_VERSION || reply->error == CONCLAVE_NO_NODE ||
                     reply->error == CONCLAVE_NODE_EXISTS;
        if (lock_gone) {
            elector_lock_gone(e, CONCLAVE_ELOST);
        } else {
            elector_crumb_forget(e); /* another client wrote, or it is unknown: read it again */
            e->mark_maybe = error_is_unknown(reply->error);
            elector_prepare(e, ELECTOR_READING);
            if (!raced) {
                contender_trouble(&e->c, reply->error);
            }
        }
    }
}

void elector_mark_run(struct conclave_elector *e)
{
    if (e->mark_step.busy || !elector_lock_verified(e) || !elector_handed_verified(e) ||
        machine_pauses(&e->c.machine)) {
        return;
    }
    struct conclave_breadcrumb crumb = elector_crumb(e, false);
    struct conclave_op parts[3];
    size_t count = 2;
    struct buf text;
    buf_init(&text, ELECTOR_TEXT_MAX);
    breadcrumb_write(&text, e->options.layout, &crumb);
    parts[0] = conclave_op_path(CONCLAVE_OP_CHECK, e->c.node, -1);
    if (e->crumb_exists) {
        parts[1] = conclave_op_set(e->crumb_path, text.data, text.len, e->crumb_version);
    } else {
        parts[1] =
            contender_create_op(&e->c, e->crumb_path, text.data, text.len, CONCLAVE_PERSISTENT);
    }
    if (e->override_exists) {
        parts[count++] =
            conclave_op_path(CONCLAVE_OP_DELETE, e->override_path, e->override_version);
    }
    struct conclave_op op = conclave_op_multi(parts, count);
    if (buf_ok(&text)) {
        elector_mark_submit(e, &op, elector_on_marked);
    } else {
        contender_trouble(&e->c, CONCLAVE_ENOMEM);
    }
    buf_finish(&text);
}

static void elector_on_resolved(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    if (!contender_is_current(&e->c, step)) {
        /* of no interest any more */
    } else if (reply->error == 0 && elector_crumb_keep(e, reply)) {
        e->marked = elector_crumb_is_own(e) && !e->old.clean && e->old.token.czxid == e->c.czxid;
    } else if (reply->error == CONCLAVE_NO_NODE) {
        e->mark_maybe = false;
    } else {
        contender_trouble(&e->c, reply->error == 0 ? CONCLAVE_ENOMEM : reply->error);
        machine_retry_later(&e->c.machine);
    }
}

bool elector_mark_resolve(struct conclave_elector *e)
{
    if (!e->mark_maybe || e->c.node == NULL) {
        return false;
    }
    elector_crumb_ask(e, e->crumb_path, elector_on_resolved);
    return true;
}

void elector_mark_init(struct conclave_elector *e)
{
    machine_step_init(&e->c.machine, &e->mark_step);
}

void elector_mark_finish(struct conclave_elector *e)
{
    free(e->old_text);
}
