/*
 * Makes the output of --help and "conclave help" from the tables of options. Lines are at most 80
 * columns wide. Each function returns the exit code: 0, or CLI_EXIT_IO.
 */
#ifndef CLI_COMMON_HELP_H
#define CLI_COMMON_HELP_H

#include "cli/common/options.h"

enum { HELP_LINES = 40 };

/* One screen: the first paragraph, and one sentence for each option. Options that do not fit into
 * HELP_LINES are named only, the last ones of the table first. */
int help_screen(const struct command_usage *usage);

/* Everything about a command, but for the options of the connection. */
int help_all(const struct command_usage *usage);

/* The options that all client commands share. */
int help_connection(void);

/* Paragraphs to stdout, indented. */
void help_text(const char *text, int indent);

#endif
