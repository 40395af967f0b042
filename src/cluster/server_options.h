/* The options of a server: from zoo.cfg and the command line (zoo_cfg.h), or from a test. */
#ifndef CLUSTER_SERVER_OPTIONS_H
#define CLUSTER_SERVER_OPTIONS_H

#include "cluster/ensemble_options.h"
#include "front/limits/client_limits.h"
#include "front/limits/ttl_collector.h"
#include "front/login/client_ids.h"
#include "front/login/sasl_options.h"
#include "front/traces/trace_options.h"
#include "net/address.h"

struct source_settings;

struct server_options {
    const char *data_dir;       /* data folder; created when missing */
    const char *apache_log_dir; /* logs of an Apache ZooKeeper to import; NULL: in data_dir */
    struct net_address listen;  /* client port; port 0: a free one, host "": every interface */
    int backlog;                /* backlog of listen(2) */
    int64_t server_id;          /* as in state/members/members.h */
    struct client_limits limits;
    /* writes between snapshots (snapCount): a random number between half of it and it */
    uint64_t snapshot_writes;
    size_t snapshot_log_bytes; /* or log bytes between them */
    int snapshots_kept;
    size_t segment_bytes; /* preallocated size of a log segment */
    bool sync;            /* false: acknowledged writes may be lost if the machine fails */
    bool skip_acl;        /* every client may do everything */
    struct digest_rules digest;
    const char *users_file; /* users who may authenticate by digest; NULL: no list */
    bool plain;             /* `listen` counts; false with only a secure port */
    bool secure;            /* there is a TLS-only port: `listen_secure` */
    bool unified;           /* `listen` accepts TLS, too */
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
    bool core_dumps; /* core dumps are allowed; they contain keys and passwords */
    bool seccomp;    /* the process gives up system calls that a server does not need */
    bool local_only; /* members trust each other, because all are on this machine */
    struct ttl_collector_options collector;
    const struct sasl_options *login; /* NULL: no SASL */
    bool audit;                       /* write audit lines */
    const char *audit_file;           /* NULL: stderr */
    struct trace_options traces;
    struct ensemble_options ensemble;
    const struct source_settings *source; /* of the link of a mirror; NULL: neither TLS nor SASL */
    const struct clock_source *clock;
    bool
        test; /* a server for tests: its data are in memory, and it takes orders (front/faults.h) */
};

/* The defaults of Apache ZooKeeper, but on 127.0.0.1:2181 and in ./conclave-data. */
struct server_options server_options_default(void);

#endif
