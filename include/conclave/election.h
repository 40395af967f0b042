/*
 * Leader election: one of all candidates on a path leads at a time, in the order of arrival. When
 * the leader goes, only the next candidate is woken (no herd).
 *
 * Guarantee: is_leader turns false, and on_revoked has started, before another candidate can be
 * elected, whatever stalls, as long as clocks run at about the same speed. A quorum of the
 * ensemble proves the lease behind this (by a transaction that checks the candidate's node); the
 * link alone does not. A process that is stopped between is_leader and its action can still act
 * late: pass the fencing token with every write, and let the storage refuse smaller tokens.
 *
 * Needs a session timeout of at least three ticks of the server. Works on Conclave and on
 * Apache ZooKeeper.
 *
 * CONCLAVE_NAMING_FIXED: path itself, such as "/leader", is the leader's ephemeral node, as in
 * programs that race with a plain create; the parents are made as containers. Candidates have no
 * node: all of them watch the leader's and race when it goes, so there is no order, and every
 * hand-over wakes all. A leader that resigned races again after backoff_min_ms. The node's data are
 * the option data alone (without them the id); readers see them as both id and data of the leader.
 * Nothing is acknowledged. With takeover_delay_ms the winner owns the node at once and waits before
 * on_elected, also after each leader of another library, as nobody knows whether that one stopped
 * cleanly; <path>.leader/last is written then, and stays. The name does not tell whose the node is:
 * when somebody deletes the leader's node by hand and another creates it, the leader learns it from
 * its watch, not from the next proof of its lease, and until then conclave_election_fenced_multi
 * writes for it.
 */
#ifndef CONCLAVE_ELECTION_H
#define CONCLAVE_ELECTION_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_election;

/* A candidate, or the leader. Strings and data live until the callback returns or the list is
 * freed. */
struct conclave_participant {
    const char *node; /* name of its node */
    const char *id;   /* identity it gave (its node's data up to the first newline) */
    const void *data; /* data it gave */
    size_t data_len;
    int64_t session_id;
    int32_t sequence;
    bool self; /* this handle's node */
    struct conclave_token token;
    /* When its node was made, milliseconds since 1970 by the server's clock; in lists and in
     * find_leader, else 0. */
    int64_t since_ms;
};

/* Callbacks of one handle run one at a time; elected and revoked strictly alternate. */
struct conclave_election_callbacks {
    size_t size;
    /* This process leads. Prepare, then return 0: the acknowledgement is then written (option
     * ack). After any other value the candidate resigns (on_revoked is called for this term, too),
     * waits and queues again. regrant: the same node leads again after its lease had lapsed. */
    int (*on_elected)(struct conclave_election *election, struct conclave_token token, bool regrant,
                      void *ctx);

    /* This process no longer leads (is_leader is false already). Stop within stop_within_ms: no
     * other candidate is elected before that. 0: another may be elected already, because the node
     * was deleted or the session was killed. why: CONCLAVE_ELOST (lease ran out or node gone),
     * CONCLAVE_SESSION_EXPIRED, CONCLAVE_ECLOSED, CONCLAVE_ECANCELED (resigned). */
    void (*on_revoked)(struct conclave_election *election, int why, int64_t stop_within_ms,
                       void *ctx);

    /* Another leader, for observers and candidates; leader is NULL if there is none; acked: it has
     * acknowledged. Never returns to an earlier leader. */
    void (*on_leader)(struct conclave_election *election, const struct conclave_participant *leader,
                      bool acked, void *ctx);

    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_election *election, int why, void *ctx);
};
#define CONCLAVE_ELECTION_CALLBACKS_INIT CONCLAVE_INIT(conclave_election_callbacks)

/* Begin with CONCLAVE_ELECTION_OPTIONS_INIT, then set what differs. */
struct conclave_election_options {
    size_t size;
    const char *path; /* the election's node; made with its parents as containers */
    const char *id;   /* identity shown to others, no newline; NULL: host:pid */
    const void *data; /* shown to others, at most 64 KiB */
    size_t data_len;
    enum conclave_naming naming;
    struct conclave_lease_options lease;
    bool observe_only; /* never a candidate: on_leader only */
    bool observe;      /* a candidate that wants on_leader too */
    bool ack;     /* write the leader's acknowledgement to <path>.leader/current after on_elected */
    bool requeue; /* queue again when leadership or candidacy was lost; else it ends: on_closed */
    bool regrant; /* lease lapsed, session alive: lead again with the same node and token */
    bool steal_stale_ack;      /* replace an acknowledgement whose candidate node is gone */
    int64_t takeover_delay_ms; /* wait after a leader that did not resign cleanly */
    int64_t backoff_min_ms; /* after a failed on_elected, doubled up to the maximum, with jitter */
    int64_t backoff_max_ms;
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
    /* Never wait behind another: instead the election ends, with CONCLAVE_EBUSY in on_closed. */
    bool no_wait;
};
#define CONCLAVE_ELECTION_OPTIONS_INIT                                                             \
    CONCLAVE_INIT_WITH(conclave_election_options,                                                  \
                       CONCLAVE_SET(ack, true) CONCLAVE_SET(requeue, true)                         \
                           CONCLAVE_SET(backoff_min_ms, 1000) CONCLAVE_SET(backoff_max_ms, 30000))

/* Joins (or observes). Options and callbacks are copied. 0, CONCLAVE_EINVAL (path, id, or a
 * grace that does not fit), CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. Trouble with the ensemble comes
 * later, by callback. */
CONCLAVE_API int conclave_election_open(struct conclave_recipes *recipes,
                                        const struct conclave_election_options *options,
                                        const struct conclave_election_callbacks *callbacks,
                                        void *ctx,
                                        struct conclave_election **ret) CONCLAVE_MUST_USE;

/* Whether this process leads now: lease checked against the clock at this moment. Any thread,
 * wait-free, async-signal-safe. */
CONCLAVE_API bool conclave_election_is_leader(const struct conclave_election *election);

/* Milliseconds left of the lease, 0 when it does not lead. As above. */
CONCLAVE_API int64_t conclave_election_lease_left_ms(const struct conclave_election *election);

/* The token of the current term, 0 when it does not lead. As above. */
CONCLAVE_API struct conclave_token
conclave_election_token(const struct conclave_election *election);

/* End of the lease in nanoseconds of CLOCK_BOOTTIME, 0 when it does not lead: for handing to
 * other processes. */
CONCLAVE_API int64_t conclave_election_lease_until_ns(const struct conclave_election *election);

/* Name of this candidate's node, "" when it has none; copied to buf. */
CONCLAVE_API void conclave_election_node(const struct conclave_election *election, char *buf,
                                         size_t len);

/* Blocks until this process leads and on_elected has returned 0. 0 and the token,
 * CONCLAVE_ETIMEDOUT, CONCLAVE_ECANCELED (resigned and not queued again), CONCLAVE_EDEADLK inside
 * a callback, or why the election ended (CONCLAVE_ECLOSED, CONCLAVE_SESSION_EXPIRED,
 * CONCLAVE_NO_AUTH, ...). */
CONCLAVE_API int conclave_election_wait(struct conclave_election *election, int64_t timeout_ms,
                                        struct conclave_token *ret_token) CONCLAVE_MUST_USE;

typedef void (*conclave_turn_fn)(struct conclave_election *election, struct conclave_token token,
                                 void *ctx);

/* Leads for the time of a function: queues if the candidate is out of the queue, waits until this
 * process leads, calls fn in this thread, then steps down and stays out of the queue. Members that
 * call this in a loop lead in turn, because each of them queues again behind all others. fn must
 * return soon after on_revoked, or when conclave_election_is_leader is false. 0: it led until fn
 * returned; CONCLAVE_ELOST: fn was called, but the lead was lost before it returned. Else fn was not
 * called, as of conclave_election_wait; after CONCLAVE_ETIMEDOUT the candidate stays out of the
 * queue, too. */
CONCLAVE_API int conclave_election_take_turn(struct conclave_election *election,
                                             conclave_turn_fn fn, void *ctx,
                                             int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Opens an election that does not wait (no_wait), and waits for its outcome. 0: this process leads, and
 * *ret is to be closed and destroyed. CONCLAVE_EBUSY: another leads or is about to; ret_leader (may
 * be NULL): *ret_leader is that leader (free with conclave_participant_free), NULL if it has just
 * gone. Else as conclave_election_open and conclave_election_wait. Nothing is left open then.
 * Blocking. */
CONCLAVE_API int conclave_election_race(struct conclave_recipes *recipes,
                                        const struct conclave_election_options *options,
                                        const struct conclave_election_callbacks *callbacks,
                                        void *ctx, int64_t timeout_ms,
                                        struct conclave_election **ret,
                                        struct conclave_participant **ret_leader) CONCLAVE_MUST_USE;

/* Writes the acknowledgement now (for option ack false: the program reports when it is ready).
 * Asynchronous. 0, CONCLAVE_ENOTOWNER (does not lead), CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_election_ack(struct conclave_election *election) CONCLAVE_MUST_USE;

/* Steps down: on_revoked runs to its end, then the node is removed, with a mark that the stop was
 * clean. A candidate that does not lead leaves the queue. requeue: queue again at the end;
 * otherwise the candidate stays out until the next call with requeue, or until it is closed.
 * Asynchronous. 0, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_election_resign(struct conclave_election *election,
                                          bool requeue) CONCLAVE_MUST_USE;

/* Changes the data shown to others; kept over requeue. */
CONCLAVE_API int conclave_election_set_data(struct conclave_election *election, const void *data,
                                            size_t len) CONCLAVE_MUST_USE;

/* The candidates in their order, leader first; self: of this client's session. Blocking: also
 * CONCLAVE_ETIMEDOUT, CONCLAVE_NO_NODE (no such election). Free with conclave_participants_free. */
CONCLAVE_API int conclave_election_participants(struct conclave_recipes *recipes, const char *path,
                                                int64_t timeout_ms,
                                                struct conclave_participant ***ret,
                                                size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_participants_free(struct conclave_participant **list, size_t count);

/* The one that leads, in any naming, also of another library: its address (data), owner
 * (session_id) and since when. Blocking: as above; CONCLAVE_NO_NODE: nobody leads. Free with
 * conclave_participant_free. */
CONCLAVE_API int conclave_election_find_leader(struct conclave_recipes *recipes, const char *path,
                                               int64_t timeout_ms,
                                               struct conclave_participant **ret) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_participant_free(struct conclave_participant *participant);

/* A transaction that is carried out only while this election's node leads: a check of the node,
 * then the parts. 0, CONCLAVE_EFENCED (does not lead, or node gone; nothing was done),
 * CONCLAVE_SESSION_EXPIRED, or the answer's error; CONCLAVE_CONNECTION_LOSS: it is unknown whether
 * it was carried out; if so, while this process led. Blocking; in callbacks of an election only
 * when the client runs with threads. *ret_reply as in conclave_call, without the check's result,
 * NULL when nothing was sent. */
CONCLAVE_API int
conclave_election_fenced_multi(struct conclave_election *election, const struct conclave_op *parts,
                               size_t count, struct conclave_reply **ret_reply) CONCLAVE_MUST_USE;

/* Leaves: revokes if it leads, removes its nodes (retried until the session ends), then
 * on_closed. Asynchronous; may be called repeatedly, also in a callback. */
CONCLAVE_API void conclave_election_close(struct conclave_election *election);

/* Waits for on_closed to have returned. 0, CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK. */
CONCLAVE_API int conclave_election_close_wait(struct conclave_election *election,
                                              int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Frees a closed handle. NULL is allowed. In on_closed: freed when that returns. */
CONCLAVE_API void conclave_election_destroy(struct conclave_election *election);

#ifdef __cplusplus
}
#endif
#endif
