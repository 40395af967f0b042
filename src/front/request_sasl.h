/*
 * The sasl operation: tokens of the client in, tokens of the server out, and an id in the end.
 * Source: ZooKeeperServer.processSasl of Apache ZooKeeper 3.9.
 */
#ifndef FRONT_REQUEST_SASL_H
#define FRONT_REQUEST_SASL_H

#include "front/connection.h"

/* Takes a request's body at once, as what comes behind it may need the id, and appends the record
 * of its answer. 0, CONCLAVE_AUTH_FAILED or CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH: the answer's err,
 * and the connection's end behind it. May drop the connection. */
int32_t request_login(struct connection *c, struct slice body, struct buf *record);

/* The answer in order: r->err, and r->body is the record, which stands behind an err, too. */
void answer_login(struct connection *c, const struct request *r);

#endif
