/*
 * The znodes of a Redis cluster as structs, and their tables for record_write and record_read. Pure.
 *
 * Times "_ms" in records are wall clock (since 1970) unless said otherwise.
 */
#ifndef REDIS_RECORDS_RECORDS_H
#define REDIS_RECORDS_RECORDS_H

#include "redis/records/record_table.h"
#include "redis/records/server_state.h"

/* X(name, text) */
#define REDIS_STATE_MAP(X)                                                                         \
    X(OK, "ok")                     /* a master and all replicas */                                \
    X(FAILING_OVER, "failing_over") /* a plan is under way: clients keep reading, hold writes */   \
    X(NO_CANDIDATE,                                                                                \
      "no_candidate")       /* the master is gone and no server may replace it: tried again */     \
    X(DEGRADED, "degraded") /* a master; replicas are missing, or too few managers report */       \
    X(NEEDS_OPERATOR, "needs_operator") /* an operator must act; reason says why */                \
    X(PAUSED, "paused")                 /* no automatic action until `resume` */

enum redis_state {
#define REDIS_STATE_ENUM(name, text) REDIS_STATE_##name,
    REDIS_STATE_MAP(REDIS_STATE_ENUM)
#undef REDIS_STATE_ENUM
};

/* `current`: the master. Never deleted; written by compare-and-set only. */
struct redis_current {
    int64_t epoch; /* grows by one with every change of master; one epoch, one master */
    int64_t token; /* of the manager's term that wrote it (czxid) */
    enum redis_state state;
    char master[REDIS_ADDRESS_SIZE]; /* "" only before the first one was found */
    /* of the master's process; another one means that it was restarted */
    char run_id[REDIS_ID_SIZE];
    char replid[REDIS_ID_SIZE];  /* the history that counts */
    char replid2[REDIS_ID_SIZE]; /* the one that it continued ... */
    int64_t second_offset;       /* ... up to here; -1 */
    char replicas[REDIS_NODES_MAX][REDIS_ADDRESS_SIZE];
    size_t replica_count;
    char unavailable[REDIS_NODES_MAX][REDIS_ADDRESS_SIZE];
    size_t unavailable_count;
    int64_t since_ms;    /* when this master was published */
    int64_t failover_ms; /* when the last automatic fail-over was published; 0 none (cooldown) */
    int64_t lease_ms;    /* the master stops itself so long after it lost its replicas (min-replicas
                                          settings were acknowledged by it); 0: it does not */
    int lease_replicas;  /* with fewer replicas than this; 0 */
    bool paused;         /* no automatic action */
    char reason[REDIS_TEXT_SIZE]; /* of the state */
};

/* X(name, text): progress of a plan, for display. The planner decides by facts and target. */
#define REDIS_STEP_MAP(X)                                                                          \
    X(FENCE, "fence")                                                                              \
    X(CHOOSE, "choose")                                                                            \
    X(PROMOTE, "promote")                                                                          \
    X(REPOINT, "repoint")                                                                          \
    X(HANDOVER, "handover")

enum redis_step {
#define REDIS_STEP_ENUM(name, text) REDIS_STEP_##name,
    REDIS_STEP_MAP(REDIS_STEP_ENUM)
#undef REDIS_STEP_ENUM
};

/* `plan`: a fail-over that is under way; a successor continues it. */
struct redis_plan {
    char id[REDIS_NAME_SIZE]; /* names it in events: "<epoch>-<started_ms in hex>" */
    int64_t epoch;            /* that it will publish */
    enum redis_step step;
    char reason[REDIS_NAME_SIZE]; /* "down", "restarted", "role", "manual" */
    char old[REDIS_ADDRESS_SIZE]; /* the master that is replaced */
    char old_run_id[REDIS_ID_SIZE];
    char old_replid[REDIS_ID_SIZE]; /* its history, from its last facts */
    char old_replid2[REDIS_ID_SIZE];
    int64_t old_second_offset;
    /* history that it began when it was restarted during the plan; "" */
    char returned_replid[REDIS_ID_SIZE];
    int64_t old_offset;                              /* its last known offset; -1 unknown */
    char target[REDIS_ADDRESS_SIZE];                 /* the next master; "" not chosen yet */
    char wanted[REDIS_ADDRESS_SIZE];                 /* the server that the request names; "" any */
    char tried[REDIS_NODES_MAX][REDIS_ADDRESS_SIZE]; /* were chosen and failed */
    size_t tried_count;
    char fenced[32]; /* the proof that it has stopped: "", "refused", "method", "lease", "forced" */
    char request[REDIS_NAME_SIZE]; /* name of the request it answers; "" */
    bool force;                    /* the operator accepts a loss: unfenced, unreachable, behind */
    int64_t started_ms;
};

enum redis_request_kind {
    REDIS_REQUEST_FAILOVER,
    REDIS_REQUEST_PAUSE,
    REDIS_REQUEST_RESUME,
    REDIS_REQUEST_FORGET, /* a server is gone: it is not listed as unavailable until it answers again */
};

/* `requests/req-<seq>` */
struct redis_request {
    char name[REDIS_NAME_SIZE]; /* of its znode; not in the JSON */
    enum redis_request_kind kind;
    char target[REDIS_ADDRESS_SIZE]; /* "" any */
    bool force;
    int64_t timeout_ms;       /* of the hand-over; 0: the configured one */
    char id[REDIS_NAME_SIZE]; /* chosen by the client */
    char by[REDIS_NAME_SIZE]; /* the author of the request */
    int64_t expires_ms;       /* not carried out after this; 0 never expires */
};

/* `results/<request's name>` */
struct redis_result {
    bool ok;
    char text[REDIS_TEXT_SIZE];      /* the action taken, or why none */
    char master[REDIS_ADDRESS_SIZE]; /* the master now */
    int64_t epoch;
    int64_t lost_bytes; /* of the old master's history that the new one does not have; -1 unknown */
};

/* `managers/<id>` */
struct redis_report_node {
    char address[REDIS_ADDRESS_SIZE];
    enum redis_node_state state;
    enum redis_role role;
    char run_id[REDIS_ID_SIZE];
    char replid[REDIS_ID_SIZE];
    char replid2[REDIS_ID_SIZE];
    char master[REDIS_ADDRESS_SIZE];
    int64_t second_offset, offset; /* -1 unknown */
    int64_t age_ms;                /* age of these facts in the report; -1: there are none */
    int64_t link_down_ms;          /* -1 */
    int64_t latency_us;            /* -1 */
    int priority, failures;
    bool link_up;
};

struct redis_report {
    char id[REDIS_NAME_SIZE];
    char incarnation[REDIS_NAME_SIZE]; /* of the manager's process */
    uint64_t seq;                      /* grows with every report */
    int managers; /* as configured; a difference between managers is reported */
    int64_t period_ms;
    /* if it leads, this report, once confirmed, lets it act for so long after it was made (redis/planner/lead_proof.h); 0:
     * it acts as long as its session lasts */
    int64_t lead_ms;
    int64_t mzxid;                     /* of its znode; not in the JSON */
    char sentinel[REDIS_ADDRESS_SIZE]; /* where it serves Sentinel's protocol; "" nowhere */
    size_t node_count;
    struct redis_report_node nodes[REDIS_NODES_MAX];
};

/* An event, for operators: a line on the manager's output and, if the leading manager did it, a node below
 * ROOT/events, of which the last REDIS_EVENTS_KEPT are kept. It contains no secret. */
struct redis_event {
    char name[64];                  /* "published", "node-down", ... */
    char text[2 * REDIS_TEXT_SIZE]; /* what, to whom, why, what next: one line */
    char node[REDIS_ADDRESS_SIZE];  /* the server that it is about; "" */
    char manager[REDIS_NAME_SIZE];  /* id of the manager that reports it */
    int64_t epoch;                  /* of current; 0 there is none */
    int64_t bytes;                  /* of divergence or loss; -1 none */
    int64_t at_ms;
};

enum { REDIS_EVENTS_KEPT = 100 };

extern const struct record_table REDIS_CURRENT; /* struct redis_current */
extern const struct record_table REDIS_PLAN;    /* struct redis_plan */
extern const struct record_table REDIS_REQUEST; /* struct redis_request, without its name */
extern const struct record_table REDIS_RESULT;  /* struct redis_result */
extern const struct record_table REDIS_REPORT;  /* struct redis_report */
extern const struct record_table REDIS_EVENT;   /* struct redis_event */
extern const struct record_table REDIS_CONFIG;  /* struct redis_config: ROOT/config, only written */

/* A request with the name of its znode. 0 or CONCLAVE_ECORRUPT. */
int redis_request_read(const void *json, size_t len, const char *name, struct redis_request *ret);

/* The gem's `nodes`: {"master":"h:p"|null,"slaves":[...],"unavailable":[...]}, written from the result of
 * redis_gem_nodes_of, which has no master while none serves. */
extern const struct record_table REDIS_GEM_NODES;
struct redis_current redis_gem_nodes_of(const struct redis_current *current);
/* The gem's `manual_failover`: "host:port", or "ANY_SLAVE" for any. False if it is empty, *ret is untouched: the gem
 * creates the node first and names the server by a second write. */
bool redis_gem_request_read(const void *data, size_t len, struct redis_request *ret);

/* Fills in a report of these nodes, config->node_count of them. The rest is the caller's: who reports, seq, lead_ms. */
void redis_report_make(struct redis_report *ret, const struct redis_config *config,
                       const struct redis_node *nodes, int64_t now_ms);

const char *redis_state_name(enum redis_state state);
const char *redis_step_name(enum redis_step step);
const char *redis_request_kind_name(enum redis_request_kind kind);

#endif
