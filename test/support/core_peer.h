/*
 * A connection core, a server's end in memory and a clock set by hand: the harness reads what the core
 * sends as frames, builds the server's answers, and records the calls of the core's callbacks.
 */
#ifndef SUPPORT_CORE_PEER_H
#define SUPPORT_CORE_PEER_H

#include "client/core/core.h"

enum {
    PEER_SESSION = 0x1234,
    PEER_TIMEOUT_MS = 9000,
};

struct peer_reply {
    int id; /* as given to peer_submit */
    int error;
    size_t order; /* among replies, watches and states */
    char path[64];
    char data[64];
    bool has_stat;
    size_t count; /* children, ACL entries, results, identities, or the number of all */
};

struct peer_watch {
    int id;
    enum conclave_event_type type;
    size_t order;
    char path[64];
};

struct peer {
    struct core core;
    int64_t now_ns;
    size_t order;
    enum conclave_state states[64];
    size_t state_order[64];
    size_t states_count;
    struct peer_reply *replies;
    size_t replies_count;
    struct peer_watch *watches;
    size_t watches_count;
    size_t logins;        /* tokens that the core asked for */
    char challenge[64];   /* the newest challenge; "" for none */
    bool challenge_first; /* it begins an exchange */
    int login_error;      /* the result that the core gets */
    struct buf sent;      /* bytes of the core; those from sent_at on are unread */
    size_t sent_at;
};

/* One frame that the core sent. body: the bytes after the request header (all bytes of a connect
 * request). */
struct peer_frame {
    int32_t xid;
    int32_t type;
    struct slice body;
};

void peer_init(struct peer *p, const char *chroot);
void peer_init_with(struct peer *p, const struct core_options *options);
struct core_options peer_options(const char *chroot);

/* Closes the core, checks that every submitted request was answered once, and frees all. */
void peer_finish(struct peer *p);

/* Submits an operation; id appears in the log. */
int peer_submit(struct peer *p, const struct conclave_op *op, int id);

/* The same; counted false: as recipes do. */
int peer_submit_as(struct peer *p, const struct conclave_op *op, int id, bool counted);

/* Submits a read of the path with a watch that has the same id. */
void peer_watch(struct peer *p, enum conclave_op_type type, const char *path, int id);

/* Submits an addWatch; id appears with its answer and its events. */
void peer_add_watch(struct peer *p, const char *path, enum conclave_watch_kind kind, int id);

/* Takes back the watch with this id; false: there is none. */
bool peer_forget_watch(struct peer *p, const char *path, int id);

/* The next frame that the core has sent; false when there is none. handshake: it has no request
 * header. */
bool peer_take(struct peer *p, struct peer_frame *ret, bool handshake);

/* Takes the next frame, which must be of this type. */
struct peer_frame peer_expect(struct peer *p, int32_t type);

/* Gives the core raw bytes, in pieces of at most `piece` (0: all at once). */
void peer_feed(struct peer *p, struct slice bytes, size_t piece);

/* Appends frames of the server. */
void peer_put_connect(struct buf *b, int32_t timeout_ms, int64_t session_id, size_t passwd_len);
void peer_put_reply(struct buf *b, int32_t xid, int64_t zxid, int32_t err, struct slice body);
void peer_put_event(struct buf *b, int32_t type, const char *path);
void peer_put_stat(struct buf *b, int64_t zxid);

/* Build a frame and give it to the core. */
void peer_reply(struct peer *p, int32_t xid, int64_t zxid, int32_t err, struct slice body);
void peer_event(struct peer *p, int32_t type, const char *path);

/* Answers the given frame with a stat, or an error. */
void peer_answer_stat(struct peer *p, const struct peer_frame *f, int64_t zxid);

/* Answers a SASL frame; token NULL: without a token. */
void peer_answer_token(struct peer *p, const struct peer_frame *f, int32_t err, const char *token);

/* Goes through the handshake: link up, connect request taken, accepted with this session. */
void peer_connect(struct peer *p, int64_t session_id);

/* Advances the clock and ticks the core at each deadline on the way. */
void peer_advance_ms(struct peer *p, int64_t ms);

/* The log entry of this id; there must be exactly one. */
const struct peer_reply *peer_reply_of(const struct peer *p, int id);

/* Entries of this id. */
size_t peer_replies_of(const struct peer *p, int id);
size_t peer_watches_of(const struct peer *p, int id);

#endif
