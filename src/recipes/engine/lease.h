/*
 * The lease proves that this session still holds its nodes.
 *
 * Every heartbeat is ONE transaction of checks, for all nodes that the session holds. It goes
 * through the quorum, changes nothing and fires no watch. An acknowledged heartbeat that was
 * sent at w proves that the leader of the ensemble knew the session at w or later. A Conclave
 * ensemble does not end the session before w + T (cluster/session_reports.h). An Apache ensemble, whose
 * followers tell their leader every half tick, does not before w + T - tick/2 - h. The lease ends at
 * w + 2T/3, which is earlier than both as long as T >= 3 ticks and h <= T/6. The link alone proves
 * nothing: a server that is cut off from its quorum answers pings for a while. Times are
 * CLOCK_BOOTTIME, which counts suspend.
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_ENGINE_LEASE_H
#define RECIPES_ENGINE_LEASE_H

#include "client/client.h"

#include <stdbool.h>
#include <stdint.h>

struct conclave_recipes;
struct conclave_lease_options;

/* Something held by a node of the session. */
struct lease_holder {
    struct list link; /* in lease.holders */
    struct lease *lease;
    const char *path;   /* of the node; borrowed, unchanged while it is added */
    int32_t version;    /* that it must have, when */
    bool versioned;     /* that counts */
    const char *beside; /* a node that must exist, too, in this version; NULL: none; as path */
    int32_t beside_version;
    int64_t heartbeat_ms; /* wanted; 0: a sixth of the session timeout */
    int64_t until_ns;     /* end of the lease; 0: not proved yet */
    struct client_timer expiry;
    bool added;
    bool paused; /* its path is being changed: not checked, so its lease is not prolonged */
    /* The lease was proved, or proved longer: until_ns is new. */
    void (*on_proved)(struct lease_holder *holder);
    /* The lease is over, the holder was removed. CONCLAVE_ELOST: it ran out; CONCLAVE_NO_NODE:
     * the node is gone; CONCLAVE_SESSION_EXPIRED, CONCLAVE_ECLOSED, CONCLAVE_AUTH_FAILED: so
     * is the session. */
    void (*on_lost)(struct lease_holder *holder, int why);
};

struct lease {
    struct conclave_recipes *rt;
    struct list holders;
    struct list beats; /* in flight */
    struct client_timer next_beat;
    unsigned in_flight;
};

void lease_init(struct lease *lease, struct conclave_recipes *rt);

/* Adds a holder and sends a heartbeat at once. */
void lease_add(struct lease *lease, struct lease_holder *holder);

/* Adds a holder whose node was created by a request sent at sent_ns (0: not known) and answered:
 * that was a proof, too, as long as half of its lease is left. Sends a heartbeat at once only if it is
 * none any more. on_proved is not called for it: see until_ns. */
void lease_add_proved(struct lease *lease, struct lease_holder *holder, int64_t sent_ns);

/* Takes it out; harmless when it is out. No function of it is called any more. */
void lease_remove(struct lease *lease, struct lease_holder *holder);

/* Call it at each change of the client's state. */
void lease_on_state(struct lease *lease, enum conclave_state state);

/* --- arithmetic, pure ----------------------------------------------------------- */

/* End of the lease that a heartbeat sent at sent_ns proves. */
int64_t lease_end_ns(int64_t sent_ns, int64_t session_timeout_ms);

/* Whether a program may give these options. */
bool lease_options_valid(const struct conclave_lease_options *o);

/* Time between heartbeats: the wanted one, at most a sixth of the session timeout, at least 1 ms. */
int64_t lease_period_ms(int64_t wanted_ms, int64_t session_timeout_ms);

/* The most that on_revoked may take: a third of the session timeout less 500 ms (less half of
 * that third where the timeout is below 3 s). */
int64_t lease_grace_max_ms(int64_t session_timeout_ms);

/* Time from now_ns in which work must have stopped, for a lease that ends (or ended) at
 * until_ns. */
int64_t lease_stop_within_ms(int64_t now_ns, int64_t until_ns, int64_t session_timeout_ms);

#endif
