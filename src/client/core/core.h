/*
 * The connection core: the client's side of the protocol without socket, clock, thread or
 * randomness. Bytes of one link go in, bytes to send come out, and core_deadline_ns says when
 * it wants to be called again though nothing came in.
 *
 *   link:     NONE --core_link_up--> HANDSHAKE --accepted--> UP
 *                                    HANDSHAKE --accepted, SASL is wanted--> LOGIN --done--> UP
 *                                    HANDSHAKE --LOST was told--> ABANDONED --accepted--> FAREWELL
 *                                    LOGIN --LOST was told--> FAREWELL
 *             any --lost, refused, late--> NONE
 *   session:  CONNECTING --> CONNECTED --link lost--> SUSPENDED --same session--> RECONNECTED
 *             RECONNECTED, NEW_SESSION --link lost--> SUSPENDED
 *             SUSPENDED --refused by a server, or the timeout passed--> LOST --> NEW_SESSION
 *             CONNECTING, LOST --a server without a quorum--> READ_ONLY --link lost--> CONNECTING
 *
 * Promise: every request is answered once; with options.exactly_once, and a server that grants it, a lost
 * link is no answer while the session lives; after LOST was told that session is never used
 * again; LOST is told when the server may have expired the session, reckoned from the sending
 * of the last thing that was answered, link or no link. A server without a quorum is never believed
 * about a session: READ_ONLY has none, what recipes ask waits, and the link is given up again and again to
 * look for a quorum.
 *
 * Functions of struct core_events are called in the middle of core functions. They may call
 * core_submit, core_add_auth and core_forget_watch, nothing else.
 *
 * SASL: the mechanism is not known here. The owner makes the tokens, for which it may take its time
 * (looking up names, asking a key server), and answers each wish for one by core_login or
 * core_login_failed. Whoever is not admitted on the first link of all is told so for good. Where an
 * earlier login had succeeded, a token that cannot be had ends the link only: what it takes may be
 * back before the session has expired.
 */
#ifndef CLIENT_CORE_CORE_H
#define CLIENT_CORE_CORE_H

#include "base/buf.h"
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
    /* The watch is to be told w->type, for the last time. Takes over w. */
    void (*watch)(void *ctx, struct client_watch *w);
    /* The persistent watch e->watch, which stays, is to be told e->type. Takes over e. */
    void (*event)(void *ctx, struct client_event *e);
    /* A SASL token is wanted that answers `challenge`, a null slice at the beginning of an exchange.
     * Of use while the link stays LINK_LOGIN. 0, or why the link must end. Only with options.login. */
    int (*login)(void *ctx, struct slice challenge);
};

enum core_link {
    LINK_NONE,      /* the owner may connect and call core_link_up, if core_wants_link */
    LINK_HANDSHAKE, /* connect request sent */
    LINK_ABANDONED, /* connect request sent, but LOST was told of its session since */
    LINK_LOGIN,     /* the session is accepted, SASL tokens go back and forth */
    LINK_UP,        /* the session is attached */
    LINK_FAREWELL,  /* an abandoned session is being closed */
};

struct core_options {
    struct slice chroot;        /* "" or "/a/b"; must outlive the core */
    int64_t session_timeout_ms; /* asked for */
    int64_t request_timeout_ms; /* CONCLAVE_FOREVER: none */
    size_t max_request;         /* bytes of a frame to send */
    size_t max_reply;           /* bytes of a frame to take */
    int64_t session_id;         /* to re-attach, or 0 */
    uint8_t passwd[WIRE_PASSWD_LEN];
    bool new_session;   /* begin a new session after LOST */
    bool login;         /* by SASL, on every link before anything else */
    size_t max_pending; /* requests without an answer, 0: unlimited */
    bool read_only;     /* without a session, a server without a quorum will do */
    bool exactly_once;  /* ask servers to remember what writes were answered: see core_once.c */
    const struct conclave_acl *acl; /* of creates without one of their own; must outlive the core */
    size_t acl_count;               /* 0: open */
};

/* What a SASL token is. */
enum core_login_step {
    CORE_LOGIN_MORE, /* the server's answer to it is wanted */
    CORE_LOGIN_LAST, /* nothing follows it but the server's consent */
    CORE_LOGIN_DONE, /* there is none: the server has proved itself, and us */
};

/* What the server of the newest link grants. */
struct core_once {
    bool granted;
    int64_t session_id;
    int64_t born;       /* names what it remembers of the session */
    size_t results_max; /* answers that it remembers, so many writes may be on the link, */
    size_t bytes_max;   /* and their bytes */
    size_t writes;      /* on the link */
    size_t bytes;       /* that their answers may have */
    int32_t next;       /* number of the next write; wraps */
    int32_t answered;   /* newest one whose answer came, or is waited for no more */
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
    /* handshakes without a session that ended without an answer, one after another */
    unsigned refusals;
    int final_error; /* what requests are answered from now on; 0 while there is hope */

    enum core_link link;
    int link_error; /* why the last link ended */
    struct buf in;  /* received, not yet understood */
    struct buf out; /* to be sent, from out_sent on */
    size_t out_sent;
    uint32_t skip;            /* bytes of an oversized reply still to be thrown away */
    int64_t link_deadline_ns; /* of handshake and farewell */
    int64_t handshake_ns;     /* when the connect request was sent */
    int64_t recv_ns;          /* last bytes received */
    int64_t sent_ns;          /* last request or ping put on the link */
    int64_t acked_ns;     /* sending of the last thing that was answered: the server knew us then */
    int64_t ping_ns;      /* oldest ping without answer */
    unsigned pings;       /* pings without answer */
    unsigned rearming;    /* setWatches without answer */
    bool resuming;        /* persistent watches are among them */
    int32_t login_xid;    /* of the SASL token that is not answered; 0: the next is awaited */
    bool login_first;     /* that is the first one */
    bool login_last;      /* that is the last one */
    bool logged_in;       /* an exchange has succeeded, on this link or an earlier one */
    bool read_only;       /* the link is to a server without a quorum */
    bool had_session;     /* CONNECTED or LOST was told */
    int64_t look_ns;      /* read_only: when the link is given up to look for a quorum */
    int64_t look_wait_ns; /* and how long after the next such link; 0: the first */
    const char *link_problem; /* what link_error does not say by itself, static; or NULL */

    int32_t next_xid;
    bool create2_known;   /* the server has answered a create2 */
    bool create2_missing; /* it refused one as unknown */
    bool kinds_missing;   /* it cannot remove persistent watches by their kind */
    struct list queued;   /* requests waiting for a link */
    struct list inflight; /* requests on the link, in order */
    struct list refused;  /* requests to be answered at the next core_tick, reply.error set */
    size_t pending;       /* of the program, in these three lists */
    struct core_once once;
    struct list auths;      /* struct auth */
    struct timers timeouts; /* of requests */
    struct watches watches;
    struct list firing;  /* watches taken out of `watches` and not told yet */
    struct list telling; /* events of persistent watches, not told yet */

    bool closing;
    int64_t close_deadline_ns;
};

/* Options are copied. 0 or CONCLAVE_ENOMEM. */
int core_init(struct core *c, const struct core_options *options, const struct core_events *events,
              void *ctx) CONCLAVE_MUST_USE;

/* Frees everything; the state must be CLOSED, or nothing was ever submitted. */
void core_finish(struct core *c);

/* Whether a link would be of use: not in a final state. */
bool core_wants_link(const struct core *c);

/* A fresh link is there: begins the handshake, which may take timeout_ms. */
void core_link_up(struct core *c, int64_t now_ns, int64_t timeout_ms);

/* The link is lost (error says why). Also called by the core itself; then c->link has become
 * LINK_NONE and the owner closes what carried the link. */
void core_link_down(struct core *c, int64_t now_ns, int error);

/* Room for received bytes, at least `want` (CONCLAVE_ENOMEM); core_received says how many came,
 * and acts on them. */
int core_input(struct core *c, size_t want, uint8_t **ret, size_t *ret_len) CONCLAVE_MUST_USE;
void core_received(struct core *c, size_t len, int64_t now_ns);

/* Bytes to send; core_sent says how many went. */
struct slice core_output(const struct core *c);
void core_sent(struct core *c, size_t len);

/* What is due by time. Call it after input, and at core_deadline_ns (INT64_MAX: never). */
void core_tick(struct core *c, int64_t now_ns);
int64_t core_deadline_ns(const struct core *c);

/* The token that was wanted, a null slice with CORE_LOGIN_DONE. The link is LINK_LOGIN. */
void core_login(struct core *c, enum core_login_step step, struct slice token, int64_t now_ns);

/* There is none: settings, key server or the server's proof failed. */
void core_login_failed(struct core *c, int64_t now_ns);

/* Sends or queues r, made for op. Takes r on success. 0, CONCLAVE_ENOMEM, CONCLAVE_ETOOBIG,
 * CONCLAVE_ETOOMANY, CONCLAVE_ECLOSED. */
int core_submit(struct core *c, const struct conclave_op *op, struct client_request *r,
                int64_t now_ns) CONCLAVE_MUST_USE;

/* Adds credentials to this and all later links. 0, CONCLAVE_ENOMEM, CONCLAVE_ETOOBIG,
 * CONCLAVE_ECLOSED. */
int core_add_auth(struct core *c, const char *scheme, struct slice auth) CONCLAVE_MUST_USE;

/* Takes back a watch (internal: of a recipe) that was not told yet, also one that is about to
 * be; nothing of it is told any more. The server is told when nobody else has such a persistent
 * watch there; where that fails its events are dropped as they come. NULL: there is none. */
struct client_watch *core_forget_watch(struct core *c, const char *path, conclave_watch_fn fn,
                                       void *ctx, bool internal);

/* Ends the session: as conclave_client_close. Becomes CLOSED now or later (core_tick,
 * core_received, core_link_down). */
void core_close(struct core *c, int64_t now_ns, int64_t timeout_ms);

#endif
