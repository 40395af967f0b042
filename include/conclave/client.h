/*
 * A ZooKeeper client: one session on a list of servers, Conclave's or Apache ZooKeeper's.
 *
 * The client connects to the servers in random order, with back-off, and keeps its session alive.
 * When a link is lost, it moves the session to the next server and sets its watches again there;
 * persistent watches get an event for this, because they may have missed changes. Every request
 * gets exactly one answer. If the link is lost before the answer, the request gets
 * CONCLAVE_CONNECTION_LOSS: it may have been carried out or not; with exactly_once it is sent
 * again. A request without a connected server waits for one, until its timeout.
 *
 * After conclave_client_open, either call conclave_client_start (the library then runs two
 * threads: one for the network, one for callbacks), or run the client in your own loop
 * (conclave_client_fd, conclave_client_timeout_ms, conclave_client_dispatch; conclave/uv.h does
 * this for libuv). All functions may be called from any thread. Callbacks run one at a time, with
 * no lock held, on the callback thread or inside conclave_client_dispatch; they may call every
 * function except the blocking ones, which return CONCLAVE_EDEADLK there (callbacks of recipes run
 * on a separate thread: conclave/recipes.h).
 *
 * Times are milliseconds of a clock that counts suspend. Strings are UTF-8, NUL-terminated. Inputs
 * are copied before a call returns. Arguments of a callback are valid until it returns.
 */
#ifndef CONCLAVE_CLIENT_H
#define CONCLAVE_CLIENT_H

#include <conclave/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CONCLAVE_FOREVER ((int64_t)-1)

/* The state of link and session. */
enum conclave_state {
    CONCLAVE_STATE_CONNECTING,  /* no session yet */
    CONCLAVE_STATE_CONNECTED,   /* first session established */
    CONCLAVE_STATE_SUSPENDED,   /* link lost; the session may still live */
    CONCLAVE_STATE_RECONNECTED, /* linked again, same session: ephemerals and watches kept */
    CONCLAVE_STATE_NEW_SESSION, /* linked again, new session after LOST */
    CONCLAVE_STATE_LOST,        /* session expired, or must be taken as expired */
    CONCLAVE_STATE_AUTH_FAILED, /* credentials refused; final */
    CONCLAVE_STATE_CLOSED,      /* closed by conclave_client_close; final */
    /* with read_only: linked to a server without a quorum, which answers reads and refuses writes with
     * CONCLAVE_NOT_READ_ONLY; no session. CONNECTING follows, then CONNECTED or NEW_SESSION */
    CONCLAVE_STATE_READ_ONLY,
};

/* Name of a state ("CONNECTED"). Static. */
CONCLAVE_API const char *conclave_state_name(enum conclave_state state);

typedef void (*conclave_state_fn)(struct conclave_client *client, enum conclave_state state,
                                  void *ctx);

/* Which checks a server's certificate must pass. */
enum conclave_tls_verify {
    CONCLAVE_TLS_VERIFY_FULL = 0, /* its issuer is trusted, and it is for the server's name */
    CONCLAVE_TLS_VERIFY_ISSUER,   /* its issuer is trusted */
    CONCLAVE_TLS_VERIFY_NONE,     /* nothing: open to interception */
};

/* TLS to the servers. Begin with CONCLAVE_TLS_OPTIONS_INIT, then set what differs. Files are PEM or
 * PKCS12; they are read when the client is opened, and not again. */
struct conclave_tls_options {
    size_t size;             /* sizeof of this struct, so that it may grow */
    const char *ca_file;     /* issuers to be trusted; NULL: those of the system */
    const char *ca_password; /* of a PKCS12 file */
    /* the client's certificate and its chain, for servers that ask for one; may contain the key,
     * too */
    const char *cert_file;
    const char *key_file;     /* PEM, if cert_file does not contain the key */
    const char *key_password; /* of the key, or of a PKCS12 file */
    /* the name that certificates must have; NULL: the server's name or address as given in the
     * list. No name is resolved for this */
    const char *server_name;
    enum conclave_tls_verify verify;
    char *error; /* receives a text if a file is not usable; may be NULL */
    size_t error_len;
};
#define CONCLAVE_TLS_OPTIONS_INIT CONCLAVE_INIT(conclave_tls_options)

/* Login by SASL, before anything else on every connection; the id is of the scheme "sasl" in ACLs.
 * Begin with CONCLAVE_SASL_OPTIONS_INIT, then set what differs.
 *
 * DIGEST-MD5 takes a user and a password. GSSAPI uses the Kerberos environment of the process: a
 * ticket cache (KRB5CCNAME, filled by kinit), or a keytab (KRB5_CLIENT_KTNAME), from which it gets
 * and renews tickets. A separate thread queries name services and key servers.
 *
 * If the login fails, or the server does not offer SASL, the client enters
 * CONCLAVE_STATE_AUTH_FAILED; conclave_client_last_error gives the reason. After a first
 * successful login, a failure on the client's side (no ticket available at the moment) is tried
 * again as long as the session lasts. */
struct conclave_sasl_options {
    size_t size;               /* sizeof of this struct, so that it may grow */
    const char *mechanism;     /* "DIGEST-MD5", "GSSAPI"; NULL: the first when there is a user */
    const char *user;          /* of DIGEST-MD5 */
    const char *password;      /* its password, */
    const char *password_file; /* or a file whose first line that is; read when opened */
    const char *service;       /* the servers' name in Kerberos before the "/"; NULL: "zookeeper" */
    /* the servers' host name in Kerberos, after the "/"; NULL: the server's name as in the list. With
     * DIGEST-MD5 the name that servers give themselves; NULL: "zk-sasl-md5", ZooKeeper's */
    const char *host;
    char *error; /* receives a text if these options are not usable; may be NULL */
    size_t error_len;
};
#define CONCLAVE_SASL_OPTIONS_INIT CONCLAVE_INIT(conclave_sasl_options)

/* Begin with CONCLAVE_CLIENT_OPTIONS_INIT, then set what differs. */
struct conclave_client_options {
    size_t size; /* sizeof of this struct, so that it may grow */
    /* "host:port,host:port/chroot"; NULL: see conclave/servers.h */
    const char *servers;
    int64_t session_timeout_ms; /* to request; the server negotiates */
    /* a request without an answer after this time gets CONCLAVE_OPERATION_TIMEOUT (outcome
     * unknown); CONCLAVE_FOREVER: no limit */
    int64_t request_timeout_ms;
    int64_t session_id;         /* re-attach to this session, with its password; 0: a new one */
    const uint8_t *passwd;      /* 16 bytes, with session_id */
    bool new_session;           /* after LOST begin a new session (default true) */
    conclave_state_fn on_state; /* called for every change, in order; may be NULL */
    void *ctx;                  /* given to on_state */
    size_t max_request;         /* bytes of one request; 0: 1 MiB, the default limit of servers */
    size_t max_reply; /* bytes of one reply: a larger one is CONCLAVE_ETOOBIG; 0: 16 MiB */
    const struct conclave_tls_options *tls;   /* NULL: without TLS */
    const struct conclave_sasl_options *sasl; /* NULL: without SASL */
    /* maximum number of unanswered requests of the program, sent or waiting for a server; a
     * further request gets CONCLAVE_ETOOMANY. 0: 10000. Requests that recipes make do not count */
    size_t max_requests;
    /* Ask servers to remember the answers to the session's newest writes (Conclave's servers do).
     * Then a request whose link was lost is sent again as soon as a server has the session, and a
     * write that was carried out already is not repeated, but gets its first answer. The end of
     * the session (CONCLAVE_SESSION_EXPIRED), the request's timeout or closing the client ends
     * this. If the server does not grant it, as Apache ZooKeeper: CONCLAVE_CONNECTION_LOSS as
     * without it */
    bool exactly_once;
    /* While there is no session, also accept a server without a quorum that permits reads
     * (readonlymode.enabled): CONCLAVE_STATE_READ_ONLY. Its answers may be old, and it keeps no
     * session alive: recipes wait until there is a quorum. The client looks for other servers
     * after 1 s, then at growing intervals, up to once a minute */
    bool read_only;
    /* ACL of every node that the program or a recipe creates without an ACL of its own, parents
     * included; NULL: all permissions for world:anyone. At least one entry. For example
     * {CONCLAVE_PERM_ALL, "auth", ""}: all permissions for the ids of this client, which then
     * needs one (conclave_client_add_auth, SASL, a certificate); otherwise creates get
     * CONCLAVE_INVALID_ACL */
    const struct conclave_acl *acl;
    size_t acl_count;
};
#define CONCLAVE_CLIENT_OPTIONS_INIT                                                               \
    CONCLAVE_INIT_WITH(conclave_client_options,                                                    \
                       CONCLAVE_SET(session_timeout_ms, 10000)                                     \
                           CONCLAVE_SET(request_timeout_ms, CONCLAVE_FOREVER)                      \
                               CONCLAVE_SET(new_session, true))

/* Creates a client; it sends nothing before it is started or dispatched. 0, CONCLAVE_EINVAL
 * (malformed server list, chroot, ACL or size), CONCLAVE_ENOMEM, CONCLAVE_EIO (no descriptors),
 * CONCLAVE_ETLS, CONCLAVE_ESASL (these options are not usable: see their `error`). */
CONCLAVE_API int conclave_client_open(const struct conclave_client_options *options,
                                      struct conclave_client **ret_client) CONCLAVE_MUST_USE;

/* Starts the library's own threads. 0, CONCLAVE_EINVAL (started already), CONCLAVE_EIO. */
CONCLAVE_API int conclave_client_start(struct conclave_client *client) CONCLAVE_MUST_USE;

/* Own loop: poll this descriptor for reading (it never changes); call dispatch when it is readable
 * and when the timeout has passed. The timeout is 0 to call now, -1 for no timeout. dispatch
 * never blocks; it returns 0, or CONCLAVE_ECLOSED after the client was closed and all callbacks
 * have run. */
CONCLAVE_API int conclave_client_fd(const struct conclave_client *client);
CONCLAVE_API int64_t conclave_client_timeout_ms(const struct conclave_client *client);
CONCLAVE_API int conclave_client_dispatch(struct conclave_client *client);

/*
 * Ends the session and the client: waiting requests are answered with CONCLAVE_ECLOSED, watches
 * get CONCLAVE_EVENT_LOST, then on_state gets CLOSED, and no callback runs after that. timeout_ms
 * limits the time for closing the session at the server; with 0 the session expires on its own.
 * NULL is allowed.
 *
 * When it returns, the threads are joined and the memory is freed. Inside a callback it returns at
 * once, and the memory is freed after the last callback: automatically with threads; in your own
 * loop by the conclave_client_dispatch that returns CONCLAVE_ECLOSED, so call it until then. In a
 * child after fork it only closes the descriptors.
 */
CONCLAVE_API void conclave_client_close(struct conclave_client *client, int64_t timeout_ms);

/* Waits until the client has a session or, with read_only, a link to a server that permits reads.
 * 0, CONCLAVE_ETIMEDOUT, CONCLAVE_AUTH_FAILED, CONCLAVE_SESSION_EXPIRED (without new_session),
 * CONCLAVE_ECLOSED, CONCLAVE_EDEADLK. In your own loop, this function and conclave_call dispatch
 * while they wait. */
CONCLAVE_API int conclave_client_wait_connected(struct conclave_client *client,
                                                int64_t timeout_ms) CONCLAVE_MUST_USE;

/* The session's current data. Any thread. */
struct conclave_session {
    enum conclave_state state;
    int64_t id;         /* 0: none */
    int64_t timeout_ms; /* negotiated */
    uint8_t passwd[16];
    char server[64];   /* "address:port" of the current link, or "" */
    int64_t last_zxid; /* newest zxid seen */
};
CONCLAVE_API void conclave_client_session(const struct conclave_client *client,
                                          struct conclave_session *ret);

/* Whether the server of the current link, or of the last one, granted exactly_once. Any thread. */
CONCLAVE_API bool conclave_client_exactly_once(const struct conclave_client *client);

/* Why the last attempt to reach each server failed, the newest first, in one line:
 * "10.0.0.2:2181: connection refused; 10.0.0.1:2181: connecting timed out". "" if no attempt failed.
 * Written to buf, cut to len bytes with the final NUL. Any thread. */
CONCLAVE_API void conclave_client_last_error(const struct conclave_client *client, char *buf,
                                             size_t len);

/* --- requests ------------------------------------------------------------------ */

/* Sends a request; fn (may be NULL) gets its answer later, never before this returns. 0,
 * CONCLAVE_EINVAL (malformed request or path), CONCLAVE_ETOOBIG, CONCLAVE_ENOMEM,
 * CONCLAVE_ETOOMANY (max_requests are unanswered: try again after an answer), CONCLAVE_ECLOSED,
 * CONCLAVE_EFORK: after an error fn is never called. */
CONCLAVE_API int conclave_submit(struct conclave_client *client, const struct conclave_op *op,
                                 conclave_reply_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Sends a request and waits. Returns the answer's error; *ret_reply (may be NULL) is the answer,
 * also when the server answered with an error; free it with conclave_reply_free. CONCLAVE_EDEADLK
 * inside a callback. */
CONCLAVE_API int conclave_call(struct conclave_client *client, const struct conclave_op *op,
                               struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_reply_free(struct conclave_reply *reply);

/* Adds credentials to the link, now and after every reconnect: scheme "digest", auth
 * "user:password". */
CONCLAVE_API int conclave_client_add_auth(struct conclave_client *client, const char *scheme,
                                          const void *auth, size_t len) CONCLAVE_MUST_USE;

/* Removes one watch with this path, function and ctx: it gets CONCLAVE_EVENT_LOST, after all
 * earlier events. CONCLAVE_NO_WATCHER if there is none (it may have fired just now). The server
 * keeps a one-shot watch until it fires. It drops a persistent watch when the last one of its kind
 * on the path is removed (before ZooKeeper 3.9, which keeps one kind per path: when this client
 * has no watch left there). */
CONCLAVE_API int conclave_watch_remove(struct conclave_client *client, const char *path,
                                       conclave_watch_fn watch, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
