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
 * In the tree: <path> has the items ("<priority>-<guid>-q_<sequence>"), <path>.claims the claims,
 * <path>.dead the dead letters, <path>.line the waiting consumers, <path>.room the waiting
 * producers, <path>.puts one node per producer. A listing is one answer of the server: keep a
 * queue below some 10,000 items (1 MiB), or use several. After 2^31 puts the order of sequence
 * numbers starts again.
 */
#ifndef CONCLAVE_QUEUE_H
#define CONCLAVE_QUEUE_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CONCLAVE_QUEUE_NAME_MAX = 64,      /* an item's name, with the NUL */
    CONCLAVE_QUEUE_PRIORITY_MAX = 999, /* 0 is taken first */
    CONCLAVE_QUEUE_PRIORITY_DEFAULT = 500,
};

struct conclave_queue;
struct conclave_item;

/* Callbacks of one runtime run one at a time. */
struct conclave_queue_callbacks {
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

/* Begin with CONCLAVE_QUEUE_OPTIONS_INIT, then set what differs. */
struct conclave_queue_options {
    size_t size;
    const char *path; /* the queue's node; made with its parents as containers */
    const char *id;   /* shown to others with claimed items; NULL: host:pid */
    int max_attempts; /* deliveries without an ack before an item becomes a dead letter; 0: never */
    int64_t max_items; /* a put waits while there are this many (simultaneous puts may exceed
                          it); 0: no limit */
    bool at_most_once;
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
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

/* Puts an item. 0; CONCLAVE_EINVAL (priority); CONCLAVE_ETOOBIG (data: the client's max_request
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

/* The item's data; live until the item is freed. */
CONCLAVE_API const void *conclave_item_data(const struct conclave_item *item, size_t *ret_len);
CONCLAVE_API const char *conclave_item_name(const struct conclave_item *item);
CONCLAVE_API int conclave_item_priority(const struct conclave_item *item);
CONCLAVE_API int conclave_item_attempt(const struct conclave_item *item); /* 1: the first */

/* Copies the data to a buffer. 0, or CONCLAVE_ENOBUFS: nothing was copied, the item stays as it is.
 * *ret_len is its size in both cases. */
CONCLAVE_API int conclave_item_copy(const struct conclave_item *item, void *buf, size_t size,
                                    size_t *ret_len) CONCLAVE_MUST_USE;

/* Whether the claim is proved to be valid at this moment: no other consumer has the item. False
 * once it was acknowledged, given back or lost. Any thread, wait-free, async-signal-safe. */
CONCLAVE_API bool conclave_item_is_held(const struct conclave_item *item);
/* End of the claim's lease in nanoseconds of CLOCK_BOOTTIME, to pass to other processes; 0 if the
 * claim is not proved to be valid, or the queue is an at-most-once one. */
CONCLAVE_API int64_t conclave_item_lease_until_ns(const struct conclave_item *item);
/* Name of the claim's node below the chroot, for a check of your own. */
CONCLAVE_API const char *conclave_item_claim(const struct conclave_item *item);

/* error as conclave_item_ack gives. */
typedef void (*conclave_item_fn)(struct conclave_item *item, int error, void *ctx);

/* ack removes the finished item; nack gives it back at once (it becomes a dead letter after
 * max_attempts). 0, CONCLAVE_ELOST (the claim was lost: nothing was changed, another consumer has
 * or gets the item), CONCLAVE_ENOTOWNER (acknowledged or given back before), CONCLAVE_EBUSY (an
 * ack or nack is in progress), CONCLAVE_ETIMEDOUT (it continues in the background). An item of an
 * at-most-once queue needs neither (0). */
CONCLAVE_API int conclave_item_ack(struct conclave_item *item,
                                   int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_item_nack(struct conclave_item *item,
                                    int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_item_ack_async(struct conclave_item *item, conclave_item_fn done,
                                         void *ctx) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_item_nack_async(struct conclave_item *item, conclave_item_fn done,
                                          void *ctx) CONCLAVE_MUST_USE;

/* A transaction that is carried out only while this claim is valid: 0, CONCLAVE_EFENCED (nothing
 * was done), or the answer's error (CONCLAVE_CONNECTION_LOSS: outcome unknown); the item stays
 * claimed. Blocking. *ret_reply as in conclave_call, for the parts alone; NULL when nothing was
 * sent. */
CONCLAVE_API int conclave_item_fenced_multi(struct conclave_item *item,
                                            const struct conclave_op *parts, size_t count,
                                            struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* The parts and the acknowledgement in one transaction, all or nothing: effects in the same
 * ensemble happen exactly once, however often the item is delivered. If the answer is lost, the
 * outcome is checked. Errors as conclave_item_ack, and the error of a part: then nothing was done,
 * and the item stays claimed. Blocking, until the answer or the end of the session. */
CONCLAVE_API int conclave_item_ack_multi(struct conclave_item *item,
                                         const struct conclave_op *parts,
                                         size_t count) CONCLAVE_MUST_USE;

/* Frees the item; an item that was neither acknowledged nor given back is given back. NULL is
 * allowed. */
CONCLAVE_API void conclave_item_free(struct conclave_item *item);

/* --- looking --------------------------------------------------------------------- */

struct conclave_queue_entry {
    const char *name;
    int priority;
    int attempts;       /* number of deliveries; of a dead letter 0 */
    int64_t session_id; /* that has claimed it; 0: none */
    const char *holder; /* id of that consumer, "" */
    int64_t ctime_ms;   /* when it was put (became a dead letter) */
    const void *data;   /* with_data; else NULL */
    size_t data_len;
};

enum conclave_queue_part {
    CONCLAVE_QUEUE_ITEMS,
    CONCLAVE_QUEUE_DEAD,
};

/* The first `most` entries (0: all) in order, as of now. Blocking: also CONCLAVE_ETIMEDOUT. Free
 * with conclave_queue_entries_free. */
CONCLAVE_API int conclave_queue_list(struct conclave_queue *queue, enum conclave_queue_part part,
                                     size_t most, bool with_data, int64_t timeout_ms,
                                     struct conclave_queue_entry **ret,
                                     size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_queue_entries_free(struct conclave_queue_entry *entries, size_t count);

/* The number of items, claimed ones included. Blocking. */
CONCLAVE_API int conclave_queue_size(struct conclave_queue *queue, int64_t timeout_ms,
                                     int64_t *ret_count) CONCLAVE_MUST_USE;

/* Returns a dead letter to its old place; attempts count from the beginning. 0, CONCLAVE_NO_NODE
 * (no such dead letter), CONCLAVE_ENOMEM (it may have been put back). Blocking. */
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
