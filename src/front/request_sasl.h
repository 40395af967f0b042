/*
 * The sasl operation: exchanges tokens, and finally gives the client an id. Source: ZooKeeperServer.processSasl of
 * Apache ZooKeeper 3.9.
 */
#ifndef FRONT_REQUEST_SASL_H
#define FRONT_REQUEST_SASL_H

#include "front/connection.h"

/* Handles the request at once, because later requests may need the id, and appends the record of the answer. 0,
 * CONCLAVE_AUTH_FAILED or CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH: the error for the answer, after which the connection
 * ends. May drop the connection. */
int32_t request_login(struct connection *c, struct slice body, struct buf *record);

/* Sends the answer in order: r->err and r->body, which is the record, also after an error. */
void answer_login(struct connection *c, const struct request *r);

#endif
