/*
 * Follows the source of a mirror (state/mirror.h): on the server that leads, as long as it leads. Connects to the source's
 * leader, and gives its transactions, or its whole state, to the log. A change of leader on either side, and any break, begins
 * again with the zxid that the state has.
 */
#ifndef APACHE_FOLLOWER_MIRROR_FOLLOWER_H
#define APACHE_FOLLOWER_MIRROR_FOLLOWER_H

#include "base/slice.h"
#include "front/service.h"

#include <uv.h>

struct mirror_follower;

enum mirror_stage {
    MIRROR_NONE,       /* no mirror, or this server does not lead */
    MIRROR_CONNECTING, /* no server of the source answers as its leader */
    MIRROR_LOADING,    /* the whole state comes, or goes through the log */
    MIRROR_CATCHING_UP,
    MIRROR_FOLLOWING,
};
const char *mirror_stage_name(enum mirror_stage stage);

struct follower_view {
    enum mirror_stage stage;
    char server[NET_TEXT_MAX]; /* of the source, that is asked now */
    const char *trouble;       /* why the last attempt ended; "": none did; borrowed */
    int64_t source_zxid;       /* newest that the source named; 0: unknown */
    int64_t behind_ms;         /* how long this side is behind that; 0: it is not */
    int64_t heard_ms;          /* since the last transaction or sign of life; -1: none yet */
    uint64_t transactions;     /* proposed since this server follows */
    uint64_t states;           /* whole states */
    uint64_t breaks;           /* connections that ended */
    int64_t
        barrier_zxid; /* of the last barrier's transaction; 0: none was asked for, or it has not come */
    bool digest_known; /* the source told its digest at our zxid */
    uint64_t source_digest;
};

struct source_access;

/* access is borrowed. NULL: out of memory. */
struct mirror_follower *mirror_follower_create(uv_loop_t *loop, struct service *service,
                                               const struct source_access *access);

/* Calls cb when all is closed; f is freed. NULL calls it at once. */
void mirror_follower_close(struct mirror_follower *f, void (*cb)(void *ctx), void *ctx);

/* In each turn of the loop. */
void mirror_follower_turn(struct mirror_follower *f);

void mirror_follower_view(const struct mirror_follower *f, struct follower_view *ret);

/* Asks the source for a proof that nothing is missing: its zxid is in the view later. CONCLAVE_EBUSY: it does not follow. */
int mirror_follower_barrier(struct mirror_follower *f) CONCLAVE_MUST_USE;

#endif
