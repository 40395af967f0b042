/* All servers apply the same entry at an index, with the same state; a term has one leader. */
#ifndef SIM_CHECK_REPLICAS_H
#define SIM_CHECK_REPLICAS_H

#include "sim/checks.h"

/* True when the server is the first to apply that index. */
bool check_replicas_applied(struct sim *s, struct machine *m, uint64_t index, struct slice payload);
void check_replicas_leader(struct sim *s, struct machine *m, uint64_t term);

/* All have applied as much. */
void check_replicas_end(struct sim *s);

#endif
