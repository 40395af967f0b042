/* `conclave lock --list` and `conclave semaphore --list`: who has it, and who waits, without taking
 * part. */
#ifndef CLI_RECIPES_HOLDERS_OUTPUT_H
#define CLI_RECIPES_HOLDERS_OUTPUT_H

#include "cli/run/hold_command.h"

/* Runs to its end and gives the exit code. */
int holders_output(const struct hold_options *options, bool semaphore);

#endif
