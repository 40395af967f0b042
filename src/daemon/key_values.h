/* Readers of values: those of single keys, for the table in keys.c, and common ones for zoo_cfg.c. */
#ifndef DAEMON_KEY_VALUES_H
#define DAEMON_KEY_VALUES_H

#include "daemon/zoo_cfg.h"

/* Sets c->error, unless an earlier fault has set it. Returns CONCLAVE_EINVAL or CONCLAVE_ENOMEM. */
int key_fail(struct zoo_cfg *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A host name or address, without a port. */
int key_set_host(struct zoo_cfg *c, struct net_address *address, const char *key, const char *value,
                 const char *where) CONCLAVE_MUST_USE;

/* The name of a file or folder, not empty. */
int key_set_path(struct zoo_cfg *c, char **field, const char *key, const char *value,
                 const char *where) CONCLAVE_MUST_USE;

/* Parses a decimal number; false if the text holds anything else. */
bool key_number(const char *text, int64_t *ret);

/* Parses true/false or yes/no, in any case. */
bool key_boolean(const char *text, bool *ret);

/* Reads a whole file of up to 1 MiB. 0, or CONCLAVE_EINVAL or CONCLAVE_ENOMEM with c->error set. */
int key_read_file(struct zoo_cfg *c, const char *path, struct buf *out) CONCLAVE_MUST_USE;

int key_set_address(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_secure_address(struct zoo_cfg *c, const char *key, const char *value,
                           const char *where);
int key_set_auth_schemes(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_super_digest(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_digest_algorithm(struct zoo_cfg *c, const char *key, const char *value,
                             const char *where);

int key_set_trace_endpoint(struct zoo_cfg *c, const char *key, const char *value,
                           const char *where);
int key_set_log_level(struct zoo_cfg *c, const char *key, const char *value, const char *where);
int key_set_log_format(struct zoo_cfg *c, const char *key, const char *value, const char *where);

#endif
