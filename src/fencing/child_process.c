/* What runs between fork and exec is async-signal-safe, so that it may be started from a process with
 * threads. The program stands unreaped until its group was killed: so long its number is nobody
 * else's. */
#define _GNU_SOURCE /* execvpe, pipe2, memfd_create, syscall */
#include "fencing/child_process.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/environment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DIED = 128,        /* plus the signal's number */
    ASK_MS = 50,       /* between two calls of go_on */
    REAP_MAX_MS = 1000 /* for what was killed to be gone; a disk that hangs may keep it */
};

struct files {
    int input;
    int output; /* -1: our standard error */
    int exec[2];
    int pid; /* a descriptor of the process */
};

static void child_process_close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static void files_close(struct files *f)
{
    child_process_close_fd(&f->input);
    child_process_close_fd(&f->output);
    child_process_close_fd(&f->exec[0]);
    child_process_close_fd(&f->exec[1]);
    child_process_close_fd(&f->pid);
}

static bool files_open(struct files *f, const struct process_spec *spec)
{
    if (spec->input.len == 0) {
        f->input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } else {
        f->input = memfd_create("conclave-input", MFD_CLOEXEC);
        if (f->input >= 0 &&
            (!fd_write_all(f->input, spec->input) || lseek(f->input, 0, SEEK_SET) != 0)) {
            return false;
        }
    }
    if (spec->output != NULL) {
        f->output = memfd_create("conclave-output", MFD_CLOEXEC);
    }
    return f->input >= 0 && (spec->output == NULL || f->output >= 0) &&
           pipe2(f->exec, O_CLOEXEC) == 0;
}

static _Noreturn void run_program(const struct process_spec *spec, char **envp,
                                  const struct files *f, pid_t parent)
{
    sigset_t none;
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(DIED + SIGKILL);
    }
    int failure = 0;
    if (dup2(f->input, STDIN_FILENO) < 0 ||
        dup2(f->output >= 0 ? f->output : STDERR_FILENO, STDOUT_FILENO) < 0) {
        failure = errno;
    }
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (failure == 0) {
        execvpe(spec->argv[0], (char *const *)(uintptr_t)spec->argv, envp);
        failure = errno;
    }
    ssize_t written = write(f->exec[1], &failure, sizeof failure);
    (void)written;
    _exit(DIED - 1);
}

/* -1 with errno when there is no process to be had. */
static pid_t child_process_start(const struct process_spec *spec, char **envp,
                                 const struct files *f)
{
    sigset_t all;
    sigset_t before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        run_program(spec, envp, f, parent);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid > 0) {
        setpgid(pid, pid); /* both do it: whoever comes first */
    }
    return pid;
}

/* Until it ends, the time is over, or it is broken off: 0, CONCLAVE_ETIMEDOUT, CONCLAVE_ECANCELED. */
static int wait_for_end(const struct process_spec *spec, int pid_fd)
{
    assert(pid_fd >= 0);
    int64_t began_ms = clock_monotonic_ms(clock_system());
    for (;;) {
        int64_t left_ms = spec->go_on != NULL ? ASK_MS : INT32_MAX;
        struct pollfd fds[] = {{.fd = pid_fd, .events = POLLIN},
                               {.fd = spec->stop_fd, .events = POLLIN}};
        if (spec->timeout_ms >= 0) {
            int64_t end_ms = began_ms + spec->timeout_ms - clock_monotonic_ms(clock_system());
            end_ms = end_ms > 0 ? end_ms : 0;
            left_ms = end_ms < left_ms ? end_ms : left_ms;
        }
        (void)poll(fds, 2, (int)left_ms);
        if (fds[0].revents != 0) {
            return 0;
        }
        if (fds[1].revents != 0 || (spec->go_on != NULL && !spec->go_on(spec->go_on_ctx))) {
            return CONCLAVE_ECANCELED;
        }
        if (spec->timeout_ms >= 0 &&
            clock_monotonic_ms(clock_system()) - began_ms >= spec->timeout_ms) {
            return CONCLAVE_ETIMEDOUT;
        }
    }
}

/* Kills what is left of the group and takes in what of it is ours; the program's wait status, -1 when it was
 * not there to be had. */
static int end_group(pid_t pid)
{
    int status = -1;
    assert(pid > 1); /* others are groups of strangers, or everybody */
    kill(-pid, SIGKILL);
    for (int waited_ms = 0; waited_ms < REAP_MAX_MS;) {
        int one;
        pid_t got = waitpid(-pid, &one, WNOHANG);
        if (got == pid) {
            status = one;
        } else if (got < 0 && errno != EINTR) {
            break;
        } else if (got == 0) {
            usleep(1000);
            waited_ms++;
        }
    }
    return status;
}

static void read_output(const struct process_spec *spec, int fd)
{
    if (spec->output != NULL) {
        assert(fd >= 0 && spec->output_size > 0);
        ssize_t n = pread(fd, spec->output, spec->output_size - 1, 0);
        spec->output[n > 0 ? n : 0] = '\0';
    }
}

static int child_process_run(const struct process_spec *spec, char **envp, struct files *f,
                             int *ret_code)
{
    int failure = 0;
    if (!files_open(f, spec)) {
        *ret_code = errno;
        return CONCLAVE_EIO;
    }
    pid_t pid = child_process_start(spec, envp, f);
    if (pid < 0) {
        *ret_code = errno;
        return CONCLAVE_EIO;
    }
    child_process_close_fd(&f->exec[1]);
    ssize_t got;
    do {
        got = read(f->exec[0], &failure, sizeof failure);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof failure) {
        failure = 0; /* executed */
    }
    f->pid = (int)syscall(SYS_pidfd_open, pid, 0);
    if (f->pid < 0 && failure == 0) {
        /* ECHILD: it has ended, and the kernel kept nothing. */
        failure = errno == ESRCH ? ECHILD : errno;
    }
    int error = failure != 0 ? CONCLAVE_EIO : wait_for_end(spec, f->pid);
    int status = end_group(pid);
    if (error == 0 && status < 0) {
        error = CONCLAVE_EIO; /* how it ended is not known: that is no success */
        failure = ECHILD;
    }
    if (error == CONCLAVE_EIO) {
        *ret_code = failure;
    } else if (error == 0) {
        *ret_code = WIFSIGNALED(status) ? DIED + WTERMSIG(status) : WEXITSTATUS(status);
        read_output(spec, f->output);
    }
    return error;
}

int process_run(const struct process_spec *spec, int *ret_code)
{
    struct files files = {-1, -1, {-1, -1}, -1};
    char **envp = environment_with(spec->more);
    if (envp == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int error = child_process_run(spec, envp, &files, ret_code);
    files_close(&files);
    free(envp);
    return error;
}
