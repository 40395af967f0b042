/*
 * Decides what the leading manager of a Redis cluster does next: a situation in, one action out. Pure.
 *
 * Each call derives everything from records and facts, so a successor goes on where the last leader stopped. A manager
 * also remembers when it first saw something and what it sent (struct redis_memory). This can be lost at any moment: then
 * the manager waits, or sends something harmless again.
 *
 *            no `current`: start-up ----- exactly one master with its replicas ----> published
 *
 *   settled --- master down / restarted without its data / request ---> PLAN written, current.state=failing_over
 *      ^                                                                          |
 *      |      .--------------- no_candidate, cannot be fenced: retried -----------+
 *      |      v                                                                   v
 *      |    FENCE: the old one itself while it answers (CLIENT PAUSE WRITE now, REPLICAOF once the target is known);
 *      |      |    a refused connection; the methods; else the lease wait
 *      |      v
 *      |    CHOOSE: INFO of all anew, wait for what was received to be applied, redis_choice ---> target in the plan
 *      |      v                                                        ^
 *      |    PROMOTE: REPLICAOF NO ONE, CONFIG REWRITE, wait for role:master --- not in time: tried, next candidate
 *      |      |      min-replicas settings; PUBLISH: compare-and-set of `current`
 *      |      v
 *      '-- REPOINT: the others, parallel_syncs at a time; PLAN deleted
 *
 *   HANDOVER (request, old master well, 6.2 and later): FAILOVER TO ... TIMEOUT instead of FENCE to PROMOTE.
 *
 * How to drive it: gather a situation, call redis_steps_next, carry out the action (one at a time), call
 * redis_steps_done, read again what the action changed (a record and its version; after COMMAND an INFO of that node),
 * and begin again; after WAIT at its time or on any news. The driver repeats nothing by itself.
 */
#ifndef REDIS_PLANNER_PLANNER_H
#define REDIS_PLANNER_PLANNER_H

#include "redis/planner/candidate_choice.h"

/* The result of the fencing methods for a node. */
struct redis_fence {
    enum { REDIS_FENCE_NONE, REDIS_FENCE_CONFIRMED, REDIS_FENCE_FAILED } state;
    int node;      /* the node */
    int64_t at_ms; /* when it ended */
};

/* The result of the last action. */
struct redis_outcome {
    bool ok;    /* all was done; COMMAND: no reply was an error, except to optional ones */
    int failed; /* COMMAND: place of the first command that failed, else -1 */
    char text[REDIS_TEXT_SIZE]; /* error, or the last reply as text */
};

struct redis_situation {
    const struct redis_config *config;
    int64_t now_ms; /* monotonic, as all times here but wall_ms */
    int64_t wall_ms;
    int64_t token;                       /* of the own term */
    const struct redis_current *current; /* NULL: no such znode */
    int32_t current_version;
    const struct redis_plan *plan; /* NULL: no such znode */
    int32_t plan_version;
    const struct redis_request *request;  /* the oldest that waits; NULL */
    const struct redis_node *nodes;       /* config->node_count: own view, with facts */
    const struct redis_verdict *verdicts; /* config->node_count, from redis_verdicts */
    bool decidable;                       /* its result */
    int64_t known_offset;     /* furthest offset of the current master's history that any manager
                                              reported of the master; -1 unknown (redis_known_offset) */
    struct redis_fence fence; /* last result of methods in this term */
};

enum redis_action_kind {
    REDIS_ACTION_WAIT,    /* until until_ms, or news */
    REDIS_ACTION_REFRESH, /* INFO of these nodes now, all at once, each within op_timeout_ms */
    REDIS_ACTION_COMMAND, /* commands to one node, in order, on one connection, stopping at the first error that
                                   is not optional; then its INFO */
    REDIS_ACTION_FENCE,         /* run the methods against a node; result in situation.fence */
    REDIS_ACTION_WRITE_CURRENT, /* create (version -1) or set with this version, fenced by the own term */
    REDIS_ACTION_WRITE_PLAN,  /* the same */
    REDIS_ACTION_DELETE_PLAN, /* with this version, fenced */
    REDIS_ACTION_ANSWER, /* create results/<name>, delete requests/<name>: one fenced transaction */
};

/* The manager's memory of its term; private to the planner. Its loss costs only time. */
struct redis_memory {
    char plan_id[REDIS_NAME_SIZE];        /* the plan that the next ones are about */
    char plan_target[REDIS_ADDRESS_SIZE]; /* and its target */
    char demoted[REDIS_ID_SIZE];  /* run id of the old master that was demoted just now; "" */
    char returned[REDIS_ID_SIZE]; /* the history that this process had then; "" */
    int64_t plan_ms;              /* plan first seen; -1 */
    int64_t paused_ms;            /* CLIENT PAUSE was acknowledged; -1 */
    int64_t unpaused_ms;          /* CLIENT UNPAUSE was sent; -1 */
    int64_t choose_ms;            /* candidates are read again since; -1 */
    int64_t promote_ms;           /* the target could be promoted since; -1 */
    int64_t handover_ms;          /* FAILOVER was sent; -1 */
    bool handover_refused;        /* and refused, see last_error */
    int64_t repoint_ms;           /* re-pointing since; -1 */
    uint32_t saved;               /* bit i: CONFIG REWRITE was sent after the hand-over */
    int64_t lease_from_ms;        /* the old master has had too few replicas since; -1 */
    int64_t term_ms;              /* first call; -1 */
    int64_t failed_ms;            /* the last action failed; -1 */
    int64_t unanswered_ms;        /* the last ANSWER failed; -1 */
    int64_t epoch_seen;           /* newest epoch seen, and */
    int64_t epoch_ms;             /* when: for the cooldown if the wall clock jumps back */
    int64_t attempt_ms[REDIS_NODES_MAX]; /* last REPLICAOF to this node; -1 */
    int64_t drift_ms[REDIS_NODES_MAX];   /* its facts_ms when it was first seen astray; -1 */
    int64_t settled_ms[REDIS_NODES_MAX]; /* facts_ms of settled_offset; -1 */
    int64_t settled_offset[REDIS_NODES_MAX];
    uint32_t settled;                 /* bit i: two readings in a row gave the same offset */
    char guarded[REDIS_ID_SIZE];      /* run id whose min-replicas settings were sent */
    bool guard_holds;                 /* and acknowledged */
    int64_t guard_ms;                 /* when; -1 */
    char last_error[REDIS_TEXT_SIZE]; /* of the last action that failed */
};

#define REDIS_ARGS_MAX 8
#define REDIS_COMMANDS_MAX 5

struct redis_command {
    int argc;
    char argv[REDIS_ARGS_MAX][REDIS_HOST_SIZE];
    bool optional; /* an error is a warning (CONFIG REWRITE without a file, CLIENT KILL of none) */
};

struct redis_action {
    enum redis_action_kind kind;
    const char *step; /* static name, for the log and the tests; the list is in planner_context.c */
    char why[REDIS_TEXT_SIZE]; /* the reason */
    /* static name of the event that is reported after success, with why as its text; or NULL */
    const char *event;
    int64_t event_bytes;        /* bytes that belong to the event (divergence, loss); -1 none */
    int node;                   /* COMMAND, FENCE; else REDIS_NONE */
    char run_id[REDIS_ID_SIZE]; /* COMMAND: of the process it is meant for */
    enum redis_role role;       /* COMMAND: that this process had */
    union {
        int64_t until_ms; /* WAIT */
        uint32_t refresh; /* REFRESH: bit i for node i */
        struct {
            size_t count;
            struct redis_command list[REDIS_COMMANDS_MAX];
        } commands; /* COMMAND */
        struct {
            int32_t version; /* -1: create */
            struct redis_current record;
        } current; /* WRITE_CURRENT */
        struct {
            int32_t version;
            struct redis_plan record;
        } plan;               /* WRITE_PLAN */
        int32_t plan_version; /* DELETE_PLAN */
        struct {
            char name[REDIS_NAME_SIZE];
            struct redis_result result;
        } answer; /* ANSWER */
    } u;
};

/* At the beginning of every term. */
void redis_memory_init(struct redis_memory *memory);

/* Makes the next action. Never fails; WAIT if there is nothing to do. The same situation and memory give the same
 * action. */
void redis_steps_next(const struct redis_situation *now, struct redis_memory *memory,
                      struct redis_action *ret);

/* The action was carried out or failed. */
void redis_steps_done(struct redis_memory *memory, const struct redis_action *action,
                      const struct redis_outcome *outcome, int64_t now_ms);

/* The furthest offset of the current master, in the own view and in all reports, fresh or not, that are of current's
 * history; -1 unknown. */
int64_t redis_known_offset(const struct redis_managers *managers, const struct redis_config *config,
                           const struct redis_node *own, const struct redis_current *current);

/* Every name that action.step can have, NULL-ended: for tests that stop at each. */
const char *const *redis_step_names(void);

#endif
