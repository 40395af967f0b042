/*
 * The command that `conclave queue take` and `conclave barrier enter` run, by way of the guardian (guardian.h): in a
 * process group of its own, and ended with all its descendants when the lease of its claim ends, on a signal, and when
 * this process dies.
 */
#ifndef CLI_RUN_ITEM_COMMAND_H
#define CLI_RUN_ITEM_COMMAND_H

#include "cli/common/waiter.h"
#include "cli/run/guardian.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

struct item_command {
    struct lease_page page;
    struct supervisor_spec supervisor;
    struct guardian guardian;
    int input_fd; /* of the commands' input, -1: they have this process's */
};
#define ITEM_COMMAND_NONE                                                                          \
    {                                                                                              \
        .page = {.fd = -1}, .guardian = {.fd = -1, .other_fd = -1}, .input_fd = -1                 \
    }

/* One run. */
struct item_command_job {
    struct child_term term;                         /* unleased unless lease_until_ns is there */
    int64_t (*lease_until_ns)(const void *holding); /* 0: not known, or over */
    const void *holding;
    const atomic_bool *lost; /* set by another thread, which then wakes the waiter */
    const void *input;
    size_t input_len;
};

/* How it ended. */
struct item_command_end {
    int exit_code; /* 0-255; 128+n when signal n killed it; 126, 127: it could not be executed */
    int signal;    /* that came for this process meanwhile and ends it; 0: none */
    bool lost;     /* it was stopped, or not started, as the claim was over */
    bool denied;   /* the system refused to kill it when it had to end */
};

/* Starts the guardian: to be called before there are threads. program: without terminal and input, copied. input: each
 * command gets an input of its own. The exit code after an error was printed, 0 to continue. Finish in any case. */
int item_command_init(struct item_command *w, const struct child_program *program,
                      bool input) CONCLAVE_MUST_USE;
void item_command_finish(struct item_command *w); /* also of ITEM_COMMAND_NONE */

/* Runs it to its end, when nothing is left of it. Signals that the waiter reads are passed on to its group. 0;
 * CONCLAVE_ENOMEM: it was not started; CONCLAVE_ECLOSED: the guardian is gone, and the command with it. */
int item_command_run(struct item_command *w, const struct item_command_job *job,
                     struct waiter *waiter, struct item_command_end *ret);

#endif
