/*
 * Replacing the whole state by that of a snapshot while the server runs. The way is the log's: the snapshot is one entry,
 * so it is durable before it counts, a crash leaves the old state or the new one, and the entries behind it apply to the
 * new one, at every start and on every server alike.
 *
 * The zxid never goes back: fencing tokens stay higher than all before them. Sessions are the snapshot's: whoever is
 * connected is cut off and told that his session has expired; sessions of the snapshot have their full timeout to come
 * back.
 */
#ifndef FRONT_STATE_REPLACEMENT_H
#define FRONT_STATE_REPLACEMENT_H

#include "front/service.h"

/*
 * Proposes it. `snapshot` is what state_snapshot_step gave; it is loaded on trial first, which takes memory and time as
 * the tree has them. 0 and *ret_id: done when s->replaced_by is that; CONCLAVE_ECORRUPT, CONCLAVE_ETOOBIG,
 * CONCLAVE_ENOMEM, or the sink's failure.
 */
int state_replacement_submit(struct service *s, struct slice snapshot,
                             int64_t *ret_id) CONCLAVE_MUST_USE;

/* Applies the entry. Errors as service_apply. */
int state_replacement_begin(struct service *s, struct slice entry) CONCLAVE_MUST_USE;

/* The service goes on with another state, which it takes over in any case. Whoever is connected is cut
 * off; the sessions of the new state have their full timeout to come back. 0 or CONCLAVE_ENOMEM. */
int state_replacement_adopt(struct service *s, struct state *state_take) CONCLAVE_MUST_USE;

#endif
