/*
 * conclave elect|lock|semaphore|switch PATH [-- CMD]: queues up, and keeps a child, or what it got alone,
 * while it has it.
 *
 *              connected          granted            child ended, lost, signal, end of input
 *   CONNECTING ──────────> WAITING ────────> HOLDING ─────────────────────────> LEAVING ──> DONE
 *     │    ^                  │                                                  ^   │
 *     │    │                  └──────── signal, timeout, closed ─────────────────┘   │
 *     │  BACKOFF <─────────────────────────── --forever, or its place lost ──────────┘
 *     v
 *   DONE (not connected in time, signal)
 *
 * With `lasting` a term that the library ended goes from HOLDING back to WAITING, with the same handle.
 *
 * The machine runs in the main thread. The library's threads leave their news (hold_events.c) and
 * wake it. The child is the guardian's (guardian.h), which ends it at the end of the lease by its own
 * clock. This process does the same on its side, so that either of the two suffices.
 */
#include "cli/run/hold_command.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/values.h"
#include "cli/run/grace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CLOSE_TIMEOUT_MS 2000 /* for the session to end */
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 30000

static int64_t hold_run_now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- outcomes --------------------------------------------------------------------------------- */

static void phase_enter(struct hold *r, enum hold_phase phase, int64_t limit_ms)
{
    r->phase = phase;
    r->deadline_ms = limit_ms == CONCLAVE_FOREVER ? 0 : hold_run_now_ms() + limit_ms;
}

static void outcome_set(struct hold *r, const char *reason, int exit_code, int child_status)
{
    if (r->outcome.reason == NULL) {
        r->outcome = (struct hold_outcome){reason, exit_code, child_status};
    }
}

/* One line of JSON; the reader is the user's, and what it does with it, too. */
static void status_write(const struct hold *r)
{
    struct json j;
    if (r->options->status_fd < 0) {
        return;
    }
    json_line_begin(&j);
    json_member_string(&j, "reason", r->outcome.reason);
    json_member_int(&j, "exit_code", r->outcome.exit_code);
    json_key(&j, "child_status");
    if (r->outcome.child_status < 0) {
        json_null(&j);
    } else {
        json_int(&j, r->outcome.child_status);
    }
    json_key(&j, "token");
    if (r->token == 0) {
        json_null(&j);
    } else {
        json_int(&j, r->token);
    }
    json_object_end(&j);
    FILE *file = fdopen(dup((int)r->options->status_fd), "w");
    if (file == NULL || json_print(&j, file) != 0) {
        fprintf(stderr, "conclave %s: cannot write to --status-fd %lld: %s\n",
                r->options->usage->name, (long long)r->options->status_fd, strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
    json_finish(&j);
}

void hold_leave(struct hold *r, const char *reason, int exit_code, int child_status)
{
    outcome_set(r, reason, exit_code, child_status);
    if (r->holding == NULL) {
        r->phase = TURN_DONE;
        status_write(r);
        return;
    }
    r->options->kind->close(r->holding);
    phase_enter(r, TURN_LEAVING, r->options->leave_timeout_ms);
    if (r->options->lasting) {
        hold_term_over(r);
    }
}

void hold_lost(struct hold *r, int child_status)
{
    if (!r->options->lasting || r->withdraw || !hold_news_read(r).revoked) {
        /* The guardian's clock may have ended it before the library's: then the handle is given up. */
        hold_leave(r, "lost", CLI_EXIT_LOST, child_status);
        return;
    }
    outcome_set(r, "lost", CLI_EXIT_LOST, child_status);
    status_write(r);
    r->outcome = (struct hold_outcome){NULL, 0, -1};
    r->token = 0;
    phase_enter(r, TURN_WAITING, CONCLAVE_FOREVER);
    hold_term_over(r);
}

/* --- phases ----------------------------------------------------------------------------------- */

/* Takes over what the session has become. false: the grace does not fit; told. */
static bool session_adopt(struct hold *r)
{
    struct conclave_session session;
    int64_t grace;
    conclave_client_session(r->client, &session);
    if (session.timeout_ms <= 0) {
        return true; /* between two sessions: adopted when granted */
    }
    if (!grace_fit(r->options->usage, r->options->grace_ms, session.timeout_ms, &grace)) {
        return false;
    }
    pthread_mutex_lock(&r->lock);
    r->grace_ms = grace;
    pthread_mutex_unlock(&r->lock);
    r->session_timeout_ms = session.timeout_ms;
    return true;
}

static void queue_up(struct hold *r)
{
    if (!session_adopt(r)) {
        hold_leave(r, "error", CLI_EXIT_USAGE, -1);
        return;
    }
    pthread_mutex_lock(&r->lock);
    bool auth_failed = r->news.auth_failed;
    r->news = (struct hold_news){.connected = true, .auth_failed = auth_failed};
    pthread_mutex_unlock(&r->lock);
    r->outcome = (struct hold_outcome){NULL, 0, -1};
    r->token = 0;
    int error = r->options->kind->start(r, &r->holding);
    if (error != 0) {
        hold_leave(r, "error", fail(r->options->usage->name, r->options->path, error), -1);
        return;
    }
    int64_t timeout = r->options->common.timeout_ms;
    if (timeout != CONCLAVE_FOREVER && timeout != 0 && r->granted_by_ms == 0) {
        r->granted_by_ms =
            hold_run_now_ms() + timeout; /* 0: now or not at all, which is answered */
    }
    phase_enter(r, TURN_WAITING, CONCLAVE_FOREVER);
    r->deadline_ms = r->granted_by_ms;
}

/* Node and token for whoever started us, who holds it through us. */
static void hold_begin(struct hold *r)
{
    char node[CHILD_NODE_MAX];
    struct json j;
    int error = 0;
    r->options->kind->node(r->holding, node, sizeof node);
    if (r->options->common.json) {
        json_line_begin(&j);
        json_member_string(&j, "path", r->options->path);
        json_member_string(&j, "node", node);
        json_member_int(&j, "token", r->token);
        error = json_line_print(&j, stdout);
    } else {
        printf("%s/%s %" PRId64 "\n", r->options->path, node, r->token);
        error = fflush(stdout) == 0 ? 0 : CONCLAVE_EIO;
    }
    if (error != 0) {
        hold_leave(r, "error", output_end(r->options->usage->name, CLI_EXIT_IO), -1);
        return;
    }
    r->waiter.input = true;
}

static void timed_out(struct hold *r)
{
    r->options->kind->tell_timeout(r);
    r->withdraw = true;
    hold_leave(r, "timeout", (int)r->options->timeout_exit, -1);
}

static void step_waiting(struct hold *r, const struct hold_news *news)
{
    if (news->failed && (news->failed_why == CONCLAVE_EBUSY)) {
        timed_out(r);
    } else if (news->closed || news->failed) {
        hold_leave(r, "closed", CLI_EXIT_INTERNAL, -1);
    } else if (news->granted) {
        r->token = news->token;
        r->granted_by_ms = 0;
        r->term_began_ms = hold_run_now_ms();
        phase_enter(r, TURN_HOLDING, CONCLAVE_FOREVER);
        if (!session_adopt(r)) {
            hold_leave(r, "error", CLI_EXIT_USAGE, -1);
        } else if (r->options->command != NULL) {
            hold_child_begin(r);
        } else if (!r->options->silent) {
            hold_begin(r);
        }
    } else if (r->deadline_ms != 0 && hold_run_now_ms() >= r->deadline_ms) {
        timed_out(r);
    }
}

static void step_holding(struct hold *r, const struct hold_news *news)
{
    int64_t until = r->options->kind->lease_until_ns(r->holding);
    pthread_mutex_lock(&r->lock);
    if (!r->news.revoked && until > lease_page_until_ns(&r->page)) {
        lease_page_write(&r->page, LEASE_LEADING, until, r->token);
    }
    pthread_mutex_unlock(&r->lock);
    if (r->options->command == NULL && news->revoked) {
        fprintf(stderr, "conclave %s: %s: %s\n", r->options->usage->name, r->options->path,
                r->options->kind->lost);
        hold_lost(r, -1);
    }
}

/* The library ended it without being asked: what it found, as an outcome. */
static void closed_outcome(struct hold *r, int why)
{
    if (exit_code_of(why) == CLI_EXIT_AUTH || why == CONCLAVE_EINVAL) {
        r->withdraw = true;
    }
    if (why == CONCLAVE_SESSION_EXPIRED || why == CONCLAVE_ELOST) {
        outcome_set(r, "lost", CLI_EXIT_LOST, -1);
    } else {
        int code = r->options->kind->tell_failure != NULL
                       ? r->options->kind->tell_failure(r, why)
                       : fail(r->options->usage->name, r->options->path, why);
        outcome_set(r, "error", code, -1);
    }
}

static void step_leaving(struct hold *r, const struct hold_news *news)
{
    if (r->options->lasting && news->granted) {
        hold_term_over(r); /* it began while we were leaving: whoever ends it waits for us */
    }
    if (!news->closed && hold_run_now_ms() < r->deadline_ms) {
        return;
    }
    bool waited_only = r->token == 0;
    if (news->closed) {
        if (strcmp(r->outcome.reason, "closed") == 0) {
            r->outcome.reason = NULL;
            closed_outcome(r, news->failed ? news->failed_why : news->closed_why);
        }
        r->options->kind->destroy(r->holding);
        r->holding = NULL;
    } else {
        char timeout[DURATION_TEXT_MAX];
        fprintf(stderr,
                "conclave %s: %s: no server confirmed that %s; it ends with the session, within "
                "%s\n",
                r->options->usage->name, r->options->path, r->options->kind->withdrawn,
                duration_text(r->session_timeout_ms, timeout));
        r->withdraw = true;
    }
    bool lost = strcmp(r->outcome.reason, "lost") == 0;
    bool lost_place = lost && (waited_only || r->options->lasting);
    if (!lost || !waited_only) {
        status_write(r);
    }
    if (r->withdraw || (!r->options->forever && !lost_place)) {
        r->phase = TURN_DONE;
        return;
    }
    bool short_term = hold_run_now_ms() - r->term_began_ms < BACKOFF_MAX_MS;
    int64_t pause = backoff_jitter(r->backoff_ms);
    /* Terms that are lost may be short without anything being wrong with what ran in them. */
    bool slower = short_term && !(lost && r->options->lasting);
    r->backoff_ms = slower ? backoff_next(r->backoff_ms, BACKOFF_MAX_MS) : BACKOFF_MIN_MS;
    phase_enter(r, TURN_BACKOFF, pause);
}

static void step_connecting(struct hold *r, const struct hold_news *news)
{
    if (news->auth_failed) {
        hold_leave(r, "error",
                   fail_unreachable(r->options->usage->name, r->client, &r->options->common,
                                    CONCLAVE_AUTH_FAILED),
                   -1);
    } else if (news->connected) {
        queue_up(r);
    } else if (hold_run_now_ms() >= r->deadline_ms) {
        hold_leave(r, "unreachable",
                   fail_unreachable(r->options->usage->name, r->client, &r->options->common,
                                    CONCLAVE_ETIMEDOUT),
                   -1);
    }
}

static void step(struct hold *r)
{
    struct hold_news news = hold_news_read(r);
    switch (r->phase) {
    case TURN_CONNECTING:
        step_connecting(r, &news);
        break;
    case TURN_WAITING:
        step_waiting(r, &news);
        break;
    case TURN_HOLDING:
        step_holding(r, &news);
        hold_child_force(r, &news);
        break;
    case TURN_LEAVING:
        step_leaving(r, &news);
        break;
    case TURN_BACKOFF:
        if (hold_run_now_ms() >= r->deadline_ms) {
            queue_up(r);
        }
        break;
    case TURN_DONE:
        break;
    }
}

static void take_signal(struct hold *r, int number)
{
    if (number == SIGTSTP) {
        if (r->child != 0) {
            hold_child_signal(r, SIGTSTP);
        }
        hold_job_stop(r);
    } else if (number == SIGCONT) {
        hold_job_continue(r);
    } else if (r->phase == TURN_HOLDING && r->options->command != NULL) {
        hold_child_signal(r, number);
        r->withdraw = r->withdraw || number == SIGTERM || number == SIGINT || number == SIGQUIT;
        r->hangup = r->hangup || number == SIGHUP;
    } else if (number == SIGWINCH) {
        /* only a child cares */
    } else if (r->phase == TURN_LEAVING) {
        r->withdraw = true;
    } else {
        r->withdraw = true;
        if (r->phase == TURN_HOLDING) {
            hold_leave(r, "released", 0, -1);
        } else {
            r->outcome.reason = NULL; /* between two terms: the signal is the end */
            hold_leave(r, "signal", TURN_EXIT_SIGNAL + number, -1);
        }
    }
}

static int64_t wait_ms(const struct hold *r)
{
    int64_t wait = r->deadline_ms == 0 ? -1 : max_i64(r->deadline_ms - hold_run_now_ms(), 0);
    if (r->phase == TURN_HOLDING) {
        /* The page follows the heartbeats, which come every sixth of the timeout. */
        int64_t refresh = r->session_timeout_ms / 24;
        return refresh < 5 ? 5 : refresh < 200 ? refresh : 200;
    }
    return wait;
}

/* Steps until the phase stays. */
static void hold_settle(struct hold *r)
{
    enum hold_phase before;
    do {
        before = r->phase;
        step(r);
    } while (r->phase != before);
}

static void loop(struct hold *r)
{
    int number = 0;
    while (r->phase != TURN_DONE) {
        switch (waiter_wait(&r->waiter, r->guardian.fd, wait_ms(r), &number)) {
        case WAITER_SIGNAL:
            if (r->options->command == NULL) {
                /* A hook may have announced the term already: then the signal ends the term, not the waiting. */
                hold_settle(r);
            }
            if (r->phase != TURN_DONE) {
                take_signal(r, number);
            }
            break;
        case WAITER_FD:
            hold_guardian_news(r);
            break;
        case WAITER_INPUT_END:
            if (r->phase == TURN_HOLDING) {
                hold_leave(r, "released", 0, -1);
            }
            break;
        case WAITER_WOKEN:
        case WAITER_TIMEOUT:
            break;
        }
        hold_settle(r);
    }
}

/* --- beginning and end ------------------------------------------------------------------------ */

static const int SIGNALS[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT, 0};

/* All that has to stand before there are threads. The exit code, 0 to go on. */
static int hold_run_prepare(struct hold *r)
{
    sigset_t blocked;
    bool foreground = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
    sigprocmask(SIG_SETMASK, NULL, &r->child_mask);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    if (r->options->command != NULL && !r->options->allow_setuid &&
        child_changes_user(r->options->usage->name, r->options->command[0])) {
        return CHILD_EXIT_REFUSED;
    }
    if (waiter_init(&r->waiter, SIGNALS, false) != 0 || lease_page_init(&r->page) != 0) {
        return fail(r->options->usage->name, NULL, CONCLAVE_EIO);
    }
    if (r->options->command != NULL) {
        /* Orphans of the child come to us when there is no guardian, or no more, and can be reaped
         * then. What hooks leave behind is init's, which reaps it. */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    r->supervisor = (struct supervisor_spec){.argv = r->options->command,
                                             .command = r->options->usage->name,
                                             .variables = child_variables_of_turn,
                                             .role = r->options->kind->role,
                                             .path = r->options->path,
                                             .id = r->options->id,
                                             .page = &r->page,
                                             .kill_signal = r->options->kill_signal,
                                             .ready = r->options->ready_fd,
                                             .own_process = r->options->guardian,
                                             .tty_fd = foreground ? STDIN_FILENO : -1,
                                             .tty_owner = getpgrp(),
                                             .input_fd = -1,
                                             .mask = &r->child_mask,
                                             .allow_setuid = r->options->allow_setuid};
    if (r->options->command != NULL && guardian_start(&r->guardian, &r->supervisor) != 0) {
        fprintf(stderr,
                "conclave %s: cannot start the guardian: %s; free some processes or memory, or do "
                "without it (--no-guardian)\n",
                r->options->usage->name, strerror(errno));
        return CLI_EXIT_GUARDIAN;
    }
    return 0;
}

static int client_begin(struct hold *r)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.on_state = hold_on_state;
    options.ctx = r;
    int code =
        connection_create(r->options->usage->name, &r->options->common, &options, &r->client);
    if (code != 0) {
        return code;
    }
    int error = conclave_recipes_open(r->client, &r->recipes);
    if (error == 0) {
        error = conclave_client_start(r->client);
    }
    return error == 0 ? 0 : fail(r->options->usage->name, NULL, error);
}

/* How long the first connection may take: whoever waits only 5s in all does not wait 30s
 * for a server. */
static int64_t connect_limit_ms(const struct hold_options *options)
{
    int64_t timeout = options->common.timeout_ms;
    return timeout > 0 && timeout < options->connect_timeout_ms ? timeout
                                                                : options->connect_timeout_ms;
}

int hold_run(const struct hold_options *options)
{
    struct hold r = {.options = options,
                     .waiter = {.signal_fd = -1, .wake_fd = -1},
                     .page = {.fd = -1},
                     .guardian = {.fd = -1, .other_fd = -1},
                     .backoff_ms = BACKOFF_MIN_MS,
                     .outcome = {NULL, 0, -1},
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .child_gone_cond = PTHREAD_COND_INITIALIZER,
                     .child_gone = true};
    int code = hold_run_prepare(&r);
    if (code == 0) {
        code = client_begin(&r);
    }
    if (code == 0) {
        phase_enter(&r, TURN_CONNECTING, connect_limit_ms(options));
        loop(&r);
        code = r.outcome.exit_code;
    }
    guardian_finish(&r.guardian);
    if (r.holding != NULL) {
        /* The library is still trying, and would for as long as the session lives: it goes with
         * the process. */
        fflush(NULL);
        _exit(code);
    }
    if (options->kind->end != NULL && !options->kind->end(&r)) {
        fflush(NULL);
        _exit(code);
    }
    conclave_recipes_destroy(r.recipes);
    conclave_client_close(r.client, CLOSE_TIMEOUT_MS);
    lease_page_finish(&r.page);
    waiter_finish(&r.waiter);
    return code;
}
