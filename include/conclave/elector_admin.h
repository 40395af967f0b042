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
#include <conclave/hand_over.h>

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

/* What a member with the option `listed` says of itself, also one of `conclave switch`. Everything
 * lives until it is freed. */
struct conclave_elector_member {
    const char *id;
    bool observer;
    enum conclave_elector_state state;
    enum conclave_health health;
    struct conclave_token token; /* while it is active, else 0 */
    bool ready;                  /* it is active, and so is its service */
    const void *data;            /* as in its options */
    size_t data_len;
    int64_t session_id; /* that owns its node */
};

/* One member by its id. CONCLAVE_NO_NODE: it is not there. Free with conclave_elector_members_free
 * and a count of 1. */
CONCLAVE_API int conclave_elector_member(struct conclave_recipes *recipes, const char *dir,
                                         const char *id, int64_t timeout_ms,
                                         struct conclave_elector_member ***ret) CONCLAVE_MUST_USE;

/* All members, ordered by id; an empty list if there are none. */
CONCLAVE_API int conclave_elector_members(struct conclave_recipes *recipes, const char *dir,
                                          int64_t timeout_ms, struct conclave_elector_member ***ret,
                                          size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_elector_members_free(struct conclave_elector_member **list,
                                                size_t count);

/* --- who is active ------------------------------------------------------------------ */

/* Makes the listed member `id` active in place of the present one: that one steps down cleanly (the
 * successor fences it if it does not), and no other member competes meanwhile. If id does not become
 * active and ready within timeout_ms, dies or becomes unhealthy, it steps down and the previous
 * member becomes active again; that may take another 10 s, after which any member may. 0: done, or id
 * was active already. CONCLAVE_ECANCELED: not done, see ret->outcome. CONCLAVE_EBUSY: another hand-over
 * is in progress. After any other error the members may have begun to obey: look who is active. ret
 * may be NULL.
 *
 * The request is an ephemeral node, which is deleted in the end, also if it is made only after the end
 * of this call. If the process dies or has no link, it stays until its session ends: until then no
 * member but id becomes active.
 * Limits: a member whose activate or deactivate does not return is not replaced: the outcome is
 * LATE, and it is still the active one. A previous member that is not listed and slow to stop may not
 * become active again. With CONCLAVE_FOREVER a member that is never ready is waited for. Members of
 * Hadoop do not know such requests and may become active in between. */
CONCLAVE_API int conclave_elector_hand_over(struct conclave_recipes *recipes, const char *dir,
                                            const char *id, int64_t timeout_ms,
                                            struct conclave_hand_over *ret) CONCLAVE_MUST_USE;

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
 * CONCLAVE_EBUSY when a member has the lock or waits in a line for it, or during a hand-over;
 * CONCLAVE_ECONFLICT when the last active member has not stopped cleanly and nobody has confirmed that
 * it is dead (conclave_elector_override). After another error a part may be deleted; repeat it.
 * End the members first: those on standby are not told and go on, and what they make meanwhile
 * stays, dir with its former ACL then, too.
 * With force nothing is asked. If a member is active then, it learns of it with the next proof of
 * its lease, and another may be active before that. Versions of the new breadcrumb begin at 0 again,
 * so until then conclave_elector_fenced_multi of the old member may succeed beside the new one. Make
 * sure yourself that none is active. */
CONCLAVE_API int conclave_elector_reset(struct conclave_recipes *recipes, const char *dir,
                                        const struct conclave_elector_parent_options *options,
                                        int64_t timeout_ms) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
