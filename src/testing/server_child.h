/*
 * The child process of a server for tests: started with pipes on its standard input and output, ready when it says so,
 * ended by closing the one to its input. POSIX; Limits: one line of output is read, of at most 512 bytes.
 */
#ifndef TESTING_SERVER_CHILD_H
#define TESTING_SERVER_CHILD_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHILD_ADDRESS_MAX = 128 };

struct server_child {
    pid_t pid;
    int input;  /* our end of its standard input */
    int output; /* of its standard output */
    char hosts[CHILD_ADDRESS_MAX];
    char admin[CHILD_ADDRESS_MAX];
};

/* Starts it and waits until it is ready. arguments: further ones, ending with NULL, or NULL. 0; or CONCLAVE_EIO,
 * CONCLAVE_ETIMEDOUT, CONCLAVE_ENOMEM with *ret_problem (free it; NULL: memory is out), and nothing is left. */
int server_child_start(struct server_child *c, const char *program, const char *const *arguments,
                       int64_t timeout_ms, char **ret_problem) CONCLAVE_MUST_USE;

/* Ends it: by the end of its input, after ten seconds by SIGKILL. 0; CONCLAVE_EIO: it had ended before, or its exit code
 * is not 0. */
int server_child_end(struct server_child *c);

/* The addresses in a ready line. False: it is none. */
bool server_child_read_line(const char *line, struct server_child *ret);

#endif
