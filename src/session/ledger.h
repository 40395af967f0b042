/*
 * The records of ended sessions, and of sessions whose connection ended: one per session, bounded. There are three
 * rings: sessions that were lost, sessions that their clients closed or moved, and sessions that live but have no
 * connection here. So many orderly ends, and clients that come and go, do not push out the few that somebody will ask
 * about. The oldest record of a ring makes room for the next.
 */
#ifndef SESSION_LEDGER_H
#define SESSION_LEDGER_H

#include "base/list.h"
#include "base/map.h"
#include "session/cause.h"

enum ledger_ring { LEDGER_LOST, LEDGER_ORDERLY, LEDGER_UNLINKED, LEDGER_RINGS };

struct ledger_record {
    struct map_node node; /* in the ledger's index */
    struct list link;     /* in its ring */
    int64_t id;
    enum ledger_ring ring;
    int64_t at_ms;          /* last change, monotonic */
    int64_t wall_ms;        /* the same, wall clock */
    int64_t last_at_ms;     /* last sign of life here, monotonic */
    int64_t unlinked_at_ms; /* end of the connection, monotonic */
    struct session_facts facts;
};

struct session_ledger;

/* max: records per ring, at least 1. NULL: out of memory. */
struct session_ledger *session_ledger_create(size_t max);
void session_ledger_destroy(struct session_ledger *l); /* takes NULL */

/* NULL: there is none. */
struct ledger_record *session_ledger_find(const struct session_ledger *l, int64_t id);

/* The record of a session as the newest of a ring; blank if there was none. NULL: out of memory. */
struct ledger_record *session_ledger_put(struct session_ledger *l, int64_t id,
                                         enum ledger_ring ring);

void session_ledger_forget(struct session_ledger *l, int64_t id);

/* Calls fn for the records of a ring, newest first, until it returns false. */
void session_ledger_each(const struct session_ledger *l, enum ledger_ring ring,
                         bool (*fn)(void *ctx, const struct ledger_record *r), void *ctx);

size_t session_ledger_count(const struct session_ledger *l, enum ledger_ring ring);

#endif
