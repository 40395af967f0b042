/*
 * What a Redis server says of itself, read from the text of INFO. Pure.
 *
 * Takes the texts of Redis 2.8 to 8 and of Valkey: unknown lines are passed over, what is missing keeps the value
 * that says so. Nothing is believed beyond its form: ids that are none are left empty, numbers that are none unknown.
 * Ask for: INFO (all default sections), or at least server, replication, persistence and keyspace.
 */
#ifndef REDIS_RECORDS_REDIS_INFO_H
#define REDIS_RECORDS_REDIS_INFO_H

#include "redis/records/cluster_config.h"

#define REDIS_REPLICAS_MAX 16

enum redis_role { REDIS_ROLE_UNKNOWN, REDIS_ROLE_MASTER, REDIS_ROLE_REPLICA };

/* master_failover_state of 6.2 and later */
enum redis_handover { REDIS_HANDOVER_NONE, REDIS_HANDOVER_WAITING, REDIS_HANDOVER_RUNNING };

/* a line slaveN of a master */
struct redis_replica {
    char address[REDIS_ADDRESS_SIZE]; /* as the master sees it */
    int64_t offset;                   /* last acknowledged; -1 unknown */
    int64_t lag_s;                    /* since the last acknowledgement; -1 unknown */
    bool online;                      /* past its synchronization */
};

struct redis_facts {
    enum redis_role role;
    char run_id[REDIS_ID_SIZE];
    char replid[REDIS_ID_SIZE];  /* "" before 4.0 */
    char replid2[REDIS_ID_SIZE]; /* "" for none (all zeros) */
    int64_t second_offset;       /* first offset that is not of replid2; -1 none */
    int64_t offset;      /* how far its data are: a master's own, a replica's applied; -1 unknown */
    int64_t read_offset; /* a replica's received ones; offset where it does not say */
    int priority;        /* 0: never to be promoted; 100 when it does not say */
    char master[REDIS_ADDRESS_SIZE]; /* a replica's master; "" */
    bool link_up;                    /* a replica's link to it */
    int64_t link_down_ms;            /* since when it is down; -1 unknown or never was up */
    bool sync_in_progress;           /* a full synchronization is under way */
    bool loading;                    /* its data are not there yet */
    enum redis_handover handover;    /* FAILOVER that was asked of this master */
    int version;          /* 70015 for 7.0.15; 0 unknown. Valkey's redis_version counts */
    int64_t keys;         /* of all databases; -1 unknown (no keyspace section) */
    int good_replicas;    /* replicas within min-replicas-max-lag; -1: the two settings are off */
    size_t replica_count; /* lines slaveN, at most REDIS_REPLICAS_MAX kept */
    struct redis_replica replicas[REDIS_REPLICAS_MAX];
};

/* Reads text (len bytes, not NUL-terminated). 0; CONCLAVE_ECORRUPT: there is no role in it (an error, a proxy, a
 * Sentinel), *ret is then untouched. */
int redis_facts_read(const char *text, size_t len, struct redis_facts *ret);

/* Whether the data of `facts` are of the history (replid, replid2 up to second_offset): the same history, a
 * beginning of it, or one that went on from either. Without ids (before 4.0): false. */
bool redis_facts_of_history(const struct redis_facts *facts, const char *replid,
                            const char *replid2, int64_t second_offset);

const char *redis_role_name(enum redis_role role);
extern const char *const REDIS_ROLES[]; /* the names, NULL-ended */

#endif
