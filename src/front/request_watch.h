/*
 * The operations on watches, and the one way in which a connection comes to a watch. Limits: so many
 * watches of one connection and of all; what goes beyond is answered QUOTA_EXCEEDED, and nothing that is
 * set already is lost.
 */
#ifndef FRONT_REQUEST_WATCH_H
#define FRONT_REQUEST_WATCH_H

#include "front/connection.h"

/* Sets a watch; setting it again is one watch. 0, CONCLAVE_QUOTA_EXCEEDED or CONCLAVE_SYSTEM_ERROR (out of
 * memory). */
int request_watch(struct connection *c, enum watch_kind kind, struct slice path);

/* For the table of requests. */
void answer_set_watches(struct connection *c, const struct request *r);
void answer_set_watches2(struct connection *c, const struct request *r);
void answer_add_watch(struct connection *c, const struct request *r);
void answer_check_watches(struct connection *c, const struct request *r);
void answer_remove_watches(struct connection *c, const struct request *r);

#endif
