/* Starting and ending the supervisor. */
#include "cli/run/guardian.h"

#include "base/clock.h"
#include "cli/common/command.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELP_SLACK_NS = 50 * 1000000 }; /* that it has to do its work before we help */

/* The guardian process. It ignores signals to the process groups of the wrapper and of the terminal. */
static _Noreturn void guardian_process(const struct supervisor_spec *spec, int fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "conclave-guard");
    /* Refused to users with a small memory limit: then a page may have to be read back before it kills. */
    mlockall(MCL_CURRENT);
    _exit(supervisor_run(spec, fd) == 0 ? 0 : 1);
}

static void *guardian_thread(void *ctx)
{
    struct guardian *g = ctx;
    supervisor_run(g->spec, g->other_fd);
    /* Reports to the wrapper, if it still listens, that no guardian runs. */
    shutdown(g->other_fd, SHUT_RDWR);
    return NULL;
}

/* 0, or -1 and errno. */
static int guardian_fork(struct guardian *g, const int fds[2])
{
    fflush(NULL);
    g->pid = fork();
    if (g->pid == 0) {
        close(fds[0]);
        guardian_process(g->spec, fds[1]);
    }
    close(fds[1]);
    if (g->pid < 0) {
        g->pid = 0;
        close(fds[0]);
        return -1;
    }
    return 0;
}

static int guardian_start_thread(struct guardian *g, const int fds[2])
{
    g->other_fd = fds[1];
    errno = pthread_create(&g->thread, NULL, guardian_thread, g);
    if (errno != 0) {
        close(fds[0]);
        close(fds[1]);
        return -1;
    }
    return 0;
}

int guardian_start(struct guardian *g, const struct supervisor_spec *spec)
{
    int fds[2];
    sigset_t chld;
    *g = (struct guardian){.spec = spec, .fd = -1, .other_fd = -1};
    assert(spec->program.argv != NULL && spec->program.argv[0] != NULL);
    if (!spec->program.allow_setuid && child_changes_user(&spec->program)) {
        return CHILD_EXIT_REFUSED;
    }
    (void)sigemptyset(&chld);
    (void)sigaddset(&chld, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &chld, NULL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0 ||
        (spec->own_process ? guardian_fork(g, fds) : guardian_start_thread(g, fds)) != 0) {
        fprintf(stderr,
                "conclave %s: cannot start the guardian: %s; free some processes or memory\n",
                spec->program.command, strerror(errno));
        return CLI_EXIT_GUARDIAN;
    }
    g->fd = fds[0];
    return 0;
}

void guardian_finish(struct guardian *g)
{
    if (g->fd < 0) {
        return;
    }
    assert((g->pid != 0) == (g->other_fd < 0)); /* a process or a thread */
    close(g->fd);
    if (g->pid != 0) {
        while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) {}
    } else {
        pthread_join(g->thread, NULL);
        close(g->other_fd);
    }
    g->fd = -1;
}

void guardian_send(struct guardian *g, const struct supervisor_request *request)
{
    ssize_t sent = send(g->fd, request, sizeof *request, MSG_NOSIGNAL);
    (void)sent;
}

void guardian_help(const struct guardian *g, pid_t group, int64_t kill_at_ns)
{
    if (group == 0 || clock_monotonic_ns(clock_system()) <= kill_at_ns + HELP_SLACK_NS) {
        return;
    }
    assert(group > 1); /* else kill would reach others */
    kill(-group, SIGKILL);
    if (g->pid != 0) {
        kill(g->pid, SIGCONT);
    }
}

bool guardian_bury(const struct guardian *g, pid_t group)
{
    bool denied = false;
    siginfo_t end;
    fprintf(stderr, "conclave %s: the guardian process is gone, the command with it\n",
            g->spec->program.command);
    if (group == 0) {
        return true;
    }
    assert(group > 1);
    /* Its socket closes a little before its children become ours. */
    while (g->pid != 0 && waitid(P_PID, (id_t)g->pid, &end, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {}
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        bool ours = waitid(P_PID, (id_t)group, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
        int alive = children_reap(group, group);
        /* The child stays unreaped until the end: until then no other process can get its number. */
        if (alive <= 0 && (!ours || info.si_pid == group)) {
            if (alive < 0) {
                kill(-group, SIGKILL);
            }
            (void)waitpid(group, NULL, WNOHANG);
            return !denied;
        }
        if (kill(-group, SIGKILL) != 0 && errno == EPERM && !denied) {
            denied = true;
            child_tell_denied(g->spec->program.command, group);
        }
        usleep(1000);
    }
}

int guardian_read(struct guardian *g, struct supervisor_report *ret)
{
    ssize_t n = recv(g->fd, ret, sizeof *ret, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof *ret) {
        return 1;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : CONCLAVE_ECLOSED;
}
