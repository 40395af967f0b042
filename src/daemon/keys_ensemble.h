/*
 * The keys about ensembles: the server.N lines, this server's own number, how servers authenticate each other, and the
 * times of elections.
 */
#ifndef DAEMON_KEYS_ENSEMBLE_H
#define DAEMON_KEYS_ENSEMBLE_H

#include "daemon/zoo_cfg.h"

void keys_ensemble_init(struct keys_ensemble *m);

/* Frees all; wipes secrets. */
void keys_ensemble_finish(struct keys_ensemble *m);

/* Setters for the table in keys.c: see zoo_cfg_set. A later line of the same id replaces the earlier one. */
int key_set_server(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_myid(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_version(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_peer_type(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_secret(struct zoo_cfg *c, const char *key, const char *value, const char *where);

/* Whether a dynamicConfigFile may contain this key. */
bool keys_ensemble_is_dynamic(const char *key);

/*
 * Runs after all keys were read: finds this server's line, and fills c->options.ensemble, server_id and the client
 * port. Errors as zoo_cfg_parse: no myid, no voter, links that other machines could reach without authentication.
 */
int keys_ensemble_conclude(struct zoo_cfg *c) CONCLAVE_MUST_USE;

/* The keys of the link to an Apache ZooKeeper that this ensemble follows: reads the file of the login, takes the ssl.quorum keys,
 * fills c->mirror.source and sets options.source. Call it after keys_ensemble_conclude and before keys_tls_conclude_admin. Errors
 * as zoo_cfg_parse. */
int keys_mirror_conclude(struct zoo_cfg *c) CONCLAVE_MUST_USE;
void keys_mirror_finish(struct keys_mirror *m);

#endif
