/* What proves a server to the others, read anew while the links are up: certificates and secrets. Logs what it did. */
#ifndef CLUSTER_PEER_CREDENTIALS_H
#define CLUSTER_PEER_CREDENTIALS_H

#include "cluster/ensemble_options.h"

/* Reads the certificate files again. False: there are none. */
bool peer_credentials_reload(struct peers *p, const struct ensemble_options *o);

/* Takes other secrets for new links; without PEER_SECURITY_SECRET nothing happens. */
void peer_credentials_set(struct peers *p, const struct ensemble_options *o, struct slice secret,
                          struct slice other);

/* Logs a refused link, as peer_callbacks.refused tells it, with advice where the secrets are the reason. */
void peer_credentials_tell_refused(const char *address, const char *reason, uint64_t count);

#endif
