/*
 * A server that is about to be restarted gives its work to the others: it hands the lead over, again whenever it gets it
 * back, takes no new sessions, and sends its clients away one after the other, each after its requests were answered. They
 * resume their sessions on other servers. The server keeps its vote and follows the log. No I/O of its own.
 */
#ifndef DAEMON_DRAIN_H
#define DAEMON_DRAIN_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

struct service;

enum { DRAIN_WITHIN_MS = 10000, DRAIN_WITHIN_MAX_MS = 3600000 };

struct drain {
    bool on;
    int64_t until_ms;  /* by then all clients were sent away, monotonic */
    int64_t next_ms;   /* when the next ones are */
    int64_t resign_ms; /* when the lead may be handed over again */
};

/* Begins, or sets another time for all clients to go. */
void drain_begin(struct drain *d, struct service *s, int64_t now_ms, int64_t within_ms);

/* Takes it back: the server serves as before. Clients that left come back when they want. */
void drain_end(struct drain *d, struct service *s);

/* Call it at drain_deadline, INT64_MAX: never. leads: this server leads others. Whether it is to hand the lead over now. */
bool drain_tick(struct drain *d, struct service *s, bool leads, int64_t now_ms) CONCLAVE_MUST_USE;
int64_t drain_deadline(const struct drain *d);

#endif
