/*
 * The command that `conclave queue take` and `conclave barrier enter` run: started in a process
 * group of its own, told to stop by a signal, killed when it does not, and killed with this process.
 */
#ifndef CLI_QUEUE_WORKER_H
#define CLI_QUEUE_WORKER_H

#include "cli/waiter.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

struct worker_spec {
    char *const *argv;
    const void *input; /* its stdin; NULL: this process's own */
    size_t input_len;
    const char *const *environment; /* "NAME=value" to be added, NULL-ended */
    const sigset_t *mask;           /* signals blocked in it */
    int64_t grace_ms;               /* from TERM to KILL */
};

/* How it ended. */
struct worker_end {
    int exit_code; /* 0-255; 128+n when signal n killed it; 126, 127: it could not be executed */
    int signal;    /* that came for this process meanwhile and ends it; 0: none */
    bool lost;     /* it was stopped, as *lost had become true */
};

/* Runs it to its end. Signals that the waiter reads are passed on to its group. lost: set by
 * another thread, which then wakes the waiter. 0, CONCLAVE_ENOMEM, CONCLAVE_EIO: it did not
 * start. */
int worker_run(const struct worker_spec *spec, struct waiter *waiter, const atomic_bool *lost,
               struct worker_end *ret);

#endif
