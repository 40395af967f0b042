/*
 * The mirror of an Apache ZooKeeper, for conclave migrate:
 *
 *   GET  /mirror                what is known here, as JSON; only the leader knows the source's side
 *   POST /mirror/follow         source=HOST:PORT,...&reads=any|readonly&replace=0|1
 *   POST /mirror/transactions   on the leader, while the source is away: transactions that it had, one behind the other, each
 *                               as length i32, previous zxid i64, bytes; the answer says how many were taken
 *   POST /mirror/barrier        asks the source for a transaction that proves that nothing is missing
 *   POST /mirror/end            zxid=0x...: the mirror ends, if its zxid is this one
 *
 * follow and end are answered when they are on their way; GET tells the outcome. POST is for those that
 * admission_check_mirror admits.
 */
#ifndef ADMIN_MIRROR_ROUTE_H
#define ADMIN_MIRROR_ROUTE_H

#include "admin/answers/server_view.h"
#include "admin/http/http_login.h"
#include "front/pipeline.h"

struct mirror_route {
    struct view *view;           /* borrowed */
    struct admission *admission; /* likewise */
    struct pending_owner owner;  /* of the command that is on its way */
    bool waits;                  /* it is */
    const char *act;             /* the last one: "follow", "end"; NULL: none */
    int32_t err;                 /* its outcome */
    struct {                     /* of both sides at one zxid, as they were last compared */
        uint64_t generation;     /* of the service's state */
        int64_t zxid;            /* 0: never */
        uint64_t own;
        uint64_t source;
        int64_t at_ms;
    } digests;
};

/* Whether the request is for this route; if so answers it. ctx is the struct. */
bool mirror_route_answer(void *ctx, const struct http_request *request,
                         struct http_response *response);

/* The server goes: no outcome comes any more. */
void mirror_route_cancel(struct mirror_route *t);

#endif
