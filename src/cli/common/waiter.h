/*
 * Waiting in the main thread for the events that end a command: a signal, the end of the input, or a wake-up by another
 * thread. Make it before any thread starts: the signals are blocked in all of them and read here.
 */
#ifndef CLI_COMMON_WAITER_H
#define CLI_COMMON_WAITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waiter {
    int signal_fd;    /* signalfd of the signals */
    int wake_fd;      /* eventfd */
    bool input;       /* stdin is still watched */
    atomic_int error; /* of waiter_end; 0: none */
};

enum waiter_event {
    WAITER_TIMEOUT,
    WAITER_SIGNAL,    /* *ret_signal */
    WAITER_WOKEN,     /* waiter_wake */
    WAITER_INPUT_END, /* stdin came to its end */
    WAITER_FD,        /* the extra descriptor is readable */
};

/* signals: 0-ended. input: watch stdin for its end, and drop the data. 0 or CONCLAVE_EIO. */
int waiter_init(struct waiter *w, const int *signals, bool input);
void waiter_finish(struct waiter *w);

/* From any thread; several before a wait count as one. */
void waiter_wake(struct waiter *w);

/* From any thread: the command ends for this reason, the first one that is given. Wakes. 0 and
 * CONCLAVE_ECLOSED (the end that was asked for) are none. */
void waiter_end(struct waiter *w, int error);
/* That reason; 0: none. */
int waiter_error(struct waiter *w);

/* Waits at most timeout_ms, -1 being for ever. extra_fd: one more to wait for, or -1. */
enum waiter_event waiter_wait(struct waiter *w, int extra_fd, int64_t timeout_ms, int *ret_signal);

/* Waits for a signal or a wake-up. The signal's number; 0: none. */
int waiter_wait_end(struct waiter *w);

/* INT, TERM, HUP and QUIT: these end a command that would run for ever. */
extern const int WAITER_END_SIGNALS[];

#endif
