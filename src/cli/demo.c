/*
 * conclave demo: the main job in a few seconds. A server in a thread of this process, on a free
 * port of the loopback interface and with a data folder that is removed at the end; three
 * candidates as processes of their own, each `conclave elect`; the leader killed with -9, then the
 * next one told to stop. Every step is checked and timed.
 *
 * Promise: ends by itself, 0 only if all was seen as promised; nothing is left running or on the
 * disk.
 */
#define _GNU_SOURCE /* pipe2, nftw */
#include "cli/command.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/connection.h"
#include "cli/options.h"
#include "cli/values.h"
#include "cli/waiter.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define CANDIDATES 3
#define TICK_MS 200
#define SESSION_TEXT "2s"
#define STEP_TIMEOUT_MS 10000
#define STOP_TIMEOUT_MS 3000
#define PATH "/demo/leader"

extern char **environ;

static const struct command_usage USAGE = {
    .name = "demo",
    .forms = (const char *const[]){"", NULL},
    .about =
        "Shows a hand-over of leadership: starts a server inside this process and three "
        "candidates as processes of their own, kills the leader with -9, tells the next one to "
        "stop, and prints what happens, with the time it took and the fencing tokens. Takes a "
        "few seconds, uses a free port of 127.0.0.1, and leaves nothing behind.",
    .more = "Exit codes: 0 all was seen, 70 a step failed: it is named.\n",
};

/* What a candidate's command says when it runs; it is the child of the guardian. */
struct leader {
    int candidate; /* from 1 */
    int64_t token;
    pid_t guardian;
    pid_t command;
};

struct demo {
    int64_t began_ns;
    const char *step; /* what is being tried */
    char folder[64];  /* data of the server, "" before it is made */
    char address[NET_TEXT_MAX];
    struct waiter waiter;
    pid_t candidates[CANDIDATES]; /* 0: not running */
    int words[2];                 /* pipe on which the candidates' commands speak */
    char line[256];
    size_t line_len;

    /* The server's thread. */
    uv_loop_t loop;
    uv_async_t stop;
    bool running; /* the thread is to be joined */
    pthread_t thread;
    struct server *server;
    pthread_mutex_t lock; /* for what follows */
    bool ready;
    char *failure; /* why it does not serve, heap */
};

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_system());
}

static void say(const struct demo *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct demo *d, const char *fmt, ...)
{
    va_list args;
    printf("%7.3fs  ", (double)(now_ns() - d->began_ns) / 1e9);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* The step did not come out as promised. Returns CLI_EXIT_INTERNAL. */
static int failed(const struct demo *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int failed(const struct demo *d, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "conclave demo: step \"%s\" failed: ", d->step);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return CLI_EXIT_INTERNAL;
}

/* --- the server's thread ---------------------------------------------------------------------- */

static void server_tell(struct demo *d, bool ready, const char *failure)
{
    pthread_mutex_lock(&d->lock);
    d->ready = ready;
    if (failure != NULL && d->failure == NULL) {
        d->failure = strdup(failure);
    }
    pthread_mutex_unlock(&d->lock);
    waiter_wake(&d->waiter);
}

static void on_server_closed(void *ctx)
{
    struct demo *d = ctx;
    d->server = NULL;
    uv_close((uv_handle_t *)&d->stop, NULL);
}

static void server_stop(struct demo *d)
{
    if (d->server != NULL) {
        struct server *server = d->server;
        d->server = NULL;
        server_close(server, on_server_closed, d);
    }
}

static void on_stop(uv_async_t *async)
{
    server_stop(async->data);
}

static void on_ready(void *ctx, struct server *server)
{
    struct demo *d = ctx;
    struct net_address address;
    if (!server_address(server, PORT_CLIENT, &address)) {
        abort(); /* the demo asked for that port */
    }
    net_address_format(&address, d->address);
    server_tell(d, true, NULL);
}

static void on_failed(void *ctx, int error, const char *text)
{
    (void)error;
    server_tell(ctx, false, text);
    server_stop(ctx);
}

static void *server_thread(void *ctx)
{
    struct demo *d = ctx;
    struct server_options options = server_options_default();
    struct server_callbacks callbacks = {.ctx = d, .ready = on_ready, .failed = on_failed};
    char *text = NULL;
    options.data_dir = d->folder;
    snprintf(options.listen.host, sizeof options.listen.host, "127.0.0.1");
    options.listen.port = 0;
    options.limits.tick_ms = TICK_MS;
    options.limits.session_min_ms = 2 * TICK_MS;
    int error = server_open(&d->loop, &options, &callbacks, &d->server, &text);
    if (error != 0) {
        d->server = NULL;
        server_tell(d, false, text != NULL ? text : conclave_strerror(error));
        free(text);
        on_server_closed(d);
    }
    uv_run(&d->loop, UV_RUN_DEFAULT);
    return NULL;
}

static int server_begin(struct demo *d)
{
    const char *tmp = getenv("TMPDIR");
    int number;
    d->step = "start a server";
    snprintf(d->folder, sizeof d->folder, "%s/conclave-demo-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(d->folder) == NULL) {
        int code = failed(d, "no folder like %s can be made: %s", d->folder, strerror(errno));
        d->folder[0] = '\0';
        return code;
    }
    if (uv_loop_init(&d->loop) != 0) {
        return failed(d, "no event loop can be made: out of memory or descriptors");
    }
    d->stop.data = d;
    if (uv_async_init(&d->loop, &d->stop, on_stop) != 0 ||
        pthread_create(&d->thread, NULL, server_thread, d) != 0) {
        return failed(d, "no thread can be made");
    }
    d->running = true;
    int64_t limit_ns = now_ns() + STEP_TIMEOUT_MS * INT64_C(1000000);
    for (;;) {
        pthread_mutex_lock(&d->lock);
        bool ready = d->ready;
        const char *failure = d->failure;
        pthread_mutex_unlock(&d->lock);
        if (failure != NULL) {
            return failed(d, "%s", failure);
        }
        if (ready) {
            say(d, "server ready on %s", d->address);
            return 0;
        }
        if (now_ns() > limit_ns ||
            waiter_wait(&d->waiter, -1, STEP_TIMEOUT_MS, &number) == WAITER_SIGNAL) {
            return failed(d, "not ready in time, or interrupted");
        }
    }
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static int server_end(struct demo *d)
{
    int code = 0;
    if (d->running) {
        uv_async_send(&d->stop);
        pthread_join(d->thread, NULL);
        uv_loop_close(&d->loop);
    }
    if (d->folder[0] != '\0' && nftw(d->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        d->step = "remove the data folder";
        code = failed(d, "%s: %s", d->folder, strerror(errno));
    }
    free(d->failure);
    return code;
}

/* --- the candidates --------------------------------------------------------------------------- */

/* One line for us, then a job that takes longer than the demo. */
static const char SCRIPT[] = "echo \"$CONCLAVE_ID $CONCLAVE_TOKEN $PPID $$\"; exec sleep 60";

static int candidate_start(struct demo *d, int index)
{
    char id[32];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    snprintf(id, sizeof id, "candidate-%d", index + 1);
    char *argv[] = {"conclave",   "elect",     PATH,           "--server", d->address, "--session",
                    SESSION_TEXT, "--timeout", "60s",          "--id",     id,         "--",
                    "sh",         "-c",        (char *)SCRIPT, NULL};
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, d->words[1], STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    int error =
        posix_spawn(&d->candidates[index], "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        d->candidates[index] = 0;
        return failed(d, "%s cannot be started: %s", id, strerror(error));
    }
    return 0;
}

/* Reaps a candidate within the limit; its exit code, 128 + n after signal n, -1 when it still
 * runs. */
static int candidate_wait(struct demo *d, int index, int64_t limit_ms)
{
    int status;
    for (int64_t waited_ms = 0;; waited_ms += 5) {
        if (waitpid(d->candidates[index], &status, WNOHANG) == d->candidates[index]) {
            d->candidates[index] = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (waited_ms >= limit_ms) {
            return -1;
        }
        usleep(5000);
    }
}

static void candidates_end(struct demo *d)
{
    for (int i = 0; i < CANDIDATES; i++) {
        if (d->candidates[i] != 0) {
            kill(d->candidates[i], SIGTERM);
        }
    }
    for (int i = 0; i < CANDIDATES; i++) {
        if (d->candidates[i] != 0 && candidate_wait(d, i, STOP_TIMEOUT_MS) < 0) {
            kill(d->candidates[i], SIGKILL);
            candidate_wait(d, i, STOP_TIMEOUT_MS);
        }
    }
}

/* One line of the pipe, once it is whole. */
static bool line_read(struct demo *d)
{
    while (d->line_len + 1 < sizeof d->line) {
        ssize_t n = read(d->words[0], d->line + d->line_len, 1);
        if (n != 1) {
            return false;
        }
        if (d->line[d->line_len] == '\n') {
            d->line[d->line_len] = '\0';
            d->line_len = 0;
            return true;
        }
        d->line_len++;
    }
    d->line_len = 0;
    return false;
}

/* Waits for the command of the next leader to speak. */
static int leader_wait(struct demo *d, struct leader *ret)
{
    int64_t limit_ns = now_ns() + STEP_TIMEOUT_MS * INT64_C(1000000);
    int number;
    while (!line_read(d)) {
        if (now_ns() >= limit_ns) {
            return failed(d, "no leader within %d s", STEP_TIMEOUT_MS / 1000);
        }
        if (waiter_wait(&d->waiter, d->words[0], STEP_TIMEOUT_MS, &number) == WAITER_SIGNAL) {
            return failed(d, "interrupted");
        }
        pthread_mutex_lock(&d->lock);
        const char *failure = d->failure;
        pthread_mutex_unlock(&d->lock);
        if (failure != NULL) {
            return failed(d, "the server ended: %s", failure);
        }
    }
    char *save = NULL;
    const char *words[4];
    int64_t values[4] = {0};
    for (int i = 0; i < 4; i++) {
        words[i] = strtok_r(i == 0 ? d->line : NULL, " ", &save);
        const char *digits = words[i] == NULL                           ? ""
                             : strncmp(words[i], "candidate-", 10) == 0 ? words[i] + 10
                                                                        : words[i];
        if (!integer_parse(digits, 1, INT64_MAX, &values[i])) {
            return failed(d, "a leader without its environment");
        }
    }
    *ret = (struct leader){(int)values[0], values[1], (pid_t)values[2], (pid_t)values[3]};
    return ret->candidate <= CANDIDATES ? 0 : failed(d, "a leader that we did not start");
}

static double seconds_since(int64_t ns)
{
    return (double)(now_ns() - ns) / 1e9;
}

/* --- the story -------------------------------------------------------------------------------- */

static int first_leader(struct demo *d, struct leader *leader)
{
    d->step = "start three candidates";
    for (int i = 0; i < CANDIDATES; i++) {
        int code = candidate_start(d, i);
        if (code != 0) {
            return code;
        }
    }
    say(d, "three candidates started: processes %d, %d and %d, session timeout " SESSION_TEXT,
        (int)d->candidates[0], (int)d->candidates[1], (int)d->candidates[2]);
    d->step = "elect the first leader";
    int code = leader_wait(d, leader);
    if (code == 0) {
        say(d, "candidate-%d leads, fencing token %" PRId64 "; its command runs as process %d",
            leader->candidate, leader->token, (int)leader->command);
    }
    return code;
}

/* As if the leader's machine had failed: nothing of it is left to say good-bye. */
static int kill_leader(struct demo *d, struct leader *leader)
{
    struct leader next = {0};
    int index = leader->candidate - 1;
    d->step = "hand over after kill -9";
    kill(d->candidates[index], SIGSTOP);
    kill(leader->guardian, SIGKILL);
    kill(leader->command, SIGKILL);
    kill(d->candidates[index], SIGKILL);
    int64_t killed_ns = now_ns();
    say(d, "candidate-%d is killed with -9, and its guardian and command with it",
        leader->candidate);
    candidate_wait(d, index, STOP_TIMEOUT_MS);
    int code = leader_wait(d, &next);
    if (code != 0) {
        return code;
    }
    if (next.token <= leader->token || next.candidate == leader->candidate) {
        return failed(d, "candidate-%d got token %" PRId64 " after %" PRId64, next.candidate,
                      next.token, leader->token);
    }
    say(d,
        "candidate-%d leads %.3fs after the kill: the dead session had to time out first; token "
        "%" PRId64 " > %" PRId64,
        next.candidate, seconds_since(killed_ns), next.token, leader->token);
    *leader = next;
    return 0;
}

static int stop_leader(struct demo *d, struct leader *leader)
{
    struct leader next = {0};
    int index = leader->candidate - 1;
    d->step = "hand over after a clean stop";
    int64_t told_ns = now_ns();
    say(d, "candidate-%d is told to stop (SIGTERM)", leader->candidate);
    kill(d->candidates[index], SIGTERM);
    int code = leader_wait(d, &next);
    if (code != 0) {
        return code;
    }
    if (next.token <= leader->token || next.candidate == leader->candidate) {
        return failed(d, "candidate-%d got token %" PRId64 " after %" PRId64, next.candidate,
                      next.token, leader->token);
    }
    say(d, "candidate-%d leads %.3fs later, nothing had to time out; token %" PRId64 " > %" PRId64,
        next.candidate, seconds_since(told_ns), next.token, leader->token);
    int exit_code = candidate_wait(d, index, STOP_TIMEOUT_MS);
    if (exit_code != 128 + SIGTERM) {
        return failed(d, "candidate-%d ended with %d, not with its command's %d", leader->candidate,
                      exit_code, 128 + SIGTERM);
    }
    *leader = next;
    return 0;
}

static int story(struct demo *d)
{
    struct leader leader = {0};
    int code = server_begin(d);
    if (code == 0) {
        code = first_leader(d, &leader);
    }
    if (code == 0) {
        code = kill_leader(d, &leader);
    }
    if (code == 0) {
        code = stop_leader(d, &leader);
    }
    return code;
}

int command_demo(int argc, char **argv)
{
    struct operands operands;
    struct demo d = {.began_ns = now_ns(),
                     .step = "prepare",
                     .words = {-1, -1},
                     .waiter = {.signal_fd = -1, .wake_fd = -1},
                     .lock = PTHREAD_MUTEX_INITIALIZER};
    int code = options_parse(&USAGE, argc, argv, NULL, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    log_set_level(LOG_ERROR);
    if (waiter_init(&d.waiter, WAITER_END_SIGNALS, false) != 0 ||
        pipe2(d.words, O_CLOEXEC | O_NONBLOCK) != 0) {
        return failed(&d, "no descriptors: %s", strerror(errno));
    }
    code = story(&d);
    candidates_end(&d);
    int end = server_end(&d);
    code = code != 0 ? code : end;
    if (code == 0) {
        say(&d, "all stopped, nothing is left behind");
    }
    close(d.words[0]);
    close(d.words[1]);
    waiter_finish(&d.waiter);
    return output_end(USAGE.name, code);
}
