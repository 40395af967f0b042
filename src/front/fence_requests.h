/* The server's part in enforced fencing besides apply: the first node, log lines, and requests about tokens. */
#ifndef FRONT_FENCE_REQUESTS_H
#define FRONT_FENCE_REQUESTS_H

#include "base/list.h"
#include "base/slice.h"
#include "state/effects.h"

struct service;

struct fence_requests {
    int64_t open_at; /* when the leader proposes /zookeeper/fence again, monotonic ms */
    bool told;       /* the obstacle was logged */
};

/* Called regularly on a leader: creates /zookeeper/fence where fencing is switched on. */
void fence_requests_tick(struct service *s, int64_t now_ms);

/* A client's write was refused. */
void fence_requests_note(struct service *s, int64_t session_id, const struct state_fenced *fenced);

/* A caller that waits for a proof that the applied state is the newest. */
struct confirmation {
    struct list link; /* in standing.waiting */
    uint64_t group;
    void (*fn)(void *ctx); /* called with the proof; the caller owns the struct again */
    void *ctx;
};

/* Calls fn when everything is applied that was acknowledged before this call: at once on a standalone server, never
 * without a quorum. The struct must live until then, or until the owner takes its
 * link out of the list. */
void confirmation_ask(struct service *s, struct confirmation *c, void (*fn)(void *ctx), void *ctx);

#endif
