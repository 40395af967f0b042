/*
 * One table of what the server does with each operation. Operations without a row are answered UNIMPLEMENTED and end
 * the connection, as in Apache ZooKeeper.
 */
#ifndef FRONT_REQUEST_H
#define FRONT_REQUEST_H

#include "front/connection.h"

enum request_kind {
    REQUEST_WRITE,  /* goes through the log */
    REQUEST_AUTH,   /* takes effect at once, answered in order */
    REQUEST_ANSWER, /* answered in order, from the applied state */
};

/* Which state the answer needs. */
enum request_freshness {
    REQUEST_OWN,   /* only the connection itself */
    REQUEST_READ,  /* the local state; with linearizableReads one proved by a quorum */
    REQUEST_PROVE, /* always a state proved by a quorum */
};

struct request_row {
    int32_t type; /* enum wire_op */
    enum request_kind kind;
    bool last; /* the last request of its connection */
    void (*answer)(struct connection *c,
                   const struct request *r); /* NULL for writes except closeSession */
    enum request_freshness fresh;
};

/* The row of an operation; unknown operations share one row. */
const struct request_row *request_row(int32_t type);

/* Answers a request that was refused when it was read, with r->err. */
void answer_refused(struct connection *c, const struct request *r);

/* False, with a log line: the reconfig would add a member on another machine, but these servers do not authenticate
 * each other, because all of them are on this machine. */
bool request_may_reconfig(const struct connection *c, struct slice body);

/* Carries out an auth request. 0, CONCLAVE_AUTH_FAILED, or REQUEST_LATER: connection_verified follows, or the
 * connection ends without an answer. */
enum { REQUEST_LATER = 1 };
int32_t request_authenticate(struct connection *c, struct slice body);

#endif
