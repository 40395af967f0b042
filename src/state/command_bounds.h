/*
 * What one command may cost. The server that receives a request checks it against its own configuration before it
 * proposes it: a refused request never gets into a log. COMMAND_BOUNDED marks a command that was checked; apply refuses
 * such a command beyond the ceilings below, which are the same everywhere. A command without the mark comes from a log
 * of an earlier version: it is applied as that version did, so that a replay gives the same state.
 *
 * Only new nodes and lists are bounded: clients can read, change and delete existing nodes with longer paths and lists.
 */
#ifndef STATE_COMMAND_BOUNDS_H
#define STATE_COMMAND_BOUNDS_H

#include "tree/acl_rules.h"
#include "wire/ops.h"

struct command_bounds {
    int64_t parts;         /* operations of a multi or a multiRead */
    int64_t path_bytes;    /* path of a new node */
    int64_t path_depth;    /* components of that path */
    struct acl_limits acl; /* of one list; all lists of a command: see command_bounds_acl */
    int64_t ids;           /* ids of the caller */
};

enum {
    BOUNDS_PARTS = 65536,
    BOUNDS_PATH_BYTES = 65536,
    BOUNDS_PATH_DEPTH = 4096,
    BOUNDS_ACL_ENTRIES = 1024,
    BOUNDS_ACL_BYTES = 65536,
    BOUNDS_IDS = 128,
    BOUNDS_MEMBERS = 256,     /* servers in one list of a reconfig */
    BOUNDS_QUOTA_TEXT = 1024, /* bytes of a quota's limits or counts */
    BOUNDS_EPHEMERAL_BYTES =
        64 << 20,           /* paths of one session's nodes, which are deleted in one command */
    BOUNDS_NODES = 1 << 20, /* nodes that a command visits besides those that it names */
};

/* The limits that apply enforces. */
extern const struct command_bounds command_ceilings;

/* Whether a request may be proposed: 0, CONCLAVE_INVALID_ACL or CONCLAVE_BAD_ARGUMENTS; or, as state_check_write,
 * CONCLAVE_MARSHALLING_ERROR. Apply reports all other errors. */
int command_bounds_check(const struct command_bounds *b, int32_t type, struct slice body,
                         struct wire_vector ids);

/* Whether a node may be created at a path. */
bool command_bounds_path(const struct command_bounds *b, struct slice path);

/* Whether a list may be stored, as one more of a command of command_bytes; *total counts the bytes of all its lists.
 * Together they may have the bytes of one list and 16 for each byte of the command: all ids of the caller replace an
 * "auth", so that few bytes ask for many. */
bool command_bounds_acl(const struct command_bounds *b, struct wire_vector asked,
                        struct wire_vector ids, size_t command_bytes, int64_t *total);

/* Whether a reconfig names no more servers in a list than there can be. */
bool command_bounds_reconfig(const struct wire_reconfig_request *r);

#endif
