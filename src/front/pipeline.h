/*
 * The way of writes into the log: all writes of a loop turn, from all connections, become one batch. While the log is
 * busy the batch grows, so slower disks get larger batches (group commit). Own batches are applied in the order in
 * which they were submitted, and so are the requests that wait for them.
 *
 * Limits: the caller keeps `outstanding` and the charged bytes below its limits by pausing reads; a batch is closed
 * early at PIPELINE_BATCH_BYTES.
 */
#ifndef FRONT_PIPELINE_H
#define FRONT_PIPELINE_H

#include "base/account.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/metrics.h"
#include "state/entry/command.h"

enum {
    PIPELINE_BATCH_BYTES = 1 << 20, /* a batch of this size does not wait for the end of the turn */
    PIPELINE_IN_FLIGHT = 2,         /* one batch on its way to the disk, and one after it */
    PIPELINE_LEFT_KEPT = 16,        /* batches of which pipeline_left_ns knows the time */
};

struct connection;
struct effects;

/* Who waits for a write without a connection: a page of the web console. It must stay until `applied` was called, or until
 * service_disown. */
struct pending_owner {
    /* the outcome; NULL: it stays unknown. The entry is gone */
    void (*applied)(struct pending_owner *owner, const struct effects *effects);
    const char *host;      /* for the audit log */
    struct pending *entry; /* NULL: it does not wait */
};

/* An unanswered request, or a command of the server itself. */
struct pending {
    struct list order;             /* in its connection's queue */
    struct list flight;            /* writes: in the pipeline's queue */
    struct connection *connection; /* NULL: no client waits (any more) */
    struct pending_owner *owner;   /* without a connection; NULL: none */
    int32_t xid;
    int32_t type;
    int32_t err;             /* auth: the outcome, which is known at once but sent in order */
    bool write;              /* waits for the log; other requests wait for earlier writes */
    size_t bytes;            /* charged to the account */
    struct account *account; /* the account that is charged with ACCOUNT_REQUESTS */
    int64_t taken_ns;        /* when it was read, monotonic */
    uint64_t body_at;        /* not a write: offset of its body in the connection's waiting bytes */
    size_t body_len;
    size_t reply_bytes; /* bytes that the answer of a waiting request may need */
    uint64_t group;     /* not a write: waits until this group of reads is confirmed; 0: none */
};

/* The destination of batches: replication, or a test. */
struct pipeline_sink {
    /* Takes the bytes. An error is final. */
    int (*submit)(void *ctx, struct buf *payload_take);
    /* Takes a batch of the leader's own commands, which may be lost. */
    void (*submit_own)(void *ctx, struct buf *payload_take);
    /* Number of batches that were submitted and are not applied. */
    size_t (*in_flight)(void *ctx);
    /* Returns a ticket, which is confirmed later, when everything is applied here that was committed anywhere before. A
     * sole voter does not ask for tickets. */
    uint64_t (*read_index)(void *ctx);
    /* How long the leader must wait before it may end a session of another server, last heard of at heard_ms; 0: not at
     * all. Called only while there are other members. */
    int64_t (*expiry_wait)(void *ctx, int64_t owner, int64_t heard_ms, int32_t timeout_ms);
    /* What the leader knows of another server: age of its last report; age of its present run, if that began during the
     * leadership. Both in ms, and unchanged if unknown. May be NULL. */
    void (*reporter_ages)(void *ctx, int64_t owner, int64_t *ret_report_ms, int64_t *ret_reborn_ms);
    /* Age of the write that is on its way to this server's disk, ms; 0: none. May be NULL. */
    int64_t (*disk_wait)(void *ctx);
    void *ctx;
};

struct pipeline {
    struct pipeline_sink sink;
    int64_t origin;      /* server id in the batches */
    int64_t sequence;    /* of the last batch begun */
    int64_t previous;    /* sequence of the batch before the next one, 0: none in this run */
    int64_t applied;     /* sequence of the last applied own batch */
    struct buf batch;    /* the batch that is growing */
    int32_t batch_count; /* commands in it */
    struct list flight;  /* pending writes in the order of the log */
    struct list spare;   /* pendings for reuse, by `flight` */
    struct list blocks;  /* memory of all pendings */
    size_t outstanding;  /* pendings in use */
    const struct clock_source *clock; /* for pipeline_left_ns; NULL: it is not used */
    struct {
        int64_t sequence;
        int64_t ns;
    } left[PIPELINE_LEFT_KEPT]; /* when the latest batches left */
    struct summary *batch_size; /* commands per batch, added to; or NULL */
    int error;                  /* the sink's error: nothing is accepted after it */
};

/* first_sequence must be greater than every sequence that this origin used in an earlier run. */
void pipeline_init(struct pipeline *p, const struct pipeline_sink *sink, int64_t origin,
                   int64_t first_sequence);
void pipeline_finish(struct pipeline *p);

/* Exceeds the number of batches that an earlier run can still have in the log after a known one. */
#define PIPELINE_RUN_GAP ((int64_t)1 << 32)

/* The log has batches of this origin up to that sequence. If an earlier run was ahead, more of its batches may follow,
 * so this run continues far above them. */
void pipeline_begin(struct pipeline *p, int64_t last_sequence);

/* Drops the growing batch; later batches do not depend on earlier ones. No write may be in flight. */
void pipeline_begin_run(struct pipeline *p);

/* A blank entry for a request; `bytes` are charged to an account until it is released. NULL: out of memory. */
struct pending *pipeline_pending(struct pipeline *p, struct account *account, size_t bytes,
                                 int64_t now_ns);

/* Charges another account, because the entry outlives its own. */
void pipeline_recharge(struct pending *entry, struct account *account);

/* Frees the entry. It must be in no list. */
void pipeline_release(struct pipeline *p, struct pending *entry);

/* Copies a command into the growing batch; the entry waits for it. 0, CONCLAVE_ENOMEM, or the sink's error; after an
 * error the caller still owns the entry. time_ms is used if the command begins a batch. */
int pipeline_write(struct pipeline *p, const struct command *command, int64_t time_ms,
                   struct pending *entry) CONCLAVE_MUST_USE;

/* The end of a turn: submits the batch if the log is not busy; with `all`, always. */
void pipeline_turn(struct pipeline *p, bool all);

/* Whether pipeline_turn would submit something now. */
bool pipeline_has_work(const struct pipeline *p);

/* Whether an applied batch is one of this run. Call it once per batch. */
bool pipeline_owns(struct pipeline *p, const struct batch_header *header);

/* When an own batch was submitted first, monotonic ns; 0: unknown. */
int64_t pipeline_left_ns(const struct pipeline *p, int64_t sequence);

/* The entry of the next command of own batches: borrowed. */
const struct pending *pipeline_first(const struct pipeline *p);
struct pending *pipeline_next(struct pipeline *p);

#endif
