/*
 * The order of a handle's puts. They are sent one behind the other without waiting for answers, and
 * each names the version of the marker that the one before it leaves: when one fails, all that
 * were sent behind it fail, too, and are sent again behind it. So the queue has the items in
 * the order of the calls, even if messages are lost on the way.
 */
#include "recipes/queue/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A marker is replaced long before its version ends: at 2^31 writes. */
enum { VERSION_MOST = 1 << 30 };

static void marker_unref(struct queue_marker *m)
{
    if (m != NULL && --m->refs == 0) {
        deletion_free(m->removal);
        free(m->path);
        free(m);
    }
}

static struct queue_marker *marker_create(const struct conclave_queue *q)
{
    char guid[NAME_PREFIX_MAX];
    struct queue_marker *m = calloc(1, sizeof *m);
    queue_guid(guid);
    if (m == NULL) {
        return NULL;
    }
    m->refs = 1;
    m->path = path_join(q->puts, guid);
    m->removal = m->path != NULL ? deletion_create(m->path) : NULL;
    if (m->removal == NULL) {
        marker_unref(m);
        return NULL;
    }
    return m;
}

void queue_order_init(struct queue_order *order)
{
    memset(order, 0, sizeof *order);
    list_init(&order->turns);
}

void queue_order_renew(struct conclave_queue *q)
{
    struct queue_marker *m = q->order.marker;
    struct conclave_recipes *rt = q->host.handle.rt;
    if (m != NULL && m->session_id != 0 && m->session_id == client_session_id(rt->client) &&
        !state_is_final(client_state(rt->client))) {
        deletes_start(&rt->deletes, m->removal, NULL, NULL);
        m->removal = NULL;
    }
    marker_unref(m);
    q->order.marker = NULL;
}

void queue_order_close(struct conclave_queue *q)
{
    if (q->host.closing.ending && list_empty(&q->order.turns)) {
        queue_order_renew(q);
    }
}

void queue_order_finish(struct queue_order *order)
{
    marker_unref(order->marker);
}

/* Sends the puts that may go now. */
static void order_run(struct conclave_queue *q)
{
    struct queue_order *order = &q->order;
    if (order->running) {
        order->again = true;
        return;
    }
    order->running = true;
    do {
        order->again = false;
        struct list *it = order->turns.next;
        while (it != &order->turns && !order->broken) {
            struct queue_turn *turn = CONTAINER_OF(it, struct queue_turn, link);
            struct call *call = turn->call;
            if (turn->in_flight) {
                it = it->next;
                continue;
            }
            handle_ref(&call->handle);
            call_run(call);
            it = turn->in_flight ? it->next : &order->turns;
            handle_unref(&call->handle);
        }
    } while (order->again);
    order->running = false;
}

void queue_turn_join(struct conclave_queue *q, struct queue_turn *turn, struct call *call)
{
    turn->call = call;
    list_push_back(&q->order.turns, &turn->link);
}

void queue_turn_leave(struct conclave_queue *q, struct queue_turn *turn)
{
    struct list *next = turn->link.next;
    bool waits = next != &q->order.turns && !CONTAINER_OF(next, struct queue_turn, link)->in_flight;
    list_remove(&turn->link);
    queue_order_close(q);
    if (waits) {
        order_run(q);
    }
}

void queue_turn_finish(struct queue_turn *turn)
{
    marker_unref(turn->marker);
}

bool queue_turn_may_send(const struct conclave_queue *q, const struct queue_turn *turn)
{
    const struct list *before = turn->link.prev;
    return !q->order.broken &&
           (before == &q->order.turns || CONTAINER_OF(before, struct queue_turn, link)->in_flight);
}

/* Nothing is on its way: begins with what is known of the marker. */
static int begin_chain(struct conclave_queue *q, int64_t session_id)
{
    struct queue_order *order = &q->order;
    if (order->marker != NULL && order->marker->version >= VERSION_MOST) {
        queue_order_renew(q);
    }
    if (order->marker == NULL && (order->marker = marker_create(q)) == NULL) {
        return CONCLAVE_ENOMEM;
    }
    if (order->marker->session_id != session_id) {
        order->marker->session_id = 0; /* it went with its session */
    }
    return 0;
}

int queue_turn_send(struct conclave_queue *q, struct queue_turn *turn, const char *note,
                    struct conclave_op *ret_op)
{
    struct queue_order *order = &q->order;
    int64_t session_id = client_session_id(call_client(turn->call));
    turn->head = order->in_flight == 0;
    int error = turn->head ? begin_chain(q, session_id) : 0;
    if (error != 0) {
        return error;
    }
    turn->created = turn->head && order->marker->session_id == 0;
    if (turn->created) {
        *ret_op = conclave_op_create(order->marker->path, note, strlen(note), CONCLAVE_EPHEMERAL);
        queue_op_acl(q, ret_op);
        turn->after = 0;
    } else {
        int32_t before = turn->head ? order->marker->version : order->last;
        *ret_op = conclave_op_set(order->marker->path, note, strlen(note), before);
        turn->after = before + 1;
    }
    assert(turn->after == (turn->created ? 0 : order->last + 1) || turn->head);
    order->last = turn->after;
    marker_unref(turn->marker);
    turn->marker = order->marker;
    turn->marker->refs++;
    turn->session_id = session_id;
    turn->in_flight = true;
    order->in_flight++;
    return 0;
}

void queue_turn_sent(struct conclave_queue *q, const struct queue_turn *turn)
{
    if (turn->link.next != &q->order.turns && !q->order.running) {
        order_run(q); /* the one that waited for this put to be sent */
    }
}

void queue_turn_answered(struct conclave_queue *q, struct queue_turn *turn, bool done)
{
    assert(turn->in_flight && q->order.in_flight > 0);
    turn->in_flight = false;
    q->order.in_flight--;
    q->order.broken = (q->order.broken || !done) && q->order.in_flight > 0;
    if (done) {
        turn->marker->session_id = turn->session_id;
        turn->marker->version = turn->after;
    }
}

void queue_order_answered(struct conclave_queue *q)
{
    if (q->order.in_flight == 0 && !list_empty(&q->order.turns)) {
        order_run(q);
    }
}

bool queue_turn_was_done(struct queue_turn *turn, const struct conclave_reply *marker,
                         const char *note)
{
    struct queue_marker *m = turn->marker;
    if (marker->error != 0 || marker->stat.ephemeral_owner != turn->session_id) {
        m->session_id = 0;
        return false;
    }
    m->session_id = turn->session_id;
    m->version = marker->stat.version;
    return m->version > turn->after ||
           (m->version == turn->after && marker->data_len == strlen(note) &&
            memcmp(marker->data, note, marker->data_len) == 0);
}

bool queue_turn_marker_wrong(struct conclave_queue *q, const struct queue_turn *turn, int error)
{
    if (!turn->head && (error == CONCLAVE_NO_NODE || error == CONCLAVE_BAD_VERSION)) {
        return true; /* one before it was not carried out */
    }
    if (error == CONCLAVE_NO_NODE && !turn->created) {
        turn->marker->session_id = 0; /* removed by somebody */
        return true;
    }
    if (error == CONCLAVE_NODE_EXISTS || error == CONCLAVE_BAD_VERSION) {
        queue_order_renew(q); /* of a session that ends just now, or written by somebody */
        return true;
    }
    return false;
}
