/* What a server does about enforced fencing beside applying it: its first node, lines of log, questions for a token. */
#ifndef FRONT_FENCE_REQUESTS_H
#define FRONT_FENCE_REQUESTS_H

#include "base/list.h"
#include "base/slice.h"
#include "state/effects.h"

struct service;

struct fence_requests {
    int64_t open_at; /* when the leader asks again for /zookeeper/fence, monotonic ms */
    bool told;       /* the operator was told what stands in the way */
};

/* For a leader, now and then: makes /zookeeper/fence where fencing is switched on. */
void fence_requests_tick(struct service *s, int64_t now_ms);

/* A client's write was refused. */
void fence_requests_note(struct service *s, int64_t session_id, const struct state_fenced *fenced);

/* Somebody who waits for a proof that what is applied here is the newest. */
struct confirmation {
    struct list link; /* in standing.waiting */
    uint64_t group;
    void (*fn)(void *ctx); /* it came; the struct is the caller's again */
    void *ctx;
};

/* Calls fn when all is applied that was acknowledged before this call: at once in a server alone, never while there is no
 * quorum. The struct must live until then or until confirmation_drop. */
void confirmation_ask(struct service *s, struct confirmation *c, void (*fn)(void *ctx), void *ctx);
void confirmation_drop(struct confirmation *c);

#endif
