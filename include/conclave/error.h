/*
 * The one list of errors: code, name, text and whether trying again can help.
 *
 * Codes from -1 to -999 are ZooKeeper's own, with ZooKeeper's numbers (KeeperException.Code), so
 * that a code read from the wire is a code of this list. Codes from -1000 down are Conclave's and
 * never travel on the wire. Every function of the library returns 0 or one of these.
 */
#ifndef CONCLAVE_ERROR_H
#define CONCLAVE_ERROR_H

#include <conclave/version.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CONCLAVE_API __attribute__((visibility("default")))
#define CONCLAVE_MUST_USE __attribute__((warn_unused_result))
#else
#define CONCLAVE_API
#define CONCLAVE_MUST_USE
#endif

/*
 * Structs may get more members in later versions, at their end; programs need not be compiled again:
 *
 * - A struct that the program fills begins with its size. Begin with its *_INIT macro, or with a
 *   function that makes it, then set what differs. Members that an older program does not know have
 *   the defaults of the macro. The library refuses (CONCLAVE_EINVAL) a struct without a size, and
 *   one of newer headers in which a member is set that it does not know. All elements of an array
 *   have the same size.
 * - A struct that the library fills in the program's memory (conclave_session) begins with its
 *   size, too. The library sets as many members as it has.
 * - What the library returns by a pointer, such as replies and views, may be longer than the program
 *   knows: use the pointers, do not copy the structs. A list of structs is an array of pointers to
 *   them for this reason.
 * - conclave_stat, conclave_acl, conclave_identity, conclave_token and conclave_token_gate never
 *   change; conclave_lease_options has members in reserve.
 *
 * The value of an *_INIT macro: `size` and the given defaults, all other members 0. In C++ (11 or
 * later) it is an expression, because designated initialisers are no standard C++ before 20.
 */
#ifdef __cplusplus
#define CONCLAVE_INIT_WITH(tag, defaults)                                                          \
    ([] {                                                                                          \
        struct tag conclave_init = {};                                                             \
        conclave_init.size = sizeof(struct tag);                                                   \
        defaults return conclave_init;                                                             \
    }())
#define CONCLAVE_SET(member, value) conclave_init.member = value;
#else
#define CONCLAVE_INIT_WITH(tag, defaults)                                                          \
    {                                                                                              \
        .size = sizeof(struct tag), defaults                                                       \
    }
#define CONCLAVE_SET(member, value) .member = value,
#endif
#define CONCLAVE_INIT(tag) CONCLAVE_INIT_WITH(tag, )

/* X(name, code, retry, text): retry says that the same call may succeed later, unchanged. */
#define CONCLAVE_ERROR_MAP(X)                                                                      \
    X(OK, 0, false, "success")                                                                     \
    X(SYSTEM_ERROR, -1, false, "the server failed internally")                                     \
    X(RUNTIME_INCONSISTENCY, -2, false, "not tried: another operation of the transaction failed")  \
    X(DATA_INCONSISTENCY, -3, false, "the server found its data inconsistent")                     \
    X(CONNECTION_LOSS, -4, true, "connection lost: the outcome of the request is unknown")         \
    X(MARSHALLING_ERROR, -5, false, "the request or reply could not be decoded")                   \
    X(UNIMPLEMENTED, -6, false, "the server does not support this operation")                      \
    X(OPERATION_TIMEOUT, -7, true, "the operation took too long")                                  \
    X(BAD_ARGUMENTS, -8, false, "bad argument, most often a malformed path")                       \
    X(UNKNOWN_SESSION, -12, false, "the server does not know the session")                         \
    X(NEW_CONFIG_NO_QUORUM, -13, true, "no quorum of the new configuration is connected")          \
    X(RECONFIG_IN_PROGRESS, -14, true, "another reconfiguration is in progress")                   \
    X(API_ERROR, -100, false, "error of the ZooKeeper API")                                        \
    X(NO_NODE, -101, false, "no node at this path")                                                \
    X(NO_AUTH, -102, false, "not permitted by the node's ACL")                                     \
    X(BAD_VERSION, -103, false, "the version does not match")                                      \
    X(NO_CHILDREN_FOR_EPHEMERALS, -108, false, "ephemeral nodes cannot have children")             \
    X(NODE_EXISTS, -110, false, "a node exists at this path")                                      \
    X(NOT_EMPTY, -111, false, "the node has children")                                             \
    X(SESSION_EXPIRED, -112, false, "the session has expired")                                     \
    X(INVALID_CALLBACK, -113, false, "invalid callback")                                           \
    X(INVALID_ACL, -114, false, "the ACL is empty or invalid")                                     \
    X(AUTH_FAILED, -115, false, "authentication failed")                                           \
    X(SESSION_MOVED, -118, true, "the session moved to another server")                            \
    X(NOT_READ_ONLY, -119, true, "the server is read-only and refuses the write")                  \
    X(EPHEMERAL_ON_LOCAL_SESSION, -120, false, "local sessions cannot own ephemeral nodes")        \
    X(NO_WATCHER, -121, false, "no such watch")                                                    \
    X(REQUEST_TIMEOUT, -122, true, "the request timed out")                                        \
    X(RECONFIG_DISABLED, -123, false, "reconfiguration is disabled")                               \
    X(SESSION_CLOSED_REQUIRE_AUTH, -124, false, "the server requires authentication first")        \
    X(QUOTA_EXCEEDED, -125, false, "the quota is exceeded")                                        \
    X(THROTTLED, -127, true, "the server is overloaded and refused the request")                   \
    X(EINVAL, -1000, false, "invalid argument to the library")                                     \
    X(ENOMEM, -1001, true, "out of memory")                                                        \
    X(ETIMEDOUT, -1002, true, "not done within the time given")                                    \
    X(ECANCELED, -1003, false, "canceled")                                                         \
    X(EBUSY, -1004, true, "held by another")                                                       \
    X(ECLOSED, -1005, false, "the handle is closed")                                               \
    X(ELOST, -1006, false, "lost: the lease ended or the node is gone")                            \
    X(EFENCED, -1007, false, "fenced: the token is no longer the newest")                          \
    X(ENOTOWNER, -1008, false, "the caller does not own it")                                       \
    X(EDEADLK, -1009, false,                                                                       \
      "would wait for itself: a blocking call in a callback, or a lock that this owner holds")     \
    X(ECONFLICT, -1010, false, "conflicts with what another participant set")                      \
    X(EEMPTY, -1011, true, "empty")                                                                \
    X(ENOBUFS, -1012, false, "the buffer or limit is too small")                                   \
    X(ETOOBIG, -1013, false, "larger than the limit allows")                                       \
    X(ESEQWRAP, -1014, false, "the sequence numbers of this parent ran out")                       \
    X(EFORK, -1015, false, "the handle belongs to the parent process")                             \
    X(EUNSUPPORTED, -1016, false, "not supported by this server")                                  \
    X(EPROTO, -1017, false, "the peer broke the protocol")                                         \
    X(EIO, -1018, false, "a file or socket operation failed")                                      \
    X(ELOCKED, -1019, false, "locked by another process")                                          \
    X(ECORRUPT, -1020, false, "damaged: the checksum or the form is wrong")                        \
    X(EFOREIGN, -1021, false, "not written by this program")                                       \
    X(ENOSPACE, -1022, true, "no space left on the device")                                        \
    X(EDISCONNECTED, -1023, true, "not connected")                                                 \
    X(ERESOLVE, -1024, true, "the host name could not be resolved")                                \
    X(ETLS, -1025, false, "no secure connection: TLS or a certificate failed")                     \
    X(ESASL, -1026, false, "no login: SASL or its settings failed")                                \
    X(ETOOMANY, -1027, true, "too many requests without an answer")

enum conclave_error {
#define CONCLAVE_ERROR_ENUM(name, code, retry, text) CONCLAVE_##name = code,
    CONCLAVE_ERROR_MAP(CONCLAVE_ERROR_ENUM)
#undef CONCLAVE_ERROR_ENUM
};

/* Text of a code, one line without a final stop; "unknown error" for a code not in the list.
 * Static. */
CONCLAVE_API const char *conclave_strerror(int code);

/* Name of a code without prefix ("NO_NODE"); "UNKNOWN" for a code not in the list. Static. */
CONCLAVE_API const char *conclave_errname(int code);

/* Whether the same call may succeed later, unchanged. */
CONCLAVE_API bool conclave_error_retryable(int code);

/* The version of the library that the program runs with, as CONCLAVE_VERSION, which is that of the
 * headers that it was compiled with. */
CONCLAVE_API int conclave_version(void);

#ifdef __cplusplus
}
#endif
#endif
