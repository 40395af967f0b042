/*
 * What the server does with each operation: one table. Operations without a row are answered
 * UNIMPLEMENTED and end the connection, as in Apache ZooKeeper.
 */
#ifndef FRONT_REQUEST_H
#define FRONT_REQUEST_H

#include "front/connection.h"

enum request_kind {
    REQUEST_WRITE,  /* goes through the log */
    REQUEST_AUTH,   /* takes effect at once, is answered in order */
    REQUEST_ANSWER, /* answered in order, from the applied state */
};

/* What its answer is made of. */
enum request_freshness {
    REQUEST_OWN,   /* the connection's own affairs */
    REQUEST_READ,  /* the state as it is here, or with linearizableReads as a quorum knows it */
    REQUEST_PROVE, /* always the latter */
};

struct request_row {
    int32_t type; /* enum wire_op */
    enum request_kind kind;
    bool last; /* nothing is read from the connection after it */
    void (*answer)(struct connection *c,
                   const struct request *r); /* NULL for writes, but closeSession */
    enum request_freshness fresh;
};

/* The row of an operation; that of unknown ones when it has none. */
const struct request_row *request_row(int32_t type);

/* Answers a request that was refused when it was read, with r->err. */
void answer_refused(struct connection *c, const struct request *r);

/* False, with a line in the log: a member on another machine would join servers that prove nothing to
 * each other, because all of them are on this one. */
bool request_may_reconfig(const struct connection *c, struct slice body);

/* An auth request's effect: 0, CONCLAVE_AUTH_FAILED, or REQUEST_LATER: connection_verified follows, or
 * the connection ends without an answer. */
enum { REQUEST_LATER = 1 };
int32_t request_authenticate(struct connection *c, struct slice body);

#endif
