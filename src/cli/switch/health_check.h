/*
 * Whether a service is well, by a command that is run again and again in a thread of its own.
 *
 *   INITIALIZING ── exit 0 ──> HEALTHY ── N failures in a row ──> UNHEALTHY (it said so: any other code)
 *         │                       ^                               NOT_RESPONDING (no end in time)
 *         │                       '────── M successes in a row ── MONITOR_FAILED (cannot be run)
 *         '──────────────────────── N failures in a row ──────────────^
 *
 * The kind of the last failure names the state, also when the kind changes later.
 */
#ifndef CLI_SWITCH_HEALTH_CHECK_H
#define CLI_SWITCH_HEALTH_CHECK_H

#include <conclave/elector.h>

#include <pthread.h>

struct health_rules {
    const char *command; /* for /bin/sh */
    int64_t interval_ms; /* from the end of a check to the next */
    int64_t timeout_ms;
    int64_t failures;  /* N, at least 1 */
    int64_t successes; /* M, at least 1 */
};

/* --- the drawing above: pure --- */

struct health_track {
    enum conclave_health state;
    int64_t in_a_row; /* results that speak against the state */
};

/* The result of a check, as a state: CONCLAVE_HEALTH_HEALTHY for a success. */
void health_take(struct health_track *track, const struct health_rules *rules,
                 enum conclave_health found);

/* The meaning of the end of a check's process; error and code as of process_run. */
enum conclave_health health_of_end(int error, int code);

/* --- the thread --- */

struct health_monitor {
    const struct health_rules *rules;
    const char *const *more; /* of the check's environment */
    /* Every change of state, on the monitor's thread. */
    void (*changed)(enum conclave_health state, void *ctx);
    void *ctx;
    struct health_track track;
    pthread_t thread;
    int stop_fd; /* -1: does not run */
};

/* Begins with the first check. The pointers in *m stay valid until health_stop. 0, CONCLAVE_EIO. */
int health_start(struct health_monitor *m) CONCLAVE_MUST_USE;

/* Breaks off a check that runs, and waits for the thread. */
void health_stop(struct health_monitor *m);

#endif
