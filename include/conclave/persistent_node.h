/*
 * A node with plain data at a path of the program's choice that the library keeps there: it creates
 * the node again in a new session, after somebody deleted it and after the ensemble was rebuilt,
 * verifies it after every new link, and writes the data again if the server's differ.
 *
 * Modes:
 * - CONCLAVE_EPHEMERAL: goes with the session. A node of another client at the path is a conflict: the
 *   library waits until that node is gone and never deletes it. (Curator's PersistentNode deletes it.)
 * - CONCLAVE_EPHEMERAL_SEQUENTIAL: the same, and the server adds a number to the name. The library puts
 *   "_c_<uuid>-" before the last part of the path, as Curator with protection, so that a lost answer
 *   leaves one node. The name stays the same in later sessions.
 * - CONCLAVE_PERSISTENT, CONCLAVE_CONTAINER: stays when the session ends. Several programs may keep the same
 *   node. Each writes its data when it begins, when they change and when it creates the node again;
 *   what others write later stays. An ephemeral node at the path is a conflict.
 * - CONCLAVE_PERSISTENT with ttl_ms, in the layout of Curator's PersistentTtlNode: a container, and
 *   below it a node "touch" with this TTL, which the library writes every third of the TTL, so
 *   watchers of the node itself see none of this. When all programs that keep it have been gone for
 *   the TTL, the server removes "touch" and then the container (Apache ZooKeeper looks once a minute).
 *   The server must permit TTLs (extendedTypesEnabled): otherwise the handle ends with
 *   CONCLAVE_UNIMPLEMENTED.
 */
#ifndef CONCLAVE_PERSISTENT_NODE_H
#define CONCLAVE_PERSISTENT_NODE_H

#include <conclave/group.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_persistent_node;

/* Begin with CONCLAVE_PERSISTENT_NODE_CALLBACKS_INIT. Callbacks of one handle run one at a time; any may be
 * NULL. */
struct conclave_persistent_node_callbacks {
    size_t size;
    /* The latest state: whether the node exists with this handle's ownership (enum conclave_membership
     * of conclave/group.h: OUT, IN, UNSURE, CONFLICT). */
    void (*on_presence)(struct conclave_persistent_node *node, enum conclave_membership presence,
                        void *ctx);
    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_persistent_node *node, int why, void *ctx);
};
#define CONCLAVE_PERSISTENT_NODE_CALLBACKS_INIT CONCLAVE_INIT(conclave_persistent_node_callbacks)

/* Begin with CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT, then set what differs. */
struct conclave_persistent_node_options {
    size_t size;
    const char *path; /* missing parents are made as containers */
    const void *data; /* at most 512 KiB */
    size_t data_len;
    enum conclave_create_mode mode; /* not CONCLAVE_PERSISTENT_SEQUENTIAL */
    int64_t ttl_ms;                 /* with CONCLAVE_PERSISTENT: see above; 0: none */
    bool keep; /* closing lets a node stay that is not ephemeral; with a TTL, until that is over */
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
};
#define CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT                                                      \
    CONCLAVE_INIT_WITH(conclave_persistent_node_options, CONCLAVE_SET(mode, CONCLAVE_EPHEMERAL))

/* Begins to keep the node. 0, CONCLAVE_EINVAL (path, data, mode, TTL), CONCLAVE_ENOMEM, CONCLAVE_ECLOSED,
 * CONCLAVE_EFORK. Problems with the ensemble are reported later, by callback. */
CONCLAVE_API int
conclave_persistent_node_open(struct conclave_recipes *recipes,
                              const struct conclave_persistent_node_options *options,
                              const struct conclave_persistent_node_callbacks *callbacks, void *ctx,
                              struct conclave_persistent_node **ret) CONCLAVE_MUST_USE;

/* Changes the data; written now, or as soon as there is a link. 0, CONCLAVE_EINVAL (too long),
 * CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, CONCLAVE_EFORK. */
CONCLAVE_API int conclave_persistent_node_set_data(struct conclave_persistent_node *node,
                                                   const void *data, size_t len) CONCLAVE_MUST_USE;

/* Whether it is there, at this moment. */
CONCLAVE_API enum conclave_membership
conclave_persistent_node_presence(struct conclave_persistent_node *node);

/* The node's path, copied to buf and cut to len bytes with the NUL. A sequential node has none before it
 * was created: then "". 0, CONCLAVE_EEMPTY, CONCLAVE_ENOBUFS (cut), CONCLAVE_EFORK. */
CONCLAVE_API int conclave_persistent_node_path(struct conclave_persistent_node *node, char *buf,
                                               size_t len) CONCLAVE_MUST_USE;

/* Blocks until the node is there (with a TTL: until "touch" is, too). 0, CONCLAVE_ECONFLICT (not in this
 * time, because another client's node has the path), CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK, or why it
 * ended. */
CONCLAVE_API int conclave_persistent_node_wait(struct conclave_persistent_node *node,
                                               int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Removes the node (see keep; a node in which others have made nodes stays), then on_closed.
 * Asynchronous, any number of times, also from a callback. */
CONCLAVE_API void conclave_persistent_node_close(struct conclave_persistent_node *node);

/* Removes it and waits for on_closed to have returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
CONCLAVE_API int conclave_persistent_node_close_wait(struct conclave_persistent_node *node,
                                                     int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_persistent_node_destroy(struct conclave_persistent_node *node);

#ifdef __cplusplus
}
#endif
#endif
