/* Faults and their times, drawn from the seed, as long as faults last. Afterwards everything is mended. */
#ifndef SIM_NEMESIS_H
#define SIM_NEMESIS_H

struct sim;

void nemesis_begin(struct sim *s);

/* All is mended: servers run, cables carry, disks are fast. */
void nemesis_end(struct sim *s);

#endif
