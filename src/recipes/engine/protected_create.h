/*
 * Creating an ephemeral sequential node exactly once, and the containers above it.
 *
 * The node's name holds a random guid. When the answer is lost, the next link of the same
 * session asks: after a sync (so that a server that lags cannot hide it) the children are
 * listed, and what bears the guid and is owned by this session is ours. None: created again.
 * More than one: the oldest is kept, the others are deleted. A node of an earlier session is
 * never taken for ours. A parent that is missing, or was reaped in between, is made again.
 *
 * In CONCLAVE_NAMING_PLAIN the guid is the last line of the data, because names are numbers alone.
 *
 * In CONCLAVE_NAMING_FIXED the node is `parent` itself, not sequential, and only its owner tells
 * whose it is. While another session's node has the name, a watch on it waits for its end.
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_ENGINE_PROTECTED_CREATE_H
#define RECIPES_ENGINE_PROTECTED_CREATE_H

#include "recipes/engine/contender_names.h"
#include "recipes/engine/machine.h"

/* --- containers ------------------------------------------------------------------ */

/* Makes a node and what is missing above it, as containers (plain nodes where the server has
 * none). */
struct ensure_path {
    struct step step;
    char *path;      /* to be made; NULL: nothing is under way */
    size_t len;      /* of the part that is being made now */
    bool persistent; /* the server refused containers */
    const struct conclave_acl *acl;
    size_t acl_count;
    void (*done)(struct ensure_path *ensure, int error);
};

void ensure_path_init(struct ensure_path *ensure, struct handle *owner);
void machine_ensure_init(struct machine *m, struct ensure_path *ensure); /* m is run after done */

/* Begun, and done was not called yet. */
static inline bool ensure_path_busy(const struct ensure_path *ensure)
{
    return ensure->path != NULL;
}

/* done: 0, or why not (an unknown outcome too: asking again is harmless). acl is borrowed
 * until then. 0 or CONCLAVE_ENOMEM: then done is not called. */
int ensure_path_start(struct ensure_path *ensure, const char *path, const struct conclave_acl *acl,
                      size_t acl_count,
                      void (*done)(struct ensure_path *ensure, int error)) CONCLAVE_MUST_USE;

void ensure_path_finish(struct ensure_path *ensure);

/* --- the node -------------------------------------------------------------------- */

/* The node to create; borrowed until done. */
struct protected_node {
    const char *parent;
    enum conclave_naming naming;
    enum name_kind kind;
    const char *label; /* in the name instead of the naming's marker; NULL: the marker */
    const void *data;
    size_t data_len;
    const struct conclave_acl *acl;
    size_t acl_count;
    int32_t weight; /* permits that it asks for, 0: 1 */
    bool no_wait;   /* CONCLAVE_NAMING_FIXED: ends with CONCLAVE_EBUSY when another has the name */
};

/*   IDLE --start--> CREATE <--found nothing, lost answer--> RECOVER --found--> IDLE
 *   CREATE --made, or never will be--> IDLE     CREATE, RECOVER --made, but canceled--> DELETE --gone--> IDLE
 *   RECOVER --another's--> WAIT --it changed--> CREATE     WAIT --canceled, or the session ended--> IDLE */
enum protected_phase {
    PROTECTED_IDLE,
    PROTECTED_CREATE,  /* to be created, no node of ours exists */
    PROTECTED_RECOVER, /* may have been created: to be looked up */
    PROTECTED_DELETE,  /* canceled: being deleted */
    PROTECTED_WAIT,    /* the fixed name is another's, which is watched */
};

struct protected_create;

/* 0: path (yours, free it) and stat of the node. CONCLAVE_SESSION_EXPIRED: no node of ours exists in the
 * present session. CONCLAVE_ECANCELED: canceled, nothing is left. Else why it cannot be created. */
typedef void (*protected_create_fn)(struct protected_create *create, int error, char *path,
                                    const struct conclave_stat *stat);

struct protected_create {
    struct machine machine;
    struct step step;
    struct ensure_path ensure;
    struct protected_node node;
    enum protected_phase phase;
    bool canceled;
    int64_t session_id;           /* in which it is tried */
    int64_t sent_ns;              /* when the creation that was answered was sent; 0: recovered */
    char prefix[NAME_PREFIX_MAX]; /* of this attempt */
    char **found;                 /* paths that bear the prefix, or may in their data */
    size_t found_count;
    size_t examined; /* of them */
    char *kept;      /* the one that is ours, while it is examined */
    struct conclave_stat kept_stat;
    struct watch_slot other; /* on another's node of the fixed name */
    int64_t other_czxid;     /* of the last one seen, 0: none */
    bool doubt;              /* an answer was lost: a server that lags must not hide our node */
    protected_create_fn done;
};

void protected_create_init(struct protected_create *create, struct handle *owner,
                           protected_create_fn done);

/* Begins; the client must be connected. */
void protected_create_start(struct protected_create *create, const struct protected_node *node);

/* Ends with CONCLAVE_ECANCELED as soon as it is sure that nothing is left; not at once. */
void protected_create_cancel(struct protected_create *create);

/* Looks again: to be called at every change of the client's state. */
void protected_create_run(struct protected_create *create);

void protected_create_finish(struct protected_create *create);

#endif
