/*
 * What the server was told at its start, kept for operators' eyes: the file as it stood and each key with its value, the
 * values of secrets left out.
 */
#ifndef DAEMON_EFFECTIVE_CONFIG_H
#define DAEMON_EFFECTIVE_CONFIG_H

#include "base/buf.h"

#include <conclave/error.h>

#include <stdbool.h>

#define GIVEN_HIDDEN "***" /* in a secret's place */

struct effective_config_pair {
    char *key;
    char *value;
};

struct effective_config {
    struct buf file; /* the text of zoo.cfg; empty: there was none */
    struct effective_config_pair *pairs;
    size_t count;
};

void effective_config_init(struct effective_config *g);
void effective_config_finish(struct effective_config *g);

/* Whether the values of a key are for nobody's eyes. */
bool effective_config_is_secret(const char *key);

/* A key was given; a later value takes the place of the one before. 0 or CONCLAVE_ENOMEM. */
int effective_config_note(struct effective_config *g, const char *key,
                          const char *value) CONCLAVE_MUST_USE;

/* The file's text. 0 or CONCLAVE_ENOMEM. */
int effective_config_note_file(struct effective_config *g, struct slice text) CONCLAVE_MUST_USE;

#endif
