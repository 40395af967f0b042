/*
 * A taken item, shared by the files of the queue.
 *
 * The item's node counts its attempts by its version: a claim writes the data again, unchanged,
 * and makes the claim's node, in one transaction. So a version belongs to one claim of one
 * session, and whatever is done in its name names that version: after the claim was lost and the
 * item handed out again, nothing of the old claim can touch it.
 *
 * Everything is guarded by the client's lock.
 */
#ifndef RECIPES_QUEUE_QUEUE_ITEM_H
#define RECIPES_QUEUE_QUEUE_ITEM_H

#include "recipes/engine/grant.h"
#include "recipes/queue/queue.h"

enum item_state {
    ITEM_HELD,
    ITEM_SETTLING, /* ack or nack is under way */
    ITEM_LEAVING,  /* lost; its claim is being removed */
    ITEM_SETTLED,
    ITEM_LOST,
};

enum item_settle {
    SETTLE_ACK,
    SETTLE_NACK,
    SETTLE_DEAD,    /* a nack after the last attempt */
    SETTLE_UNCLAIM, /* of a lost item */
};

/* A thread that waits for the answer to its ack or nack. */
struct item_waiter {
    bool answered;
    int error;
};

struct conclave_item {
    struct handle handle; /* first */
    struct conclave_queue *queue;
    struct list link; /* in queue.items until it is settled or lost */
    char *name;
    char *path;
    char *claim;              /* path of the claim's node */
    struct deletion *unclaim; /* of that, at most once: until it is claimed */
    char *note;               /* data of that: guid, newline, id; no other claim has them */
    void *data;
    size_t len;
    uint32_t *starts; /* of Curator's format: where each part starts in data */
    size_t starts_count;
    bool name_taken; /* another dead letter has its name */
    int priority;
    int64_t czxid;   /* of the item's node: a later one may have its name */
    int32_t version; /* of that while it is claimed */
    int64_t session_id;
    enum item_state state;

    enum item_settle settle;
    const struct conclave_op *parts; /* of an ack_multi; borrowed while that blocks */
    size_t parts_count;
    struct step step;
    struct ensure_path ensure;
    struct client_timer retry;
    bool unknown;               /* its outcome is unknown */
    struct item_waiter *waiter; /* NULL: none */
    conclave_item_fn done;
    void *done_ctx;
    int done_error;
    bool done_due;
    bool lost_due;
    bool lost_told;
    bool freed;

    struct lease_holder holder;
    struct grant grant; /* while the lease lasts */
    bool parts_gone;    /* their giver waits no more */
    bool in_doubt;      /* the session ended with the answer to an ack */
    bool released;
};

/* All that an item needs of memory, before it is claimed: afterwards nothing may fail. NULL without
 * memory. */
struct conclave_item *queue_item_prepare(struct conclave_queue *q, const char *name);

/* Copies what was read of it, once. wrapped: it may be in Curator's format. 0, CONCLAVE_ENOMEM. */
int queue_item_fill(struct conclave_item *item, bool wrapped, const void *data,
                    size_t len) CONCLAVE_MUST_USE;

/* The path for its dead letter, to be freed. NULL: no memory. */
char *queue_item_dead_path(const struct conclave_queue *q, const struct conclave_item *item);

/* Frees one that was not claimed, or NULL. */
void queue_item_abandon(struct conclave_item *item);

/* Whether the answer to GET of the claim's node shows this very claim, made in that session. */
bool queue_item_owns(const struct conclave_item *item, int64_t session_id,
                     const struct conclave_reply *claim);

/* A take has claimed it. claimed_ns: when that was asked for; 0: it proves
 * nothing of now. version -1: at most once, it needs no ack. */
void queue_item_claimed(struct conclave_queue *q, struct conclave_item *item, int32_t version,
                        int64_t session_id, int64_t claimed_ns);

/* Gives back all that are held. */
void queue_items_release(struct conclave_queue *q);

/* Frees it as the user would: lock held. */
void queue_item_drop(struct conclave_item *item);

#endif
