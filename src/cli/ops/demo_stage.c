#define _GNU_SOURCE /* pipe2 */
#include "cli/ops/demo_stage.h"

#include "base/clock.h"
#include "cli/common/command.h"
#include "cli/common/values.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int64_t stage_now_ns(void)
{
    return clock_monotonic_ns(clock_system());
}

double stage_seconds_since(int64_t ns)
{
    return (double)(stage_now_ns() - ns) / 1e9;
}

void stage_say(const struct stage *s, const char *fmt, ...)
{
    va_list args;
    if (s->code != 0) {
        return;
    }
    printf("%7.3fs  ", stage_seconds_since(s->began_ns));
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void stage_failed(struct stage *s, const char *fmt, ...)
{
    va_list args;
    if (s->code != 0) {
        return;
    }
    s->code = CLI_EXIT_INTERNAL;
    fprintf(stderr, "conclave demo: step \"%s\" failed: ", s->step);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

void stage_init(struct stage *s)
{
    if (waiter_init(&s->waiter, WAITER_END_SIGNALS, false) != 0 ||
        pipe2(s->words, O_CLOEXEC | O_NONBLOCK) != 0) {
        stage_failed(s, "no descriptors: %s", strerror(errno));
    }
}

void stage_finish(struct stage *s)
{
    stage_end_all(s);
    close(s->words[0]);
    close(s->words[1]);
    waiter_finish(&s->waiter);
}

/* --- processes -------------------------------------------------------------------------------- */

static pid_t *slot_of(struct stage *s, pid_t pid)
{
    for (int i = 0; i < STAGE_PROCESSES_MAX; i++) {
        if (s->processes[i] == pid) {
            return &s->processes[i];
        }
    }
    return NULL;
}

pid_t stage_start(struct stage *s, char *const argv[])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t *slot = slot_of(s, 0);
    if (s->code != 0 || slot == NULL) {
        stage_failed(s, "more processes than %d", STAGE_PROCESSES_MAX);
        return 0;
    }
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, s->words[1], STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    int error = posix_spawn(slot, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        *slot = 0;
        stage_failed(s, "\"conclave %s\" cannot be started: %s", argv[1], strerror(error));
    }
    return *slot;
}

int stage_reap(struct stage *s, pid_t pid, int64_t limit_ms)
{
    int status;
    pid_t *slot = slot_of(s, pid);
    for (int64_t waited_ms = 0;; waited_ms += 5) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            if (slot != NULL) {
                *slot = 0;
            }
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (waited_ms >= limit_ms) {
            return -1;
        }
        usleep(5000);
    }
}

void stage_expect_end(struct stage *s, pid_t pid, const char *words)
{
    int code = pid != 0 ? stage_reap(s, pid, STAGE_STEP_TIMEOUT_MS) : 0;
    if (code != 0) {
        stage_failed(s, "\"conclave %s\" ended with %d", words, code);
    }
}

void stage_end_all(struct stage *s)
{
    for (int i = 0; i < STAGE_PROCESSES_MAX; i++) {
        if (s->processes[i] != 0) {
            kill(s->processes[i], SIGTERM);
        }
    }
    for (int i = 0; i < STAGE_PROCESSES_MAX; i++) {
        pid_t pid = s->processes[i];
        if (pid != 0 && stage_reap(s, pid, STAGE_STOP_TIMEOUT_MS) < 0) {
            kill(pid, SIGKILL);
            stage_reap(s, pid, STAGE_STOP_TIMEOUT_MS);
        }
    }
}

/* --- their output ----------------------------------------------------------------------------- */

/* One line of the pipe, once it is whole. */
static bool line_read(struct stage *s)
{
    while (s->line_len + 1 < sizeof s->line) {
        if (read(s->words[0], s->line + s->line_len, 1) != 1) {
            return false;
        }
        if (s->line[s->line_len] == '\n') {
            s->line[s->line_len] = '\0';
            s->line_len = 0;
            return true;
        }
        s->line_len++;
    }
    s->line_len = 0; /* longer than anything that is waited for */
    return false;
}

static int cut(char *line, const char *ret_words[], int count)
{
    int found = 0;
    while (found < count) {
        char *end = found + 1 == count ? NULL : strpbrk(line, " \t");
        ret_words[found++] = line;
        if (end == NULL) {
            break;
        }
        *end = '\0';
        line = end + 1;
    }
    return found;
}

void stage_hear(struct stage *s, const char *word, const char *ret_words[], int count)
{
    int64_t limit_ns = stage_now_ns() + STAGE_STEP_TIMEOUT_MS * INT64_C(1000000);
    int number;
    while (s->code == 0) {
        while (line_read(s)) {
            bool whole = cut(s->line, ret_words, count) == count;
            if (whole && (word == NULL || strcmp(ret_words[0], word) == 0)) {
                return;
            }
        }
        const char *trouble = s->trouble(s);
        if (trouble != NULL) {
            stage_failed(s, "the server ended: %s", trouble);
        } else if (stage_now_ns() >= limit_ns) {
            stage_failed(s, "nothing was heard within %d s", STAGE_STEP_TIMEOUT_MS / 1000);
        } else if (waiter_wait(&s->waiter, s->words[0], STAGE_STEP_TIMEOUT_MS, &number) ==
                   WAITER_SIGNAL) {
            stage_failed(s, "interrupted");
        }
    }
    for (int i = 0; i < count; i++) {
        ret_words[i] = "";
    }
}

int64_t stage_number(struct stage *s, const char *text)
{
    int64_t number = 0;
    if (!integer_parse(text, 1, INT64_MAX, &number)) {
        stage_failed(s, "\"%s\" is no number", text);
    }
    return number;
}
