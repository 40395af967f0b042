/*
 * A member with damaged data: may the others replace them, and when? The identities of the other servers decide
 * (peer_identity). No clock; the only I/O is to move the data aside and to store the members.
 *
 *   damage → WAITING → a majority of the voters, without this server, is linked and has its data
 *     → the damaged files are moved aside → this server joins, as one with an empty folder does
 *
 * Until then nothing is touched: if more than a minority is damaged, these folders may hold the only copy. An ensemble
 * of two never heals by itself, because the other server alone is no majority and cannot commit the join.
 */
#ifndef CLUSTER_REPAIR_H
#define CLUSTER_REPAIR_H

#include "cluster/links/peer.h"
#include "replication/disk/damage.h"
#include "replication/disk/members_file.h"

struct repair {
    uint64_t id;
    const char *dir; /* data folder; borrowed */
    /* the members that count: the stored or the configured ones (borrowed) */
    const struct configuration_member *members;
    size_t n_members;
    /* the newest applied configuration, of this run or an earlier one */
    struct members_file kept;
    bool on;                     /* damage.heal */
    uint64_t grown[MEMBERS_MAX]; /* servers that last told that they have their data */
    size_t n_grown;
    bool wanted; /* the content of the folder must not be used again */
    bool cluster_known;
    uint8_t cluster[PEER_CLUSTER_SIZE];
};

/* Counts the members that the folder has stored; without such a record, the configured members. */
void repair_init(struct repair *h, uint64_t id, bool on, const char *dir,
                 const struct configuration_member *configured, size_t n);
void repair_finish(struct repair *h);

/* A configuration was applied: it counts from now on, and is stored. */
void repair_configuration(struct repair *h, const uint8_t cluster[PEER_CLUSTER_SIZE],
                          uint64_t index, const struct configuration_member *members, size_t n);

/* Whether the other voters can be a majority, and the key damage.heal permits it. */
bool repair_is_possible(const struct repair *h);

/* Damage was found; look has what the folder still shows of its cluster. */
void repair_want(struct repair *h, const struct damage_look *look);

/* A server told its identity. Call it on every server, because damage may be found later. */
void repair_hello(struct repair *h, const struct peer_identity *who);

/* The age that a member tells while it is aside: its data are out of use, so it does not count for the repair of
 * others. A server that has only founded has no data to lose, and still counts for the founding. */
enum peer_age repair_age_aside(enum peer_age age);

/* Whether a majority with data is linked. */
bool repair_may_begin(const struct repair *h, bool (*is_linked)(void *ctx, uint64_t id), void *ctx);

/* Moves the damaged data of the folder aside and logs that. Errors and *ret_text (free it) as damage_put_aside; the
 * caller may try again. */
int repair_put_aside(struct repair *h, int64_t wall_ms, char **ret_text) CONCLAVE_MUST_USE;

#endif
