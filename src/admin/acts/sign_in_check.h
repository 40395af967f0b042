/*
 * Who somebody is that signs in to the web console, by the header `Authorization: Basic BASE64(user:password)`: an identity
 * of the scheme digest, as a client of ZooKeeper gets by addauth. Without a file of users (digest.usersFile) the server
 * cannot tell a wrong password, except the superuser's: another password is another identity, and ACLs decide what it may do.
 *
 * Limits: CREDENTIALS_MAX bytes; failures per address as in http_login.h. Each sign-in whose password was not checked counts as
 * a failure, too, so that nobody can try passwords against the ACLs.
 */
#ifndef ADMIN_ACTS_SIGN_IN_CHECK_H
#define ADMIN_ACTS_SIGN_IN_CHECK_H

#include "admin/http/http_login.h"
#include "front/login/password_check.h"

enum { CREDENTIALS_MAX = 1024, SIGN_IN_LATER = 1 };

struct sign_in_check {
    struct client_ids ids;        /* count only when the check is over without error */
    bool checked;                 /* the password was compared with a known one */
    struct password_check *check; /* in progress; NULL: none */
    void (*done)(struct sign_in_check *c, unsigned status, const char *why);
};

/* Set done first. 0: ids are those of the caller; SIGN_IN_LATER: done follows, from the loop; or an HTTP status and why, a
 * fixed text. Call sign_in_check_finish in the end. */
unsigned sign_in_check_begin(struct sign_in_check *c, struct admission *admission,
                             struct service *s, const struct http_request *request,
                             const char **ret_why);

/* Ends a check in progress without a call of done. */
void sign_in_check_finish(struct sign_in_check *c);

#endif
