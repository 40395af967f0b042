/*
 * What stands in the log: batches of commands. A command is a client's write as it came off the
 * wire, with everything stamped on it that apply may not find out by itself (time, session,
 * ids). One log entry holds one batch: the writes of one loop turn of one server.
 *
 * Batch, big-endian as the wire: version i8 (4), origin i64, sequence i64, previous i64, time_ms
 * i64, count i32, then per command: session i64, cxid i32, type i32, options i32, ids (vector of
 * id), body (buffer); with COMMAND_NUMBERED number i32 and unanswered i32 stand behind the options.
 * Version 2, of older logs, has no `previous`; it is read and never written.
 *
 * The other kind of entry is a replacement: from here on the state is that of a snapshot. Version i8 (3), origin i64,
 * id i64, then the bytes that state_snapshot_step gave.
 */
#ifndef STATE_COMMAND_H
#define STATE_COMMAND_H

#include "wire/ops.h"

/* What the server that took the command in is configured to permit, as bits. Servers may differ in
 * it for a while; apply must not. */
enum command_options {
    COMMAND_TTL = 1,        /* nodes with a TTL may be created: extendedTypesEnabled */
    COMMAND_QUOTA = 2,      /* quotas are enforced: enforceQuota */
    COMMAND_RECONFIG = 4,   /* the ensemble may be reconfigured: reconfigEnabled */
    COMMAND_SASL = 8,       /* ids of the scheme sasl may be put into ACLs: authProvider.N */
    COMMAND_X509 = 16,      /* and those of x509: TLS with clients' certificates */
    COMMAND_ENSEMBLE = 32,  /* a server that is alone may be joined by others */
    COMMAND_ALONE = 64,     /* one voter may be left of several: standaloneEnabled=false */
    COMMAND_FENCING = 128,  /* prefixes may be bound to locks: fencing.enabled */
    COMMAND_LOCAL = 1024,   /* no permission: the session is known to the command's server only */
    COMMAND_NUMBERED = 256, /* no permission: the command has a number */
    COMMAND_LEAVING =
        512, /* no permission: a reconfig is answered while the members that it removes
                               still get the log. Commands of older servers do not have it */
    COMMAND_NO_DIGEST = 2048, /* no ids of digest may be put into ACLs:
                                 DigestAuthenticationProvider.enabled=false */
    COMMAND_BOUNDED =
        4096, /* no permission: its cost was checked, and apply keeps to its ceilings (command_bounds.h) */
};

/* Commands that are no operation of the protocol, beside those of enum wire_op. */
enum command_type {
    /* A client goes on with its session on this server. Takes no zxid. */
    COMMAND_ATTACH_SESSION = -1001,
    /* The leader gives a reconfiguration up. Body as made by reconfig_end_encode. */
    COMMAND_RECONFIG_END = -1002,
    /* The leader makes /zookeeper/fence. Body empty. */
    COMMAND_FENCE_OPEN = -1003,
    /* The leader closes the ACLs that a new tree has: / may not be administered by everybody any more, and
     * /zookeeper/quota only be read, unless somebody changed them before. Body empty. */
    COMMAND_CLOSE_ACLS = -1010,
};

/* Whether a write makes a node that belongs to its session: a local session cannot do that. */
bool write_makes_ephemeral(int32_t type, struct slice body);

struct command {
    int64_t session_id; /* who asked; for CREATE_SESSION the new session */
    int32_t cxid;       /* xid of the client's request, 0 for the server's own */
    int32_t type;       /* enum wire_op: a write, CREATE_SESSION, CLOSE_SESSION or DELETE_CONTAINER;
                           or enum command_type */
    struct wire_vector ids; /* authenticated ids of the caller (vector of wire_id) */
    struct slice body;      /* the request record as received; CREATE_SESSION, ATTACH_SESSION:
                               wire_connect_response (timeout_ms negotiated, session_id, passwd),
                               and behind it, if the session's results are to be remembered, how
                               many at most i32 and their bytes i32; CLOSE_SESSION: empty;
                               DELETE_CONTAINER: as made by spent_encode */
    uint32_t options;       /* enum command_options */
    /* With COMMAND_NUMBERED. Numbers grow by one from write to write of a session, and wrap. */
    int32_t number;     /* of this write: one that comes again has the same */
    int32_t unanswered; /* of the oldest write whose answer the client still waits for */
};

/* The body of RECONFIG_END: which one (state_reconfig.zxid), and the error that its client gets. */
void reconfig_end_encode(struct buf *out, int64_t zxid, int32_t err);

/* Whom a batch comes from that the leader made by itself: nobody sends it again. */
#define BATCH_ORIGIN_LEADER 0
/* batch_header.previous of a batch of version 2. */
#define BATCH_PREVIOUS_UNKNOWN (-1)

struct batch_header {
    int64_t origin;   /* server id of the server that gathered it, or BATCH_ORIGIN_LEADER */
    int64_t sequence; /* grows from batch to batch of an origin, also from run to run; above 0 */
    int64_t previous; /* sequence of the batch before it; 0: it is the first of its origin's run */
    int64_t time_ms;  /* wall clock for ctime and mtime, the same for all its commands */
    int32_t count;    /* commands */
};

/* A container or a node with a TTL that nobody needs any more. It is deleted only if it is still
 * the one that was found, as it was found. */
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

/* Gives the batch that b holds another time: the leader's, when it came from another server. 0, or
 * CONCLAVE_ECORRUPT when the bytes are no batch of the version that is written. */
int batch_stamp_time(struct buf *b, int64_t time_ms) CONCLAVE_MUST_USE;

/* The whole state is replaced. */
struct replacement {
    int64_t origin; /* server id of the server that proposed it */
    int64_t id;     /* that server's name for it */
    struct slice snapshot;
};

/* Appends a replacement but for the snapshot, which is appended behind it. */
void replacement_begin(struct buf *b, int64_t origin, int64_t id);

/* Whether a log entry is one, and no batch. */
bool replacement_is(struct slice entry);

/* 0 or CONCLAVE_ECORRUPT; borrows. */
int replacement_open(struct slice entry, struct replacement *ret) CONCLAVE_MUST_USE;

/* Commands of a batch, read one by one; everything borrowed from the bytes given. */
struct batch_reader {
    struct batch_header header;
    struct wire_reader reader;
    int32_t left; /* commands not read yet */
};

/* 0, or CONCLAVE_ECORRUPT when the bytes are no batch of a known version. */
int batch_open(struct slice bytes, struct batch_reader *ret) CONCLAVE_MUST_USE;

/* 1 and *ret, 0 at the end, CONCLAVE_ECORRUPT when the bytes end early. */
int batch_next(struct batch_reader *b, struct command *ret) CONCLAVE_MUST_USE;

#endif
