/*
 * Looks up a host name without blocking the loop: a short-lived thread does it and signals an eventfd. A lookup that is
 * given up continues and frees itself at its end, because the system cannot stop it.
 */
#ifndef CLIENT_RESOLVER_H
#define CLIENT_RESOLVER_H

#include "client/core/hosts.h"

struct lookup;

/* Begins to look up name. 0, CONCLAVE_ENOMEM, CONCLAVE_EIO. */
int lookup_start(const char *name, struct lookup **ret) CONCLAVE_MUST_USE;

/* Readable when the lookup is complete. */
int lookup_fd(const struct lookup *l);

/* After its end: the number of addresses, up to HOST_ADDRESSES; 0: it failed, *ret_why is a static text. */
unsigned lookup_result(struct lookup *l, union host_address *ret, const char **ret_why);

/* Gives the lookup up, or frees it. NULL does nothing. */
void lookup_destroy(struct lookup *l);

#endif
