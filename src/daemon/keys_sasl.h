/* The keys of SASL: for the table in keys.c, and the conclusion that
 * zoo_cfg.c draws from them. */
#ifndef DAEMON_KEYS_SASL_H
#define DAEMON_KEYS_SASL_H

#include "daemon/zoo_cfg.h"

int config_set_jaas_file(struct config *c, const char *key, const char *value, const char *where);
int config_set_users_file(struct config *c, const char *key, const char *value, const char *where);
int config_set_login_section(struct config *c, const char *key, const char *value,
                             const char *where);
int config_set_super_password(struct config *c, const char *key, const char *value,
                              const char *where);
int config_set_auth_provider(struct config *c, const char *key, const char *value,
                             const char *where);
int config_set_super_user(struct config *c, const char *key, const char *value, const char *where);
int config_set_any_user(struct config *c, const char *key, const char *value, const char *where);
void config_login_finish(struct config_login *l);

/* Reads the files and sets options.login; sessionRequireClientSASLAuth
 * replaces enforce.auth.*, as in Apache ZooKeeper. 0, or CONCLAVE_EINVAL or
 * CONCLAVE_ENOMEM with c->error set. */
int config_conclude_login(struct config *c) CONCLAVE_MUST_USE;

#endif
