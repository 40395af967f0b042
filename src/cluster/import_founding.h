/*
 * The first start of a member whose folder has files of an Apache ZooKeeper: exchanges cards with the other members, keeps the
 * own choice on the disk, and begins the ensemble or joins it, as import_start.h decides. Logs what it waits for.
 *
 * The one that founds leads alone at first. It serves nobody, `gathering`, until a majority of the configured voters has
 * joined: until then the file CHOICE_FILE stays, also across a restart.
 *
 * A member that joins asks the founder what its folder had, because its own may have been newer: then it warns. Limit: only in
 * the life in which it joins, and while the founder is there.
 */
#ifndef CLUSTER_IMPORT_FOUNDING_H
#define CLUSTER_IMPORT_FOUNDING_H

#include "base/clock.h"
#include "cluster/import_start.h"

/* What the folder has, and what can be done with it: from above. */
struct import_source {
    void *ctx;
    struct import_card card; /* what the folder holds; without a choice */
    const char *damage;      /* why it cannot be used, one line; NULL: it can */

    /* The fingerprint of a transaction; 0: unknown. */
    uint64_t (*print)(void *ctx, int64_t zxid);

    /* Makes the folder a data folder with the files' state, in which this server is the only member. */
    int (*found)(void *ctx, char **ret_text);

    /* Prepares the folder for a join: its files do not count any more. */
    int (*join)(void *ctx, char **ret_text);

    /* The state is not needed now: its memory may go. */
    void (*release)(void *ctx);
};

struct import_founding {
    struct import_start start;
    const struct import_source *source; /* borrowed; NULL: no files of Apache's */
    const char *dir;                    /* data folder; borrowed */
    const struct clock_source *clock;
    bool gathering; /* the ensemble has begun, and waits for a majority */
    bool founded;   /* it began with this server's folder, which had the rank `begun` */
    struct import_rank begun;
    bool asks; /* it joined with a readable folder, and does not know yet whether that was newer */
    bool told_conflict;
    int64_t tell_at; /* when the card is sent again, monotonic ms */
    int64_t warn_at; /* when the wait is logged next */
    int64_t fail_at; /* after a conflict: when this server ends */
    /* sends a card to another member; it may be lost; takes the bytes */
    void (*send)(void *ctx, uint64_t to, struct buf *card_take);
    void *send_ctx;
};

/* Reads the choice of an earlier life. source NULL: then only `gathering` and `founded` matter. 0, or an error with
 * *ret_text (free it). */
int import_founding_init(struct import_founding *f, const struct import_source *source,
                         const char *dir, const struct clock_source *clock, uint64_t id,
                         const struct configuration_member *founders, size_t n,
                         char **ret_text) CONCLAVE_MUST_USE;

/* Also when the ensemble has begun. */
void import_founding_link(struct import_founding *f, uint64_t id);
void import_founding_hello(struct import_founding *f, const struct peer_identity *who);

/* A card; also when the ensemble has begun. */
void import_founding_message(struct import_founding *f, uint64_t from, struct slice card);

/* Regular work until the ensemble has begun: every 50 ms. 1: the folder is a data folder now, open it; 0: wait; or an
 * error with *ret_text (free it), after which the server must end. */
int import_founding_tick(struct import_founding *f, char **ret_text) CONCLAVE_MUST_USE;

/* There is an ensemble that this server joins. Errors as above. */
int import_founding_join(struct import_founding *f, char **ret_text) CONCLAVE_MUST_USE;

/* The log's members. Returns whether the gathering has just ended. */
bool import_founding_members(struct import_founding *f, const struct configuration_member *members,
                             size_t n);

#endif
