/*
 * An item that was taken from a queue (<conclave/queue.h>, which includes this header): its data, its claim, its end.
 */
#ifndef CONCLAVE_QUEUE_ITEM_H
#define CONCLAVE_QUEUE_ITEM_H

#include <conclave/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_item;

/* The item's data; live until the item is freed. In the layouts of Curator: its first part. */
CONCLAVE_API const void *conclave_item_data(const struct conclave_item *item, size_t *ret_len);
CONCLAVE_API const char *conclave_item_name(const struct conclave_item *item);
CONCLAVE_API int conclave_item_priority(const struct conclave_item *item);
CONCLAVE_API int conclave_item_attempt(const struct conclave_item *item); /* 1: the first */

/* Parts of an item. Curator can put several at once (putMulti); it wraps each in a format of its own, as does a put in its
 * layouts. They are acknowledged together. 1 in other layouts; 0: the bytes are not in Curator's format, conclave_item_data
 * has them as they are. No part costs more than the first one. */
CONCLAVE_API size_t conclave_item_count(const struct conclave_item *item);
CONCLAVE_API const void *conclave_item_part(const struct conclave_item *item, size_t index,
                                            size_t *ret_len); /* NULL: no such part */

/* Copies the data to a buffer. 0, or CONCLAVE_ENOBUFS: nothing was copied, the item stays as it is.
 * *ret_len is its size in both cases. */
CONCLAVE_API int conclave_item_copy(const struct conclave_item *item, void *buf, size_t size,
                                    size_t *ret_len) CONCLAVE_MUST_USE;

/* Whether the claim is proved to be valid at this moment: no other consumer has the item. False
 * once it was acknowledged, given back or lost. Any thread, wait-free, async-signal-safe. In a layout whose other
 * consumers do not respect claims (enum conclave_queue_layout), it becomes false at the next heartbeat after one has
 * removed the item. */
CONCLAVE_API bool conclave_item_is_held(const struct conclave_item *item);
/* End of the claim's lease in nanoseconds of CLOCK_BOOTTIME, to pass to other processes; 0 if the
 * claim is not proved to be valid, or the queue is an at-most-once one. */
CONCLAVE_API int64_t conclave_item_lease_until_ns(const struct conclave_item *item);
/* Name of the claim's node below the chroot, for a check of your own. */
CONCLAVE_API const char *conclave_item_claim(const struct conclave_item *item);

/* error as conclave_item_ack gives. */
typedef void (*conclave_item_fn)(struct conclave_item *item, int error, void *ctx);

/* ack removes the finished item; nack gives it back at once (it becomes a dead letter after
 * max_attempts). 0; CONCLAVE_ELOST (the claim was lost: nothing was changed, another consumer has
 * or gets the item, or has removed it without a claim; a claim of ours that still exists is removed);
 * CONCLAVE_SESSION_EXPIRED (the session ended before the answer came: the item was acknowledged, or made a dead letter, or
 * another consumer gets it); CONCLAVE_ENOTOWNER (acknowledged or given back before); CONCLAVE_EBUSY (an
 * ack or nack is in progress: its answer was not reported yet); CONCLAVE_ETIMEDOUT (it continues in the background); or why
 * not (CONCLAVE_NO_AUTH, ...): then the item is held as before, but not again after on_lost. An item of an at-most-once
 * queue needs neither (0).
 *
 * A lost answer is looked up as long as the session lives: an item that is gone with its claim was acknowledged, as only
 * this session removes its claim. (Who removes nodes of claims by hand makes that unsure.) With exactly_once in the
 * client's options, Conclave's servers answer a repeated ack in any case. */
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
 * outcome is looked up. Errors as conclave_item_ack, and the error of a part: then nothing was done,
 * and the item stays claimed. CONCLAVE_SESSION_EXPIRED: all was done, or nothing. Blocking, until the answer or the end of the session. */
CONCLAVE_API int conclave_item_ack_multi(struct conclave_item *item,
                                         const struct conclave_op *parts,
                                         size_t count) CONCLAVE_MUST_USE;

/* Frees the item; an item that was neither acknowledged nor given back is given back. NULL is
 * allowed. */
CONCLAVE_API void conclave_item_free(struct conclave_item *item);

#ifdef __cplusplus
}
#endif
#endif
