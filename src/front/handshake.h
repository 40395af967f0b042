/*
 * The first frame of a connection: a new session, or an old one taken up again by id and password.
 * Source: ZooKeeperServer.processConnectRequest of Apache ZooKeeper 3.9; unlike it, a wrong
 * password leaves the session's living connection alone, and passwords are random.
 */
#ifndef FRONT_HANDSHAKE_H
#define FRONT_HANDSHAKE_H

#include "front/connection.h"

/* Takes a ConnectRequest. */
void handshake_request(struct connection *c, struct slice body);

/* Makes a local session global: gives the command to the log. On failure the connection is dropped. */
void handshake_upgrade(struct connection *c);

/* The command that creates or resumes a session was applied; the client asked for it at asked_ns. */
void handshake_applied(struct connection *c, int32_t type, const struct effects *effects,
                       int64_t asked_ns);

/* Names the first four bytes if they are no frame length: "HTTP request", ... or NULL. */
const char *handshake_name_stranger(int32_t len);

#endif
