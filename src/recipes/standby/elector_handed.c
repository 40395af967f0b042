/*
 * Requests to hand over to a named member: the ephemeral node <dir>/HandOver of an operator (elector_hand_over.c). Its data
 * have the form of a breadcrumb: the id of the member that is to be active, and the token of the one that is to step down.
 * While it exists, no other member competes.
 */
#include "recipes/engine/option_copies.h"
#include "recipes/standby/breadcrumb.h"
#include "recipes/standby/elector.h"

#include <stdlib.h>
#include <string.h>

bool elector_handed_over(const struct conclave_elector *e)
{
    bool active = contender_is_granted(&e->c);
    return e->handed_to != NULL && strcmp(e->handed_to, e->c.id) != 0 &&
           (!active || e->handed_from == e->c.czxid);
}

bool elector_handed_verified(const struct conclave_elector *e)
{
    return e->handed_watch.armed && !e->handed_unread && !e->handed_step.busy;
}

static void handed_set(struct conclave_elector *e, char *to_take, int64_t from)
{
    bool before = elector_handed_over(e);
    bool same = e->handed_to != NULL && to_take != NULL && strcmp(e->handed_to, to_take) == 0;
    free(e->handed_to);
    e->handed_to = to_take;
    e->handed_from = from;
    if (!same && to_take != NULL && strcmp(to_take, e->c.id) == 0) {
        e->c.not_before_ns = 0; /* it was asked for: no pause */
    }
    if (!before && elector_handed_over(e)) {
        e->reason = "handed over";
    }
}

static void elector_on_handed_read(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    struct conclave_breadcrumb request;
    if (reply->error == CONCLAVE_NO_NODE || error_is_fatal(reply->error)) {
        e->handed_unread = false;
        handed_set(e, NULL, 0); /* what this member may not read does not concern it */
        return;
    }
    char *text = reply->error == 0 ? bytes_copy(reply->data, reply->data_len) : NULL;
    if (text == NULL) {
        contender_trouble(&e->c, reply->error == 0 ? CONCLAVE_ENOMEM : reply->error);
        return;
    }
    breadcrumb_read(text, reply->data_len, &request);
    char *to = request.id[0] != '\0' ? strdup(request.id) : NULL;
    if (to == NULL && request.id[0] != '\0') {
        contender_trouble(&e->c, CONCLAVE_ENOMEM);
    } else {
        e->handed_unread = false;
        handed_set(e, to, request.token.czxid);
    }
    free(text);
}

static void elector_on_handed_found(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_elector *e = elector_of(contender_of_step(step));
    bool known = reply->error == 0 || reply->error == CONCLAVE_NO_NODE;
    watch_slot_answered(&e->handed_watch, known);
    if (!known) {
        contender_trouble(&e->c, reply->error);
        return;
    }
    e->handed_unread = reply->error == 0;
    if (reply->error == CONCLAVE_NO_NODE) {
        handed_set(e, NULL, 0);
    }
}

void elector_handed_run(struct conclave_elector *e)
{
    if (e->c.closing.ending || e->handed_step.busy || !machine_can_send(&e->c.machine)) {
        return;
    }
    if (!e->handed_watch.armed) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, NULL, 0);
        if (watch_slot_prepare(&e->handed_watch, e->handed_path, &op) != 0) {
            contender_trouble(&e->c, CONCLAVE_ENOMEM);
        } else {
            step_submit(&e->handed_step, &op, elector_on_handed_found);
        }
    } else if (e->handed_unread) {
        step_ask(&e->handed_step, CONCLAVE_OP_GET, e->handed_path, elector_on_handed_read);
    }
}

void elector_handed_init(struct conclave_elector *e)
{
    machine_step_init(&e->c.machine, &e->handed_step);
    machine_watch_init(&e->c.machine, &e->handed_watch);
}

void elector_handed_finish(struct conclave_elector *e)
{
    watch_slot_clear(&e->handed_watch);
    free(e->handed_to);
}
