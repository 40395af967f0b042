/*
 * `conclave server --test`: a server for the tests of its users. It changes defaults, and a key or option that is given
 * wins: free ports on 127.0.0.1, ticks of TEST_TICK_MS, sessions from TEST_SESSION_MIN_MS to TEST_SESSION_MAX_MS, all
 * four-letter words, and little memory for the log. Nothing is kept on disk: dataDir and --data have no effect.
 */
#ifndef DAEMON_TEST_PROFILE_H
#define DAEMON_TEST_PROFILE_H

#include "daemon/zoo_cfg.h"

enum {
    TEST_TICK_MS = 100,
    TEST_SESSION_MIN_MS = 100,
    TEST_SESSION_MAX_MS = 3600000,
};

/* Before the conclusions. 0, CONCLAVE_EINVAL with c->error (server.N lines), or CONCLAVE_ENOMEM. */
int test_profile_begin(struct zoo_cfg *c) CONCLAVE_MUST_USE;

/* After them. */
void test_profile_end(struct zoo_cfg *c);

#endif
