/*
 * The answers to a session's newest writes, kept with the session on every server, so that a repeated write is not
 * applied again but gets its first answer: on any server, after any change of leader.
 *
 * The client numbers its writes one by one, and names with each write the oldest one without an answer. A number above
 * all earlier ones is a new write; any other is a repetition. Results that the client has received are forgotten with
 * its next write. Numbers are compared by their distance, so they may wrap.
 *
 * Limits: the number of results and the bytes of their replies. Beyond them the oldest results are forgotten, never the
 * newest; a client that keeps within the limits does not notice. The repetition of a forgotten write gets
 * CONNECTION_LOSS, because its outcome is unknown.
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
    uint64_t digest; /* its part of the state's digest */
    bool deferred;   /* a reconfig in progress: no answer yet */
    size_t len;
    uint8_t reply[]; /* the reply record */
};

/* The results of one session. */
struct once_results {
    int32_t count_max;
    int32_t bytes_max; /* limit of the bytes of replies */
    int32_t last;      /* newest number so far */
    int32_t forgotten; /* newest number whose result was forgotten */
    int64_t born; /* zxid of the beginning: distinguishes it from earlier results of the session */
    struct list list;       /* struct once_result, oldest first */
    struct account account; /* their number and memory; part of the state's account */
};

static inline size_t once_results_count(const struct once_results *r)
{
    return r->account.charges[ACCOUNT_RESULTS];
}

/* What follows the record in the body of CREATE_SESSION or ATTACH_SESSION. */
struct once_wish {
    int32_t count_max; /* 0: remember nothing */
    int32_t bytes_max;
};
/* 0 or CONCLAVE_MARSHALLING_ERROR. */
int once_results_read_wish(struct wire_reader *r, struct once_wish *ret);

/* Begins, continues or ends remembering. */
void once_results_agree(struct state *s, struct session *session, const struct once_wish *wish);

/* Call it at the session's end. */
void once_results_end(struct state *s, struct session *session);

/* Call it before a numbered command is applied. True: the effects have the remembered answer, and the command must not
 * be applied. */
bool once_results_answer(struct write *w);

/* Call it after the command was applied. */
void once_results_keep(struct write *w);

/* The effects have an answer that was deferred. */
void once_results_resume(struct state *s, const struct effects *effects);

/* Both are for a restore; false or NULL: out of memory. `like` has all fields except the results, which are then added
 * in ascending order. */
bool once_results_restore(struct state *s, struct session *session,
                          const struct once_results *like);
bool once_results_put(struct state *s, struct session *session, const struct once_result *like,
                      struct slice reply);

#endif
