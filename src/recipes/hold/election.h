/*
 * The election's inside, shared by its files: election.c (the candidate's parts of the contender),
 * leader_record.c (the nodes in <path>.leader), election_api.c (the public functions),
 * leader_watch.c (the present leader, for on_leader).
 *
 * A candidate is a contender (contender.h): begin is on_elected, end is on_revoked. What it adds: the
 * takeover delay before a grant, the acknowledgement, data that changes, resigning and joining again.
 */
#ifndef RECIPES_HOLD_ELECTION_H
#define RECIPES_HOLD_ELECTION_H

#include "recipes/hold/contender.h"
#include "recipes/hold/leader_watch.h"

#include <conclave/election.h>

enum election_resign {
    RESIGN_NONE,
    RESIGN_PARK,    /* leave the queue and stay out */
    RESIGN_REQUEUE, /* leave the queue and join it again */
};

/* Takeover: the facts to learn before a grant, if a delay was asked for. */
enum election_takeover {
    TAKEOVER_UNKNOWN,
    TAKEOVER_DELAY, /* the last leader did not stop cleanly: the delay runs */
    TAKEOVER_MARK,  /* the mark of this term must be written */
    TAKEOVER_DONE,
};

/* The last candidate that leaves removes <path>.leader/last, so that an election that is over leaves nothing behind. */
enum election_tidy {
    TIDY_NONE,
    TIDY_LIST,   /* are there other candidates? */
    TIDY_DELETE, /* no: delete it, unless a newcomer has written it */
};

struct conclave_election {
    struct contender c; /* first: it is freed through it */

    /* The user's options. */
    struct conclave_election_options options; /* its copied fields, here and in c, are not used */
    struct conclave_election_callbacks callbacks;
    char *leader_dir;   /* <path>.leader */
    char *current_path; /* <path>.leader/current */
    char *last_path;    /* <path>.leader/last */
    char *data;         /* of the node: id, then newline and the user's data if there is any */
    size_t data_len;

    /* Its state. */
    enum election_resign resign;
    bool parked;       /* out of the queue until resign(requeue) */
    unsigned failures; /* of on_elected in a row */
    int64_t lost_ns;   /* when a node of ours was deleted by somebody, 0: never */

    /* The node. */
    bool regrant;    /* it has led before */
    bool data_dirty; /* data changed since it was written */
    struct step data_step;
    bool stopped_clean; /* on_revoked ran to its end while the node stood */
    bool looked;        /* LEAVING, fixed: the node is ours, and no deletion was sent since */

    /* <path>.leader */
    enum election_takeover takeover;
    struct client_timer delay; /* the takeover delay */
    struct step ack_step;
    struct ensure_path ack_dir;
    struct watch_slot ack_watch; /* on somebody else's acknowledgement */
    bool ack_wanted;
    bool ack_unknown;     /* it was written, the answer was lost */
    bool ack_data_old;    /* data changed after it was written */
    bool acked;           /* <path>.leader/current is ours */
    bool marked;          /* <path>.leader/last names this term */
    int32_t last_version; /* version of `last` after our write; a later writer has raised it */
    enum election_tidy tidy;
    bool steal;            /* an acknowledgement must be replaced */
    bool steal_read;       /* it is being read, to decide whether to replace it */
    int32_t steal_version; /* of `last`, read before the acknowledgement was */

    struct observer observer;
};

static inline struct conclave_recipes *election_rt(const struct conclave_election *e)
{
    return contender_rt(&e->c);
}

static inline struct conclave_election *election_of(struct contender *c)
{
    return CONTAINER_OF(c, struct conclave_election, c);
}

/* Its node has one name for all candidates. */
static inline bool election_is_fixed(const struct conclave_election *e)
{
    return e->options.naming == CONCLAVE_NAMING_FIXED;
}

/* --- election.c ------------------------------------------------------------------ */

extern const struct contender_class election_class;

/* --- election_api.c ---------------------------------------------------------------- */

/* For the class: own is a struct conclave_election_options. */
bool election_copy(struct contender *c, const void *own);
void election_free_copies(struct contender *c);

/* --- leader_record.c -------------------------------------------------------------- */

void election_ack_init(struct conclave_election *e);

/* From one state of the takeover to another, in FIRST (the first) and PROVING. */
void election_take_over(struct conclave_election *e, enum election_takeover takeover);

/* In PROVING with a takeover delay: finds out whether the last leader stopped cleanly, waits,
 * marks the term; runs the contender when it is done. */
void election_takeover_run(struct conclave_election *e);

/* In HELD: writes the acknowledgement. */
void election_ack_run(struct conclave_election *e);

/* Writes the data to the node, and to the acknowledgement when there is one. */
void election_data_run(struct conclave_election *e);

/* In LEAVING: removes acknowledgement and node, marks a clean stop; enters OUT when all is
 * gone. */
void election_leave(struct contender *c);

/* --- shared with leader_watch.c and holder_list.c -------------------------------------- */

/* The content of <path>.leader/current. Strings point into the text, which is changed. */
struct leader_text {
    const char *node;
    int64_t czxid;
    int64_t session_id;
    const char *candidate; /* data of the candidate's node */
    size_t candidate_len;
};

/* text must be writable and have a NUL at text[len]. false: not written by an election. */
bool leader_text_parse(char *text, size_t len, struct leader_text *ret);

/* Splits a candidate's data at its first newline; fixed: all of it is both id and data. text as above; always gives an
 * id. */
void candidate_split(char *text, size_t len, bool fixed, const char **ret_id, const char **ret_data,
                     size_t *ret_len);

#endif
