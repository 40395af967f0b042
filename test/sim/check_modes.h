/*
 * Sessions that are not of all servers. A client that is linked to a server without a quorum, to read, never sees a
 * write or a sync succeed. An ephemeral node never belongs to a local session: it is refused where sessions are not upgraded,
 * never where they are, and in the end every owner is a session that all servers know. A local session ends no earlier than
 * its timeout after the last answer, as one of all servers does (check_sessions), before and after it was upgraded.
 */
#ifndef SIM_CHECK_MODES_H
#define SIM_CHECK_MODES_H

#include "sim/checks.h"

void check_modes_answered(struct sim *s, const struct client *c, const struct deed *d);
void check_modes_end(struct sim *s);

#endif
