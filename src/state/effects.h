/* What one command did: the reply, the events that watches wait for, what became of a session. */
#ifndef STATE_EFFECTS_H
#define STATE_EFFECTS_H

#include "wire/ops.h"

enum { STATE_SCRATCH_KEEP = 1 << 20 }; /* larger blocks are given back when a command is done */

struct state;

/* A change that watches may wait for. The path lives in the effects, the ACL in the state; both die when it changes the
 * next time. */
struct state_event {
    enum wire_event_type type;
    struct slice path;
    struct wire_vector acl; /* of the node, before it went; empty: everybody may read it */
    uint32_t acl_number;    /* which list of the tree that was */
};

/* Whether a watcher with these ids may be told: it must have READ on the node (CVE-2024-23944). */
bool state_event_visible(const struct state_event *event, struct wire_vector ids);

/* As state_event_visible, for an event of the last command: decided once for each ACL and caller, whom a number above 0
 * names. */
bool state_event_permitted(const struct state *s, const struct state_event *event, uint64_t caller,
                           struct wire_vector ids);

/* A quota that a command met: told also when the command was refused over it. */
struct state_quota {
    bool exceeded;
    bool hard;      /* the command was refused; otherwise it was carried out */
    bool bytes;     /* bytes of data, otherwise nodes */
    int64_t amount; /* there would be with the command */
    int64_t limit;
    struct slice path; /* of the node whose subtree is limited; lives in the effects */
};

/* A write that was refused because its session does not hold the lock that its path is bound to. */
struct state_fenced {
    bool refused;
    bool delayed;        /* nobody may write there for a while */
    struct slice prefix; /* that is bound; lives in the effects */
};

enum state_session_change {
    STATE_SESSION_SAME,
    STATE_SESSION_CREATED,
    STATE_SESSION_CLOSED,
    STATE_SESSION_ATTACHED, /* its client goes on at the server that the batch came from */
};

/* The answer to an earlier command that was deferred. */
struct state_resumed {
    bool is;        /* there is one; the reply record is the effects' */
    int64_t origin; /* server that the command came from */
    int64_t session_id;
    int32_t cxid;
    int32_t err; /* as effects.err */
};

/* What one command did. Owned by the caller, reused from command to command. */
struct effects {
    int64_t zxid;     /* of this command */
    int32_t err;      /* reply header's err: 0 or a ZooKeeper code (multi: 0 unless malformed) */
    struct buf reply; /* encoded reply record; empty when there is none */
    struct state_event *events; /* in the order in which they must be delivered */
    size_t events_count;
    size_t events_cap;
    struct buf paths;         /* bytes of the events' paths */
    struct state_quota quota; /* the first that was exceeded */
    struct buf quota_path;    /* bytes of its path */
    struct state_fenced fenced;
    struct buf fence_prefix; /* bytes of its prefix */
    enum state_session_change session_change;
    int64_t session_id;           /* session created, closed or attached */
    bool repeated;                /* answered from memory: nothing was carried out */
    bool deferred;                /* a reconfig that was taken on: nothing is answered yet */
    struct state_resumed resumed; /* what became of it, with a later command or configuration */
};

void effects_init(struct effects *e);
void effects_finish(struct effects *e);

/* Gives back what a large command needed; reply and events are gone then. */
void effects_trim(struct effects *e);

#endif
