/*
 * The places of an HTTP port, and which connection loses its place first. PLACES_MAX connections have one. Of each address
 * (an IPv6 network of 64 bits is one) at most PLACES_PER_ADDRESS connections may go on without a complete request after
 * PLACES_GRACE_MS. When the places are taken, the connection goes that has waited longest without a complete request, then
 * the one that has been idle longest after an answer, then the slowest reader of an answer. So a request that is
 * complete, such as a probe, always gets in. Knows no clock and no sockets.
 */
#ifndef ADMIN_HTTP_CONNECTION_SLOTS_H
#define ADMIN_HTTP_CONNECTION_SLOTS_H

#include "base/list.h"
#include "front/limits/client_address.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PLACES_MAX = 64,
    PLACES_PER_ADDRESS = 4,
    PLACES_GRACE_MS = 250,
};

enum place_state {
    PLACE_OPENING,   /* no request has been complete yet */
    PLACE_IDLE,      /* its requests have been answered */
    PLACE_ANSWERING, /* a request is complete, its answer not yet sent */
    PLACE_PATIENT,   /* its answer takes long: it keeps its place */
    PLACE_RECEIVING, /* its upload is being read: it keeps its place, too */
};

/* Embedded in a connection. */
struct place {
    struct list node;  /* in the order of since_ms */
    uint64_t since_ms; /* when it came, or completed a request */
    enum place_state state;
    bool leaving; /* it counts no more: its end has begun, or another list counts it */
    char address[ADDRESS_NAME_MAX];
};

/* `host` is numeric. */
void place_take(struct place *p, struct list *places, const char *host, uint64_t now_ms);

/* A request is over: its time begins anew. */
void place_renew(struct place *p, struct list *places, uint64_t now_ms);

/* The connection that has to go now, marked as leaving; NULL: all may stay. */
struct place *places_surplus(struct list *places, uint64_t now_ms);

#endif
