/* A command that `conclave group` and `conclave config` run beside themselves: started with more in its
 * environment, and waited for. */
#ifndef CLI_RUN_RUN_COMMAND_H
#define CLI_RUN_RUN_COMMAND_H

#include <conclave/error.h>

#include <sys/types.h>

/* Starts argv (NULL-ended; found by PATH, no shell) with the words of `more` ("NAME=value",
 * NULL-ended) in its environment and the signals as this process was given them. 0, or 127 (not found) or
 * 126 (not to be executed) after that was told. From any thread. */
int run_command_start(const char *command, char *const *argv, const char *const *more,
                      pid_t *ret_pid);

/* A descriptor that becomes readable when the process has ended; -1: none to be had. */
int run_command_fd(pid_t pid);

/* Waits for it. Its exit code, 128 + n when it died of signal n. */
int run_command_wait(pid_t pid);

#endif
