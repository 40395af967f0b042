/*
 * The keys about ensembles: server.N lines and who of them this server is, how servers prove to
 * each other who they are, and the times of elections.
 */
#ifndef DAEMON_KEYS_ENSEMBLE_H
#define DAEMON_KEYS_ENSEMBLE_H

#include "daemon/zoo_cfg.h"

void keys_ensemble_init(struct keys_ensemble *m);

/* Frees all, secrets wiped. */
void keys_ensemble_finish(struct keys_ensemble *m);

/* The keys: see zoo_cfg_set. A line of an id that was there before replaces it. */
int key_set_server(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_myid(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_version(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_peer_type(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_secret(struct zoo_cfg *c, const char *key, const char *value, const char *where);

/* Whether a key may stand in a dynamicConfigFile. */
bool keys_ensemble_is_dynamic(const char *key);

/*
 * When all keys were read: finds out who this server is, fills c->options.ensemble, server_id and
 * the client port. Errors as zoo_cfg_parse: no myid, nobody to vote, links that a stranger could
 * reach.
 */
int keys_ensemble_conclude(struct zoo_cfg *c) CONCLAVE_MUST_USE;

#endif
