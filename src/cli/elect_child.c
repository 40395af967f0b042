/*
 * The child of `conclave elect` as the main thread sees it: asked for and ended by the guardian
 * (guardian.h), which reports. Should the guardian be late or gone, the process group is killed
 * from here.
 */
#include "cli/elect_machine.h"

#include "base/clock.h"
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_SLACK_MS 50 /* that the guardian has to do its work before we help */

void elect_child_begin(struct elect_run *r)
{
    struct supervisor_request start = {.ask = SUPERVISOR_START};
    struct conclave_session session;
    conclave_client_session(r->client, &session);
    start.term.token = r->token;
    start.term.session_id = session.id;
    start.term.session_timeout_ms = session.timeout_ms;
    start.term.grace_ms = r->grace_ms;
    conclave_election_node(r->election, start.term.node, sizeof start.term.node);
    r->exec_errno = 0;
    pthread_mutex_lock(&r->lock);
    bool revoked = r->news.revoked;
    if (!revoked) {
        r->child_gone = false;
        guardian_send(&r->guardian, &start); /* under the lock: before any STOP */
    }
    pthread_mutex_unlock(&r->lock);
    if (revoked) {
        elect_leave(r, "lost", CLI_EXIT_LOST, -1);
    }
}

void elect_child_signal(struct elect_run *r, int number)
{
    struct supervisor_request request = {.ask = SUPERVISOR_SIGNAL, .number = number};
    if (r->guardian.fd >= 0) {
        guardian_send(&r->guardian, &request);
    }
}

static void announce(struct elect_run *r)
{
    int error = conclave_election_ack(r->election);
    if (error != 0) {
        fail(ELECT_USAGE.name, r->options->path, error);
    }
}

static void child_ended(struct elect_run *r, const struct supervisor_report *report)
{
    int status = report->value;
    bool died = WIFSIGNALED(status);
    int code = died ? ELECT_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    bool never = r->child == 0 && r->exec_errno == 0;
    bool lost = report->lost || elect_news_read(r).revoked;
    elect_child_is_gone(r);
    if (r->exec_errno != 0) {
        code = child_exec_exit_code(r->exec_errno);
        fprintf(stderr, "conclave elect: cannot execute %s: %s\n", r->options->command[0],
                strerror(r->exec_errno));
        r->withdraw = true; /* it would not be better the next time */
        elect_leave(r, "exec-failed", code, -1);
    } else if (lost) {
        fprintf(stderr, "conclave elect: %s: leadership lost%s\n", r->options->path,
                never ? " before the command was started" : ", the command was ended");
        elect_leave(r, "lost", CLI_EXIT_LOST, never ? -1 : code);
    } else {
        /* Ctrl-C goes to the child, which has the terminal, and means the whole. */
        bool keyboard = r->supervisor.tty_fd >= 0 && died &&
                        (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT);
        bool hung_up = r->hangup && died && WTERMSIG(status) == SIGHUP;
        r->withdraw = r->withdraw || keyboard || hung_up;
        elect_leave(r, died ? "signaled" : "exited", code, code);
    }
}

void elect_job_stop(struct elect_run *r)
{
    if (r->supervisor.tty_fd >= 0) {
        tcsetpgrp(r->supervisor.tty_fd, getpgrp());
    }
    kill(getpid(), SIGSTOP);
}

void elect_job_continue(struct elect_run *r)
{
    int tty = r->supervisor.tty_fd;
    if (r->child != 0 && tty >= 0 && tcgetpgrp(tty) == getpgrp()) {
        tcsetpgrp(tty, r->child);
    }
    elect_child_signal(r, SIGCONT);
}

/* The guardian was killed: the kernel has killed the child with it; its group is left to us. */
static void guardian_died(struct elect_run *r)
{
    fprintf(stderr, "conclave elect: the guardian process is gone, the command with it\n");
    for (int i = 0; r->child != 0 && i < 200 && kill(-r->child, SIGKILL) == 0; i++) {
        while (waitpid(-r->child, NULL, WNOHANG) > 0) {}
        usleep(1000);
    }
    pthread_mutex_lock(&r->lock);
    guardian_finish(&r->guardian);
    pthread_mutex_unlock(&r->lock);
    elect_child_is_gone(r);
    r->withdraw = true;
    elect_leave(r, "guardian", CLI_EXIT_GUARDIAN, -1);
}

void elect_guardian_news(struct elect_run *r)
{
    struct supervisor_report report;
    int got;
    while ((got = guardian_read(&r->guardian, &report)) == 1) {
        switch (report.news) {
        case SUPERVISOR_STARTED:
            r->child = report.value;
            if (r->options->ack_on == ELECT_ACK_EXEC && r->phase == ELECT_LEADING) {
                announce(r);
            }
            break;
        case SUPERVISOR_FAILED:
            r->exec_errno = report.value;
            break;
        case SUPERVISOR_READY:
            if (r->phase == ELECT_LEADING) {
                announce(r);
            }
            break;
        case SUPERVISOR_STOPPED:
            elect_job_stop(r);
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

void elect_child_force(struct elect_run *r, const struct elect_news *news)
{
    int64_t late = clock_monotonic_ns(clock_system()) - news->kill_at_ns;
    if (news->revoked && r->child != 0 && late > KILL_SLACK_MS * INT64_C(1000000)) {
        kill(-r->child, SIGKILL);
        if (r->guardian.pid != 0) {
            kill(r->guardian.pid, SIGCONT);
        }
    }
}
