/*
 * Who may download or replace the server's whole state over HTTP: the header `Authorization: SCHEME CREDENTIALS`, as in
 * Apache ZooKeeper's AdminServer, with the schemes digest (user:password), ip and x509 (the certificate of the
 * connection).
 *
 * The caller must be the superuser, or have all permissions on "/" by an entry other than world's. Apache ZooKeeper
 * admits everyone to whom "/" is open, by default any client with an invented password.
 */
#ifndef ADMIN_HTTP_HTTP_LOGIN_H
#define ADMIN_HTTP_HTTP_LOGIN_H

#include "admin/http/http_exchange.h"
#include "base/rates.h"
#include "front/login/client_ids.h"

struct service;

enum {
    ADMISSION_FAILURES_MAX = 10, /* per address at once, then one per minute */
};

/* One for all routes of a port that need admission. */
struct admission {
    struct rates failures; /* by address; an IPv6 network of 64 bits is one */
};

void admission_init(struct admission *a);
void admission_finish(struct admission *a);

/* As admission_check; after 0 the caller's ids, with the address, are in *ret: finish it. */
unsigned admission_identify(struct admission *a, struct service *s,
                            const struct http_request *request, int64_t now_ms,
                            struct client_ids *ret, const char **ret_why);

/* Whether the holder of these ids is admitted. */
bool admission_admits(struct service *s, struct wire_vector ids);

/* Whether another try to log in may come from this address; and that one failed. The web console counts with these, too. */
bool admission_may_try(const struct admission *a, const char *peer, int64_t now_ms);
void admission_failed(struct admission *a, const char *peer, int64_t now_ms);

/* As admission_check. But where nobody can be admitted, because there is no superuser, a request without credentials
 * is, if it comes from this machine and from the server's user or root (a proxy of another user does not count): to an empty
 * server that is to become a mirror, and to a mirror (front/mirror.h). */
unsigned admission_check_mirror(struct admission *a, struct service *s,
                                const struct http_request *request, int64_t now_ms,
                                const char **ret_why);

/* 0: admitted. Otherwise an HTTP status, and the reason in *ret_why, a fixed text. */
unsigned admission_check(struct admission *a, struct service *s, const struct http_request *request,
                         int64_t now_ms, const char **ret_why);

#endif
