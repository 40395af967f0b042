#define _GNU_SOURCE /* asprintf, pipe2 */
#include "testing/server_child.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 512, ARGUMENTS_MAX = 256, END_MS = 10000 };

extern char **environ;

static int child_fail(char **ret_problem, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int child_fail(char **ret_problem, int error, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
    }
    va_end(arguments);
    *ret_problem = text;
    return error;
}

static bool copy_word(const char *line, const char *key, char ret[CHILD_ADDRESS_MAX])
{
    const char *at = strstr(line, key);
    if (at == NULL) {
        return false;
    }
    at += strlen(key);
    size_t len = strcspn(at, " \n");
    if (len == 0 || len >= CHILD_ADDRESS_MAX) {
        return false;
    }
    memcpy(ret, at, len);
    ret[len] = '\0';
    return true;
}

bool server_child_read_line(const char *line, struct server_child *ret)
{
    static const char BEGIN[] = "conclave: ready ";
    return strncmp(line, BEGIN, strlen(BEGIN)) == 0 && copy_word(line, " client=", ret->hosts) &&
           copy_word(line, " admin=", ret->admin);
}

static void close_end(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* How it ended, as a text; waits for its end. */
static void describe_end(struct server_child *c, char *text, size_t size)
{
    int status = 0;
    pid_t done;
    while ((done = waitpid(c->pid, &status, 0)) < 0 && errno == EINTR) {}
    if (done == c->pid && WIFEXITED(status)) {
        snprintf(text, size, "exit code %d", WEXITSTATUS(status));
    } else if (done == c->pid && WIFSIGNALED(status)) {
        snprintf(text, size, "signal %d", WTERMSIG(status));
    } else {
        snprintf(text, size, "unknown exit code");
    }
    c->pid = 0;
}

/* Starts the process with these ends of the pipes. An errno. */
static int spawn(struct server_child *c, const char *program, const char *const *arguments,
                 int input, int output)
{
    const char *words[ARGUMENTS_MAX + 5] = {program, "server", "--test", "--until-eof"};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    size_t count = 4;
    while (arguments != NULL && arguments[count - 4] != NULL) {
        words[count] = arguments[count - 4];
        if (++count == ARGUMENTS_MAX + 4) {
            return E2BIG;
        }
    }
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    sigemptyset(&none);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    }
    if (error == 0) {
        error = posix_spawnp(&c->pid, program, &actions, &attributes,
                             (char *const *)(uintptr_t)words, environ);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Reads its first line. 0, CONCLAVE_EIO (the end of its output) or CONCLAVE_ETIMEDOUT. */
static int read_line(struct server_child *c, int64_t timeout_ms, char line[LINE_MAX_BYTES])
{
    int64_t deadline_ms = clock_monotonic_ms(clock_system()) + timeout_ms;
    size_t len = 0;
    line[0] = '\0';
    while (strchr(line, '\n') == NULL && len + 1 < LINE_MAX_BYTES) {
        struct pollfd wait = {.fd = c->output, .events = POLLIN};
        int64_t left_ms = deadline_ms - clock_monotonic_ms(clock_system());
        if (left_ms <= 0) {
            return CONCLAVE_ETIMEDOUT;
        }
        int found = poll(&wait, 1, left_ms < 1000 ? (int)left_ms : 1000);
        if (found <= 0) {
            continue; /* a signal, or the time is checked again */
        }
        ssize_t n = read(c->output, line + len, LINE_MAX_BYTES - 1 - len);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
            return CONCLAVE_EIO;
        }
        len += n > 0 ? (size_t)n : 0;
        line[len] = '\0';
    }
    return 0;
}

/* Waits for the ready line; on failure the process has ended. */
static int await_ready(struct server_child *c, const char *program, int64_t timeout_ms,
                       char **ret_problem)
{
    char line[LINE_MAX_BYTES];
    char how[64];
    int rc = read_line(c, timeout_ms, line);
    if (rc == 0 && server_child_read_line(line, c)) {
        return 0;
    }
    close_end(&c->input);
    if (rc != CONCLAVE_EIO) {
        (void)kill(c->pid, SIGKILL);
    }
    describe_end(c, how, sizeof how);
    if (rc == CONCLAVE_ETIMEDOUT) {
        return child_fail(ret_problem, rc, "%s was not ready in time: give it more with timeout_ms",
                          program);
    }
    if (rc == CONCLAVE_EIO) {
        return child_fail(ret_problem, rc, "%s ended before it was ready, %s: its stderr says why",
                          program, how);
    }
    return child_fail(ret_problem, CONCLAVE_EIO,
                      "%s is no conclave that knows --test: its first line is \"%.100s\"", program,
                      line);
}

int server_child_start(struct server_child *c, const char *program, const char *const *arguments,
                       int64_t timeout_ms, char **ret_problem)
{
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int rc = 0;
    *c = (struct server_child){.input = -1, .output = -1};
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        rc = child_fail(ret_problem, CONCLAVE_EIO, "no pipe for the server: %s", strerror(errno));
    } else {
        int error = spawn(c, program, arguments, in[0], out[1]);
        if (error != 0) {
            rc = child_fail(ret_problem, error == ENOMEM ? CONCLAVE_ENOMEM : CONCLAVE_EIO,
                            "cannot start %s: %s: install conclave, or name the program in the "
                            "option program or the environment variable CONCLAVE",
                            program, strerror(error));
        }
    }
    close_end(&in[0]);
    close_end(&out[1]);
    c->input = in[1];
    c->output = out[0];
    if (rc == 0) {
        rc = await_ready(c, program, timeout_ms, ret_problem);
    }
    if (rc != 0) {
        close_end(&c->input);
        close_end(&c->output);
    }
    assert(rc != 0 || c->pid > 0);
    return rc;
}

int server_child_end(struct server_child *c)
{
    const struct timespec nap = {.tv_nsec = 200000};
    int64_t deadline_ms = clock_monotonic_ms(clock_system()) + END_MS;
    int status = 0;
    assert(c->pid > 0);
    pid_t done = waitpid(c->pid, &status, WNOHANG);
    bool early = done != 0;
    bool killed = false;
    close_end(&c->input);
    while (done == 0 || (done < 0 && errno == EINTR)) {
        if (!killed && clock_monotonic_ms(clock_system()) > deadline_ms) {
            killed = kill(c->pid, SIGKILL) == 0;
        }
        (void)nanosleep(&nap, NULL);
        done = waitpid(c->pid, &status, WNOHANG);
    }
    close_end(&c->output);
    c->pid = 0;
    return early || killed || !WIFEXITED(status) || WEXITSTATUS(status) != 0 ? CONCLAVE_EIO : 0;
}
