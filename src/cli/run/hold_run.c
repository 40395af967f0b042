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
#include "base/transition.h"
#include "cli/common/values.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CLOSE_TIMEOUT_MS 2000 /* for the session to end */
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 30000

static int64_t hold_run_now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

/* --- outcomes --------------------------------------------------------------------------------- */

static const uint16_t HOLD_NEXT[] = {
    [HOLD_CONNECTING] =
        TRANSITION_TO(HOLD_WAITING) | TRANSITION_TO(HOLD_LEAVING) | TRANSITION_TO(HOLD_DONE),
    [HOLD_WAITING] = TRANSITION_TO(HOLD_HELD) | TRANSITION_TO(HOLD_LEAVING),
    [HOLD_HELD] = TRANSITION_TO(HOLD_LEAVING) | TRANSITION_TO(HOLD_WAITING),
    /* Leaving again: the child, or the guardian, ended meanwhile. */
    [HOLD_LEAVING] =
        TRANSITION_TO(HOLD_LEAVING) | TRANSITION_TO(HOLD_BACKOFF) | TRANSITION_TO(HOLD_DONE),
    [HOLD_BACKOFF] =
        TRANSITION_TO(HOLD_WAITING) | TRANSITION_TO(HOLD_LEAVING) | TRANSITION_TO(HOLD_DONE),
    [HOLD_DONE] = TRANSITION_TO(HOLD_DONE), /* the guardian ended meanwhile */
};

static void phase_enter(struct hold *r, enum hold_phase phase, int64_t limit_ms)
{
    transition_check(HOLD_NEXT, r->phase, phase);
    assert(r->holding != NULL || phase == HOLD_BACKOFF || phase == HOLD_DONE);
    assert(phase != HOLD_HELD || r->token != 0);
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
    assert(r->outcome.reason != NULL);
    if (r->options->status_fd < 0) {
        return;
    }
    json_line_begin(&j);
    json_member_string(&j, "reason", r->outcome.reason);
    json_member_int(&j, "exit_code", r->outcome.exit_code);
    if (r->outcome.child_status < 0) {
        json_member_null(&j, "child_status");
    } else {
        json_member_int(&j, "child_status", r->outcome.child_status);
    }
    if (r->token == 0) {
        json_member_null(&j, "token");
    } else {
        json_member_int(&j, "token", r->token);
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
        phase_enter(r, HOLD_DONE, CONCLAVE_FOREVER);
        status_write(r);
        return;
    }
    r->options->kind->close(r->holding);
    phase_enter(r, HOLD_LEAVING, r->options->leave_timeout_ms);
    if (r->options->lasting) {
        hold_term_over(r);
    }
}

int64_t hold_lease_grace_ms(const struct hold *r)
{
    return r->options->grace_ms > 0 ? r->options->grace_ms : 0;
}

int64_t hold_acquire_ms(const struct hold *r)
{
    return r->options->try || r->options->common.timeout_ms == 0 ? 0 : CONCLAVE_FOREVER;
}

void hold_lost(struct hold *r, int child_status)
{
    if (!r->options->lasting || r->withdraw || !hold_news_read(r).revoked) {
        /* The guardian's clock may have ended it before the library's: then the handle is given up. */
        hold_leave(r, "lost", CLI_EXIT_LOST, child_status);
        return;
    }
    assert(r->phase == HOLD_HELD && r->child == 0);
    outcome_set(r, "lost", CLI_EXIT_LOST, child_status);
    status_write(r);
    r->outcome = (struct hold_outcome){NULL, 0, -1};
    r->token = 0;
    phase_enter(r, HOLD_WAITING, CONCLAVE_FOREVER);
    hold_term_over(r);
}

/* --- phases ----------------------------------------------------------------------------------- */

/* Takes over the session's new timeout. false: the grace does not fit; the error was printed. */
static bool session_adopt(struct hold *r)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
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
    assert(r->holding == NULL && r->child == 0);
    int error = r->options->kind->start(r, &r->holding);
    if (error != 0) {
        hold_leave(r, "error", fail(r->options->usage->name, r->options->path, error), -1);
        return;
    }
    int64_t timeout = r->options->common.timeout_ms;
    bool answered = hold_acquire_ms(r) == 0 && r->options->kind->busy != NULL;
    if (timeout != CONCLAVE_FOREVER && !answered && r->granted_by_ms == 0) {
        r->granted_by_ms = hold_run_now_ms() + timeout;
    }
    phase_enter(r, HOLD_WAITING, CONCLAVE_FOREVER);
    r->deadline_ms = r->granted_by_ms;
}

/* Prints node and token for the parent process, for which we hold it. */
static void hold_begin(struct hold *r)
{
    const struct hold_options *o = r->options;
    char node[CHILD_NODE_MAX];
    int error = 0;
    o->kind->node(r->holding, node, sizeof node);
    if (o->common.json) {
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "path", o->path);
        json_member_string(&j, "node", node);
        json_member_int(&j, "token", r->token);
        error = json_line_print(&j, stdout);
    } else {
        printf("%s/%s %" PRId64 "\n", o->path, node, r->token);
        error = fflush(stdout);
    }
    if (error != 0) {
        hold_leave(r, "error", output_end(o->usage->name, CLI_EXIT_IO), -1);
        return;
    }
    r->waiter.input = true;
}

static void timed_out(struct hold *r)
{
    const struct hold_options *o = r->options;
    char timeout[DURATION_TEXT_MAX];
    fprintf(stderr, "conclave %s: %s: %s", o->usage->name, o->path,
            o->try ? o->kind->busy : o->kind->late);
    if (!o->try) {
        fprintf(stderr, " within %s", duration_text(o->common.timeout_ms, timeout));
    }
    fprintf(stderr, "; see %s with \"conclave %s --list %s\"\n", o->kind->see, o->usage->name,
            o->path);
    r->withdraw = true;
    hold_leave(r, "timeout", (int)o->timeout_exit, -1);
}

static void step_waiting(struct hold *r, const struct hold_news *news)
{
    int why = news->failed ? news->failed_why : news->closed ? news->closed_why : 0;
    if (why == CONCLAVE_EBUSY) {
        timed_out(r);
    } else if (news->closed || news->failed) {
        hold_leave(r, "closed", CLI_EXIT_INTERNAL, -1);
    } else if (news->granted) {
        r->token = news->token;
        r->granted_by_ms = 0;
        r->term_began_ms = hold_run_now_ms();
        phase_enter(r, HOLD_HELD, CONCLAVE_FOREVER);
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
                hold_lost_text(r, news));
        hold_lost(r, -1);
    }
}

/* The library ended it without a request: its error as an outcome. */
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
        hold_term_over(r); /* it began while we were leaving: hold_revoked waits for us */
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
        phase_enter(r, HOLD_DONE, CONCLAVE_FOREVER);
        return;
    }
    bool short_term = hold_run_now_ms() - r->term_began_ms < BACKOFF_MAX_MS;
    int64_t pause = backoff_jitter(r->backoff_ms);
    /* Terms that are lost may be short without anything being wrong with what ran in them. */
    bool slower = short_term && !(lost && r->options->lasting);
    r->backoff_ms = slower ? backoff_next(r->backoff_ms, BACKOFF_MAX_MS) : BACKOFF_MIN_MS;
    phase_enter(r, HOLD_BACKOFF, pause);
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
    case HOLD_CONNECTING:
        step_connecting(r, &news);
        break;
    case HOLD_WAITING:
        step_waiting(r, &news);
        break;
    case HOLD_HELD:
        step_holding(r, &news);
        if (news.revoked) {
            guardian_help(&r->guardian, r->child, news.kill_at_ns);
        }
        break;
    case HOLD_LEAVING:
        step_leaving(r, &news);
        break;
    case HOLD_BACKOFF:
        if (hold_run_now_ms() >= r->deadline_ms) {
            queue_up(r);
        }
        break;
    case HOLD_DONE:
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
    } else if (r->phase == HOLD_HELD && r->options->command != NULL) {
        hold_child_signal(r, number);
        r->withdraw = r->withdraw || number == SIGTERM || number == SIGINT || number == SIGQUIT;
        r->hangup = r->hangup || number == SIGHUP;
    } else if (number == SIGWINCH) {
        /* only a child cares */
    } else if (r->phase == HOLD_LEAVING) {
        r->withdraw = true;
    } else {
        r->withdraw = true;
        if (r->phase == HOLD_HELD) {
            hold_leave(r, "released", 0, -1);
        } else {
            r->outcome.reason = NULL; /* between two terms: the signal is the end */
            hold_leave(r, "signal", CHILD_EXIT_SIGNAL + number, -1);
        }
    }
}

static int64_t wait_ms(const struct hold *r)
{
    int64_t left_ms = r->deadline_ms - hold_run_now_ms();
    return r->phase == HOLD_HELD ? lease_page_refresh_ms(r->session_timeout_ms)
           : r->deadline_ms == 0 ? -1
           : left_ms > 0         ? left_ms
                                 : 0;
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
    while (r->phase != HOLD_DONE) {
        switch (waiter_wait(&r->waiter, r->guardian.fd, wait_ms(r), &number)) {
        case WAITER_SIGNAL:
            if (r->options->command == NULL) {
                /* A hook may have announced the term already: then the signal ends the term, not the waiting. */
                hold_settle(r);
            }
            if (r->phase != HOLD_DONE) {
                take_signal(r, number);
            }
            break;
        case WAITER_FD:
            hold_guardian_news(r);
            break;
        case WAITER_INPUT_END:
            if (r->phase == HOLD_HELD) {
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

/* All that has to be done before there are threads. The exit code, 0 to go on. */
static int hold_run_prepare(struct hold *r)
{
    const struct hold_options *o = r->options;
    sigset_t blocked;
    bool foreground = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
    sigprocmask(SIG_SETMASK, NULL, &r->child_mask);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    if (waiter_init(&r->waiter, SIGNALS, false) != 0 || lease_page_init(&r->page) != 0) {
        return fail(o->usage->name, NULL, CONCLAVE_EIO);
    }
    r->supervisor = (struct supervisor_spec){.program = {.command = o->usage->name,
                                                         .argv = o->command,
                                                         .variables = child_variables_of_holder,
                                                         .path = o->path,
                                                         .role = o->kind->role,
                                                         .id = o->id,
                                                         .tty_fd = foreground ? STDIN_FILENO : -1,
                                                         .input_fd = -1,
                                                         .mask = &r->child_mask,
                                                         .allow_setuid = o->allow_setuid},
                                             .page = &r->page,
                                             .kill_signal = o->kill_signal,
                                             .ready = o->ready_fd,
                                             .own_process = o->guardian,
                                             .tty_owner = getpgrp()};
    return o->command != NULL ? guardian_start(&r->guardian, &r->supervisor) : 0;
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
    error = error == 0 ? conclave_client_start(r->client) : error;
    return error == 0 ? 0 : fail(r->options->usage->name, NULL, error);
}

/* Limit of the first connection: with a --timeout of 5s no user waits 30s for a server. */
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
    code = code == 0 ? client_begin(&r) : code;
    if (code == 0) {
        r.deadline_ms = hold_run_now_ms() + connect_limit_ms(options);
        loop(&r);
        code = r.outcome.exit_code;
    }
    if (code == CLI_EXIT_LOST) {
        connection_tell_loss(options->usage->name, r.client, true);
    }
    guardian_finish(&r.guardian);
    assert(r.phase == HOLD_DONE || r.holding == NULL);
    if (r.holding != NULL || (options->kind->end != NULL && !options->kind->end(&r))) {
        /* The library is still trying, and would for as long as the session lives: it goes with the process. */
        fflush(NULL);
        _exit(code);
    }
    conclave_recipes_destroy(r.recipes);
    conclave_client_close(r.client, CLOSE_TIMEOUT_MS);
    lease_page_finish(&r.page);
    waiter_finish(&r.waiter);
    return code;
}
