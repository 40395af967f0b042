/* The keys of TLS and of X.509 ids: their values, and the settings that follow. */
#ifndef DAEMON_KEYS_TLS_H
#define DAEMON_KEYS_TLS_H

#include "daemon/zoo_cfg.h"

/* Checks the values and fills c->options. Errors as zoo_cfg_parse. */
int keys_tls_conclude(struct zoo_cfg *c) CONCLAVE_MUST_USE;

/* The same for the links between servers, and to the source of a mirror: the ssl.quorum keys, into c->options.ensemble.tls. */
int keys_tls_conclude_quorum(struct zoo_cfg *c) CONCLAVE_MUST_USE;

/* The same for the admin port, into c->admin.options.tls: the ssl.quorum keys as in Apache ZooKeeper, or else the ssl keys.
 * Call it after the other two. */
int keys_tls_conclude_admin(struct zoo_cfg *c) CONCLAVE_MUST_USE;

/* Frees the values; wipes passwords. */
void keys_tls_values_finish(struct keys_tls *t);

#endif
