/*
 * The operations on watches, and the only function that sets a watch for a connection. Limits: watches of one
 * connection and of all. A watch beyond a limit is answered QUOTA_EXCEEDED; existing watches stay.
 */
#ifndef FRONT_REQUEST_WATCH_H
#define FRONT_REQUEST_WATCH_H

#include "front/connection.h"

/* Sets a watch; a repetition has no effect. 0, CONCLAVE_QUOTA_EXCEEDED or CONCLAVE_SYSTEM_ERROR (out of memory). */
int request_watch(struct connection *c, enum watch_kind kind, struct slice path);

/* For the table of requests. */
void answer_set_watches(struct connection *c, const struct request *r);
void answer_set_watches2(struct connection *c, const struct request *r);
void answer_add_watch(struct connection *c, const struct request *r);
void answer_check_watches(struct connection *c, const struct request *r);
void answer_remove_watches(struct connection *c, const struct request *r);

#endif
