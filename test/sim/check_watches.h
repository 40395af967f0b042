/* A one-shot watch gets one event, before its client sees the change in another way, also across links and
 * servers; none is lost as long as its session lives. */
#ifndef SIM_CHECK_WATCHES_H
#define SIM_CHECK_WATCHES_H

#include "sim/checks.h"

void check_watches_answered(struct sim *s, struct client *c, struct deed *d);
void check_watches_event(struct sim *s, struct client *c, unsigned key,
                         enum conclave_event_type type);
void check_watches_end(struct sim *s);

#endif
