#define _GNU_SOURCE /* POSIX_SPAWN_*, syscall */
#include "cli/run/run_command.h"

#include "base/environment.h"
#include "cli/run/child.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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
    return child_exit_code(status);
}
