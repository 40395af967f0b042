/*
 * What `conclave lock` and `conclave semaphore` share: options, checks, what they print when it is not got in time, and
 * --list (holders_output.h).
 */
#ifndef CLI_RECIPES_ACQUIRE_H
#define CLI_RECIPES_ACQUIRE_H

#include "cli/run/hold_command.h"

/* The first member of the command's own options. */
struct acquire_options {
    struct hold_options turn;
    bool try;
    bool list;
};

#define ACQUIRE_ROWS(not_free)                                                                     \
    {"try",       0,                                                                               \
     OPTION_FLAG, offsetof(struct acquire_options, try),                                           \
     NULL,        "Do not wait. Give up, with exit code 75, when " not_free " now.",               \
     NULL},                                                                                        \
        {"timeout",                                                                                \
         0,                                                                                        \
         OPTION_DURATION,                                                                          \
         offsetof(struct acquire_options, turn.common.timeout_ms),                                 \
         "DURATION",                                                                               \
         "Give up after this time, with exit code 75. Default: wait forever.",                     \
         NULL},                                                                                    \
        {"conflict-exit-code",                                                                     \
         'E',                                                                                      \
         OPTION_INTEGER,                                                                           \
         offsetof(struct acquire_options, turn.timeout_exit),                                      \
         "N",                                                                                      \
         "Exit code instead of 75.",                                                               \
         NULL},                                                                                    \
    {                                                                                              \
        "list", 'l', OPTION_FLAG, offsetof(struct acquire_options, list), NULL,                    \
            "Print holders and waiters in order, and end.", NULL                                   \
    }

/* Fills in what was not given and checks what both commands have. OPTIONS_GO_ON or the exit code. */
int acquire_finish(struct acquire_options *options, const struct command_usage *usage,
                   const struct hold_kind *kind, const struct operands *operands);

/* Lists, or holds. The exit code. */
int acquire_run(const struct acquire_options *options, bool semaphore);

/* It was not got: `taken` with --try, `late` with --timeout, and how to see who holds it. */
void acquire_tell_timeout(const struct hold *r, const char *taken, const char *late,
                          const char *see);

#endif
