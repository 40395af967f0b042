/*
 * Requests, replies and watches: what is asked of a server and what it answers.
 * conclave/client.h sends them.
 *
 * A request is a struct: fill what its type uses, zero the rest; the functions below build the
 * common ones. Inputs are copied before a call returns; what a callback is given lives until it
 * returns. Strings are UTF-8, NUL-terminated.
 */
#ifndef CONCLAVE_OP_H
#define CONCLAVE_OP_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_client;

/* --- nodes --------------------------------------------------------------------- */

/* A node's stat, as on the wire. zxids order all changes of an ensemble. */
struct conclave_stat {
    int64_t czxid;    /* of its creation: the fencing token of a lock node */
    int64_t mzxid;    /* of the last change of data */
    int64_t ctime_ms; /* wall clock of the server, milliseconds since 1970 */
    int64_t mtime_ms;
    int32_t version;         /* changes of data */
    int32_t cversion;        /* creations and deletions of children */
    int32_t aversion;        /* changes of the ACL */
    int64_t ephemeral_owner; /* session id, 0 for a lasting node */
    int32_t data_length;
    int32_t num_children;
    int64_t pzxid; /* of the last change of its children */
};

enum conclave_perm {
    CONCLAVE_PERM_READ = 1,
    CONCLAVE_PERM_WRITE = 2,
    CONCLAVE_PERM_CREATE = 4,
    CONCLAVE_PERM_DELETE = 8,
    CONCLAVE_PERM_ADMIN = 16,
    CONCLAVE_PERM_ALL = 31,
};

struct conclave_acl {
    int32_t perms; /* enum conclave_perm, or'ed */
    const char *scheme;
    const char *id;
};

enum conclave_create_mode {
    CONCLAVE_PERSISTENT = 0,
    CONCLAVE_EPHEMERAL = 1,
    CONCLAVE_PERSISTENT_SEQUENTIAL = 2,
    CONCLAVE_EPHEMERAL_SEQUENTIAL = 3,
    CONCLAVE_CONTAINER = 4, /* removed by the server when its last child went */
};

/* --- watches ------------------------------------------------------------------- */

enum conclave_event_type {
    CONCLAVE_EVENT_LOST = -1, /* the session ended, or the client was closed: the watch is gone */
    CONCLAVE_EVENT_CREATED = 1,
    CONCLAVE_EVENT_DELETED = 2,
    CONCLAVE_EVENT_DATA_CHANGED = 3,
    CONCLAVE_EVENT_CHILDREN_CHANGED = 4,
};
CONCLAVE_API const char *conclave_event_name(enum conclave_event_type type);

/*
 * Called exactly once for each watch that was set: with its event or with CONCLAVE_EVENT_LOST.
 * A watch is set when the request succeeded, for exists also when it was answered NO_NODE;
 * otherwise the function is never called. An event comes before the reply that shows the
 * change. Several watches on one path each get the event.
 */
typedef void (*conclave_watch_fn)(struct conclave_client *client, enum conclave_event_type type,
                                  const char *path, void *ctx);

/* --- requests ------------------------------------------------------------------ */

enum conclave_op_type {
    CONCLAVE_OP_CREATE, /* → path, stat where the server gives it */
    CONCLAVE_OP_DELETE,
    CONCLAVE_OP_EXISTS,       /* → stat */
    CONCLAVE_OP_GET,          /* → data, stat */
    CONCLAVE_OP_SET,          /* → stat */
    CONCLAVE_OP_GET_ACL,      /* → acl, stat */
    CONCLAVE_OP_SET_ACL,      /* → stat */
    CONCLAVE_OP_GET_CHILDREN, /* → children, stat */
    CONCLAVE_OP_SYNC,         /* → path; later reads see all that was acknowledged before */
    CONCLAVE_OP_CHECK,        /* only inside a multi: fails unless the version matches */
    CONCLAVE_OP_MULTI,        /* → results; all parts or none */
};

/* One request. Fill what its type uses, zero the rest; the functions below build the common
 * ones. */
struct conclave_op {
    enum conclave_op_type type;
    const char *path; /* below the chroot, "/" first */
    const void *data; /* CREATE, SET; NULL is the null value */
    size_t data_len;
    int32_t version; /* DELETE, SET, CHECK: expected version; SET_ACL: aversion; -1: any */
    enum conclave_create_mode mode; /* CREATE */
    const struct conclave_acl *acl; /* CREATE, SET_ACL; NULL: world:anyone may do all */
    size_t acl_count;
    conclave_watch_fn watch; /* EXISTS, GET, GET_CHILDREN; NULL: none */
    void *watch_ctx;
    const struct conclave_op *parts; /* MULTI: CREATE, DELETE, SET and CHECK */
    size_t parts_count;
    int64_t timeout_ms; /* of this request; 0: the client's request_timeout_ms */
};

/* DELETE, CHECK and the types that need nothing but a path (version is then not used). */
static inline struct conclave_op conclave_op_path(enum conclave_op_type type, const char *path,
                                                  int32_t version)
{
    struct conclave_op op;
    memset(&op, 0, sizeof op);
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
    const void *data; /* GET; NULL for the null value */
    size_t data_len;
    bool has_stat; /* stat is filled (Apache's op create inside a multi gives none) */
    struct conclave_stat stat;
    const char *const *children; /* GET_CHILDREN: names, in the server's order */
    size_t children_count;
    const struct conclave_acl *acl; /* GET_ACL */
    size_t acl_count;
    const struct conclave_reply *results; /* MULTI: one per part */
    size_t results_count;
};

typedef void (*conclave_reply_fn)(struct conclave_client *client,
                                  const struct conclave_reply *reply, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
