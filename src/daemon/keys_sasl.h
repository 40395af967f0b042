/* The keys of SASL: their setters for the table in keys.c, and the options that follow from them. */
#ifndef DAEMON_KEYS_SASL_H
#define DAEMON_KEYS_SASL_H

#include "daemon/zoo_cfg.h"

int key_set_auth_provider(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_super_user(struct zoo_cfg *c, const char *key, const char *value, const char *where);
void keys_sasl_finish(struct keys_sasl *l);

/* Reads the files and sets options.login. As in Apache ZooKeeper, sessionRequireClientSASLAuth replaces enforce.auth.*.
 * 0, or CONCLAVE_EINVAL or CONCLAVE_ENOMEM with c->error set. */
int keys_sasl_conclude(struct zoo_cfg *c) CONCLAVE_MUST_USE;

/* Reads a file of user:password lines that only its owner may read. Errors as above. */
int keys_sasl_read_users(struct zoo_cfg *c, const char *path,
                         struct sasl_options *ret) CONCLAVE_MUST_USE;

#endif
