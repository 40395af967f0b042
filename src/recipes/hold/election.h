/*
 * The election's inside, shared by its files: election.c (the candidate's machine),
 * election_position.c (its place in the queue), leader_record.c (what stands in <path>.leader),
 * election_api.c (the public functions), leader_watch.c (who leads, for on_leader).
 *
 * The machine (every arrow is checked by election_enter):
 *
 *                                    .-------< link lost, or lapsed untold >------.
 *                                    v                     |                       |
 *   IDLE --join--> JOINING --made--> WAITING --first--> PROVING --proved--> LEADING
 *   ^  ^              |              |  ^                  |                 |    |
 *   |  '----failed----'              |  '---< regrant >----|----------.      |    | revoked
 *   |                                |                     |          |      |    v
 *   |                       leaves, or the node is gone    |          '------|-- STOPPING
 *   |                                v                     v                 v    v
 *   '--------all removed--------- LEAVING <----------------'-----------------'----'
 *
 *   IDLE --ending--> CLOSED
 *
 * on_elected is due in LEADING, on_revoked in STOPPING: TERM_DUE -> TERM_STARTING (on_elected
 * runs) -> TERM_READY -> TERM_ENDING (on_revoked runs) -> TERM_NONE. A term that ends while
 * DUE was never told to the user at all.
 *
 * Everything is guarded by the client's lock, but for the grant that is_leader reads.
 */
#ifndef RECIPES_HOLD_ELECTION_H
#define RECIPES_HOLD_ELECTION_H

#include "recipes/engine/grant.h"
#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/line_position.h"
#include "recipes/engine/protected_create.h"
#include "recipes/hold/leader_watch.h"

#include <conclave/election.h>

enum election_state {
    ELECTION_IDLE,
    ELECTION_JOINING,  /* the node is being made */
    ELECTION_WAITING,  /* finding its place, or waiting for the one before it */
    ELECTION_PROVING,  /* first: proves its lease, waits the takeover delay */
    ELECTION_LEADING,  /* granted */
    ELECTION_STOPPING, /* not leading any more, the user has still to be told or is stopping */
    ELECTION_LEAVING,  /* the nodes are being removed */
    ELECTION_CLOSED,   /* on_closed is due or has run */
};

enum election_resign {
    RESIGN_NONE,
    RESIGN_PARK,    /* leave the queue and stay out */
    RESIGN_REQUEUE, /* leave the queue and join it again */
};

/* Takeover: what has to be known before a grant, when a delay was asked for. */
enum election_takeover {
    TAKEOVER_UNKNOWN,
    TAKEOVER_DELAY, /* the last leader did not stop cleanly: the delay runs */
    TAKEOVER_MARK,  /* the mark of this term is to be written */
    TAKEOVER_DONE,
};

/* The last candidate that leaves removes <path>.leader/last, so that an election that is over leaves nothing behind. */
enum election_tidy {
    TIDY_NONE,
    TIDY_LIST,   /* are there other candidates? */
    TIDY_DELETE, /* no: delete it, unless a newcomer has written it */
};

struct conclave_election {
    struct handle handle; /* first: it is freed through it */

    /* What the user gave. */
    struct conclave_election_options options; /* path, id and data of it are not used: below */
    struct conclave_election_callbacks callbacks;
    void *ctx;
    char *path;
    char *leader_dir;   /* <path>.leader */
    char *current_path; /* <path>.leader/current */
    char *last_path;    /* <path>.leader/last */
    char *id;
    struct conclave_acl *acl; /* one block with its strings */
    char *data; /* of the node: id, then newline and the user's data if there is any */
    size_t data_len;

    /* Where it stands. */
    enum election_state state;
    enum grant_term term;
    enum election_resign resign;
    bool parked;            /* out of the queue until resign(requeue) */
    struct closing closing; /* ending: on the way to CLOSED */
    bool running;           /* election_run is at work further up */
    bool again;             /* and has to look once more */
    uint32_t generation;    /* of the node: answers about an earlier one are dropped */

    /* The node. */
    struct protected_create create;
    char *node;           /* path, NULL: none */
    int64_t node_session; /* its owner */
    bool session_ended;   /* that session is known to have ended */
    int64_t czxid;        /* its token */
    int32_t sequence;
    bool regrant;    /* it has led before */
    bool data_dirty; /* data changed since it was written */
    struct step data_step;
    uint32_t data_generation;

    /* Its place in the queue. */
    struct place place;
    struct client_timer wake; /* back-off in IDLE, a try again elsewhere */
    int64_t not_before_ns;    /* no new node before this */
    unsigned failures;        /* of on_elected in a row */
    int64_t lost_ns;          /* when a node of ours was deleted by somebody, 0: never */

    /* The lease and the term. */
    struct lease_holder holder;
    int stop_why; /* for on_revoked */
    int64_t
        stop_until_ns;  /* end of the lease at the revocation; 0: already somebody else may lead */
    bool stopped_clean; /* on_revoked ran to its end while the node stood */

    /* <path>.leader */
    enum election_takeover takeover;
    struct client_timer delay; /* the takeover delay */
    struct step ack_step;
    uint32_t ack_generation;
    struct ensure_path ack_dir;
    bool ack_ensuring;
    struct watch_slot ack_watch; /* on somebody else's acknowledgement */
    bool ack_wanted;
    bool ack_unknown;     /* it was written, the answer was lost */
    bool ack_data_old;    /* data changed after it was written */
    bool acked;           /* <path>.leader/current is ours */
    bool marked;          /* <path>.leader/last names this term */
    int32_t last_version; /* version of `last` after our write; a later writer has raised it */
    enum election_tidy tidy;
    bool steal;            /* an acknowledgement is to be replaced */
    bool steal_read;       /* it is being read, to see whether it is to be replaced */
    int32_t steal_version; /* of `last`, read before the acknowledgement was */

    struct observer observer;

    struct grant grant; /* what is_leader and its kin read */
};

static inline struct conclave_recipes *election_rt(const struct conclave_election *e)
{
    return e->handle.rt;
}

/* --- election.c ------------------------------------------------------------------ */

void election_init(struct conclave_election *e, struct conclave_recipes *rt);

/* Looks at what is known and does what is next. After every change; lock held. */
void election_run(struct conclave_election *e);

/* The node is gone: CONCLAVE_SESSION_EXPIRED, CONCLAVE_ELOST (deleted), or the reason the
 * client ended. */
void election_node_gone(struct conclave_election *e, int why);

/* What to do about an error that a request of ours got: unknown outcomes wait for the next
 * link, most others for a while, and some will never be better: they end the handle. */
void election_trouble(struct conclave_election *e, int error);

/* Checked against the drawing above. */
void election_enter(struct conclave_election *e, enum election_state state);

/* Ends the handle, as soon as its callbacks and nodes allow. */
void election_end(struct conclave_election *e, int why);

/* Proved first, and nothing stands against it any more. */
void election_grant(struct conclave_election *e);

/* on_elected was all right: counts the term as begun. */
bool election_leads(const struct conclave_election *e);

/* Has election_run called in a while: something could not be done now. */
void election_retry_later(struct conclave_election *e);

/* --- election_position.c ------------------------------------------------------------ */

void election_place_init(struct conclave_election *e);

/* In WAITING, PROVING and LEADING, connected: asks for what is not known; enters PROVING when
 * first. */
void election_place_run(struct conclave_election *e);

/* --- leader_record.c -------------------------------------------------------------- */

void election_ack_init(struct conclave_election *e);

/* In PROVING with a takeover delay: finds out whether the last leader stopped cleanly, waits,
 * marks the term, grants. */
void election_takeover_run(struct conclave_election *e);

/* In LEADING: writes the acknowledgement. */
void election_ack_run(struct conclave_election *e);

/* Writes the data to the node, and to the acknowledgement when there is one. */
void election_data_run(struct conclave_election *e);

/* In LEAVING: removes acknowledgement and node, marks a clean stop; enters IDLE when all is
 * gone. */
void election_leave_run(struct conclave_election *e);

/* --- shared with leader_watch.c and holder_list.c -------------------------------------- */

/* What <path>.leader/current says. Strings point into the text, which is changed. */
struct leader_text {
    const char *node;
    int64_t czxid;
    int64_t session_id;
    const char *candidate; /* data of the candidate's node */
    size_t candidate_len;
};

/* text must be writable and have a NUL at text[len]. false: not written by an election. */
bool leader_text_parse(char *text, size_t len, struct leader_text *ret);

/* Splits a candidate's data at its first newline. text as above; always gives an id. */
void candidate_split(char *text, size_t len, const char **ret_id, const char **ret_data,
                     size_t *ret_len);

#endif
