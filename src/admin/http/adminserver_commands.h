/*
 * The commands of ZooKeeper's AdminServer (server/admin/Commands.java of 3.9) as JSON objects. Each answer ends with
 * `command` and `error`. As in ZooKeeper, an unknown command gives status 200, with the reason in `error`.
 */
#ifndef ADMIN_HTTP_ADMINSERVER_COMMANDS_H
#define ADMIN_HTTP_ADMINSERVER_COMMANDS_H

#include "admin/answers/server_view.h"
#include "base/json.h"

/* Runs a command, by any of its names. argument is the value of the query's traceMask, or NULL. */
void commands_run(struct view *v, const char *name, const char *argument, struct buf *out);

/* The frame of every answer: what stands between them are the members of the object. Ends j and appends it to out; why is
 * null or empty when the command succeeded. */
void commands_begin(struct json *j);
void commands_end(struct json *j, const char *name, struct slice why, struct buf *out);

/* Whether this command changes state. */
bool commands_change(const char *name);

/* The answer of a command that only reports whether it failed: why, or NULL. */
void commands_fail(const char *name, const char *why, struct buf *out);

/* The list of links to all commands, as the AdminServer shows it at its command URL. */
void commands_list(const struct view *v, struct buf *out);

#endif
