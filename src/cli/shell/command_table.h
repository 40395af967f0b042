/* The table of the commands: one row each. */
#ifndef CLI_SHELL_COMMAND_TABLE_H
#define CLI_SHELL_COMMAND_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct command_row {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    const char *group; /* heading, given at the first row of a group */
    bool in_shell;     /* a line of "conclave shell" may begin with it */
};

/* By name, or NULL. */
const struct command_row *command_find(const char *name);

/* The row at an index, NULL behind the last. */
const struct command_row *command_at(size_t index);

/* Its name, for nearest_name; ctx is not used. */
const char *command_name_at(size_t index, const void *ctx);

#endif
