/*
 * A member whose data are damaged: may the others replace them, and when? Decided from what the others say of themselves
 * (peer_identity); no I/O but the moving aside and the keeping of the members, no clock.
 *
 *   damage → WAITING → a majority of the voters, this server not counted, are linked and have their data
 *     → the damaged files are moved aside → this server joins, as one with an empty folder does
 *
 * Until then nothing is touched: if more than a minority is damaged, what the folders still hold may be all there is. An
 * ensemble of two never heals by itself: the other has no majority, so nothing could be let in.
 */
#ifndef CLUSTER_REPAIR_H
#define CLUSTER_REPAIR_H

#include "cluster/links/peer.h"
#include "replication/disk/damage.h"
#include "replication/disk/members_file.h"

struct repair {
    uint64_t id;
    const char *dir; /* data folder; borrowed */
    /* that count: the kept ones, or the configured ones (borrowed) */
    const struct configuration_member *members;
    size_t n_members;
    /* of the newest configuration that was applied, in this run or an earlier one */
    struct members_file kept;
    bool on;                     /* damage.heal */
    uint64_t grown[MEMBERS_MAX]; /* servers that have their data, as they said last */
    size_t n_grown;
    bool wanted; /* the folder's content is not to be used again */
    bool cluster_known;
    uint8_t cluster[PEER_CLUSTER_SIZE];
};

/* Counts the members of the log's configuration, which the folder keeps; if the folder has no record of them, the
 * configured members. */
void repair_init(struct repair *h, uint64_t id, bool on, const char *dir,
                 const struct configuration_member *configured, size_t n);
void repair_finish(struct repair *h);

/* A configuration was applied: it counts from now on, and is kept. */
void repair_configuration(struct repair *h, const uint8_t cluster[PEER_CLUSTER_SIZE],
                          uint64_t index, const struct configuration_member *members, size_t n);

/* Whether others alone can be a majority of the voters, and it is not switched off. */
bool repair_is_possible(const struct repair *h);

/* Damage was found; what is left of the folder says this of its cluster. */
void repair_want(struct repair *h, const struct damage_look *look);

/* Somebody told who he is: in any stage, as damage may be found later. */
void repair_hello(struct repair *h, const struct peer_identity *who);

/* What a member that steps aside says of itself: its data are out of use, and it does not count for the others' healing. Who
 * has only founded has none to lose, and goes on to count for the founding. */
enum peer_age repair_age_aside(enum peer_age age);

/* Whether a majority that has the data is there. */
bool repair_may_begin(const struct repair *h, bool (*is_linked)(void *ctx, uint64_t id), void *ctx);

/* Moves the damaged data of the folder aside and logs that. Errors and *ret_text (free it) as of damage_put_aside; the
 * caller may try again. */
int repair_put_aside(struct repair *h, int64_t wall_ms, char **ret_text) CONCLAVE_MUST_USE;

#endif
