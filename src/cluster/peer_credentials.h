/* What proves a server to the others, read anew while the links are up: certificates and secrets. Logs what it did. */
#ifndef CLUSTER_PEER_CREDENTIALS_H
#define CLUSTER_PEER_CREDENTIALS_H

#include "cluster/ensemble_options.h"

/* Reads the certificate files again. 0, CONCLAVE_EUNSUPPORTED: there are none; or an error with *ret_text (free it): the old
 * ones stay. */
int peer_credentials_reload(struct peers *p, const struct ensemble_options *o,
                            char **ret_text) CONCLAVE_MUST_USE;

/* Takes other secrets for new links. Errors as peer_credentials_reload. */
int peer_credentials_set(struct peers *p, const struct ensemble_options *o, struct slice secret,
                         struct slice other, char **ret_text) CONCLAVE_MUST_USE;

/* Logs a refused link, as peer_callbacks.refused tells it, with advice where the secrets are the reason. */
void peer_credentials_tell_refused(const char *address, const char *reason, uint64_t count);

#endif
