/*
 * Parses a JAAS login configuration, as far as servers use it:
 *
 *   Section { module.Class flag key="value" key=value; other.Class flag; };
 *
 * with comments as in Java and with #, and Java's escapes inside quotes. It reads one section; the rest is skipped, but
 * must have the same form. Limits: no ${properties}. Source: javax.security.auth.login.Configuration.
 */
#ifndef FRONT_LOGIN_JAAS_H
#define FRONT_LOGIN_JAAS_H

#include "base/slice.h"

#include <conclave/error.h>

/* Called for the content of the section, in the file's order. A result other than 0 ends the reading. The strings are
 * wiped after the call. */
struct jaas_handler {
    int (*module)(void *ctx, const char *class_name);
    int (*option)(void *ctx, const char *key, const char *value);
    void *ctx;
};

/* The error: a fixed text, without any content of the file. */
struct jaas_fault {
    unsigned line; /* from 1 */
    const char *text;
};

/* Reads the section. 0, the handler's result, CONCLAVE_ENOMEM, or CONCLAVE_EINVAL with *ret_fault: bad form, or no such
 * section. */
int jaas_read(struct slice text, const char *section, const struct jaas_handler *handler,
              struct jaas_fault *ret_fault) CONCLAVE_MUST_USE;

#endif
