/*
 * From a snapshot and the log entries behind it to the state at a moment: as a server comes to its state, but without one.
 * The entries come from a backup file (backup_load.h), or from a data folder that nobody serves (folder_load.h).
 */
#ifndef BACKUP_REPLAY_H
#define BACKUP_REPLAY_H

#include "state/entry/replacement.h"
#include "state/state.h"

/* The moment to stop at; all zero: the last entry. */
struct backup_moment {
    int64_t zxid;    /* the state after this change */
    int64_t time_ms; /* the state before the first later change, by the leaders' clocks */
};

/* A command that was applied. */
struct backup_change {
    const struct batch_header *header;
    const struct command *command;
    const struct effects *effects;
};

/* Called after each command and (change NULL) after each other entry that changed the state. The first call is for the state
 * that the replay begins with. */
typedef void (*replay_changed_fn)(void *ctx, const struct state *s,
                                  const struct backup_change *change);

/* One entry of the log. */
struct replay_entry {
    uint32_t kind; /* enum entry_kind */
    uint64_t index;
    uint64_t term;
    struct slice payload; /* borrowed */
};

/* A snapshot to begin with. */
struct replay_snapshot {
    uint64_t index; /* of the last entry that it contains */
    uint64_t term;
    struct slice content;
    struct slice configuration; /* of the log at that index */
    /* Called while it is read, with the bytes of the content that are not needed any more; or NULL. */
    void (*passed)(void *ctx, struct slice bytes);
    void *ctx;
};

/* The moment is reached: no error, but the rest is of no use. */
enum { REPLAY_STOPPED = 1 };

struct replay {
    struct state *state; /* NULL before replay_begin */
    uint64_t index;      /* of the last entry that was applied, whole or in part */
    uint64_t term;
    int64_t begin_zxid; /* the first state */
    int64_t begin_ms;   /* its time; 0: unknown */
    int64_t time_ms;    /* of the last change; 0: unknown */
    uint64_t entries;
    char *text; /* what is wrong, after an error; NULL: the code says it */

    /* private */
    struct backup_moment moment;
    replay_changed_fn changed;
    void *ctx;
    struct effects effects;
    struct replacement_pieces pieces; /* of a state that replaces the whole */
    struct hash_key key;
    bool stopped;
};

/* changed may be NULL. */
void replay_init(struct replay *r, const struct backup_moment *moment, replay_changed_fn changed,
                 void *ctx);

/* Frees what the caller has not taken out of it: state and text. */
void replay_finish(struct replay *r);

/* These three return 0, REPLAY_STOPPED, or an error with r->text. The first state: an empty one, before entry 1; or that of a
 * snapshot. CONCLAVE_EINVAL: the moment is before it. */
int replay_begin_empty(struct replay *r) CONCLAVE_MUST_USE;
int replay_begin(struct replay *r, const struct replay_snapshot *from) CONCLAVE_MUST_USE;
int replay_apply(struct replay *r, const struct replay_entry *entry) CONCLAVE_MUST_USE;

/* At the end: whether the state is that of the moment. 0 or CONCLAVE_EINVAL; `where` names what was read. */
int replay_judge(struct replay *r, const char *where) CONCLAVE_MUST_USE;

#endif
