/* The outcome of one command: the reply, the events for watches, and what happened to a session. */
#ifndef STATE_EFFECTS_H
#define STATE_EFFECTS_H

#include "wire/ops.h"

enum { STATE_SCRATCH_KEEP = 1 << 20 }; /* larger blocks are freed after a command */

struct state;

/* A change that watches may wait for. The path belongs to the effects, the ACL to the state; both are valid until the
 * next change. */
struct state_event {
    enum wire_event_type type;
    struct slice path;
    struct wire_vector
        acl;             /* of the node, also of a deleted one; empty: every client may read it */
    uint32_t acl_number; /* number of that list in the tree */
};

/* Whether a watcher with these ids may get the event: it needs READ on the node (CVE-2024-23944). */
bool state_event_visible(const struct state_event *event, struct wire_vector ids);

/* As state_event_visible, for an event of the last command; decided once for each ACL and caller. caller is a number
 * above 0 that identifies the caller. */
bool state_event_permitted(const struct state *s, const struct state_event *event, uint64_t caller,
                           struct wire_vector ids);

enum { STATE_GONE_DATA = 160 };

/* An ephemeral node that the command deleted. It has an event, too: its path and ACL are there. */
struct state_gone {
    size_t event; /* number of that event */
    int64_t session_id;
    int64_t czxid;
    int64_t ctime;
    struct slice data; /* the first STATE_GONE_DATA bytes; belongs to the effects */
};

/* A quota that a command exceeded, also if the command was refused for that. */
struct state_quota {
    bool exceeded;
    bool hard;      /* the command was refused; otherwise it was applied */
    bool bytes;     /* bytes of data, otherwise nodes */
    int64_t amount; /* amount after the command */
    int64_t limit;
    struct slice path; /* node whose branch is limited; belongs to the effects */
};

/* A write that was refused because its session does not hold the lock to which its path is bound. */
struct state_fenced {
    bool refused;
    bool delayed;        /* no client may write there for a while */
    struct slice prefix; /* the bound prefix; belongs to the effects */
};

enum state_session_change {
    STATE_SESSION_SAME,
    STATE_SESSION_CREATED,
    STATE_SESSION_CLOSED,
    STATE_SESSION_ATTACHED, /* its client is now at the server that sent the batch */
};

/* The answer to an earlier command that was deferred. */
struct state_resumed {
    bool is;        /* there is such an answer; the reply record is in the effects */
    int64_t origin; /* server that sent the command */
    int64_t session_id;
    int32_t cxid;
    int32_t err; /* as effects.err */
};

/* The outcome of one command. The caller owns it and reuses it. */
struct effects {
    int64_t zxid;     /* of this command */
    int32_t err;      /* reply header's err: 0 or a ZooKeeper code (multi: 0 unless malformed) */
    struct buf reply; /* encoded reply record; empty: none */
    struct state_event *events; /* in the order of delivery */
    size_t events_count;
    size_t events_cap;
    struct state_gone *gone; /* in the order of their events */
    size_t gone_count;
    size_t gone_cap;
    struct buf paths;         /* bytes of the events' paths, and of the data of `gone` */
    struct state_quota quota; /* the first quota that was exceeded */
    struct buf quota_path;    /* bytes of its path */
    struct state_fenced fenced;
    struct buf fence_prefix; /* bytes of its prefix */
    enum state_session_change session_change;
    int64_t session_id;           /* session created, closed or attached */
    bool repeated;                /* answered from memory: nothing was applied */
    bool deferred;                /* a reconfig that has begun: there is no answer yet */
    struct state_resumed resumed; /* its outcome, from a later command or configuration */
};

void effects_init(struct effects *e);
void effects_finish(struct effects *e);

/* Frees memory that a large command needed; reply and events are invalid then. */
void effects_trim(struct effects *e);

#endif
