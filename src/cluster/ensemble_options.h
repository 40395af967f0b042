/* What the configuration says about the ensemble of this server: for server.c. */
#ifndef CLUSTER_ENSEMBLE_OPTIONS_H
#define CLUSTER_ENSEMBLE_OPTIONS_H

#include "cluster/links/peer.h"
#include "front/server_line.h"

struct ensemble_options {
    /* Several servers, or one that others may join: the peer port is open. If false, only linearizable_reads below
     * counts. */
    bool enabled;
    const struct server_line *members; /* by id, this server among them */
    size_t n_members;
    size_t me;       /* index of this server */
    int64_t version; /* of the dynamicConfigFile; 0: none */

    /* The links to other servers. */
    struct net_address listen[SERVER_HOSTS_MAX];
    size_t n_listen;
    enum peer_security security;
    struct slice secret;       /* with PEER_SECURITY_SECRET */
    struct slice other_secret; /* accepted as well; null: none */
    struct tls_settings tls;   /* with PEER_SECURITY_CERTIFICATES */
    bool verify_hosts;
    bool tls_reload; /* read the certificate files again when they change */

    int election_ms;         /* time without a message of the leader before an election */
    int heartbeat_ms;        /* interval between heartbeats of an idle leader */
    bool linearizable_reads; /* every read needs a proof by a quorum */
    int64_t alone; /* continue as the only member, from a log that ends at this index; -1: no */
    /* index of a log entry to skip, if a majority agrees; 0: none */
    int64_t skip_entry;
    bool heal; /* move damaged data aside and fetch them from the other members */
};

#endif
