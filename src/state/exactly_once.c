#include "state/exactly_once.h"

#include "state/digest.h"
#include "state/state_internal.h"

#include <assert.h>

/* The distance from a to b; below 0: b is older. */
static int32_t distance(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)b - (uint32_t)a);
}

static struct once_result *result_of(struct list *link)
{
    return CONTAINER_OF(link, struct once_result, link);
}

/* The digest of the head is subtracted before a change and added after it. */
static void head_out(struct state *s, const struct session *session)
{
    s->sessions_digest -= digest_results(session);
}

static void head_in(struct state *s, const struct session *session)
{
    s->sessions_digest += digest_results(session);
}

/* --- adding and removing results -------------------------------------------------------------- */

bool once_results_put(struct state *s, struct session *session, const struct once_result *like,
                      struct slice reply)
{
    struct once_results *r = session->results;
    struct once_result *result = malloc(sizeof *result + reply.len);
    if (result == NULL) {
        return false;
    }
    *result = *like;
    result->len = reply.len;
    if (reply.len > 0) {
        memcpy(result->reply, reply.data, reply.len);
    }
    result->digest = digest_result(session->id, result);
    list_push_back(&r->list, &result->link);
    account_charge(&r->account, ACCOUNT_RESULTS, sizeof *result + reply.len);
    s->sessions_digest += result->digest;
    return true;
}

static void result_free(struct state *s, struct once_results *r, struct once_result *result)
{
    list_remove(&result->link);
    account_credit(&r->account, ACCOUNT_RESULTS, sizeof *result + result->len);
    s->sessions_digest -= result->digest;
    free(result);
}

/* The caller updates the digest of the head. */
static void forget_oldest(struct state *s, struct once_results *r)
{
    assert(once_results_count(r) > 0);
    struct once_result *oldest = result_of(r->list.next);
    r->forgotten = oldest->number;
    result_free(s, r, oldest);
}

/* Forgets the results whose answers the client has received. */
static void forget_answered(struct state *s, struct once_results *r, int32_t unanswered)
{
    while (once_results_count(r) > 0 && distance(unanswered, result_of(r->list.next)->number) < 0) {
        forget_oldest(s, r);
    }
}

static bool over_limit(const struct once_results *r)
{
    size_t count = once_results_count(r);
    assert(r->account.bytes[ACCOUNT_RESULTS] >= count * sizeof(struct once_result));
    size_t replies = r->account.bytes[ACCOUNT_RESULTS] - count * sizeof(struct once_result);
    return count > (size_t)r->count_max || (replies > (size_t)r->bytes_max && count > 1);
}

/* --- begin and end ---------------------------------------------------------------------------- */

bool once_results_restore(struct state *s, struct session *session, const struct once_results *like)
{
    assert(session->results == NULL);
    session->results = malloc(sizeof *session->results);
    if (session->results == NULL) {
        return false;
    }
    *session->results = *like;
    list_init(&session->results->list);
    account_init(&session->results->account, &s->account);
    head_in(s, session);
    return true;
}

void once_results_end(struct state *s, struct session *session)
{
    struct once_results *r = session->results;
    if (r == NULL) {
        return;
    }
    while (once_results_count(r) > 0) {
        result_free(s, r, result_of(r->list.next));
    }
    head_out(s, session);
    account_finish(&r->account);
    free(r);
    session->results = NULL;
}

int once_results_read_wish(struct wire_reader *r, struct once_wish *ret)
{
    struct once_wish wish = {0, 0};
    if (wire_left(r) > 0) {
        wish.count_max = wire_read_i32(r);
        wish.bytes_max = wire_read_i32(r);
        if (r->failed || wish.count_max < 1 || wish.bytes_max < 1) {
            return CONCLAVE_MARSHALLING_ERROR;
        }
    }
    *ret = wish;
    return 0;
}

void once_results_agree(struct state *s, struct session *session, const struct once_wish *wish)
{
    if (wish->count_max == 0) {
        once_results_end(s, session);
        return;
    }
    if (session->results == NULL) {
        struct once_results begin = {.born = s->zxid};
        state_need(once_results_restore(s, session, &begin));
    }
    head_out(s, session);
    session->results->count_max = wish->count_max;
    session->results->bytes_max = wish->bytes_max;
    head_in(s, session);
}

/* --- a write that may be a repetition --------------------------------------------------------- */

static struct once_result *exactly_once_find(const struct once_results *r, int32_t number)
{
    LIST_FOREACH (link, &r->list) {
        if (result_of(link)->number == number) {
            return result_of(link);
        }
    }
    return NULL;
}

/* Writes of a link are applied in order. So a number below the newest without a result was refused before it came into
 * the log, or its result was forgotten. */
static int32_t missing(const struct once_results *r, int32_t number)
{
    return distance(r->forgotten, number) > 0 ? CONCLAVE_THROTTLED : CONCLAVE_CONNECTION_LOSS;
}

/* The reconfig is in progress: its last repetition gets the answer. After a restore it may belong to an earlier run. */
static void answer_deferred(struct write *w, const struct once_result *result)
{
    struct member_change *reconfig = &w->s->configuration.reconfig;
    if (reconfig->zxid != result->zxid || reconfig->session_id != w->command->session_id) {
        w->effects->err = CONCLAVE_CONNECTION_LOSS;
        return;
    }
    reconfig->origin = w->origin;
    reconfig->cxid = w->command->cxid;
    w->effects->deferred = true;
}

static void answer(struct write *w, const struct once_result *result)
{
    struct effects *e = w->effects;
    e->zxid = result->zxid;
    e->err = result->err;
    buf_append(&e->reply, result->reply, result->len);
    state_need(buf_ok(&e->reply));
}

/* A number without results to compare cannot be judged: it belongs to a link that was given up. */
bool once_results_answer(struct write *w)
{
    const struct command *command = w->command;
    struct session *session = session_find(w->s, command->session_id);
    if (session == NULL || write_check_session(w) != 0) {
        return false; /* is handled like any other */
    }
    struct once_results *r = session->results;
    if (r == NULL) {
        w->effects->err = CONCLAVE_SESSION_MOVED;
        return true;
    }
    head_out(w->s, session);
    forget_answered(w->s, r, command->unanswered);
    bool again = distance(r->last, command->number) <= 0;
    if (again) {
        const struct once_result *result = exactly_once_find(r, command->number);
        w->effects->repeated = true;
        if (result != NULL && result->deferred) {
            answer_deferred(w, result);
        } else if (result != NULL) {
            answer(w, result);
        } else {
            w->effects->err = missing(r, command->number);
        }
    }
    head_in(w->s, session);
    return again;
}

void once_results_keep(struct write *w)
{
    const struct effects *e = w->effects;
    struct session *session = session_find(w->s, w->command->session_id);
    if (session == NULL || session->results == NULL || write_check_session(w) != 0) {
        return; /* it was not applied, and may come again on another server */
    }
    struct once_results *r = session->results;
    struct once_result result = {
        .number = w->command->number, .err = e->err, .zxid = e->zxid, .deferred = e->deferred};
    head_out(w->s, session);
    r->last = result.number;
    state_need(once_results_put(w->s, session, &result, buf_slice(&e->reply)));
    while (over_limit(r)) {
        forget_oldest(w->s, r);
    }
    head_in(w->s, session);
}

void once_results_resume(struct state *s, const struct effects *effects)
{
    struct session *session =
        effects->resumed.is ? session_find(s, effects->resumed.session_id) : NULL;
    if (session == NULL || session->results == NULL) {
        return;
    }
    struct list *link = session->results->list.prev;
    while (link != &session->results->list && !result_of(link)->deferred) {
        link = link->prev;
    }
    if (link == &session->results->list) {
        return;
    }
    struct once_result result = {
        .number = result_of(link)->number, .err = effects->resumed.err, .zxid = effects->zxid};
    struct list *after = link->next;
    struct slice reply = result.err == 0 ? buf_slice(&effects->reply) : slice_str("");
    state_need(once_results_put(s, session, &result, reply));
    struct list *made = session->results->list.prev;
    result_free(s, session->results, result_of(link));
    list_remove(made);
    list_push_back(after, made); /* in the order of numbers */
}

bool state_results(const struct state *s, int64_t session_id, struct state_results *ret)
{
    const struct session *session = session_find(s, session_id);
    if (session == NULL || session->results == NULL) {
        return false;
    }
    const struct once_results *r = session->results;
    *ret = (struct state_results){.count_max = r->count_max,
                                  .bytes_max = r->bytes_max,
                                  .last = r->last,
                                  .born = r->born,
                                  .count = once_results_count(r)};
    return true;
}
