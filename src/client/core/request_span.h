/* The span of a request, while it grows: made with the request if the program wants spans, otherwise never. */
#ifndef CLIENT_CORE_REQUEST_SPAN_H
#define CLIENT_CORE_REQUEST_SPAN_H

#include "client/core/dispatcher.h"
#include "wire/trace_ids.h"

#include <conclave/op.h>
#include <conclave/span.h>

struct request_span {
    struct job job; /* delivery */
    struct conclave_client *client;
    struct conclave_span span;
    int64_t begun_ns; /* monotonic */
    char path[];
};

/* Begins it, with a copy of op's path and this thread's parent. NULL: out of memory. */
struct request_span *request_span_create(const struct conclave_op *op, int64_t now_ns);

/* The request was put on a link: the ids of its last try count. */
void request_span_sent(struct request_span *s, int64_t session_id, uint64_t link, int32_t xid);

/* Ends it. */
void request_span_end(struct request_span *s, int32_t opcode, int error, int64_t now_ns);

#endif
