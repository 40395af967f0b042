/*
 * Reads the facts about a Redis server from the text of INFO. Pure.
 *
 * It reads the texts of Redis 2.8 to 8 and of Valkey. It ignores unknown lines. A missing or malformed value is unknown:
 * ids are empty, numbers have the value that means unknown. The text must be of INFO (all default sections), or at least
 * of the sections server, replication, persistence and keyspace.
 */
#ifndef REDIS_RECORDS_REDIS_INFO_H
#define REDIS_RECORDS_REDIS_INFO_H

#include "redis/records/cluster_config.h"

#define REDIS_REPLICAS_MAX 16

enum redis_role { REDIS_ROLE_UNKNOWN, REDIS_ROLE_MASTER, REDIS_ROLE_REPLICA };

/* master_failover_state of 6.2 and later */
enum redis_handover { REDIS_HANDOVER_NONE, REDIS_HANDOVER_WAITING, REDIS_HANDOVER_RUNNING };

struct redis_facts {
    enum redis_role role;
    char run_id[REDIS_ID_SIZE];
    char replid[REDIS_ID_SIZE];  /* "" before 4.0 */
    char replid2[REDIS_ID_SIZE]; /* "" for none (all zeros) */
    int64_t second_offset;       /* first offset that is not of replid2; -1 none */
    int64_t offset;              /* a master's own, a replica's applied one; -1 unknown */
    int64_t read_offset;         /* the one that a replica has received; else the same as offset */
    int priority;                /* 0: never promote it; 100 if unknown */
    char master[REDIS_ADDRESS_SIZE]; /* a replica's master; "" */
    bool link_up;                    /* a replica's link to it */
    int64_t link_down_ms;            /* how long it has been down; -1 unknown, or it never was up */
    bool sync_in_progress;           /* a full synchronization is under way */
    bool loading;                    /* it still loads its data */
    enum redis_handover handover;    /* state of a FAILOVER command of this master */
    int version;          /* 70015 for 7.0.15; 0 unknown. Valkey's redis_version counts */
    int64_t keys;         /* of all databases; -1 unknown (no keyspace section) */
    int good_replicas;    /* replicas within min-replicas-max-lag; -1: the two settings are off */
    size_t replica_count; /* lines slaveN, at most REDIS_REPLICAS_MAX kept */
    char replicas[REDIS_REPLICAS_MAX][REDIS_ADDRESS_SIZE]; /* as the master sees them */
};

/* Reads len bytes. 0; CONCLAVE_ECORRUPT: there is no role in it (an error, a proxy, a Sentinel), *ret is untouched. */
int redis_facts_read(const char *text, size_t len, struct redis_facts *ret);

/* Whether the data of `facts` belong to a history (replid, replid2 up to second_offset): the same one, a beginning of it,
 * or a continuation of either. False without ids (before 4.0). */
bool redis_facts_of_history(const struct redis_facts *facts, const char *replid,
                            const char *replid2, int64_t second_offset);

const char *redis_role_name(enum redis_role role);
extern const char *const REDIS_ROLES[]; /* the names, NULL-ended */

#endif
