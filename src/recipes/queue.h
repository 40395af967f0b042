/*
 * The queue's inside, shared by its files: queue.c (the handle), queue_put.c, queue_take.c,
 * queue_item.c (what was taken), queue_list.c (looking), queue_size.c (on_size).
 *
 * The item's node counts its attempts by its version: a claim writes the data again, unchanged,
 * and makes the claim's node, in one transaction. So a version belongs to one claim of one
 * session, and whatever is done in its name names that version: after the claim was lost and the
 * item handed out again, nothing of the old claim can touch it.
 *
 * Everything is guarded by the client's lock.
 */
#ifndef RECIPES_QUEUE_H
#define RECIPES_QUEUE_H

#include "recipes/calls.h"
#include "recipes/grant.h"
#include "recipes/protected_create.h"
#include "recipes/queue_line.h"
#include "recipes/queue_names.h"

#include <conclave/queue.h>

/* --- on_size ----------------------------------------------------------------------- */

struct queue_size {
    struct step step;
    struct ensure_path ensure;
    struct watch_slot watch;
    struct client_timer pause; /* between two listings, and after trouble */
    bool active;
    bool ensuring;
    bool due;
    int64_t seen; /* -1: nothing yet */
    int64_t told;
};

/* --- the handle -------------------------------------------------------------------- */

struct conclave_queue {
    struct host host;                      /* first */
    struct conclave_queue_options options; /* strings of it are those below */
    struct conclave_queue_callbacks callbacks;
    void *ctx;
    char *path;
    char *claims; /* <path>.claims */
    char *dead;
    char *line;
    char *room;
    char *puts;
    char *id;
    struct conclave_acl *acl;
    struct list items;   /* struct conclave_item.link */
    struct list markers; /* struct queue_marker.link: not in use */
    struct queue_size size;
};

static inline struct conclave_queue *queue_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_queue, host);
}

/* "<dir>/<name>"; the op's ACL is the queue's. */
void queue_op_acl(const struct conclave_queue *q, struct conclave_op *op);

/* Makes one of its nodes, after CONCLAVE_NO_NODE. As ensure_path_start. */
int queue_ensure(const struct conclave_queue *q, struct ensure_path *ensure, const char *path,
                 void (*done)(struct ensure_path *ensure, int error)) CONCLAVE_MUST_USE;

/* The queue's own errors of a transaction: that of its part `index`, 0 when it was not it that
 * failed (or not at all). */
int queue_part_error(const struct conclave_reply *reply, size_t index);

/* --- markers (queue_put.c) ------------------------------------------------------------- */

/* Frees those of a queue; their nodes go with the session, or by a guaranteed deletion. */
void queue_markers_clear(struct conclave_queue *q);

/* --- items (queue_item.c) -------------------------------------------------------------- */

enum item_state {
    ITEM_HELD,
    ITEM_SETTLING, /* ack or nack is under way */
    ITEM_SETTLED,
    ITEM_LOST,
};

enum item_settle {
    SETTLE_ACK,
    SETTLE_NACK,
    SETTLE_DEAD, /* a nack after the last attempt */
};

struct conclave_item {
    struct handle handle; /* first */
    struct conclave_queue *queue;
    struct list link; /* in queue.items until it is settled or lost */
    char *name;
    char *path;
    char *claim;              /* path of the claim's node */
    struct deletion *unclaim; /* of that, at most once: until it is claimed */
    void *data;
    size_t len;
    int priority;
    int32_t version; /* of the item's node while it is claimed */
    int64_t session_id;
    enum item_state state;

    enum item_settle settle;
    const struct conclave_op *parts; /* of an ack_multi; borrowed while that blocks */
    size_t parts_count;
    struct step step;
    struct ensure_path ensure;
    struct client_timer retry;
    bool ensuring;
    bool unknown; /* its outcome is unknown */
    int settle_error;
    conclave_item_fn done;
    void *done_ctx;
    bool done_due;
    bool lost_due;
    bool lost_told;
    bool freed;

    struct lease_holder holder;
    struct grant grant; /* while the lease lasts */
    bool parts_gone;    /* who gave them waits no more */
    bool released;
};

/* All that an item needs of memory, before it is claimed: afterwards nothing may fail. NULL without
 * memory. */
struct conclave_item *queue_item_prepare(struct conclave_queue *q, const char *name);

/* Frees one that was not claimed, or NULL. */
void queue_item_abandon(struct conclave_item *item);

/* A take has claimed it: data is taken over. claimed_ns: when that was asked for; 0: it proves
 * nothing of now. version -1: at most once, it needs no ack. */
void queue_item_claimed(struct conclave_queue *q, struct conclave_item *item, void *data_take,
                        size_t len, int32_t version, int64_t session_id, int64_t claimed_ns);

/* Gives back all that are held. */
void queue_items_release(struct conclave_queue *q);

/* Frees it as the user would: lock held. */
void queue_item_drop(struct conclave_item *item);

/* --- on_size (queue_size.c) ------------------------------------------------------------- */

void queue_size_init(struct conclave_queue *q);
void queue_size_run(struct conclave_queue *q);
void queue_size_stop(struct conclave_queue *q);
bool queue_size_tell(struct conclave_queue *q);
void queue_size_finish(struct conclave_queue *q);

#endif
