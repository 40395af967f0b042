/* What a server is told at its start: from zoo.cfg and the command line (zoo_cfg.h), or by a test. */
#ifndef CLUSTER_SERVER_OPTIONS_H
#define CLUSTER_SERVER_OPTIONS_H

#include "cluster/ensemble_options.h"
#include "front/limits/client_limits.h"
#include "front/login/client_ids.h"
#include "front/login/sasl_options.h"
#include "front/ttl_collector.h"
#include "net/address.h"

struct server_options {
    const char *data_dir;      /* data folder; created when missing */
    struct net_address listen; /* client port; port 0 takes a free one, host "" every interface */
    int backlog;               /* connections that the kernel keeps for us */
    int64_t server_id;         /* as in state/members/members.h */
    struct client_limits limits;
    /* writes between snapshots (snapCount), at random from half of it up */
    uint64_t snapshot_writes;
    size_t snapshot_log_bytes; /* or log bytes between them */
    int snapshots_kept;
    size_t segment_bytes; /* preallocated size of a log segment */
    bool sync;            /* false: acknowledged writes may be lost when the machine fails */
    bool skip_acl;        /* every client may do everything */
    struct digest_rules digest;
    const char *users_file; /* of those who may authenticate by digest; NULL: anybody may */
    bool plain;             /* `listen` counts; false with a secure port alone */
    bool secure;            /* there is a port for TLS alone: `listen_secure` */
    bool unified;           /* `listen` takes TLS as well */
    struct net_address listen_secure;
    struct tls_settings tls;  /* with secure or unified */
    bool tls_reload;          /* read the certificate files again when they change */
    const char *x509_super;   /* subject of the superuser's certificate, or NULL */
    const char *auth_schemes; /* as in struct service_options */
    uint32_t command_options; /* enum command_options */
    bool read_only_mode;      /* as in struct service_options */
    bool local_sessions;
    bool local_upgrading;
    bool close_acls; /* as in struct service_options */
    bool core_dumps; /* the process may leave one, with keys and passwords in it */
    bool seccomp;    /* the process gives up system calls that a server has no use for */
    bool local_only; /* members trust each other because all are on this machine */
    struct ttl_collector_options collector;
    const struct sasl_options *login; /* NULL: no SASL */
    bool audit;                       /* lines of who did what */
    const char *audit_file;           /* NULL: stderr */
    struct ensemble_options ensemble;
    const struct clock_source *clock;
};

/* What Apache ZooKeeper would do without keys, on 127.0.0.1:2181 in ./conclave-data. */
struct server_options server_options_default(void);

#endif
