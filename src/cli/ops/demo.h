/* The scenes of `conclave demo`, in the order in which they are played. Each leaves nothing running; the stage knows
 * whether it failed. */
#ifndef CLI_OPS_DEMO_H
#define CLI_OPS_DEMO_H

#include "cli/ops/demo_stage.h"

/* demo_election.c: three candidates, the leader killed with -9, the next one stopped. */
void demo_election(struct stage *s);

/* demo_recipes.c */
void demo_lock(struct stage *s);   /* one at a time */
void demo_queue(struct stage *s);  /* work that dies is handed to another */
void demo_config(struct stage *s); /* a change reaches all, and all acknowledge it */

#endif
