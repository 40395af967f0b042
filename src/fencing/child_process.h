/*
 * A program that is run beside this one and waited for, for a limited time: methods of fencing, checks
 * of health, commands at a change of state.
 *
 * It gets a process group of its own, which is killed when the time is over, when the wait is broken
 * off, and when the program has ended and left others behind: nothing of it is left when this returns,
 * but what has left the group. It is killed, too, when the thread that runs it ends.
 */
#ifndef FENCING_CHILD_PROCESS_H
#define FENCING_CHILD_PROCESS_H

#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>

struct process_spec {
    const char *const *argv; /* NULL-ended; found by PATH, no shell */
    const char *const *more; /* "NAME=value", NULL-ended: before the environment; may be NULL */
    struct slice input;      /* what it reads; empty: /dev/null */
    char *output; /* what it writes, cut to output_size - 1 bytes and ended by a NUL; NULL: it
                                goes to our standard error, as its errors do */
    size_t output_size;
    int64_t timeout_ms;       /* CONCLAVE_FOREVER or -1: none */
    int stop_fd;              /* readable: the wait is broken off; -1: none */
    bool (*go_on)(void *ctx); /* asked every 50 ms; false: it is broken off; NULL: none */
    void *go_on_ctx;
};

/* Runs it to its end. 0 with its exit code, 128 + n when it died of signal n; CONCLAVE_ETIMEDOUT;
 * CONCLAVE_ECANCELED (stop_fd, go_on); CONCLAVE_ENOMEM; CONCLAVE_EIO, with *ret_code an errno, when it could
 * not be started. Any thread; SIGCHLD must not be ignored. */
int process_run(const struct process_spec *spec, int *ret_code) CONCLAVE_MUST_USE;

#endif
