#define _GNU_SOURCE /* memfd_create */
#include "cli/run/item_command.h"

#include "base/clock.h"
#include "cli/common/connection.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* One run of the command. */
struct item_run {
    struct item_command *w;
    const struct item_command_job *job;
    struct item_command_end end;
    bool asked;  /* the guardian was asked to start it */
    bool over;   /* nothing is left of it */
    bool closed; /* the guardian is gone */
    pid_t group; /* 0: not known yet */
    int exec_errno;
    int64_t until_ns;   /* last end of the lease that was known */
    int64_t kill_at_ns; /* after the request to stop */
};

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_system());
}

/* --- beginning and end ------------------------------------------------------------------------ */

int item_command_init(struct item_command *w, const struct child_program *program, bool input)
{
    /* A file in memory, so that a command that does not read cannot block anybody; the command
     * inherits it through the guardian. */
    w->input_fd = input ? memfd_create("conclave-item", MFD_CLOEXEC) : -1;
    if (lease_page_init(&w->page) != 0 || (input && w->input_fd < 0)) {
        return fail(program->command, NULL, CONCLAVE_EIO);
    }
    w->supervisor = (struct supervisor_spec){
        .program = *program, .page = &w->page, .kill_signal = SIGTERM, .own_process = true};
    w->supervisor.program.tty_fd = -1;
    w->supervisor.program.input_fd = w->input_fd;
    return guardian_start(&w->guardian, &w->supervisor);
}

void item_command_finish(struct item_command *w)
{
    guardian_finish(&w->guardian);
    lease_page_finish(&w->page);
    if (w->input_fd >= 0) {
        close(w->input_fd);
    }
    w->input_fd = -1;
}

/* --- one run ---------------------------------------------------------------------------------- */

/* All processes of the previous command have ended by now. */
static int fill_input(const struct item_command *w, const struct item_command_job *job)
{
    size_t done = 0;
    if (w->input_fd < 0) {
        return 0;
    }
    if (ftruncate(w->input_fd, 0) != 0) {
        return CONCLAVE_ENOMEM;
    }
    while (done < job->input_len) {
        ssize_t n = pwrite(w->input_fd, (const char *)job->input + done, job->input_len - done,
                           (off_t)done);
        if (n <= 0 && errno != EINTR) {
            return CONCLAVE_ENOMEM;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void run_start(struct item_run *r)
{
    struct supervisor_request start = {.ask = SUPERVISOR_START, .term = r->job->term};
    assert(!r->asked && !r->over && !r->end.lost);
    r->asked = true;
    guardian_send(&r->w->guardian, &start);
}

/* The lease's page follows the heartbeats; a claim that is not proved yet is waited for. */
static void run_lease(struct item_run *r)
{
    if (r->job->lease_until_ns == NULL) {
        if (!r->asked) {
            run_start(r);
        }
        return;
    }
    int64_t until = r->job->lease_until_ns(r->job->holding);
    assert(!r->job->term.unleased);
    if (until > r->until_ns && !r->end.lost) {
        r->until_ns = until;
        lease_page_write(&r->w->page, LEASE_LEADING, until, 0);
        if (!r->asked) {
            run_start(r);
        }
    }
}

static void run_stop(struct item_run *r)
{
    int64_t grace_ns = r->job->term.grace_ms * 1000000;
    struct supervisor_request stop = {.ask = SUPERVISOR_STOP, .kill_at_ns = now_ns() + grace_ns};
    if (r->until_ns != 0 && r->until_ns + grace_ns < stop.kill_at_ns) {
        stop.kill_at_ns = r->until_ns + grace_ns;
    }
    r->end.lost = true;
    r->kill_at_ns = stop.kill_at_ns;
    lease_page_write(&r->w->page, LEASE_REVOKED, 0, 0);
    if (r->asked) {
        guardian_send(&r->w->guardian, &stop);
    } else {
        r->over = true;
    }
}

static void run_ended(struct item_run *r, const struct supervisor_report *report)
{
    assert(r->asked && !r->over);
    r->over = true;
    r->end.lost = r->end.lost || report->lost;
    r->end.denied = report->denied;
    r->end.exit_code = r->exec_errno != 0
                           ? child_tell_exec_failure(&r->w->supervisor.program, r->exec_errno)
                       : report->denied ? CLI_EXIT_DENIED
                                        : child_exit_code(report->value);
}

static void run_news(struct item_run *r)
{
    struct supervisor_report report;
    int got;
    while ((got = guardian_read(&r->w->guardian, &report)) == 1) {
        if (report.news == SUPERVISOR_STARTED) {
            r->group = report.value;
        } else if (report.news == SUPERVISOR_FAILED) {
            r->exec_errno = report.value;
        } else if (report.news == SUPERVISOR_ENDED) {
            run_ended(r, &report);
        }
    }
    if (got != 0 && !r->over) {
        r->end.denied = !guardian_bury(&r->w->guardian, r->group);
        r->over = r->closed = true;
    }
}

static void run_signal(struct item_run *r, int number)
{
    struct supervisor_request request = {.ask = SUPERVISOR_SIGNAL, .number = number};
    r->end.signal = number;
    if (r->asked) {
        guardian_send(&r->w->guardian, &request);
    } else { /* it was not begun, and must not be */
        r->end.exit_code = CHILD_EXIT_SIGNAL + number;
        r->over = true;
    }
}

/* How long to wait at most, -1: for ever. */
static int64_t refresh_ms(const struct item_run *r)
{
    bool leased = r->job->lease_until_ns != NULL;
    return leased || r->end.lost ? lease_page_refresh_ms(r->job->term.session_timeout_ms) : -1;
}

int item_command_run(struct item_command *w, const struct item_command_job *job,
                     struct waiter *waiter, struct item_command_end *ret)
{
    struct item_run r = {.w = w, .job = job};
    int number = 0;
    int error = fill_input(w, job);
    if (error != 0) {
        return error;
    }
    while (!r.over) {
        if (atomic_load(job->lost) && !r.end.lost) {
            run_stop(&r);
            continue;
        }
        run_lease(&r);
        if (r.end.lost) {
            guardian_help(&w->guardian, r.group, r.kill_at_ns);
        }
        enum waiter_event event = waiter_wait(waiter, w->guardian.fd, refresh_ms(&r), &number);
        if (event == WAITER_FD) {
            run_news(&r);
        } else if (event == WAITER_SIGNAL) {
            run_signal(&r, number);
        }
    }
    lease_page_write(&w->page, LEASE_NONE, 0, 0);
    *ret = r.end;
    return r.closed ? CONCLAVE_ECLOSED : 0;
}
