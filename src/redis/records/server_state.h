/*
 * The state of one server, as one manager sees it: results of probes in; up, suspect, down or another state out. Pure.
 *
 *            failure                 max_failures in a row and min_down_ms
 *   up ----------------> suspect ----------------------------------------> down
 *    ^ <-- success ---------'                                               |
 *    '----------------------------- min_successes in a row -----------------'
 *   loading, busy, noauth: it answers, but is neither up nor down; a success or failures end this. loading and busy
 *   count as failing after busy_down_ms.
 *
 * A cut connection counts as one failure: probe again at once. A refused one shows that no process listens there.
 */
#ifndef REDIS_RECORDS_SERVER_STATE_H
#define REDIS_RECORDS_SERVER_STATE_H

#include "redis/records/redis_info.h"

/* How a probe (PING or INFO) ended. X(name, text, answers: a process is there and answered) */
#define REDIS_PROBE_MAP(X)                                                                         \
    X(NONE, "none", false) /* not probed yet */                                                    \
    X(OK, "ok", true)                                                                              \
    X(LOADING, "loading", true) /* -LOADING */                                                     \
    X(BUSY, "busy", true)       /* -BUSY: a script runs */                                         \
    X(MASTERDOWN, "masterdown",                                                                    \
      true)                      /* -MASTERDOWN: a replica without link that does not serve */     \
    X(NOAUTH, "noauth", true)    /* -NOAUTH, -WRONGPASS, -NOPERM: our settings are wrong */        \
    X(ERROR, "error", true)      /* any other error, or no INFO of a Redis server */               \
    X(REFUSED, "refused", false) /* ECONNREFUSED */                                                \
    X(TIMEOUT, "timeout", false) /* not in time */                                                 \
    X(CUT, "cut", false)         /* FIN or RST on an open connection */                            \
    X(UNREACHABLE, "unreachable", false) /* no route, no such name, TLS refused */

enum redis_probe {
#define REDIS_PROBE_ENUM(name, text, answers) REDIS_PROBE_##name,
    REDIS_PROBE_MAP(REDIS_PROBE_ENUM)
#undef REDIS_PROBE_ENUM
};

enum redis_node_state {
    REDIS_NODE_UNKNOWN, /* not probed often enough to say */
    REDIS_NODE_UP,
    REDIS_NODE_SUSPECT,
    REDIS_NODE_DOWN,
    REDIS_NODE_LOADING,
    REDIS_NODE_BUSY,
    REDIS_NODE_NOAUTH,
};

#define REDIS_PEER_SIZE 46 /* an IP address as text, with NUL */

struct redis_node {
    enum redis_node_state state;
    int64_t state_ms;         /* when the state began */
    enum redis_probe probe;   /* how the last probe ended */
    int64_t probe_ms;         /* when that probe was SENT; -1 never */
    int64_t answered_ms;      /* when the last probe that was answered at all was sent; -1 never */
    int64_t refused_ms;       /* when the last probe that was refused was sent; -1 never */
    int64_t failing_ms;       /* when the first of the consecutive failures was seen; -1 none */
    int64_t busy_ms;          /* when loading or busy began; -1 it is neither */
    int failures;             /* consecutive */
    int successes;            /* consecutive */
    int64_t latency_us;       /* of the last good probe; -1 none */
    struct redis_facts facts; /* of the last INFO that could be read */
    int64_t facts_ms;         /* when that INFO was SENT; -1 never */
    char peer[REDIS_PEER_SIZE]; /* the IP that answered it; "" unknown */
};

void redis_node_init(struct redis_node *node);

/* A probe that was sent at sent_ms has ended now. facts: from INFO, or NULL (not OK, or only a PING). True if the state
 * changed. Ignores probes that were sent before the last one that counts. */
bool redis_node_probed(struct redis_node *node, const struct redis_config *config,
                       enum redis_probe probe, const struct redis_facts *facts, int64_t sent_ms,
                       int64_t now_ms);

/* When to probe next: at once after a cut, four times a period while suspect, else a period after the last one. */
int64_t redis_node_next_probe_ms(const struct redis_node *node, const struct redis_config *config);

/* Maps the beginning of an error reply ("LOADING Redis is ...", without '-') to a probe result. */
enum redis_probe redis_probe_of_error(const char *error);

bool redis_probe_answers(enum redis_probe probe);
const char *redis_probe_name(enum redis_probe probe);
const char *redis_node_state_name(enum redis_node_state state);
extern const char *const REDIS_NODE_STATES[]; /* the names, NULL-ended */

#endif
