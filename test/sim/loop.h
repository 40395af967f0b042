/*
 * The replicated log on virtual time: replication/replication_uv.h without uv and threads. What a job
 * does to the disk happens at the moment at which it is done. Every entry that is applied, and every
 * change of roles, is shown to the checks before the server sees it.
 */
#ifndef SIM_LOOP_H
#define SIM_LOOP_H

#include "replication/replication_uv.h"

#include <stdbool.h>

struct machine;

/* When replication_tick is due, in ms of the member's clock; INT64_MAX: no log is open. */
int64_t loop_deadline(const struct machine *m);

/* Ticks, and the end of closing. */
void loop_tick(struct machine *m);

/* Does a job of any lane that waits; false when there is none. For a process that ends. */
bool loop_do_job(struct machine *m);

#endif
