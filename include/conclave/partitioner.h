/*
 * Divides a set of items among the members of a party, and again whenever a member comes or goes. One member at a time
 * has an item. The nodes are those of kazoo's SetPartitioner (path/party and path/locks), so members of both kinds can
 * share one path; give all of them the same items.
 *
 * A member is in one of three states:
 * - ALLOCATING: it waits until the party has not changed for settle_ms; then it acquires the locks of its part.
 * - ACQUIRED: it has all its locks, and calls on_acquired.
 * - RELEASE: the party changed, or the member lost a lock; it calls on_release. The program ends its work on the
 *   items and calls conclave_partitioner_release; then the member allocates again. Others wait for the locks until
 *   then.
 *
 * Two members never have the same item: each item is a lock (conclave/lock.h), and the library reports its loss
 * before another member can acquire it. After a lost session the member joins again by itself (kazoo's ends in the
 * state FAILURE).
 */
#ifndef CONCLAVE_PARTITIONER_H
#define CONCLAVE_PARTITIONER_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_partitioner;

enum conclave_partition_state {
    CONCLAVE_PARTITION_ALLOCATING,
    CONCLAVE_PARTITION_ACQUIRED,
    CONCLAVE_PARTITION_RELEASE,
};

/* "ALLOCATING", "ACQUIRED", "RELEASE". Static. */
CONCLAVE_API const char *conclave_partition_state_name(enum conclave_partition_state state);

/* Begin with CONCLAVE_PARTITIONER_CALLBACKS_INIT. Callbacks of one handle run one at a time; any may be NULL. */
struct conclave_partitioner_callbacks {
    size_t size;

    /* This member has these items, in order; possibly none, when there are more members than items. They live
     * until conclave_partitioner_release or the end. */
    void (*on_acquired)(struct conclave_partitioner *partitioner, const char *const *items,
                        size_t count, void *ctx);

    /* End the work and call conclave_partitioner_release. why: 0: the party changed, there is no hurry, but
     * others wait; else a lock was lost (CONCLAVE_ELOST, CONCLAVE_SESSION_EXPIRED, ...), and no other
     * member is granted its item within stop_within_ms. Called a second time when a lock is lost before
     * the program has released what the first call, with 0, asked for. Also when the handle ends by an
     * error, or with the client: others may have the items when this returns, and on_closed follows. */
    void (*on_release)(struct conclave_partitioner *partitioner, int why, int64_t stop_within_ms,
                       void *ctx);

    /* Which items are this member's: sets ret_mine[i] for items[i], of which all are false. Must give each item
     * to one member, whichever member asks. members are sorted, items too; self is among the members. NULL:
     * each member takes every count-th item, beginning with its own place, as kazoo does. */
    void (*partition)(struct conclave_partitioner *partitioner, const char *self,
                      const char *const *members, size_t members_count, const char *const *items,
                      size_t items_count, bool *ret_mine, void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_partitioner *partitioner, int why, void *ctx);
};
#define CONCLAVE_PARTITIONER_CALLBACKS_INIT CONCLAVE_INIT(conclave_partitioner_callbacks)

/* Begin with CONCLAVE_PARTITIONER_OPTIONS_INIT, then set what differs. */
struct conclave_partitioner_options {
    size_t size;
    const char *path;         /* made with its parents as containers */
    const char *const *items; /* names without "/", each once */
    size_t items_count;
    const char *id;    /* the member's, once in the party, without "/"; NULL: host:pid */
    int64_t settle_ms; /* as above (kazoo: time_boundary, 30 s) */
    struct conclave_lease_options lease; /* of the locks */
    const struct conclave_acl *acl;      /* of all created nodes; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_PARTITIONER_OPTIONS_INIT                                                          \
    CONCLAVE_INIT_WITH(conclave_partitioner_options, CONCLAVE_SET(settle_ms, 3000))

/* Joins the party. 0, CONCLAVE_EINVAL (path, items, id, settle_ms, lease), CONCLAVE_ENOMEM,
 * CONCLAVE_ECLOSED, CONCLAVE_EFORK. Problems with the ensemble are reported later, by callback; so is a
 * grace that does not fit the session's timeout (CONCLAVE_EINVAL). */
CONCLAVE_API int conclave_partitioner_open(struct conclave_recipes *recipes,
                                           const struct conclave_partitioner_options *options,
                                           const struct conclave_partitioner_callbacks *callbacks,
                                           void *ctx,
                                           struct conclave_partitioner **ret) CONCLAVE_MUST_USE;

/* Gives all items back, so that the members divide the set again. Call it in the state RELEASE, or in ACQUIRED to
 * let other members have the items. Does not wait. 0, CONCLAVE_ENOTOWNER (it has no items), CONCLAVE_ECLOSED,
 * CONCLAVE_EFORK. */
CONCLAVE_API int
conclave_partitioner_release(struct conclave_partitioner *partitioner) CONCLAVE_MUST_USE;

/* The state at this moment. */
CONCLAVE_API enum conclave_partition_state
conclave_partitioner_state(struct conclave_partitioner *partitioner);

/* Blocks until the state is ACQUIRED and on_acquired has returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK, or why it ended. */
CONCLAVE_API int conclave_partitioner_wait(struct conclave_partitioner *partitioner,
                                           int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Gives all items back and leaves the party, then on_closed. Asynchronous, any number of times, also from a
 * callback. */
CONCLAVE_API void conclave_partitioner_close(struct conclave_partitioner *partitioner);

/* The same and waits for on_closed to have returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
CONCLAVE_API int conclave_partitioner_close_wait(struct conclave_partitioner *partitioner,
                                                 int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_partitioner_destroy(struct conclave_partitioner *partitioner);

#ifdef __cplusplus
}
#endif
#endif
