/*
 * A counter and a shared value: one node's data, changed by compare-and-set, exactly once.
 *
 * A change whose answer was lost is neither repeated nor forgotten: the same transaction writes a
 * node of this writer, <path>.writers/<guid>, which shows on the next link, also in a later
 * session, whether the change was done, even if others have changed the value since.
 *
 * The counter's node has its number as text, like kazoo's Counter, or as the eight bytes of
 * Curator's DistributedAtomicLong; these may use it at the same time. Curator's SharedCount uses a
 * shared value of four bytes.
 */
#ifndef CONCLAVE_COUNTER_H
#define CONCLAVE_COUNTER_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- counter --------------------------------------------------------------------- */

struct conclave_counter;

enum conclave_counter_form {
    CONCLAVE_COUNTER_TEXT,   /* decimal, as kazoo's Counter */
    CONCLAVE_COUNTER_BINARY, /* eight bytes, the highest first, as Curator's DistributedAtomicLong */
};

/* Callbacks of one handle run one at a time. Any may be NULL. */
struct conclave_counter_callbacks {
    size_t size;
    /* The latest value, changed by anybody; a burst is reported once. error: 0, or CONCLAVE_ECORRUPT
     * when the node's data are no number of this form (value is 0 then). */
    void (*on_change)(struct conclave_counter *counter, int64_t value, int error, void *ctx);
    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_counter *counter, int why, void *ctx);
};
#define CONCLAVE_COUNTER_CALLBACKS_INIT CONCLAVE_INIT(conclave_counter_callbacks)

/* Begin with CONCLAVE_COUNTER_OPTIONS_INIT, then set what differs. */
struct conclave_counter_options {
    size_t size;
    const char *path; /* made with its parents when it is first written */
    enum conclave_counter_form form;
    int64_t initial;                /* the value of a node that is not there or empty */
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_COUNTER_OPTIONS_INIT CONCLAVE_INIT(conclave_counter_options)

/* 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, CONCLAVE_EFORK. */
CONCLAVE_API int conclave_counter_open(struct conclave_recipes *recipes,
                                       const struct conclave_counter_options *options,
                                       const struct conclave_counter_callbacks *callbacks,
                                       void *ctx, struct conclave_counter **ret) CONCLAVE_MUST_USE;

/* Blocking calls. In addition to the errors of each: CONCLAVE_ECORRUPT (no number),
 * CONCLAVE_ECLOSED, CONCLAVE_EDEADLK inside a callback, CONCLAVE_NO_AUTH, ...; CONCLAVE_ETIMEDOUT:
 * not done yet; it may still be carried out, once, if it was already sent. CONCLAVE_ESEQWRAP: the
 * node's data version has become -1, which cannot be compared. */

/* The value, including all changes acknowledged before. */
CONCLAVE_API int conclave_counter_get(struct conclave_counter *counter, int64_t timeout_ms,
                                      int64_t *ret_value) CONCLAVE_MUST_USE;

/* Adds delta and returns the new value. CONCLAVE_ETOOBIG: the sum does not fit; nothing was done. */
CONCLAVE_API int conclave_counter_add(struct conclave_counter *counter, int64_t delta,
                                      int64_t timeout_ms, int64_t *ret_value) CONCLAVE_MUST_USE;

/* Sets the counter if it has the expected value. CONCLAVE_ECONFLICT: it has the value *ret_value
 * (may be NULL) and keeps it. */
CONCLAVE_API int conclave_counter_compare_and_set(struct conclave_counter *counter,
                                                  int64_t expected, int64_t desired,
                                                  int64_t timeout_ms,
                                                  int64_t *ret_value) CONCLAVE_MUST_USE;

/* The same without blocking: fn is called once, as a callback, with what the others return; also
 * CONCLAVE_ECLOSED. A failure to begin is returned: CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, CONCLAVE_EFORK.
 */
typedef void (*conclave_counter_fn)(struct conclave_counter *counter, int error, int64_t value,
                                    void *ctx);
CONCLAVE_API int conclave_counter_get_async(struct conclave_counter *counter,
                                            conclave_counter_fn fn, void *ctx) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_counter_add_async(struct conclave_counter *counter, int64_t delta,
                                            conclave_counter_fn fn, void *ctx) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_counter_compare_and_set_async(struct conclave_counter *counter,
                                                        int64_t expected, int64_t desired,
                                                        conclave_counter_fn fn,
                                                        void *ctx) CONCLAVE_MUST_USE;

/* Ends waiting calls with CONCLAVE_ECLOSED, after a change in progress; then on_closed. */
CONCLAVE_API void conclave_counter_close(struct conclave_counter *counter);
CONCLAVE_API int conclave_counter_close_wait(struct conclave_counter *counter, int64_t timeout_ms);
CONCLAVE_API void conclave_counter_destroy(struct conclave_counter *counter); /* closed, or NULL */

/* --- shared value ------------------------------------------------------------------ */

struct conclave_shared;

/* As the expected version: the node must not be there yet. */
#define CONCLAVE_ABSENT (-2)

/* For conclave_shared_set, begin with CONCLAVE_SHARED_VALUE_INIT. */
struct conclave_shared_value {
    size_t size;
    const void *data; /* NULL: the null value, or no node */
    size_t data_len;
    int32_t version; /* to be given to conclave_shared_set; CONCLAVE_ABSENT: no node */
    int64_t mzxid;   /* of the change that made it; 0: no node */
    bool stale;      /* no link: it may have changed meanwhile */
};
#define CONCLAVE_SHARED_VALUE_INIT CONCLAVE_INIT(conclave_shared_value)

struct conclave_shared_callbacks {
    size_t size;
    /* The latest value, also when it becomes stale or fresh. */
    void (*on_change)(struct conclave_shared *shared, const struct conclave_shared_value *value,
                      void *ctx);
    void (*on_closed)(struct conclave_shared *shared, int why, void *ctx);
};
#define CONCLAVE_SHARED_CALLBACKS_INIT CONCLAVE_INIT(conclave_shared_callbacks)

/* Begin with CONCLAVE_SHARED_OPTIONS_INIT, then set what differs. */
struct conclave_shared_options {
    size_t size;
    const char *path;               /* made with its parents when it is first written */
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_SHARED_OPTIONS_INIT CONCLAVE_INIT(conclave_shared_options)

/* 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, CONCLAVE_EFORK. */
CONCLAVE_API int conclave_shared_open(struct conclave_recipes *recipes,
                                      const struct conclave_shared_options *options,
                                      const struct conclave_shared_callbacks *callbacks, void *ctx,
                                      struct conclave_shared **ret) CONCLAVE_MUST_USE;

/* The value, with all that was acknowledged before; errors as of the counter. Free *ret with
 * conclave_shared_value_free. */
CONCLAVE_API int conclave_shared_get(struct conclave_shared *shared, int64_t timeout_ms,
                                     struct conclave_shared_value **ret) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_shared_value_free(struct conclave_shared_value *value);

/* Sets the value if the node has this version (CONCLAVE_ABSENT: does not exist). *ret (may be
 * NULL): version and mzxid of the new value. CONCLAVE_BAD_VERSION, CONCLAVE_NO_NODE,
 * CONCLAVE_NODE_EXISTS: the node has another version; nothing was done. CONCLAVE_ESEQWRAP: version
 * -1 cannot be compared. */
CONCLAVE_API int conclave_shared_set(struct conclave_shared *shared, const void *data, size_t len,
                                     int32_t expected_version, int64_t timeout_ms,
                                     struct conclave_shared_value *ret) CONCLAVE_MUST_USE;

/* The same without blocking; fn is called once, as a callback; value is NULL on failure, else
 * has version and mzxid. */
typedef void (*conclave_shared_fn)(struct conclave_shared *shared, int error,
                                   const struct conclave_shared_value *value, void *ctx);
CONCLAVE_API int conclave_shared_set_async(struct conclave_shared *shared, const void *data,
                                           size_t len, int32_t expected_version,
                                           conclave_shared_fn fn, void *ctx) CONCLAVE_MUST_USE;

CONCLAVE_API void conclave_shared_close(struct conclave_shared *shared);
CONCLAVE_API int conclave_shared_close_wait(struct conclave_shared *shared, int64_t timeout_ms);
CONCLAVE_API void conclave_shared_destroy(struct conclave_shared *shared); /* closed, or NULL */

#ifdef __cplusplus
}
#endif
#endif
