/*
 * The inside of `conclave elect` while it stands for election: elect_run.c (phases), elect_news.c
 * (what the library's threads tell), elect_child.c (the child, by way of the guardian). All of it
 * belongs to the main thread, but for what `lock` guards.
 */
#ifndef CLI_ELECT_MACHINE_H
#define CLI_ELECT_MACHINE_H

#include "cli/elect.h"
#include "cli/guardian.h"
#include "cli/waiter.h"

#include <conclave/election.h>

#define ELECT_EXIT_SIGNAL 128 /* plus the signal's number */

enum elect_phase {
    ELECT_CONNECTING,
    ELECT_WAITING,
    ELECT_LEADING,
    ELECT_LEAVING,
    ELECT_BACKOFF,
    ELECT_DONE
};

/* What the library's threads have told. */
struct elect_news {
    bool connected;
    bool auth_failed;
    bool elected;
    int64_t token;
    bool revoked;
    int revoked_why;
    int64_t kill_at_ns; /* with revoked */
    bool closed;
    int closed_why;
};

/* How a term, or the waiting for one, ended. */
struct elect_outcome {
    const char *reason; /* NULL: none yet */
    int exit_code;
    int child_status; /* exit code, or 128 + signal; -1: no child */
};

struct elect_run {
    const struct elect_options *options;
    struct waiter waiter;
    struct lease_page page;
    struct supervisor_spec supervisor;
    struct guardian guardian;
    sigset_t child_mask;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_election *election; /* NULL outside WAITING, LEADING and LEAVING */

    enum elect_phase phase;
    int64_t deadline_ms;   /* of the phase, 0: none */
    int64_t elected_by_ms; /* --timeout as a moment, 0: none */
    int64_t backoff_ms;
    int64_t term_began_ms;
    bool withdraw; /* a signal asked for the end: --forever ends, too */
    bool hangup;   /* HUP was passed on */
    struct elect_outcome outcome;

    int64_t token;  /* of the term, 0: none yet */
    pid_t child;    /* process group, 0: none, or not known yet */
    int exec_errno; /* why it was not executed, 0: it was */
    int64_t grace_ms;
    int64_t session_timeout_ms;

    pthread_mutex_t lock; /* what follows, and writing the page */
    pthread_cond_t child_gone_cond;
    bool child_gone; /* nothing of a child is left */
    struct elect_news news;
};

/* --- elect_run.c ------------------------------------------------------------------------------ */

/* Gives candidacy or leadership up; the outcome is what it was set to first. child_status: -1
 * without a child. */
void elect_leave(struct elect_run *r, const char *reason, int exit_code, int child_status);

/* --- elect_news.c ----------------------------------------------------------------------------- */

/* Callbacks of the client and the election, ctx being the run. on_revoked returns when nothing
 * of the child is left. */
void elect_on_state(struct conclave_client *client, enum conclave_state state, void *ctx);
extern const struct conclave_election_callbacks ELECT_CALLBACKS;

/* A copy of the news. */
struct elect_news elect_news_read(struct elect_run *r);

/* Nothing is left of a child: lets on_revoked return. */
void elect_child_is_gone(struct elect_run *r);

/* --- elect_child.c ---------------------------------------------------------------------------- */

/* Has the guardian start the child for the term that has begun. */
void elect_child_begin(struct elect_run *r);

/* To the child's process group; nothing where there is none. */
void elect_child_signal(struct elect_run *r, int number);

/* Stops this process as the shell's job control wants it; the guardian goes on. And after that. */
void elect_job_stop(struct elect_run *r);
void elect_job_continue(struct elect_run *r);

/* Reads what the guardian reports. */
void elect_guardian_news(struct elect_run *r);

/* The child should be gone and the guardian says nothing: does it here. */
void elect_child_force(struct elect_run *r, const struct elect_news *news);

#endif
