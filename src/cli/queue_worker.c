#define _GNU_SOURCE /* memfd_create, execvpe, pidfd_open */
#include "cli/queue_worker.h"

#include "cli/child.h"

#include <conclave/error.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The whole environment, to be freed; the strings are borrowed. Names that are added come first: of
 * two with one name that is the one that is found. */
static char **make_environment(const char *const *added)
{
    size_t own = 0;
    size_t count = 0;
    while (environ[own] != NULL) {
        own++;
    }
    while (added[count] != NULL) {
        count++;
    }
    char **all = calloc(own + count + 1, sizeof *all);
    for (size_t i = 0; all != NULL && i < count; i++) {
        all[i] = (char *)(uintptr_t)added[i];
    }
    for (size_t i = 0; all != NULL && i < own; i++) {
        all[count + i] = environ[i];
    }
    return all;
}

/* A file in memory, so that a command that does not read cannot block anybody. -1: none. */
static int make_input(const void *data, size_t len)
{
    int fd = memfd_create("conclave-item", MFD_CLOEXEC);
    const char *at = data;
    while (fd >= 0 && len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += n;
        len -= (size_t)n;
    }
    if (fd >= 0) {
        (void)lseek(fd, 0, SEEK_SET);
    }
    return fd;
}

/* In the child: what stands here is async-signal-safe. */
static void be_worker(const struct worker_spec *spec, pid_t parent, int input, char *const *env)
{
    (void)setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        (input >= 0 && dup2(input, STDIN_FILENO) < 0)) {
        _exit(126);
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, spec->mask, NULL);
    (void)execvpe(spec->argv[0], spec->argv, env);
    _exit(child_exec_exit_code(errno));
}

static int worker_start(const struct worker_spec *spec, pid_t *ret_pid, int *ret_fd)
{
    pid_t parent = getpid();
    char **env = make_environment(spec->environment);
    int input = spec->input != NULL ? make_input(spec->input, spec->input_len) : -1;
    int error = 0;
    if (env == NULL || (spec->input != NULL && input < 0)) {
        error = CONCLAVE_ENOMEM;
        goto out;
    }
    pid_t pid = fork();
    if (pid == 0) {
        be_worker(spec, parent, input, env);
    }
    if (pid < 0) {
        error = CONCLAVE_EIO;
        goto out;
    }
    (void)setpgid(pid, pid); /* both do it: whoever comes first */
    *ret_pid = pid;
    *ret_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (*ret_fd < 0) {
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        error = CONCLAVE_EIO;
    }
out:
    if (input >= 0) {
        close(input);
    }
    free(env);
    return error;
}

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int worker_run(const struct worker_spec *spec, struct waiter *waiter, const atomic_bool *lost,
               struct worker_end *ret)
{
    struct worker_end end = {0};
    pid_t pid;
    int fd;
    int status = 0;
    int number = 0;
    int64_t kill_at = -1;
    int error = worker_start(spec, &pid, &fd);
    if (error != 0) {
        return error;
    }
    for (bool alive = true; alive;) {
        int64_t wait = kill_at < 0 ? -1 : kill_at - now_ms();
        enum waiter_event event = waiter_wait(waiter, fd, wait < -1 ? 0 : wait, &number);
        if (event == WAITER_FD) {
            alive = false;
        } else if (event == WAITER_SIGNAL) {
            (void)kill(-pid, number);
            end.signal = number;
        } else if (kill_at >= 0 && now_ms() >= kill_at) {
            (void)kill(-pid, SIGKILL);
            kill_at = now_ms() + 1000;
        }
        if (atomic_load(lost) && !end.lost) {
            end.lost = true;
            (void)kill(-pid, SIGTERM);
            kill_at = now_ms() + spec->grace_ms;
        }
    }
    (void)kill(-pid, end.lost ? SIGKILL : SIGTERM); /* what it left behind */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    close(fd);
    end.exit_code = code_of(status);
    *ret = end;
    return 0;
}
