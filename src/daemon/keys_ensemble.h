/*
 * The keys about ensembles: server.N lines and who of them this server is, how servers prove to
 * each other who they are, and the times of elections.
 */
#ifndef DAEMON_KEYS_ENSEMBLE_H
#define DAEMON_KEYS_ENSEMBLE_H

#include "daemon/zoo_cfg.h"

void config_members_init(struct config_members *m);

/* Frees all, secrets wiped. */
void config_members_finish(struct config_members *m);

/* The keys: see config_set. A line of an id that was there before replaces it. */
int config_set_server(struct config *c, const char *key, const char *value, const char *where);
int config_set_myid(struct config *c, const char *key, const char *value, const char *where);
int config_set_version(struct config *c, const char *key, const char *value, const char *where);
int config_set_peer_type(struct config *c, const char *key, const char *value, const char *where);
int config_set_secret(struct config *c, const char *key, const char *value, const char *where);

/* Whether a key may stand in a dynamicConfigFile. */
bool config_members_is_dynamic(const char *key);

/*
 * When all keys were read: finds out who this server is, fills c->options.ensemble, server_id and
 * the client port. Errors as config_parse: no myid, nobody to vote, links that a stranger could
 * reach.
 */
int config_conclude_members(struct config *c) CONCLAVE_MUST_USE;

#endif
