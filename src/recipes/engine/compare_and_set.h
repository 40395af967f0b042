/*
 * A node's data compared by version and set, exactly once, even if the answer is lost.
 *
 * The write and a marker go in one transaction. The marker is a node of this writer alone,
 * <path>.writers/<guid>, whose data are the number of the write: so it tells, on any later link and in
 * any later session, whether the write was done, even if others have written since. Not done and
 * the version as it was: it is sent again; whichever of the two arrives first, the other one fails
 * by its version. Not done and another version: it never will be.
 *
 * The marker lasts, so that it outlives the session, and is removed at the end. If a process
 * died and left its marker, later writers of the same path remove it once it is more than a day old by
 * the server's clock.
 *
 * Version -1 means "any" to servers, so it cannot be compared: callers refuse it.
 *
 * Lock of the client held for all functions.
 */
#ifndef RECIPES_ENGINE_COMPARE_AND_SET_H
#define RECIPES_ENGINE_COMPARE_AND_SET_H

#include "recipes/engine/protected_create.h"

/* As the expected version: the node must not be there. */
enum { CAS_ABSENT = -2 };

/*   IDLE --write--> SEND --lost answer--> MARKER --not written--> NODE --as expected--> SEND
 *   SEND, MARKER, NODE --outcome known--> IDLE     NODE --link lost--> MARKER     IDLE --end--> REMOVE --> ENDED */
enum cas_phase {
    CAS_IDLE,
    CAS_SEND,
    CAS_MARKER, /* in doubt: read the marker */
    CAS_NODE,   /* the write was not done: read the node */
    CAS_REMOVE, /* the marker is being removed */
    CAS_ENDED,
};

struct cas_result {
    int32_t version; /* of the node after the write */
    int64_t mzxid;
};

struct cas {
    struct machine machine;
    const char *path; /* borrowed, as acl is */
    const struct conclave_acl *acl;
    size_t acl_count;
    /* 0 and what became of it; CONCLAVE_BAD_VERSION, CONCLAVE_NO_NODE, CONCLAVE_NODE_EXISTS: nothing was
     * done; else why not. */
    void (*done)(struct cas *cas, int error, const struct cas_result *result);
    void (*ended)(struct cas *cas);

    char *folder; /* <path>.writers */
    char *parent; /* of the node, NULL: the root */
    char *marker;
    bool marked; /* the marker exists, as far as known */
    uint64_t number;
    enum cas_phase phase;
    bool ending;
    bool synced; /* since the doubt began */
    bool tried;  /* the write was sent, if only once */
    struct step step;
    struct ensure_path ensure;
    const void *data; /* borrowed until done */
    size_t data_len;
    int32_t expected;

    struct step sweep_step;
    bool swept;   /* left-overs were looked for */
    char **names; /* of markers to be looked at */
    size_t names_count;
    int64_t now_ms; /* by the server's clock */
};

/* 0 or CONCLAVE_ENOMEM; before the handle is initialised. */
int cas_init(struct cas *cas, const char *path) CONCLAVE_MUST_USE;

/* After it; everything borrowed is set. */
void cas_begin(struct cas *cas, struct handle *owner);

/* Idle only. */
void cas_write(struct cas *cas, const void *data, size_t len, int32_t expected);

/* Takes the write back if nothing of it was ever sent; `done` is not called then. */
bool cas_cancel(struct cas *cas);

/* Finishes the write, if there is one, removes the marker, and calls `ended`. */
void cas_end(struct cas *cas);

void cas_on_state(struct cas *cas, enum conclave_state state);

/* Zeroed memory is all right. */
void cas_finish(struct cas *cas);

#endif
