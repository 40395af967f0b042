/*
 * The znodes of a Redis cluster, read and written through the library, in the loop that its client runs in.
 *
 *   ROOT/current, plan     mirrored as they change
 *   ROOT/requests/req-…    mirrored, oldest first
 *   ROOT/managers/<id>     this manager's report, and those of the others (a group, conclave/group.h)
 *   ROOT/results, events, config
 *
 * A record never goes back to an older state: what this store wrote or read by refresh counts until the mirror has
 * caught up. All writes but the report and the end of another's lead are transactions that check the node by which this manager leads: if another
 * manager has taken over, they do nothing, even if this one does not know it yet. While a record is corrupt, nothing may
 * be decided.
 */
#ifndef REDIS_MANAGER_CLUSTER_ZNODES_H
#define REDIS_MANAGER_CLUSTER_ZNODES_H

#include "redis/planner/down_vote.h"

#include <conclave/election.h>
#include <conclave/group.h>

enum { REDIS_ROOT_MAX = 512, REDIS_PATH_MAX = 768, REDIS_PARTS_MAX = 4 };

/* ROOT/<below>, or ROOT itself for "". Returns buf. */
const char *redis_path(const char *root, const char *below, char buf[REDIS_PATH_MAX]);

struct redis_store;

struct redis_store_callbacks {
    void (*on_change)(void *ctx); /* current, plan or requests changed */
    void (*on_report)(void *ctx, const struct redis_report *report); /* of another manager */
    /* from this manager's node, read back from the ensemble */
    void (*on_own_report)(void *ctx, const struct redis_report *report);
    void (*on_gone)(void *ctx, const char *id);
    void (*on_membership)(void *ctx, enum conclave_membership membership);
    void (*on_closed)(void *ctx); /* called last; the store is freed */
    void *ctx;
};

struct redis_store_settings {
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    const char *root;     /* no "/" at its end */
    const char *id;       /* of this manager; NULL: an observer, which writes nothing */
    const char *gem_root; /* where the Ruby gem's manual_failover is read; NULL: nowhere */
};

/* 0, CONCLAVE_ENOMEM, CONCLAVE_EINVAL (the path or the id). On failure close *ret if it was set. */
int redis_store_open(const struct redis_store_settings *settings,
                     const struct redis_store_callbacks *callbacks,
                     struct redis_store **ret) CONCLAVE_MUST_USE;

/* Leaves the group and stops all mirrors; then on_closed. */
void redis_store_close(struct redis_store *store);

/* --- the view -------------------------------------------------------------- */

/* The store's content. The pointers are good until it changes. */
struct redis_znodes {
    bool known;                          /* both records were read or found missing */
    const char *corrupt;                 /* "current" or "plan" if it cannot be read, or NULL */
    const struct redis_current *current; /* NULL: no such znode */
    int32_t current_version;
    const struct redis_plan *plan; /* NULL: no such znode */
    int32_t plan_version;
    const struct redis_request *request;     /* the oldest; NULL: none */
    const char *bad_request;                 /* the name of one that cannot be read; NULL: none */
    const struct redis_request *gem_request; /* the request of the gem's clients; NULL: none */
    int32_t gem_version;                     /* of its node, for its deletion */
};

struct redis_znodes redis_store_znodes(const struct redis_store *store);

/* The gem's node was removed by the write of this zxid. */
void redis_store_gem_taken(struct redis_store *store, int64_t zxid);

/* --- writing -------------------------------------------------------------------- */

/* Creates the folders (an observer does not), then reads both records after a sync. done: 0 or the error. */
void redis_store_refresh(struct redis_store *store, void (*done)(void *ctx, int error), void *ctx);

/* Writes the report of this manager; the last one counts. 0 or CONCLAVE_ENOMEM. */
int redis_store_report(struct redis_store *store,
                       const struct redis_report *report) CONCLAVE_MUST_USE;

/* The election by which this manager leads: all writes below check its node. Before this is set they return
 * CONCLAVE_EFENCED. */
void redis_store_set_election(struct redis_store *store, struct conclave_election *election);

/* The result of a write, which is carried out only if the election's node still leads. error: 0, CONCLAVE_EFENCED
 * (nothing was done), or the answer's (after CONCLAVE_CONNECTION_LOSS the outcome is unknown). reply: without the
 * check's result. Called once, also while the store is closing. */
typedef void (*redis_store_fn)(void *ctx, int error, const struct conclave_reply *reply);

/* At most REDIS_PARTS_MAX parts. fn is not called before this returns. 0; CONCLAVE_EFENCED (does not lead),
 * CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, ...: fn is not called. */
int redis_store_multi(struct redis_store *store, const struct conclave_op *parts, size_t count,
                      redis_store_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Creates (version -1) or sets with this version the record of a table, REDIS_CURRENT or REDIS_PLAN. record NULL
 * deletes the plan. */
int redis_store_write(struct redis_store *store, const struct record_table *table,
                      const void *record, int32_t version, redis_store_fn fn,
                      void *ctx) CONCLAVE_MUST_USE;

/* Creates results/<name> and deletes requests/<name>. If the result is refused (it exists, no permission, a quota), the
 * next call for the same name sets it, or only deletes the request. */
int redis_store_answer(struct redis_store *store, const char *name,
                       const struct redis_result *result, redis_store_fn fn,
                       void *ctx) CONCLAVE_MUST_USE;

/* Removes the election's node by which the manager of this report leads, if it has not written a newer report. 0:
 * done is called once, also while the store is closing, with 0 or why nothing was done. CONCLAVE_ENOMEM,
 * CONCLAVE_ECLOSED, ...: done is not called. */
typedef void (*redis_lead_fn)(void *ctx, int error, const char *id);
int redis_store_end_lead(struct redis_store *store, const struct redis_report *report,
                         const char *node, redis_lead_fn done, void *ctx) CONCLAVE_MUST_USE;

/* Looks for the node of the election that this manager has, in a state of the ensemble that is not older than anything
 * this store has read. 0: done is called once, also while the store is closing, with 0 (it is there) or why that is not
 * known. CONCLAVE_NO_NODE: this manager has none. That, CONCLAVE_ENOMEM, ...: done is not called. */
int redis_store_find_lead(struct redis_store *store, void (*done)(void *ctx, int error),
                          void *ctx) CONCLAVE_MUST_USE;

/* The client, for requests that need no fence. */
struct conclave_client *redis_store_client(const struct redis_store *store);
const char *redis_store_root(const struct redis_store *store);

#endif
