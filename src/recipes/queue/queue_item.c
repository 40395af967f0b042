/*
 * A taken item: its lease, its ack or nack, its loss.
 *
 *   HELD --ack, nack--> SETTLING --done--> SETTLED
 *    ^ |                 | | |
 *    | '--lost-----------+ | '--session ended--> LOST <--session ended-- HELD
 *    |                   | |                      ^
 *    '----- refused -----|-'                      |
 *                        '--> LEAVING --its claim is gone
 *
 * A lease that ran out without a link is reported as a loss, but the claim may still
 * exist: an ack is tried, and the version in it decides. LEAVING removes the claim of a lost item, if it is still ours:
 * nobody could take the item before the end of the session.
 */
#include "recipes/queue/queue_item.h"

#include "base/transition.h"
#include "recipes/engine/option_copies.h"
#include "recipes/queue/curator_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_PARTS = 3 };

static void item_run(struct conclave_item *item);

static struct conclave_recipes *rt_of(const struct conclave_item *item)
{
    return item->handle.rt;
}

/* --- its end ------------------------------------------------------------------------------ */

static void item_release(struct conclave_item *item)
{
    bool over = item->state == ITEM_SETTLED || item->state == ITEM_LOST;
    if (item->freed && over && !item->released) {
        item->released = true;
        handle_release(&item->handle);
    }
}

/* A callback is due; the queue's end waits for it. */
static void owe(struct conclave_item *item, bool *due, bool wanted)
{
    if (wanted && !*due) {
        *due = true;
        host_owes(&item->queue->host);
    }
}

/* No user waits for the answer any more. */
static void forget_due(struct conclave_item *item, bool *due)
{
    if (*due) {
        *due = false;
        host_told(&item->queue->host);
    }
}

/* The drawing above; an item without a claim begins as SETTLED. */
static const uint16_t ITEM_NEXT[] = {
    [ITEM_HELD] = TRANSITION_TO(ITEM_HELD) | TRANSITION_TO(ITEM_SETTLING) |
                  TRANSITION_TO(ITEM_LEAVING) | TRANSITION_TO(ITEM_LOST) |
                  TRANSITION_TO(ITEM_SETTLED),
    [ITEM_SETTLING] = TRANSITION_TO(ITEM_HELD) | TRANSITION_TO(ITEM_SETTLED) |
                      TRANSITION_TO(ITEM_LEAVING) | TRANSITION_TO(ITEM_LOST),
    [ITEM_LEAVING] = TRANSITION_TO(ITEM_LOST),
    [ITEM_SETTLED] = 0,
    [ITEM_LOST] = 0,
};

static void item_enter(struct conclave_item *item, enum item_state state)
{
    transition_check(ITEM_NEXT, item->state, state);
    assert(state != ITEM_SETTLED || item->state == ITEM_SETTLING || item->version < 0);
    item->state = state;
}

/* Whether it has something to ask the server. */
static bool item_asks(const struct conclave_item *item)
{
    return item->state == ITEM_SETTLING || item->state == ITEM_LEAVING;
}

static void lease_end(struct conclave_item *item)
{
    grant_withdraw(&item->grant);
    lease_remove(&rt_of(item)->lease, &item->holder);
}

/* Settled or lost: it does not hold up the queue's end any more. */
static void item_over(struct conclave_item *item, enum item_state state)
{
    item_enter(item, state);
    lease_end(item);
    client_timer_stop(rt_of(item)->client, &item->retry);
    list_remove(&item->link);
    host_check(&item->queue->host);
    item_release(item);
}

/* Lost, and its claim may stand: it must not keep others from the item. What stands there may also be another's. */
static void item_leave(struct conclave_item *item)
{
    item_enter(item, ITEM_LEAVING);
    lease_end(item);
    item->settle = SETTLE_UNCLAIM;
    item->unknown = true;
    item_run(item);
}

/* The answer to an ack or nack. */
static void settle_tell(struct conclave_item *item, int error)
{
    item->parts = NULL;
    item->parts_count = 0;
    if (item->waiter != NULL) {
        *item->waiter = (struct item_waiter){true, error};
        item->waiter = NULL;
    }
    if (item->done != NULL && !item->done_due) {
        item->done_error = error;
        owe(item, &item->done_due, true);
    }
    if (error == 0 || error == CONCLAVE_ELOST || error == CONCLAVE_SESSION_EXPIRED) {
        forget_due(item, &item->lost_due); /* no word of a loss comes after it */
        item->lost_told = true;
    }
    client_notify(rt_of(item)->client);
    handle_post(&item->handle);
}

static void settle_done(struct conclave_item *item)
{
    settle_tell(item, 0);
    item_over(item, ITEM_SETTLED);
}

/* The claim is not what it was, or another took the item without it. */
static void settle_lost(struct conclave_item *item)
{
    settle_tell(item, CONCLAVE_ELOST);
    item_leave(item);
}

/* Not carried out: the item is held as before, unless nobody wants it any more. */
static void settle_refused(struct conclave_item *item, int error)
{
    settle_tell(item, error);
    if (item->freed || item->queue->host.closing.ending) {
        item_leave(item);
    } else {
        item_enter(item, ITEM_HELD);
        if (!item->lost_told) { /* else the user has stopped, and would not be told of another loss */
            lease_add(&rt_of(item)->lease, &item->holder);
        }
    }
}

static void tell_lost(struct conclave_item *item)
{
    grant_withdraw(&item->grant);
    if (!item->lost_told) {
        item->lost_told = true;
        owe(item, &item->lost_due, item->queue->callbacks.on_lost != NULL);
        handle_post(&item->handle);
    }
}

/* Whether an ack is under way that the server may have carried out. A nack leaves the same behind in any case. */
static bool settle_in_doubt(const struct conclave_item *item)
{
    return item->settle != SETTLE_NACK && (item->unknown || item->step.busy);
}

/* The session has ended, and the claim with it. */
static void item_lose_session(struct conclave_item *item)
{
    if (item->state == ITEM_SETTLING) {
        item->in_doubt = settle_in_doubt(item);
        settle_tell(item, item->in_doubt ? CONCLAVE_SESSION_EXPIRED : CONCLAVE_ELOST);
    } else if (item->state == ITEM_HELD) {
        tell_lost(item);
    }
    if (item->state != ITEM_SETTLED && item->state != ITEM_LOST) {
        item_over(item, ITEM_LOST);
    }
}

/* --- ack and nack -------------------------------------------------------------------------- */

/* An error that will not pass. */
static void settle_failed(struct conclave_item *item, int error)
{
    if (item->state == ITEM_LEAVING) {
        item_over(item, ITEM_LOST); /* the claim goes with the session */
    } else {
        settle_refused(item, error);
    }
}

static void queue_item_on_ensured(struct ensure_path *ensure, int error)
{
    struct conclave_item *item = CONTAINER_OF(ensure, struct conclave_item, ensure);
    if (error != 0 && error_is_fatal(error) && item->state == ITEM_SETTLING) {
        settle_refused(item, error);
    } else if (error != 0) {
        recipes_retry_later(rt_of(item), &item->retry);
    }
    item_run(item);
}

static void settle_trouble(struct conclave_item *item, int error)
{
    if (error == CONCLAVE_SESSION_EXPIRED) {
        item_lose_session(item);
    } else if (error_is_fatal(error)) {
        settle_failed(item, error);
    } else if (error != CONCLAVE_CONNECTION_LOSS) {
        recipes_retry_later(rt_of(item), &item->retry);
    }
}

/* The part that failed is one of ours: the claim is not what it was. */
static bool claim_failed(const struct conclave_reply *reply)
{
    for (size_t i = 0; i < 2; i++) {
        int error = queue_part_error(reply, i);
        if (error == CONCLAVE_NO_NODE || error == CONCLAVE_BAD_VERSION) {
            return true;
        }
    }
    return false;
}

/* Of a part of the caller's: that is told, and the claim stays. */
static int parts_error(const struct conclave_item *item, const struct conclave_reply *reply)
{
    int error = 0;
    for (size_t i = 0; i < item->parts_count && error == 0; i++) {
        error = queue_part_error(reply, 2 + i);
    }
    return error;
}

static void on_settled(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_item *item = CONTAINER_OF(step, struct conclave_item, step);
    int letter_error = item->settle == SETTLE_DEAD ? queue_part_error(reply, 2) : 0;
    if (item->state != ITEM_SETTLING) {
        return;
    }
    if (reply->error == 0) {
        settle_done(item);
    } else if (claim_failed(reply)) {
        settle_lost(item);
    } else if (queue_part_error(reply, 0) == CONCLAVE_NOT_EMPTY) {
        settle_refused(item, CONCLAVE_NOT_EMPTY); /* somebody made a child below it */
    } else if (parts_error(item, reply) != 0) {
        settle_refused(item, parts_error(item, reply));
    } else if (letter_error == CONCLAVE_NODE_EXISTS) {
        item->name_taken = true;
    } else if (letter_error == CONCLAVE_NO_NODE) {
        if (queue_ensure(item->queue, &item->ensure, item->queue->dead, queue_item_on_ensured) !=
            0) {
            recipes_retry_later(rt_of(item), &item->retry);
        }
    } else {
        item->unknown = item->unknown || error_is_unknown(reply->error) ||
                        reply->error == CONCLAVE_SESSION_EXPIRED ||
                        reply->error == CONCLAVE_ECLOSED;
        settle_trouble(item, reply->error);
    }
    item_run(item);
}

static void settle_send(struct conclave_item *item)
{
    struct conclave_queue *q = item->queue;
    size_t count = 2;
    struct conclave_op *parts = calloc(OWN_PARTS + item->parts_count, sizeof *parts);
    char *dead = queue_item_dead_path(q, item);
    if (parts == NULL || dead == NULL) {
        free(parts);
        free(dead);
        recipes_retry_later(rt_of(item), &item->retry);
        return;
    }
    parts[0] =
        conclave_op_path(item->settle == SETTLE_NACK ? CONCLAVE_OP_CHECK : CONCLAVE_OP_DELETE,
                         item->path, item->version);
    parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, item->claim, -1);
    if (item->settle == SETTLE_DEAD) {
        parts[count] = conclave_op_create(dead, item->data, item->len, CONCLAVE_PERSISTENT);
        queue_op_acl(q, &parts[count++]);
    }
    for (size_t i = 0; i < item->parts_count; i++) {
        parts[count++] = item->parts[i];
    }
    struct conclave_op op = conclave_op_multi(parts, count);
    step_submit(&item->step, &op, on_settled);
    free(parts);
    free(dead);
}

static void on_unclaimed(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_item *item = CONTAINER_OF(step, struct conclave_item, step);
    if (item->state != ITEM_LEAVING) {
        return;
    }
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        item_over(item, ITEM_LOST);
    } else {
        item->unknown = true; /* it may be another's the next time */
        settle_trouble(item, reply->error);
    }
    item_run(item);
}

bool queue_item_owns(const struct conclave_item *item, int64_t session_id,
                     const struct conclave_reply *claim)
{
    return claim->error == 0 && claim->stat.ephemeral_owner == session_id &&
           claim->data_len == strlen(item->note) &&
           memcmp(claim->data, item->note, claim->data_len) == 0;
}

/* The claim stands: nothing was done; of an ack, after the item was found to be gone: by another, who took it without a
 * claim. No claim, or another's: it went with what was done. */
static void on_claim_found(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_item *item = CONTAINER_OF(step, struct conclave_item, step);
    bool ours = queue_item_owns(item, item->session_id, reply);
    if (!item_asks(item)) {
        return;
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        settle_trouble(item, reply->error);
    } else if (item->state == ITEM_LEAVING && !ours) {
        item_over(item, ITEM_LOST);
    } else if (!ours) {
        settle_done(item);
    } else if (item->settle == SETTLE_ACK || item->settle == SETTLE_DEAD) {
        settle_lost(item);
    } else {
        item->unknown = false;
    }
    item_run(item);
}

static void ask_for_claim(struct conclave_item *item)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, item->claim, 0);
    step_submit(&item->step, &op, on_claim_found);
}

/* An item that is there was not acknowledged: the next try decides what it is now. Another item may have its name by now, in
 * layouts without guids, or as a dead letter that was put back. */
static void on_item_found(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_item *item = CONTAINER_OF(step, struct conclave_item, step);
    if (item->state != ITEM_SETTLING) {
        return;
    }
    if (reply->error == CONCLAVE_NO_NODE ||
        (reply->error == 0 && reply->stat.czxid != item->czxid)) {
        ask_for_claim(item);
        return;
    }
    if (reply->error != 0) {
        settle_trouble(item, reply->error);
    } else if (item->parts_gone) {
        settle_refused(item, CONCLAVE_ECANCELED);
    } else {
        item->unknown = false;
    }
    item_run(item);
}

/* The answer was lost: an ack has removed item and claim, a nack the claim. */
static void queue_item_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_item *item = CONTAINER_OF(step, struct conclave_item, step);
    if (!item_asks(item)) {
        return;
    }
    if (reply->error != 0) {
        settle_trouble(item, reply->error);
        item_run(item);
    } else if (item->settle == SETTLE_ACK || item->settle == SETTLE_DEAD) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, item->path, 0);
        step_submit(&item->step, &op, on_item_found);
    } else {
        ask_for_claim(item);
    }
}

static void item_run(struct conclave_item *item)
{
    if (!item_asks(item) || item->step.busy || ensure_path_busy(&item->ensure) ||
        client_timer_active(&item->retry) || !recipes_connected(rt_of(item))) {
        return;
    }
    if (item->unknown) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, item->path, 0);
        step_submit(&item->step, &op, queue_item_on_synced);
    } else if (item->state == ITEM_LEAVING) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, item->claim, -1);
        step_submit(&item->step, &op, on_unclaimed);
    } else {
        settle_send(item);
    }
}

static void queue_item_on_retry(struct conclave_client *client, void *ctx)
{
    item_run(ctx);
}

static bool last_attempt(const struct conclave_item *item)
{
    int max = item->queue->options.max_attempts;
    return max > 0 && item->version >= max;
}

static void settle_start(struct conclave_item *item, bool ack)
{
    item_enter(item, ITEM_SETTLING);
    item->settle = ack ? SETTLE_ACK : last_attempt(item) ? SETTLE_DEAD : SETTLE_NACK;
    item->unknown = false;
    item->parts_gone = false;
    lease_end(item); /* its check would meet our own deletion */
    item_run(item);
}

/* Whether the user may end it now: 0, or why not. */
static int settle_error(const struct conclave_item *item)
{
    if (item->done_due) {
        return CONCLAVE_EBUSY; /* its answer was not told yet */
    }
    switch (item->state) {
    case ITEM_HELD:
        return 0;
    case ITEM_SETTLING:
        return CONCLAVE_EBUSY;
    case ITEM_SETTLED:
        return item->version < 0 ? 0 : CONCLAVE_ENOTOWNER;
    default:
        return item->in_doubt ? CONCLAVE_SESSION_EXPIRED : CONCLAVE_ELOST;
    }
}

/* --- the lease ------------------------------------------------------------------------------- */

static void queue_item_on_proved(struct lease_holder *holder)
{
    struct conclave_item *item = CONTAINER_OF(holder, struct conclave_item, holder);
    if (item->state == ITEM_HELD) {
        grant_publish(&item->grant, 1, holder->until_ns);
    }
}

static void queue_item_on_lease_lost(struct lease_holder *holder, int why)
{
    struct conclave_item *item = CONTAINER_OF(holder, struct conclave_item, holder);
    if (why != CONCLAVE_ELOST && why != CONCLAVE_NO_NODE) {
        item_lose_session(item);
    } else if (item->state == ITEM_HELD) {
        tell_lost(item);
        if (why == CONCLAVE_NO_NODE) {
            item_leave(item);
        }
    }
}

/* --- the handle -------------------------------------------------------------------------------- */

static void item_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_item *item = CONTAINER_OF(h, struct conclave_item, handle);
    struct conclave_client *client = rt_of(item)->client;
    handle_ref(h);
    client_timer_stop(client, &item->retry);
    if (state == CONCLAVE_STATE_LOST || state_is_final(state) ||
        (recipes_connected(rt_of(item)) && client_session_id(client) != item->session_id)) {
        item_lose_session(item);
    }
    item_run(item);
    handle_unref(h);
}

static bool item_run_due(struct handle *h)
{
    struct conclave_item *item = CONTAINER_OF(h, struct conclave_item, handle);
    struct conclave_queue *q = item->queue;
    struct conclave_client *client = rt_of(item)->client;
    if (item->freed) {
        return false;
    }
    if (item->done_due) {
        conclave_item_fn done = item->done;
        item->done_due = false;
        item->done = NULL;
        int error = item->done_error;
        client_unlock(client);
        done(item, error, item->done_ctx);
        client_lock(client);
        host_told(&q->host);
        return true;
    }
    if (item->lost_due) {
        item->lost_due = false;
        client_unlock(client);
        q->callbacks.on_lost(q, item, q->ctx);
        client_lock(client);
        host_told(&q->host);
        return true;
    }
    return false;
}

static void item_free(struct handle *h)
{
    struct conclave_item *item = CONTAINER_OF(h, struct conclave_item, handle);
    struct conclave_queue *q = item->queue;
    assert(item->state == ITEM_SETTLED || item->state == ITEM_LOST);
    ensure_path_finish(&item->ensure);
    client_timer_stop(rt_of(item)->client, &item->retry);
    queue_item_abandon(item);
    handle_unref(&q->host.handle);
}

static const struct handle_class item_class = {item_on_state, item_run_due, item_free};

/* Its lease, from the claim on. */
static void item_hold(struct conclave_item *item, int64_t claimed_ns)
{
    item->holder.path = item->claim;
    item->holder.beside = item->path;
    item->holder.beside_version = item->version;
    item->holder.on_proved = queue_item_on_proved;
    item->holder.on_lost = queue_item_on_lease_lost;
    list_push_back(&item->queue->items, &item->link);
    lease_add_proved(&rt_of(item)->lease, &item->holder, claimed_ns);
    if (item->holder.until_ns != 0) {
        grant_publish(&item->grant, 1, item->holder.until_ns);
    }
}

struct conclave_item *queue_item_prepare(struct conclave_queue *q, const char *name)
{
    struct conclave_item *item = calloc(1, sizeof *item);
    if (item != NULL &&
        ((item->name = strdup(name)) == NULL || (item->path = path_join(q->path, name)) == NULL ||
         (item->claim = path_join(q->claims, name)) == NULL ||
         (q->options.at_most_once && (item->unclaim = deletion_create(item->claim)) == NULL))) {
        queue_item_abandon(item);
        return NULL;
    }
    return item;
}

int queue_item_fill(struct conclave_item *item, bool wrapped, const void *data, size_t len)
{
    assert(item->data == NULL && item->starts == NULL);
    item->starts_count = wrapped ? curator_items_count(data, len, NULL) : 0;
    item->starts = calloc(item->starts_count + 1, sizeof *item->starts);
    item->data = bytes_copy(data, len);
    item->len = len;
    if (item->data == NULL || item->starts == NULL) {
        return CONCLAVE_ENOMEM;
    }
    if (wrapped) {
        (void)curator_items_count(data, len, item->starts);
    }
    return 0;
}

char *queue_item_dead_path(const struct conclave_queue *q, const struct conclave_item *item)
{
    char *other = item->name_taken ? queue_name_make_dead(item->name) : NULL;
    const char *name = item->name_taken ? other : item->name;
    char *path = name != NULL ? path_join(q->dead, name) : NULL;
    free(other);
    return path;
}

void queue_item_abandon(struct conclave_item *item)
{
    if (item != NULL) {
        free(item->name);
        free(item->path);
        free(item->claim);
        free(item->note);
        free(item->data);
        free(item->starts);
        deletion_free(item->unclaim);
        free(item);
    }
}

void queue_item_claimed(struct conclave_queue *q, struct conclave_item *item, int32_t version,
                        int64_t session_id, int64_t claimed_ns)
{
    struct queue_name parsed = {0};
    handle_init(&item->handle, q->host.handle.rt, &item_class);
    handle_ref(&q->host.handle);
    item->queue = q;
    item->version = version;
    item->session_id = session_id;
    item->priority = queue_name_parse(&q->naming, item->name, &parsed) ? parsed.priority : 0;
    list_init(&item->link);
    list_init(&item->holder.link);
    step_init(&item->step, &item->handle);
    ensure_path_init(&item->ensure, &item->handle);
    client_timer_init(&item->retry, queue_item_on_retry, item);
    if (version < 0) { /* the claim is not needed any more: no other item can have this name now */
        item_enter(item, ITEM_SETTLED);
        deletes_start(&rt_of(item)->deletes, item->unclaim, NULL, NULL);
        item->unclaim = NULL;
    } else {
        item_enter(item, ITEM_HELD);
        item_hold(item, claimed_ns);
    }
}

void queue_items_release(struct conclave_queue *q)
{
    LIST_FOREACH (it, &q->items) {
        struct conclave_item *item = CONTAINER_OF(it, struct conclave_item, link);
        if (item->state == ITEM_HELD) {
            item->lost_told = true; /* closed by the user */
            settle_start(item, false);
        }
    }
}

void queue_item_drop(struct conclave_item *item)
{
    item->freed = true;
    item->done = NULL;
    forget_due(item, &item->done_due);
    forget_due(item, &item->lost_due);
    if (item->state == ITEM_HELD) {
        settle_start(item, false);
    } else {
        item_release(item);
    }
}

/* --- the public functions ------------------------------------------------------------------------ */

size_t conclave_item_count(const struct conclave_item *item)
{
    return queue_wraps_items(item->queue) ? item->starts_count : 1;
}

const void *conclave_item_part(const struct conclave_item *item, size_t index, size_t *ret_len)
{
    *ret_len = 0;
    if (index >= conclave_item_count(item)) {
        return NULL;
    }
    if (queue_wraps_items(item->queue)) {
        return curator_item_at(item->data, item->starts[index], ret_len);
    }
    *ret_len = item->len;
    return item->data;
}

const void *conclave_item_data(const struct conclave_item *item, size_t *ret_len)
{
    const void *part = conclave_item_part(item, 0, ret_len);
    if (part == NULL) {
        *ret_len = item->len;
    }
    return part != NULL ? part : item->data;
}

const char *conclave_item_name(const struct conclave_item *item)
{
    return item->name;
}

int conclave_item_priority(const struct conclave_item *item)
{
    return item->priority;
}

int conclave_item_attempt(const struct conclave_item *item)
{
    return item->version < 0 ? 1 : item->version;
}

int conclave_item_copy(const struct conclave_item *item, void *buf, size_t size, size_t *ret_len)
{
    const void *data = conclave_item_data(item, ret_len);
    if (*ret_len > size) {
        return CONCLAVE_ENOBUFS;
    }
    if (*ret_len > 0) {
        memcpy(buf, data, *ret_len);
    }
    return 0;
}

bool conclave_item_is_held(const struct conclave_item *item)
{
    return grant_until_ns(&item->grant, rt_of(item)) != 0;
}

int64_t conclave_item_lease_until_ns(const struct conclave_item *item)
{
    return grant_until_ns(&item->grant, rt_of(item));
}

const char *conclave_item_claim(const struct conclave_item *item)
{
    return item->claim;
}

static bool is_answered(void *ctx)
{
    return ((struct item_waiter *)ctx)->answered;
}

static int queue_item_settle(struct conclave_item *item, bool ack, int64_t timeout_ms,
                             const struct conclave_op *parts, size_t count)
{
    struct conclave_client *client = rt_of(item)->client;
    struct item_waiter waiter = {0};
    int error = recipes_may_block(rt_of(item));
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_ref(&item->handle);
    error = settle_error(item);
    if (error == 0 && item->state == ITEM_HELD) {
        item->parts = parts;
        item->parts_count = count;
        item->waiter = &waiter;
        settle_start(item, ack);
        error = client_wait(client, is_answered, &waiter, client_deadline_ns(client, timeout_ms));
        if (error == 0) {
            error = waiter.error;
        } else {
            item->waiter = NULL;
            item->parts_gone = parts != NULL;
            item->unknown =
                item->unknown || item->parts_gone; /* never to be sent again without them */
            item->parts = NULL;
            item->parts_count = 0;
        }
    }
    handle_unref(&item->handle);
    client_unlock(client);
    return error;
}

int conclave_item_ack(struct conclave_item *item, int64_t timeout_ms)
{
    return queue_item_settle(item, true, timeout_ms, NULL, 0);
}

int conclave_item_nack(struct conclave_item *item, int64_t timeout_ms)
{
    return queue_item_settle(item, false, timeout_ms, NULL, 0);
}

int conclave_item_ack_multi(struct conclave_item *item, const struct conclave_op *parts,
                            size_t count)
{
    if (item->version < 0) {
        return CONCLAVE_EINVAL; /* there is nothing left that it could be done with */
    }
    struct conclave_op *own = malloc((count + 1) * sizeof *own);
    int error = own == NULL ? CONCLAVE_ENOMEM : ops_read(own, parts, count);
    if (error == 0) {
        error = queue_item_settle(item, true, CONCLAVE_FOREVER, own, count);
    }
    free(own);
    return error;
}

static int settle_async(struct conclave_item *item, bool ack, conclave_item_fn done, void *ctx)
{
    struct conclave_client *client = rt_of(item)->client;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = settle_error(item);
    if (error == 0) {
        item->done = done;
        item->done_ctx = ctx;
        if (item->state == ITEM_HELD) {
            settle_start(item, ack);
        } else {
            settle_tell(item, 0); /* at most once: there is nothing to do */
        }
    }
    client_unlock(client);
    return error;
}

int conclave_item_ack_async(struct conclave_item *item, conclave_item_fn done, void *ctx)
{
    return settle_async(item, true, done, ctx);
}

int conclave_item_nack_async(struct conclave_item *item, conclave_item_fn done, void *ctx)
{
    return settle_async(item, false, done, ctx);
}

int conclave_item_fenced_multi(struct conclave_item *item, const struct conclave_op *parts,
                               size_t count, struct conclave_reply **ret_reply)
{
    struct conclave_client *client = rt_of(item)->client;
    int error = client_check(client);
    if (ret_reply != NULL) {
        *ret_reply = NULL;
    }
    if (error != 0) {
        return error;
    }
    client_lock(client);
    bool held = item->state == ITEM_HELD;
    client_unlock(client);
    if (!held) {
        return CONCLAVE_EFENCED;
    }
    struct conclave_op checks[] = {
        conclave_op_path(CONCLAVE_OP_CHECK, item->path, item->version),
        conclave_op_path(CONCLAVE_OP_CHECK, item->claim, -1),
    };
    return fenced_multi_checks(client, checks, 2, parts, count, ret_reply);
}

void conclave_item_free(struct conclave_item *item)
{
    if (item == NULL || client_check(rt_of(item)->client) != 0) {
        return;
    }
    struct conclave_client *client = rt_of(item)->client;
    client_lock(client);
    queue_item_drop(item);
    client_unlock(client);
}
