/*
 * The configuration of a manager of a Redis cluster: servers, number of managers, times and limits. Pure.
 *
 * A server is known by its address as the operator wrote it, "host:port" ("[::1]:6379"), and inside the program by
 * its place in this list. Managers may list the servers in different orders, so records hold addresses.
 */
#ifndef REDIS_RECORDS_CLUSTER_CONFIG_H
#define REDIS_RECORDS_CLUSTER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_NODES_MAX                                                                            \
    32 /* servers of one cluster; a set of them is a uint32_t, bit i for nodes[i] */
#define REDIS_MANAGERS_MAX 32  /* managers of one cluster */
#define REDIS_HOST_SIZE 256    /* host name with NUL */
#define REDIS_ADDRESS_SIZE 264 /* "host:port" with NUL */
#define REDIS_ID_SIZE 41       /* run id or replication id with NUL */
#define REDIS_NAME_SIZE 128    /* manager's id, request's name, with NUL */
#define REDIS_TEXT_SIZE 256    /* a reason, cut off at its end */
#define REDIS_NONE (-1)        /* no node */

struct redis_node_config {
    char address[REDIS_ADDRESS_SIZE]; /* "host:port", "[v6]:port" */
    char host[REDIS_HOST_SIZE];       /* without brackets */
    int port;                         /* 1 to 65535 */
};

enum redis_strategy {
    REDIS_STRATEGY_MAJORITY,  /* more than half of the configured managers say down */
    REDIS_STRATEGY_CONSENSUS, /* all with a fresh report say down, and they are enough */
    REDIS_STRATEGY_SINGLE,    /* any one with a fresh report */
};

enum redis_preference {
    REDIS_PREFER_OFFSET,  /* the server with most data */
    REDIS_PREFER_LATENCY, /* the server that answers fastest, among those within max_lag_bytes */
};

enum redis_unfenceable {
    REDIS_UNFENCEABLE_WAIT, /* wait for the lease of min-replicas-max-lag if it is set, else block */
    REDIS_UNFENCEABLE_BLOCK, /* stay without a master until the old one is fenced or an operator forces it */
};

/* Their names, as options and records have them; each NULL-ended. */
extern const char *const REDIS_STRATEGIES[];
extern const char *const REDIS_PREFERENCES[];
extern const char *const REDIS_UNFENCEABLES[];

struct redis_config {
    struct redis_node_config nodes[REDIS_NODES_MAX];
    size_t node_count;
    enum redis_strategy strategy;
    enum redis_preference preference;
    enum redis_unfenceable unfenceable;
    int64_t managers; /* configured managers: votes are compared with this number */
    /* least number of fresh reports, including the own one; 0: by the strategy */
    int64_t required_managers;
    int64_t period_ms;     /* between two probes of a node, and two reports */
    int64_t op_timeout_ms; /* one command on one server */
    int64_t max_failures;  /* consecutive failed probes before a node is down ... */
    int64_t min_down_ms;   /* ... and at least this long since the first of them */
    int min_successes;     /* consecutive good probes before a node that was down is up */
    int64_t busy_down_ms;  /* loading or busy for this long counts as failing; 0: never */
    /* how far a candidate may be behind the master's known offset; -1: no limit */
    int64_t max_lag_bytes;
    /* ... and its link may have been down so long before the master was; -1: no limit */
    int64_t max_link_down_ms;
    bool allow_data_loss;       /* take the best candidate even beyond these two limits */
    int64_t cooldown_ms;        /* between two automatic fail-overs */
    int64_t parallel_syncs;     /* replicas re-pointed at the same time */
    int64_t min_replicas;       /* min-replicas-to-write of the master; 0: left alone */
    int64_t min_replicas_lag_s; /* min-replicas-max-lag of the master */
    bool fence_methods;         /* there are methods to run (REDIS_ACTION_FENCE) */
    int64_t pause_ms;           /* CLIENT PAUSE WRITE of an old master that still answers */
    int64_t settle_ms;          /* longest wait for a candidate to apply what it received */
    /* from REPLICAOF NO ONE to role:master, before the next candidate is tried */
    int64_t promote_timeout_ms;
    /* how long the plan waits for replicas that are re-pointed; repairs go on after it */
    int64_t repoint_timeout_ms;
    int64_t request_timeout_ms; /* of a request that names none */
};

/* The defaults: no nodes, one manager. */
void redis_config_init(struct redis_config *config);

/* Reads "h:p,h:p" (default port 6379) into nodes. 0; CONCLAVE_EINVAL: none, too many, one twice, or no address
 * (*ret_bad: where it begins in text), config is unchanged. */
int redis_config_nodes(struct redis_config *config, const char *text, const char **ret_bad);

/* Splits an address. 0 or CONCLAVE_EINVAL. */
int redis_address_parse(const char *text, size_t len, struct redis_node_config *ret);

/* Place of the node with this address, or REDIS_NONE. Host names are compared without case. */
int redis_config_find(const struct redis_config *config, const char *address);

/* How many fresh reports are needed: required_managers, or the minimum of the strategy. */
int redis_config_required(const struct redis_config *config);

#endif
