/*
 * The queue's inside, shared by its files: queue.c (the handle), queue_put.c, queue_order.c
 * (of puts), queue_take.c, queue_item.c (what was taken), queue_list.c (looking), queue_size.c (on_size).
 *
 * Everything is guarded by the client's lock.
 */
#ifndef RECIPES_QUEUE_QUEUE_H
#define RECIPES_QUEUE_QUEUE_H

#include "recipes/engine/handle_calls.h"
#include "recipes/engine/protected_create.h"
#include "recipes/queue/queue_names.h"
#include "recipes/queue/queue_waiters.h"

#include <conclave/queue.h>

/* --- on_size ----------------------------------------------------------------------- */

struct queue_size {
    struct step step;
    struct ensure_path ensure;
    struct watch_slot watch;
    struct client_timer pause; /* between two listings, and after trouble */
    bool active;
    bool due;
    int64_t seen; /* -1: nothing yet */
    int64_t told;
};

/* --- the order of puts (queue_order.c) ------------------------------------------------ */

/* A node of the session's own below <path>.puts. Each put writes it in the transaction that makes
 * its item; its version tells how many of those that were sent were carried out. */
struct queue_marker {
    unsigned refs; /* of the handle and of puts */
    char *path;
    struct deletion *removal; /* of the node, when it is no longer needed */
    int64_t session_id;       /* in which it exists; 0: unknown */
    int32_t version;          /* by the last answer */
};

/* A put's place among those of its handle. */
struct queue_turn {
    struct list link; /* in queue_order.turns, until it is decided */
    struct call *call;
    bool in_flight; /* sent and not answered */
    bool head;      /* was sent when nothing was in flight */
    bool created;   /* its transaction makes the marker */
    struct queue_marker *marker;
    int64_t session_id; /* in which it was sent */
    int32_t after;      /* version of the marker once it is carried out */
};

struct queue_order {
    struct list turns;           /* in the order of the calls */
    struct queue_marker *marker; /* NULL: none yet */
    unsigned in_flight;
    int32_t last; /* version that the last one sent leaves */
    bool broken;  /* one has failed: those behind it will, nothing is sent before they have */
    bool running; /* those that wait are being run */
    bool again;
};

/* --- the handle -------------------------------------------------------------------- */

struct conclave_queue {
    struct host host;                      /* first */
    struct conclave_queue_options options; /* strings of it are those below */
    struct conclave_queue_callbacks callbacks;
    void *ctx;
    struct queue_naming naming; /* its prefix is options.prefix */
    char *base;                 /* options.path */
    char *path;                 /* of the items: base, or the layout's folder below it */
    char *claims;               /* <base>.claims, or where the layout has them */
    char *prefix;
    char *dead;
    char *line;
    char *room;
    char *puts;
    char *id;
    struct conclave_acl *acl;
    struct list items; /* struct conclave_item.link */
    struct queue_order order;
    struct queue_size size;
};

static inline struct conclave_queue *queue_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_queue, host);
}

/* The Unix time in milliseconds. */
int64_t queue_wall_ms(void);

/* Whether the items' bytes are in Curator's format. */
static inline bool queue_wraps_items(const struct conclave_queue *q)
{
    return q->naming.layout >= CONCLAVE_QUEUE_LAYOUT_CURATOR;
}

/* Whether a missing node must be made as a plain one: users of other layouts do not make it again when the server has
 * removed an empty container. */
bool queue_node_stays(const struct conclave_queue *q, const char *path);

/* Makes one of the queue's nodes for a call, which is then run. */
void queue_call_ensure(const struct conclave_queue *q, struct call *call, const char *path);

/* The op's ACL is the queue's. */
void queue_op_acl(const struct conclave_queue *q, struct conclave_op *op);

/* Makes one of its nodes, after CONCLAVE_NO_NODE. As ensure_path_start. */
int queue_ensure(const struct conclave_queue *q, struct ensure_path *ensure, const char *path,
                 void (*done)(struct ensure_path *ensure, int error)) CONCLAVE_MUST_USE;

/* The queue's own errors of a transaction: that of its part `index`, 0 when it was not it that
 * failed (or not at all). */
int queue_part_error(const struct conclave_reply *reply, size_t index);

/* --- the order of puts (queue_order.c) -------------------------------------------------- */

void queue_order_init(struct queue_order *order);
void queue_order_finish(struct queue_order *order);

/* Gives the marker up for a fresh one. */
void queue_order_renew(struct conclave_queue *q);

/* Gives the marker up when the queue is closing and no put is left. */
void queue_order_close(struct conclave_queue *q);

/* The put's place, behind all others; it is decided, and leaves it (others may be run). */
void queue_turn_join(struct conclave_queue *q, struct queue_turn *turn, struct call *call);
void queue_turn_leave(struct conclave_queue *q, struct queue_turn *turn);
void queue_turn_finish(struct queue_turn *turn);

/* Whether all before it are on their way. */
bool queue_turn_may_send(const struct conclave_queue *q, const struct queue_turn *turn);

/* It is being sent: the part of its transaction that writes note into the marker. 0,
 * CONCLAVE_ENOMEM. To be followed by queue_turn_sent, which may run others. */
int queue_turn_send(struct conclave_queue *q, struct queue_turn *turn, const char *note,
                    struct conclave_op *ret_op) CONCLAVE_MUST_USE;
void queue_turn_sent(struct conclave_queue *q, const struct queue_turn *turn);

/* The answer came, or was lost. To be followed by queue_order_answered once the put has acted on it. */
void queue_turn_answered(struct conclave_queue *q, struct queue_turn *turn, bool done);
void queue_order_answered(struct conclave_queue *q);

/* Its answer was lost, and the marker was read: whether it was carried out. */
bool queue_turn_was_done(struct queue_turn *turn, const struct conclave_reply *marker,
                         const char *note);

/* The marker's part failed: true when sending again is the answer. */
bool queue_turn_marker_wrong(struct conclave_queue *q, const struct queue_turn *turn, int error);

/* --- on_size (queue_size.c) ------------------------------------------------------------- */

void queue_size_init(struct conclave_queue *q);
void queue_size_run(struct conclave_queue *q);
void queue_size_stop(struct conclave_queue *q);
bool queue_size_tell(struct conclave_queue *q);
void queue_size_finish(struct conclave_queue *q);

#endif
