/*
 * Keys about what the admin room serves: four-letter words, ZooKeeper's AdminServer, the Prometheus provider. Plain data
 * here, because the admin room stands above this one.
 */
#ifndef DAEMON_KEYS_ADMIN_H
#define DAEMON_KEYS_ADMIN_H

#include "daemon/zoo_cfg.h"

void config_admin_init(struct config_admin *a);
void config_admin_finish(struct config_admin *a);

/* --admin HOST:PORT|off: beats the keys. */
int config_set_admin(struct config *c, const char *value);

/* The keys: see config_set. */
int config_set_admin_address(struct config *c, const char *key, const char *value,
                             const char *where);
int config_set_admin_port(struct config *c, const char *key, const char *value, const char *where);
int config_set_admin_enabled(struct config *c, const char *key, const char *value,
                             const char *where);
int config_set_command_url(struct config *c, const char *key, const char *value, const char *where);
int config_set_words(struct config *c, const char *key, const char *value, const char *where);
int config_set_metrics_provider(struct config *c, const char *key, const char *value,
                                const char *where);
int config_set_metrics_host(struct config *c, const char *key, const char *value,
                            const char *where);

#endif
