/*
 * A ZooKeeper client: one session on a list of servers, Conclave's or Apache ZooKeeper's.
 *
 * The client connects to the servers in random order, with back-off, and keeps its session alive.
 * When a link is lost, it moves the session to the next server and sets its watches again there;
 * persistent watches get an event for this, because they may have missed changes. Every request
 * gets exactly one answer. If the link is lost before the answer, the request gets
 * CONCLAVE_CONNECTION_LOSS: it may have been carried out or not; with exactly_once, or a retry
 * policy that permits it, it is sent again. A request without a connected server waits for one, until its timeout.
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

#include <conclave/client_options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a client; it sends nothing before it is started or dispatched. 0, CONCLAVE_EINVAL
 * (an option is wrong), CONCLAVE_ENOMEM, CONCLAVE_EIO (no descriptors), CONCLAVE_ETLS,
 * CONCLAVE_ESASL (these options are not usable). options->error gets the reason. */
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

/* The session's current data. Begin with CONCLAVE_SESSION_INIT. */
struct conclave_session {
    size_t size;
    enum conclave_state state;
    int64_t id;         /* 0: none */
    int64_t timeout_ms; /* negotiated */
    uint8_t passwd[16];
    char server[64];   /* "address:port" of the current link, or "" */
    int64_t last_zxid; /* newest zxid seen */
};
#define CONCLAVE_SESSION_INIT CONCLAVE_INIT(conclave_session)

/* Fills *ret. Any thread. */
CONCLAVE_API void conclave_client_session(const struct conclave_client *client,
                                          struct conclave_session *ret);

/* Whether the server of the current link, or of the last one, granted exactly_once. Any thread. */
CONCLAVE_API bool conclave_client_exactly_once(const struct conclave_client *client);

/* What ended the newest link that this client lost, as it saw it. */
enum conclave_loss_cause {
    CONCLAVE_LOSS_NONE = 0,   /* no link was lost */
    CONCLAVE_LOSS_PAUSED = 1, /* the client did not run: its process or its loop stood still */
    CONCLAVE_LOSS_SILENT = 2, /* the server sent nothing although it was asked */
    CONCLAVE_LOSS_ENDED = 3,  /* the server, or a host between, ended the link */
    CONCLAVE_LOSS_FAILED = 4, /* the link had an error: see `error` */
    CONCLAVE_LOSS_RESUME = 5, /* there was no link: the session of the options was refused */
    CONCLAVE_LOSS_LEFT = 6,   /* the client left for another server: conclave_client_set_servers */
};

/* The client's side of "why did I lose my session?". Ask the servers for theirs by "conclave
 * sessions why ID": only they know of their own stalls. Times in ms. Begin with CONCLAVE_LOSS_INIT. */
struct conclave_loss {
    size_t size;
    enum conclave_loss_cause cause;
    bool session_lost;  /* the session is over; else only the link was lost */
    bool refused;       /* session_lost: a server said so; else its time passed without a link */
    int64_t session_id; /* 0: none */
    int64_t timeout_ms; /* negotiated */
    int64_t age_ms;     /* how long ago the link was lost */
    int64_t heard_ms;   /* from the last bytes of the server to that moment */
    int64_t asked_ms;   /* from the last request or ping of this client to that moment */
    int64_t paused_ms;  /* longest time that the client was due to run and did not, since the server
                         * answered last; a pause was up to a third of the timeout longer */
    int64_t attempts;   /* to connect since then, until a link was up or the session was over */
    int error;          /* why the link ended */
    char server[64];    /* its "address:port"; "": there was no link */
    char problems[256]; /* of the attempts, as of conclave_client_last_error */
    char text[512];     /* all this in one or two sentences, "" with CONCLAVE_LOSS_NONE */
};
#define CONCLAVE_LOSS_INIT CONCLAVE_INIT(conclave_loss)

/* Fills *ret with what is known of the newest lost link; it stays known after a reconnect and until the next loss. In
 * on_state, CONCLAVE_STATE_SUSPENDED begins a loss, and CONCLAVE_STATE_LOST adds that the session is over. Any
 * thread. */
CONCLAVE_API void conclave_client_why(const struct conclave_client *client,
                                      struct conclave_loss *ret);

/* Replaces the list of servers, "host:port,host:port", without a chroot or with the client's own.
 *
 * The client keeps its link if its server is in the new list, unless that has more servers than the
 * old one: then it moves to an added server with the probability (new - old) / new. A client whose
 * server is not in the new list moves to another, of the kept or the added ones with the
 * probabilities that leave the same load on all. So many clients that get the same list spread
 * evenly over it. Servers are the same if name and port are.
 *
 * Before it moves, the client waits for the answers to requests in flight, for at most a second,
 * and keeps new ones back. Then the state is SUSPENDED and RECONNECTED, as after a lost link.
 *
 * 0, CONCLAVE_EINVAL (malformed, or another chroot), CONCLAVE_ENOMEM, CONCLAVE_EFORK: the list is
 * the old one. */
CONCLAVE_API int conclave_client_set_servers(struct conclave_client *client,
                                             const char *servers) CONCLAVE_MUST_USE;

/* The present list of servers, "host:port,host:port", in the order in which they are tried. Written
 * to buf, cut to len bytes with the final NUL. Any thread. */
CONCLAVE_API void conclave_client_servers(const struct conclave_client *client, char *buf,
                                          size_t len);

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
