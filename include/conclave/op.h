/*
 * Requests to a server, replies and watches. conclave/client.h sends them.
 *
 * A request is a struct; the functions below build the common ones. Inputs are copied before a call returns; arguments of a callback
 * are valid until it returns. Strings are UTF-8, NUL-terminated.
 */
#ifndef CONCLAVE_OP_H
#define CONCLAVE_OP_H

#include <conclave/error.h>
#include <conclave/node.h>
#include <conclave/retry.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_client;

/* --- watches ------------------------------------------------------------------- */

enum conclave_event_type {
    /* a persistent watch was set again after a lost link: it may have missed changes, so read
     * again */
    CONCLAVE_EVENT_RESUMED = -2,
    CONCLAVE_EVENT_LOST = -1, /* the session ended, or the client was closed: the watch is gone */
    CONCLAVE_EVENT_CREATED = 1,
    CONCLAVE_EVENT_DELETED = 2,
    CONCLAVE_EVENT_DATA_CHANGED = 3,
    CONCLAVE_EVENT_CHILDREN_CHANGED = 4,
};
CONCLAVE_API const char *conclave_event_name(enum conclave_event_type type);

/*
 * A watch is set if the request succeeds, and for exists also if the answer is NO_NODE; otherwise
 * its function is never called. An event arrives before the reply that shows the change. Several
 * watches on one path each get the event.
 *
 * A watch of EXISTS, GET or GET_CHILDREN fires exactly once: with its event or with
 * CONCLAVE_EVENT_LOST. A change during a lost link is reported when the link is back.
 *
 * A watch of ADD_WATCH gets every change until it is removed (conclave_watch_remove) or lost:
 * CONCLAVE_EVENT_LOST comes exactly once, as the last event. Changes during a lost link are not
 * reported; CONCLAVE_EVENT_RESUMED tells that there may have been some.
 *
 * path: of the node that changed; the watch's own path with LOST and RESUMED.
 */
typedef void (*conclave_watch_fn)(struct conclave_client *client, enum conclave_event_type type,
                                  const char *path, void *ctx);

/* Which watches: of ADD_WATCH one of the persistent ones, of CHECK_WATCHES any. */
enum conclave_watch_kind {
    CONCLAVE_WATCH_CHILDREN = 1,
    CONCLAVE_WATCH_DATA = 2,
    CONCLAVE_WATCH_ANY = 3,        /* whatever its kind */
    CONCLAVE_WATCH_PERSISTENT = 4, /* all events of the path itself */
    /* created, deleted and data changed, of the path and of everything below it */
    CONCLAVE_WATCH_RECURSIVE = 5,
};

/* --- requests ------------------------------------------------------------------ */

enum conclave_op_type {
    CONCLAVE_OP_CREATE, /* → path, stat where the server gives it */
    CONCLAVE_OP_DELETE,
    CONCLAVE_OP_EXISTS,       /* → stat; needs READ on the node [3.9.2, before: nothing] */
    CONCLAVE_OP_GET,          /* → data, stat */
    CONCLAVE_OP_SET,          /* → stat */
    CONCLAVE_OP_GET_ACL,      /* → acl, stat */
    CONCLAVE_OP_SET_ACL,      /* → stat */
    CONCLAVE_OP_GET_CHILDREN, /* → children, stat */
    CONCLAVE_OP_SYNC,         /* → path; later reads see all that was acknowledged before */
    CONCLAVE_OP_CHECK,        /* only inside a multi: fails unless the version matches */
    CONCLAVE_OP_MULTI,        /* → results; all parts or none */
    /* The following need a server that supports them; others answer UNIMPLEMENTED, and may close
     * the link. The brackets name the first ZooKeeper version that has them. */
    CONCLAVE_OP_MULTI_READ, /* → results; each part succeeds or fails by itself [3.6] */
    CONCLAVE_OP_ADD_WATCH,  /* a persistent watch; the node need not exist [3.6] */
    /* NO_WATCHER unless the server keeps such a watch for this link [3.5; persistent ones 3.9] */
    CONCLAVE_OP_CHECK_WATCHES,
    /* → children: the paths of this session's ephemeral nodes that begin with path, byte for
     * byte; "/": all [3.6] */
    CONCLAVE_OP_GET_EPHEMERALS,
    CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER, /* → total_number, of all nodes below path [3.6] */
    CONCLAVE_OP_WHO_AM_I,                /* → identities of this link; no path [3.7] */
    CONCLAVE_OP_RECONFIG,                /* → data: the new configuration, stat; no path [3.5] */
};

/* A change of the ensemble's members, in the lines that zoo.cfg has for servers; lists are
 * separated by commas. Either joining and leaving, or members. Begin with
 * CONCLAVE_RECONFIG_INIT. */
struct conclave_reconfig {
    size_t size;
    const char *joining;    /* "server.4=host:port:port;port"; NULL: none */
    const char *leaving;    /* "3,2"; NULL: none */
    const char *members;    /* the complete new list; NULL: see joining and leaving */
    int64_t config_version; /* expected version of the configuration; -1: any */
};
#define CONCLAVE_RECONFIG_INIT                                                                     \
    CONCLAVE_INIT_WITH(conclave_reconfig, CONCLAVE_SET(config_version, -1))

/* One request. Begin with CONCLAVE_OP_INIT and fill the fields that its type uses, or take one of
 * the functions below, which build the common ones. */
struct conclave_op {
    size_t size;
    enum conclave_op_type type;
    const char *path; /* below the chroot, "/" first */
    const void *data; /* CREATE, SET; NULL is the null value */
    size_t data_len;
    int32_t version; /* DELETE, SET, CHECK: expected version; SET_ACL: aversion; -1: any */
    enum conclave_create_mode mode; /* CREATE */
    /* CREATE, persistent (sequential or not): the server removes the node when it has no children
     * and its data were not written for this time; 0: never. UNIMPLEMENTED if the server has this
     * switched off. */
    int64_t ttl_ms;
    /* CREATE, SET_ACL. NULL: for CREATE the client's ACL (conclave_client_options.acl), for
     * SET_ACL all permissions for world:anyone */
    const struct conclave_acl *acl;
    size_t acl_count;
    conclave_watch_fn watch; /* EXISTS, GET, GET_CHILDREN; NULL: none. ADD_WATCH: needed */
    void *watch_ctx;
    enum conclave_watch_kind watch_kind; /* ADD_WATCH, CHECK_WATCHES */
    /* MULTI: CREATE, DELETE, SET and CHECK; MULTI_READ: GET and GET_CHILDREN; all without watches,
     * and not linearizable by themselves */
    const struct conclave_op *parts;
    size_t parts_count;
    const struct conclave_reconfig *reconfig; /* RECONFIG */
    int64_t timeout_ms; /* of this request; 0: the client's request_timeout_ms */
    /* EXISTS, GET, GET_ACL, GET_CHILDREN, MULTI_READ (not its parts), GET_EPHEMERALS,
     * GET_ALL_CHILDREN_NUMBER: the answer shows every write that was acknowledged to anybody
     * before the request was made. The client sends a sync right before the read, and reports only
     * the read's answer; an error of the sync is an error of the read. This counts as two requests
     * until the sync is answered. Conclave's servers prove a sync by a quorum. ZooKeeper's servers
     * do not: there the answer may be old if the leader itself answers, or a deposed leader that
     * has not noticed yet. */
    bool linearizable;
    /* how this request is repeated; NULL: as the client's retry says. Not for a MULTI's parts */
    const struct conclave_retry_options *retry;
};
#define CONCLAVE_OP_INIT CONCLAVE_INIT(conclave_op)

/* DELETE, CHECK and the types that need only a path (they ignore version). */
static inline struct conclave_op conclave_op_path(enum conclave_op_type type, const char *path,
                                                  int32_t version)
{
    struct conclave_op op = CONCLAVE_OP_INIT;
    op.type = type;
    op.path = path;
    op.version = version;
    return op;
}

static inline struct conclave_op conclave_op_create(const char *path, const void *data, size_t len,
                                                    enum conclave_create_mode mode)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_CREATE, path, 0);
    op.data = data;
    op.data_len = len;
    op.mode = mode;
    return op;
}

static inline struct conclave_op conclave_op_set(const char *path, const void *data, size_t len,
                                                 int32_t version)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SET, path, version);
    op.data = data;
    op.data_len = len;
    return op;
}

/* EXISTS, GET and GET_CHILDREN with a watch. */
static inline struct conclave_op conclave_op_watch(enum conclave_op_type type, const char *path,
                                                   conclave_watch_fn watch, void *ctx)
{
    struct conclave_op op = conclave_op_path(type, path, 0);
    op.watch = watch;
    op.watch_ctx = ctx;
    return op;
}

/* ADD_WATCH: kind is CONCLAVE_WATCH_PERSISTENT or CONCLAVE_WATCH_RECURSIVE. */
static inline struct conclave_op conclave_op_add_watch(const char *path,
                                                       enum conclave_watch_kind kind,
                                                       conclave_watch_fn watch, void *ctx)
{
    struct conclave_op op = conclave_op_watch(CONCLAVE_OP_ADD_WATCH, path, watch, ctx);
    op.watch_kind = kind;
    return op;
}

static inline struct conclave_op conclave_op_multi(const struct conclave_op *parts, size_t count)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_MULTI, NULL, 0);
    op.parts = parts;
    op.parts_count = count;
    return op;
}

/* The answer to one request, or the result of one part of a multi. */
struct conclave_reply {
    int error;        /* 0, or why not; of a multi: the first part's error that counts */
    int64_t zxid;     /* of the change, or of the state that was read; 0 when not answered */
    const char *path; /* CREATE: the name made, sequence number included; SYNC */
    const void *data; /* GET; a NUL follows that does not count; NULL for the null value */
    size_t data_len;
    bool has_stat; /* stat is filled (not by a create without create2, nor in a MULTI_READ's
                      GET_CHILDREN) */
    struct conclave_stat stat;
    const char *const *children; /* GET_CHILDREN: names, in the server's order; GET_EPHEMERALS */
    size_t children_count;
    const struct conclave_acl *acl; /* GET_ACL */
    size_t acl_count;
    const struct conclave_identity *identities; /* WHO_AM_I */
    size_t identities_count;
    int64_t total_number;                        /* GET_ALL_CHILDREN_NUMBER */
    const struct conclave_reply *const *results; /* MULTI, MULTI_READ: one per part */
    size_t results_count;
};

typedef void (*conclave_reply_fn)(struct conclave_client *client,
                                  const struct conclave_reply *reply, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
