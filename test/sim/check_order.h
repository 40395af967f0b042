/* A session's view never goes back, on any server; a synced read, and a linearizable one, shows
 * every write that was acknowledged to anybody before it was asked for. */
#ifndef SIM_CHECK_ORDER_H
#define SIM_CHECK_ORDER_H

#include "sim/checks.h"

void check_order_answered(struct sim *s, struct client *c, struct deed *d,
                          const struct conclave_reply *reply);

#endif
