/*
 * The profile `secure`: what it sets where no key says otherwise, what it refuses, and the warning
 * about a client port that is open without it. docs/security.md lists all of it.
 */
#ifndef DAEMON_SECURE_PROFILE_H
#define DAEMON_SECURE_PROFILE_H

#include "daemon/zoo_cfg.h"

/* Before the conclusions from the keys: sets what no key said. Errors as zoo_cfg_parse. */
int secure_profile_begin(struct zoo_cfg *c) CONCLAVE_MUST_USE;

/* Behind them: refuses what the profile does not allow; without it, warns in c->notices. */
int secure_profile_end(struct zoo_cfg *c) CONCLAVE_MUST_USE;

#endif
