/*
 * The slow log: the latest requests that took longer than a threshold, and where their time went. A ring of fixed size;
 * paths are cut, so its memory has a limit. Adding costs a copy, and only slow requests are added.
 */
#ifndef FRONT_LIMITS_SLOW_LOG_H
#define FRONT_LIMITS_SLOW_LOG_H

#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, NAME): where a request spends its time. */
#define REQUEST_PARTS(X)                                                                           \
    X(queue, QUEUE)     /* from reading it until its batch leaves, or behind earlier writes */     \
    X(forward, FORWARD) /* until the batch is in this server's log, by way of the leader */        \
    X(disk, DISK)       /* until this server has synced it */                                      \
    X(quorum, QUORUM)   /* until it is committed, or a quorum has confirmed the leader */          \
    X(apply, APPLY)     /* applying it, or answering a read */                                     \
    X(send, SEND)       /* until the client has taken the answer */

enum request_part {
#define REQUEST_PART(name, NAME) PART_##NAME,
    REQUEST_PARTS(REQUEST_PART)
#undef REQUEST_PART
        PART_COUNT,
};

enum {
    SLOW_PATH_MAX = 160,
    SLOW_CLIENT_MAX = 64,
};

struct slow_request {
    int64_t at_ms;                /* wall time of the answer */
    int64_t session_id;           /* 0: none */
    int32_t xid;                  /* that the client gave it */
    int32_t type;                 /* enum wire_op, or enum command_type */
    uint32_t count;               /* requests that were answered together */
    int64_t part_us[PART_COUNT];  /* microseconds */
    char client[SLOW_CLIENT_MAX]; /* HOST:PORT; "": it is gone */
    char path[SLOW_PATH_MAX];     /* the first bytes of it; "": none */
    bool path_cut;
};

struct slow_log {
    struct slow_request *rows; /* a ring */
    size_t max;                /* room for rows; 0: nothing is kept */
    size_t held;               /* rows in it */
    uint64_t count;            /* added so far */
    int64_t threshold_ns;      /* 0: off */
};

/* threshold_ms 0: off. 0 or CONCLAVE_ENOMEM; finish it in either case. */
int slow_log_init(struct slow_log *l, int64_t threshold_ms, size_t max) CONCLAVE_MUST_USE;
void slow_log_finish(struct slow_log *l);

/* Other limits for a log in use: the newest rows stay, as far as they have room. CONCLAVE_ENOMEM: nothing changed. */
int slow_log_set(struct slow_log *l, int64_t threshold_ms, size_t max) CONCLAVE_MUST_USE;

static inline bool slow_log_wants(const struct slow_log *l, int64_t ns)
{
    return l->threshold_ns != 0 && ns >= l->threshold_ns;
}

/* The next row, blank, to be filled. NULL: none is kept. */
struct slow_request *slow_log_add(struct slow_log *l);

/* Row number i, 0 is the newest. NULL: there are no more. */
struct slow_request *slow_log_row(const struct slow_log *l, size_t i);

void slow_request_set_client(struct slow_request *r, const char *client);

/* Takes the path from the body of a request, if this kind of request has one in front. */
void slow_request_set_path(struct slow_request *r, int32_t type, struct slice body);

/* "queue" ... */
const char *request_part_name(enum request_part part);
enum request_part slow_request_longest(const struct slow_request *r);
int64_t slow_request_us(const struct slow_request *r); /* the sum of its parts */

#endif
