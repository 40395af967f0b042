/*
 * For operators: a hand-over to a named contender of an election or a lock. What the functions here and
 * conclave_elector_hand_over (conclave/elector_admin.h) say of their outcome.
 *
 * The present holder steps down of its own accord: its process must be one of this library, and the nodes
 * have the names of CONCLAVE_NAMING_NATIVE. The holder has stopped before the named contender begins, whose token is
 * larger. The contenders between the two join again behind the named one, one after the other, and so does
 * the holder, if it queues again.
 */
#ifndef CONCLAVE_HAND_OVER_H
#define CONCLAVE_HAND_OVER_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

enum conclave_hand_over_outcome {
    CONCLAVE_HAND_OVER_DONE,           /* the member is active and ready; the contender is first */
    CONCLAVE_HAND_OVER_NOBODY_ACTIVE,  /* nobody is active who could hand over */
    CONCLAVE_HAND_OVER_NO_MEMBER,      /* it is not there, or has gone meanwhile */
    CONCLAVE_HAND_OVER_NOT_HEALTHY,    /* elector: it is not healthy, or no longer */
    CONCLAVE_HAND_OVER_OBSERVER,       /* elector: it is an observer */
    CONCLAVE_HAND_OVER_ANOTHER_ACTIVE, /* elector: a third one became active, or the previous anew */
    CONCLAVE_HAND_OVER_LATE,           /* it has not become active and ready in time */
    CONCLAVE_HAND_OVER_FOREIGN,   /* the contenders have the names of another library's clients */
    CONCLAVE_HAND_OVER_AMBIGUOUS, /* several contenders have this id: name one's node */
};

/* "DONE", "NO_MEMBER", ... Static. */
CONCLAVE_API const char *conclave_hand_over_outcome_name(enum conclave_hand_over_outcome outcome);

/* Begin with CONCLAVE_HAND_OVER_INIT; the library sets the rest. */
struct conclave_hand_over {
    size_t size;
    enum conclave_hand_over_outcome outcome;
    /* Id of the member or contender that is active or first now, "" if none is. The beginning of one that is longer. */
    char active[256];
    struct conclave_token token; /* its token */
};
#define CONCLAVE_HAND_OVER_INIT CONCLAVE_INIT(conclave_hand_over)

/*
 * Makes a candidate that waits lead in place of the present leader, or a contender that waits hold the
 * lock in place of the present holders. to: its id or the name of its node, as in the list of participants or
 * contenders. A leader gets on_revoked with CONCLAVE_ECANCELED and queues again at the end, if it has the option
 * requeue; else its election ends with that error. A holder of a lock gets on_hand_over_request, and may ignore it.
 * 0: done, or it was first already. CONCLAVE_ECANCELED: not done, see ret->outcome; CONCLAVE_HAND_OVER_LATE: the holder
 * has not stepped down within timeout_ms, because its process is stuck, ignores requests or is of an older version.
 * CONCLAVE_EBUSY: another hand-over is in progress. CONCLAVE_NO_AUTH: to create a node below path and to write to the
 * holder's node must be permitted. After an error other than ECANCELED and EBUSY the holder may have begun to step
 * down: look who leads. ret may be NULL. Blocking: also CONCLAVE_EINVAL, CONCLAVE_EDEADLK in a callback.
 *
 * If the named one dies meanwhile, the next in line takes over (CONCLAVE_HAND_OVER_NO_MEMBER). If the holder dies, the
 * named one still comes before all others. The request is an ephemeral node below path, which is deleted in the end; if
 * this process dies first, it goes with its session.
 * Limits: other libraries' contenders take no part. While no session holds the lead, whoever has seen no request yet may
 * lead for a moment before it lets the named one pass. Semaphores have no hand-over.
 */
CONCLAVE_API int conclave_election_hand_over(struct conclave_recipes *recipes, const char *path,
                                             const char *to, int64_t timeout_ms,
                                             struct conclave_hand_over *ret) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_lock_hand_over(struct conclave_recipes *recipes, const char *path,
                                         const char *to, int64_t timeout_ms,
                                         struct conclave_hand_over *ret) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
