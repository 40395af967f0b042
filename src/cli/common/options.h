/*
 * Options of the commands. Each command has one table; from it come parsing, the text of --help
 * and the errors. Options may come before and after the operands; "--" ends them. "--name value"
 * and "--name=value" are the same; a single option may have a letter ("-r"). What a command does
 * not give keeps the value that the caller put into the target.
 */
#ifndef CLI_COMMON_OPTIONS_H
#define CLI_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG = 1, /* bool */
    OPTION_NOT,      /* bool, set to false */
    OPTION_STRING,   /* const char * into argv */
    OPTION_INTEGER,  /* int64_t, from -1 to INT32_MAX */
    OPTION_DURATION, /* int64_t, milliseconds */
    OPTION_SIGNAL,   /* int */
    OPTION_CHOICE,   /* int: which of the words of `value`, as in "one|other" */
    /* const char *, that of the argument being overwritten, so that no list of processes shows it
     * any longer; lives until the next secret is parsed */
    OPTION_SECRET,
    OPTION_ADD,  /* struct option_list: may be given several times */
    OPTION_ROWS, /* no option: the rows of another table */
};

/* The given values, in their order; several rows may add to one list. */
enum { OPTION_LIST_MAX = 32 };
struct option_list {
    struct {
        const char *name; /* of the option */
        const char *text;
    } items[OPTION_LIST_MAX];
    size_t count;
};

struct option_row {
    const char *name; /* without the dashes; NULL ends a table, but for OPTION_ROWS */
    char letter;      /* 0: none */
    enum option_kind kind;
    size_t offset; /* of the value in the target */
    const void *
        value; /* text: its name in the help; the table of OPTION_ROWS, whose offsets begin at this row's */
    const char *help; /* sentences; --help shows the first one */
};
/* A row that includes another table; at: offset in the target that the table's own offsets are added to. */
#define OPTION_GROUP(table, at)                                                                    \
    {                                                                                              \
        .kind = OPTION_ROWS, .value = (table), .offset = (at)                                      \
    }

/* The options of all client commands: the first member of each target. */
struct common_options {
    const char *server; /* NULL: $CONCLAVE_SERVER or the default */
    int64_t session_ms;
    int64_t timeout_ms;
    bool json;
    bool linearizable; /* READ_ROWS; as in struct conclave_op */
    bool read_only;    /* READ_ROWS */
    bool tls;          /* given, or any of the following; connection.c adds the environment */
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    const char *tls_name;
    const char *auth; /* SCHEME:CREDENTIALS */
    const char *auth_file;
    const char *sasl_mechanism; /* given, or any of the following; with the environment as above */
    const char *sasl_user;
    const char *sasl_password_file;
    const char *sasl_service;
    const char *sasl_host;
    bool no_wait;           /* not an option: connection_open_own does not wait for the session */
    struct option_list acl; /* of the commands that create nodes: ACL_ROWS */
};
#define COMMON_OPTIONS_INIT                                                                        \
    {                                                                                              \
        .session_ms = 10000, .timeout_ms = 5000                                                    \
    }

/* Rows of several commands, for OPTION_GROUP. Those with the common options are at 0: ACL_ROWS of the
 * commands that create nodes, READ_ROWS of those that read the tree. The others are at their field. */
extern const struct option_row ACL_ROWS[];
extern const struct option_row READ_ROWS[];
extern const struct option_row FENCED_BY_ROWS[];    /* const char *: of the commands that write */
extern const struct option_row ALLOW_SETUID_ROWS[]; /* bool: of the commands that run a command */

/* A verb: the first operand of a command that has verbs. */
struct command_verb {
    const char *name; /* NULL ends a table */
    int operands_min; /* behind the verb */
    int operands_max;
    bool runs_command; /* as of the command */
};

struct command_usage {
    const char *name;
    const char *const *forms; /* NULL-ended: the words behind the name */
    const char *about; /* paragraphs, a blank line between; after a space lines stay as they are.
                        * --help shows the first one, and the next if its lines stay */
    const struct option_row *rows; /* an own row hides the common one of its name */
    const char *more;              /* behind the options, as about; may be NULL */
    bool client;       /* has the common options, and target begins with struct common_options */
    bool runs_command; /* the words behind "--" are a command to run */
    const struct command_verb *verbs; /* NULL: none; else the operands are those of the verb */
    bool first_verb_default;          /* without operands the first verb is meant */
    struct {
        int min;
        int max;
    } operands; /* how many; without verbs */
};

struct operands {
    char **words; /* inside argv, whose order is changed; the verb is the first */
    int count;
    int verb;       /* index in the command's verbs */
    char **command; /* NULL-ended, never empty; NULL: none */
};

/* The tables that a command's options are found in, in this order; a table that it lacks is empty. */
enum {
    OPTION_TABLE_OWN,
    OPTION_TABLE_COMMON, /* server, session, timeout, output */
    OPTION_TABLE_LOGIN,  /* authentication and TLS */
    OPTION_TABLE_HELP,
    OPTION_TABLES
};

/* The row at an index of a table, those of its groups included; NULL behind the last one. */
const struct option_row *option_at(const struct command_usage *usage, int table, size_t index);

/* The table's row of that name, or NULL. */
const struct option_row *option_by_name(const struct command_usage *usage, int table,
                                        const char *name);

#define OPTIONS_GO_ON (-1)

/* Reads argv into target. OPTIONS_GO_ON, or the exit code: 0 when the help was asked for and
 * printed, CLI_EXIT_USAGE when an error was. argv's order changes. */
int options_parse(const struct command_usage *usage, int argc, char **argv, void *target,
                  struct operands *ret);

/* One line on stderr: "conclave NAME: ..." with a pointer to the help. Returns CLI_EXIT_USAGE. */
int usage_error(const struct command_usage *usage, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A forbidden combination and its error; a row without text ends the table. */
struct usage_rule {
    bool broken;
    const char *text;
};

/* OPTIONS_GO_ON, or CLI_EXIT_USAGE after the text of the first broken rule was printed. */
int usage_check(const struct command_usage *usage, const struct usage_rule *rules);

#endif
