/*
 * The command that `conclave elect`, `lock`, `semaphore`, `switch`, `queue take` or `barrier enter` runs: its environment,
 * its start, and the end of all its descendants.
 *
 * Only async-signal-safe functions run between fork and exec, so a process with threads may start it.
 */
#ifndef CLI_RUN_CHILD_H
#define CLI_RUN_CHILD_H

#include <conclave/error.h>

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_NODE_MAX 256

struct buf;

/* The data that a term gives to the child. */
struct child_term {
    int64_t token;
    int64_t session_id;
    int64_t session_timeout_ms;
    int64_t grace_ms;          /* from the kill-signal to SIGKILL */
    char node[CHILD_NODE_MAX]; /* name of the contender's node; of the item */
    bool unleased; /* no lease ends it, only its own end, a signal, or the wrapper's end */
    int attempt;   /* of an item */
    int priority;
};

struct child_spec;

/* The command, the same for each term. Borrowed. */
struct child_program {
    const char *command; /* of conclave, for messages: "elect" */
    char *const *argv;
    /* Its own variables, "NAME=value" with a NUL behind each, CHILD_VARIABLES_MAX at most. */
    void (*variables)(const struct child_spec *spec, struct buf *out);
    const char *path;     /* of the election, lock, queue or barrier */
    const char *role;     /* "leader"; of child_variables_of_holder */
    const char *id;       /* of the contender, the same; of a queue the folder of its claims */
    int tty_fd;           /* terminal whose foreground it gets, -1: none */
    int input_fd;         /* file that is its input from the beginning on, -1: it inherits one */
    const sigset_t *mask; /* signals blocked in the child, as the user's shell left them */
    bool allow_setuid;    /* exec may change its user; else PR_SET_NO_NEW_PRIVS prevents that */
};

/* One start of it. */
struct child_spec {
    const struct child_program *program;
    const struct child_term *term;
    int lease_fd; /* read end of the lease pipe */
    int page_fd;  /* memfd of the lease page */
    int ready_fd; /* write end of the ready pipe, -1: none */
};

enum { CHILD_VARIABLES_MAX = 11 };

/* The variables of a leader or holder. */
void child_variables_of_holder(const struct child_spec *spec, struct buf *out);

/* Starts it as leader of a process group of its own, to be killed when the calling thread ends. ret_exec_fd becomes
 * readable: end of file when it was executed, an int (errno) when it was not; then the child ends by itself with 126
 * or 127. 0, CONCLAVE_ENOMEM or CONCLAVE_EIO (no process, no descriptor). */
int child_start(const struct child_spec *spec, pid_t *ret_pid, int *ret_exec_fd) CONCLAVE_MUST_USE;

enum { CHILD_EXIT_REFUSED = 126, CHILD_EXIT_SIGNAL = 128 };

/* Of a wait status: the exit code, 128 + n after signal n. */
int child_exit_code(int status);

/* 127 for a command that was not found, 126 for one that cannot be executed. */
int child_exec_exit_code(int errno_value);

/* That exit code, after an error was printed. */
int child_tell_exec_failure(const struct child_program *program, int errno_value);

/* Whether execvp would change the user or the group: PATH leads to a setuid or setgid file of another owner. Then an error
 * is printed. */
bool child_changes_user(const struct child_program *program);

/* Prints that the system refuses to let this process end `pid`, and what to do. */
void child_tell_denied(const char *command, pid_t pid);

/* Sends a signal to every direct child of this process but `except`, adopted ones included. Does
 * nothing where the kernel does not list them. The last one that the system refused (EPERM), 0: none. */
pid_t children_signal(int number, pid_t except);

/* Reaps those direct children that have ended, `except` excepted; group: only of that process group, 0:
 * all. The number of those still alive, -1 where the kernel does not list them. */
int children_reap(pid_t except, pid_t group);

#endif
