/*
 * Every limit on what a client can make the server hold or do, with its default. Times in
 * milliseconds, sizes in bytes. The keys of zoo.cfg that set them are in daemon/keys.c.
 */
#ifndef FRONT_LIMITS_CLIENT_LIMITS_H
#define FRONT_LIMITS_CLIENT_LIMITS_H

#include "state/command_bounds.h"

#include <stddef.h>
#include <stdint.h>

struct client_limits {
    int32_t tick_ms;        /* unit of session expiry */
    int32_t session_min_ms; /* least session timeout granted */
    int32_t session_max_ms; /* greatest */
    size_t sessions_max;    /* sessions in the table; beyond it new ones are refused */

    size_t frame_max;       /* a request packet; a larger one closes the connection */
    size_t connections_max; /* all client connections; 0: what file descriptors allow */
    size_t address_max;     /* connections of one address; 0: no limit */
    int32_t handshake_ms;   /* until the session request has come */
    size_t handshakes_max;  /* TLS handshakes under way; beyond it the slowest peer goes */
    /* TLS handshakes of one address in a second; more are refused */
    int64_t address_handshakes_max;
    size_t outstanding_max; /* requests being worked on, all connections: reading pauses at it */
    size_t outstanding_bytes_max; /* their bytes */
    size_t pipelined_max; /* requests being worked on for one connection: its reading pauses */
    size_t pipelined_bytes_max; /* their bytes */
    size_t output_pause;        /* unsent bytes at which the reading of a connection pauses */
    size_t output_max;          /* unsent bytes at which an event cuts a connection off */
    /* sessions made from one address; beyond it new ones are refused */
    size_t address_sessions_max;
    size_t address_bytes_max; /* bytes of its requests being worked on: its reading pauses */
    int64_t address_rate_max; /* its requests a second; beyond it they are refused */
    size_t watches_max;       /* watches of one connection; beyond it they are refused */
    size_t watches_total_max; /* watches of all */
    size_t watch_bytes_max;   /* bytes of the paths of a connection's watches; beyond: refused */
    size_t watch_bytes_total_max; /* of all watches; an address may have half of them */
    size_t buffers_max; /* unread input and unsent output of all connections; beyond it those that
                           keep the most are cut off */
    size_t address_buffers_max; /* of one address: large answers are refused beyond it */
    /* memory of the replicated state, at which writes that add to it are refused */
    size_t data_max;
    size_t session_results_max;      /* remembered results of a session's writes; 0: none are */
    size_t session_result_bytes_max; /* bytes of their replies; the newest is kept in any case */
    size_t identity_max; /* bytes of a connection's ids: each write takes them into the log */
    struct command_bounds command; /* of one request that goes into the log, and of a multiRead */
    size_t reply_max;              /* bytes of the answer to one read; 0: see client_limits_reply */
};

enum {
    REPLY_FRAMES = 4, /* Java's clients take a packet and a quarter */
    REPLY_LEAST =
        12
        << 20, /* others take all: the names of 100,000 children; less than output_max, so that events fit behind it */
};

static inline size_t client_limits_reply(const struct client_limits *l)
{
    size_t frames = l->frame_max * REPLY_FRAMES;
    size_t most = frames > REPLY_LEAST ? frames : REPLY_LEAST;
    return l->reply_max != 0 ? l->reply_max : most;
}

/* The defaults, with session_min_ms and session_max_ms for the default tick. Limits that depend on the
 * machine's memory are 0. */
struct client_limits client_limits_default(void);

/* Gives the limits that are 0 their share of the memory that this process may have. */
void client_limits_share(struct client_limits *limits, size_t memory);

#endif
