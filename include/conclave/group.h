/*
 * Group membership. A member is an ephemeral node that the library creates again when it is lost;
 * the view is the list of all members, reported with each change.
 *
 * The library creates a member's node again in a new session, after somebody deleted it, and after
 * the ensemble was rebuilt; it keeps the data and writes them again if the server's differ. The
 * node's name is the member's id. It replaces without a gap the node that an earlier session of
 * the same member left, which it recognises by the incarnation, a random text in the node. It
 * never touches a node of another incarnation: the member is in conflict until that node is gone.
 * A program that wants to replace its own node after a restart keeps its incarnation in a file.
 *
 * The view does not become empty when the ensemble cannot be reached: it is marked as stale, and
 * changes of that time are reported when it is fresh again.
 */
#ifndef CONCLAVE_GROUP_H
#define CONCLAVE_GROUP_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_group;

/* One member. Everything lives until the callback returns or the list is freed. */
struct conclave_member {
    const char *id;
    const void *data;
    size_t data_len;
    int64_t session_id;          /* that owns its node */
    int64_t mzxid;               /* of the last change of its data */
    bool self;                   /* this handle's */
    struct conclave_token token; /* of its node: another one is another life of the member */
};

struct conclave_group_view {
    const struct conclave_member *const *members; /* ordered by id */
    size_t count;
    int64_t zxid; /* shows all changes up to there; never goes back */
    bool stale;   /* no link: it may have changed meanwhile */
};

enum conclave_group_event {
    CONCLAVE_GROUP_JOINED,
    CONCLAVE_GROUP_LEFT,    /* with what was last known of it */
    CONCLAVE_GROUP_UPDATED, /* its data changed */
};

/* "JOINED", "LEFT", "UPDATED". Static. */
CONCLAVE_API const char *conclave_group_event_name(enum conclave_group_event event);

/* This handle's own membership. */
enum conclave_membership {
    CONCLAVE_MEMBERSHIP_OUT,      /* not yet, or the session has ended */
    CONCLAVE_MEMBERSHIP_IN,       /* its node exists, verified on the present link */
    CONCLAVE_MEMBERSHIP_UNSURE,   /* the link is lost: its node may exist */
    CONCLAVE_MEMBERSHIP_CONFLICT, /* another one has the id; waits until that is gone */
};

/* "OUT", "IN", "UNSURE", "CONFLICT". Static. */
CONCLAVE_API const char *conclave_membership_name(enum conclave_membership membership);

/* Callbacks of one handle run one at a time. Any may be NULL; without on_change and on_view the
 * library keeps no view. */
struct conclave_group_callbacks {
    size_t size;
    /* Changes, one by one, in the order LEFT, JOINED, UPDATED; the first view is reported as
     * JOINED. A member that left and came back between two views is reported as LEFT and JOINED. */
    void (*on_change)(struct conclave_group *group, enum conclave_group_event event,
                      const struct conclave_member *member, void *ctx);

    /* All members, after the changes of one moment; also when the view becomes stale or fresh. */
    void (*on_view)(struct conclave_group *group, const struct conclave_group_view *view,
                    void *ctx);

    /* The latest state of the own membership. */
    void (*on_membership)(struct conclave_group *group, enum conclave_membership membership,
                          void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_group *group, int why, void *ctx);
};
#define CONCLAVE_GROUP_CALLBACKS_INIT CONCLAVE_INIT(conclave_group_callbacks)

/* Begin with CONCLAVE_GROUP_OPTIONS_INIT, then set what differs. */
struct conclave_group_options {
    size_t size;
    const char *path; /* the group's node; made with its parents as containers */
    const char *id;   /* the member's name, without "/"; NULL: an observer, no member */
    const void *data; /* shown to others, at most 512 KiB */
    size_t data_len;
    const char *incarnation;        /* without line ends, at most 127 bytes; NULL: a random one */
    int64_t debounce_ms;            /* collect changes for this time before callbacks */
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_GROUP_OPTIONS_INIT CONCLAVE_INIT(conclave_group_options)

/* Joins, or observes. 0, CONCLAVE_EINVAL (path, id, data, incarnation), CONCLAVE_ENOMEM,
 * CONCLAVE_ECLOSED, CONCLAVE_EFORK. Problems with the ensemble are reported later, by callback. */
CONCLAVE_API int conclave_group_open(struct conclave_recipes *recipes,
                                     const struct conclave_group_options *options,
                                     const struct conclave_group_callbacks *callbacks, void *ctx,
                                     struct conclave_group **ret) CONCLAVE_MUST_USE;

/* Changes the member's data; written now, or as soon as there is a link. 0, CONCLAVE_EINVAL (too
 * long, or an observer), CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_group_set_data(struct conclave_group *group, const void *data,
                                         size_t len) CONCLAVE_MUST_USE;

/* The own membership at this moment. */
CONCLAVE_API enum conclave_membership conclave_group_membership(struct conclave_group *group);

/* Blocks until the member has joined. 0, CONCLAVE_ECONFLICT (not in this time, because another
 * member has the id), CONCLAVE_ETIMEDOUT, CONCLAVE_EINVAL (an observer), CONCLAVE_EDEADLK, or why
 * it ended. */
CONCLAVE_API int conclave_group_wait_joined(struct conclave_group *group,
                                            int64_t timeout_ms) CONCLAVE_MUST_USE;

/* The present members of a group, without a handle; an empty list if the group does not exist.
 * Blocking. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EINVAL, CONCLAVE_EDEADLK, CONCLAVE_NO_AUTH, ... Free
 * with conclave_members_free. */
CONCLAVE_API int conclave_group_members(struct conclave_recipes *recipes, const char *path,
                                        int64_t timeout_ms, struct conclave_member ***ret,
                                        size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_members_free(struct conclave_member **list, size_t count);

/* Leaves: removes the node, also one whose creation is in progress, then on_closed. Asynchronous,
 * any number of times, also from a callback. */
CONCLAVE_API void conclave_group_close(struct conclave_group *group);

/* Leaves and waits for on_closed to have returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
CONCLAVE_API int conclave_group_close_wait(struct conclave_group *group,
                                           int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_group_destroy(struct conclave_group *group);

#ifdef __cplusplus
}
#endif
#endif
