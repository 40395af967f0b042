/*
 * Which connections stay on an HTTP port: at most SLOTS_MAX have a slot. When a newer connection needs one, the first
 * of these gives up its slot:
 *
 *   1. a connection without a complete request for SLOTS_GRACE_MS or longer, the oldest first
 *   2. one that is idle after an answer, the longest first
 *   3. one that came within SLOTS_GRACE_MS, the oldest first
 *   4. one that reads an answer, the slowest first
 *
 * So a complete request, such as a probe, always gets an answer. Connections with long answers or uploads stay. Per
 * address (an IPv6 network of 64 bits counts as one), at most SLOTS_PER_ADDRESS connections stay without a complete
 * request for longer than SLOTS_GRACE_MS. No clock and no sockets.
 */
#ifndef ADMIN_HTTP_CONNECTION_SLOTS_H
#define ADMIN_HTTP_CONNECTION_SLOTS_H

#include "base/list.h"
#include "net/address.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SLOTS_MAX = 64,
    SLOTS_PER_ADDRESS = 4,
    SLOTS_GRACE_MS = 250,
};

enum slot_state {
    SLOT_OPENING,   /* no complete request yet */
    SLOT_IDLE,      /* its requests are answered */
    SLOT_ANSWERING, /* a request is complete, its answer is not sent yet */
    SLOT_PATIENT,   /* its answer takes long: it keeps its slot */
    SLOT_RECEIVING, /* it uploads a body: it keeps its slot, too */
};

/* Embedded in a connection. */
struct slot {
    struct list node;  /* in the order of since_ms */
    uint64_t since_ms; /* when it came, completed a request, or had its answer */
    enum slot_state state;
    char address[NET_NETWORK_MAX];
};

/* Puts a new connection at the end of the list. `host` is numeric. */
void slot_take(struct slot *s, struct list *slots, const char *host, uint64_t now_ms);

/* A request or its answer is complete: the slot's time begins again, and its state is IDLE. */
void slot_renew(struct slot *s, struct list *slots, uint64_t now_ms);

/* The connection that must go now, removed from the list; NULL: all may stay. */
struct slot *slots_surplus(struct list *slots, uint64_t now_ms);

#endif
