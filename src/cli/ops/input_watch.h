/* Tells when the standard input ends: then the process that began this one has ended, or wants it to end. */
#ifndef CLI_OPS_INPUT_WATCH_H
#define CLI_OPS_INPUT_WATCH_H

#include <stdbool.h>
#include <uv.h>

struct input_watch {
    uv_poll_t poll;
    bool open;
    void (*ended)(void *ctx); /* once */
    void *ctx;
};

/* Begins to read and discard the standard input; the struct must be zeroed. False: it is neither a pipe, a socket nor a
 * terminal, so nothing tells of its end. */
bool input_watch_open(struct input_watch *w, uv_loop_t *loop, void (*ended)(void *ctx), void *ctx);

/* Also of one that is not open. The struct lives until the loop has run. */
void input_watch_close(struct input_watch *w);

#endif
