/*
 * A self-healing node under a fixed name: made again in every new session and when somebody deletes
 * it, verified after every new link, its data kept here and written again when the server's differ.
 * Groups, acknowledgements, registrations and persistent nodes use it.
 *
 *   NOWHERE --made--> STANDS --link lost, event, lost answer--> DOUBT --looked--> any of the others
 *   DOUBT --by another--> OTHER --gone--> NOWHERE         DOUBT --from an earlier session--> GHOST
 *   GHOST --deleted and made in one transaction--> STANDS
 *
 * The owner of a node: the incarnation, a random text at the head of the data, names it across
 * sessions and, if the program keeps it, across restarts. Without an incarnation (where others
 * define the data's form) a node is ours if one of this client's sessions made it. The recipe waits
 * until a node of another owner is gone; it never writes data to a node that would go with another
 * session. A name that is not unique cannot be deleted by name alone: it is read first, and deleted
 * with its version.
 *
 * With another mode than CONCLAVE_EPHEMERAL the node lasts: it belongs to all who keep it, so any lasting
 * node there is taken over, and only an ephemeral one is another's. There is no GHOST. Data are
 * written once: what others write later stays.
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_ENGINE_PERSISTENT_NODE_H
#define RECIPES_ENGINE_PERSISTENT_NODE_H

#include "recipes/engine/protected_create.h"

enum { MEMBER_SESSIONS = 8, MEMBER_INCARNATION_MAX = 128, MEMBER_INCARNATION_BYTES = 16 };

enum member_place {
    MEMBER_NOWHERE, /* nothing of ours is there */
    MEMBER_DOUBT,   /* to be looked for */
    MEMBER_STANDS,
    MEMBER_GHOST, /* ours, of an earlier session */
    MEMBER_OTHER, /* somebody else's */
};

struct member {
    struct machine machine;
    const char *path; /* borrowed, as the next four are */
    const char *parent;
    const char *incarnation; /* NULL: recognized by its sessions */
    const struct conclave_acl *acl;
    size_t acl_count;
    enum conclave_create_mode mode;    /* CONCLAVE_EPHEMERAL unless set before the start */
    int64_t ttl_ms;                    /* of a persistent node; 0: none */
    bool keep;                         /* member_leave lets a lasting node stay */
    void (*changed)(struct member *m); /* place, `known` or `left` may be new; called late */
    void (*failed)(struct member *m, int error); /* it will not get better */

    char *data; /* of the node, head included */
    size_t data_len;
    uint32_t data_generation;
    uint32_t written; /* the newest generation that was in the node */
    bool dirty;       /* the node's data are others */

    struct step step;
    uint32_t step_generation; /* of the data that it writes */
    struct ensure_path ensure;
    struct watch_slot watch;
    enum member_place place;
    bool active;
    bool synced; /* since it came into doubt */
    bool halted; /* `failed` was called: it only leaves */
    bool leaving;
    bool left;          /* nothing of ours is there, or the session that owned it has ended */
    int32_t version;    /* of the node: STANDS, GHOST */
    int64_t czxid;      /* STANDS, GHOST, OTHER */
    int64_t session_id; /* owner of the node: STANDS */
    int64_t lost_ns;    /* when it was last found deleted, 0: never */
    int64_t sessions[MEMBER_SESSIONS]; /* that this client has had, in a ring */
    size_t sessions_next;
};

void member_init(struct member *m, struct handle *owner);

/* Begins; path and the like are set. */
void member_start(struct member *m);

/* Takes the node's data over; text before the user's is `member_head`. */
void member_set_data_take(struct member *m, char *data, size_t len);

/* Removes the node, unless it is to be kept; `left` tells when it is done. */
void member_leave(struct member *m);

void member_on_state(struct member *m, enum conclave_state state);

/* Whether it exists, as far as known: made or verified on the present link. */
bool member_is_in(const struct member *m);

void member_finish(struct member *m);

/* --- data of a node with an incarnation; pure ------------------------------------ */

/* The node's bytes, on the heap; NULL without memory. */
char *member_text(const char *incarnation, const void *data, size_t len, size_t *ret_len);

/* The user's part of a node's bytes: behind the head if it has one, else all of it. */
const void *member_payload(const void *bytes, size_t len, size_t *ret_len);

/* 32 random hexadecimal digits; buf takes MEMBER_INCARNATION_MAX. */
void member_incarnation(char *buf);

#endif
