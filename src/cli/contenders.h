/* `conclave lock --list` and `conclave semaphore --list`: who has it, and who waits, without taking
 * part. */
#ifndef CLI_CONTENDERS_H
#define CLI_CONTENDERS_H

#include "cli/turn.h"

/* Runs to its end and gives the exit code. */
int contenders_list(const struct turn_options *options, bool semaphore);

#endif
