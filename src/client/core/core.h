/*
 * The connection core: the client's side of the protocol without socket, clock, thread or randomness. Bytes of one link
 * go in, bytes to send come out, and core_deadline_ns says when it wants to be called even without input.
 *
 *   link:     NONE --core_link_up--> HANDSHAKE --accepted--> UP
 *                                    HANDSHAKE --accepted, SASL is wanted--> LOGIN --done--> UP
 *                                    HANDSHAKE --LOST was reported--> ABANDONED --accepted--> FAREWELL
 *                                    LOGIN --LOST was reported--> FAREWELL
 *             any --lost, refused, late--> NONE
 *   session:  CONNECTING --> CONNECTED --link lost--> SUSPENDED --same session--> RECONNECTED
 *             RECONNECTED, NEW_SESSION --link lost--> SUSPENDED
 *             SUSPENDED --refused by a server, or the timeout passed--> LOST --> NEW_SESSION
 *             CONNECTING, LOST --a server without a quorum--> READ_ONLY --link lost--> CONNECTING
 *
 * Promises: every request is answered once. With options.exactly_once, and a server that grants it, a lost link is no
 * answer while the session lives. A request with a retry policy may be sent several times, as conclave/retry.h says. After LOST that session is never used again. LOST is reported when the server may
 * have expired the session, counted from the sending of the last answered request, with or without a link. The client
 * never believes a server without a quorum about a session: READ_ONLY has no session, requests of recipes wait, and the
 * link is given up again and again to look for a quorum.
 *
 * Functions of struct core_events are called in the middle of core functions. They may call only core_submit,
 * core_add_auth and core_forget_watch.
 *
 * SASL: the core does not know the mechanism. The owner makes the tokens, which may take time (name look-ups, a key
 * server), and answers each request for one by core_login or core_login_failed. A client that is not admitted on its
 * very first link fails for good. If an earlier login succeeded, a token that cannot be made only ends the link: the
 * cause may disappear before the session expires.
 */
#ifndef CLIENT_CORE_CORE_H
#define CLIENT_CORE_CORE_H

#include "base/buf.h"
#include "base/random.h"
#include "client/core/request.h"
#include "client/core/timers.h"
#include "client/core/watches.h"

#include <conclave/client.h>

/* Whether a session is attached. */
static inline bool state_is_attached(enum conclave_state state)
{
    return state == CONCLAVE_STATE_CONNECTED || state == CONCLAVE_STATE_RECONNECTED ||
           state == CONCLAVE_STATE_NEW_SESSION;
}

struct core_events {
    /* The state changed. */
    void (*state)(void *ctx, enum conclave_state state);
    /* The request is answered: r->reply. Takes over one reference. */
    void (*reply)(void *ctx, struct client_request *r);
    /* Deliver w->type to the watch, for the last time. Takes over w. */
    void (*watch)(void *ctx, struct client_watch *w);
    /* Deliver e->type to the persistent watch e->watch, which stays. Takes over e. */
    void (*event)(void *ctx, struct client_event *e);
    /* Make a SASL token that answers `challenge`; null begins an exchange. Useful only while the link is LINK_LOGIN. 0,
     * or why the link must end. Only with options.login. */
    int (*login)(void *ctx, struct slice challenge);
};

enum core_link {
    LINK_NONE,      /* the owner may connect and call core_link_up, if core_wants_link */
    LINK_HANDSHAKE, /* connect request sent */
    LINK_ABANDONED, /* connect request sent, but LOST was reported for its session since */
    LINK_LOGIN,     /* the session is accepted, SASL tokens go back and forth */
    LINK_UP,        /* the session is attached */
    LINK_FAREWELL,  /* an abandoned session is being closed */
};

struct core_options {
    struct slice chroot;        /* "" or "/a/b"; must outlive the core */
    int64_t session_timeout_ms; /* requested */
    int64_t request_timeout_ms; /* CONCLAVE_FOREVER: none */
    size_t max_request;         /* bytes of a frame to send */
    size_t max_reply;           /* bytes of a frame to accept */
    int64_t session_id;         /* to re-attach, or 0 */
    uint8_t passwd[WIRE_PASSWD_LEN];
    bool new_session;   /* begin a new session after LOST */
    bool login;         /* log in by SASL on every link, before anything else */
    size_t max_pending; /* requests without an answer, 0: unlimited */
    bool read_only;     /* without a session, a server without a quorum is accepted */
    bool spans;         /* tell servers that this client has spans, too */
    bool exactly_once;  /* ask servers to remember the answers to writes: see core_once.c */
    const struct conclave_acl *acl;      /* for creates without an ACL; must outlive the core */
    size_t acl_count;                    /* 0: open */
    struct conclave_retry_options retry; /* for the program's requests without their own */
    uint64_t seed;                       /* for the random part of pauses */
};

/* The kind of a SASL token. */
enum core_login_step {
    CORE_LOGIN_MORE, /* the server must answer it */
    CORE_LOGIN_LAST, /* the server only accepts or refuses it */
    CORE_LOGIN_DONE, /* no token: both sides have authenticated */
};

/* What the server of the newest link grants. */
struct core_once {
    bool granted;
    int64_t session_id;
    int64_t born;       /* names what it remembers of the session */
    size_t results_max; /* answers that it remembers: the limit of writes on the link */
    size_t bytes_max;   /* the same in bytes of answers */
    size_t writes;      /* writes on the link */
    size_t bytes;       /* bytes that their answers may have */
    int32_t next;       /* number of the next write; wraps */
    int32_t answered;   /* newest one whose answer came or is not expected any more */
};

struct core {
    struct core_options options;
    const struct core_events *events;
    void *ctx;

    enum conclave_state state;
    int64_t session_id; /* 0: none */
    uint8_t passwd[WIRE_PASSWD_LEN];
    int64_t timeout_ns; /* negotiated; 0 before the first session */
    int64_t last_zxid;  /* newest zxid seen */
    int64_t watch_zxid; /* changes up to here have fired their watches */
    /* consecutive handshakes without a session that ended without an answer */
    unsigned refusals;
    int final_error; /* the error of all requests from now on; 0: not final */

    enum core_link link;
    int link_error; /* why the last link ended */
    struct buf in;  /* received, not handled yet */
    struct buf out; /* to be sent, from out_sent on */
    size_t out_sent;
    uint32_t skip;            /* bytes of an oversized reply still to be dropped */
    int64_t link_deadline_ns; /* deadline of handshake and farewell */
    int64_t handshake_ns;     /* when the connect request was sent */
    int64_t recv_ns;          /* last bytes received */
    int64_t sent_ns;          /* last request or ping put on the link */
    int64_t acked_ns;  /* sending of the last answered request: the server knew the session then */
    int64_t ping_ns;   /* oldest ping without answer */
    unsigned pings;    /* pings without answer */
    unsigned rearming; /* setWatches without answer */
    bool resuming;     /* they include persistent watches */
    int32_t login_xid; /* xid of the unanswered SASL token; 0: waits for the next token */
    bool login_first;  /* it is the first token */
    bool login_last;   /* it is the last token */
    bool session_refused;     /* a server refused the session that was lost */
    bool logged_in;           /* an exchange has succeeded, on this link or an earlier one */
    bool read_only;           /* the link is to a server without a quorum */
    bool had_session;         /* CONNECTED or LOST was reported */
    int64_t look_ns;          /* read_only: when the link is given up to look for a quorum */
    int64_t leave_by_ns;      /* the link is given up by then; 0: it is kept */
    int64_t look_wait_ns;     /* the same time for the next such link; 0: the first */
    const char *link_problem; /* details that link_error does not contain, static; or NULL */

    int32_t next_xid;
    uint64_t trace_link;  /* of the newest link: wire/trace_ids.h */
    bool create2_known;   /* the server has answered a create2 */
    bool create2_missing; /* it refused a create2 as unknown */
    bool kinds_missing;   /* it cannot remove persistent watches by their kind */
    struct list queued;   /* requests waiting for a link */
    struct list inflight; /* requests on the link, in order */
    struct list refused;  /* requests to be answered at the next core_tick, reply.error set */
    struct list pausing;  /* requests that are queued again when their timer `again` fires */
    struct timers pauses; /* these timers */
    struct prng prng;     /* for their random part */
    int64_t now_ns;       /* of the newest call */
    size_t pending;       /* the program's requests in these four lists */
    struct core_once once;
    struct list auths;      /* struct auth */
    struct timers timeouts; /* of requests */
    struct watches watches;
    struct list firing;  /* watches removed from `watches` and not delivered yet */
    struct list telling; /* events of persistent watches, not delivered yet */

    bool closing;
    int64_t close_deadline_ns;
};

/* Options are copied. 0 or CONCLAVE_ENOMEM. */
int core_init(struct core *c, const struct core_options *options, const struct core_events *events,
              void *ctx) CONCLAVE_MUST_USE;

/* Frees everything; the state must be CLOSED, or nothing was ever submitted. */
void core_finish(struct core *c);

/* Whether a link would be useful: the state is not final. */
bool core_wants_link(const struct core *c);

/* A new link is up: begins the handshake, which may take timeout_ms. */
void core_link_up(struct core *c, int64_t now_ns, int64_t timeout_ms);

/* The link is lost, with this error. The core also calls it itself; then c->link has become LINK_NONE, and the owner
 * closes the connection. */
void core_link_down(struct core *c, int64_t now_ns, int error);

/* Room for received bytes, at least `want` (CONCLAVE_ENOMEM). core_received takes their number and handles them. */
int core_input(struct core *c, size_t want, uint8_t **ret, size_t *ret_len) CONCLAVE_MUST_USE;
void core_received(struct core *c, size_t len, int64_t now_ns);

/* Bytes to send; core_sent takes the number of sent bytes. */
struct slice core_output(const struct core *c);
void core_sent(struct core *c, size_t len);

/* Does what is due by time. Call it after input, and at core_deadline_ns (INT64_MAX: never). */
void core_tick(struct core *c, int64_t now_ns);
int64_t core_deadline_ns(const struct core *c);

/* The requested token, a null slice with CORE_LOGIN_DONE. The link is LINK_LOGIN. */
void core_login(struct core *c, enum core_login_step step, struct slice token, int64_t now_ns);

/* There is no token: settings, the key server or the server's proof failed. */
void core_login_failed(struct core *c, int64_t now_ns);

/* Sends or queues r, made for op. Takes r on success. 0, CONCLAVE_ENOMEM, CONCLAVE_ETOOBIG,
 * CONCLAVE_ETOOMANY, CONCLAVE_ECLOSED. */
int core_submit(struct core *c, const struct conclave_op *op, struct client_request *r,
                int64_t now_ns) CONCLAVE_MUST_USE;

/* Adds credentials to this and all later links. 0, CONCLAVE_ENOMEM, CONCLAVE_ETOOBIG,
 * CONCLAVE_ECLOSED. */
int core_add_auth(struct core *c, const char *scheme, struct slice auth) CONCLAVE_MUST_USE;

/* Removes a watch (internal: of a recipe) that was not delivered yet, even if its delivery is about to begin. The
 * server is informed if no other function has such a persistent watch there; if that fails, its events are dropped.
 * NULL: no such watch. */
struct client_watch *core_forget_watch(struct core *c, const char *path, conclave_watch_fn fn,
                                       void *ctx, bool internal);

/* Gives up the link for another server: as soon as no request is in flight, at the latest a second from now. */
void core_leave(struct core *c, int64_t now_ns);

/* Ends the session: as conclave_client_close. Becomes CLOSED now or later (core_tick,
 * core_received, core_link_down). */
void core_close(struct core *c, int64_t now_ns, int64_t timeout_ms);

#endif
