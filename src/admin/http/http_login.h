/*
 * Who may have the server's whole state over HTTP, or replace it: the header `Authorization: SCHEME CREDENTIALS`, as
 * Apache ZooKeeper's AdminServer takes it, schemes digest (user:password), ip and x509 (the certificate of the connection).
 *
 * He must be the superuser, or an entry of the ACL of "/" other than world's must give him every permission. Apache
 * ZooKeeper lets pass whoever "/" is open to, which by default is anybody with an invented password.
 */
#ifndef ADMIN_HTTP_HTTP_LOGIN_H
#define ADMIN_HTTP_HTTP_LOGIN_H

#include "admin/http/http_exchange.h"
#include "base/rates.h"

struct service;

enum {
    ADMISSION_FAILURES_MAX = 10, /* of an address at once, then one a minute */
};

/* One for all that asks for admission on a port. */
struct admission {
    struct rates failures; /* by address; an IPv6 network of 64 bits is one */
};

void admission_init(struct admission *a);
void admission_finish(struct admission *a);

/* 0: he may. Otherwise an HTTP status and in *ret_why the reason, fixed text. */
unsigned admission_check(struct admission *a, struct service *s, const struct http_request *request,
                         int64_t now_ms, const char **ret_why);

#endif
