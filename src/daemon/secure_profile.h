/*
 * The profile `secure`: what it sets where no key says otherwise, what it refuses, and the warning
 * about a client port that is open without it. docs/security.md lists all of it.
 */
#ifndef DAEMON_SECURE_PROFILE_H
#define DAEMON_SECURE_PROFILE_H

#include "daemon/zoo_cfg.h"

/* Before the conclusions from the keys: sets what no key said. Errors as config_parse. */
int config_secure_begin(struct config *c) CONCLAVE_MUST_USE;

/* Behind them: refuses what the profile does not allow; without it, warns in c->notices. */
int config_secure_end(struct config *c) CONCLAVE_MUST_USE;

#endif
