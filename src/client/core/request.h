/*
 * One request: checked, encoded, waiting, answered. Two parties share it: the connection core, which holds it until the
 * server's answer has come or can no longer come, and the delivery of its reply.
 */
#ifndef CLIENT_CORE_REQUEST_H
#define CLIENT_CORE_REQUEST_H

#include "base/buf.h"
#include "base/list.h"
#include "client/core/dispatcher.h"
#include "client/core/request_span.h"
#include "client/core/timers.h"
#include "client/core/watches.h"
#include "wire/ops.h"

#include <conclave/client.h>

#include <stdatomic.h>

struct client_request {
    struct list link;   /* of the core's queues */
    struct job job;     /* delivery of the reply */
    struct timer timer; /* its timeout */
    atomic_int refs;    /* 1 for the core, 1 for the delivery */
    struct conclave_client *client;
    conclave_reply_fn fn; /* may be NULL */
    void *ctx;
    struct request_span *span;  /* for the program; or NULL */
    struct client_watch *watch; /* set when the answer allows it; or NULL */
    uint8_t *frame; /* encoded frame, if it could not go directly to the link; or NULL */
    size_t frame_len;
    void *block; /* memory of the reply's variable parts, or NULL */
    struct conclave_reply reply;
    int64_t sent_ns;      /* when it was put on the link */
    size_t answer_max;    /* bytes that its answer may have, with exactly-once writes */
    int32_t number;       /* number of an exactly-once write */
    bool numbered;        /* it has a number */
    bool kept;            /* it was on an earlier link, and may have been applied */
    int64_t timeout_ms;   /* of this request as given */
    uint32_t parts_count; /* MULTI */
    int32_t opcode;       /* enum wire_op */
    int32_t xid;
    int32_t sync_xid; /* xid of the sync directly before it on the link */
    enum conclave_op_type type;
    /* how it is repeated; max_repeats 0: not */
    struct conclave_retry_options retry;
    struct timer again; /* the end of the pause before it is repeated */
    uint32_t repeats;   /* repetitions so far */
    int32_t sync_error; /* of the sync before it, which was answered first; repeats it */
    bool conditional;   /* SET of an expected version */
    bool unsure;        /* a try of this SET, before the last one, may have been carried out */
    bool internal;      /* fn is called on the loop, under the lock */
    bool counted;       /* counts against core_options.max_pending */
    bool syncing;       /* its sync is not answered yet, so it counts twice */
    /* its reply was delivered (timeout), but the server's answer is still to come */
    bool answered;
};

/* Reads a policy by its size. NULL: *own stays. 0, or CONCLAVE_EINVAL: it makes no sense. */
int retry_read(struct conclave_retry_options *own,
               const struct conclave_retry_options *given) CONCLAVE_MUST_USE;

/* Whether the error says that the server did not carry the request out, and may do so later. */
bool error_is_refusal(int error);

/* Whether r changes nothing in the tree, so that it may be carried out any number of times. */
bool request_only_reads(const struct client_request *r);

/* Whether op may be sent: 0 or CONCLAVE_EINVAL. */
int op_check(const struct conclave_op *op) CONCLAVE_MUST_USE;

/* A request for a checked op, with one reference. 0 or CONCLAVE_ENOMEM. */
int request_create(const struct conclave_op *op, struct client_request **ret) CONCLAVE_MUST_USE;

/* A request for an operation without a body and without a caller (closeSession). NULL: out of memory. */
struct client_request *request_create_bare(int32_t opcode);

/* Drops a reference; the last one frees it with everything that it holds. */
void request_unref(struct client_request *r);

/* What all requests of a client share. */
struct request_form {
    struct slice chroot;            /* added to all paths */
    const struct conclave_acl *acl; /* for creates without an ACL; NULL: open */
    size_t acl_count;
    bool create2; /* the server knows create2 */
    size_t max;   /* bytes of a frame */
};

/* Appends the frame of a checked op, without the sync that a linearizable one needs before it. On failure
 * (CONCLAVE_ENOMEM, or CONCLAVE_ETOOBIG: longer than form->max) b is unchanged. */
int request_encode(struct buf *b, const struct conclave_op *op, int32_t xid,
                   const struct request_form *form) CONCLAVE_MUST_USE;

/* The operation number for op. */
int32_t request_opcode(const struct conclave_op *op, bool create2);

/* Fills r->reply from the body of an answer without error. 0, CONCLAVE_EPROTO (malformed),
 * CONCLAVE_ENOMEM. */
int request_decode(struct client_request *r, struct slice body,
                   struct slice chroot) CONCLAVE_MUST_USE;

/* Takes the detached reply: free it with conclave_reply_free. NULL when memory is out. */
struct conclave_reply *request_take_reply(struct client_request *r);

#endif
