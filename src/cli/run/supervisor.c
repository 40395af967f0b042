/*
 * The supervisor's loop: one poll over the wrapper's socket, SIGCHLD, the lease's timer
 * (CLOCK_BOOTTIME: a machine that slept wakes with a lease that is over) and the pipes of the
 * child. Each wake-up computes again which actions are due.
 */
#define _GNU_SOURCE /* pipe2 */
#include "cli/run/supervisor.h"

#include "base/clock.h"
#include "base/transition.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define KILL_AGAIN_MS 10 /* orphans appear while their parents are killed */

enum phase { IDLE, RUNNING, STOPPING, KILLING };

struct supervisor {
    const struct supervisor_spec *spec;
    int fd;        /* to the wrapper */
    int signal_fd; /* SIGCHLD */
    int timer_fd;
    enum phase phase;
    bool wrapper_gone;
    bool lost; /* the term ended before the child did */
    pid_t pid; /* of the child, and its process group */
    /* the child itself has ended. It is reaped last: until then its number, which is the group's, is nobody else's */
    bool exited;
    bool reaped;
    bool group_gone; /* its number may be used by others again */
    bool told;       /* that the system refuses to let us signal it */
    bool denied;     /* SIGKILL was refused */
    int status;      /* wait status of the child */
    int64_t grace_ns;
    bool unleased;
    int64_t until_ns; /* last end of the lease that was seen */
    int64_t kill_at_ns;
    int exec_fd;  /* -1: nothing more to be learned */
    int ready_fd; /* read end */
    int lease_fd; /* write end */
};

static const uint16_t SUPERVISOR_NEXT[] = {
    [IDLE] = TRANSITION_TO(RUNNING) | TRANSITION_TO(IDLE), /* it was not started after all */
    [RUNNING] = TRANSITION_TO(STOPPING) | TRANSITION_TO(IDLE),
    [STOPPING] = TRANSITION_TO(KILLING) | TRANSITION_TO(IDLE),
    [KILLING] = TRANSITION_TO(IDLE),
};

static void supervisor_enter(struct supervisor *s, enum phase phase)
{
    transition_check(SUPERVISOR_NEXT, s->phase, phase);
    s->phase = phase;
}

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_system());
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* The wrapper reads few of them and the socket holds hundreds; to a wrapper that is gone nothing is to be told. */
static void report(struct supervisor *s, enum supervisor_news news, int value)
{
    struct supervisor_report packet = {
        .news = news, .value = value, .lost = s->lost, .denied = s->denied};
    ssize_t sent = send(s->fd, &packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

static void deny(struct supervisor *s, pid_t pid, int number)
{
    if (!s->told) {
        child_tell_denied(s->spec->program.command, pid);
    }
    s->told = true;
    s->denied = s->denied || number == SIGKILL;
}

static void group_signal(struct supervisor *s, int number)
{
    if (s->group_gone || kill(-s->pid, number) == 0) {
        return;
    }
    if (errno == ESRCH && s->reaped) {
        s->group_gone = true;
    } else if (errno == EPERM && !(s->exited && s->spec->own_process)) {
        deny(s, s->pid,
             number); /* of a child that has ended, its descendants are asked one by one */
    }
}

static void descendants_signal(struct supervisor *s, int number)
{
    pid_t denied = s->spec->own_process ? children_signal(number, s->exited ? s->pid : 0) : 0;
    if (denied != 0) {
        deny(s, denied, number);
    }
}

/* --- the child's life ------------------------------------------------------------------------- */

static void ended(struct supervisor *s)
{
    close_fd(&s->exec_fd);
    close_fd(&s->ready_fd);
    close_fd(&s->lease_fd);
    if (s->spec->program.tty_fd >= 0) {
        /* SIGTTOU is blocked here, so that a background process may do this. */
        tcsetpgrp(s->spec->program.tty_fd, s->spec->tty_owner);
    }
    supervisor_enter(s, IDLE);
    report(s, SUPERVISOR_ENDED, s->status);
}

/* Pipes and process of a new child. 0 or the errno. */
static int launch(struct supervisor *s, const struct child_term *term)
{
    int lease[2] = {-1, -1};
    int ready[2] = {-1, -1};
    int result = 0;
    if (pipe2(lease, O_CLOEXEC) != 0 || (s->spec->ready && pipe2(ready, O_CLOEXEC) != 0)) {
        result = errno;
    }
    struct child_spec child = {.program = &s->spec->program,
                               .term = term,
                               .lease_fd = lease[0],
                               .page_fd = s->spec->page->fd,
                               .ready_fd = ready[1]};
    if (result == 0 && child_start(&child, &s->pid, &s->exec_fd) != 0) {
        result = EAGAIN;
    }
    close_fd(&lease[0]);
    close_fd(&ready[1]);
    s->lease_fd = lease[1];
    s->ready_fd = ready[0];
    return result;
}

static void supervisor_start(struct supervisor *s, const struct child_term *term)
{
    s->lost = s->told = s->denied = false;
    s->status = 0;
    s->grace_ns = term->grace_ms * NS_PER_MS;
    s->unleased = term->unleased;
    s->until_ns = lease_page_until_ns(s->spec->page);
    if (!s->unleased && s->until_ns <= now_ns()) {
        s->lost = true; /* came too late: it is not started at all */
        ended(s);
        return;
    }
    int error = launch(s, term);
    if (error != 0) {
        report(s, SUPERVISOR_FAILED, error);
        ended(s);
        return;
    }
    supervisor_enter(s, RUNNING);
    s->exited = s->reaped = s->group_gone = false;
}

/* Kill-signal now, SIGKILL at kill_at_ns; a stopped process is woken to take the signal. */
static void stop(struct supervisor *s, bool lost, int64_t kill_at_ns)
{
    if (s->phase == RUNNING) {
        supervisor_enter(s, STOPPING);
        s->kill_at_ns = kill_at_ns;
        if (s->lease_fd >= 0) {
            ssize_t written = write(s->lease_fd, "L", 1);
            (void)written; /* the end of the file says it as well */
        }
        close_fd(&s->lease_fd);
        group_signal(s, s->spec->kill_signal);
        group_signal(s, SIGCONT);
        if (s->exited) {
            descendants_signal(s, s->spec->kill_signal);
        }
    } else if (s->phase == STOPPING && kill_at_ns < s->kill_at_ns) {
        s->kill_at_ns = kill_at_ns;
    }
    s->lost = s->lost || (lost && !s->exited);
}

/* How the exec went: the pipe closes with it, or brings the errno. */
static void read_exec(struct supervisor *s)
{
    int failure;
    ssize_t n = read(s->exec_fd, &failure, sizeof failure);
    if (n == (ssize_t)sizeof failure) {
        report(s, SUPERVISOR_FAILED, failure);
    } else {
        report(s, SUPERVISOR_STARTED, (int)s->pid);
    }
    close_fd(&s->exec_fd);
}

/* Learns of the child's stops and of its end, and reaps those that were adopted meanwhile. */
static void watch_child(struct supervisor *s)
{
    bool own = s->spec->own_process;
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)s->pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0 &&
        info.si_status != SIGSTOP && s->phase == RUNNING) {
        report(s, SUPERVISOR_STOPPED, info.si_status);
    }
    for (;;) {
        info.si_pid = 0;
        if (waitid(own ? P_ALL : P_PGID, own ? 0 : (id_t)s->pid, &info,
                   WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0) {
            return;
        }
        if (info.si_pid == s->pid) {
            s->exited = true;
            if (s->exec_fd >= 0) {
                read_exec(s); /* it was quicker than the poll */
            }
            return;
        }
        (void)waitpid(info.si_pid, NULL, WNOHANG);
    }
}

/* Whether nothing is left. In a thread only the group is ours; here every child is, orphans being given to us. */
static bool reap(struct supervisor *s)
{
    bool own = s->spec->own_process;
    pid_t pid;
    if (!s->exited) {
        watch_child(s);
    }
    if (s->exited && !s->reaped) {
        int alive = children_reap(s->pid, own ? 0 : s->pid);
        if (alive > 0) {
            return false;
        }
        s->reaped = waitpid(s->pid, &s->status, WNOHANG) == s->pid;
        s->group_gone = own && alive == 0;
    }
    if (!s->reaped) {
        return false;
    }
    while ((pid = waitpid(own ? -1 : -s->pid, NULL, WNOHANG)) > 0) {}
    if (pid == 0) {
        return false;
    }
    if (!own) {
        group_signal(s, 0);
        return s->group_gone;
    }
    return true;
}

/* Does all that the time and the lease demand. */
static void supervise(struct supervisor *s)
{
    int64_t now = now_ns();
    int64_t until = lease_page_until_ns(s->spec->page);
    if (until > 0) {
        s->until_ns = until;
    }
    int64_t end_ns = (s->unleased ? now : s->until_ns) + s->grace_ns;
    if (s->phase == IDLE) {
        return;
    }
    if (reap(s)) {
        ended(s);
        return;
    }
    if (s->phase == RUNNING && (s->wrapper_gone || (!s->unleased && now >= s->until_ns))) {
        stop(s, true, end_ns);
    } else if (s->phase == RUNNING && s->exited) {
        stop(s, false, now + s->grace_ns < end_ns ? now + s->grace_ns : end_ns);
    }
    if (s->phase == STOPPING && now >= s->kill_at_ns) {
        supervisor_enter(s, KILLING);
    }
    if (s->phase == KILLING) {
        group_signal(s, SIGKILL);
        descendants_signal(s, SIGKILL);
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

/* false when there was nothing to read. */
static bool read_request(struct supervisor *s)
{
    struct supervisor_request request;
    ssize_t n = recv(s->fd, &request, sizeof request, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n != (ssize_t)sizeof request) {
        s->wrapper_gone = true;
        if (s->phase != IDLE) {
            dprintf(STDERR_FILENO, "conclave %s: the wrapper is gone: ending the command\n",
                    s->spec->program.command);
        }
        return false;
    }
    if (request.ask == SUPERVISOR_START && s->phase == IDLE) {
        supervisor_start(s, &request.term);
    } else if (request.ask == SUPERVISOR_SIGNAL && s->phase != IDLE) {
        group_signal(s, request.number);
    } else if (request.ask == SUPERVISOR_STOP && s->phase != IDLE) {
        stop(s, true, request.kill_at_ns);
    }
    return true;
}

static void read_ready(struct supervisor *s)
{
    char text[64];
    ssize_t n = read(s->ready_fd, text, sizeof text - 1);
    if (n <= 0) {
        close_fd(&s->ready_fd);
        return;
    }
    text[n] = '\0';
    const char *word = strstr(text, "READY=1");
    if (word != NULL && (word == text || word[-1] == '\n')) {
        report(s, SUPERVISOR_READY, 0);
        close_fd(&s->ready_fd);
    }
}

/* Next moment at which something is due by time, 0: none. */
static int64_t deadline_ns(const struct supervisor *s)
{
    int64_t again = now_ns() + KILL_AGAIN_MS * NS_PER_MS;
    switch (s->phase) {
    case IDLE:
        return 0;
    case RUNNING:
        return s->unleased ? 0 : s->until_ns;
    case STOPPING:
        return s->spec->own_process || s->kill_at_ns < again ? s->kill_at_ns : again;
    case KILLING:
        return again;
    }
    return 0;
}

static void wait_for_news(struct supervisor *s)
{
    int64_t at = deadline_ns(s);
    struct itimerspec timer = {.it_value = {at / 1000000000, at % 1000000000}};
    struct signalfd_siginfo info;
    uint64_t count;
    struct pollfd fds[] = {
        {.fd = s->wrapper_gone ? -1 : s->fd, .events = POLLIN},
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = s->timer_fd, .events = POLLIN},
        {.fd = s->exec_fd, .events = POLLIN},
        {.fd = s->ready_fd, .events = POLLIN},
    };
    timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    if (poll(fds, sizeof fds / sizeof fds[0], -1) < 0) {
        return;
    }
    while (read(s->signal_fd, &info, sizeof info) > 0 ||
           read(s->timer_fd, &count, sizeof count) > 0) {}
    if (fds[3].revents != 0) {
        read_exec(s);
    }
    if (fds[4].revents != 0) {
        read_ready(s);
    }
    while (fds[0].revents != 0 && read_request(s)) {}
}

int supervisor_run(const struct supervisor_spec *spec, int fd)
{
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    struct supervisor s = {.spec = spec, .fd = fd, .exec_fd = -1, .ready_fd = -1, .lease_fd = -1};
    s.signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    s.timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    bool able = s.signal_fd >= 0 && s.timer_fd >= 0;
    if (able && spec->own_process) {
        able = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    }
    while (able && (!s.wrapper_gone || s.phase != IDLE)) {
        wait_for_news(&s);
        supervise(&s);
    }
    close_fd(&s.signal_fd);
    close_fd(&s.timer_fd);
    return able ? 0 : CONCLAVE_EIO;
}
