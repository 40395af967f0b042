/*
 * The content of the log: batches of commands. A command is a client's write as it came from the wire, with everything
 * stamped on it that apply must not find out by itself (time, session, ids). One log entry holds one batch: the writes
 * of one loop turn of one server.
 *
 * Batch, big-endian as the wire: version i8 (4), origin i64, sequence i64, previous i64, time_ms i64, count i32, then
 * per command: session i64, cxid i32, type i32, options i32, ids (vector of id), body (buffer); with COMMAND_NUMBERED,
 * number i32 and unanswered i32 follow the options. Version 2, in older logs, has no `previous`; it is read but never
 * written.
 *
 * The other kind of entry is a replacement: state/replacement.h.
 */
#ifndef STATE_ENTRY_COMMAND_H
#define STATE_ENTRY_COMMAND_H

#include "wire/ops.h"

/* What the configuration of the server that received the command permits, as bits. Servers may be configured
 * differently; apply must have the same outcome on all. */
enum command_options {
    COMMAND_TTL = 1,        /* nodes with a TTL may be created: extendedTypesEnabled */
    COMMAND_QUOTA = 2,      /* quotas are enforced: enforceQuota */
    COMMAND_RECONFIG = 4,   /* the ensemble may be reconfigured: reconfigEnabled */
    COMMAND_SASL = 8,       /* ACLs may contain ids of the scheme sasl: authProvider.N */
    COMMAND_X509 = 16,      /* ACLs may contain ids of x509: TLS with clients' certificates */
    COMMAND_ENSEMBLE = 32,  /* others may join a standalone server */
    COMMAND_ALONE = 64,     /* a reconfig may leave one voter: standaloneEnabled=false */
    COMMAND_FENCING = 128,  /* prefixes may be bound to locks: fencing.enabled */
    COMMAND_LOCAL = 1024,   /* no permission: only the command's server knows the session */
    COMMAND_NUMBERED = 256, /* no permission: the command has a number */
    COMMAND_LEAVING =
        512, /* no permission: a reconfig is answered while the members that it removes
                               still get the log. Commands of older servers lack it */
    COMMAND_NO_DIGEST = 2048, /* ACLs must not contain ids of digest:
                                 DigestAuthenticationProvider.enabled=false */
    COMMAND_BOUNDED =
        4096, /* no permission: its cost was checked, and apply enforces its ceilings (command_bounds.h) */
};

/* Commands that are not operations of the protocol, besides those of enum wire_op. */
enum command_type {
    /* A client resumes its session on this server. Takes no zxid. */
    COMMAND_ATTACH_SESSION = -1001,
    /* The leader ends a reconfig without success. Body as from reconfig_end_encode. */
    COMMAND_RECONFIG_END = -1002,
    /* The leader creates /zookeeper/fence. Body empty. */
    COMMAND_FENCE_OPEN = -1003,
    /* The leader closes the ACLs of a new tree, unless a client has changed them: clients lose ADMIN on /, and may only
     * read /zookeeper and /zookeeper/quota. Body empty. */
    COMMAND_CLOSE_ACLS = -1010,
    /* A mirror of an Apache ZooKeeper begins, ends, or gets a transaction: see state/mirror.h. */
    COMMAND_MIRROR_BEGIN = -1011,
    COMMAND_MIRROR_END = -1012,
    COMMAND_MIRROR_TRANSACTION = -1013,
};

struct command {
    int64_t session_id; /* session of the client; for CREATE_SESSION the new session */
    int32_t cxid;       /* xid of the client's request, 0 for the server's own */
    int32_t type;       /* enum wire_op: a write, CREATE_SESSION, CLOSE_SESSION or DELETE_CONTAINER;
                           or enum command_type */
    struct wire_vector ids; /* authenticated ids of the caller (vector of wire_id) */
    struct slice body;      /* the request record as received; CREATE_SESSION, ATTACH_SESSION:
                               wire_connect_response (timeout_ms negotiated, session_id, passwd),
                               and then, if results are to be remembered, their
                               limits: number i32 and bytes i32; CLOSE_SESSION: empty,
                               or the name of the operator who ends the session;
                               DELETE_CONTAINER: as from spent_encode */
    uint32_t options;       /* enum command_options */
    /* With COMMAND_NUMBERED. Numbers grow by one with each write of a session, and wrap. */
    int32_t number;     /* number of this write; a repetition has the same */
    int32_t unanswered; /* number of the oldest write without an answer */
};

/* The body of RECONFIG_END: the reconfig (state_reconfig.zxid), and the error for its client. */
void reconfig_end_encode(struct buf *out, int64_t zxid, int32_t err);

/* The origin of batches that the leader makes itself; they are never sent again. */
#define BATCH_ORIGIN_LEADER 0
/* batch_header.previous of a batch of version 2. */
#define BATCH_PREVIOUS_UNKNOWN (-1)

struct batch_header {
    int64_t origin;   /* server id of the server that gathered it, or BATCH_ORIGIN_LEADER */
    int64_t sequence; /* grows with each batch of an origin, also across runs; above 0 */
    int64_t previous; /* sequence of the previous batch; 0: the first of its origin's run */
    int64_t time_ms;  /* wall clock for ctime and mtime, the same for all its commands */
    int32_t count;    /* commands */
};

/* A container or a node with a TTL that is no longer needed. Apply deletes it only if it has not changed since it was
 * found. */
struct spent {
    struct slice path;
    int64_t czxid;
    int64_t mzxid;
};

/* The body of a DELETE_CONTAINER command. Decode gives 0 or CONCLAVE_MARSHALLING_ERROR. */
void spent_encode(struct buf *out, const struct spent *spent);
int spent_decode(struct slice body, struct spent *ret) CONCLAVE_MUST_USE;

/* Appends an empty batch; batch_add appends to the batch that began at `start` in b. */
void batch_begin(struct buf *b, const struct batch_header *header);
void batch_add(struct buf *b, size_t start, const struct command *command);

/* Replaces the time of the batch in b by the leader's, when it came from another server. 0, or CONCLAVE_ECORRUPT: not a
 * batch of the current version. */
int batch_stamp_time(struct buf *b, int64_t time_ms) CONCLAVE_MUST_USE;

/* Reads the commands of a batch one by one; everything is borrowed from the given bytes. */
struct batch_reader {
    struct batch_header header;
    struct wire_reader reader;
    int32_t left; /* unread commands */
};

/* 0, or CONCLAVE_ECORRUPT: not a batch of a known version. */
int batch_open(struct slice bytes, struct batch_reader *ret) CONCLAVE_MUST_USE;

/* 1 and *ret; 0: the end; CONCLAVE_ECORRUPT: the bytes end early. */
int batch_next(struct batch_reader *b, struct command *ret) CONCLAVE_MUST_USE;

#endif
