/*
 * A put. The item and a note of it are written in one transaction: the note is in the marker, a
 * node of the session's own, so that a lost answer is decided by reading it, also when the item
 * has been taken in the meantime. It keeps the order of the handle's puts, too (queue_order.c).
 *
 *   WAITING --room--> READY --sent--> READY | UNKNOWN --marker read--> READY | end
 *
 * Only when the session has ended, and the marker with it, the item itself is looked for.
 */
#include "recipes/queue/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN_BYTES = 4096 }; /* what a claim or a dead letter need beside the data */

enum put_phase {
    PUT_READY,   /* to be sent; nothing of it stands */
    PUT_UNKNOWN, /* sent, the answer was lost */
    PUT_SEARCH,  /* and its session has ended */
};

struct put {
    struct call call; /* first */
    char prefix[NAME_PREFIX_MAX];
    char *path; /* <path>/<prefix> */
    void *data;
    size_t len;
    enum put_phase phase;
    bool now;   /* timeout 0: no waiting for room */
    bool asked; /* whether there is room: */
    bool has_room;
    bool ending;
    int end_error;
    int search; /* of PUT_SEARCH: the place that is searched now */
    struct step step;
    struct ensure_path ensure;
    bool ensuring;
    struct queue_turn turn;
    struct queue_line line;  /* for room */
    struct watch_slot watch; /* on the queue, while it is full */
    char name[CONCLAVE_QUEUE_NAME_MAX];
    conclave_put_fn done;
    void *ctx;
};

static struct put *put_of(struct call *call)
{
    return CONTAINER_OF(call, struct put, call);
}

static struct conclave_queue *queue(const struct put *p)
{
    return queue_of(p->call.host);
}

/* --- the end -------------------------------------------------------------------------- */

/* It is decided; ends when it is out of the line, too. */
static void put_end(struct put *p, int error)
{
    p->ending = true;
    p->end_error = error;
    if (!queue_line_leave(&p->line)) {
        return; /* in the next run */
    }
    watch_slot_clear(&p->watch);
    queue_turn_leave(queue(p), &p->turn);
    call_end(&p->call, error);
}

/* An error that will not pass ends it: nothing of it stands then. */
static void put_trouble(struct put *p, int error)
{
    if (error_is_fatal(error)) {
        p->phase = PUT_READY;
        put_end(p, error);
    } else {
        call_trouble(&p->call, error);
    }
}

static void take_name(struct put *p, const char *path)
{
    (void)snprintf(p->name, sizeof p->name, "%s", path_name(path));
}

/* --- sending -------------------------------------------------------------------------- */

static void queue_put_on_ensured(struct ensure_path *ensure, int error)
{
    struct put *p = CONTAINER_OF(ensure, struct put, ensure);
    p->ensuring = false;
    if (error != 0) {
        put_trouble(p, error);
    }
    call_run(&p->call);
}

static void ensure(struct put *p, const char *path)
{
    int error = queue_ensure(queue(p), &p->ensure, path, queue_put_on_ensured);
    p->ensuring = error == 0;
    if (error != 0) {
        put_trouble(p, error);
    }
}

/* What the transaction's second part says of the marker. */
static void marker_wrong(struct put *p, int error)
{
    if (queue_turn_marker_wrong(queue(p), &p->turn, error)) {
        return;
    }
    if (error == CONCLAVE_NO_NODE) {
        ensure(p, queue(p)->puts);
    } else {
        put_trouble(p, error);
    }
}

static void put_failed(struct put *p, const struct conclave_reply *reply)
{
    if (queue_part_error(reply, 0) == CONCLAVE_NO_NODE) {
        p->phase = PUT_READY;
        if (p->turn.head) { /* for those behind it, too */
            ensure(p, queue(p)->path);
        }
    } else if (queue_part_error(reply, 1) != 0) {
        p->phase = PUT_READY;
        marker_wrong(p, queue_part_error(reply, 1));
    } else if (!error_is_unknown(reply->error) && reply->error != CONCLAVE_SESSION_EXPIRED) {
        p->phase = PUT_READY;
        put_trouble(p, reply->error);
    } /* else it stays unknown */
}

static void on_put(struct step *step, const struct conclave_reply *reply)
{
    struct put *p = CONTAINER_OF(step, struct put, step);
    queue_turn_answered(queue(p), &p->turn, reply->error == 0);
    if (reply->error != 0) {
        put_failed(p, reply);
        call_run(&p->call);
    } else {
        if (reply->results_count > 0 && reply->results[0].path != NULL) {
            take_name(p, reply->results[0].path);
        }
        p->phase = PUT_READY;
        put_end(p, 0);
    }
    queue_order_answered(queue(p));
}

static void put_send(struct put *p)
{
    struct conclave_queue *q = queue(p);
    struct conclave_op parts[2];
    parts[0] = conclave_op_create(p->path, p->data, p->len, CONCLAVE_PERSISTENT_SEQUENTIAL);
    queue_op_acl(q, &parts[0]);
    if (queue_turn_send(q, &p->turn, p->prefix, &parts[1]) != 0) {
        call_retry_later(&p->call);
        return;
    }
    struct conclave_op op = conclave_op_multi(parts, 2);
    p->phase = PUT_UNKNOWN;
    step_submit(&p->step, &op, on_put);
    queue_turn_sent(q, &p->turn);
}

/* --- recovery of a lost answer --------------------------------------------------------- */

static void search_again(struct put *p, int error)
{
    put_trouble(p, error);
    call_run(&p->call);
}

static void on_name(struct step *step, const struct conclave_reply *reply)
{
    struct put *p = CONTAINER_OF(step, struct put, step);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        search_again(p, reply->error);
        return;
    }
    size_t len = strlen(p->prefix);
    for (size_t i = 0; i < reply->children_count; i++) {
        if (strncmp(reply->children[i], p->prefix, len) == 0) {
            take_name(p, reply->children[i]);
        }
    }
    if (p->phase == PUT_UNKNOWN || p->name[0] != '\0') {
        p->phase = PUT_READY;
        put_end(p, 0); /* without a name when it was taken already */
    } else if (++p->search == 3) {
        p->phase = PUT_READY;
        put_end(p, CONCLAVE_SESSION_EXPIRED);
    } else {
        call_run(&p->call);
    }
}

static void search(struct put *p)
{
    const char *dirs[] = {queue(p)->path, queue(p)->claims, queue(p)->dead};
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, dirs[p->search], 0);
    step_submit(&p->step, &op, on_name);
}

static void on_marker(struct step *step, const struct conclave_reply *reply)
{
    struct put *p = CONTAINER_OF(step, struct put, step);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        search_again(p, reply->error);
        return;
    }
    if (queue_turn_was_done(&p->turn, reply, p->prefix)) {
        search(p); /* it was put; for its name */
        return;
    }
    p->phase = PUT_READY;
    call_run(&p->call);
}

static void queue_put_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct put *p = CONTAINER_OF(step, struct put, step);
    if (reply->error != 0) {
        search_again(p, reply->error);
        return;
    }
    if (p->phase == PUT_SEARCH) {
        search(p);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, p->turn.marker->path, 0);
    step_submit(&p->step, &op, on_marker);
}

static void recover(struct put *p)
{
    if (client_session_id(call_client(&p->call)) != p->turn.session_id) {
        p->phase = PUT_SEARCH;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, queue(p)->path, 0);
    step_submit(&p->step, &op, queue_put_on_synced);
}

/* --- room -------------------------------------------------------------------------------- */

static void on_counted(struct step *step, const struct conclave_reply *reply)
{
    struct put *p = CONTAINER_OF(step, struct put, step);
    if (p->watch.pending) {
        watch_slot_answered(&p->watch, reply->error == 0);
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        put_trouble(p, reply->error);
    } else {
        p->asked = true;
        p->has_room = reply->error == CONCLAVE_NO_NODE ||
                      reply->stat.num_children < queue(p)->options.max_items;
    }
    call_run(&p->call);
}

/* Asks first without standing in line; then only the first in line watches. */
static void ask_for_room(struct put *p)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, queue(p)->path, 0);
    if (p->asked) {
        bool first = queue_line_run(&p->line);
        if (p->line.error != 0) {
            put_end(p, p->line.error);
            return;
        }
        if (!first || p->watch.armed) {
            return;
        }
        op.type = CONCLAVE_OP_GET_CHILDREN;
        if (watch_slot_prepare(&p->watch, queue(p)->path, &op) != 0) {
            call_retry_later(&p->call);
            return;
        }
    }
    step_submit(&p->step, &op, on_counted);
}

static void queue_put_on_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    call_run(&CONTAINER_OF(slot, struct put, watch)->call);
}

/* --- the machine ---------------------------------------------------------------------------- */

/* Nothing of it stands, and nothing is in flight. */
static void run_ready(struct put *p)
{
    bool bounded = queue(p)->options.max_items > 0;
    bool full = p->asked && !p->has_room;
    bool goes_on = p->now && p->call.stop == CONCLAVE_ETIMEDOUT && call_can_send(&p->call);
    if (p->now && full && p->call.stop != CONCLAVE_ECLOSED) {
        put_end(p, CONCLAVE_EBUSY);
    } else if (p->call.stop != 0 && !goes_on) {
        put_end(p, p->call.stop);
    } else if (!call_can_send(&p->call)) {
        return;
    } else if (bounded && !p->asked) {
        ask_for_room(p);
    } else if (!queue_turn_may_send(queue(p), &p->turn)) {
        return; /* is run again when those before it are on their way */
    } else if (bounded && !p->has_room) {
        ask_for_room(p);
    } else {
        put_send(p);
    }
}

static void put_run(struct call *call)
{
    struct put *p = put_of(call);
    struct conclave_client *client = call_client(call);
    enum conclave_state state = client_state(client);
    if (p->step.busy || p->ensuring) {
        return;
    }
    if (p->ending) {
        put_end(p, p->end_error);
    } else if (p->phase == PUT_READY) {
        run_ready(p);
    } else if (state_is_final(state)) {
        put_end(p, call->stop);
    } else if (call->stop != 0 && !recipes_connected(call->handle.rt) &&
               (state == CONCLAVE_STATE_LOST || client_session_id(client) != p->turn.session_id)) {
        put_end(p, CONCLAVE_SESSION_EXPIRED);
    } else if (call_can_send(call)) {
        recover(p);
    }
}

static void put_on_state(struct call *call, enum conclave_state state)
{
    queue_line_on_state(&put_of(call)->line);
}

static void put_tell(struct call *call)
{
    struct put *p = put_of(call);
    if (p->done != NULL) {
        p->done(queue(p), call->error, p->name, p->ctx);
    }
}

static void put_free_parts(struct put *p)
{
    free(p->path);
    free(p->data);
    free(p);
}

static void put_free(struct call *call)
{
    struct put *p = put_of(call);
    queue_line_finish(&p->line);
    watch_slot_clear(&p->watch);
    ensure_path_finish(&p->ensure);
    queue_turn_finish(&p->turn);
    put_free_parts(p);
}

static const struct call_class put_class = {put_run, put_on_state, put_tell, put_free};

/* --- the public functions --------------------------------------------------------------------- */

/* Lock held. */
static int put_create(struct conclave_queue *q, int priority, const void *data, size_t len,
                      struct put **ret)
{
    if (priority < 0 || priority > CONCLAVE_QUEUE_PRIORITY_MAX || (data == NULL && len > 0)) {
        return CONCLAVE_EINVAL;
    }
    size_t most = client_max_request(q->host.handle.rt->client);
    if (len > most || most - len < MARGIN_BYTES + 2 * strlen(q->path)) {
        return CONCLAVE_ETOOBIG;
    }
    if (q->host.closing.ending) {
        return CONCLAVE_ECLOSED;
    }
    struct put *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return CONCLAVE_ENOMEM;
    }
    queue_name_make_prefix(priority, p->prefix);
    p->path = path_join(q->path, p->prefix);
    p->data = malloc(len + 1);
    if (p->path == NULL || p->data == NULL) {
        put_free_parts(p);
        return CONCLAVE_ENOMEM;
    }
    if (len > 0) {
        memcpy(p->data, data, len);
    }
    p->len = len;
    call_init(&p->call, &q->host, &put_class);
    step_init(&p->step, &p->call.handle);
    ensure_path_init(&p->ensure, &p->call.handle);
    watch_slot_init(&p->watch, &p->call.handle, queue_put_on_watch);
    queue_line_init(&p->line, &p->call, q->room, q->acl, q->options.acl_count);
    queue_turn_join(q, &p->turn, &p->call);
    *ret = p;
    return 0;
}

int conclave_queue_put_async(struct conclave_queue *q, int priority, const void *data, size_t len,
                             int64_t timeout_ms, conclave_put_fn done, void *ctx)
{
    struct conclave_client *client = q->host.handle.rt->client;
    struct put *p;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = put_create(q, priority, data, len, &p);
    if (error == 0) {
        p->done = done;
        p->ctx = ctx;
        p->now = timeout_ms == 0;
        call_start(&p->call, timeout_ms);
    }
    client_unlock(client);
    return error;
}

int conclave_queue_put(struct conclave_queue *q, int priority, const void *data, size_t len,
                       int64_t timeout_ms, char *ret_name)
{
    struct conclave_client *client = q->host.handle.rt->client;
    struct put *p;
    int error = recipes_may_block(q->host.handle.rt);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = put_create(q, priority, data, len, &p);
    if (error == 0) {
        p->now = timeout_ms == 0;
        error = call_wait(&p->call, timeout_ms);
        if (error == 0 && ret_name != NULL) {
            (void)snprintf(ret_name, CONCLAVE_QUEUE_NAME_MAX, "%s", p->name);
        }
        call_release(&p->call);
    }
    client_unlock(client);
    return error;
}
