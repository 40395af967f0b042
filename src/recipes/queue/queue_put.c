/*
 * A put. The item and a note of it are written in one transaction: the note is in the marker, a
 * node of the session's own, so that a lost answer is decided by reading it, also when the item
 * has been taken in the meantime. It keeps the order of the handle's puts, too (queue_order.c).
 *
 *   READY --room, its turn: sent--> UNKNOWN --answer, or marker read--> READY (again) | ENDING
 *                                      '--session ended--> SEARCH --> ENDING
 *
 * Only when the session has ended, and the marker with it, the item itself is looked for. ENDING leaves the line.
 */
#include "recipes/queue/queue.h"

#include "base/transition.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/queue/curator_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN_BYTES = 4096 }; /* the bytes of a claim or a dead letter without the data */

enum put_phase {
    PUT_READY,   /* to be sent; no node of it exists */
    PUT_UNKNOWN, /* sent, no answer yet or none at all */
    PUT_SEARCH,  /* and its session has ended */
    PUT_ENDING,  /* decided, call.error says how */
};

static const uint16_t PUT_NEXT[] = {
    [PUT_READY] = TRANSITION_TO(PUT_UNKNOWN) | TRANSITION_TO(PUT_ENDING),
    [PUT_UNKNOWN] =
        TRANSITION_TO(PUT_READY) | TRANSITION_TO(PUT_SEARCH) | TRANSITION_TO(PUT_ENDING),
    [PUT_SEARCH] = TRANSITION_TO(PUT_ENDING),
    [PUT_ENDING] = TRANSITION_TO(PUT_ENDING),
};

/* The request of a public function. */
struct put_request {
    struct queue_label label;
    const void *data;
    size_t len;
    conclave_put_fn done;
    void *ctx;
    char *ret_name;
};

struct put {
    struct call call;                     /* first */
    char prefix[CONCLAVE_QUEUE_NAME_MAX]; /* of the item; unique in our own layout */
    char note[NAME_PREFIX_MAX];           /* for the marker; unique */
    char *path;                           /* <path>/<prefix> */
    void *data;
    size_t len;
    enum put_phase phase;
    bool asked; /* whether there is room: */
    bool has_room;
    bool early; /* that was before its turn */
    int search; /* of PUT_SEARCH: the place that is searched now */
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

static struct conclave_queue *put_queue(const struct put *p)
{
    return queue_of(p->call.host);
}

static void put_to(struct put *p, enum put_phase phase)
{
    transition_check(PUT_NEXT, p->phase, phase);
    assert(!p->turn.in_flight); /* answered, or not sent yet */
    p->phase = phase;
}

/* --- the end -------------------------------------------------------------------------- */

static void put_end(struct call *call, int error)
{
    struct put *p = put_of(call);
    put_to(p, PUT_ENDING);
    call->error = error;
    if (!queue_line_leave(&p->line)) {
        return; /* in the next run */
    }
    watch_slot_clear(&p->watch);
    queue_turn_leave(put_queue(p), &p->turn);
    call_end(call, error);
}

static void take_name(struct put *p, const char *path)
{
    (void)snprintf(p->name, sizeof p->name, "%s", path_name(path));
}

/* --- sending -------------------------------------------------------------------------- */

static void put_ensure(struct put *p, const char *path)
{
    queue_call_ensure(put_queue(p), &p->call, path);
}

/* The marker's state by the transaction's second part. */
static void marker_wrong(struct put *p, int error)
{
    if (queue_turn_marker_wrong(put_queue(p), &p->turn, error)) {
        return;
    }
    if (error == CONCLAVE_NO_NODE) {
        put_ensure(p, put_queue(p)->puts);
    } else {
        call_trouble(&p->call, error);
    }
}

static void put_failed(struct put *p, const struct conclave_reply *reply)
{
    int item = queue_part_error(reply, 0);
    int marker = queue_part_error(reply, 1);
    if (item != CONCLAVE_NO_NODE && marker == 0 &&
        (error_is_unknown(reply->error) || reply->error == CONCLAVE_SESSION_EXPIRED)) {
        return; /* it stays unknown */
    }
    put_to(p, PUT_READY);
    if (item == CONCLAVE_NO_NODE && p->turn.head) { /* for those behind it, too */
        put_ensure(p, put_queue(p)->path);
    } else if (item != CONCLAVE_NO_NODE && marker != 0) {
        marker_wrong(p, marker);
    } else if (item != CONCLAVE_NO_NODE) {
        call_trouble(&p->call, reply->error);
    }
}

static void on_put(struct call *call, const struct conclave_reply *reply)
{
    struct put *p = put_of(call);
    struct conclave_queue *q = put_queue(p);
    queue_turn_answered(q, &p->turn, reply->error == 0);
    if (reply->error != 0) {
        put_failed(p, reply);
    } else {
        if (reply->results_count > 0 && reply->results[0]->path != NULL) {
            take_name(p, reply->results[0]->path);
        }
        put_end(call, 0);
    }
    call_run(call); /* before those behind it */
    queue_order_answered(q);
}

static void put_send(struct put *p)
{
    struct conclave_queue *q = put_queue(p);
    struct conclave_op parts[2];
    parts[0] = conclave_op_create(p->path, p->data, p->len, CONCLAVE_PERSISTENT_SEQUENTIAL);
    queue_op_acl(q, &parts[0]);
    put_to(p, PUT_UNKNOWN);
    if (queue_turn_send(q, &p->turn, p->note, &parts[1]) != 0) {
        put_to(p, PUT_READY);
        call_retry_later(&p->call);
        return;
    }
    struct conclave_op op = conclave_op_multi(parts, 2);
    call_send(&p->call, &op, on_put);
    queue_turn_sent(q, &p->turn);
}

/* --- recovery of a lost answer --------------------------------------------------------- */

/* Other layouts have no room for a guid: an item cannot be found again. */
static bool has_unique_name(const struct put *p)
{
    return put_queue(p)->naming.layout == CONCLAVE_QUEUE_LAYOUT_NATIVE;
}

static void on_name(struct call *call, const struct conclave_reply *reply)
{
    struct put *p = put_of(call);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        call_trouble(call, reply->error);
        return;
    }
    size_t len = strlen(p->prefix);
    for (size_t i = 0; i < reply->children_count; i++) {
        if (strncmp(reply->children[i], p->prefix, len) == 0) {
            take_name(p, reply->children[i]);
        }
    }
    if (p->phase == PUT_UNKNOWN || p->name[0] != '\0') {
        put_end(call, 0); /* without a name when it was taken already */
    } else if (++p->search == 3) {
        put_end(call, CONCLAVE_SESSION_EXPIRED);
    }
}

static void put_search(struct put *p)
{
    const char *dirs[] = {put_queue(p)->path, put_queue(p)->claims, put_queue(p)->dead};
    assert(p->search >= 0 && p->search < 3);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, dirs[p->search], 0);
    call_send(&p->call, &op, on_name);
}

static void on_marker(struct call *call, const struct conclave_reply *reply)
{
    struct put *p = put_of(call);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        call_trouble(call, reply->error);
    } else if (!queue_turn_was_done(&p->turn, reply, p->note)) {
        put_to(p, PUT_READY);
    } else if (has_unique_name(p)) {
        put_search(p); /* it was put; for its name */
    } else {
        put_end(call, 0);
    }
}

static void put_on_synced(struct call *call, const struct conclave_reply *reply)
{
    struct put *p = put_of(call);
    if (reply->error != 0) {
        call_trouble(call, reply->error);
    } else if (p->phase == PUT_SEARCH) {
        put_search(p);
    } else {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, p->turn.marker->path, 0);
        call_send(call, &op, on_marker);
    }
}

static void put_recover(struct put *p)
{
    if (p->phase == PUT_UNKNOWN && client_session_id(call_client(&p->call)) != p->turn.session_id) {
        if (!has_unique_name(p)) {
            put_end(&p->call, CONCLAVE_SESSION_EXPIRED);
            return;
        }
        put_to(p, PUT_SEARCH);
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, put_queue(p)->path, 0);
    call_send(&p->call, &op, put_on_synced);
}

/* --- room -------------------------------------------------------------------------------- */

static void put_on_counted(struct call *call, const struct conclave_reply *reply)
{
    struct put *p = put_of(call);
    if (p->watch.pending) {
        watch_slot_answered(&p->watch, reply->error == 0);
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        call_trouble(call, reply->error);
    } else {
        p->asked = true;
        p->has_room = reply->error == CONCLAVE_NO_NODE ||
                      reply->stat.num_children < put_queue(p)->options.max_items;
    }
}

/* Asks first outside the line; then only the first in line watches. */
static void ask_for_room(struct put *p)
{
    const char *path = put_queue(p)->path;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    if (!p->asked) {
        call_send(&p->call, &op, put_on_counted);
        return;
    }
    bool first = queue_line_run(&p->line);
    if (p->line.error != 0) {
        put_end(&p->call, p->line.error);
    } else if (first && !p->watch.armed) {
        op.type = CONCLAVE_OP_GET_CHILDREN;
        call_send_watch(&p->call, &p->watch, path, op, put_on_counted);
    }
}

static void put_on_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    call_run(&CONTAINER_OF(slot, struct put, watch)->call);
}

/* --- the machine ---------------------------------------------------------------------------- */

/* No node of it exists, and nothing is in flight. It asks for room in its turn, as those before it may use that up; one
 * that does not wait asks before, too. */
static void run_ready(struct put *p)
{
    struct call *call = &p->call;
    bool bounded = put_queue(p)->options.max_items > 0;
    bool turn = queue_turn_may_send(put_queue(p), &p->turn);
    if (turn && p->early) {
        p->asked = p->has_room = false;
    }
    p->early = !turn;
    if (call->now && p->asked && !p->has_room && call->stop != CONCLAVE_ECLOSED) {
        put_end(call, CONCLAVE_EBUSY);
    } else if (call_gives_up(call)) {
        put_end(call, call->stop);
    } else if (!call_can_send(call)) {
        return;
    } else if (bounded && !p->asked && (turn || call->now)) {
        ask_for_room(p);
    } else if (!turn) {
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
    if (p->phase == PUT_ENDING) {
        put_end(call, call->error);
    } else if (p->phase == PUT_READY) {
        run_ready(p);
    } else if (state_is_final(state)) {
        put_end(call, call->stop);
    } else if (call->stop != 0 && !recipes_connected(call->handle.rt) &&
               (state == CONCLAVE_STATE_LOST || client_session_id(client) != p->turn.session_id)) {
        put_end(call, CONCLAVE_SESSION_EXPIRED);
    } else if (call_can_send(call)) {
        put_recover(p);
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
        p->done(put_queue(p), call->error, p->name, p->ctx);
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
    queue_turn_finish(&p->turn);
    put_free_parts(p);
}

static const struct call_class put_class = {
    .run = put_run,
    .on_state = put_on_state,
    .fail = put_end,
    .tell = put_tell,
    .free = put_free,
};

/* --- the public functions --------------------------------------------------------------------- */

static int put_create(struct host *host, void *request, struct call **ret)
{
    struct conclave_queue *q = queue_of(host);
    const struct put_request *r = request;
    if (!queue_label_valid(&q->naming, &r->label) || (r->data == NULL && r->len > 0)) {
        return CONCLAVE_EINVAL;
    }
    size_t most = client_max_request(host->handle.rt->client);
    if (r->len > most || most - r->len < MARGIN_BYTES + 2 * strlen(q->path)) {
        return CONCLAVE_ETOOBIG;
    }
    struct put *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return CONCLAVE_ENOMEM;
    }
    queue_name_make_prefix(&q->naming, &r->label, p->prefix);
    queue_guid(p->note);
    p->path = path_join(q->path, p->prefix);
    p->len = queue_wraps_items(q) ? CURATOR_ITEM_BYTES + r->len : r->len;
    p->data =
        queue_wraps_items(q) ? curator_item_make(r->data, r->len) : bytes_copy(r->data, r->len);
    if (p->path == NULL || p->data == NULL) {
        put_free_parts(p);
        return CONCLAVE_ENOMEM;
    }
    p->done = r->done;
    p->ctx = r->ctx;
    call_init(&p->call, host, &put_class);
    watch_slot_init(&p->watch, &p->call.handle, put_on_watch);
    queue_line_init(&p->line, &p->call, q->room, q->acl, q->options.acl_count);
    queue_turn_join(q, &p->turn, &p->call);
    *ret = &p->call;
    return 0;
}

static bool put_request_fill(struct put_request *request,
                             const struct conclave_put_options *options)
{
    struct conclave_put_options own = CONCLAVE_PUT_OPTIONS_INIT;
    bool valid = sized_read(&own, options) == 0;
    if (valid) {
        request->label = (struct queue_label){own.priority, own.not_before_ms, own.id};
    }
    return valid;
}

int conclave_queue_put_with_async(struct conclave_queue *q,
                                  const struct conclave_put_options *options, const void *data,
                                  size_t len, int64_t timeout_ms, conclave_put_fn done, void *ctx)
{
    struct put_request request = {.data = data, .len = len, .done = done, .ctx = ctx};
    return put_request_fill(&request, options)
               ? host_call(&q->host, put_create, &request, timeout_ms)
               : CONCLAVE_EINVAL;
}

int conclave_queue_put_async(struct conclave_queue *q, int priority, const void *data, size_t len,
                             int64_t timeout_ms, conclave_put_fn done, void *ctx)
{
    struct conclave_put_options options = CONCLAVE_PUT_OPTIONS_INIT;
    options.priority = priority;
    return conclave_queue_put_with_async(q, &options, data, len, timeout_ms, done, ctx);
}

static void put_collect(struct call *call, void *request)
{
    char *name = ((struct put_request *)request)->ret_name;
    if (name != NULL) {
        (void)snprintf(name, CONCLAVE_QUEUE_NAME_MAX, "%s", put_of(call)->name);
    }
}

int conclave_queue_put_with(struct conclave_queue *q, const struct conclave_put_options *options,
                            const void *data, size_t len, int64_t timeout_ms, char *ret_name)
{
    struct put_request request = {.data = data, .len = len, .ret_name = ret_name};
    return put_request_fill(&request, options)
               ? host_call_wait(&q->host, put_create, &request, timeout_ms, put_collect)
               : CONCLAVE_EINVAL;
}

int conclave_queue_put(struct conclave_queue *q, int priority, const void *data, size_t len,
                       int64_t timeout_ms, char *ret_name)
{
    struct conclave_put_options options = CONCLAVE_PUT_OPTIONS_INIT;
    options.priority = priority;
    return conclave_queue_put_with(q, &options, data, len, timeout_ms, ret_name);
}
