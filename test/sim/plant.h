/*
 * Faults planted on purpose, one at a time, to show that each check notices what it is for. They are put
 * between the product's files by the linker (--wrap), so the product has no trace of them.
 */
#ifndef SIM_PLANT_H
#define SIM_PLANT_H

#include <stdbool.h>
#include <stddef.h>

/* X(NAME, which rule is broken) */
#define PLANTS(X)                                                                                  \
    X(NONE, "no rule")                                                                             \
    X(SKIP_FSYNC, "what is reported durable is synced")                                            \
    X(VOTE_NOT_DURABLE, "term and vote are durable before they are told")                          \
    X(EARLY_COMMIT, "what is applied is on a majority's disks")                                    \
    X(STALE_READ, "a read index is confirmed by a round")                                          \
    X(DOUBLE_APPLY, "a batch is admitted once")                                                    \
    X(FORGETFUL, "a write that comes again is not carried out again")                              \
    X(DIVERGE, "every server carries out every command")                                           \
    X(EARLY_EXPIRY, "a session lives its whole timeout")                                           \
    X(NO_EXPIRY, "a session ends when its time is over")                                           \
    X(LOST_WATCH, "every watch is told")                                                           \
    X(TOLD_TWICE, "every change is told once")                                                     \
    X(NOT_REARMED, "persistent watches are set again on a new link")                               \
    X(NOT_RESUMED, "a persistent watch says when it may have missed something")                    \
    X(SHALLOW, "a recursive watch hears of all below its path")                                    \
    X(NEVER_VOTES, "who shall vote and has caught up votes")                                       \
    X(OTHER_MEMBERS, "every server has the same members")                                          \
    X(BACKWARDS, "a session never sees an older state")                                            \
    X(DEAF, "a server that is back takes part again")                                              \
    X(UNREPORTED, "every sign of life is reported to the leader")                                  \
    X(BOLD, "a server answers only while the leader has its reports")                              \
    X(HASTY, "the leader waits for the reports of the server whose session it ends")               \
    X(OVERDUE, "a session that was silent for its whole timeout is not answered")                  \
    X(LINGERING, "a link to read only ends when there is a quorum")                                \
    X(NOT_UPGRADED, "a local session that makes an ephemeral node becomes one of all servers")     \
    X(LOCAL_UNHEARD, "every sign of life keeps a local session alive")                             \
    X(UPGRADED_UNREPORTED, "a session that was upgraded is reported to the leader")

enum plant {
#define PLANT_ENUM(NAME, rule) PLANT_##NAME,
    PLANTS(PLANT_ENUM)
#undef PLANT_ENUM
        PLANT_COUNT,
};

const char *plant_name(enum plant plant);
const char *plant_rule(enum plant plant);
bool plant_parse(const char *name, enum plant *ret);

/* Whether the run under way has this one. */
bool planted(enum plant plant);

/* The head of a function's replacement, and the function itself. */
#define WRAP(result, function, parameters)                                                         \
    result __real_##function parameters;                                                           \
    result __wrap_##function parameters;                                                           \
    result __wrap_##function parameters

#endif
