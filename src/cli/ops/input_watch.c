#include "cli/ops/input_watch.h"

#include <errno.h>
#include <unistd.h>

static void on_input(uv_poll_t *poll, int status, int events)
{
    struct input_watch *w = poll->data;
    char ignored[4096];
    ssize_t n = status == 0 ? read(STDIN_FILENO, ignored, sizeof ignored) : 0;
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
        return;
    }
    input_watch_close(w);
    w->ended(w->ctx);
}

bool input_watch_open(struct input_watch *w, uv_loop_t *loop, void (*ended)(void *ctx), void *ctx)
{
    *w = (struct input_watch){.ended = ended, .ctx = ctx};
    if (uv_poll_init(loop, &w->poll, STDIN_FILENO) != 0) {
        return false; /* a file, or /dev/null, which epoll refuses */
    }
    w->poll.data = w;
    w->open = true;
    return uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, on_input) == 0;
}

void input_watch_close(struct input_watch *w)
{
    if (w->open) {
        w->open = false;
        uv_close((uv_handle_t *)&w->poll, NULL);
    }
}
