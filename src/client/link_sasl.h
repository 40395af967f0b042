/*
 * SASL on the link to a server: makes the tokens that the core asks for. As each may take a while
 * (names are looked up, Kerberos asks its key server) a short-lived thread makes it and signals an
 * eventfd; the loop and the program's deadlines go on meanwhile. A token that nobody waits for any
 * more is made to its end and thrown away. Limit: where the process ends meanwhile, Kerberos' libraries
 * clean up beside that thread.
 *
 * What stands here runs under the client's lock, but for that thread.
 */
#ifndef CLIENT_LINK_SASL_H
#define CLIENT_LINK_SASL_H

#include "client/handle.h"

/* Reads o (NULL: no SASL). 0, CONCLAVE_EINVAL (malformed options), CONCLAVE_ESASL (not usable;
 * o->error is filled) or CONCLAVE_ENOMEM. */
int link_sasl_open(struct conclave_client *client,
                   const struct conclave_sasl_options *o) CONCLAVE_MUST_USE;
void link_sasl_close(struct conclave_client *client);

/* A token is wanted that answers `challenge`; with a null one an exchange with `host` begins, which
 * ends with link_sasl_end. 0, CONCLAVE_ENOMEM or CONCLAVE_EIO. */
int link_sasl_want(struct conclave_client *client, const char *host,
                   struct slice challenge) CONCLAVE_MUST_USE;

/* The link is gone. */
void link_sasl_end(struct conclave_client *client);

/* Readable when a token is there; -1 without an exchange. */
int link_sasl_fd(const struct conclave_client *client);

/* Gives the core what is there. */
void link_sasl_ready(struct conclave_client *client, int64_t now_ns);

/* What failed on this link, or NULL. */
const char *link_sasl_problem(const struct conclave_client *client);

#endif
