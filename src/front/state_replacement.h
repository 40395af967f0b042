/*
 * Replaces the whole state by a snapshot while the server runs. The snapshot is one log entry: so it is durable before
 * it counts, a crash leaves the old state or the new one, and later entries apply to the new one, at every start and on
 * every server.
 *
 * The zxid never goes back: fencing tokens stay higher than all earlier ones. Sessions are those of the snapshot:
 * connected clients are disconnected and learn that their session has expired; sessions of the snapshot have their full
 * timeout to come back.
 */
#ifndef FRONT_STATE_REPLACEMENT_H
#define FRONT_STATE_REPLACEMENT_H

#include "front/service.h"

/*
 * Proposes it. `snapshot` is the output of state_snapshot_step; it is first loaded as a trial, which needs memory and
 * time in proportion to the tree. 0 and *ret_id: complete when s->replaced_by has that value; CONCLAVE_ECORRUPT,
 * CONCLAVE_ETOOBIG, CONCLAVE_ENOMEM, or the sink's error.
 */
int state_replacement_submit(struct service *s, struct slice snapshot,
                             int64_t *ret_id) CONCLAVE_MUST_USE;

/* Applies the entry. Errors as service_apply. */
int state_replacement_begin(struct service *s, struct slice entry) CONCLAVE_MUST_USE;

/* Continues with another state, which it always takes over. Disconnects all clients; the sessions of the new state have
 * their full timeout to come back. 0 or CONCLAVE_ENOMEM. */
int state_replacement_adopt(struct service *s, struct state *state_take) CONCLAVE_MUST_USE;

#endif
