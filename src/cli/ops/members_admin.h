/* The HTTP port through which an ensemble takes an operator's request. */
#ifndef CLI_OPS_MEMBERS_ADMIN_H
#define CLI_OPS_MEMBERS_ADMIN_H

#include "cli/common/ensemble_view.h"

/* Which server's port. */
struct admin_wanted {
    uint64_t leader; /* of the ensemble; 0: unknown */
    uint64_t
        only; /* this server's; 0: any, the leader's first, because all pass a request on to the leader */
    bool spare_leader; /* the leader's last instead, and first of servers that serve */
};

/* Finds a port that answers. A port on a loopback address of another machine is taken only if this machine's port with that
 * address belongs to the same ensemble. 0 with "host:port", or the exit code after printing each server's reason. */
int members_admin_find(const char *command, const struct common_options *options,
                       const struct ensemble_view *view, const struct admin_wanted *wanted,
                       char ret[ROSTER_ADDRESS_MAX]);

#endif
