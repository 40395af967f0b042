/*
 * Changing the kind of a held lock.
 *
 * Down, from writer to reader: one transaction makes the reader's node with the writer's sequence
 * number and deletes the writer's, so that the waiters behind find one of the two in the same place
 * at any time. The token stays that of the writer: it was granted before those of the
 * writers that wait. Up, from reader to writer: a writer's node is made at the end of the queue;
 * if only our own reader comes before it, it takes over.
 */
#include "recipes/hold/lock.h"

#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint16_t change_next[] = {
    [CHANGE_NONE] =
        TRANSITION_TO(CHANGE_NONE) | TRANSITION_TO(CHANGE_DOWN) | TRANSITION_TO(CHANGE_UP),
    [CHANGE_DOWN] = TRANSITION_TO(CHANGE_DOWN_UNKNOWN) | TRANSITION_TO(CHANGE_NONE),
    [CHANGE_DOWN_UNKNOWN] = TRANSITION_TO(CHANGE_DOWN) | TRANSITION_TO(CHANGE_NONE),
    [CHANGE_UP] = TRANSITION_TO(CHANGE_UP_LIST) | TRANSITION_TO(CHANGE_NONE),
    [CHANGE_UP_LIST] = TRANSITION_TO(CHANGE_NONE),
};

static void lock_change_enter(struct conclave_lock *l, enum lock_change change)
{
    transition_check(change_next, l->change, change);
    assert(change == CHANGE_NONE || change == CHANGE_UP || l->change_node != NULL);
    l->change = change;
}

static void lock_change_done(struct conclave_lock *l, int error)
{
    lock_change_enter(l, CHANGE_NONE);
    l->c.holder.paused = false;
    free(l->change_node);
    free(l->change_data);
    l->change_node = NULL;
    l->change_data = NULL;
    if (l->change_result != NULL) {
        l->change_result->done = true;
        l->change_result->error = error;
        l->change_result = NULL;
    }
    client_notify(lock_rt(l)->client);
}

/* The held node is another one from now on. Takes path. */
static void lock_switch_node(struct conclave_lock *l, char *path, enum name_kind kind,
                             int64_t czxid)
{
    place_leave(&l->c.place);
    free(l->c.node);
    l->c.node = path;
    l->kind = kind;
    l->c.czxid = czxid;
    l->c.holder.path = path;
    place_enter(&l->c.place, path, l->c.node_session, czxid);
}

/* --- down ------------------------------------------------------------------------ */

static void lock_went_down(struct conclave_lock *l, int64_t czxid)
{
    char *path = l->change_node;
    l->change_node = NULL;
    lock_switch_node(l, path, NAME_READ, czxid);
    lock_change_done(l, 0);
}

/* The writer's node was found missing, or the reader's. */
static void lock_down_read(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_lock *l = lock_of(contender_of_step(step));
    if (l->change == CHANGE_DOWN_UNKNOWN) {
        if (reply->error == 0 && reply->stat.ephemeral_owner == l->c.node_session) {
            lock_went_down(l, reply->stat.czxid);
        } else if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
            lock_change_enter(l, CHANGE_DOWN);
        } else {
            contender_trouble(&l->c, reply->error);
        }
    }
}

static void lock_on_down(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_lock *l = lock_of(contender_of_step(step));
    bool parts = reply->results_count == 2;
    if (l->change != CHANGE_DOWN) {
        /* ended meanwhile */
    } else if (reply->error == 0 && reply->results[0]->has_stat) {
        lock_went_down(l, reply->results[0]->stat.czxid);
    } else if (reply->error == 0 || error_is_unknown(reply->error)) {
        lock_change_enter(l, CHANGE_DOWN_UNKNOWN); /* its czxid is needed, too */
        contender_trouble(&l->c, CONCLAVE_CONNECTION_LOSS);
    } else if (parts && reply->error == CONCLAVE_NO_NODE) {
        contender_node_gone(&l->c, CONCLAVE_ELOST);
    } else {
        lock_change_done(l, reply->error);
    }
}

static void lock_down_send(struct conclave_lock *l)
{
    struct conclave_op parts[2];
    parts[0] = contender_create_op(&l->c, l->change_node, l->change_data, strlen(l->change_data),
                                   CONCLAVE_EPHEMERAL);
    parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, l->c.node, -1);
    struct conclave_op op = conclave_op_multi(parts, 2);
    step_submit(&l->change_step, &op, lock_on_down);
}

int lock_change_down(struct conclave_lock *l)
{
    char prefix[NAME_PREFIX_MAX];
    char name[NAME_MAX_LEN];
    char data[64];
    enum name_kind kind;
    int32_t sequence;
    if (!name_parse_kind(l->options.naming, path_name(l->c.node), &sequence, &kind)) {
        return CONCLAVE_EINVAL;
    }
    name_make_prefix(l->options.naming, NAME_READ, prefix);
    (void)snprintf(name, sizeof name, "%s%010" PRId32, prefix, sequence);
    (void)snprintf(data, sizeof data, PLACE_INHERITED "%" PRId64, l->c.token);
    l->change_node = path_join(l->c.path, name);
    l->change_data = text_concat(l->c.id, data);
    if (l->change_node == NULL || l->change_data == NULL) {
        lock_change_done(l, CONCLAVE_ENOMEM);
        return CONCLAVE_ENOMEM;
    }
    lock_change_enter(l, CHANGE_DOWN);
    l->c.holder.paused = true; /* a heartbeat would miss the node that goes */
    return 0;
}

/* --- up -------------------------------------------------------------------------- */

static void lock_went_up(struct conclave_lock *l)
{
    char *path = l->change_node;
    if (lock_delete(l, l->c.node) != 0) {
        lock_change_end(l, CONCLAVE_ENOMEM);
        return;
    }
    l->change_node = NULL;
    lock_switch_node(l, path, NAME_WRITE, l->change_czxid);
    l->c.token = l->change_czxid;
    grant_publish(&l->c.grant, l->c.token, l->c.holder.until_ns);
    lock_change_done(l, 0);
}

/* Whether our reader alone stands before our writer. Numbers that do not tell an order: whether
 * nobody else is there at all. */
static bool lock_is_sole(const struct conclave_lock *l, const struct line_entry *list, size_t count)
{
    size_t at = contenders_find(list, count, path_name(l->change_node));
    size_t end = contenders_need_czxid(list, count) ? count : at;
    for (size_t i = 0; i < end; i++) {
        if (i != at && strcmp(list[i].name, path_name(l->c.node)) != 0) {
            return false;
        }
    }
    return at < count;
}

static void lock_up_listed(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_lock *l = lock_of(contender_of_step(step));
    struct line_entry *list = NULL;
    size_t count = 0;
    if (l->change != CHANGE_UP_LIST) {
        /* ended meanwhile */
    } else if (reply->error != 0) {
        lock_change_end(l, error_without_waiting(reply->error));
    } else if (place_contenders(&l->c.place, reply, &list, &count) != 0) {
        lock_change_end(l, CONCLAVE_ENOMEM);
    } else if (lock_is_sole(l, list, count)) {
        lock_went_up(l);
    } else {
        lock_change_end(l, CONCLAVE_EBUSY);
    }
    free(list);
}

static void lock_change_created(struct protected_create *create, int error, char *path,
                                const struct conclave_stat *stat)
{
    struct conclave_lock *l = CONTAINER_OF(create, struct conclave_lock, change_create);
    handle_ref(&l->c.handle);
    if (l->change != CHANGE_UP) {
        assert(error != 0); /* canceled: nothing was left */
    } else if (error != 0) {
        lock_change_done(l, error == CONCLAVE_SESSION_EXPIRED ? CONCLAVE_ELOST : error);
    } else {
        l->change_node = path;
        l->change_czxid = stat->czxid;
        lock_change_enter(l, CHANGE_UP_LIST);
    }
    contender_run(&l->c);
    handle_unref(&l->c.handle);
}

void lock_change_up(struct conclave_lock *l)
{
    struct protected_node node = contender_node(&l->c, NAME_WRITE, l->c.id, strlen(l->c.id));
    lock_change_enter(l, CHANGE_UP);
    protected_create_start(&l->change_create, &node);
}

/* --- both ------------------------------------------------------------------------ */

void lock_change_run(struct conclave_lock *l)
{
    if (l->change_step.busy) {
        return;
    }
    if (l->change == CHANGE_DOWN) {
        lock_down_send(l);
    } else if (l->change == CHANGE_DOWN_UNKNOWN) {
        /* the server that we are at now may lag behind it */
        step_ask_latest(&l->change_step, CONCLAVE_OP_GET, l->change_node, lock_down_read);
    } else if (l->change == CHANGE_UP_LIST) {
        step_ask(&l->change_step, CONCLAVE_OP_GET_CHILDREN, l->c.path, lock_up_listed);
    }
}

void lock_change_end(struct conclave_lock *l, int error)
{
    struct conclave_client *client = lock_rt(l)->client;
    enum lock_change change = l->change;
    if (change == CHANGE_NONE) {
        return;
    }
    bool session = !state_is_final(client_state(client)) &&
                   client_state(client) != CONCLAVE_STATE_LOST &&
                   client_session_id(client) == l->c.node_session;
    if (l->change_node != NULL && session && lock_delete(l, l->change_node) != 0) {
        /* No memory for that: the node goes with the session. */
        machine_retry_later(&l->c.machine);
    }
    lock_change_done(l, error);
    if (change == CHANGE_UP) {
        protected_create_cancel(&l->change_create);
    }
}

void lock_change_init(struct conclave_lock *l)
{
    machine_step_init(&l->c.machine, &l->change_step);
    protected_create_init(&l->change_create, &l->c.handle, lock_change_created);
}

void lock_change_finish(struct conclave_lock *l)
{
    protected_create_finish(&l->change_create);
    free(l->change_node);
    free(l->change_data);
}
