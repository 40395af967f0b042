/*
 * The options of a client: servers, session, TLS, SASL, limits, and the callbacks that it may have.
 */
#ifndef CONCLAVE_CLIENT_OPTIONS_H
#define CONCLAVE_CLIENT_OPTIONS_H

#include <conclave/log.h>
#include <conclave/op.h>
#include <conclave/span.h>

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
 * PKCS12. They are read when the client is opened, and again before a connection is made if one of
 * them has changed (time, size or inode). If the new files are not usable, on_log tells why, and the
 * client keeps what it read last until they change again. */
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
    void *ctx;                  /* given to on_state and on_log */
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
    /* how requests of the program are repeated (conclave/retry.h); NULL: not at all */
    const struct conclave_retry_options *retry;
    /* receives a text if conclave_client_open fails: the name of the option that is wrong, and why;
     * also what the `error` of tls and sasl would get, if they have none. May be NULL */
    char *error;
    size_t error_len;
    conclave_log_fn on_log;            /* may be NULL */
    enum conclave_log_level log_level; /* lines of less weight are not made; default INFO */
    /* how long one attempt to connect may take, with TLS and the session's begin; 0: the session
     * timeout divided by the number of servers, but 200 ms to 10 s */
    int64_t connect_timeout_ms;
    /* After all servers failed, the client pauses before it tries them again: first this time, then
     * twice as long each time, up to the maximum; up to one half is taken off at random. 0: 50 ms,
     * and a tenth of the session timeout but at most 1 s */
    int64_t reconnect_min_ms;
    int64_t reconnect_max_ms;
    /* Follow the ensemble's members: whenever /zookeeper/config changes (reconfig), the client uses
     * the client addresses there, as after conclave_client_set_servers. They must be reachable from
     * here. Members without a client address are left out; an address for all interfaces is
     * replaced by the member's host. Servers before ZooKeeper 3.5, and those that refuse the read,
     * change nothing */
    bool follow_ensemble;
    /* receives a span for each request, with span_ctx (conclave/span.h); NULL: no spans, no cost */
    conclave_span_fn on_span;
    void *span_ctx;
};
#define CONCLAVE_CLIENT_OPTIONS_INIT                                                               \
    CONCLAVE_INIT_WITH(                                                                            \
        conclave_client_options,                                                                   \
        CONCLAVE_SET(session_timeout_ms, 10000) CONCLAVE_SET(request_timeout_ms, CONCLAVE_FOREVER) \
            CONCLAVE_SET(new_session, true) CONCLAVE_SET(log_level, CONCLAVE_LOG_INFO))

#ifdef __cplusplus
}
#endif
#endif
