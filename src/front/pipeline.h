/*
 * The way of writes into the log: all writes of a loop turn, from all connections, become one
 * batch. While the log is busy the batch goes on growing, so that the slower the disk the larger
 * the batches (group commit). Applied batches of our own come back in the order in which they went
 * in, and so do the requests that wait for them.
 *
 * Limits: the caller keeps `outstanding` and the bytes charged below its limits by not reading; a batch is
 * closed early at PIPELINE_BATCH_BYTES.
 */
#ifndef FRONT_PIPELINE_H
#define FRONT_PIPELINE_H

#include "base/account.h"
#include "base/list.h"
#include "base/metrics.h"
#include "state/command.h"

enum {
    PIPELINE_BATCH_BYTES = 1 << 20, /* a batch of this size does not wait for the end of the turn */
    PIPELINE_IN_FLIGHT = 2,         /* one entry on its way to the disk and one behind it */
};

struct connection;

/* A request that is not answered yet, or a command of the server's own. */
struct pending {
    struct list order;             /* in its connection's queue */
    struct list flight;            /* writes: in the pipeline's queue */
    struct connection *connection; /* NULL: nobody waits (any more) */
    int32_t xid;
    int32_t type;
    int32_t err;             /* auth: the outcome, found at once and told in order */
    bool write;              /* waits for the log; otherwise for the writes before it */
    size_t bytes;            /* charged to the account */
    struct account *account; /* ACCOUNT_REQUESTS of whoever asked */
    int64_t taken_ns;        /* when it was taken in, monotonic */
    uint64_t body_at;        /* not a write: place of its body in the connection's waiting bytes */
    size_t body_len;
    size_t reply_bytes; /* what the answer may take, when it waits */
    uint64_t group;     /* not a write: waits until this group of reads is confirmed; 0: none */
};

/* Where batches go: replication, or a test. */
struct pipeline_sink {
    /* Takes the bytes. A failure is final. */
    int (*submit)(void *ctx, struct buf *payload_take);
    /* Takes a batch of the leader's own commands, which may get lost. */
    void (*submit_own)(void *ctx, struct buf *payload_take);
    /* Batches taken and not applied. */
    size_t (*in_flight)(void *ctx);
    /* A ticket that is confirmed, later, once everything is applied here that was committed anywhere
     * before; not asked for by a sole voter. */
    uint64_t (*read_index)(void *ctx);
    /* How long the leader waits before it may end a session that was heard of at heard_ms and belongs to
     * another server; 0: it may now. Only asked for while there are other members. */
    int64_t (*expiry_wait)(void *ctx, int64_t owner, int64_t heard_ms, int32_t timeout_ms);
    void *ctx;
};

struct pipeline {
    struct pipeline_sink sink;
    int64_t origin;             /* server id in the batches */
    int64_t sequence;           /* of the last batch begun */
    int64_t previous;           /* that batch's sequence, 0: none was begun in this run */
    int64_t applied;            /* sequence of the last own batch applied */
    struct buf batch;           /* being gathered */
    int32_t batch_count;        /* commands in it */
    struct list flight;         /* pending writes in the order of the log */
    struct list spare;          /* pendings for reuse, by `flight` */
    struct list blocks;         /* memory of all pendings */
    size_t outstanding;         /* pendings in use */
    struct summary *batch_size; /* commands per batch, added to; or NULL */
    int error;                  /* the sink's failure: nothing is taken after it */
};

/* first_sequence must be greater than any that this origin used in an earlier run. */
void pipeline_init(struct pipeline *p, const struct pipeline_sink *sink, int64_t origin,
                   int64_t first_sequence);
void pipeline_finish(struct pipeline *p);

/* More batches than an earlier run can have on their way behind one that is known. */
#define PIPELINE_RUN_GAP ((int64_t)1 << 32)

/* The log has batches of this origin up to that sequence. When an earlier run was ahead, more of its
 * may follow: those to come are numbered so far above that none of those is taken for one of them. */
void pipeline_begin(struct pipeline *p, int64_t last_sequence);

/* What was gathered is dropped; what comes depends on nothing that came before. No write may be in
 * flight. */
void pipeline_begin_run(struct pipeline *p);

/* A blank entry for a request, charged to an account with `bytes` until it is released; NULL when memory
 * is out. */
struct pending *pipeline_pending(struct pipeline *p, struct account *account, size_t bytes,
                                 int64_t now_ns);

/* The entry outlives its account: it is charged to another one from now on. */
void pipeline_recharge(struct pending *entry, struct account *account);

/* The entry is done with. It must be in no list. */
void pipeline_release(struct pipeline *p, struct pending *entry);

/* Adds a command to the batch being gathered; copies it. The entry waits for it. 0,
 * CONCLAVE_ENOMEM, or the sink's failure; the entry stays the caller's then. time_ms is used when
 * the command begins a batch. */
int pipeline_write(struct pipeline *p, const struct command *command, int64_t time_ms,
                   struct pending *entry) CONCLAVE_MUST_USE;

/* The end of a turn: hands over what was gathered if the log is not busy, or in any case when
 * `all`. */
void pipeline_turn(struct pipeline *p, bool all);

/* Whether pipeline_turn would hand something over now. */
bool pipeline_has_work(const struct pipeline *p);

/* Whether an applied batch is one of ours, in this run. Each is asked once. */
bool pipeline_owns(struct pipeline *p, const struct batch_header *header);

/* The entry of the next command of our own batches: borrowed, and removed from the queue. */
const struct pending *pipeline_first(const struct pipeline *p);
struct pending *pipeline_next(struct pipeline *p);

#endif
