/*
 * Keeps a node, a node with its children, or a whole subtree in memory and up to date, as Curator's
 * NodeCache, PathChildrenCache, TreeCache and CuratorCache do.
 *
 * Lookups send nothing and do not wait; any thread may make them. A lookup returns the node as it
 * was read. That copy never changes, and stays valid until the program frees it, even after the
 * cache is gone. No lookup shows an older version of a path than an earlier lookup or event did (as
 * long as the ensemble keeps its data). A lookup is never behind the reported events.
 *
 * Events. The cache reports changes in groups. A group begins with the deletions, children before
 * their parents; then follow creations and changes in the order of their zxids, parents before
 * their children. An event's `before` is the node that the path's previous event left. A program
 * that applies the events in order therefore always has the cache's tree. The cache leaves out
 * states between two reads: it can report three writes as one event, but it always reports a node
 * that was deleted and created again as deleted and created. on_settled follows a group whose
 * changes are all of one moment: the reported tree is then the ensemble's tree as of that zxid.
 *
 * Links. Without a link the cache keeps its content and is stale. On every new link it compares all
 * nodes with the ensemble, after a sync, and reports missed changes as events; then it is fresh
 * again. A server may cut a client off without notice. The client notices this after two thirds of
 * the session timeout, so a fresh cache can be behind by that time.
 *
 * Errors that do not pass stop the cache: CONCLAVE_ENOBUFS (more than max_bytes), CONCLAVE_ETOOBIG
 * (a list of children, or a node, larger than the client's max_reply), CONCLAVE_NO_AUTH (for the
 * cache's own node). It keeps what it has and stays stale; status and on_status name the error, and
 * a lookup of a path that it does not have returns this error instead of CONCLAVE_NO_NODE. Close it
 * then. The cache leaves out, and counts, nodes that the client may not read, with all below them.
 *
 * Servers since ZooKeeper 3.6 need one watch for the whole cache, older ones two for each node.
 */
#ifndef CONCLAVE_CACHE_H
#define CONCLAVE_CACHE_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_cache;

/* A node as it was read. Later versions of the library may add members at the end. */
struct conclave_cache_node {
    const char *path; /* absolute */
    const void *data; /* a NUL follows; NULL: the null value, or stats_only */
    size_t data_len;  /* 0 with stats_only: see stat->data_length */
    /* cversion, num_children, pzxid, aversion: as of some read; no event follows their changes */
    const struct conclave_stat *stat;
};

/* Several nodes, ordered by path; all of one moment of the cache. May grow at its end. */
struct conclave_cache_view {
    const struct conclave_cache_node *const *nodes;
    size_t count;
    int64_t zxid; /* as conclave_cache_status.zxid */
    bool fresh;
};

enum conclave_cache_change {
    CONCLAVE_CACHE_CREATED, /* after */
    CONCLAVE_CACHE_CHANGED, /* before, after: other data */
    CONCLAVE_CACHE_DELETED, /* before */
};

/* "CREATED", "CHANGED", "DELETED". Static. */
CONCLAVE_API const char *conclave_cache_change_name(enum conclave_cache_change change);

/* May grow at its end. */
struct conclave_cache_event {
    enum conclave_cache_change change;
    const struct conclave_cache_node *before; /* NULL: CREATED */
    const struct conclave_cache_node *after;  /* NULL: DELETED */
};

/* How the cache is. Begin with CONCLAVE_CACHE_STATUS_INIT. */
struct conclave_cache_status {
    size_t size;
    bool loaded;       /* everything was read once */
    bool fresh;        /* everything was compared since the link came, and the link is up */
    int64_t stale_ms;  /* time since it was fresh, or since it was opened; 0: fresh */
    int error;         /* 0, or why it has stopped */
    int64_t zxid;      /* shows all changes up to there; never goes back */
    size_t nodes;      /* present ones */
    size_t bytes;      /* memory of all nodes, and of versions that are not reported yet */
    size_t unreadable; /* nodes that the client may not read: absent here, with all below them */
};
#define CONCLAVE_CACHE_STATUS_INIT CONCLAVE_INIT(conclave_cache_status)

/* Callbacks of one cache run one at a time. Any may be NULL. Their arguments live until they
 * return. Begin with CONCLAVE_CACHE_CALLBACKS_INIT. */
struct conclave_cache_callbacks {
    size_t size;

    /* One change; the first content is reported as CREATED. */
    void (*on_event)(struct conclave_cache *cache, const struct conclave_cache_event *event,
                     void *ctx);

    /* The events so far give exactly the tree as of this zxid, which grows. */
    void (*on_settled)(struct conclave_cache *cache, int64_t zxid, void *ctx);

    /* Once: everything was read, and reported. */
    void (*on_loaded)(struct conclave_cache *cache, void *ctx);

    /* It became fresh or stale, or stopped. */
    void (*on_status)(struct conclave_cache *cache, const struct conclave_cache_status *status,
                      void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_cache *cache, int why, void *ctx);
};
#define CONCLAVE_CACHE_CALLBACKS_INIT CONCLAVE_INIT(conclave_cache_callbacks)

/* As depth: the node and all below it. */
#define CONCLAVE_CACHE_WHOLE (-1)

/*
 * Begin with CONCLAVE_CACHE_OPTIONS_INIT, then set what differs.
 *
 * Patterns select paths below the cache's node, written without a first slash. "*" stands for any
 * number of bytes of a name, "?" for one; no pattern matches across a slash. `only` keeps the nodes
 * that match one of its patterns, all below them, and the nodes on the way to them. `without`
 * leaves out the nodes that match one of its patterns, and all below them. The cache does not read
 * nodes that it leaves out.
 */
struct conclave_cache_options {
    size_t size;
    const char *path; /* "/" too; need not exist */
    int depth;        /* 0: the node alone, 1: with its children, ...; CONCLAVE_CACHE_WHOLE */
    bool stats_only;  /* without data; CHANGED still reports each change of them */
    size_t max_bytes; /* of memory, see status.bytes; 0: no limit */
    const char *const *only; /* NULL: everything */
    size_t only_count;
    const char *const *without;
    size_t without_count;
    int64_t debounce_ms; /* collect changes for this time before callbacks */
};
#define CONCLAVE_CACHE_OPTIONS_INIT                                                                \
    CONCLAVE_INIT_WITH(conclave_cache_options, CONCLAVE_SET(depth, CONCLAVE_CACHE_WHOLE)           \
                                                   CONCLAVE_SET(max_bytes, (size_t)256 << 20))

/* Begins to load. callbacks may be NULL. 0, CONCLAVE_EINVAL (path, depth, a pattern), CONCLAVE_ENOMEM,
 * CONCLAVE_ECLOSED, CONCLAVE_EFORK. */
CONCLAVE_API int conclave_cache_open(struct conclave_recipes *recipes,
                                     const struct conclave_cache_options *options,
                                     const struct conclave_cache_callbacks *callbacks, void *ctx,
                                     struct conclave_cache **ret) CONCLAVE_MUST_USE;

/* Waits until the cache is fresh and shows all changes up to zxid: 0 for any, or the mzxid of a
 * write that must be seen. Blocking. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK, or why it has stopped
 * or ended. */
CONCLAVE_API int conclave_cache_wait(struct conclave_cache *cache, int64_t zxid,
                                     int64_t timeout_ms) CONCLAVE_MUST_USE;

/* One node; free it with conclave_cache_node_free. 0; CONCLAVE_NO_NODE: there is none;
 * CONCLAVE_EDISCONNECTED: not known, as the cache has not been loaded; CONCLAVE_NO_AUTH: not
 * readable; CONCLAVE_EINVAL: a path that the cache does not hold (elsewhere, too deep, left out);
 * CONCLAVE_ECLOSED, CONCLAVE_EFORK, or why the cache has stopped. */
CONCLAVE_API int conclave_cache_get(struct conclave_cache *cache, const char *path,
                                    const struct conclave_cache_node **ret) CONCLAVE_MUST_USE;

/* Any thread, also after the cache was destroyed. NULL is allowed. */
CONCLAVE_API void conclave_cache_node_free(const struct conclave_cache_node *node);

/* The children of a node, or the node with all below it that the cache holds. Free the view with
 * conclave_cache_view_free. Before the cache has been loaded: CONCLAVE_EDISCONNECTED; after it has
 * stopped: the nodes that it has. Other errors as conclave_cache_get (of children also CONCLAVE_EINVAL for a node of
 * the largest depth), CONCLAVE_ENOMEM. */
CONCLAVE_API int conclave_cache_children(struct conclave_cache *cache, const char *path,
                                         struct conclave_cache_view **ret) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_cache_subtree(struct conclave_cache *cache, const char *path,
                                        struct conclave_cache_view **ret) CONCLAVE_MUST_USE;

/* Any thread, also after the cache was destroyed. NULL is allowed. */
CONCLAVE_API void conclave_cache_view_free(struct conclave_cache_view *view);

/* Fills status as far as its size goes. 0, CONCLAVE_EINVAL (size), CONCLAVE_EFORK. */
CONCLAVE_API int conclave_cache_status(struct conclave_cache *cache,
                                       struct conclave_cache_status *status) CONCLAVE_MUST_USE;

/* Stops following, then on_closed. Asynchronous, any number of times, also from a callback. Lookups
 * get CONCLAVE_ECLOSED from now on. */
CONCLAVE_API void conclave_cache_close(struct conclave_cache *cache);

/* Closes and waits for on_closed to have returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
CONCLAVE_API int conclave_cache_close_wait(struct conclave_cache *cache, int64_t timeout_ms);

/* Frees a closed cache. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_cache_destroy(struct conclave_cache *cache);

#ifdef __cplusplus
}
#endif
#endif
