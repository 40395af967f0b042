/*
 * The child as the main thread sees it: the guardian (guardian.h) starts and ends it, and reports. When the guardian is
 * late or gone, this process kills the process group.
 */
#include "cli/run/hold_command.h"

#include <assert.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

void hold_child_begin(struct hold *r)
{
    struct supervisor_request start = {.ask = SUPERVISOR_START};
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    assert(r->phase == HOLD_HELD && r->child == 0 && r->token != 0);
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
    const struct hold_options *o = r->options;
    int code = child_exit_code(report->value);
    int died_of = WIFSIGNALED(report->value) ? WTERMSIG(report->value) : 0;
    bool never = r->child == 0 && r->exec_errno == 0;
    /* A term that was lost is also followed by the next one when its command was killed after the end of the lease: it
     * was fenced while this process was stopped. */
    bool over = o->lasting && r->holding != NULL && o->kind->lease_until_ns(r->holding) == 0;
    struct hold_news news = hold_news_read(r);
    bool lost = report->lost || over || news.revoked;
    assert(o->command != NULL);
    hold_child_is_gone(r);
    if (r->exec_errno != 0) {
        r->withdraw = true; /* it would not be better the next time */
        hold_leave(r, "exec-failed", child_tell_exec_failure(&r->supervisor.program, r->exec_errno),
                   -1);
    } else if (report->denied) {
        fprintf(
            stderr,
            "conclave %s: %s: the command has ended, but could not be killed when it had to end: "
            "others may have held it at the same time\n",
            o->usage->name, o->path);
        r->withdraw = true; /* it would not be better the next time */
        hold_leave(r, "denied", CLI_EXIT_DENIED, code);
    } else if (lost) {
        fprintf(stderr, "conclave %s: %s: %s%s\n", o->usage->name, o->path,
                hold_lost_text(r, &news),
                never ? " before the command was started" : ", the command was ended");
        hold_lost(r, never ? -1 : code);
    } else {
        /* Ctrl-C goes to the child, which has the terminal, and means the whole. */
        bool keyboard =
            r->supervisor.program.tty_fd >= 0 && (died_of == SIGINT || died_of == SIGQUIT);
        r->withdraw = r->withdraw || keyboard || (r->hangup && died_of == SIGHUP);
        hold_leave(r, died_of != 0 ? "signaled" : "exited", code, code);
    }
}

void hold_job_stop(struct hold *r)
{
    if (r->supervisor.program.tty_fd >= 0) {
        tcsetpgrp(r->supervisor.program.tty_fd, getpgrp());
    }
    kill(getpid(), SIGSTOP);
}

void hold_job_continue(struct hold *r)
{
    int tty = r->supervisor.program.tty_fd;
    if (r->child != 0 && tty >= 0 && tcgetpgrp(tty) == getpgrp()) {
        tcsetpgrp(tty, r->child);
    }
    hold_child_signal(r, SIGCONT);
}

/* The guardian was killed: the kernel has killed the child with it; its group is left to us. */
static void guardian_died(struct hold *r)
{
    bool denied = !guardian_bury(&r->guardian, r->child);
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
            if (!r->options->ready_fd && r->phase == HOLD_HELD) {
                announce(r);
            }
            break;
        case SUPERVISOR_FAILED:
            r->exec_errno = report.value;
            break;
        case SUPERVISOR_READY:
            if (r->phase == HOLD_HELD) {
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
