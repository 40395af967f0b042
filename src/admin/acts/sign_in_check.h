/*
 * Who somebody is that signs in to the web console. The argument `scheme` of the request says how; the ids are those that a
 * client of ZooKeeper gets in the same way:
 *
 *   digest (or none)  Authorization: Basic BASE64(user:password), as by addauth. Without a file of users (digest.users.file)
 *                     the server cannot tell a wrong password, except the superuser's: another password is another identity,
 *                     and ACLs decide what it may do.
 *   sasl              the same header: a user of the server's own SASL users (DIGEST-MD5). A Kerberos password is not asked
 *                     for here.
 *   x509              the certificate that the browser proved in the TLS handshake
 *
 * Limits: CREDENTIALS_MAX bytes; failures per address as in http_login.h. Each sign-in whose password was not checked counts as
 * a failure, too, so that nobody can try passwords against the ACLs.
 */
#ifndef ADMIN_ACTS_SIGN_IN_CHECK_H
#define ADMIN_ACTS_SIGN_IN_CHECK_H

#include "admin/http/http_login.h"
#include "front/login/password_check.h"

enum { CREDENTIALS_MAX = 1024, SIGN_IN_LATER = 1, SIGN_IN_SCHEMES = 3 };

/* The schemes that the server takes from this caller, in the order in which a page offers them; returns how many. */
size_t sign_in_schemes(const struct service *s, const struct http_request *request,
                       const char *ret[SIGN_IN_SCHEMES]);

struct sign_in_check {
    struct client_ids ids; /* count only when the check is over without error */
    bool checked; /* the password was compared with a known one, or a certificate proved it */
    struct password_check *check; /* in progress; NULL: none */
    void (*done)(struct sign_in_check *c, unsigned status, const char *why);
};

/* scheme_name: the argument, or NULL. Set done first. 0: ids are those of the caller; SIGN_IN_LATER: done follows, from the loop; or an HTTP status and why, a
 * fixed text. Call sign_in_check_finish in the end. */
unsigned sign_in_check_begin(struct sign_in_check *c, struct admission *admission,
                             struct service *s, const struct http_request *request,
                             const char *scheme_name, const char **ret_why);

/* Ends a check in progress without a call of done. */
void sign_in_check_finish(struct sign_in_check *c);

#endif
