/*
 * A semaphore: at most N contenders hold it at a time; they get it in the order of arrival.
 *
 * The data of the semaphore's node has N as decimal digits. The first contender writes it and all
 * others compare it: a contender with another N gets CONCLAVE_ECONFLICT. The node is a container:
 * the server removes it, and N with it, some time after the last contender has left. To change N
 * while there are contenders, write the node's data: the new N counts for later contenders.
 *
 * A holder that leaves wakes one waiter. Lease, token and loss as in conclave/lock.h; tokens of
 * holders are all different, but do not order the holders, because there are several at a time.
 *
 * With `naming` the path is shared with the semaphores of another library, in its layout: a lock (the
 * gate) lets in one contender at a time, which waits there until there is room and adds its permits
 * to a folder. All permits of an acquire are taken by one transaction, all or none, which also
 * checks the gate: so two that want several do not wait for each other. (Curator's own acquire of
 * several takes one after the other, and can wait for another that does so.)
 *   CONCLAVE_NAMING_CURATOR_LOCK  InterProcessSemaphoreV2: <path>/leases and <path>/locks; all
 *                                 contenders must be given the same N, as nothing compares it
 *   CONCLAVE_NAMING_KAZOO         Semaphore: permits are children of the path, the gate is
 *                                 <path>-__lock__; N is compared before the gate, and again in the
 *                                 transaction that takes the permits
 */
#ifndef CONCLAVE_SEMAPHORE_H
#define CONCLAVE_SEMAPHORE_H

#include <conclave/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_semaphore;

/* As conclave_lock_callbacks. */
struct conclave_semaphore_callbacks {
    size_t size;
    void (*on_lost)(struct conclave_semaphore *semaphore, int why, int64_t stop_within_ms,
                    void *ctx);
    void (*on_closed)(struct conclave_semaphore *semaphore, int why, void *ctx);
};
#define CONCLAVE_SEMAPHORE_CALLBACKS_INIT CONCLAVE_INIT(conclave_semaphore_callbacks)

/* Begin with CONCLAVE_SEMAPHORE_OPTIONS_INIT, then set path and permits. */
struct conclave_semaphore_options {
    size_t size;
    /* the semaphore's node; made with its parents as containers, but as persistent nodes with
     * CONCLAVE_NAMING_KAZOO: kazoo's contenders do not make it again */
    const char *path;
    const char *id;  /* identity shown to others (the contender's data); NULL: host:pid */
    int32_t permits; /* N, at least 1 */
    struct conclave_lease_options lease;
    const struct conclave_acl *acl; /* of all nodes made; NULL: the client's */
    size_t acl_count;
    enum conclave_naming naming; /* NATIVE, CURATOR_LOCK or KAZOO: the layout */
    /* Permits that each acquire takes, and each release gives back, at once: at most N, and 1000
     * in another library's layout. 0: 1. */
    int32_t take;
};
#define CONCLAVE_SEMAPHORE_OPTIONS_INIT CONCLAVE_INIT(conclave_semaphore_options)

/* A handle holds `take` of the N permits at a time, as one hold with one token.
 * 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_semaphore_open(struct conclave_recipes *recipes,
                                         const struct conclave_semaphore_options *options,
                                         const struct conclave_semaphore_callbacks *callbacks,
                                         void *ctx,
                                         struct conclave_semaphore **ret) CONCLAVE_MUST_USE;

/* As conclave_lock_acquire; also CONCLAVE_ECONFLICT: the semaphore has another N. Any thread may
 * release. */
CONCLAVE_API int conclave_semaphore_acquire(struct conclave_semaphore *semaphore,
                                            int64_t timeout_ms,
                                            struct conclave_token *ret_token) CONCLAVE_MUST_USE;

/* The same without waiting: fn is called once, as a callback of the handle. */
typedef void (*conclave_semaphore_fn)(struct conclave_semaphore *semaphore, int error,
                                      struct conclave_token token, void *ctx);
CONCLAVE_API int conclave_semaphore_acquire_async(struct conclave_semaphore *semaphore,
                                                  int64_t timeout_ms, conclave_semaphore_fn fn,
                                                  void *ctx) CONCLAVE_MUST_USE;

/* Ends every acquire of this handle that was not granted yet with CONCLAVE_ECANCELED. */
CONCLAVE_API int conclave_semaphore_cancel(struct conclave_semaphore *semaphore);

/* As those of a lock; any thread, wait-free, async-signal-safe. */
CONCLAVE_API bool conclave_semaphore_is_held(const struct conclave_semaphore *semaphore);
CONCLAVE_API int64_t conclave_semaphore_lease_left_ms(const struct conclave_semaphore *semaphore);
CONCLAVE_API struct conclave_token
conclave_semaphore_token(const struct conclave_semaphore *semaphore);
CONCLAVE_API int64_t conclave_semaphore_lease_until_ns(const struct conclave_semaphore *semaphore);

/* Name of its node, "" when it has none; copied to buf. */
CONCLAVE_API void conclave_semaphore_node(const struct conclave_semaphore *semaphore, char *buf,
                                          size_t len);

/* As conclave_lock_release and conclave_lock_release_async. */
CONCLAVE_API int conclave_semaphore_release(struct conclave_semaphore *semaphore,
                                            int64_t timeout_ms) CONCLAVE_MUST_USE;
typedef void (*conclave_semaphore_done_fn)(struct conclave_semaphore *semaphore, int error,
                                           void *ctx);
CONCLAVE_API int conclave_semaphore_release_async(struct conclave_semaphore *semaphore,
                                                  conclave_semaphore_done_fn fn,
                                                  void *ctx) CONCLAVE_MUST_USE;

/* As conclave_lock_fenced_multi: carried out only while this handle holds a permit. */
CONCLAVE_API int
conclave_semaphore_fenced_multi(struct conclave_semaphore *semaphore,
                                const struct conclave_op *parts, size_t count,
                                struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* The holders and waiting contenders of the semaphore at path, as conclave_lock_contenders, and
 * its number of permits; CONCLAVE_ECONFLICT if the node's data are not a number. */
CONCLAVE_API int conclave_semaphore_contenders(struct conclave_recipes *recipes, const char *path,
                                               int64_t timeout_ms, struct conclave_contender ***ret,
                                               size_t *ret_count,
                                               int32_t *ret_permits) CONCLAVE_MUST_USE;

/* As those of a lock. */
CONCLAVE_API void conclave_semaphore_close(struct conclave_semaphore *semaphore);
CONCLAVE_API int conclave_semaphore_close_wait(struct conclave_semaphore *semaphore,
                                               int64_t timeout_ms) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_semaphore_destroy(struct conclave_semaphore *semaphore);

#ifdef __cplusplus
}
#endif
#endif
