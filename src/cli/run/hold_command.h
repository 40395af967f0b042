/*
 * Holding something for a time, and running a command meanwhile: shared by `conclave elect`, `lock`, `semaphore` and
 * `switch`. They differ in what they hold (struct hold_kind).
 *
 * hold_options.c (arguments), hold_run.c (phases), hold_events.c (reports of the library's threads), hold_child.c (the
 * child, by way of the guardian). All of it belongs to the main thread, except what `lock` guards.
 */
#ifndef CLI_RUN_HOLD_COMMAND_H
#define CLI_RUN_HOLD_COMMAND_H

#include "cli/common/connection.h"
#include "cli/run/guardian.h"

#include <conclave/recipes.h>

#include <signal.h>

#define HOLD_ID_MAX 256

struct hold;

/* A kind of hold: leadership, a lock, one place of a semaphore. Functions of the library; holding is
 * what start made. */
struct hold_kind {
    const char *role;        /* CONCLAVE_ROLE */
    const char *lost;        /* "leadership lost" */
    const char *handed_over; /* said instead when CONCLAVE_ECANCELED ended the term; NULL: lost */
    const char *withdrawn;   /* "the candidacy is withdrawn" */
    const char *busy;        /* "held by another": why not now (--try); NULL: it knows no --try */
    const char *late;        /* "not elected", with "within TIME" behind it */
    const char *see;         /* "who leads": the subject of --list */
    /* Queues up: *ret_holding, whose callbacks call hold_granted and its kin. 0 or why not. */
    int (*start)(struct hold *r, void **ret_holding);
    /* Gives up what it has or waits for; hold_closed follows. */
    void (*close)(void *holding);
    void (*destroy)(void *holding); /* after that */
    int64_t (*lease_until_ns)(const void *holding);
    void (*node)(const void *holding, char *buf, size_t len);
    int (*ack)(void *holding); /* announces that the command is ready; NULL: not announced */
    /* It failed: says why, as fail does. NULL: fail itself. */
    int (*tell_failure)(const struct hold *r, int error);
    /* Before the recipes go, after destroy: ends what start made beside the handle. False: it cannot be
     * ended, and goes with the process. NULL: nothing. */
    bool (*end)(struct hold *r);
};

/* Arguments that all of these commands have. */
struct hold_options {
    /* timeout_ms: to get it in, CONCLAVE_FOREVER by default; 0: now */
    struct common_options common;
    const struct command_usage *usage;
    const struct hold_kind *kind;
    const void *own; /* the command's own options */
    const char *path;
    char *const *command; /* NULL: hold it without a command */
    const char *id;       /* never NULL after hold_options_finish */
    bool list;            /* --list: looks only */
    bool try;             /* --try: now or not at all */
    bool forever;
    /* a term that was lost is followed by waiting for the next, with the same handle */
    bool lasting;
    bool silent; /* without a command: neither prints node and token nor minds the input's end */
    bool guardian;
    bool allow_setuid; /* the command may change its user */
    bool ready_fd;     /* the command says itself when it is ready */
    int64_t connect_timeout_ms;
    int64_t leave_timeout_ms; /* for the end of the handle to be confirmed */
    int64_t grace_ms;         /* -1: as long as the session allows */
    int kill_signal;
    int64_t status_fd;    /* -1: none */
    int64_t timeout_exit; /* exit code when it did not get it in time */
    char id_space[HOLD_ID_MAX];
};
#define HOLD_OPTIONS_INIT                                                                          \
    {                                                                                              \
        .common = {.session_ms = 10000, .timeout_ms = CONCLAVE_FOREVER}, .guardian = true,         \
        .connect_timeout_ms = 30000, .leave_timeout_ms = 2000, .grace_ms = -1,                     \
        .kill_signal = SIGTERM, .status_fd = -1, .timeout_exit = CLI_EXIT_TIMEOUT                  \
    }

/* Options that all of these commands have, for OPTION_GROUP at a struct hold_options. */
extern const struct option_row HOLD_ROWS[];

enum { HOLD_ANSWER_TIMEOUT_MS = 5000 }; /* without taking part */

enum hold_phase { HOLD_CONNECTING, HOLD_WAITING, HOLD_HELD, HOLD_LEAVING, HOLD_BACKOFF, HOLD_DONE };

/* The reports of the library's threads. */
struct hold_news {
    bool connected;
    bool auth_failed;
    bool granted;
    int64_t token;
    bool failed; /* it will not get it: the command must ask for closed */
    int failed_why;
    bool revoked;
    int revoked_why;
    int64_t kill_at_ns; /* with revoked */
    bool closed;
    int closed_why;
};

/* How a term, or the waiting for one, ended. */
struct hold_outcome {
    const char *reason; /* NULL: none yet */
    int exit_code;
    int child_status; /* exit code, or 128 + signal; -1: no child */
};

struct hold {
    const struct hold_options *options;
    struct waiter waiter;
    struct lease_page page;
    struct supervisor_spec supervisor;
    struct guardian guardian;
    sigset_t child_mask;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    void *holding; /* NULL outside WAITING, HOLDING and LEAVING */

    enum hold_phase phase;
    int64_t deadline_ms;   /* of the phase, 0: none */
    int64_t granted_by_ms; /* --timeout as a moment, 0: none */
    int64_t backoff_ms;
    int64_t term_began_ms;
    bool withdraw; /* a signal asked for the end: --forever ends, too */
    bool hangup;   /* HUP was passed on */
    struct hold_outcome outcome;

    int64_t token;  /* of the term, 0: none yet */
    pid_t child;    /* process group, 0: none, or not known yet */
    int exec_errno; /* why it was not executed, 0: it was */
    int64_t grace_ms;
    int64_t session_timeout_ms;

    pthread_mutex_t lock; /* what follows, and writing the page */
    pthread_cond_t child_gone_cond;
    bool child_gone; /* nothing of a child is left */
    bool doubtful;   /* the guardian died: processes outside the child's group may still run */
    struct hold_news news;
};

/* --- hold_options.c --------------------------------------------------------------------------- */

/* Fills in the rest of the options and checks what all commands have. OPTIONS_GO_ON or the exit code. */
int hold_options_finish(struct hold_options *options, const struct command_usage *usage,
                        const struct hold_kind *kind, const void *own,
                        const struct operands *operands);

/* --timeout, or the default without taking part. */
int64_t hold_answer_ms(const struct hold_options *options);

/* Looks without taking part: connects and calls `look`, whose exit code it returns, or that of a printed error. */
int hold_look(const struct hold_options *options, recipes_fn look, void *ctx);

/* --- hold_run.c ------------------------------------------------------------------------------- */

/* Runs to its end and gives the exit code. */
int hold_run(const struct hold_options *options);

/* --grace as an option of the library: 0 when it was not given. */
int64_t hold_lease_grace_ms(const struct hold *r);

/* Time limit for the library: 0 with --try or --timeout 0, which the library answers; else none, as hold_run counts. */
int64_t hold_acquire_ms(const struct hold *r);

/* Gives up what it waits for or has; the outcome is what it was set to first. child_status: -1 without a child. */
void hold_leave(struct hold *r, const char *reason, int exit_code, int child_status);

/* The term was lost: waits for the next one, or leaves. */
void hold_lost(struct hold *r, int child_status);

/* --- hold_events.c ------------------------------------------------------------------------------ */

/* A callback of the client; ctx: the struct hold. */
void hold_on_state(struct conclave_client *client, enum conclave_state state, void *ctx);

/* What the kinds' callbacks tell. It has it; it will not get it; it has lost it or gives it up, and
 * this returns when nothing of the child is left; the handle has ended. */
void hold_granted(struct hold *r, int64_t token, int64_t until_ns);
void hold_failed(struct hold *r, int why);
void hold_answered(struct hold *r, int error, int64_t token, int64_t until_ns); /* either */
void hold_revoked(struct hold *r, int why, int64_t stop_within_ms);
void hold_closed(struct hold *r, int why);

/* Why the term has ended, in words. */
const char *hold_lost_text(const struct hold *r, const struct hold_news *news);

/* A copy of the news. */
struct hold_news hold_news_read(struct hold *r);

/* Nothing is left of a child: lets hold_revoked return. */
void hold_child_is_gone(struct hold *r);

/* With `lasting`: the main thread is done with the term, whose end hold_revoked waits for, too. */
void hold_term_over(struct hold *r);

/* Whether it is sure that nothing of any child is left. */
bool hold_certain(struct hold *r);

/* --- hold_child.c ---------------------------------------------------------------------------- */

/* Has the guardian start the child for the term that has begun. */
void hold_child_begin(struct hold *r);

/* Sends to the child's process group; does nothing without a child. */
void hold_child_signal(struct hold *r, int number);

/* Stops this process as the shell's job control wants it; the guardian goes on. And after that. */
void hold_job_stop(struct hold *r);
void hold_job_continue(struct hold *r);

/* Reads what the guardian reports. */
void hold_guardian_news(struct hold *r);

#endif
