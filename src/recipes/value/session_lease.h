/* What the files of a lease share. */
#ifndef RECIPES_VALUE_SESSION_LEASE_H
#define RECIPES_VALUE_SESSION_LEASE_H

#include <conclave/lease.h>

/* The id of its session, 0 once that has ended. No lock held. */
int64_t lease_session(struct conclave_lease *lease);

#endif
