/*
 * The client's side of one login: the server's tokens in, ours out. The mechanism is not agreed
 * upon on the wire, the settings name it: DIGEST-MD5 with a user's password, or GSSAPI with what
 * Kerberos finds in the process' environment (ticket cache, client keytab).
 *
 * A step may block: the library looks up the name of this host, Kerberos asks its key server.
 * Different exchanges may run in different threads at the same time, one runs in one at a time.
 * Limit: where memory is out in the middle of a step, Cyrus SASL 2.1.28 may lose some or crash.
 *
 * Sources: ZooKeeperSaslClient, SecurityUtils of Apache ZooKeeper 3.9 and zk_sasl.c of its C client;
 * RFC 2831, RFC 4752.
 */
#ifndef CYRUS_EXCHANGE_H
#define CYRUS_EXCHANGE_H

#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>

/* Who logs in, and where. Does not change; counted, as an exchange that was given up may go on for a
 * while. */
struct cyrus_settings;

/* gssapi: user and password do not count. host NULL: as the exchange says, and for DIGEST-MD5 the
 * one that all servers have; service NULL: "zookeeper". 0 or CONCLAVE_ENOMEM. */
int cyrus_settings_create(bool gssapi, const char *user, struct slice password, const char *service,
                          const char *host, struct cyrus_settings **ret) CONCLAVE_MUST_USE;

/* One reference less; the last one wipes the password. Takes NULL. Any thread. */
void cyrus_settings_unref(struct cyrus_settings *s);

struct cyrus_exchange;

/* Takes a reference to the settings; nothing happens yet. host: the server's name. NULL when memory
 * is out. */
struct cyrus_exchange *cyrus_exchange_create(struct cyrus_settings *s,
                                             const char *host) CONCLAVE_MUST_USE;
void cyrus_exchange_destroy(struct cyrus_exchange *x); /* takes NULL */

enum cyrus_step {
    CYRUS_MORE, /* the token is to be sent, and answered with another */
    CYRUS_LAST, /* the token is to be sent, and nothing is expected but consent */
    CYRUS_DONE, /* complete: the server has proved itself, too, and there is nothing to be sent */
};

/* The next step; challenge: the server's token, null in the first step. The token lives until the
 * next step and may be empty. 0, CONCLAVE_ESASL (cyrus_exchange_problem says why) or
 * CONCLAVE_ENOMEM: then the exchange is of no use any more. */
int cyrus_exchange_step(struct cyrus_exchange *x, struct slice challenge, enum cyrus_step *ret_step,
                        struct slice *ret_token) CONCLAVE_MUST_USE;

/* Why the newest step failed: one line, no secret. */
const char *cyrus_exchange_problem(const struct cyrus_exchange *x);

#endif
