#include "cli/recipes/acquire.h"

#include "cli/common/values.h"
#include "cli/recipes/holders_output.h"

#include <stdio.h>

int acquire_finish(struct acquire_options *options, const struct command_usage *usage,
                   const struct hold_kind *kind, const struct operands *operands)
{
    struct hold_options *turn = &options->turn;
    turn->usage = usage;
    turn->kind = kind;
    turn->own = options;
    int code = hold_options_finish(turn, operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (options->list && turn->command != NULL) {
        return usage_error(usage, "--list runs no command");
    }
    if (options->try && turn->common.timeout_ms != CONCLAVE_FOREVER) {
        return usage_error(usage, "give --try or --timeout, not both");
    }
    return OPTIONS_GO_ON;
}

int acquire_run(const struct acquire_options *options, bool semaphore)
{
    return options->list ? holders_output(&options->turn, semaphore) : hold_run(&options->turn);
}

void acquire_tell_timeout(const struct hold *r, const char *taken, const char *late,
                          const char *see)
{
    const struct acquire_options *options = r->options->own;
    const char *command = r->options->usage->name;
    char timeout[DURATION_TEXT_MAX];
    fprintf(stderr, "conclave %s: %s: %s", command, r->options->path, options->try ? taken : late);
    if (!options->try) {
        fprintf(stderr, " within %s", duration_text(r->options->common.timeout_ms, timeout));
    }
    fprintf(stderr, "; see %s with \"conclave %s --list %s\"\n", see, command, r->options->path);
}
