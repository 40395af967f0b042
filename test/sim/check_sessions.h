/*
 * A session lives at least its timeout from the asking of the latest write that was answered, and from
 * the latest ping two ticks less; then, in the end, it is gone everywhere. Its ephemerals are there as
 * long as it lives, and not longer.
 */
#ifndef SIM_CHECK_SESSIONS_H
#define SIM_CHECK_SESSIONS_H

#include "sim/checks.h"

/* The first time that a log entry is applied anywhere. */
void check_sessions_entry(struct sim *s, struct slice payload);

void check_sessions_answered(struct sim *s, struct client *c, struct deed *d,
                             const struct conclave_reply *reply);
void check_sessions_end(struct sim *s);

#endif
