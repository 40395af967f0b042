/*
 * The SASL options of a server: the mechanism, the users or the keytab, and the rules for ids. Read from a section of a
 * JAAS file, as in Apache ZooKeeper, or from a file of users.
 *
 * DIGEST-MD5 needs the passwords in clear text; they are wiped when the struct is finished, and no message of this file
 * contains one.
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
    char *keytab;  /* GSSAPI: path; NULL: the system's */
    char *service; /* of the server's own principal SERVICE/HOST@REALM */
    char *host;
    char *default_realm; /* of the machine; "": none */
    bool remove_host;    /* NAME/HOST@REALM of the default realm becomes NAME@REALM */
    bool remove_realm;   /* and NAME@REALM becomes NAME */
    bool allow_failed;   /* a client whose login fails keeps its connection, without the id */
    char **super_users;  /* ids that are the superuser */
    size_t super_count;
    char *any_user; /* every client with an id has the permissions of this id; NULL: none */
};

/* Takes what is all zero; it is again afterwards. */
void sasl_options_finish(struct sasl_options *o);

/* Adds a user or replaces the password. 0, CONCLAVE_EINVAL (an empty password, or a name that is not valid in an ACL),
 * or CONCLAVE_ENOMEM. */
int sasl_options_user(struct sasl_options *o, const char *name,
                      const char *password) CONCLAVE_MUST_USE;

/* The password, borrowed, or NULL. */
const char *sasl_options_password(const struct sasl_options *o, const char *name);

/* Adds a superuser's id. 0 or CONCLAVE_ENOMEM. */
int sasl_options_super(struct sasl_options *o, const char *id) CONCLAVE_MUST_USE;
bool sasl_options_is_super(const struct sasl_options *o, struct slice id);

/* An error in a file: a fixed text, without any content of the file. */
struct sasl_fault {
    unsigned line; /* from 1 */
    const char *text;
};

/* Reads mechanism, users or keytab and principal from the text of a JAAS file. 0, CONCLAVE_EINVAL with *ret_fault, or
 * CONCLAVE_ENOMEM. */
int sasl_options_jaas(struct sasl_options *o, struct slice text, const char *section,
                      struct sasl_fault *ret_fault) CONCLAVE_MUST_USE;

/* Reads users from lines user:password; ignores blank lines and lines that begin with #. Errors as above. */
int sasl_options_lines(struct sasl_options *o, struct slice text,
                       struct sasl_fault *ret_fault) CONCLAVE_MUST_USE;

#endif
