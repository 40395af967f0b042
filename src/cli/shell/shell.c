/*
 * conclave shell: one session, many commands. A line is a command with its arguments, read by the same tables as on
 * the command line; what belongs to the session (credentials, ephemeral nodes) lasts until the shell ends.
 *
 * On a terminal the line editor reads, with history and completion. Anything else is a script: no prompt, and the
 * exit code is that of the first line that failed.
 */
#define _GNU_SOURCE /* explicit_bzero */
#include "cli/common/connection.h"
#include "cli/common/credentials.h"
#include "cli/common/node_output.h"
#include "cli/common/values.h"
#include "cli/shell/command_table.h"
#include "cli/shell/shell_edit.h"
#include "cli/shell/shell_words.h"

#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shell_options {
    struct common_options common;
    bool stop;
};

static const struct option_row ROWS[] = {
    {"stop-on-error", 0, OPTION_FLAG, offsetof(struct shell_options, stop), NULL,
     "End with the first line that fails. Default: go on with the next."},
    OPTION_GROUP(ACL_ROWS, 0),
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "shell",
    .forms = (const char *const[]){"[options]", "[options] < SCRIPT", NULL},
    .about =
        "Runs commands on one session: ls, get, set, create, rm, stat, tree, count, watch, acl, "
        "quota, sync and whoami, with the arguments they have outside, and those that the shell "
        "has itself; \"help\" lists them. An ephemeral node lives as long as the shell. On a "
        "terminal, lines can be edited, Tab completes commands and paths, and Ctrl-C ends a watch.",
    .rows = ROWS,
    .more =
        "Words with blanks are quoted: \"a b\", 'a b' or a\\ b; # begins a comment. A line that "
        "gives --server, --auth or another option of the connection runs on a connection of its "
        "own. ZooKeeper's names work as well: delete, deleteall, getAcl, setAcl, addauth, "
        "listquota, delquota, getAllChildrenNumber, getEphemerals, quit.\n"
        "\n"
        "The exit code is that of the first line that failed. The history is kept in "
        "~/.conclave_history, without lines that have credentials.\n",
    .client = true,
};

struct shell {
    const struct shell_options *options;
    struct conclave_client *client;
    struct connection_base base;
    bool ended;
    int exit_code; /* of the first line that failed */
};

/* --- built-in commands ----------------------------------------------------------------- */

static int shell_help(struct shell *shell, int argc, char **argv);
static int shell_auth(struct shell *shell, int argc, char **argv);
static int shell_ephemerals(struct shell *shell, int argc, char **argv);
static int shell_exit(struct shell *shell, int argc, char **argv);

static const struct {
    const char *name;
    const char *summary;
    int (*run)(struct shell *shell, int argc, char **argv);
    int words_max; /* behind the name */
} BUILTINS[] = {
    {"auth", "SCHEME:CREDENTIALS: add credentials to the session.", shell_auth, 2},
    {"ephemerals", "[PREFIX]: the ephemeral nodes of this session.", shell_ephemerals, 1},
    {"help", "[COMMAND]: this list, or all about one command.", shell_help, 1},
    {"exit", "End the shell, and its session.", shell_exit, 0},
};
enum { BUILTIN_COUNT = sizeof BUILTINS / sizeof BUILTINS[0], ALIAS_WORDS = 2 };

/* Names of ZooKeeper's shell. */
static const struct {
    const char *name;
    char *words[ALIAS_WORDS]; /* that replace it */
} ALIASES[] = {
    {"delete", {"rm", NULL}},       {"deleteall", {"rm", "--recursive"}},
    {"rmr", {"rm", "--recursive"}}, {"getAcl", {"acl", "get"}},
    {"setAcl", {"acl", "set"}},     {"listquota", {"quota", "get"}},
    {"delquota", {"quota", "rm"}},  {"getAllChildrenNumber", {"count", NULL}},
    {"addauth", {"auth", NULL}},    {"getEphemerals", {"ephemerals", NULL}},
    {"quit", {"exit", NULL}},
};
enum { ALIAS_COUNT = sizeof ALIASES / sizeof ALIASES[0] };

static int shell_error(const char *subject, const char *what)
{
    fprintf(stderr, "conclave shell: %s: %s\n", subject, what);
    return CLI_EXIT_USAGE;
}

static int shell_help(struct shell *shell, int argc, char **argv)
{
    if (argc == 2) {
        const struct command_row *row = command_find(argv[1]);
        if (row == NULL || !row->in_shell) {
            return shell_error(argv[1], "there is no such command; see \"help\"");
        }
        char *help[] = {argv[1], "--help-all", NULL};
        return row->run(2, help);
    }
    const struct command_row *row;
    for (size_t i = 0; (row = command_at(i)) != NULL; i++) {
        if (row->in_shell) {
            printf("  %-10s %s\n", row->name, row->summary);
        }
    }
    for (int i = 0; i < BUILTIN_COUNT; i++) {
        printf("  %-10s %s\n", BUILTINS[i].name, BUILTINS[i].summary);
    }
    printf("\n\"help COMMAND\" tells all about one command.\n");
    return 0;
}

/* Also as two words, as in ZooKeeper's shell. */
static int shell_auth(struct shell *shell, int argc, char **argv)
{
    char *line = NULL;
    int len = argc == 3   ? asprintf(&line, "%s:%s", argv[1], argv[2])
              : argc == 2 ? asprintf(&line, "%s", argv[1])
                          : asprintf(&line, "%s", "");
    if (len < 0) {
        return fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    int code = len == 0 ? shell_error("auth", "wants SCHEME:CREDENTIALS")
                        : credentials_add_text(USAGE.name, "auth", line, shell->client);
    /* Lines with a connection of their own use them, too. */
    char *all = NULL;
    if (code == 0 && asprintf(&all, "%s%s\n", shell->base.auths, line) >= 0) {
        explicit_bzero(shell->base.auths, strlen(shell->base.auths));
        free(shell->base.auths);
        shell->base.auths = all;
    }
    explicit_bzero(line, (size_t)len);
    free(line);
    return code;
}

static int shell_ephemerals(struct shell *shell, int argc, char **argv)
{
    const char *prefix = argc > 1 ? argv[1] : "/";
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_EPHEMERALS, prefix, 0);
    struct conclave_reply *reply = NULL;
    int error = conclave_call(shell->client, &op, &reply);
    const char **paths = NULL;
    if (error == 0) {
        paths = names_sorted(reply->children, reply->children_count);
        error = paths == NULL ? CONCLAVE_ENOMEM : 0;
    }
    for (size_t i = 0; error == 0 && i < reply->children_count; i++) {
        puts(paths[i]);
    }
    free(paths);
    conclave_reply_free(reply);
    return error == 0 ? 0 : fail("ephemerals", prefix, error);
}

static int shell_exit(struct shell *shell, int argc, char **argv)
{
    shell->ended = true;
    return 0;
}

/* --- a line ------------------------------------------------------------------------------------ */

/* Everything that a line may begin with. */
static const char *shell_name(size_t index)
{
    size_t i = 0;
    const struct command_row *row;
    for (size_t at = 0; (row = command_at(at)) != NULL; at++) {
        if (row->in_shell && i++ == index) {
            return row->name;
        }
    }
    return index - i < BUILTIN_COUNT ? BUILTINS[index - i].name : NULL;
}

static const char *shell_name_near(size_t index, const void *ctx)
{
    return shell_name(index);
}

static int unknown(const char *word)
{
    char what[160];
    char name[32];
    snprintf(name, sizeof name, "%s", word);
    const char *near = nearest_name(name, shell_name_near, NULL);
    bool outside = command_find(name) != NULL && strcmp(name, word) == 0;
    snprintf(what, sizeof what, "there is no such command%s%s%s%s",
             outside        ? " in the shell"
             : near != NULL ? ", did you mean \""
                            : "",
             !outside && near != NULL ? near : "", !outside && near != NULL ? "\"" : "",
             "; see \"help\"");
    return shell_error(name, what);
}

/* argc: at least 1. */
static int run_words(struct shell *shell, int argc, char **argv)
{
    assert(argc > 0 && argv[0] != NULL);
    for (int i = 0; i < BUILTIN_COUNT; i++) {
        if (strcmp(BUILTINS[i].name, argv[0]) == 0) {
            return argc - 1 <= BUILTINS[i].words_max
                       ? BUILTINS[i].run(shell, argc, argv)
                       : shell_error(argv[0], "there is an argument too many");
        }
    }
    const struct command_row *row = command_find(argv[0]);
    return row != NULL && row->in_shell ? row->run(argc, argv) : unknown(argv[0]);
}

/* The words with the alias replaced, if the first is one. */
static int run_aliased(struct shell *shell, const struct shell_words *words)
{
    for (int i = 0; i < ALIAS_COUNT; i++) {
        if (strcmp(ALIASES[i].name, words->items[0]) == 0) {
            char **argv = calloc((size_t)words->count + ALIAS_WORDS, sizeof *argv);
            int argc = 0;
            if (argv == NULL) {
                return fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
            }
            while (argc < ALIAS_WORDS && ALIASES[i].words[argc] != NULL) {
                argv[argc] = ALIASES[i].words[argc];
                argc++;
            }
            for (int w = 1; w < words->count; w++) {
                argv[argc++] = words->items[w];
            }
            int code = run_words(shell, argc, argv);
            free(argv);
            return code;
        }
    }
    return run_words(shell, words->count, words->items);
}

/* Whether a line gives credentials, so that it is not to be remembered; looks at its text, as it may be malformed. */
static bool has_credentials(const char *line)
{
    while (*line == ' ' || *line == '\t') {
        line++;
    }
    return strstr(line, "--auth") != NULL || strncmp(line, "auth", 4) == 0 ||
           strncmp(line, "addauth", 7) == 0;
}

static void run_line(struct shell *shell, const char *line)
{
    struct shell_words words;
    int code = 0;
    int error = shell_words_split(line, &words);
    if (error == CONCLAVE_EINVAL) {
        code = shell_error("quotes", "one is not closed");
    } else if (error != 0) {
        code = fail(USAGE.name, NULL, error);
    } else {
        /* A command may block signals to read them itself. */
        sigset_t mask;
        pthread_sigmask(SIG_BLOCK, NULL, &mask);
        code = words.count > 0 ? run_aliased(shell, &words) : 0;
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
        shell_words_free(&words);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        code = CLI_EXIT_IO;
        shell->ended = true;
    }
    shell->exit_code = shell->exit_code == 0 ? code : shell->exit_code;
    shell->ended = shell->ended || (code != 0 && shell->options->stop);
    /* A signal that ended a command of the line ends the shell, too. */
    int number = code > 128 ? code - 128 : 0;
    if (number == SIGTERM || number == SIGHUP || number == SIGQUIT) {
        shell->exit_code = code;
        shell->ended = true;
    }
}

/* --- the shell --------------------------------------------------------------------------------- */

static void on_interrupt(int number)
{
}

static int run_terminal(struct shell *shell)
{
    struct shell_edit *edit;
    /* Ctrl-C is for the running command; commands that ignore it have a time limit. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    int error = shell_edit_create(shell->client, shell_name, &edit);
    if (error == CONCLAVE_EUNSUPPORTED) {
        fprintf(stderr, "conclave: shell: libedit is missing: install it\n");
        return CLI_EXIT_UNAVAILABLE;
    }
    if (error != 0) {
        return fail(USAGE.name, NULL, error);
    }
    while (!shell->ended) {
        const char *line;
        enum shell_input input = shell_edit_read(edit, &line);
        if (input == SHELL_END) {
            break;
        }
        if (input == SHELL_LINE) {
            if (line[strspn(line, " \t\r\n")] != '\0' && !has_credentials(line)) {
                shell_edit_remember(edit, line);
            }
            run_line(shell, line);
        }
    }
    shell_edit_destroy(edit);
    return 0; /* errors were seen */
}

static int run_script(struct shell *shell)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    while (!shell->ended && (len = getline(&line, &room, stdin)) >= 0) {
        if (strlen(line) != (size_t)len) {
            shell->exit_code = shell_error("the input", "a line has a NUL");
            break;
        }
        run_line(shell, line);
    }
    if (ferror(stdin)) {
        fprintf(stderr, "conclave shell: cannot read the input: %s\n", strerror(errno));
        shell->exit_code = CLI_EXIT_IO;
    }
    if (line != NULL) {
        explicit_bzero(line, room);
    }
    free(line);
    return shell->exit_code;
}

int command_shell(int argc, char **argv)
{
    struct shell_options options = {.common = COMMON_OPTIONS_INIT};
    struct shell shell = {.options = &options};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    setlocale(LC_CTYPE, ""); /* paths are UTF-8: the line editor counts characters */
    code = connection_open(USAGE.name, &options.common, NULL, NULL, &shell.client);
    if (code != 0) {
        return code;
    }
    shell.base = (struct connection_base){.client = shell.client, .options = &options.common};
    const char *auth = options.common.auth;
    if (asprintf(&shell.base.auths, "%s%s", auth != NULL ? auth : "", auth != NULL ? "\n" : "") <
        0) {
        shell.base.auths = NULL;
        code = fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    } else {
        connection_share(&shell.base);
        code = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? run_terminal(&shell)
                                                             : run_script(&shell);
        connection_share(NULL);
        explicit_bzero(shell.base.auths, strlen(shell.base.auths));
    }
    free(shell.base.auths);
    connection_close(shell.client);
    return output_end(USAGE.name, code);
}
