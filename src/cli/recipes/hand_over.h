/* The form of `conclave elect` and `conclave lock` for operators: hands over to a named one that waits. */
#ifndef CLI_RECIPES_HAND_OVER_H
#define CLI_RECIPES_HAND_OVER_H

#include "cli/run/hold_command.h"

#include <conclave/hand_over.h>

struct hand_over_form {
    const struct hold_options *options;
    const char *to;
    const char *role; /* "leader" */
    int (*hand_over)(struct conclave_recipes *recipes, const char *path, const char *to,
                     int64_t timeout_ms, struct conclave_hand_over *ret);
};

/* Runs to its end and gives the exit code. */
int hand_over_form_run(const struct hand_over_form *form);

#endif
