/*
 * The history of hand-overs: who held an election, lock, semaphore or pair, until when, and why that ended. Pure.
 *
 * Bounded: HANDOVERS_PER_LINE records of each ring for one recipe, HANDOVERS_PER_RING of each ring in total; the oldest one
 * makes room. So locks that change hands all the time do not push out the few hand-overs that somebody will ask about. A
 * record has some 600 bytes and a path at most HANDOVER_PATH_MAX: 1.5 MB at most, nothing without hand-overs.
 */
#ifndef ADMIN_CONSOLE_HANDOVERS_H
#define ADMIN_CONSOLE_HANDOVERS_H

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"

enum {
    HANDOVERS_PER_LINE = 16,
    HANDOVERS_PER_RING = 400,
    HANDOVER_PATH_MAX = 512,
    HANDOVER_NAME_MAX = 64,
    HANDOVER_WORDS_MAX = 200,
};

enum handover_ring {
    HANDOVER_LEADERS, /* of elections and pairs */
    HANDOVER_LOST,    /* of locks and semaphores: what was not given back */
    HANDOVER_ORDERLY, /* the others */
    HANDOVER_RINGS,
};

/* Why a hold ended. */
enum handover_cause {
    HANDOVER_RELEASED, /* the holder deleted its node */
    HANDOVER_CLOSED,   /* the holder closed its session */
    HANDOVER_EXPIRED,
    HANDOVER_KILLED,  /* an operator ended the session */
    HANDOVER_DELETED, /* somebody else deleted the node */
    HANDOVER_CAUSES,
};

struct handover_line;

struct handover {
    struct list link; /* in its ring */
    struct list mine; /* in its line's list of this ring */
    struct handover_line *line;
    enum handover_ring ring;
    enum handover_cause cause;
    const char *kind;  /* layout_kind_name */
    int64_t zxid;      /* of the command that ended it */
    int64_t token;     /* czxid of the holder's node */
    int64_t session;   /* of the holder */
    int64_t joined_ms; /* the holder's node was created; wall clock, as all times here */
    int64_t from_ms;   /* it held from then on; 0: not known exactly */
    int64_t until_ms;
    char label[HANDOVER_NAME_MAX];  /* what the holder calls itself, or "" */
    char client[HANDOVER_NAME_MAX]; /* its address, or "" */
    char next
        [HANDOVER_NAME_MAX]; /* the label of the first in the line, or its session; "": nobody waited */
    char by[HANDOVER_NAME_MAX]; /* who deleted or killed */
    char words
        [HANDOVER_WORDS_MAX]; /* the verdict about the session, as far as it is known here, or "" */
};

/* One recipe; exists while it has records. */
struct handover_line {
    struct map_node node;
    struct list rings[HANDOVER_RINGS]; /* newest first */
    size_t count[HANDOVER_RINGS];
    int64_t last_ms;   /* end of the newest, also if its record is gone */
    int64_t last_zxid; /* of that */
    size_t path_len;
    char path[]; /* at most HANDOVER_PATH_MAX bytes */
};

struct handovers {
    struct hash_key key;
    struct map lines;
    struct list rings[HANDOVER_RINGS]; /* newest first */
    size_t count[HANDOVER_RINGS];
};

/* The key is random, because clients choose the paths. */
void handovers_init(struct handovers *h, const struct hash_key *key);
void handovers_finish(struct handovers *h); /* can be used again after handovers_init */

/* NULL: none. */
struct handover_line *handovers_line(const struct handovers *h, struct slice path);

/* A new record, the newest of its ring, with from_ms and everything behind it blank. Its line has the end of the hold
 * before it in last_ms and last_zxid until the caller sets them. NULL: out of memory, or the path is too long. */
struct handover *handovers_add(struct handovers *h, struct slice path, enum handover_ring ring);

/* Calls fn for the records of a line (NULL: of all), newest first in the order of their zxids, until it returns false. `rings`:
 * 1 << ring of those that count. */
void handovers_each(const struct handovers *h, const struct handover_line *line, unsigned rings,
                    bool (*fn)(void *ctx, const struct handover *r), void *ctx);

/* "released", "expired", ... */
const char *handover_cause_name(enum handover_cause cause);

#endif
