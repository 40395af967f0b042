/*
 * What a server offers of SASL: the mechanism, the users or the keytab, and what its ids are worth.
 * Read from a JAAS file's section, as Apache ZooKeeper's servers are told, or from a file of users.
 *
 * DIGEST-MD5 needs the passwords as they are; they are wiped when the struct is finished, and no
 * message of this file repeats one.
 */
#ifndef FRONT_LOGIN_SASL_OPTIONS_H
#define FRONT_LOGIN_SASL_OPTIONS_H

#include "base/slice.h"

#include <conclave/error.h>

enum sasl_mechanism {
    LOGIN_NONE,
    LOGIN_DIGEST_MD5,
    LOGIN_GSSAPI,
};

struct sasl_user {
    char *name;
    char *password;
};

struct sasl_options {
    enum sasl_mechanism mechanism;
    struct sasl_user *users; /* DIGEST-MD5 */
    size_t user_count;
    char *keytab;  /* GSSAPI: path, or NULL for the system's */
    char *service; /* of the server's own principal SERVICE/HOST@REALM */
    char *host;
    char *default_realm; /* of the machine; "" when it has none */
    bool remove_host;    /* NAME/HOST@REALM of the default realm becomes NAME@REALM */
    bool remove_realm;   /* and NAME@REALM becomes NAME */
    bool allow_failed;   /* a client that fails keeps its connection, without the id */
    char **super_users;  /* ids that are the superuser */
    size_t super_count;
    char *any_user; /* each client that has an id is permitted what this one is, or NULL */
};

void sasl_options_init(struct sasl_options *o);
void sasl_options_finish(struct sasl_options *o);

/* Adds a user or replaces the password. 0, CONCLAVE_EINVAL for a name that cannot stand in an ACL
 * or an empty password, or CONCLAVE_ENOMEM. */
int sasl_options_user(struct sasl_options *o, const char *name,
                      const char *password) CONCLAVE_MUST_USE;

/* The password, borrowed, or NULL. */
const char *sasl_options_password(const struct sasl_options *o, const char *name);

/* Adds a superuser's id. 0 or CONCLAVE_ENOMEM. */
int sasl_options_super(struct sasl_options *o, const char *id) CONCLAVE_MUST_USE;
bool sasl_options_is_super(const struct sasl_options *o, struct slice id);

/* What is wrong in a file: a fixed text that holds nothing of it. */
struct sasl_fault {
    unsigned line; /* from 1 */
    const char *text;
};

/* Takes mechanism, users or keytab and principal from the text of a JAAS file. 0, or
 * CONCLAVE_EINVAL with *ret_fault, or CONCLAVE_ENOMEM. */
int sasl_options_jaas(struct sasl_options *o, struct slice text, const char *section,
                      struct sasl_fault *ret_fault) CONCLAVE_MUST_USE;

/* Takes users from lines user:password; blank lines and lines that begin with # do not count.
 * Errors as above. */
int sasl_options_lines(struct sasl_options *o, struct slice text,
                       struct sasl_fault *ret_fault) CONCLAVE_MUST_USE;

#endif
