/*
 * A candidate's place in the queue: its own node watched and verified, the list in order, a
 * watch on the one before. At most one request at a time; a departure costs the one behind it
 * a list and a watch, and nobody else anything.
 */
#include "recipes/election.h"

#include <stdlib.h>
#include <string.h>

static void list_clear(struct conclave_election *e)
{
    for (size_t i = 0; i < e->list_count; i++) {
        free(e->list_names[i]);
    }
    free(e->list_names);
    free(e->list);
    e->list_names = NULL;
    e->list = NULL;
    e->list_count = 0;
}

/* An answer about the place: false when it is about an earlier node. */
static bool place_current(struct conclave_election *e)
{
    return e->place_generation == e->generation && e->node != NULL;
}

static void on_own_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    (void)type;
    election_run(CONTAINER_OF(slot, struct conclave_election, own));
}

static void on_before_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    (void)type;
    election_run(CONTAINER_OF(slot, struct conclave_election, before));
}

/* Our own node, as this session sees it: it has to be the one that was created, by this
 * session. */
static void on_own(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = CONTAINER_OF(step, struct conclave_election, place_step);
    watch_slot_answered(&e->own, reply->error == 0);
    if (!place_current(e)) {
        watch_slot_clear(&e->own);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        election_node_gone(e, CONCLAVE_ELOST);
    } else if (reply->error != 0) {
        election_trouble(e, reply->error);
    } else if (reply->stat.ephemeral_owner != e->node_session || reply->stat.czxid != e->czxid) {
        election_node_gone(e, CONCLAVE_ELOST);
    }
    election_run(e);
}

static void on_before(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = CONTAINER_OF(step, struct conclave_election, place_step);
    watch_slot_answered(&e->before, reply->error == 0);
    if (!place_current(e)) {
        watch_slot_clear(&e->before);
    } else if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        election_trouble(e, reply->error);
    }
    election_run(e); /* NO_NODE: gone since the list was made, so the list is made again */
}

static void place_submit(struct conclave_election *e, const struct conclave_op *op, step_fn fn)
{
    e->place_generation = e->generation;
    step_submit(&e->place_step, op, fn);
}

static void watch_before(struct conclave_election *e, const char *name)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    char *path = path_join(e->path, name);
    if (path == NULL || watch_slot_prepare(&e->before, path, &op) != 0) {
        election_retry_later(e);
    } else {
        place_submit(e, &op, on_before);
    }
    free(path);
}

/* The list is in order: we are not in it, first, or behind somebody. */
static void take_place(struct conclave_election *e, const struct contender *list, size_t count)
{
    size_t at = contenders_find(list, count, path_name(e->node));
    if (at == count) {
        election_node_gone(e, CONCLAVE_ELOST);
    } else if (at > 0) {
        watch_before(e, list[at - 1].name);
    } else if (e->state == ELECTION_WAITING) {
        watch_slot_clear(&e->before);
        e->takeover = e->options.takeover_delay_ms > 0 ? TAKEOVER_UNKNOWN : TAKEOVER_DONE;
        election_enter(e, ELECTION_PROVING);
        e->holder.heartbeat_ms = e->options.lease.heartbeat_ms;
        lease_add(&election_rt(e)->lease, &e->holder);
    }
}

static void fetch_czxid(struct conclave_election *e);

static void on_czxid(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = CONTAINER_OF(step, struct conclave_election, place_step);
    struct contender *c = &e->list[e->list_next];
    if (!place_current(e) || (reply->error != 0 && reply->error != CONCLAVE_NO_NODE)) {
        list_clear(e);
        election_trouble(e, reply->error);
        election_run(e);
        return;
    }
    c->gone = reply->error == CONCLAVE_NO_NODE;
    c->czxid = reply->stat.czxid;
    e->list_next++;
    fetch_czxid(e);
    election_run(e);
}

static void fetch_czxid(struct conclave_election *e)
{
    if (e->list_next < e->list_count) {
        char *path = path_join(e->path, e->list[e->list_next].name);
        if (path == NULL) {
            list_clear(e);
            election_retry_later(e);
            return;
        }
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
        place_submit(e, &op, on_czxid);
        free(path);
        return;
    }
    size_t count = 0;
    contenders_sort(e->list, e->list_count, true);
    while (count < e->list_count && !e->list[count].gone) {
        count++;
    }
    take_place(e, e->list, count);
    list_clear(e);
}

/* Sequence numbers do not decide: keeps the names and asks for each one's czxid. */
static void order_by_czxid(struct conclave_election *e, const struct contender *list, size_t count)
{
    e->list = calloc(count, sizeof *e->list);
    e->list_names = calloc(count, sizeof *e->list_names);
    if (e->list == NULL || e->list_names == NULL) {
        list_clear(e);
        election_retry_later(e);
        return;
    }
    for (e->list_count = 0; e->list_count < count; e->list_count++) {
        size_t i = e->list_count;
        e->list_names[i] = strdup(list[i].name);
        if (e->list_names[i] == NULL) {
            list_clear(e);
            election_retry_later(e);
            return;
        }
        e->list[i] = list[i];
        e->list[i].name = e->list_names[i];
    }
    e->list_next = 0;
    fetch_czxid(e);
}

static void on_children(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = CONTAINER_OF(step, struct conclave_election, place_step);
    struct contender *list = NULL;
    size_t count = 0;
    if (!place_current(e)) {
        /* asked anew below */
    } else if (reply->error == CONCLAVE_NO_NODE) {
        election_node_gone(e, CONCLAVE_ELOST);
    } else if (reply->error != 0) {
        election_trouble(e, reply->error);
    } else if (contenders_filter(e->options.naming, reply->children, reply->children_count, &list,
                                 &count) != 0) {
        election_retry_later(e);
    } else if (contenders_need_czxid(list, count)) {
        order_by_czxid(e, list, count);
    } else {
        contenders_sort(list, count, false);
        take_place(e, list, count);
    }
    free(list);
    election_run(e);
}

/* Node stands, link stands: what is not known about its place is asked, one thing at a time. */
void election_place_run(struct conclave_election *e)
{
    if (e->place_step.busy || client_timer_active(&e->wake)) {
        return;
    }
    if (!e->own.armed) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
        if (watch_slot_prepare(&e->own, e->node, &op) != 0) {
            election_retry_later(e);
        } else {
            place_submit(e, &op, on_own);
        }
    } else if (e->state == ELECTION_WAITING && !e->before.armed) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, e->path, 0);
        place_submit(e, &op, on_children);
    }
}

void election_place_init(struct conclave_election *e)
{
    step_init(&e->place_step, &e->handle);
    watch_slot_init(&e->own, &e->handle, on_own_watch);
    watch_slot_init(&e->before, &e->handle, on_before_watch);
}

void election_place_finish(struct conclave_election *e)
{
    watch_slot_clear(&e->own);
    watch_slot_clear(&e->before);
    list_clear(e);
}
