/* Common parts of `conclave lock` and `conclave semaphore`: options, and --list. */
#ifndef CLI_RECIPES_ACQUIRE_H
#define CLI_RECIPES_ACQUIRE_H

#include "cli/run/hold_command.h"

/* For OPTION_GROUP at a struct hold_options. */
extern const struct option_row ACQUIRE_ROWS[];

/* Lists, or holds. The exit code. */
int acquire_run(const struct hold_options *options, bool semaphore);

#endif
