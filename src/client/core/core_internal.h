/* What the files of the core share; only they include this. */
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

/* core.c: reports a state, if it is new. */
void core_set_state(struct core *c, enum conclave_state state);

/* Whether a request may be sent to the link's server: not if the link is about to be given up. Requests of recipes (not counted) need a session. */
static inline bool core_may_send(const struct core *c, const struct client_request *r)
{
    return (!c->read_only || r->counted) && c->leave_by_ns == 0;
}

/* core.c: the session is gone; answers everything that waited for it. */
void core_lose_session(struct core *c);

/* core.c: the end: answers everything with error, then reports the state. */
void core_end(struct core *c, enum conclave_state state, int error);

/* core.c: the session is attached and may be used: sends credentials and watches, then the waiting requests. 0 or
 * CONCLAVE_ENOMEM. */
int core_attach(struct core *c, int64_t now_ns) CONCLAVE_MUST_USE;

/* core.c: ends a frame of c->out that began at start, or removes it. 0 or CONCLAVE_ENOMEM. */
int core_frame_end(struct core *c, size_t start) CONCLAVE_MUST_USE;

/* core_sasl.c: the session is attached, and the client must authenticate. 0, or why the link must end. */
int core_login_begin(struct core *c) CONCLAVE_MUST_USE;

/* core_sasl.c: one frame on a link in LINK_LOGIN. 0, or why the link must end. */
int core_take_login(struct core *c, struct slice body, int64_t now_ns) CONCLAVE_MUST_USE;

/* core_request.c: a number for the next request. */
int32_t core_next_xid(struct core *c);

/* core_request.c: answers r, once, and drops the core's reference. */
void core_answer(struct core *c, struct client_request *r, int error);

/* core_request.c: answers a whole queue. Requests that these answers cause are not touched. */
void core_answer_all(struct core *c, struct list *requests, int error);

/* core_request.c: puts all queued requests on the link. 0 or CONCLAVE_ENOMEM. */
int core_flush_queue(struct core *c, int64_t now_ns) CONCLAVE_MUST_USE;

/* core_request.c: a reply of the server (not ping, auth, event); body follows the header; oversized: it was too long to
 * accept. 0, or why the link must end. */
int core_take_reply(struct core *c, const struct wire_reply_header *header, struct slice body,
                    bool oversized) CONCLAVE_MUST_USE;

/* core_request.c: handles requests whose time is over. */
void core_expire_requests(struct core *c, int64_t now_ns);

/* core_request.c: puts closeSession on the link. 0 or CONCLAVE_ENOMEM. */
int core_send_close(struct core *c, int64_t now_ns) CONCLAVE_MUST_USE;

/* core_request.c: puts r, made with request_create_bare, on the link. path NULL: no body, otherwise path and type are
 * the body. Takes r on success. 0 or CONCLAVE_ENOMEM. */
int core_send_bare(struct core *c, struct client_request *r, const char *path,
                   int32_t type) CONCLAVE_MUST_USE;

/* core_request.c: takes r off a lost link and puts it at the head of the queue. */
void core_requeue(struct core *c, struct client_request *r);

/* core_request.c: removes r from the queue and answers it. */
void core_refuse_queued(struct core *c, struct client_request *r, int error);

/* core_retry.c: whether r, which failed with this error, is to be repeated. */
bool core_retry_wants(const struct core *c, const struct client_request *r, int error);

/* core_retry.c: r, which is in no list and was not answered, is queued again after a pause. */
void core_retry_pause(struct core *c, struct client_request *r, int error);

/* core_retry.c: queues the requests whose pause is over. 0 or CONCLAVE_ENOMEM. */
int core_retry_queue(struct core *c, int64_t now_ns) CONCLAVE_MUST_USE;

/* core_retry.c: the session is gone: answers the pausing requests that belong to it. */
void core_retry_lose_session(struct core *c);

/* core_request.c: puts r, or takes it, from one of the core's lists; counts the program's. */
void core_request_enter(struct core *c, const struct client_request *r);
void core_request_leave(struct core *c, const struct client_request *r);

/* core_once.c: the most bytes that the answer to op may have. */
size_t core_once_answer_max(const struct core *c, const struct conclave_op *op);

/* core_once.c: requests exactly-once writes, and announces spans, at the end of the connect request. */
void core_once_ask(struct core *c);

/* core_once.c: the session is accepted; tail follows the connect response. Answers requests of an earlier link that
 * cannot be sent again. */
void core_once_accepted(struct core *c, struct slice tail);

/* core_once.c: whether r may be put on the link now. */
bool core_once_fits(const struct core *c, const struct client_request *r);

/* core_once.c: r's frame was appended at start, with CORE_ONCE_ROOM reserved after it: adds its number, if it needs
 * one. */
void core_once_sent(struct core *c, struct client_request *r, size_t start);
enum { CORE_ONCE_ROOM = WIRE_WRITE_NUMBER_LEN };

/* core_once.c: r, the first one on the link, got this error, which says nothing about its outcome: the link must end. */
bool core_once_is_unknown(const struct core *c, const struct client_request *r, int error);

/* core_once.c: r, the first one on the link, is answered. */
void core_once_answered(struct core *c, const struct client_request *r);

/* core_once.c: the link is lost: requests that can be sent again go to the head of the queue. */
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

/* core_watch.c: all watches are set again: informs the persistent ones. 0 or CONCLAVE_ENOMEM. */
int core_tell_resumed(struct core *c) CONCLAVE_MUST_USE;

/* core_watch.c: removes all watches and reports their loss. */
void core_lose_watches(struct core *c);

/* core_watch.c: lets the server drop a persistent watch, unless another function still needs it. */
void core_release_watch(struct core *c, const char *path, enum client_watch_kind kind);

/* core_watch.c: the server's answer to that. */
void core_take_released(struct core *c, const struct client_request *r, int error);

#endif
