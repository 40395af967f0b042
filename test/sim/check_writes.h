/*
 * Acknowledged writes are in the end in the state of every server, each exactly once: every version of a
 * key was made by one deed, and no deed made two; nodes are there that were made, and no others.
 */
#ifndef SIM_CHECK_WRITES_H
#define SIM_CHECK_WRITES_H

#include "sim/checks.h"

void check_writes_answered(struct sim *s, struct deed *d, const struct conclave_reply *reply);
void check_writes_end(struct sim *s);

#endif
