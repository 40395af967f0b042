/*
 * Requests for a blocking function that sends one after the other: they share one deadline, and are sent again when the
 * link is lost, and after a pause when the server cannot carry them out now. No lock held for any of these.
 */
#ifndef RECIPES_ENGINE_BLOCKING_REQUESTS_H
#define RECIPES_ENGINE_BLOCKING_REQUESTS_H

#include "client/client.h"

struct blocking {
    struct conclave_client *client;
    int64_t deadline_ns; /* or CONCLAVE_FOREVER */
    int64_t session_id;  /* requests are sent in this session only; 0: in any */
    bool repeated;       /* the last request may have been carried out before */
    bool plain;          /* the server has no containers */
};

struct blocking blocking_begin(struct conclave_client *client, int64_t timeout_ms);

/* Whether the time is over. */
bool blocking_is_late(const struct blocking *b);

/* 0, or CONCLAVE_SESSION_EXPIRED: the session that the requests are bound to has ended. */
int blocking_session(const struct blocking *b) CONCLAVE_MUST_USE;

/* Sends once, with the time that is left, at least a millisecond. As conclave_call, and CONCLAVE_SESSION_EXPIRED as
 * blocking_session. */
int blocking_try(struct blocking *b, struct conclave_op op,
                 struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* The same; CONCLAVE_ETIMEDOUT: the time was over before, or passed without an answer. *ret_reply is NULL without one. */
int blocking_once(struct blocking *b, struct conclave_op op,
                  struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* Sends until there is an answer: only for what may be carried out twice. As conclave_call, and CONCLAVE_ETIMEDOUT. */
int blocking_request(struct blocking *b, struct conclave_op op,
                     struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* The same with an operation on a path; a list of children is no older than this call. */
int blocking_ask(struct blocking *b, enum conclave_op_type type, const char *path,
                 struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* Makes a node and what is missing above it, as containers (plain nodes where the server has none). 0 also when it
 * exists. CONCLAVE_NO_NODE: the chroot is missing. */
int blocking_ensure(struct blocking *b, const char *path, const struct conclave_acl *acl,
                    size_t acl_count) CONCLAVE_MUST_USE;

/* The same for what is above path, to which a write gave CONCLAVE_NO_NODE. */
int blocking_ensure_parent(struct blocking *b, const char *path, const struct conclave_acl *acl,
                           size_t acl_count) CONCLAVE_MUST_USE;

#endif
