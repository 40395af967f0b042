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

struct given_pair {
    char *key;
    char *value;
};

struct given {
    struct buf file; /* the text of zoo.cfg; empty: there was none */
    struct given_pair *pairs;
    size_t count;
};

void given_init(struct given *g);
void given_finish(struct given *g);

/* Whether the values of a key are for nobody's eyes. */
bool given_is_secret(const char *key);

/* A key was given; a later value takes the place of the one before. 0 or CONCLAVE_ENOMEM. */
int given_note(struct given *g, const char *key, const char *value) CONCLAVE_MUST_USE;

/* The file's text. 0 or CONCLAVE_ENOMEM. */
int given_note_file(struct given *g, struct slice text) CONCLAVE_MUST_USE;

#endif
