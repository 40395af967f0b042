/*
 * A session ends no earlier than its timeout after the last answer that any server sent to its client, and gets
 * none after its end; in the end it is gone everywhere. The check looks at messages where they leave the servers,
 * so that it counts whether the client hears it, is gone by then, or had given up. Ephemerals are there as long
 * as their session lives, and not longer.
 */
#ifndef SIM_CHECK_SESSIONS_H
#define SIM_CHECK_SESSIONS_H

#include "sim/checks.h"

/* A server sends these frames to the client of a session. */
void check_sessions_sent(struct sim *s, int64_t session, int32_t timeout_ms, struct slice frames);

/* A server ends a local session. */
void check_sessions_local_end(struct sim *s, int64_t session);

/* The first time that a log entry is applied anywhere. */
void check_sessions_entry(struct sim *s, struct slice payload);

void check_sessions_answered(struct sim *s, struct client *c, struct deed *d,
                             const struct conclave_reply *reply);
void check_sessions_end(struct sim *s);

#endif
