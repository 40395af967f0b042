/*
 * Persistent watches: the client gets each event once, before it sees the change otherwise, for as long as the client
 * has its link; after a new one nothing is answered before the watch was told RESUMED. A recursive watch hears of
 * all below its path.
 */
#ifndef SIM_CHECK_LASTING_H
#define SIM_CHECK_LASTING_H

#include "sim/checks.h"

void check_lasting_answered(struct sim *s, struct client *c, struct deed *d,
                            const struct conclave_reply *reply);

/* The watch got an event of a path; it is over; the client has lost its link. */
void check_lasting_event(struct sim *s, struct client *c, unsigned lasting,
                         enum conclave_event_type type, const char *path);
void check_lasting_lost(struct sim *s, struct client *c, unsigned lasting,
                        enum conclave_event_type type);
void check_lasting_unlinked(struct client *c);

void check_lasting_end(struct sim *s);

#endif
