/* What the files of the core share among themselves; nobody else includes this. */
#ifndef CLIENT_CORE_CORE_INTERNAL_H
#define CLIENT_CORE_CORE_INTERNAL_H

#include "client/core/core.h"

/* Credentials of the link. */
struct auth {
    struct list link;
    size_t scheme_len;
    size_t auth_len;
    char bytes[]; /* scheme, then auth */
};

/* core.c: enters the next state of the link. */
void core_enter_link(struct core *c, enum core_link link);

/* core.c: tells a new state, if it is one. */
void core_set_state(struct core *c, enum conclave_state state);

/* Whether the server of the link is to be asked. What recipes want (not counted) takes a session. */
static inline bool core_may_send(const struct core *c, const struct client_request *r)
{
    return !c->read_only || r->counted;
}

/* core.c: the session is gone; what waited for it is told. */
void core_lose_session(struct core *c);

/* core.c: the end: everything is answered with error, then state is told. */
void core_end(struct core *c, enum conclave_state state, int error);

/* core.c: the session is attached and may be used: the link gets what was there before, then what
 * waits. 0 or CONCLAVE_ENOMEM. */
int core_attach(struct core *c, int64_t now_ns) CONCLAVE_MUST_USE;

/* core.c: ends a frame of c->out that was begun at start, or takes it back. 0 or CONCLAVE_ENOMEM. */
int core_frame_end(struct core *c, size_t start) CONCLAVE_MUST_USE;

/* core_sasl.c: the session is attached, and is to be proved ours. 0, or why the link must end. */
int core_login_begin(struct core *c) CONCLAVE_MUST_USE;

/* core_sasl.c: one frame on a link in LINK_LOGIN. 0, or why the link must end. */
int core_take_login(struct core *c, struct slice body, int64_t now_ns) CONCLAVE_MUST_USE;

/* core_request.c: a number for the next request. */
int32_t core_next_xid(struct core *c);

/* core_request.c: answers r, once, and drops the core's reference. */
void core_answer(struct core *c, struct client_request *r, int error);

/* core_request.c: answers a whole queue. Requests that the answers give rise to are not touched. */
void core_answer_all(struct core *c, struct list *requests, int error);

/* core_request.c: puts all queued requests on the link. 0 or CONCLAVE_ENOMEM. */
int core_flush_queue(struct core *c, int64_t now_ns) CONCLAVE_MUST_USE;

/* core_request.c: a reply of the server (not ping, auth, event); body: what follows the header;
 * oversized: it was too long to be taken. 0, or why the link must end. */
int core_take_reply(struct core *c, const struct wire_reply_header *header, struct slice body,
                    bool oversized) CONCLAVE_MUST_USE;

/* core_request.c: requests whose time has run out. */
void core_expire_requests(struct core *c, int64_t now_ns);

/* core_request.c: puts closeSession on the link. 0 or CONCLAVE_ENOMEM. */
int core_send_close(struct core *c, int64_t now_ns) CONCLAVE_MUST_USE;

/* core_request.c: puts r, made with request_create_bare, on the link; path NULL: it has no body,
 * else path and type are its body. Takes r on success. 0 or CONCLAVE_ENOMEM. */
int core_send_bare(struct core *c, struct client_request *r, const char *path,
                   int32_t type) CONCLAVE_MUST_USE;

/* core_request.c: takes r off a link that is lost and puts it at the head of the queue. */
void core_requeue(struct core *c, struct client_request *r);

/* core_request.c: takes r out of the queue and answers it. */
void core_refuse_queued(struct core *c, struct client_request *r, int error);

/* core_once.c: what the answer to op may take, in bytes. */
size_t core_once_answer_max(const struct core *c, const struct conclave_op *op);

/* core_once.c: asks for it, at the end of the connect request. */
void core_once_ask(struct core *c);

/* core_once.c: the session is accepted; tail: what follows the connect response. What was sent on an earlier
 * link and cannot be sent again is answered. */
void core_once_accepted(struct core *c, struct slice tail);

/* core_once.c: whether r may be put on the link now. */
bool core_once_fits(const struct core *c, const struct client_request *r);

/* core_once.c: r's frame was appended at start, with CORE_ONCE_ROOM reserved behind it: it gets its number, if
 * it needs one. */
void core_once_sent(struct core *c, struct client_request *r, size_t start);
enum { CORE_ONCE_ROOM = WIRE_WRITE_NUMBER_LEN };

/* core_once.c: r, the first on the link, is answered. */
void core_once_answered(struct core *c, const struct client_request *r);

/* core_once.c: the link is lost: what can be sent again goes to the head of the queue. */
void core_once_keep(struct core *c);

/* core_rearm.c: sends the credentials, or one of them. 0 or CONCLAVE_ENOMEM. */
int core_send_auth(struct core *c, const struct auth *auth) CONCLAVE_MUST_USE;
int core_send_auths(struct core *c) CONCLAVE_MUST_USE;

/* core_rearm.c: wipes and frees the credentials. */
void core_drop_auths(struct core *c);

/* core_rearm.c: sends all watches in setWatches requests. 0 or CONCLAVE_ENOMEM. */
int core_send_watches(struct core *c) CONCLAVE_MUST_USE;

/* core_watch.c: one notification of the server. 0, CONCLAVE_EPROTO or CONCLAVE_ENOMEM. */
int core_take_event(struct core *c, struct slice body) CONCLAVE_MUST_USE;

/* core_watch.c: all watches are set again: tells the persistent ones. 0 or CONCLAVE_ENOMEM. */
int core_tell_resumed(struct core *c) CONCLAVE_MUST_USE;

/* core_watch.c: takes all watches and tells them that they are lost. */
void core_lose_watches(struct core *c);

/* core_watch.c: lets the server drop its persistent watch, unless somebody still wants it. */
void core_release_watch(struct core *c, const char *path, enum client_watch_kind kind);

/* core_watch.c: the server's answer to that. */
void core_take_released(struct core *c, const struct client_request *r, int error);

#endif
