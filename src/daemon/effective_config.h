/*
 * The configuration that the server started with, for operators: the text of the file, and each key with its value.
 * Values of secrets are replaced.
 */
#ifndef DAEMON_EFFECTIVE_CONFIG_H
#define DAEMON_EFFECTIVE_CONFIG_H

#include "base/buf.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

#define GIVEN_HIDDEN "***" /* replaces a secret */

struct effective_config_pair {
    char *key;
    char *value;
    uint64_t mark; /* of the true value: shows that a secret has changed */
};

struct effective_config {
    struct buf file; /* the text of zoo.cfg; empty: no file */
    struct effective_config_pair *pairs;
    size_t count;
};

void effective_config_init(struct effective_config *g);
void effective_config_finish(struct effective_config *g);

/* Whether the value of a key must not be shown. */
bool effective_config_is_secret(const char *key);

/* Records a key; a later value replaces an earlier one. 0 or CONCLAVE_ENOMEM. */
int effective_config_note(struct effective_config *g, const char *key,
                          const char *value) CONCLAVE_MUST_USE;

/* Records a key as it is in another configuration. */
int effective_config_take(struct effective_config *g,
                          const struct effective_config_pair *pair) CONCLAVE_MUST_USE;

/* Removes a key, if it is there. */
void effective_config_forget(struct effective_config *g, const char *key);

/* NULL: the key is not there. */
const struct effective_config_pair *effective_config_find(const struct effective_config *g,
                                                          const char *key);

/* Records the file's text. 0 or CONCLAVE_ENOMEM. */
int effective_config_note_file(struct effective_config *g, struct slice text) CONCLAVE_MUST_USE;

#endif
