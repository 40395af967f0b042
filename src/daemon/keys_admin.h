/*
 * Keys for the admin room: four-letter words, ZooKeeper's AdminServer, the Prometheus provider. They fill the options of
 * the admin room.
 */
#ifndef DAEMON_KEYS_ADMIN_H
#define DAEMON_KEYS_ADMIN_H

#include "daemon/zoo_cfg.h"

void keys_admin_init(struct keys_admin *a);
void keys_admin_finish(struct keys_admin *a);

/* --admin HOST:PORT|off: overrides the keys. */
int key_set_admin(struct zoo_cfg *c, const char *value);

/* Completes c->admin.options after all keys were read. The options borrow from c. */
void keys_admin_conclude(struct zoo_cfg *c);

/* Setters for the table in keys.c: see zoo_cfg_set. */
int key_set_admin_address(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_admin_port(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_admin_enabled(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_console(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_command_url(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_metrics_provider(struct zoo_cfg *c, const char *key, const char *value,
                             const char *where);
int key_set_metrics_host(struct zoo_cfg *c, const char *key, const char *value, const char *where);

#endif
