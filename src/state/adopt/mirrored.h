/*
 * Applies any command, also the transactions of the source that a mirror follows (state/mirror.h): those are applied as
 * outcome.h says, and every other command by state_apply.
 */
#ifndef STATE_ADOPT_MIRRORED_H
#define STATE_ADOPT_MIRRORED_H

#include "state/state.h"

/* As state_apply. A transaction that cannot be applied leaves the mirror not synced, with the effects' err
 * CONCLAVE_DATA_INCONSISTENCY: its state must be replaced. One that the state has, or that leaves a gap, changes nothing; the err of a gap
 * is CONCLAVE_BAD_VERSION. */
void mirrored_apply(struct state *s, const struct batch_header *header,
                    const struct command *command, struct effects *effects);

#endif
