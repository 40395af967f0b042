/*
 * What a session's newest writes were answered, kept with the session in every server alike, so that a
 * write that comes again is not carried out again but gets its first answer: on any server, after any
 * change of leader.
 *
 * The client numbers its writes, one by one, and says with each which is the oldest that it waits for.
 * A number above all that were seen is a new write; one that is not is a repetition. What the client
 * has got is forgotten with its next write. Numbers are compared by their distance, so they may wrap.
 *
 * Limits: results in number and in bytes of replies. Beyond them the oldest go, never the newest; a
 * client that keeps to them is never told so. The repetition of one that went is answered
 * CONNECTION_LOSS: nobody knows any more.
 */
#ifndef STATE_EXACTLY_ONCE_H
#define STATE_EXACTLY_ONCE_H

#include "base/account.h"
#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct effects;
struct session;
struct state;
struct wire_reader;
struct write;

/* The answer to one write. */
struct once_result {
    struct list link; /* results.list */
    int32_t number;
    int32_t err;
    int64_t zxid;
    uint64_t digest; /* its part of the state's */
    bool deferred;   /* a reconfig that is under way: there is none yet */
    size_t len;
    uint8_t reply[]; /* the record */
};

/* Of one session. */
struct once_results {
    int32_t count_max;
    int32_t bytes_max;      /* of replies */
    int32_t last;           /* newest number that was seen */
    int32_t forgotten;      /* newest number whose result went */
    int64_t born;           /* zxid when this began: tells it from what the session had earlier */
    struct list list;       /* struct once_result, oldest first */
    struct account account; /* their number and memory; part of the state's */
};

static inline size_t once_results_count(const struct once_results *r)
{
    return r->account.charges[ACCOUNT_RESULTS];
}

/* What stands behind the record in the body of CREATE_SESSION or ATTACH_SESSION. */
struct once_wish {
    int32_t count_max; /* 0: nothing is to be remembered */
    int32_t bytes_max;
};
/* 0 or CONCLAVE_MARSHALLING_ERROR. */
int once_results_read_wish(struct wire_reader *r, struct once_wish *ret);

/* Begins, goes on or ends. */
void once_results_agree(struct state *s, struct session *session, const struct once_wish *wish);

/* For the session's end. */
void once_results_end(struct state *s, struct session *session);

/* Before a numbered command is applied: true when it was answered in the effects instead, and must
 * not be. */
bool once_results_answer(struct write *w);

/* After it was applied. */
void once_results_keep(struct write *w);

/* An answer that was deferred is in the effects. */
void once_results_resume(struct state *s, const struct effects *effects);

/* Both give false, or NULL, when memory is out: for a restore. `like` says what there is but its
 * results, which are then put in ascending order. */
bool once_results_restore(struct state *s, struct session *session,
                          const struct once_results *like);
bool once_results_put(struct state *s, struct session *session, const struct once_result *like,
                      struct slice reply);

#endif
