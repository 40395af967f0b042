/*
 * SASL on the link to a server: makes the tokens that the core asks for. That may take a while (name look-ups,
 * Kerberos' key server), so a short-lived thread makes each token and signals an eventfd; the loop and the program's
 * deadlines continue meanwhile. A token that is no longer needed is completed and dropped. Limit: if the process ends
 * meanwhile, Kerberos' libraries clean up while that thread still runs.
 *
 * Everything here except that thread runs under the client's lock.
 */
#ifndef CLIENT_LINK_SASL_H
#define CLIENT_LINK_SASL_H

#include "client/handle.h"

/* Reads options->sasl (NULL: no SASL). 0, CONCLAVE_EINVAL (malformed options), CONCLAVE_ESASL (not usable;
 * its error is filled, or options->error if there is none) or CONCLAVE_ENOMEM. */
int link_sasl_open(struct conclave_client *client,
                   const struct conclave_client_options *options) CONCLAVE_MUST_USE;
void link_sasl_close(struct conclave_client *client);

/* Requests a token that answers `challenge`. A null challenge begins an exchange with `host`, which link_sasl_end ends.
 * 0, CONCLAVE_ENOMEM or CONCLAVE_EIO. */
int link_sasl_want(struct conclave_client *client, const char *host,
                   struct slice challenge) CONCLAVE_MUST_USE;

/* The link is gone. */
void link_sasl_end(struct conclave_client *client);

/* Readable when a token is ready; -1: no exchange. */
int link_sasl_fd(const struct conclave_client *client);

/* Gives the finished token to the core. */
void link_sasl_ready(struct conclave_client *client, int64_t now_ns);

/* The reason of a failure on this link, or NULL. */
const char *link_sasl_problem(const struct conclave_client *client);

#endif
