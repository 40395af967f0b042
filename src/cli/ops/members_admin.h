/* The HTTP port through which an ensemble takes an operator's request. */
#ifndef CLI_OPS_MEMBERS_ADMIN_H
#define CLI_OPS_MEMBERS_ADMIN_H

#include "cli/common/ensemble_view.h"

/* Finds a port that answers: of the server `only`, or (0) of any, the leader's first, because all of them pass a request on
 * to the leader. A port on a loopback address of another machine is taken only if this machine's port with that address
 * belongs to the same ensemble. 0 with "host:port", or the exit code after printing each server's reason. */
int members_admin_find(const char *command, const struct common_options *options,
                       const struct ensemble_view *view, uint64_t leader, uint64_t only,
                       char ret[ROSTER_ADDRESS_MAX]);

#endif
