/*
 * One call of redis_steps_next: the situation, the memory, the action that is being made. Pure; for the files plan_*.c and
 * planner.c only, each of which makes at most one action.
 *
 * "Recent" facts are at most two periods old, and the last probe gave them.
 */
#ifndef REDIS_PLANNER_PLANNER_CONTEXT_H
#define REDIS_PLANNER_PLANNER_CONTEXT_H

#include "redis/planner/planner.h"

#define PAUSE_VERSION 60200 /* CLIENT PAUSE ... WRITE, FAILOVER */

struct planner {
    const struct redis_situation *now;
    const struct redis_config *config;
    struct redis_memory *memory;
    struct redis_action *out;
    int master; /* place of current's master, or REDIS_NONE */
};

/* The purpose of an action: struct redis_action.step. X(name, text) */
#define REDIS_DOING_MAP(X)                                                                         \
    X(WAIT, "wait")                                                                                \
    X(REFRESH, "refresh")                                                                          \
    X(START, "start")               /* the first `current` */                                      \
    X(PLAN, "plan")                 /* the plan is written */                                      \
    X(FAILING_OVER, "failing-over") /* current.state of a plan */                                  \
    X(PAUSE, "pause")               /* CLIENT PAUSE WRITE of the old master */                     \
    X(FENCE, "fence")               /* the methods */                                              \
    X(DETACH, "detach")     /* a replica cuts its link to an old master that cannot be reached */  \
    X(FENCED, "fenced")     /* the plan notes what shows that it has stopped */                    \
    X(CHOOSE, "choose")     /* the target goes into the plan */                                    \
    X(UNDO, "undo")         /* the target failed: the plan has none again */                       \
    X(RETURNED, "returned") /* the history of a restarted old master goes into the plan */         \
    X(DEMOTE, "demote")     /* REPLICAOF of the old master, before the promotion */                \
    X(PROMOTE, "promote")   /* REPLICAOF NO ONE */                                                 \
    X(HANDOVER, "handover") /* FAILOVER TO */                                                      \
    X(ABORT, "abort")       /* FAILOVER ABORT, CLIENT UNPAUSE, a plan that is given up */          \
    X(GUARD, "guard")       /* min-replicas settings */                                            \
    X(PUBLISH, "publish")   /* current names the new master */                                     \
    X(REPOINT, "repoint")   /* REPLICAOF of the others */                                          \
    X(SAVE, "save")         /* CONFIG REWRITE of the two that changed places */                    \
    X(FINISH, "finish")     /* the plan is deleted */                                              \
    X(ANSWER, "answer")     /* a request is answered */                                            \
    X(DEMOTE_RETURNED, "demote-returned") /* a second master becomes a replica */                  \
    X(RECONCILE, "reconcile")             /* a replica of another server is re-pointed */          \
    X(UPDATE, "update")                   /* current's lists and state */

enum redis_doing {
#define REDIS_DOING_ENUM(name, text) REDIS_DOING_##name,
    REDIS_DOING_MAP(REDIS_DOING_ENUM)
#undef REDIS_DOING_ENUM
};

const char *planner_doing_name(enum redis_doing doing);

/* These make the actions; all return true. why: a printf format. */
bool planner_wait(struct planner *t, int64_t ms, const char *why, ...)
    __attribute__((format(printf, 3, 4)));
bool planner_refresh(struct planner *t, uint32_t nodes, const char *why);
bool planner_fence(struct planner *t, int node, const char *why);
/* Then planner_add for each command, words up to NULL. */
bool planner_command(struct planner *t, enum redis_doing doing, int node, const char *why, ...)
    __attribute__((format(printf, 4, 5)));
void planner_add(struct planner *t, bool optional, const char *word, ...) __attribute__((sentinel));
/* A copy of current (empty if there is none) to be changed; its reason is why. */
struct redis_current *planner_current(struct planner *t, enum redis_doing doing, const char *event,
                                      const char *why, ...) __attribute__((format(printf, 4, 5)));
/* A copy of the plan (empty if there is none) to be changed. */
struct redis_plan *planner_plan(struct planner *t, enum redis_doing doing, const char *event,
                                const char *why, ...) __attribute__((format(printf, 4, 5)));
bool planner_delete_plan(struct planner *t, enum redis_doing doing, const char *event,
                         const char *why, ...) __attribute__((format(printf, 4, 5)));
bool planner_answer(struct planner *t, const char *request, bool ok, const char *why, ...)
    __attribute__((format(printf, 4, 5)));

/* Copies a text that may be NULL or longer than size. */
void planner_copy(char *ret, size_t size, const char *text);

const struct redis_facts *planner_facts(const struct planner *t, int node);
bool planner_recent(const struct planner *t, int node);
/* Its facts are recent, and it has this role. */
bool planner_is(const struct planner *t, int node, enum redis_role role);
/* Both entries of the list lead to the same process. */
bool planner_same_process(const struct planner *t, int a, int b);
/* Its master, by address or, if names differ, by the common history; or REDIS_NONE. */
int planner_master_of(const struct planner *t, int node);
/* It is a replica of that node, linked, and past its synchronization. */
bool planner_follows(const struct planner *t, int node, int master);
/* Its data are of the history in current. */
bool planner_of_current(const struct planner *t, int node);
const char *planner_address(const struct planner *t, int node);
/* A probe that was sent at or after ms has ended, with any result. */
bool planner_probed_since(const struct planner *t, int node, int64_t ms);
/* Nodes not probed since ms. */
uint32_t planner_unprobed(const struct planner *t, int64_t ms);

/* The master answers as a master, and is the process that current names. */
bool planner_master_is_current(const struct planner *t);
/* Its data are of the history of the plan's old master. */
bool planner_of_plan(const struct planner *t, int node);

/* Fills in what current says of the process at this node: run id and history. */
void planner_note_process(const struct planner *t, int node, struct redis_current *record);
/* Makes this node current's master, from now on and without a lease. */
void planner_note_master(const struct planner *t, int node, struct redis_current *record);
/* Fills in the lists for a new master: all other servers are unavailable until they follow it. */
void planner_note_nobody_follows(const struct planner *t, int master, struct redis_current *record);

/* Makes the server a replica of master, or with REDIS_NONE a master. */
void planner_add_replicaof(struct planner *t, int master);
/* Makes a master a replica, also after a restart, and cuts its clients off. */
void planner_add_demotion(struct planner *t, int master);

#endif
