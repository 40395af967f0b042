/* One poll over signalfd, eventfd, stdin and one more descriptor. Signals are answered first, the input last. */
#include "cli/common/waiter.h"

#include <conclave/error.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

const int WAITER_END_SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, 0};

int waiter_init(struct waiter *w, const int *signals, bool input)
{
    sigset_t set;
    sigemptyset(&set);
    for (; *signals != 0; signals++) {
        sigaddset(&set, *signals);
    }
    *w = (struct waiter){.signal_fd = -1, .wake_fd = -1, .input = input};
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0) {
        w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    if (w->signal_fd < 0 || w->wake_fd < 0) {
        waiter_finish(w);
        return CONCLAVE_EIO;
    }
    return 0;
}

void waiter_finish(struct waiter *w)
{
    if (w->signal_fd >= 0) {
        close(w->signal_fd);
    }
    if (w->wake_fd >= 0) {
        close(w->wake_fd);
    }
    w->signal_fd = w->wake_fd = -1;
}

void waiter_wake(struct waiter *w)
{
    uint64_t one = 1;
    /* Fails only when the counter is full: then a wake-up is waiting already. */
    ssize_t ignored = write(w->wake_fd, &one, sizeof one);
    (void)ignored;
}

void waiter_end(struct waiter *w, int error)
{
    int none = 0;
    if (error != 0 && error != CONCLAVE_ECLOSED) {
        (void)atomic_compare_exchange_strong(&w->error, &none, error);
        waiter_wake(w);
    }
}

int waiter_error(struct waiter *w)
{
    return atomic_load(&w->error);
}

/* The meaning of poll's result; WAITER_TIMEOUT when no time remains. */
static enum waiter_event waiter_read(struct waiter *w, const struct pollfd *fds, int *ret_signal)
{
    struct signalfd_siginfo info;
    uint64_t count;
    char block[4096];
    if (fds[0].revents != 0 && read(w->signal_fd, &info, sizeof info) == sizeof info) {
        *ret_signal = (int)info.ssi_signo;
        return WAITER_SIGNAL;
    }
    if (fds[1].revents != 0 && read(w->wake_fd, &count, sizeof count) == sizeof count) {
        return WAITER_WOKEN;
    }
    if (fds[2].revents != 0) {
        return WAITER_FD;
    }
    if (fds[3].revents != 0) {
        ssize_t n = read(STDIN_FILENO, block, sizeof block);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
            w->input = false;
            return WAITER_INPUT_END;
        }
    }
    return WAITER_TIMEOUT;
}

enum waiter_event waiter_wait(struct waiter *w, int extra_fd, int64_t timeout_ms, int *ret_signal)
{
    struct pollfd fds[4] = {
        {.fd = w->signal_fd, .events = POLLIN},
        {.fd = w->wake_fd, .events = POLLIN},
        {.fd = extra_fd, .events = POLLIN},
        {.fd = w->input ? STDIN_FILENO : -1, .events = POLLIN},
    };
    int wait = timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;
    for (;;) {
        int n = poll(fds, 4, wait);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return WAITER_TIMEOUT;
        }
        if (n > 0) {
            enum waiter_event event = waiter_read(w, fds, ret_signal);
            /* Input that was dropped: with a time limit the caller counts again. */
            if (event != WAITER_TIMEOUT || timeout_ms >= 0) {
                return event;
            }
        }
    }
}

int waiter_wait_end(struct waiter *w)
{
    int number = 0;
    while (waiter_wait(w, -1, -1, &number) == WAITER_TIMEOUT) {}
    return number;
}
