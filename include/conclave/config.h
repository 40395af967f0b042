/*
 * Configuration: a value or a whole tree that the library watches, checks, applies, acknowledges,
 * and keeps in a file for starts without the ensemble.
 *
 * Callbacks get the latest state, not each change: a burst is reported once, states come in order,
 * and a node that was deleted and written again during a lost link counts as changed. A missing
 * node is a state like any other. A state that the program's validator refuses is not applied; the
 * acknowledgement says so.
 *
 * A file (option cache_file) keeps the last applied state; a temporary file is written and renamed
 * to it. It is used, and marked as stale, if the ensemble cannot be reached at the start. The file
 * of a single value has its bytes and nothing else. A missing node does not change the file.
 *
 * The state of a tree leaves out nodes whose names end in ".acks" or ".writers": the
 * acknowledgements, and the writers' markers.
 */
#ifndef CONCLAVE_CONFIG_H
#define CONCLAVE_CONFIG_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_config;

struct conclave_config_node {
    const char *path; /* below the configuration's node, without the first slash; "" itself */
    const void *data; /* NULL: the null value */
    size_t data_len;
    int32_t version; /* of a stale one: -2 */
    int64_t mzxid;   /* of a stale one: 0 */
};

struct conclave_config_state {
    const struct conclave_config_node *const *nodes; /* ordered by path */
    size_t count;  /* 0: there is none; of a single value never more than 1 */
    int64_t zxid;  /* shows all changes up to there; 0: stale */
    int64_t mzxid; /* the largest of the nodes */
    bool stale;    /* from the file: the ensemble has not been reached yet */
};

/* Callbacks of one handle run one at a time. Any may be NULL. Their arguments live until they
 * return. */
struct conclave_config_callbacks {
    size_t size;
    /* Checks whether the program can use this state: 0, or any other value and a reason of one
     * line in why, which others can read. */
    int (*validate)(struct conclave_config *config, const struct conclave_config_state *state,
                    char *why, size_t why_len, void *ctx);

    /* Apply the state. 0: done; it is acknowledged and written to the file. Otherwise return a
     * code of conclave/error.h, or any other number, which goes into the acknowledgement. */
    int (*on_change)(struct conclave_config *config, const struct conclave_config_state *state,
                     void *ctx);

    /* The ensemble can no longer be reached (stale: the last state may be old), or can be reached
     * again. */
    void (*on_stale)(struct conclave_config *config, bool stale, void *ctx);

    /* The file could not be read (CONCLAVE_EIO, CONCLAVE_ECORRUPT) or written (CONCLAVE_EIO,
     * CONCLAVE_ENOSPACE). */
    void (*on_file_error)(struct conclave_config *config, int error, void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_config *config, int why, void *ctx);
};
#define CONCLAVE_CONFIG_CALLBACKS_INIT CONCLAVE_INIT(conclave_config_callbacks)

/* Begin with CONCLAVE_CONFIG_OPTIONS_INIT, then set what differs. */
struct conclave_config_options {
    size_t size;
    const char *path;
    bool tree;                      /* the node and all below it */
    const char *cache_file;         /* NULL: none */
    int64_t cache_wait_ms;          /* how long to wait for the ensemble before the file is used */
    const char *ack_id;             /* acknowledge under this name, without "/"; NULL: do not */
    const char *ack_path;           /* where; NULL: <path>.acks */
    int64_t debounce_ms;            /* collect changes for this time before callbacks */
    const struct conclave_acl *acl; /* of the acknowledgement's nodes; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_CONFIG_OPTIONS_INIT                                                               \
    CONCLAVE_INIT_WITH(conclave_config_options, CONCLAVE_SET(cache_wait_ms, 1000))

/* Watches a configuration. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, CONCLAVE_EFORK.
 * Files are read and written in the callbacks' thread. */
CONCLAVE_API int conclave_config_open(struct conclave_recipes *recipes,
                                      const struct conclave_config_options *options,
                                      const struct conclave_config_callbacks *callbacks, void *ctx,
                                      struct conclave_config **ret) CONCLAVE_MUST_USE;

/* Removes the acknowledgement, then on_closed. Asynchronous, any number of times, also from a
 * callback. */
CONCLAVE_API void conclave_config_close(struct conclave_config *config);

/* Closes and waits for on_closed to have returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
CONCLAVE_API int conclave_config_close_wait(struct conclave_config *config, int64_t timeout_ms);

/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_config_destroy(struct conclave_config *config);

/* --- the writer's side -------------------------------------------------------------- */

/* As the expected version of a put. */
#define CONCLAVE_CONFIG_ABSENT (-2) /* the node must not be there yet */
#define CONCLAVE_CONFIG_ANY (-3)    /* replace any version, compared with the one just read */

/* The result of a put. Begin with CONCLAVE_CONFIG_WRITTEN_INIT. */
struct conclave_config_written {
    size_t size;
    int32_t version;
    int64_t mzxid; /* to be waited for by conclave_config_wait_acked */
};
#define CONCLAVE_CONFIG_WRITTEN_INIT CONCLAVE_INIT(conclave_config_written)

/* Writes one node, and creates it with its parents if needed, by compare-and-set: exactly once,
 * even if an answer is lost. expected_version: that of the node, or one of the above. Blocking.
 * CONCLAVE_BAD_VERSION, CONCLAVE_NODE_EXISTS, CONCLAVE_NO_NODE: the node has another version,
 * nothing was done; CONCLAVE_ESEQWRAP: version -1, which cannot be compared; CONCLAVE_ETIMEDOUT:
 * not done yet, but it may still be carried out if it was already sent; CONCLAVE_EINVAL,
 * CONCLAVE_EDEADLK, CONCLAVE_NO_AUTH, ... */
CONCLAVE_API int conclave_config_put(struct conclave_recipes *recipes, const char *path,
                                     const void *data, size_t len, int32_t expected_version,
                                     int64_t timeout_ms,
                                     struct conclave_config_written *ret) CONCLAVE_MUST_USE;

/* One node of several that are written together. Begin with CONCLAVE_CONFIG_ENTRY_INIT. */
struct conclave_config_entry {
    size_t size;
    const char *path;
    const void *data;
    size_t len;
    int32_t expected_version; /* as of conclave_config_put */
};
#define CONCLAVE_CONFIG_ENTRY_INIT                                                                 \
    CONCLAVE_INIT_WITH(conclave_config_entry, CONCLAVE_SET(expected_version, CONCLAVE_CONFIG_ANY))

/* Writes all entries in one transaction, or none: a watcher of a tree that contains them sees all
 * old values or all new ones. *ret_mzxid (may be NULL) is the change's number. Exactly once, as
 * conclave_config_put, with one exception: CONCLAVE_CONNECTION_LOSS if the answer was lost and
 * another client wrote before the outcome could be checked. An entry below another one must come
 * after it, and be its direct child (otherwise CONCLAVE_EINVAL). The entries must fit into one
 * request (otherwise CONCLAVE_ETOOBIG). Other errors as conclave_config_put. */
CONCLAVE_API int conclave_config_put_many(struct conclave_recipes *recipes,
                                          const struct conclave_config_entry *entries, size_t count,
                                          int64_t timeout_ms, int64_t *ret_mzxid) CONCLAVE_MUST_USE;

/* The acknowledgement of one member. */
struct conclave_config_ack {
    const char *id;
    bool acked;    /* false: of the group, but no acknowledgement of it is there */
    int64_t zxid;  /* the state it has come to: this one or a later; 0: none yet */
    int64_t mzxid; /* of that state's newest node */
    int error;     /* 0: applied; CONCLAVE_ECANCELED: its validator refused it; else what on_change
                    * returned */
    const char *why; /* the validator's reason, or "" */
};

/* Begin with CONCLAVE_CONFIG_ACKS_OPTIONS_INIT, then set what differs. */
struct conclave_config_acks_options {
    size_t size;
    const char *path;       /* the configuration's */
    const char *ack_path;   /* NULL: <path>.acks */
    const char *group_path; /* its members must have acknowledged; NULL: all ids with an ack */
    int64_t zxid;           /* the put's mzxid, for which the call waits */
    size_t at_least;        /* minimum number of acks */
};
#define CONCLAVE_CONFIG_ACKS_OPTIONS_INIT CONCLAVE_INIT(conclave_config_acks_options)

/* Waits until every member has reached a state of zxid or later: one stage of a roll-out.
 * Blocking. 0: all have applied it; CONCLAVE_ECONFLICT: a member has refused or failed to apply
 * it, which is returned at once; CONCLAVE_ETIMEDOUT: some have not acknowledged. In these three
 * cases *ret is the list, by id, to be freed with conclave_config_acks_free. With zxid 0: the
 * present acknowledgements. */
CONCLAVE_API int conclave_config_wait_acked(struct conclave_recipes *recipes,
                                            const struct conclave_config_acks_options *options,
                                            int64_t timeout_ms, struct conclave_config_ack ***ret,
                                            size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_config_acks_free(struct conclave_config_ack **list, size_t count);

#ifdef __cplusplus
}
#endif
#endif
