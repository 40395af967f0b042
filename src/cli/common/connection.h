/*
 * Common parts of the client commands: a connected client, errors in one line with advice,
 * and the exit code that belongs to each.
 */
#ifndef CLI_COMMON_CONNECTION_H
#define CLI_COMMON_CONNECTION_H

#include "cli/common/acl_text.h"
#include "cli/common/command.h"
#include "cli/common/options.h"
#include "cli/common/waiter.h"

#include <conclave/client.h>
#include <conclave/recipes.h>
#include <conclave/servers.h>

/* The ACL of --acl or, without that, of $CONCLAVE_ACL; no entries: neither. 0, or the exit code after the
 * error was printed. Free with acl_entries_free, also after failure. */
int connection_acl(const char *command, const struct common_options *options,
                   struct acl_entries *ret);

/* The servers of --server, else the library's default servers. 0, or the exit code after the error was printed.
 * Free with conclave_server_list_free. */
int connection_servers(const char *command, const struct common_options *options,
                       struct conclave_server_list **ret);

/* Calls fn with options made from the common options and the environment; the rest of client_options is the caller's. 0 and
 * the error of fn, or the exit code of a printed error: of the options, of TLS or of SASL. */
typedef int (*connection_fn)(const struct conclave_client_options *options, void *ctx);
int connection_call(const char *command, const struct common_options *options,
                    struct conclave_client_options *client_options, connection_fn fn, void *ctx,
                    int *ret_error);

/* A client made from the common options and the environment; the rest of client_options is the
 * caller's. 0, or the exit code of a printed error. */
int connection_create(const char *command, const struct common_options *options,
                      struct conclave_client_options *client_options, struct conclave_client **ret);

/* Connects within the common timeout; requests are bounded by it, too. on_state may be NULL. 0,
 * or the exit code after the error was printed. Close with connection_close. */
int connection_open(const char *command, const struct common_options *options,
                    conclave_state_fn on_state, void *ctx, struct conclave_client **ret);

/* The same, but never the shell's own connection: for what leaves watches behind. */
int connection_open_own(const char *command, const struct common_options *options,
                        conclave_state_fn on_state, void *ctx, struct conclave_client **ret);

/* The connection of a shell, which its lines share. */
struct connection_base {
    struct conclave_client *client;
    const struct common_options *options; /* of the shell: the default of its lines */
    char *auths;                          /* given in the shell, one per line */
};

/* From now on connection_open gives base->client, unless the options say otherwise, and
 * connection_close leaves it; NULL: no longer. base is borrowed. */
void connection_share(const struct connection_base *base);
bool connection_is_shared(void);

/* Runs a command that uses recipes; returns the exit code. */
typedef int (*recipes_fn)(struct conclave_client *client, struct conclave_recipes *recipes,
                          void *ctx);

/* Connects, calls fn with recipes on that connection, and ends both. The exit code of fn, or of a printed error. */
int connection_run_recipes(const char *command, const struct common_options *options, recipes_fn fn,
                           void *ctx);

/* The same with a waiter for these signals (waiter.h). */
int connection_run_waiting(const char *command, const struct common_options *options,
                           struct waiter *w, const int *signals, recipes_fn fn, void *ctx);

/* The exit code of a command that has waited: of the waiter's error or, without one, of `error`, after printing it;
 * else 128 + the signal's number; else 0. */
int wait_exit_code(struct waiter *w, const char *command, const char *subject, int error,
                   int number);

/* Ends the session; waits a second at most for the server to know. */
void connection_close(struct conclave_client *client);

/* "conclave COMMAND: SUBJECT: text (NAME); what to do" on stderr. subject may be NULL. Returns
 * exit_code_of(error). */
int fail(const char *command, const char *subject, int error);

/* Prints a line with what the client saw, if it lost its session or, with `link`, its newest link. */
void connection_tell_loss(const char *command, const struct conclave_client *client, bool link);

/* As fail, for servers that gave no session: says why, as the servers report it where they answer. Returns
 * CLI_EXIT_UNAVAILABLE, or CLI_EXIT_AUTH where the credentials were refused. */
int fail_unreachable(const char *command, const struct conclave_client *client,
                     const struct common_options *options, int error);

/* The enum cli_exit of an error of the list. */
int exit_code_of(int error);

/* Whether path is a node's path: "/" first, no empty, "." or ".." part, no control character.
 * Tells what is wrong otherwise. OPTIONS_GO_ON or CLI_EXIT_USAGE. */
int path_check(const struct command_usage *usage, const char *path);

/* The first line of a list: its titles, with tabs between. Nothing with --json, and nothing without rows. */
void output_titles(const struct common_options *options, size_t rows, const char *titles);

/* Flushes stdout. The given exit code, or CLI_EXIT_IO after the error was printed. */
int output_end(const char *command, int exit_code);

#endif
