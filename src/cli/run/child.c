/* Environment, fork and exec of the child; never through a shell. */
#define _GNU_SOURCE /* execvpe, pipe2, environ */
#include "cli/run/child.h"

#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- environment ------------------------------------------------------------------------------ */

void child_variables_of_holder(const struct child_spec *spec, struct buf *out)
{
    const struct child_program *p = spec->program;
    const struct child_term *term = spec->term;
    buf_printf(out, "CONCLAVE_ROLE=%s%c", p->role, 0);
    buf_printf(out, "CONCLAVE_PATH=%s%c", p->path, 0);
    buf_printf(out, "CONCLAVE_NODE=%s/%s%c", p->path, term->node, 0);
    buf_printf(out, "CONCLAVE_TOKEN=%" PRId64 "%c", term->token, 0);
    buf_printf(out, "CONCLAVE_ID=%s%c", p->id, 0);
    buf_printf(out, "CONCLAVE_SESSION=0x%" PRIx64 "%c", (uint64_t)term->session_id, 0);
    buf_printf(out, "CONCLAVE_SESSION_TIMEOUT_MS=%" PRId64 "%c", term->session_timeout_ms, 0);
    buf_printf(out, "CONCLAVE_LEASE_FD=%d%c", spec->lease_fd, 0);
    buf_printf(out, "CONCLAVE_LEASE_SHM_FD=%d%c", spec->page_fd, 0);
    if (spec->ready_fd >= 0) {
        buf_printf(out, "CONCLAVE_READY_FD=%d%c", spec->ready_fd, 0);
    }
}

/* Whether an outer election, lock or queue left this variable for its own child. */
static bool is_ours(const char *variable)
{
    static const char *const NAMES[] = {
        "CONCLAVE_ROLE",
        "CONCLAVE_PATH",
        "CONCLAVE_NODE",
        "CONCLAVE_TOKEN",
        "CONCLAVE_ID",
        "CONCLAVE_SESSION",
        "CONCLAVE_SESSION_TIMEOUT_MS",
        "CONCLAVE_LEASE_FD",
        "CONCLAVE_LEASE_SHM_FD",
        "CONCLAVE_READY_FD",
        "CONCLAVE_TOKEN_ENSEMBLE",
        "CONCLAVE_CLAIM",
        "CONCLAVE_ATTEMPT",
        "CONCLAVE_PRIORITY",
    };
    size_t len = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strlen(NAMES[i]) == len && memcmp(NAMES[i], variable, len) == 0) {
            return true;
        }
    }
    return false;
}

/* The child's environment: an array for free; its own variables point into block. NULL when memory is out. */
static char **environment_create(const struct child_spec *spec, struct buf *block)
{
    size_t count = 0;
    size_t kept = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **envp = calloc(count + CHILD_VARIABLES_MAX + 1, sizeof *envp);
    spec->program->variables(spec, block);
    if (envp == NULL || !buf_ok(block)) {
        free(envp);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_ours(environ[i])) {
            envp[kept++] = environ[i];
        }
    }
    for (size_t at = 0; at < block->len; at += strlen((char *)block->data + at) + 1) {
        envp[kept++] = (char *)block->data + at;
    }
    return envp;
}

/* --- start ------------------------------------------------------------------------------------ */

static void keep_over_exec(int fd)
{
    if (fd >= 0) {
        fcntl(fd, F_SETFD, 0);
    }
}

int child_exit_code(int status)
{
    return WIFSIGNALED(status) ? CHILD_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_exec_exit_code(int errno_value)
{
    return errno_value == ENOENT || errno_value == ENOTDIR ? 127 : 126;
}

int child_tell_exec_failure(const struct child_program *program, int errno_value)
{
    fprintf(stderr, "conclave %s: cannot execute %s: %s\n", program->command, program->argv[0],
            strerror(errno_value));
    return child_exec_exit_code(errno_value);
}

/* In the child, with all signals blocked. parent: of the fork. */
static _Noreturn void child_run(const struct child_spec *spec, char **envp, pid_t parent,
                                int exec_fd)
{
    const struct child_program *p = spec->program;
    setpgid(0, 0);
    if (p->tty_fd >= 0) {
        tcsetpgrp(p->tty_fd, getpid());
    }
    /* The parent may have ended before it was asked for. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(126);
    }
    if (p->input_fd >= 0 &&
        (lseek(p->input_fd, 0, SEEK_SET) != 0 || dup2(p->input_fd, STDIN_FILENO) < 0)) {
        _exit(126);
    }
    /* A child of another user could not be signalled, and exec would clear the signal above. */
    if (!p->allow_setuid && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        _exit(126);
    }
    signal(SIGPIPE, SIG_DFL);
    keep_over_exec(spec->lease_fd);
    keep_over_exec(spec->page_fd);
    keep_over_exec(spec->ready_fd);
    sigprocmask(SIG_SETMASK, p->mask, NULL);
    execvpe(p->argv[0], p->argv, envp);
    int failure = errno;
    ssize_t written = write(exec_fd, &failure, sizeof failure);
    (void)written;
    _exit(child_exec_exit_code(failure));
}

int child_start(const struct child_spec *spec, pid_t *ret_pid, int *ret_exec_fd)
{
    int fds[2];
    sigset_t all, before;
    struct buf block;
    buf_init(&block, 0);
    char **envp = environment_create(spec, &block);
    if (envp == NULL) {
        buf_finish(&block);
        return CONCLAVE_ENOMEM;
    }
    pid_t pid = -1;
    if (pipe2(fds, O_CLOEXEC) == 0) {
        pid_t parent = getpid();
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pid = fork();
        if (pid == 0) {
            child_run(spec, envp, parent, fds[1]);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        close(fds[1]);
        if (pid < 0) {
            close(fds[0]);
        }
    }
    free(envp);
    buf_finish(&block);
    if (pid < 0) {
        return CONCLAVE_EIO;
    }
    /* The child does it, too; the first one counts. Refused once the child was executed. */
    setpgid(pid, pid);
    *ret_pid = pid;
    *ret_exec_fd = fds[0];
    return 0;
}

/* --- other users ------------------------------------------------------------------------------ */

/* Whether exec of this file gives the process another user or group; *ret_found: it can be executed. */
static bool file_changes_user(const char *path, bool *ret_found)
{
    struct stat st;
    *ret_found = stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
    return *ret_found && (((st.st_mode & S_ISUID) != 0 && st.st_uid != geteuid()) ||
                          ((st.st_mode & S_ISGID) != 0 && st.st_gid != getegid()));
}

bool child_changes_user(const struct child_program *program)
{
    const char *file = program->argv[0];
    char path[PATH_MAX];
    const char *folders = getenv("PATH");
    bool found = false;
    bool changes = false;
    if (strchr(file, '/') != NULL) {
        (void)snprintf(path, sizeof path, "%s", file);
        changes = file_changes_user(file, &found);
    } else {
        folders = folders != NULL ? folders : "/bin:/usr/bin"; /* as execvp does */
        for (const char *at = folders; at != NULL && !found;) {
            size_t len = strcspn(at, ":");
            (void)snprintf(path, sizeof path, "%.*s%s%s", (int)len, at, len > 0 ? "/" : "", file);
            changes = file_changes_user(path, &found);
            at = at[len] == ':' ? at + len + 1 : NULL;
        }
    }
    if (changes) {
        fprintf(
            stderr,
            "conclave %s: %s is a setuid or setgid file: it would run as another user, and this "
            "process could not end it in time; run conclave itself as that user, or accept two "
            "holders at once with --allow-setuid\n",
            program->command, path);
    }
    return changes;
}

void child_tell_denied(const char *command, pid_t pid)
{
    dprintf(STDERR_FILENO,
            "conclave %s: cannot end process %d: it runs as another user (%s); its node is kept as "
            "long as the session lives, then ANOTHER PROCESS MAY TAKE OVER while this one still "
            "runs: end it as that user or as root with \"kill -KILL %d\"\n",
            command, (int)pid, strerror(EPERM), (int)pid);
}

/* --- descendants ------------------------------------------------------------------------------ */

/* Calls visit for the children of all threads of this process. False: the kernel does not list them. */
static bool children_visit(void (*visit)(pid_t pid, void *ctx), void *ctx)
{
    bool listed = false;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        char path[sizeof "/proc/self/task//children" + sizeof task->d_name];
        int pid;
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/children", task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(path, "re") : NULL;
        if (file == NULL) {
            continue;
        }
        listed = true;
        /* clang-tidy: the kernel writes these numbers. */
        while (fscanf(file, "%d", &pid) == 1) { /* NOLINT(cert-err34-c) */
            if (pid > 1) {
                visit(pid, ctx);
            }
        }
        fclose(file);
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return listed;
}

struct signalling {
    int number;
    pid_t except;
    pid_t denied;
};

static void signal_one(pid_t pid, void *ctx)
{
    struct signalling *s = ctx;
    if (pid != s->except && kill(pid, s->number) != 0 && errno == EPERM) {
        s->denied = pid;
    }
}

pid_t children_signal(int number, pid_t except)
{
    struct signalling s = {.number = number, .except = except};
    (void)children_visit(signal_one, &s);
    return s.denied;
}

struct reaping {
    pid_t except;
    pid_t group;
    int alive;
};

static void reap_one(pid_t pid, void *ctx)
{
    struct reaping *r = ctx;
    if (pid != r->except && (r->group == 0 || getpgid(pid) == r->group) &&
        waitpid(pid, NULL, WNOHANG) == 0) {
        r->alive++;
    }
}

int children_reap(pid_t except, pid_t group)
{
    struct reaping r = {.except = except, .group = group};
    return children_visit(reap_one, &r) ? r.alive : -1;
}
