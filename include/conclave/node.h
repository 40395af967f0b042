/*
 * The stat, ACL and create modes of a node. The requests of conclave/op.h read and change them.
 */
#ifndef CONCLAVE_NODE_H
#define CONCLAVE_NODE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A node's stat, as on the wire. zxids order all changes of an ensemble. */
struct conclave_stat {
    int64_t czxid;    /* of its creation: the fencing token of a lock node */
    int64_t mzxid;    /* of the last change of data */
    int64_t ctime_ms; /* wall clock of the server, milliseconds since 1970 */
    int64_t mtime_ms;
    int32_t version;         /* changes of data */
    int32_t cversion;        /* creations and deletions of children */
    int32_t aversion;        /* changes of the ACL */
    int64_t ephemeral_owner; /* session id, 0 for a persistent node */
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
    CONCLAVE_CONTAINER = 4, /* removed by the server after its last child is removed */
};

/* Longest ttl_ms that a server keeps: about 34 years. */
#define CONCLAVE_TTL_MAX_MS ((int64_t)0xffffffffff)

/* An authenticated id of a client: "digest" and the user's name, "ip" and the address, "sasl",
 * "x509", ... */
struct conclave_identity {
    const char *scheme;
    const char *id;
};

#ifdef __cplusplus
}
#endif
#endif
