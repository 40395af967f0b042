/*
 * The login of a learner at a server of Apache ZooKeeper by SASL, before the first packet of its protocol. A thread of libuv
 * makes the tokens, because that may block. Sources: QuorumAuth, SaslQuorumAuthLearner, SaslQuorumAuthServer.
 *
 *   token (empty) →  ← challenge, in progress    response →  ← the server's own proof, success    (then OBSERVERINFO)
 *
 * Each packet is: a fixed number i64, status i32, token buffer. The server proves that it knows the password, too; without that
 * the login fails. Limit: a token of LEARNER_TOKEN_MAX bytes.
 */
#ifndef APACHE_LEARNER_LEARNER_LOGIN_H
#define APACHE_LEARNER_LEARNER_LOGIN_H

#include "base/buf.h"
#include "cyrus/exchange.h"

#include <uv.h>

enum { LEARNER_TOKEN_MAX = 65536 };

struct learner_login;

/* A step has ended, on the loop: look at learner_login_problem, learner_login_done and learner_login_out. */
typedef void (*learner_login_fn)(void *ctx);

/* Begins the first step. host: the server's name. NULL: out of memory. */
struct learner_login *learner_login_create(uv_loop_t *loop, struct cyrus_settings *settings,
                                           const char *host, learner_login_fn cb, void *ctx);

/* No callback comes any more; closed, when the thread is done and l is freed, perhaps at once. NULL does nothing. */
void learner_login_close(struct learner_login *l, void (*closed)(void *ctx), void *ctx);

/* Takes a packet from the front of the bytes, if it is complete, and begins the next step. How many bytes it took; after a problem
 * all. */
size_t learner_login_input(struct learner_login *l, struct slice bytes);

/* Bytes for the server: send and empty it. */
struct buf *learner_login_out(struct learner_login *l);

/* Both sides have proved themselves. */
bool learner_login_done(const struct learner_login *l);

/* Why it failed, one line without a secret; NULL: it did not. */
const char *learner_login_problem(const struct learner_login *l);

#endif
