/*
 * Hand-over to a named member, from the operator's side: makes the request (elector_handed.c has what members do with it),
 * looks until the member is active, or cannot be, and takes the request back. A hand-over that fails is turned round: for
 * a while only the member that was active before may be active.
 */
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/standby/elector_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_AGAIN_MS = 50, HAND_BACK_MS = 10000, SETTLE_MS = 1000 };

struct hand_over {
    struct elector_question q;
    struct conclave_recipes *rt;
    const char *id;
    char *path;                     /* of the request */
    char *from_id;                  /* of the member that was active */
    int64_t from;                   /* its token */
    struct conclave_hand_over *ret; /* never NULL */
};

const char *conclave_hand_over_outcome_name(enum conclave_hand_over_outcome outcome)
{
    static const char *const names[] = {"DONE",     "NOBODY_ACTIVE",  "NO_MEMBER", "NOT_HEALTHY",
                                        "OBSERVER", "ANOTHER_ACTIVE", "LATE"};
    return (unsigned)outcome <= CONCLAVE_HAND_OVER_LATE ? names[outcome] : "UNKNOWN";
}

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

/* The member that is active, in h->ret; "" without one. */
static int look_active(struct hand_over *h)
{
    struct conclave_elector_view *v;
    int error = conclave_elector_view(h->rt, h->q.dir, left_ms(h), &v);
    if (error != 0) {
        return error;
    }
    bool active = v->lock != NULL && v->active != NULL && !v->active->clean &&
                  v->active->token.czxid == v->lock->token.czxid;
    h->ret->token.czxid = active ? v->active->token.czxid : 0;
    (void)snprintf(h->ret->active, sizeof h->ret->active, "%s", active ? v->active->id : "");
    conclave_elector_view_free(v);
    return 0;
}

/* 0: the member may be active. */
static int look_member(struct hand_over *h, bool *ret_ready)
{
    struct conclave_elector_member **m;
    int error = conclave_elector_member(h->rt, h->q.dir, h->id, left_ms(h), &m);
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

/* --- the request -------------------------------------------------------------------- */

/* Makes the request, or changes it. */
static int request_set(struct hand_over *h, const char *to, int64_t from, bool create)
{
    struct conclave_breadcrumb request = {
        .id = to, .incarnation = "", .token = {from}, .data = "", .data_len = 0};
    struct buf text;
    buf_init(&text, 0);
    breadcrumb_write(&text, CONCLAVE_ELECTOR_LAYOUT_NATIVE, &request);
    int error = CONCLAVE_ENOMEM;
    if (buf_ok(&text)) {
        error = create ? elector_question_make(&h->q, h->path, text.data, text.len)
                       : blocking_request(&h->q.blocking,
                                          conclave_op_set(h->path, text.data, text.len, -1), NULL);
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
        if (error != 0) {
            return error == CONCLAVE_ETIMEDOUT ? not_done(h, CONCLAVE_HAND_OVER_LATE) : error;
        }
        bool other = h->ret->token.czxid != 0 && h->ret->token.czxid != h->from;
        if (other && strcmp(h->ret->active, h->id) != 0) {
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

/* Until the one before is active again, or the named one after all. One that has not stepped down may be about to: that
 * is seen in a moment. */
static int hand_back(struct hand_over *h, bool *ret_done)
{
    const struct blocking *b = &h->q.blocking;
    int64_t began_ns = client_now_ns(b->client);
    int64_t settled_ns = began_ns + (int64_t)SETTLE_MS * 1000000;
    enum conclave_hand_over_outcome outcome = h->ret->outcome;
    h->q.blocking.deadline_ns = began_ns + (int64_t)HAND_BACK_MS * 1000000;
    int error = request_set(h, h->from_id, 0, false);
    bool over = false;
    while (error == 0 && !over && !blocking_is_late(b)) {
        bool ready = false;
        error = look_active(h);
        bool new = error == 0 && h->ret->token.czxid != 0 && h->ret->token.czxid != h->from;
        if (new &&strcmp(h->ret->active, h->id) == 0) {
            *ret_done = over = look_member(h, &ready) == 0 && ready;
        } else if (error == 0 && strcmp(h->ret->active, h->from_id) == 0) {
            over = new || client_now_ns(b->client) >= settled_ns;
        }
        if (!over) {
            usleep(LOOK_AGAIN_MS * 1000);
        }
    }
    h->ret->outcome = *ret_done ? CONCLAVE_HAND_OVER_DONE : outcome;
    return error == CONCLAVE_ETIMEDOUT ? 0 : error;
}

static int hand_over_run(struct hand_over *h)
{
    int error = request_set(h, h->id, h->from, true);
    if (error != 0) {
        return error;
    }
    error = wait_for_member(h);
    if (error != 0 &&
        !(error == CONCLAVE_ECANCELED && h->ret->outcome == CONCLAVE_HAND_OVER_ANOTHER_ACTIVE)) {
        bool done = false;
        int back = hand_back(h, &done);
        error = done ? 0 : error == CONCLAVE_ECANCELED && back != 0 ? back : error;
    }
    h->q.blocking.deadline_ns =
        client_now_ns(h->q.blocking.client) + (int64_t)HAND_BACK_MS * 1000000;
    int deleted = elector_question_delete(&h->q, h->path);
    return error != 0 ? error : deleted;
}

int conclave_elector_hand_over(struct conclave_recipes *rt, const char *dir, const char *id,
                               int64_t timeout_ms, struct conclave_hand_over *ret)
{
    struct conclave_hand_over own = CONCLAVE_HAND_OVER_INIT;
    struct hand_over h = {.rt = rt, .id = id, .ret = &own};
    bool ready;
    int error =
        sized_can_write(ret) ? elector_question_begin(rt, dir, timeout_ms, &h.q) : CONCLAVE_EINVAL;
    if (error == 0) {
        error = look_active(&h);
    }
    if (error == 0) {
        error = look_member(&h, &ready);
    }
    if (error == 0 && own.token.czxid == 0) {
        error = not_done(&h, CONCLAVE_HAND_OVER_NOBODY_ACTIVE);
    }
    if (error == 0 && strcmp(own.active, id) != 0) {
        h.from = own.token.czxid;
        h.from_id = strdup(own.active);
        h.path = text_concat(dir, "/HandOver");
        error = h.from_id != NULL && h.path != NULL ? hand_over_run(&h) : CONCLAVE_ENOMEM;
    }
    free(h.from_id);
    free(h.path);
    if (ret != NULL && (error == 0 || error == CONCLAVE_ECANCELED)) {
        sized_write(ret, &own);
    }
    return error;
}
