/* The arguments that `elect`, `lock` and `semaphore` share: defaults and checks. */
#include "cli/run/hold_command.h"

#include "cli/common/values.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int hold_options_check(const struct hold_options *options)
{
    if (options->kill_signal == SIGSTOP || options->kill_signal == SIGCONT) {
        return usage_error(options->usage, "--kill-signal wants a signal that ends a process");
    }
    if (options->id[0] == '\0' || strchr(options->id, '\n') != NULL ||
        strlen(options->id) >= TURN_ID_MAX) {
        return usage_error(options->usage, "--id wants 1 to %d bytes on one line", TURN_ID_MAX - 1);
    }
    if (strcmp(options->path, "/") == 0) {
        return usage_error(options->usage, "the %s needs a node of its own, not \"/\"",
                           options->kind->thing);
    }
    if (options->status_fd >= 0 &&
        (options->status_fd > INT32_MAX || fcntl((int)options->status_fd, F_GETFD) < 0)) {
        return usage_error(options->usage, "--status-fd %lld is not open for writing",
                           (long long)options->status_fd);
    }
    if (options->timeout_exit < 0 || options->timeout_exit > 255) {
        return usage_error(options->usage, "-E wants an exit code, from 0 to 255");
    }
    return path_check(options->usage, options->path);
}

int hold_options_finish(struct hold_options *options, const struct operands *operands)
{
    options->id = options->id != NULL ? options->id : host_pid_text(options->id_space);
    options->path = operands->words[0];
    options->command = operands->command;
    int code = hold_options_check(options);
    if (code == 0 && options->status_fd >= 0) {
        fcntl((int)options->status_fd, F_SETFD, FD_CLOEXEC); /* nothing that we start gets it */
    }
    return code;
}
