/*
 * The operations of the protocol in one table: number, name, request and reply record, and flags. Source:
 * ZooDefs.OpCode of Apache ZooKeeper 3.9 and the switch of its FinalRequestProcessor.
 */
#ifndef WIRE_OPS_H
#define WIRE_OPS_H

#include "wire/records.h"

/* Properties of an operation, as bits. */
enum wire_op_flags {
    WIRE_OP_READ = 1,     /* answered from the local tree */
    WIRE_OP_WRITE = 2,    /* goes through the log */
    WIRE_OP_SESSION = 4,  /* about the connection or session itself */
    WIRE_OP_MULTI = 8,    /* allowed inside a multi */
    WIRE_OP_INTERNAL = 16 /* a client must not send it outside a multi */
};

/* X(NAME, number, "name", request record or none, reply record or none, flags) */
#define WIRE_OPS(X)                                                                                \
    X(NOTIFICATION, 0, "notification", none, watcher_event, WIRE_OP_INTERNAL)                      \
    X(CREATE, 1, "create", create_request, create_response, WIRE_OP_WRITE | WIRE_OP_MULTI)         \
    X(DELETE, 2, "delete", delete_request, none, WIRE_OP_WRITE | WIRE_OP_MULTI)                    \
    X(EXISTS, 3, "exists", exists_request, exists_response, WIRE_OP_READ)                          \
    X(GET_DATA, 4, "getData", get_data_request, get_data_response, WIRE_OP_READ)                   \
    X(SET_DATA, 5, "setData", set_data_request, set_data_response, WIRE_OP_WRITE | WIRE_OP_MULTI)  \
    X(GET_ACL, 6, "getACL", get_acl_request, get_acl_response, WIRE_OP_READ)                       \
    X(SET_ACL, 7, "setACL", set_acl_request, set_acl_response, WIRE_OP_WRITE)                      \
    X(GET_CHILDREN, 8, "getChildren", get_children_request, get_children_response, WIRE_OP_READ)   \
    X(SYNC, 9, "sync", sync_request, sync_response, WIRE_OP_READ)                                  \
    X(PING, 11, "ping", none, none, WIRE_OP_SESSION)                                               \
    X(GET_CHILDREN2, 12, "getChildren2", get_children2_request, get_children2_response,            \
      WIRE_OP_READ)                                                                                \
    X(CHECK, 13, "check", check_version_request, none,                                             \
      WIRE_OP_WRITE | WIRE_OP_MULTI | WIRE_OP_INTERNAL)                                            \
    X(MULTI, 14, "multi", none, none, WIRE_OP_WRITE)                                               \
    X(CREATE2, 15, "create2", create_request, create2_response, WIRE_OP_WRITE | WIRE_OP_MULTI)     \
    X(RECONFIG, 16, "reconfig", reconfig_request, get_data_response, WIRE_OP_WRITE)                \
    X(CHECK_WATCHES, 17, "checkWatches", check_watches_request, none, WIRE_OP_READ)                \
    X(REMOVE_WATCHES, 18, "removeWatches", remove_watches_request, none, WIRE_OP_READ)             \
    X(CREATE_CONTAINER, 19, "createContainer", create_request, create2_response,                   \
      WIRE_OP_WRITE | WIRE_OP_MULTI)                                                               \
    X(DELETE_CONTAINER, 20, "deleteContainer", none, none, WIRE_OP_WRITE | WIRE_OP_INTERNAL)       \
    X(CREATE_TTL, 21, "createTTL", create_ttl_request, create2_response,                           \
      WIRE_OP_WRITE | WIRE_OP_MULTI)                                                               \
    X(MULTI_READ, 22, "multiRead", none, none, WIRE_OP_READ)                                       \
    X(AUTH, 100, "auth", auth_packet, none, WIRE_OP_SESSION)                                       \
    X(SET_WATCHES, 101, "setWatches", set_watches, none, WIRE_OP_READ)                             \
    X(SASL, 102, "sasl", sasl_request, sasl_response, WIRE_OP_SESSION)                             \
    X(GET_EPHEMERALS, 103, "getEphemerals", get_ephemerals_request, get_ephemerals_response,       \
      WIRE_OP_READ)                                                                                \
    X(GET_ALL_CHILDREN_NUMBER, 104, "getAllChildrenNumber", get_all_children_number_request,       \
      get_all_children_number_response, WIRE_OP_READ)                                              \
    X(SET_WATCHES2, 105, "setWatches2", set_watches2, none, WIRE_OP_READ)                          \
    X(ADD_WATCH, 106, "addWatch", add_watch_request, error_response, WIRE_OP_READ)                 \
    X(WHO_AM_I, 107, "whoAmI", none, who_am_i_response, WIRE_OP_READ)                              \
    X(CREATE_SESSION, -10, "createSession", none, none, WIRE_OP_WRITE | WIRE_OP_INTERNAL)          \
    X(CLOSE_SESSION, -11, "closeSession", none, none, WIRE_OP_WRITE)                               \
    X(ERROR, -1, "error", none, error_response, WIRE_OP_INTERNAL)

enum wire_op {
#define WIRE_OP_ENUM(NAME, number, name, request, reply, flags) WIRE_##NAME = number,
    WIRE_OPS(WIRE_OP_ENUM)
#undef WIRE_OP_ENUM
};

/* Transaction ids (xid) that the protocol reserves. */
enum wire_xid {
    WIRE_XID_NOTIFICATION = -1,
    WIRE_XID_PING = -2,
    WIRE_XID_AUTH = -4,
    WIRE_XID_SET_WATCHES = -8,
};

/* Flags of create: CreateMode. */
enum wire_create_mode {
    WIRE_MODE_PERSISTENT = 0,
    WIRE_MODE_EPHEMERAL = 1,
    WIRE_MODE_PERSISTENT_SEQUENTIAL = 2,
    WIRE_MODE_EPHEMERAL_SEQUENTIAL = 3,
    WIRE_MODE_CONTAINER = 4,
    WIRE_MODE_PERSISTENT_TTL = 5,
    WIRE_MODE_PERSISTENT_SEQUENTIAL_TTL = 6,
};

/* Types of watch events: Watcher.Event.EventType. */
enum wire_event_type {
    WIRE_EVENT_NONE = -1,
    WIRE_EVENT_NODE_CREATED = 1,
    WIRE_EVENT_NODE_DELETED = 2,
    WIRE_EVENT_NODE_DATA_CHANGED = 3,
    WIRE_EVENT_NODE_CHILDREN_CHANGED = 4,
};

/* Permissions of an ACL entry: ZooDefs.Perms. */
enum wire_perm {
    WIRE_PERM_READ = 1,
    WIRE_PERM_WRITE = 2,
    WIRE_PERM_CREATE = 4,
    WIRE_PERM_DELETE = 8,
    WIRE_PERM_ADMIN = 16,
    WIRE_PERM_ALL = 31,
};

enum {
    WIRE_STATE_SYNC_CONNECTED = 3, /* state in every event that a server sends */
    WIRE_PASSWD_LEN = 16,          /* session password */
    WIRE_FRAME_MAX = 0xfffff,      /* jute.maxbuffer's default: the whole packet */
};

/* The extension that a client may request when it connects; other clients never see it. */
enum {
    WIRE_EXTENSION_MAGIC = 0x436f6e63, /* "Conc" */
    WIRE_FEATURE_EXACTLY_ONCE = 1,     /* a bit of `features` */
    WIRE_FEATURE_SPANS = 2,            /* needs no grant: the client exports spans, too */
    WIRE_WRITE_NUMBER_LEN = 4 + 4,     /* of a write_number */
};

/* Name of an operation ("getData"); NULL: unknown number. */
const char *wire_op_name(int32_t op);

/* enum wire_op_flags of an operation; 0: unknown number. */
int wire_op_flags(int32_t op);

/* Appends a readable form of a request or reply body, for logs and dumps; a body that cannot be decoded is shown as its
 * length. multi and multiRead show their parts. */
void wire_print_request(struct buf *out, int32_t op, struct slice body);
void wire_print_reply(struct buf *out, int32_t op, struct slice body);

#endif
