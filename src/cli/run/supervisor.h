/*
 * The supervisor of a command that runs while something is held: starts the child on request, and ends it, its process
 * group and all its descendants when the lease ends, whether the wrapper is well, stopped or dead.
 *
 *            START                      child exits, nothing left
 *    IDLE ─────────> RUNNING ──────────────────────────────────────────> IDLE (ENDED)
 *                       │ end of the lease; STOP; wrapper gone;             ^
 *                       │ child exits and leaves others behind              │
 *                       v              kill_at                              │
 *                    STOPPING (kill-signal) ─────> KILLING (SIGKILL) ───────┘ nothing left
 *
 * It runs in a process of its own (the guardian), or with --no-guardian in a thread of the wrapper.
 * It talks over a SOCK_SEQPACKET pair, one struct per packet.
 */
#ifndef CLI_RUN_SUPERVISOR_H
#define CLI_RUN_SUPERVISOR_H

#include "cli/run/child.h"
#include "cli/run/lease_page.h"

enum supervisor_ask {
    SUPERVISOR_START = 1, /* term */
    SUPERVISOR_SIGNAL,    /* number, to the child's process group */
    SUPERVISOR_STOP,      /* the term is over: kill-signal now, SIGKILL at kill_at_ns */
};

struct supervisor_request {
    enum supervisor_ask ask;
    int number;
    int64_t kill_at_ns;
    struct child_term term;
};

enum supervisor_news {
    SUPERVISOR_STARTED = 1, /* value: pid, which is the process group */
    SUPERVISOR_FAILED, /* value: errno; the child could not be started or executed. ENDED follows */
    SUPERVISOR_READY,  /* the child wrote READY=1 */
    SUPERVISOR_STOPPED, /* value: the signal of job control that stopped it */
    SUPERVISOR_ENDED, /* nothing is left of it. value: wait status; lost: the term was over first */
};

struct supervisor_report {
    enum supervisor_news news;
    int value;
    bool lost;
    /* ENDED: the system refused SIGKILL meanwhile: the child ended without it, or others ended it. */
    bool denied;
};

struct supervisor_spec {
    struct child_program program;
    const struct lease_page *page;
    int kill_signal;
    bool ready;       /* give it a pipe for READY=1 */
    bool own_process; /* it has a process to itself: every child and orphan of it is the child's */
    pid_t tty_owner;  /* process group that gets the terminal back */
};

/* Runs until the other end of fd is closed and nothing of the child is left. SIGCHLD is to be
 * blocked in all threads. 0, or CONCLAVE_EIO when it could not begin. */
int supervisor_run(const struct supervisor_spec *spec, int fd);

#endif
