/*
 * A server's part in its ensemble, between the service and the log: where its clients' batches go, which messages
 * members exchange besides consensus, and what a change of leader means. No sockets, no loop: ensemble_message takes
 * messages, `links` sends them.
 *
 * A server keeps each of its batches until it is applied. A leader puts it into the log; a follower sends it to the
 * leader. When the leader changes, a link comes back, a batch is known to be lost or nothing moves for a while, the
 * server sends all kept batches again, in order. The state admits each batch once and in order, so a write in flight
 * has exactly one outcome, and the server reads it from its own log.
 *
 * A sole voter that leads keeps nothing, because no other server can become leader.
 */
#ifndef CLUSTER_ENSEMBLE_H
#define CLUSTER_ENSEMBLE_H

#include "cluster/digest_check.h"
#include "cluster/session_reports.h"
#include "front/service.h"
#include "replication/disk/configuration.h"
#include "replication/replication.h"

/* Messages between members: one byte for the kind, then its fields. Integers are big-endian. */
enum ensemble_message_kind {
    ENSEMBLE_BATCH = 1,    /* a batch, for the leader's log */
    ENSEMBLE_LATER = 3,    /* a batch was refused: this member does not lead, or not yet */
    ENSEMBLE_TRANSFER = 4, /* asks the leader to hand over to this member (i64), 0: any */
    ENSEMBLE_DIGEST = 5,   /* index and digest (i64 each): the sender's state after an entry */
    ENSEMBLE_LEFT = 6,     /* the sender was removed and has no clients left; repeated */
    ENSEMBLE_REPORT =
        7, /* life i64, number i32, its time i64, age of the life i64, its tick i32, term
                              and time (i64 each) that the leader acknowledged last; then signs of life:
                              session i64, age i32 */
    ENSEMBLE_REPORTED =
        8, /* life i64, number i32, time i64 of the report; term and time of the leader
                              (i64 each) */
};

/* Sends a message to another member; it may be lost. Takes the bytes. */
struct ensemble_links {
    void (*send)(void *ctx, uint64_t to, struct buf *message_take);
    void *ctx;
};

struct ensemble_stats {
    size_t unapplied;       /* own batches that are not applied yet */
    size_t unapplied_bytes; /* their bytes */
    uint64_t forwarded;     /* batches sent to a leader, including repetitions */
    uint64_t resent;        /* repetitions among them */
    uint64_t taken;         /* batches of other members put into the log */
    uint64_t refused;       /* malformed messages from members */
    uint64_t elections;     /* times that this server became leader */
    uint64_t compared;      /* states compared with the leader's */
    uint64_t differed;      /* those that differed */
    uint64_t steps_aside;   /* times that the log of this member failed */
    uint64_t damaged;       /* times that this member found its data damaged */
    uint64_t healed;        /* times that it got all data from others again */
    int64_t proposal_last;  /* bytes of own batches; -1: none yet */
    int64_t proposal_min;
    int64_t proposal_max;
};

struct ensemble {
    struct service *service;
    struct replication *replication; /* set before the first entry */
    struct ensemble_links links;
    const struct clock_source *clock;
    int64_t id;
    enum replication_role role;
    int64_t leads_since_ms;       /* monotonic; of a leader */
    uint64_t leader;              /* 0: none known */
    bool sole;                    /* the only member */
    struct list unapplied;        /* own batches, oldest first */
    uint64_t others[MEMBERS_MAX]; /* the other members */
    size_t n_others;
    uint64_t voters[MEMBERS_MAX]; /* all voters; may include this member */
    size_t n_voters;
    struct digest_check agreement;
    bool restored; /* from a snapshot, whose configuration is told next */
    struct session_reports reports;
    int differences;    /* with the leader, in a row */
    bool doubted;       /* the majority had another state, and no digest agreed since */
    bool beyond_repair; /* the state still differed after the folder was read again */
    int64_t claim_at;   /* when the leader sends its digest next, monotonic ms */
    int64_t tick_at;    /* next regular work, monotonic ms */
    int64_t resend_at;  /* when batches are sent again without progress */
    int64_t resend_wait_ms;
    int64_t retry_at; /* the same if a batch is known to be lost; INT64_MAX: none is */
    int64_t lost;     /* sequence of the batch that was last missing in the log */
    uint64_t left;    /* the removed member that last reported no clients; 0: none */
    int64_t left_ms;  /* when it reported that */
    struct ensemble_stats stats;
    void (*failed)(void *ctx, int error, const char *text); /* the log accepts no more writes */
    void *failed_ctx;
};

/* The server is standalone until ensemble_configuration names other members. The service's sink must be
 * ensemble_sink(e). */
void ensemble_init(struct ensemble *e, struct service *service, int64_t id,
                   const struct clock_source *clock, const struct ensemble_links *links);
void ensemble_finish(struct ensemble *e);

struct pipeline_sink ensemble_sink(struct ensemble *e);

/* Called by replication (see its callbacks). Errors of apply and restore are those of service_apply: the server must
 * stop. */
int ensemble_apply(struct ensemble *e, uint64_t index, struct slice payload) CONCLAVE_MUST_USE;
/* An entry that is skipped: its batch counts as admitted, but changes nothing. Errors as ensemble_apply. */
int ensemble_skip(struct ensemble *e, uint64_t index, struct slice payload) CONCLAVE_MUST_USE;
int ensemble_restore(struct ensemble *e, struct slice snapshot) CONCLAVE_MUST_USE;
int ensemble_role(struct ensemble *e, enum replication_role role,
                  uint64_t leader) CONCLAVE_MUST_USE;
int ensemble_configuration(struct ensemble *e, uint64_t index,
                           const struct configuration_member *members,
                           size_t count) CONCLAVE_MUST_USE;
void ensemble_confirmed(struct ensemble *e, uint64_t ticket);

/* The log failed: disconnects clients and answers nothing until ensemble_resume. That call starts with an empty state,
 * which the log then fills. */
void ensemble_suspend(struct ensemble *e);
int ensemble_resume(struct ensemble *e) CONCLAVE_MUST_USE;

/* Sets the expected members while the log is not open. */
void ensemble_expect(struct ensemble *e, const struct configuration_member *members, size_t count);

/* The link to a member is up. */
void ensemble_link(struct ensemble *e, uint64_t member);

/* For the files of this room: begins a message, and sends it to another member, or drops it when memory was out. */
void ensemble_message_begin(struct buf *message, enum ensemble_message_kind kind);
void ensemble_send(struct ensemble *e, uint64_t to, struct buf *message_take);

/* A message from a member. Malformed messages are counted and dropped. */
void ensemble_message(struct ensemble *e, uint64_t from, struct slice message);

/* Whether a removed member reported recently that it has no clients left. */
bool ensemble_has_left(const struct ensemble *e, uint64_t member);

/* Begins to hand the lead over to a voter; 0: to the most up-to-date one. A follower asks the leader to do it. 0,
 * CONCLAVE_EBUSY (no leader, or no voter can take over now), CONCLAVE_EINVAL, CONCLAVE_ENOMEM. */
int ensemble_transfer(struct ensemble *e, uint64_t to) CONCLAVE_MUST_USE;

/* Regular work: due at the deadline (monotonic ms), harmless earlier. */
void ensemble_tick(struct ensemble *e);
int64_t ensemble_deadline(const struct ensemble *e);

#endif
