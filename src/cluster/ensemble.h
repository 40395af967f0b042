/*
 * A server's part in its ensemble, between the service and the log: where its clients' batches go,
 * what members tell each other beside consensus, and what a change of leader means. No sockets, no
 * loop: messages come in by ensemble_message and leave by `links`.
 *
 * A batch of ours is kept until it is applied. A leader puts it into the log, a follower sends it to
 * the leader; when the leader changes, a link comes back, one is known to be lost or nothing moves
 * for a while, all that is kept is sent again, in order. The state admits each batch once and in
 * order, so a write in flight has exactly one outcome, and the origin sees it in its own log.
 *
 * A sole voter that leads keeps nothing: no other server can take the lead from it.
 */
#ifndef CLUSTER_ENSEMBLE_H
#define CLUSTER_ENSEMBLE_H

#include "cluster/digest_check.h"
#include "cluster/session_reports.h"
#include "front/service.h"
#include "replication/disk/configuration.h"
#include "replication/replication.h"

/* Messages between members: a kind, then what it says. Integers are big-endian. */
enum ensemble_message_kind {
    ENSEMBLE_BATCH = 1,    /* a batch, for the leader's log */
    ENSEMBLE_LATER = 3,    /* a batch was not taken: this member does not lead, or does not yet */
    ENSEMBLE_TRANSFER = 4, /* the leader shall hand over to this member (i64), 0: to anybody */
    ENSEMBLE_DIGEST = 5,   /* index and digest (i64 each): the sender's state after an entry */
    ENSEMBLE_LEFT = 6, /* the sender was removed and has no clients any more; told with each beat */
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
    size_t unapplied;       /* own batches on their way */
    size_t unapplied_bytes; /* their bytes */
    uint64_t forwarded;     /* batches sent to a leader, repetitions included */
    uint64_t resent;        /* of them, repetitions */
    uint64_t taken;         /* batches of other members put into the log */
    uint64_t refused;       /* messages of members that made no sense */
    uint64_t elections;     /* times that this server began to lead */
    uint64_t compared;      /* states compared with the leader's */
    uint64_t differed;      /* of them, that were another */
    uint64_t steps_aside;   /* times that the log of this member failed */
    uint64_t damaged;       /* times that its data were found to be damaged */
    uint64_t healed;        /* times that it had them from the others again */
    int64_t proposal_last;  /* bytes of own batches; -1: none yet */
    int64_t proposal_min;
    int64_t proposal_max;
};

struct ensemble {
    struct service *service;
    struct replication *replication; /* set before anything moves */
    struct ensemble_links links;
    const struct clock_source *clock;
    int64_t id;
    enum replication_role role;
    int64_t leads_since_ms;       /* monotonic; of a leader */
    uint64_t leader;              /* 0: none known */
    bool sole;                    /* the only voter, and no member beside */
    struct list unapplied;        /* own batches, oldest first */
    uint64_t others[MEMBERS_MAX]; /* the other members */
    size_t n_others;
    uint64_t voters[MEMBERS_MAX]; /* the members that vote, this one among them or not */
    size_t n_voters;
    struct digest_check agreement;
    struct session_reports reports;
    int differences;    /* with the leader, in a row */
    bool doubted;       /* the majority had another state, and none was the same since */
    bool beyond_repair; /* so had it when the state had been read from the disk again */
    int64_t claim_at;   /* when the leader tells its digest next, monotonic ms */
    int64_t tick_at;    /* next beat, monotonic ms */
    int64_t resend_at;  /* when the oldest is sent again if nothing moved */
    int64_t resend_wait_ms;
    int64_t retry_at; /* the same when one is known to be lost; INT64_MAX: none is */
    int64_t lost;     /* sequence of the batch last seen to be missing in the log */
    uint64_t left;    /* the removed member that last said that it has no clients; 0: none did */
    int64_t left_ms;  /* when it did */
    struct ensemble_stats stats;
    void (*failed)(void *ctx, int error, const char *text); /* the log takes no more writes */
    void *failed_ctx;
};

/* Standalone until ensemble_configuration says otherwise. The service's sink must be
 * ensemble_sink(e). */
void ensemble_init(struct ensemble *e, struct service *service, int64_t id,
                   const struct clock_source *clock, const struct ensemble_links *links);
void ensemble_finish(struct ensemble *e);

struct pipeline_sink ensemble_sink(struct ensemble *e);

/* What replication tells (see its callbacks). Errors of apply and restore are as service_apply's:
 * the server must stop. */
int ensemble_apply(struct ensemble *e, uint64_t index, struct slice payload) CONCLAVE_MUST_USE;
/* An entry that is not applied: its batch counts as admitted. Errors as ensemble_apply. */
int ensemble_skip(struct ensemble *e, uint64_t index, struct slice payload) CONCLAVE_MUST_USE;
int ensemble_restore(struct ensemble *e, struct slice snapshot) CONCLAVE_MUST_USE;
int ensemble_role(struct ensemble *e, enum replication_role role,
                  uint64_t leader) CONCLAVE_MUST_USE;
int ensemble_configuration(struct ensemble *e, uint64_t index,
                           const struct configuration_member *members,
                           size_t count) CONCLAVE_MUST_USE;
void ensemble_confirmed(struct ensemble *e, uint64_t ticket);

/* The log failed: clients are dropped, nothing is answered until ensemble_resume, which begins with
 * an empty state that the log then fills. */
void ensemble_suspend(struct ensemble *e);
int ensemble_resume(struct ensemble *e) CONCLAVE_MUST_USE;

/* Before the log is open: what its members will be. */
void ensemble_expect(struct ensemble *e, const struct configuration_member *members, size_t count);

/* The link to a member is up (again). */
void ensemble_link(struct ensemble *e, uint64_t member);

/* A message that a member sent. What makes no sense is counted and dropped. */
void ensemble_message(struct ensemble *e, uint64_t from, struct slice message);

/* Whether a removed member said just now that it has no clients any more. */
bool ensemble_has_left(const struct ensemble *e, uint64_t member);

/* Begins to hand the lead over to a voter, 0: whoever is most up to date; who does not lead asks the leader to. 0,
 * CONCLAVE_EBUSY (nobody leads, or can take over now), CONCLAVE_EINVAL, CONCLAVE_ENOMEM. */
int ensemble_transfer(struct ensemble *e, uint64_t to) CONCLAVE_MUST_USE;

/* Beats: due at the deadline (monotonic ms), harmless earlier. */
void ensemble_tick(struct ensemble *e);
int64_t ensemble_deadline(const struct ensemble *e);

#endif
