/*
 * The profile `secure`: the values that it sets for keys that are not given, what it refuses, and the warning about an
 * open client port without it. docs/security.md lists all of it.
 */
#ifndef DAEMON_SECURE_PROFILE_H
#define DAEMON_SECURE_PROFILE_H

#include "daemon/zoo_cfg.h"

/* Call it before the other conclusions from the keys: sets the keys that are not given. Errors as zoo_cfg_parse. */
int secure_profile_begin(struct zoo_cfg *c) CONCLAVE_MUST_USE;

/* Call it after them: refuses what the profile does not allow. Without the profile it warns in c->notices. */
int secure_profile_end(struct zoo_cfg *c) CONCLAVE_MUST_USE;

#endif
