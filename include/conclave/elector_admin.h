/*
 * For operators of an elector (conclave/elector.h), who need not take part: blocking questions and
 * requests about the directory of a service. Any thread but that of a callback; timeout_ms is the
 * time for all of the call. All of them return CONCLAVE_EINVAL (dir, options), CONCLAVE_ENOMEM,
 * CONCLAVE_EDEADLK (in a callback), CONCLAVE_ETIMEDOUT, CONCLAVE_NO_AUTH and other errors of the
 * ensemble beside those named.
 */
#ifndef CONCLAVE_ELECTOR_ADMIN_H
#define CONCLAVE_ELECTOR_ADMIN_H

#include <conclave/elector.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- what is there ------------------------------------------------------------------ */

/* The content of dir. Free with conclave_elector_view_free. */
struct conclave_elector_view {
    /* The holder of the lock: its id, incarnation and data; its token is its node's czxid. NULL:
     * no member has the lock. */
    const struct conclave_breadcrumb *lock;
    int64_t lock_session;
    const struct conclave_breadcrumb *active; /* NULL: there is no breadcrumb */
};
CONCLAVE_API int conclave_elector_view(struct conclave_recipes *recipes, const char *dir,
                                       int64_t timeout_ms,
                                       struct conclave_elector_view **ret) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_elector_view_free(struct conclave_elector_view *view);

/* Confirms that the member with this token is dead: lets the next member become active without
 * fencing it. token must be that of the present breadcrumb, which must not be clean; otherwise
 * CONCLAVE_ECONFLICT. CONCLAVE_NO_NODE without a breadcrumb. acl: as in the members' options; they
 * must be able to read and delete the node. NULL: the client's. */
CONCLAVE_API int conclave_elector_override(struct conclave_recipes *recipes, const char *dir,
                                           struct conclave_token token,
                                           const struct conclave_acl *acl, size_t acl_count,
                                           int64_t timeout_ms) CONCLAVE_MUST_USE;

/* --- the directory ------------------------------------------------------------------ */

/* Whether dir exists. */
CONCLAVE_API int conclave_elector_parent_exists(struct conclave_recipes *recipes, const char *dir,
                                                int64_t timeout_ms, bool *ret) CONCLAVE_MUST_USE;

/* Begin with CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT, then set what differs. */
struct conclave_elector_parent_options {
    size_t size;
    const struct conclave_acl *acl; /* of dir and of what is made above it; NULL: the client's */
    size_t acl_count;
    /* Sets acl, which must be given, on dir and each node above it but the root, also where they
     * exist already, as Hadoop's elector does. It counts for all that use those nodes. */
    bool set_acl;
    bool force; /* reset: also while a member is active, or may be */
};
#define CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT CONCLAVE_INIT(conclave_elector_parent_options)

/* Makes dir as a persistent node, and what is missing above it. 0 also when it exists. options may
 * be NULL. */
CONCLAVE_API int conclave_elector_parent_make(struct conclave_recipes *recipes, const char *dir,
                                              const struct conclave_elector_parent_options *options,
                                              int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Deletes dir with all that is below it, also what others put there, and makes it again. options
 * may be NULL. Without force it first takes the lock, so that nobody becomes active meanwhile:
 * CONCLAVE_EBUSY when a member has the lock or waits in a line for it; CONCLAVE_ECONFLICT when the
 * last active member has not stopped cleanly (fence it, or see conclave_elector_override).
 * With force nothing is asked. If a member is active then, it learns of it with the next proof of
 * its lease, and another may be active before that: make sure yourself that none is. */
CONCLAVE_API int conclave_elector_reset(struct conclave_recipes *recipes, const char *dir,
                                        const struct conclave_elector_parent_options *options,
                                        int64_t timeout_ms) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
