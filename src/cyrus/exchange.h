/*
 * The client's side of one login: takes the server's tokens, makes ours. The wire does not negotiate the mechanism; the
 * settings name it: DIGEST-MD5 with a user's password, or GSSAPI with what Kerberos finds in the environment of the
 * process (ticket cache, client keytab).
 *
 * A step may block: the library looks up the name of this host, Kerberos asks its key server. Different exchanges may
 * run in different threads at the same time; one exchange runs in one thread at a time. Limit: if memory runs out
 * during a step, Cyrus SASL 2.1.28 may leak or crash.
 *
 * Sources: ZooKeeperSaslClient, SecurityUtils of Apache ZooKeeper 3.9 and zk_sasl.c of its C client; RFC 2831, RFC
 * 4752.
 */
#ifndef CYRUS_EXCHANGE_H
#define CYRUS_EXCHANGE_H

#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>

/* The user and the server of a login. Immutable; counted, because an exchange that was given up may continue for a
 * while. */
struct cyrus_settings;

/* gssapi: user and password are ignored. host NULL: that of the exchange, and for DIGEST-MD5 the common name of all
 * servers; service NULL: "zookeeper". 0 or CONCLAVE_ENOMEM. */
int cyrus_settings_create(bool gssapi, const char *user, struct slice password, const char *service,
                          const char *host, struct cyrus_settings **ret) CONCLAVE_MUST_USE;

/* Drops one reference; the last one wipes the password. NULL does nothing. Any thread. */
void cyrus_settings_unref(struct cyrus_settings *s);

struct cyrus_exchange;

/* Takes a reference to the settings; no step yet. host: the server's name. NULL: out of memory. */
struct cyrus_exchange *cyrus_exchange_create(struct cyrus_settings *s,
                                             const char *host) CONCLAVE_MUST_USE;
void cyrus_exchange_destroy(struct cyrus_exchange *x); /* NULL does nothing */

enum cyrus_step {
    CYRUS_MORE, /* send the token; the server answers with another */
    CYRUS_LAST, /* send the token; the server only accepts or refuses */
    CYRUS_DONE, /* complete: the server has authenticated, too; send nothing */
};

/* The next step; challenge: the server's token, null in the first step. The token is valid until the next step and may
 * be empty. 0, CONCLAVE_ESASL (see cyrus_exchange_problem) or CONCLAVE_ENOMEM; after an error the exchange is
 * unusable. */
int cyrus_exchange_step(struct cyrus_exchange *x, struct slice challenge, enum cyrus_step *ret_step,
                        struct slice *ret_token) CONCLAVE_MUST_USE;

/* The reason of the newest failure: one line, no secret. */
const char *cyrus_exchange_problem(const struct cyrus_exchange *x);

#endif
