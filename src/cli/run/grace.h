/*
 * The grace of a command that runs while something is held: the time from the signal that tells it to stop to
 * SIGKILL. The signal comes at the latest at the end of the lease, two thirds of the session timeout after the last
 * proof; the session may end a third later, and the command has to be gone by then.
 */
#ifndef CLI_RUN_GRACE_H
#define CLI_RUN_GRACE_H

#include "cli/common/options.h"

#include <stdbool.h>
#include <stdint.h>

/* asked_ms: what was asked for, -1: the most. false: it does not fit the session; told as wrong usage. */
bool grace_fit(const struct command_usage *usage, int64_t asked_ms, int64_t session_timeout_ms,
               int64_t *ret_ms);

#endif
