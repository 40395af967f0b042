/*
 * Options of the commands. Each command has one table; from it come parsing, the text of --help
 * and the errors. Options may stand before and after the operands; "--" ends them. "--name value"
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
    OPTION_CHOICE,   /* int: index in choices */
    /* const char *, that of the argument being overwritten, so that no list of processes shows it
     * any longer; lives until the next secret is parsed */
    OPTION_SECRET,
    OPTION_ADD, /* struct option_list: may be given several times */
};

/* What was given, in its order; several rows may add to one list. */
enum { OPTION_LIST_MAX = 32 };
struct option_list {
    struct {
        const char *name; /* of the option */
        const char *text;
    } items[OPTION_LIST_MAX];
    size_t count;
};

struct option_row {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* 0: none */
    enum option_kind kind;
    size_t offset;              /* of the value in the target */
    const char *value;          /* its name in the help */
    const char *help;           /* sentences; --help shows the first one */
    const char *const *choices; /* NULL-ended, of OPTION_CHOICE */
};

/* What all client commands have in common: the first member of each target. */
struct common_options {
    const char *server; /* NULL: $CONCLAVE_SERVER or the default */
    int64_t session_ms;
    int64_t timeout_ms;
    bool json;
    bool read_only; /* of the commands that read the tree: READ_ONLY_ROW */
    bool tls;       /* given, or any of the following; connection.c adds the environment */
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
    struct option_list acl; /* of the commands that create nodes: ACL_ROW */
};
#define COMMON_OPTIONS_INIT                                                                        \
    {                                                                                              \
        .session_ms = 10000, .timeout_ms = 5000                                                    \
    }

/* Of the commands that read the tree: a bool that becomes conclave_op.linearizable. */
#define LINEARIZABLE_ROW(type, member)                                                             \
    {                                                                                              \
        "linearizable", 0, OPTION_FLAG, offsetof(type, member), NULL,                              \
            "Show everything that was acknowledged before. The server asks the leader first.",     \
            NULL                                                                                   \
    }

/* Of the same: a server without a quorum will do. */
#define READ_ONLY_ROW                                                                              \
    {                                                                                              \
        "read-only", 0, OPTION_FLAG, offsetof(struct common_options, read_only), NULL,             \
            "Read also from a server without a quorum. The server has to permit it "               \
            "(readonlymode.enabled), and what it shows may be old.",                               \
            NULL                                                                                   \
    }

/* Of the commands that create nodes. */
#define ACL_ROW                                                                                     \
    {                                                                                               \
        "acl", 0, OPTION_ADD, offsetof(struct common_options, acl), "SPEC",                         \
            "ACL of the created nodes, parents included. Entries SCHEME:ID:PERMS, such as "         \
            "digest:USER:HASH:cdrwa, with commas between; \"auth\" for all to the credentials "     \
            "given and nothing to others. May be given several times. Default $CONCLAVE_ACL, else " \
            "world:anyone:cdrwa.",                                                                  \
            NULL                                                                                    \
    }

/* Of the commands that run a command while they hold something; offset: of a bool. */
#define ALLOW_SETUID_ROW(offset)                                                                   \
    {                                                                                              \
        "allow-setuid", 0, OPTION_FLAG, offset, NULL,                                              \
            "Let CMD change its user by setuid, as sudo does. This process may then be "           \
            "unable to end CMD, and two may run at once. Default: such files give no other user "  \
            "to CMD, and are refused as CMD.",                                                     \
            NULL                                                                                   \
    }

struct command_usage {
    const char *name;
    const char *const *forms; /* NULL-ended: what stands behind the name */
    const char *about; /* paragraphs, a blank line between; after a space lines stay as they are.
                        * --help shows the first one, and the next if its lines stay */
    const struct option_row *rows; /* an own row hides the common one of its name */
    const char *more;              /* behind the options, as about; may be NULL */
    bool client;       /* has the common options, and target begins with struct common_options */
    bool runs_command; /* the words behind "--" are a command to run */
    int operands_min;
    int operands_max;
};

struct operands {
    char **words; /* inside argv, whose order is changed */
    int count;
    char **command; /* NULL-ended, NULL when there is none; may be empty no more than that */
};

/* The tables that a command's options are found in, in this order; a table that it lacks is empty. */
enum {
    OPTION_TABLE_OWN,
    OPTION_TABLE_COMMON, /* server, session, timeout, output */
    OPTION_TABLE_LOGIN,  /* authentication and TLS */
    OPTION_TABLE_HELP,
    OPTION_TABLES
};
const struct option_row *option_table(const struct command_usage *usage, int index);

/* The row of that name, or NULL. */
const struct option_row *option_by_name(const struct option_row *rows, const char *name,
                                        size_t len);

#define OPTIONS_GO_ON (-1)

/* Reads argv into target. OPTIONS_GO_ON, or the exit code: 0 when the help was asked for and
 * printed, CLI_EXIT_USAGE when an error was. argv's order changes. */
int options_parse(const struct command_usage *usage, int argc, char **argv, void *target,
                  struct operands *ret);

/* One line on stderr: "conclave NAME: ..." with a pointer to the help. Returns CLI_EXIT_USAGE. */
int usage_error(const struct command_usage *usage, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
