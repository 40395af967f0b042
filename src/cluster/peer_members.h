/* Which servers a server links to. */
#ifndef CLUSTER_PEER_MEMBERS_H
#define CLUSTER_PEER_MEMBERS_H

#include "cluster/links/peer.h"
#include "replication/disk/configuration.h"

/* To the members, and to configured servers that may become members. Errors as peers_set_members. */
int peer_members_set(struct peers *peers, const struct configuration_member *members, size_t count,
                     const struct configuration_member *configured,
                     size_t n_configured) CONCLAVE_MUST_USE;

#endif
