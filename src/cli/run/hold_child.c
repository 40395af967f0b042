/*
 * The child as the main thread sees it: asked for and ended by the guardian
 * (guardian.h), which reports. Should the guardian be late or gone, the process group is killed
 * from here.
 */
#include "cli/run/hold_command.h"

#include "base/clock.h"
#include "cli/common/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_SLACK_MS 50 /* that the guardian has to do its work before we help */

void hold_child_begin(struct hold *r)
{
    struct supervisor_request start = {.ask = SUPERVISOR_START};
    struct conclave_session session;
    conclave_client_session(r->client, &session);
    start.term.token = r->token;
    start.term.session_id = session.id;
    start.term.session_timeout_ms = session.timeout_ms;
    start.term.grace_ms = r->grace_ms;
    r->options->kind->node(r->holding, start.term.node, sizeof start.term.node);
    r->exec_errno = 0;
    pthread_mutex_lock(&r->lock);
    bool revoked = r->news.revoked;
    if (!revoked) {
        r->child_gone = false;
        guardian_send(&r->guardian, &start); /* under the lock: before any STOP */
    }
    pthread_mutex_unlock(&r->lock);
    if (revoked) {
        hold_lost(r, -1);
    }
}

void hold_child_signal(struct hold *r, int number)
{
    struct supervisor_request request = {.ask = SUPERVISOR_SIGNAL, .number = number};
    if (r->guardian.fd >= 0) {
        guardian_send(&r->guardian, &request);
    }
}

static void announce(struct hold *r)
{
    int error = r->options->kind->ack != NULL ? r->options->kind->ack(r->holding) : 0;
    if (error != 0) {
        fail(r->options->usage->name, r->options->path, error);
    }
}

static void child_ended(struct hold *r, const struct supervisor_report *report)
{
    int status = report->value;
    bool died = WIFSIGNALED(status);
    int code = died ? TURN_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    bool never = r->child == 0 && r->exec_errno == 0;
    /* Whoever stands by again does so, too, when its command was killed after the lease's end: it was
     * fenced while it stood still. */
    bool over = r->options->lasting && r->holding != NULL &&
                r->options->kind->lease_until_ns(r->holding) == 0;
    bool lost = report->lost || over || hold_news_read(r).revoked;
    hold_child_is_gone(r);
    if (r->exec_errno != 0) {
        code = child_exec_exit_code(r->exec_errno);
        fprintf(stderr, "conclave %s: cannot execute %s: %s\n", r->options->usage->name,
                r->options->command[0], strerror(r->exec_errno));
        r->withdraw = true; /* it would not be better the next time */
        hold_leave(r, "exec-failed", code, -1);
    } else if (report->denied) {
        fprintf(
            stderr,
            "conclave %s: %s: the command has ended, but could not be killed when it had to end: "
            "others may have held it at the same time\n",
            r->options->usage->name, r->options->path);
        r->withdraw = true; /* it would not be better the next time */
        hold_leave(r, "denied", CLI_EXIT_DENIED, code);
    } else if (lost) {
        fprintf(stderr, "conclave %s: %s: %s%s\n", r->options->usage->name, r->options->path,
                r->options->kind->lost,
                never ? " before the command was started" : ", the command was ended");
        hold_lost(r, never ? -1 : code);
    } else {
        /* Ctrl-C goes to the child, which has the terminal, and means the whole. */
        bool keyboard = r->supervisor.tty_fd >= 0 && died &&
                        (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT);
        bool hung_up = r->hangup && died && WTERMSIG(status) == SIGHUP;
        r->withdraw = r->withdraw || keyboard || hung_up;
        hold_leave(r, died ? "signaled" : "exited", code, code);
    }
}

void hold_job_stop(struct hold *r)
{
    if (r->supervisor.tty_fd >= 0) {
        tcsetpgrp(r->supervisor.tty_fd, getpgrp());
    }
    kill(getpid(), SIGSTOP);
}

void hold_job_continue(struct hold *r)
{
    int tty = r->supervisor.tty_fd;
    if (r->child != 0 && tty >= 0 && tcgetpgrp(tty) == getpgrp()) {
        tcsetpgrp(tty, r->child);
    }
    hold_child_signal(r, SIGCONT);
}

/* The guardian was killed: the kernel has killed the child with it; its group is left to us. */
static void guardian_died(struct hold *r)
{
    fprintf(stderr, "conclave %s: the guardian process is gone, the command with it\n",
            r->options->usage->name);
    bool denied = r->child != 0 && !guardian_kill_group(&r->guardian, r->child);
    pthread_mutex_lock(&r->lock);
    guardian_finish(&r->guardian);
    r->doubtful = true;
    pthread_mutex_unlock(&r->lock);
    hold_child_is_gone(r);
    r->withdraw = true;
    hold_leave(r, denied ? "denied" : "guardian", denied ? CLI_EXIT_DENIED : CLI_EXIT_GUARDIAN, -1);
}

void hold_guardian_news(struct hold *r)
{
    struct supervisor_report report;
    int got;
    while ((got = guardian_read(&r->guardian, &report)) == 1) {
        switch (report.news) {
        case SUPERVISOR_STARTED:
            r->child = report.value;
            if (!r->options->ready_fd && r->phase == TURN_HOLDING) {
                announce(r);
            }
            break;
        case SUPERVISOR_FAILED:
            r->exec_errno = report.value;
            break;
        case SUPERVISOR_READY:
            if (r->phase == TURN_HOLDING) {
                announce(r);
            }
            break;
        case SUPERVISOR_STOPPED:
            hold_job_stop(r);
            break;
        case SUPERVISOR_ENDED:
            child_ended(r, &report);
            break;
        }
    }
    if (got != 0) {
        guardian_died(r);
    }
}

void hold_child_force(struct hold *r, const struct hold_news *news)
{
    int64_t late = clock_monotonic_ns(clock_system()) - news->kill_at_ns;
    if (news->revoked && r->child != 0 && late > KILL_SLACK_MS * INT64_C(1000000)) {
        guardian_help(&r->guardian, r->child);
    }
}
