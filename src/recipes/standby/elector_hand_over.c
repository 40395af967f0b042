/*
 * Hand-over to a named member, from the operator's side: makes the request (elector_handed.c has what members do with it),
 * looks until the member is active, or cannot be, and takes the request back. A hand-over that fails is turned round: for
 * a while only the member that was active before may be active.
 */
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/standby/operator_node.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_AGAIN_MS = 50, HAND_BACK_MS = 10000, SETTLE_MS = 1000, TAKE_BACK_MS = 2000 };

struct hand_over {
    struct elector_question q;
    struct operator_node request;
    const char *id;
    char *active;  /* id of the member that is active, "" if none is; ret has its beginning */
    char *from_id; /* of the member that was active */
    int64_t from;  /* its token */
    struct conclave_hand_over *ret; /* never NULL */
};

static int64_t left_ms(const struct hand_over *h)
{
    const struct blocking *b = &h->q.blocking;
    int64_t left = b->deadline_ns == CONCLAVE_FOREVER
                       ? CONCLAVE_FOREVER
                       : (b->deadline_ns - client_now_ns(b->client)) / 1000000;
    return b->deadline_ns == CONCLAVE_FOREVER || left > 0 ? left : 1;
}

static int not_done(struct hand_over *h, enum conclave_hand_over_outcome outcome)
{
    h->ret->outcome = outcome;
    return CONCLAVE_ECANCELED;
}

/* The member that is active, in h->active and h->ret. */
static int look_active(struct hand_over *h)
{
    struct conclave_elector_view *v;
    int error = conclave_elector_view(h->q.rt, h->q.dir, left_ms(h), &v);
    if (error != 0) {
        return error;
    }
    bool active = v->lock != NULL && v->active != NULL && !v->active->clean &&
                  v->active->token.czxid == v->lock->token.czxid;
    char *id = strdup(active ? v->active->id : "");
    if (id != NULL) {
        free(h->active);
        h->active = id;
        h->ret->token.czxid = active ? v->active->token.czxid : 0;
        (void)snprintf(h->ret->active, sizeof h->ret->active, "%s", id);
    }
    conclave_elector_view_free(v);
    return id != NULL ? 0 : CONCLAVE_ENOMEM;
}

/* 0: the member may be active. */
static int look_member(struct hand_over *h, bool *ret_ready)
{
    struct conclave_elector_member **m;
    int error = conclave_elector_member(h->q.rt, h->q.dir, h->id, left_ms(h), &m);
    if (error == CONCLAVE_NO_NODE) {
        return not_done(h, CONCLAVE_HAND_OVER_NO_MEMBER);
    }
    if (error != 0) {
        return error;
    }
    if (m[0]->observer) {
        error = not_done(h, CONCLAVE_HAND_OVER_OBSERVER);
    } else if (m[0]->health != CONCLAVE_HEALTH_HEALTHY) {
        error = not_done(h, CONCLAVE_HAND_OVER_NOT_HEALTHY);
    }
    *ret_ready = m[0]->ready && m[0]->token.czxid == h->ret->token.czxid;
    conclave_elector_members_free(m, 1);
    return error;
}

/* Whether the one that was active has not begun to step down, as far as it says. */
static bool still_active(struct hand_over *h)
{
    struct conclave_elector_member **m;
    if (conclave_elector_member(h->q.rt, h->q.dir, h->from_id, left_ms(h), &m) != 0) {
        return true; /* not listed */
    }
    bool active = m[0]->token.czxid == h->from;
    conclave_elector_members_free(m, 1);
    return active;
}

/* --- the request -------------------------------------------------------------------- */

/* Makes the request, or changes it. */
static int request_set(struct hand_over *h, const char *to, int64_t from, bool create)
{
    struct conclave_breadcrumb request = {
        .id = to, .incarnation = "", .token = {from}, .data = "", .data_len = 0};
    struct buf text;
    int error = CONCLAVE_ENOMEM;
    buf_init(&text, 0);
    breadcrumb_write(&text, CONCLAVE_ELECTOR_LAYOUT_NATIVE, &request);
    if (buf_ok(&text) && create) {
        error = operator_node_make(&h->request, &h->q, "/HandOver", buf_slice(&text), NULL, 0);
    } else if (buf_ok(&text)) {
        error = operator_node_set(&h->request, buf_slice(&text));
    }
    buf_finish(&text);
    return error;
}

/* --- waiting -------------------------------------------------------------------------- */

/* Until the member is active and ready, or cannot be. */
static int wait_for_member(struct hand_over *h)
{
    for (;;) {
        bool ready = false;
        int error = look_active(h);
        error = error == 0 ? look_member(h, &ready) : error;
        error = error == 0 ? blocking_session(&h->q.blocking) : error; /* the request is gone */
        if (error != 0) {
            return error == CONCLAVE_ETIMEDOUT ? not_done(h, CONCLAVE_HAND_OVER_LATE) : error;
        }
        bool other = h->ret->token.czxid != 0 && h->ret->token.czxid != h->from;
        if (other && strcmp(h->active, h->id) != 0) {
            return not_done(h, CONCLAVE_HAND_OVER_ANOTHER_ACTIVE);
        }
        if (other && ready) {
            return 0;
        }
        if (blocking_is_late(&h->q.blocking)) {
            return not_done(h, CONCLAVE_HAND_OVER_LATE);
        }
        usleep(LOOK_AGAIN_MS * 1000);
    }
}

/* Names the one before. If the named one is active and not ready, it is to step down. *asked: its token. */
static int name_the_one_before(struct hand_over *h, int64_t *asked)
{
    int64_t token = h->ret->token.czxid;
    assert(h->from != 0 && h->from_id != NULL); /* one was active */
    int64_t from = token != h->from && strcmp(h->active, h->id) == 0 ? token : 0;
    int error = from != *asked ? request_set(h, h->from_id, from, false) : 0;
    *asked = error == 0 ? from : *asked;
    return error;
}

/* One look: whether it is over. The named one may be ready after all, if it was not asked to step down. */
static int look_back(struct hand_over *h, int64_t settled_ns, int64_t *asked, bool *ret_done,
                     bool *ret_over)
{
    bool ready = false;
    int error = look_active(h);
    int64_t token = h->ret->token.czxid;
    bool new = token != 0 && token != h->from;
    if (error != 0) {
        return error;
    }
    if (new &&strcmp(h->active, h->id) == 0) {
        *ret_done = *ret_over = token != *asked && look_member(h, &ready) == 0 && ready;
    } else if (strcmp(h->active, h->from_id) == 0) {
        bool settled = client_now_ns(h->q.blocking.client) >= settled_ns;
        *ret_over = new || (settled && still_active(h));
    }
    return *ret_over ? 0 : name_the_one_before(h, asked);
}

/* Until the one before is active again, or the named one after all. One that has not stepped down may be about to: that
 * is seen in a moment. */
static int hand_back(struct hand_over *h, bool *ret_done)
{
    const struct blocking *b = &h->q.blocking;
    int64_t began_ns = client_now_ns(b->client);
    int64_t settled_ns = began_ns + (int64_t)SETTLE_MS * 1000000;
    enum conclave_hand_over_outcome outcome = h->ret->outcome;
    h->q.blocking.deadline_ns = began_ns + (int64_t)HAND_BACK_MS * 1000000;
    int64_t asked = -1; /* none yet */
    bool over = false;
    int error = name_the_one_before(h, &asked);
    while (error == 0 && !over && !blocking_is_late(b)) {
        error = look_back(h, settled_ns, &asked, ret_done, &over);
        if (error == 0 && !over) {
            usleep(LOOK_AGAIN_MS * 1000);
        }
    }
    h->ret->outcome = *ret_done ? CONCLAVE_HAND_OVER_DONE : outcome;
    return error == CONCLAVE_ETIMEDOUT || error == CONCLAVE_NO_NODE ? 0 : error;
}

static int hand_over_run(struct hand_over *h)
{
    int error = request_set(h, h->id, h->from, true);
    if (error != 0) {
        return error == CONCLAVE_NO_NODE ? not_done(h, CONCLAVE_HAND_OVER_NOBODY_ACTIVE) : error;
    }
    error = wait_for_member(h);
    if (error != 0 &&
        !(error == CONCLAVE_ECANCELED && h->ret->outcome == CONCLAVE_HAND_OVER_ANOTHER_ACTIVE)) {
        bool done = false;
        int back = hand_back(h, &done);
        error = done ? 0 : error == CONCLAVE_ECANCELED && back != 0 ? back : error;
    }
    h->q.blocking.deadline_ns =
        client_now_ns(h->q.blocking.client) + (int64_t)TAKE_BACK_MS * 1000000;
    int ended = operator_node_end(&h->request);
    return error == 0 ? ended : error;
}

/* To one that is not active. */
static int hand_over_begin(struct hand_over *h)
{
    bool ready;
    int error = look_member(h, &ready);
    if (error == 0 && h->ret->token.czxid == 0) {
        error = not_done(h, CONCLAVE_HAND_OVER_NOBODY_ACTIVE);
    }
    if (error == 0) {
        h->from = h->ret->token.czxid;
        h->from_id = strdup(h->active);
        error = h->from_id != NULL ? hand_over_run(h) : CONCLAVE_ENOMEM;
    }
    return error;
}

int conclave_elector_hand_over(struct conclave_recipes *rt, const char *dir, const char *id,
                               int64_t timeout_ms, struct conclave_hand_over *ret)
{
    struct conclave_hand_over own = CONCLAVE_HAND_OVER_INIT;
    struct hand_over h = {.id = id, .ret = &own};
    bool valid = sized_can_write(ret) && id != NULL && id[0] != '\0';
    int error = valid ? elector_question_begin(rt, dir, timeout_ms, &h.q) : CONCLAVE_EINVAL;
    if (error == 0) {
        error = look_active(&h);
    }
    if (error == 0 && strcmp(h.active, id) != 0) {
        error = hand_over_begin(&h);
    }
    free(h.from_id);
    free(h.active);
    if (ret != NULL && (error == 0 || error == CONCLAVE_ECANCELED)) {
        sized_write(ret, &own);
    }
    return error;
}
