/*
 * Looking up a host name without blocking the loop: a short-lived thread does it and signals an
 * eventfd. A lookup that is given up goes on by itself and frees itself at its end; the system
 * gives no way to stop it.
 */
#ifndef CLIENT_RESOLVER_H
#define CLIENT_RESOLVER_H

#include "client/core/hosts.h"

struct lookup;

/* Begins to look up name. 0, CONCLAVE_ENOMEM, CONCLAVE_EIO. */
int lookup_start(const char *name, struct lookup **ret) CONCLAVE_MUST_USE;

/* Readable when it is done. */
int lookup_fd(const struct lookup *l);

/* After it is done: the number of addresses, up to HOST_ADDRESSES; 0 with *ret_why (static
 * text) when it failed. */
unsigned lookup_result(struct lookup *l, union host_address *ret, const char **ret_why);

/* Gives it up or frees it. NULL is allowed. */
void lookup_destroy(struct lookup *l);

#endif
