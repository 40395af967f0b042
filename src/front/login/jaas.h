/*
 * The form of a JAAS login configuration, as far as servers use it:
 *
 *   Section { module.Class flag key="value" key=value; other.Class flag; };
 *
 * with comments as in Java and with #, and Java's escapes inside of quotes. One section is picked;
 * the rest is only passed over, but must be of this form, too. Limits: no ${properties}.
 * Source: javax.security.auth.login.Configuration.
 */
#ifndef FRONT_LOGIN_JAAS_H
#define FRONT_LOGIN_JAAS_H

#include "base/slice.h"

#include <conclave/error.h>

/* What is in the section, in the file's order. Anything but 0 ends the reading. The strings are
 * wiped after the call. */
struct jaas_handler {
    int (*module)(void *ctx, const char *class_name);
    int (*option)(void *ctx, const char *key, const char *value);
    void *ctx;
};

/* What is wrong: a fixed text that holds nothing of the file. */
struct jaas_fault {
    unsigned line; /* from 1 */
    const char *text;
};

/* Reads the section. 0, what a handler returned, CONCLAVE_ENOMEM, or CONCLAVE_EINVAL with
 * *ret_fault: bad form, or no such section. */
int jaas_read(struct slice text, const char *section, const struct jaas_handler *handler,
              struct jaas_fault *ret_fault) CONCLAVE_MUST_USE;

#endif
