/*
 * The wrapper's side of the supervisor: starts it, in a process of its own or in a thread, and passes packets.
 *
 * The guardian process is forked before the client's threads exist, and it is the guardian, not the wrapper, that
 * forks the child. So the process that must kill in time has a single thread and locked memory, has a process group
 * of its own, waits for nothing but the clock, and is the child's parent: it learns of the child's end without delay,
 * no other process can get the child's number meanwhile, it becomes the parent of orphans (subreaper), and if the
 * guardian itself is killed, the kernel kills the child (PR_SET_PDEATHSIG). All this works without the wrapper, which
 * may be stopped or dead. Limit: a process that has left the child's process group survives when the guardian is
 * killed.
 */
#ifndef CLI_RUN_GUARDIAN_H
#define CLI_RUN_GUARDIAN_H

#include "cli/run/supervisor.h"

#include <pthread.h>

struct guardian {
    const struct supervisor_spec *spec;
    int fd;           /* wrapper's end, -1: none */
    int other_fd;     /* the thread's end, closed when it is joined */
    pid_t pid;        /* of the process; 0: a thread, or none */
    pthread_t thread; /* when pid is 0 */
};

/* To be called before there are threads: blocks SIGCHLD, and makes this process the parent of a killed guardian's orphans.
 * Refuses programs that would change the user. spec lives as long as the guardian. 0, or the exit code after the error was
 * told; then there is nothing to finish. */
int guardian_start(struct guardian *g, const struct supervisor_spec *spec) CONCLAVE_MUST_USE;

/* Waits until nothing of the child is left, then for the guardian's end. */
void guardian_finish(struct guardian *g);

/* From any thread. A guardian that is gone is learned from guardian_read. */
void guardian_send(struct guardian *g, const struct supervisor_request *request);

/* To be called again and again after it was asked to end the child by kill_at_ns: once it is late, kills the child's process
 * group from here, and wakes the guardian in case somebody has stopped it. group 0: none. */
void guardian_help(const struct guardian *g, pid_t group, int64_t kill_at_ns);

/* For a guardian that is gone, with which the kernel has killed the child: prints that, kills the rest of the child's
 * process group (0: none) and returns when the group is empty. False: the system refused the kill for a time. */
bool guardian_bury(const struct guardian *g, pid_t group);

/* Never waits. 1 and a report; 0: none now; CONCLAVE_ECLOSED: the guardian is gone. */
int guardian_read(struct guardian *g, struct supervisor_report *ret);

#endif
