#define _GNU_SOURCE /* POSIX_SPAWN_*, syscall */
#include "cli/run_command.h"

#include "cli/child.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The environment with `more` before it: what comes first counts. NULL without memory. */
static char **environment_with(const char *const *more)
{
    size_t count = 0;
    size_t added = 0;
    while (environ[count] != NULL) {
        count++;
    }
    while (more[added] != NULL) {
        added++;
    }
    char **all = calloc(count + added + 1, sizeof *all);
    if (all == NULL) {
        return NULL;
    }
    size_t n = 0;
    for (size_t i = 0; i < added; i++) {
        all[n++] = (char *)(uintptr_t)more[i];
    }
    for (size_t i = 0; i < count; i++) {
        bool replaced = false;
        for (size_t j = 0; j < added; j++) {
            size_t name = strcspn(more[j], "=") + 1;
            replaced = replaced || strncmp(environ[i], more[j], name) == 0;
        }
        if (!replaced) {
            all[n++] = environ[i];
        }
    }
    return all;
}

int run_command_start(const char *command, char *const *argv, const char *const *more,
                      pid_t *ret_pid)
{
    posix_spawnattr_t attributes;
    sigset_t none;
    char **environment = environment_with(more);
    int error = ENOMEM;
    if (environment != NULL && posix_spawnattr_init(&attributes) == 0) {
        (void)sigemptyset(&none);
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        error = posix_spawnp(ret_pid, argv[0], NULL, &attributes, argv, environment);
        (void)posix_spawnattr_destroy(&attributes);
    }
    free(environment);
    if (error == 0) {
        return 0;
    }
    fprintf(stderr, "conclave %s: cannot run %s: %s\n", command, argv[0], strerror(error));
    return child_exec_exit_code(error);
}

int run_command_fd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int run_command_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
