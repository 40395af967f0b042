/* The keys of TLS and of certificates as identities: their values, and what follows from them. */
#ifndef DAEMON_KEYS_TLS_H
#define DAEMON_KEYS_TLS_H

#include "daemon/zoo_cfg.h"

/* Address of the secure port. */
int config_set_secure_address(struct config *c, const char *key, const char *value,
                              const char *where);

/* Checks the values and fills c->options. Errors as config_parse. */
int config_conclude_tls(struct config *c) CONCLAVE_MUST_USE;

/* The same for the link between servers: the ssl.quorum keys, into c->options.ensemble.tls. */
int config_conclude_quorum_tls(struct config *c) CONCLAVE_MUST_USE;

/* The same for the admin port: the ssl.quorum keys as Apache ZooKeeper, or else the ssl keys, into c->admin.tls. Call it
 * behind the other two. */
int config_conclude_admin_tls(struct config *c) CONCLAVE_MUST_USE;

/* Frees them, passwords wiped. */
void config_tls_values_finish(struct config_tls *t);

#endif
