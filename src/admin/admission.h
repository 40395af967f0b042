/*
 * Who may have the server's whole state over HTTP, or replace it: the header `Authorization: SCHEME CREDENTIALS`, as
 * Apache ZooKeeper's AdminServer takes it, schemes digest (user:password), ip and x509 (the certificate of the connection).
 *
 * He must be the superuser, or an entry of the ACL of "/" other than world's must give him every permission. Apache
 * ZooKeeper lets pass whoever "/" is open to, which by default is anybody with an invented password.
 */
#ifndef ADMIN_ADMISSION_H
#define ADMIN_ADMISSION_H

#include "admin/http.h"
#include "server/service.h"

enum {
    ADMISSION_FAILURES_MAX =
        10, /* in a minute, of all; then nobody is looked at until it is over */
    ADMISSION_MINUTE_MS = 60000,
};

struct admission {
    int64_t minute_at_ms; /* when the failures began to be counted */
    unsigned failures;
};

/* 0: he may. Otherwise an HTTP status and in *ret_why the reason, fixed text. */
unsigned admission_check(struct admission *a, struct service *s, const struct http_request *request,
                         int64_t now_ms, const char **ret_why);

#endif
