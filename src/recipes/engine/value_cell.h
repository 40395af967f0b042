/*
 * One node's data, read and changed by operations that wait their turn. The counter, the shared
 * value and the writer of a configuration use it.
 *
 * An operation reads (showing all that was acknowledged before), asks its `compute` what to write,
 * writes by compare-and-set, and starts again when another writer was faster. It remembers the
 * last data read or written, so a single writer does not read each time.
 *
 * Lock of the client held unless said otherwise.
 */
#ifndef RECIPES_ENGINE_VALUE_CELL_H
#define RECIPES_ENGINE_VALUE_CELL_H

#include "recipes/engine/compare_and_set.h"
#include "recipes/engine/handle_calls.h"
#include "recipes/engine/tree_mirror.h"

/* The data of a node. */
struct cell_value {
    bool there;
    const void *data;
    size_t data_len;
    int32_t version;
    int64_t mzxid;
};

enum cell_verdict {
    CELL_DONE,  /* op.error says how; nothing to write */
    CELL_WRITE, /* op.data, by the version that was read (or op.expected) */
};

struct cell;

struct cell_op {
    struct list link;
    /* Looks at what is there. May be called several times. NULL: writes op.data if the version is
     * op.expected, without reading. */
    enum cell_verdict (*compute)(struct cell *cell, struct cell_op *op,
                                 const struct cell_value *now);
    /* Tells the user, in the dispatcher, without the lock; NULL: somebody waits for `ended`. */
    void (*tell)(struct cell *cell, struct cell_op *op);
    bool needs_read; /* the remembered data are not enough */
    bool ended;
    bool abandoned; /* the waiter has gone */
    int error;
    int64_t a; /* the operation's own */
    int64_t b;
    int64_t value;
    int32_t expected;
    char *data; /* to be written, owned */
    size_t data_len;
    struct cell_value result; /* as read or written, data owned by `held` */
    char *held;
    void (*fn)(void); /* the user's, cast back by `tell` */
    void *ctx;
};

struct cell {
    struct host host; /* first */
    char *path;
    struct conclave_acl *acl;
    struct cas cas;
    bool cas_ended;
    struct list ops;  /* the first is at work */
    struct list done; /* to be reported */
    struct step step;
    struct machine machine;
    struct machine again; /* report a change that could not be reported before */
    unsigned conflicts;   /* of the first operation */
    bool writing;
    bool known; /* `now` is the last known data */
    struct cell_value now;
    char *now_data;

    struct mirror mirror;
    bool watching;
    bool change_due;
    /* In the dispatcher, without the lock. item NULL: no node. */
    void (*tell_change)(struct cell *cell, const struct mirror_item *item, bool stale);
    void (*tell_closed)(struct cell *cell, int why);
};

/* Opens a zeroed cell, the first member of what it frees at its end and when this fails. 0: the lock is held, as after
 * host_open; then call cell_begin. No lock held before. */
int cell_open(struct cell *cell, struct conclave_recipes *rt, const char *path,
              const struct conclave_acl *acl, size_t acl_count) CONCLAVE_MUST_USE;
void cell_begin(struct cell *cell);

/* A zeroed operation; NULL without memory. No lock needed, as for free. */
struct cell_op *cell_op_make(const void *data, size_t len);
void cell_op_free(struct cell_op *op);

/* Puts it in the queue. No lock held. Takes op also on failure: CONCLAVE_ECLOSED, CONCLAVE_EFORK. */
int cell_submit(struct cell *cell, struct cell_op *op) CONCLAVE_MUST_USE;

/* Does it and waits. Takes op; *ret_op, NULL before, is set when it ended, well or not, and is then to
 * be freed. No lock held. */
int cell_call(struct cell *cell, struct cell_op *op, int64_t timeout_ms,
              struct cell_op **ret_op) CONCLAVE_MUST_USE;

#endif
