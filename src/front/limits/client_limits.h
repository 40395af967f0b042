/*
 * Every limit on what a client can make the server store or do, with its default. Times are in milliseconds, sizes in
 * bytes. The keys of zoo.cfg that set the limits are in daemon/keys.c.
 */
#ifndef FRONT_LIMITS_CLIENT_LIMITS_H
#define FRONT_LIMITS_CLIENT_LIMITS_H

#include "state/command_bounds.h"

#include <stddef.h>
#include <stdint.h>

struct client_limits {
    int32_t tick_ms;        /* unit of session expiry */
    int32_t session_min_ms; /* shortest session timeout */
    int32_t session_max_ms; /* longest */
    size_t sessions_max;    /* sessions in the table; further ones are refused */

    size_t frame_max;       /* a request packet; a larger one closes the connection */
    size_t connections_max; /* all client connections; 0: what file descriptors allow */
    size_t address_max;     /* connections of one address; 0: no limit */
    int32_t handshake_ms;   /* until a connection must have requested a session */
    size_t handshakes_max;  /* concurrent TLS handshakes; beyond it the slowest client is dropped */
    /* TLS handshakes of one address per second; further ones are refused */
    int64_t address_handshakes_max;
    size_t outstanding_max; /* requests in progress of all connections: reading pauses at it */
    size_t outstanding_bytes_max; /* their bytes */
    size_t pipelined_max;         /* requests in progress of one connection: its reading pauses */
    size_t pipelined_bytes_max;   /* their bytes */
    size_t output_pause;          /* unsent bytes at which the reading of a connection pauses */
    size_t output_max;            /* unsent bytes at which an event closes a connection */
    /* sessions created from one address; further ones are refused */
    size_t address_sessions_max;
    size_t address_bytes_max;     /* bytes of its requests in progress: its reading pauses */
    int64_t address_rate_max;     /* its requests per second; further ones are refused */
    size_t watches_max;           /* watches of one connection; further ones are refused */
    size_t watches_total_max;     /* watches of all */
    size_t watch_bytes_max;       /* bytes of the paths of a connection's watches */
    size_t watch_bytes_total_max; /* bytes of the paths of all watches; an address may use half */
    /* unread input and unsent output of all connections; beyond it the server closes those with the most */
    size_t buffers_max;
    size_t address_buffers_max; /* the same of one address; beyond it large answers are refused */
    /* memory of the replicated state at which writes that add to it are refused */
    size_t data_max;
    size_t ended_sessions_max;       /* records of why sessions ended, of each kind; 0: none */
    int64_t slow_ms;                 /* requests above it go into the slow log; 0: none */
    size_t slow_max;                 /* rows of the slow log */
    size_t session_results_max;      /* remembered results of a session's writes; 0: none */
    size_t session_result_bytes_max; /* bytes of their replies; the newest is always kept */
    size_t identity_max; /* bytes of a connection's ids: each write carries them into the log */
    struct command_bounds command; /* of one request that goes into the log, and of a multiRead */
    size_t reply_max;              /* bytes of the answer to one read; 0: see client_limits_reply */
};

enum {
    REPLY_FRAMES = 4, /* Java's clients accept a packet and a quarter */
    REPLY_LEAST =
        12
        << 20, /* enough for the names of 100,000 children; less than output_max, so that events fit after the reply */
};

static inline size_t client_limits_reply(const struct client_limits *l)
{
    size_t frames = l->frame_max * REPLY_FRAMES;
    size_t most = frames > REPLY_LEAST ? frames : REPLY_LEAST;
    return l->reply_max != 0 ? l->reply_max : most;
}

/* The defaults, with session_min_ms and session_max_ms for the default tick. Limits that depend on the machine's memory
 * are 0. */
struct client_limits client_limits_default(void);

/* Replaces limits of 0 by their share of the memory that this process may have. */
void client_limits_share(struct client_limits *limits, size_t memory);

#endif
