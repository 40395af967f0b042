/*
 * A queue: producers put items, and consumers take them by priority, and within a priority in the
 * order in which they were put.
 *
 * At least once (the default): a taken item stays in the queue, claimed by the consumer's session,
 * until it is acknowledged; if the consumer dies, another one gets the item, with a higher attempt
 * number. At most once: an item is removed before it is delivered, and is lost if the consumer
 * dies. Exactly once, for effects in the same ensemble: conclave_item_ack_multi does the effects
 * and the acknowledgement in one transaction, or neither.
 *
 * A put is carried out exactly once, whatever messages are lost, as long as its session lives. The
 * puts of one handle are carried out in the order of the calls, even if none waits for the
 * previous one. Only the first waiting consumer watches the queue, so an item wakes one consumer.
 *
 * An item may be delayed until a time of the clock, and may have an id by which it can be removed.
 * The queue may be one of another library on the same path: enum conclave_queue_layout.
 *
 * In the tree: <path> has the items ("<priority>-<guid>-q_<sequence>"), <path>.claims the claims,
 * <path>.dead the dead letters, <path>.line the waiting consumers, <path>.room the waiting
 * producers, <path>.puts one node per producer. A listing is one answer of the server: keep a
 * queue below some 10,000 items (1 MiB), or use several. After 2^31 puts the order of sequence
 * numbers starts again.
 */
#ifndef CONCLAVE_QUEUE_H
#define CONCLAVE_QUEUE_H

#include <conclave/queue_item.h>
#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CONCLAVE_QUEUE_NAME_MAX = 256,     /* an item's name, with the NUL */
    CONCLAVE_QUEUE_ID_MAX = 128,       /* bytes of an item's id */
    CONCLAVE_QUEUE_PRIORITY_MAX = 999, /* 0 is taken first */
    CONCLAVE_QUEUE_PRIORITY_DEFAULT = 500,
};

/* The names of the items and the place of the claims. All users of a path must have the same one. What a put promises
 * is the same in all of them, with two limits: in a layout of others the item's name is not known after a lost answer, and
 * neither is the outcome when the session ended with the answer (CONCLAVE_SESSION_EXPIRED).
 *
 * KAZOO_LOCKING, and the layouts of Curator with claims_path, have claims that all consumers respect: at least once and
 * at most once hold among all of them. The consumers of the others (PLAIN, KAZOO, Curator's without a lockPath) remove an
 * item as they read it. Among these at_most_once is exact: nobody gets an item that another one got. Without
 * at_most_once only consumers of this library respect a claim: one of the other library may take the item, too. Then the
 * claim is lost (on_lost, at the next heartbeat) and the ack gives CONCLAVE_ELOST, also after a lost answer: the claim's
 * node, which only our own ack removes with the item, tells both apart. */
enum conclave_queue_layout {
    CONCLAVE_QUEUE_LAYOUT_NATIVE,
    /* Sequential nodes with any prefix, as in ZooKeeper's recipe, its DistributedQueue and Curator's
     * SimpleDistributedQueue (qn-). No priorities. */
    CONCLAVE_QUEUE_LAYOUT_PLAIN,
    CONCLAVE_QUEUE_LAYOUT_KAZOO,         /* kazoo's Queue */
    CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING, /* kazoo's LockingQueue: <path>/entries, <path>/taken */
    /* Curator's DistributedQueue and DistributedIdQueue (ids). No priorities. In the layouts of Curator an item can hold
     * several: see conclave_item_count. */
    CONCLAVE_QUEUE_LAYOUT_CURATOR,
    CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY, /* its DistributedPriorityQueue: any int is a priority */
    CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY,    /* its DistributedDelayQueue: ordered by time */
};

struct conclave_queue;

/* Callbacks of one runtime run one at a time. */
struct conclave_queue_callbacks {
    size_t size;
    /* A taken item's claim is gone, or its lease has ended: another consumer may have it. Called
     * at most once per item, and never after an ack or nack was reported. Free the item all the
     * same. */
    void (*on_lost)(struct conclave_queue *queue, struct conclave_item *item, void *ctx);

    /* The number of items, including claimed ones: once at the start, then after changes (a burst
     * is reported once). Each change costs a listing: use it for monitoring, not in consumers. */
    void (*on_size)(struct conclave_queue *queue, int64_t count, void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_queue *queue, int why, void *ctx);
};
#define CONCLAVE_QUEUE_CALLBACKS_INIT CONCLAVE_INIT(conclave_queue_callbacks)

/* Begin with CONCLAVE_QUEUE_OPTIONS_INIT, then set what differs. */
struct conclave_queue_options {
    size_t size;
    const char *path; /* the queue's node; made with its parents as containers */
    const char *id;   /* shown to others with claimed items; NULL: host:pid */
    int max_attempts; /* deliveries without an ack before an item becomes a dead letter; 0: never */
    int64_t max_items; /* a put waits while there are this many (simultaneous puts of several
                          handles may exceed it); 0: no limit */
    bool at_most_once;
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
    enum conclave_queue_layout layout;
    const char
        *prefix; /* PLAIN: of the items that are put and taken. NULL: "qn-" is put, all are taken */
    const char
        *claims_path; /* layouts of Curator: the lockPath of the others; NULL: they have none */
};
#define CONCLAVE_QUEUE_OPTIONS_INIT CONCLAVE_INIT(conclave_queue_options)

/* Sends nothing yet, unless on_size is set. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_queue_open(struct conclave_recipes *recipes,
                                     const struct conclave_queue_options *options,
                                     const struct conclave_queue_callbacks *callbacks, void *ctx,
                                     struct conclave_queue **ret) CONCLAVE_MUST_USE;

/* --- producers ------------------------------------------------------------------- */

/* error: as of conclave_queue_put; name: of the item, "" if it was taken before its name could be
 * read (or was not put). */
typedef void (*conclave_put_fn)(struct conclave_queue *queue, int error, const char *name,
                                void *ctx);

/* Puts an item. 0; CONCLAVE_EINVAL (priority; a layout without priorities wants CONCLAVE_QUEUE_PRIORITY_DEFAULT); CONCLAVE_ETOOBIG (data: the client's max_request
 * less 4 KiB is the limit, 1 MiB less that by default); CONCLAVE_EBUSY (full, timeout_ms 0);
 * CONCLAVE_ETIMEDOUT: not put; CONCLAVE_SESSION_EXPIRED: the session ended with the outcome unknown,
 * and no such item is in the queue: it was not put, or it was taken already; or why it cannot be
 * put (CONCLAVE_NO_AUTH, CONCLAVE_QUOTA_EXCEEDED, ...). A put whose outcome is unknown when the
 * time is over waits for the link, at most for the end of the session. ret_name: NULL, or
 * CONCLAVE_QUEUE_NAME_MAX bytes. */
CONCLAVE_API int conclave_queue_put(struct conclave_queue *queue, int priority, const void *data,
                                    size_t len, int64_t timeout_ms,
                                    char *ret_name) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_queue_put_async(struct conclave_queue *queue, int priority,
                                          const void *data, size_t len, int64_t timeout_ms,
                                          conclave_put_fn done, void *ctx) CONCLAVE_MUST_USE;

/* Begin with CONCLAVE_PUT_OPTIONS_INIT, then set what differs. */
struct conclave_put_options {
    size_t size;
    int priority;
    /* Unix time in milliseconds before which nobody takes the item; 0: at once. The consumer's clock decides. NATIVE,
     * CURATOR_DELAY; at most in the year 2527. */
    int64_t not_before_ms;
    /* For conclave_queue_remove; several items may have the same. 1 to CONCLAVE_QUEUE_ID_MAX bytes without "/", "|" and
     * control characters. NULL: none. NATIVE, CURATOR. */
    const char *id;
};
#define CONCLAVE_PUT_OPTIONS_INIT                                                                  \
    CONCLAVE_INIT_WITH(conclave_put_options,                                                       \
                       CONCLAVE_SET(priority, CONCLAVE_QUEUE_PRIORITY_DEFAULT))

/* As conclave_queue_put. CONCLAVE_EINVAL also for what the layout cannot say. A delayed item counts for max_items. */
CONCLAVE_API int conclave_queue_put_with(struct conclave_queue *queue,
                                         const struct conclave_put_options *options,
                                         const void *data, size_t len, int64_t timeout_ms,
                                         char *ret_name) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_queue_put_with_async(struct conclave_queue *queue,
                                               const struct conclave_put_options *options,
                                               const void *data, size_t len, int64_t timeout_ms,
                                               conclave_put_fn done, void *ctx) CONCLAVE_MUST_USE;

/* Removes the items with this id that nobody has claimed, delayed ones too. *ret_count (may be NULL): removed ones; after
 * a lost answer it may be one too small. 0, CONCLAVE_EINVAL (id, layout), CONCLAVE_ETIMEDOUT (some may be removed), or why not
 * (CONCLAVE_NO_AUTH, ...). Blocking. */
CONCLAVE_API int conclave_queue_remove(struct conclave_queue *queue, const char *id,
                                       int64_t timeout_ms, size_t *ret_count) CONCLAVE_MUST_USE;

/* --- consumers ------------------------------------------------------------------- */

/* item: yours to free, on error 0 only. */
typedef void (*conclave_take_fn)(struct conclave_queue *queue, int error,
                                 struct conclave_item *item, void *ctx);

/* Takes the first item that nobody has claimed, and waits for one. 0, CONCLAVE_EEMPTY (timeout_ms 0
 * and none there), CONCLAVE_ETIMEDOUT, CONCLAVE_ETOOBIG (the listing exceeds the client's
 * max_reply), CONCLAVE_ECLOSED, or why not (CONCLAVE_NO_AUTH, ...). A session that ends meanwhile
 * is followed by the next. */
CONCLAVE_API int conclave_queue_take(struct conclave_queue *queue, int64_t timeout_ms,
                                     struct conclave_item **ret) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_queue_take_async(struct conclave_queue *queue, int64_t timeout_ms,
                                           conclave_take_fn done, void *ctx) CONCLAVE_MUST_USE;

/* --- looking --------------------------------------------------------------------- */

struct conclave_queue_entry {
    const char *name; /* of a dead letter "<guid>~" and the item's, if an earlier one had that */
    int priority;
    int attempts;       /* number of deliveries; of a dead letter 0 */
    int64_t session_id; /* that has claimed it; 0: none */
    const char *holder; /* id of that consumer, "" */
    int64_t ctime_ms;   /* when it was put (became a dead letter) */
    const void *data;   /* with_data; else NULL */
    size_t data_len;
    int64_t not_before_ms; /* 0: not delayed */
    const char *id;        /* NULL: none */
};

enum conclave_queue_part {
    CONCLAVE_QUEUE_ITEMS,
    CONCLAVE_QUEUE_DEAD,
};

/* The first `most` entries (0: all) in order, as of now, delayed ones last. Blocking: also CONCLAVE_ETIMEDOUT. Free
 * with conclave_queue_entries_free. */
CONCLAVE_API int conclave_queue_list(struct conclave_queue *queue, enum conclave_queue_part part,
                                     size_t most, bool with_data, int64_t timeout_ms,
                                     struct conclave_queue_entry ***ret,
                                     size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_queue_entries_free(struct conclave_queue_entry **entries, size_t count);

/* The number of items, claimed ones included. Blocking. */
CONCLAVE_API int conclave_queue_size(struct conclave_queue *queue, int64_t timeout_ms,
                                     int64_t *ret_count) CONCLAVE_MUST_USE;

/* Returns a dead letter to its old place; attempts count from the beginning. 0, CONCLAVE_NO_NODE
 * (no such dead letter), CONCLAVE_NODE_EXISTS (an item has its name: try again when that was taken), CONCLAVE_ENOMEM (it may
 * have been put back). Blocking. */
CONCLAVE_API int conclave_queue_requeue(struct conclave_queue *queue, const char *name,
                                        int64_t timeout_ms) CONCLAVE_MUST_USE;

/* --- the end --------------------------------------------------------------------- */

/* Ends waiting calls (CONCLAVE_ECLOSED), gives back claimed items, then on_closed. Asynchronous,
 * any number of times, also from a callback. */
CONCLAVE_API void conclave_queue_close(struct conclave_queue *queue);
CONCLAVE_API int conclave_queue_close_wait(struct conclave_queue *queue,
                                           int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Frees a closed handle; its items have to be freed separately. NULL is allowed. From on_closed:
 * freed when that returns. */
CONCLAVE_API void conclave_queue_destroy(struct conclave_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
