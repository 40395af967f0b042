/*
 * The shell's line editor on a terminal: editing, history and completion, by libedit.
 *
 * The history is kept in ~/.conclave_history, which only its owner can read. Lines with
 * credentials and very long ones are not kept.
 */
#ifndef CLI_SHELL_SHELL_EDIT_H
#define CLI_SHELL_SHELL_EDIT_H

#include <conclave/client.h>

struct shell_edit;

/* The first words that complete: the name at an index, NULL behind the last. */
typedef const char *(*shell_name_fn)(size_t index);

/* client: asked for the children of nodes. 0 or CONCLAVE_ENOMEM. */
int shell_edit_create(struct conclave_client *client, shell_name_fn names, struct shell_edit **ret);
void shell_edit_destroy(struct shell_edit *edit);

enum shell_input {
    SHELL_LINE,
    SHELL_INTERRUPTED, /* Ctrl-C: the typed text is dropped */
    SHELL_END,
};

/* The next line, which lives until the next call. */
enum shell_input shell_edit_read(struct shell_edit *edit, const char **ret_line);

/* Adds a line to the history, and saves it. */
void shell_edit_remember(struct shell_edit *edit, const char *line);

#endif
