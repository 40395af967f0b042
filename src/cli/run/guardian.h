/*
 * The wrapper's side of the supervisor: starts it, in a process of its own or in a thread, and
 * passes packets.
 *
 * The guardian process is forked before the client's threads exist, and it is the guardian, not
 * the wrapper, that forks the child. So the one that must kill in time has a single thread and
 * memory that is locked, is no part of the wrapper's process group, waits for nothing but the
 * clock, and is the child's parent: it learns of its end without delay, its number cannot be taken
 * by another meanwhile, its orphans are given to it (subreaper), and should the guardian itself be
 * killed, the kernel kills the child (PR_SET_PDEATHSIG). A wrapper that was stopped or killed is
 * needed for nothing of this. Limit: what leaves the child's process group and outlives the
 * guardian's own violent end escapes.
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

/* spec lives as long as the guardian. 0, CONCLAVE_EIO. */
int guardian_start(struct guardian *g, const struct supervisor_spec *spec) CONCLAVE_MUST_USE;

/* Waits until nothing of the child is left, then for the guardian's end. */
void guardian_finish(struct guardian *g);

/* From any thread. A guardian that is gone is learned from guardian_read. */
void guardian_send(struct guardian *g, const struct supervisor_request *request);

/* Its child should be gone and it says nothing: kills the child's process group from here, and wakes
 * the guardian should somebody have stopped it. */
void guardian_help(const struct guardian *g, pid_t group);

/* For a guardian that is gone, with which the kernel has killed the child: kills the rest of the child's process group
 * and returns when the group is empty. false: the system refused the kill for a time; the function printed that. */
bool guardian_kill_group(const struct guardian *g, pid_t group);

/* Never waits. 1 and a report; 0: none now; CONCLAVE_ECLOSED: the guardian is gone. */
int guardian_read(struct guardian *g, struct supervisor_report *ret);

#endif
