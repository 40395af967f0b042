/*
 * The options module: finds each option in the command's own table, then in the common one, and
 * writes its value into the command's target.
 */
#define _GNU_SOURCE /* explicit_bzero */
#include "cli/common/options.h"

#include "cli/common/command.h"
#include "cli/common/help.h"
#include "cli/common/values.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row NO_ROWS[] = {{.name = NULL}};

static const struct option_row HELP_ROWS[] = {
    {"help", 'h', OPTION_FLAG, 0, NULL, "Show the most important options.", NULL},
    {"help-all", 0, OPTION_FLAG, 0, NULL, "Show everything about this command.", NULL},
    {.name = NULL},
};

static const struct option_row COMMON_ROWS[] = {
    {"server", 's', OPTION_STRING, offsetof(struct common_options, server), "HOSTS",
     "Servers to use: HOST:PORT,HOST:PORT[/CHROOT]. Default $CONCLAVE_SERVER, else "
     "127.0.0.1:2181.",
     NULL},
    {"session", 0, OPTION_DURATION, offsetof(struct common_options, session_ms), "DURATION",
     "Session timeout to ask the server for; default 10s.", NULL},
    {"timeout", 0, OPTION_DURATION, offsetof(struct common_options, timeout_ms), "DURATION",
     "Wait this long for a connection and each answer. Default 5s.", NULL},
    {"json", 0, OPTION_FLAG, offsetof(struct common_options, json), NULL,
     "Write JSON, one object per line.", NULL},
    {.name = NULL},
};

/* How a client proves its identity, and TLS: shown by "conclave help connection" only. */
static const struct option_row LOGIN_ROWS[] = {
    {"auth", 0, OPTION_SECRET, offsetof(struct common_options, auth), "SCHEME:CREDENTIALS",
     "Who I am, such as digest:USER:PASSWORD; default $CONCLAVE_AUTH, which may hold several, one "
     "per line.",
     NULL},
    {"auth-file", 0, OPTION_STRING, offsetof(struct common_options, auth_file), "FILE",
     "The same from a file, one per line, which no list of processes shows.", NULL},
    {"sasl-mechanism", 0, OPTION_STRING, offsetof(struct common_options, sasl_mechanism), "NAME",
     "SASL: DIGEST-MD5, or GSSAPI, which takes who I am from Kerberos; default "
     "$CONCLAVE_SASL_MECHANISM, else DIGEST-MD5 when there is a user.",
     NULL},
    {"sasl-user", 0, OPTION_STRING, offsetof(struct common_options, sasl_user), "USER",
     "SASL: who I am; default $CONCLAVE_SASL_USER.", NULL},
    {"sasl-password-file", 0, OPTION_STRING, offsetof(struct common_options, sasl_password_file),
     "FILE",
     "SASL: a file whose first line is the password; default $CONCLAVE_SASL_PASSWORD_FILE, else "
     "$CONCLAVE_SASL_PASSWORD is the password.",
     NULL},
    {"sasl-service", 0, OPTION_STRING, offsetof(struct common_options, sasl_service), "NAME",
     "SASL: the servers' name in Kerberos; default $CONCLAVE_SASL_SERVICE, else zookeeper.", NULL},
    {"sasl-host", 0, OPTION_STRING, offsetof(struct common_options, sasl_host), "NAME",
     "SASL: the host in that name; default $CONCLAVE_SASL_HOST, else the name in --server.", NULL},
    {"tls", 0, OPTION_FLAG, offsetof(struct common_options, tls), NULL,
     "Speak TLS; so do the options below, and $CONCLAVE_TLS=1.", NULL},
    {"ca", 0, OPTION_STRING, offsetof(struct common_options, tls_ca), "FILE",
     "TLS: certificates that servers' must come from; default $CONCLAVE_TLS_CA, else the system's.",
     NULL},
    {"cert", 0, OPTION_STRING, offsetof(struct common_options, tls_cert), "FILE",
     "TLS: own certificate, PEM or PKCS12; default $CONCLAVE_TLS_CERT.", NULL},
    {"key", 0, OPTION_STRING, offsetof(struct common_options, tls_key), "FILE",
     "TLS: its key, unless --cert holds it; default $CONCLAVE_TLS_KEY. The password of either is "
     "taken from $CONCLAVE_TLS_PASSWORD.",
     NULL},
    {"tls-name", 0, OPTION_STRING, offsetof(struct common_options, tls_name), "NAME",
     "TLS: name that servers' certificates must have; default $CONCLAVE_TLS_NAME, else the name in "
     "--server.",
     NULL},
    {.name = NULL},
};

const struct option_row *option_table(const struct command_usage *usage, int index)
{
    const struct option_row *own = usage->rows != NULL ? usage->rows : NO_ROWS;
    const struct option_row *tables[OPTION_TABLES] = {
        [OPTION_TABLE_OWN] = own,
        [OPTION_TABLE_COMMON] = usage->client ? COMMON_ROWS : NO_ROWS,
        [OPTION_TABLE_LOGIN] = usage->client ? LOGIN_ROWS : NO_ROWS,
        [OPTION_TABLE_HELP] = HELP_ROWS,
    };
    return tables[index];
}

const struct option_row *option_by_name(const struct option_row *rows, const char *name, size_t len)
{
    for (; rows->name != NULL; rows++) {
        if (strlen(rows->name) == len && memcmp(rows->name, name, len) == 0) {
            return rows;
        }
    }
    return NULL;
}

/* --- errors ----------------------------------------------------------------------------------- */

int usage_error(const struct command_usage *usage, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "conclave %s: ", usage->name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "; see \"conclave %s --help\"\n", usage->name);
    return CLI_EXIT_USAGE;
}

/* The names of all options of a command, for nearest_name. */
static const char *option_name(size_t index, const void *ctx)
{
    for (int i = 0; i < OPTION_TABLES; i++) {
        for (const struct option_row *row = option_table(ctx, i); row->name != NULL; row++) {
            if (index-- == 0) {
                return row->name;
            }
        }
    }
    return NULL;
}

static int unknown_option(const struct command_usage *usage, const char *word, size_t len)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(len - 2), word + 2);
    const char *near = word[1] == '-' ? nearest_name(name, option_name, usage) : NULL;
    if (near != NULL) {
        return usage_error(usage, "there is no option %.*s, did you mean --%s", (int)len, word,
                           near);
    }
    return usage_error(usage, "there is no option %.*s", (int)len, word);
}

/* --- parsing ---------------------------------------------------------------------------------- */

static bool choice_parse(const char *const *choices, const char *text, int *ret)
{
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* A copy of an argument, which is overwritten. The text itself where memory is out. */
static const char *secret_take(char *text)
{
    static char *secret;
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
    secret = strdup(text);
    if (secret == NULL) {
        return text;
    }
    memset(text, 'x', strlen(text));
    return secret;
}

static bool list_add(struct option_list *list, const char *name, const char *text)
{
    if (list->count == OPTION_LIST_MAX) {
        return false;
    }
    list->items[list->count].name = name;
    list->items[list->count++].text = text;
    return true;
}

/* Stores a value; says what is wrong with it otherwise. OPTIONS_GO_ON or CLI_EXIT_USAGE. */
static int option_store(const struct command_usage *usage, const struct option_row *row, char *text,
                        void *target)
{
    char *field = (char *)target + row->offset;
    const char *wanted = NULL;
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_NOT:
        *(bool *)field = row->kind == OPTION_FLAG;
        break;
    case OPTION_STRING:
        *(const char **)(void *)field = text;
        break;
    case OPTION_SECRET:
        *(const char **)(void *)field = secret_take(text);
        break;
    case OPTION_INTEGER:
        if (!integer_parse(text, -1, INT32_MAX, (int64_t *)(void *)field)) {
            wanted = "a whole number";
        }
        break;
    case OPTION_DURATION:
        if (!duration_parse(text, (int64_t *)(void *)field)) {
            wanted = "a duration such as 500ms, 10s or 2m";
        }
        break;
    case OPTION_SIGNAL:
        if (!signal_parse(text, (int *)(void *)field)) {
            wanted = "a signal such as TERM or 15";
        }
        break;
    case OPTION_CHOICE:
        if (!choice_parse(row->choices, text, (int *)(void *)field)) {
            wanted = row->value;
        }
        break;
    case OPTION_ADD:
        if (!list_add((struct option_list *)(void *)field, row->name, text)) {
            return usage_error(usage, "--%s is given too often", row->name);
        }
        break;
    }
    if (wanted != NULL) {
        return usage_error(usage, "--%s wants %s, not \"%s\"", row->name, wanted, text);
    }
    return OPTIONS_GO_ON;
}

static const struct option_row *option_find(const struct command_usage *usage, const char *word,
                                            size_t len)
{
    for (int i = 0; i < OPTION_TABLES; i++) {
        const struct option_row *row = option_table(usage, i);
        if (word[1] == '-') {
            row = option_by_name(row, word + 2, len - 2);
        } else {
            while (row->name != NULL && (len != 2 || row->letter != word[1])) {
                row++;
            }
        }
        if (row != NULL && row->name != NULL) {
            return row;
        }
    }
    return NULL;
}

/* One option at argv[*index], with its value; advances *index beyond both. */
static int option_take(const struct command_usage *usage, int argc, char **argv, int *index,
                       void *target)
{
    char *word = argv[*index];
    char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct option_row *row = option_find(usage, word, len);
    char *value = equals != NULL ? equals + 1 : NULL;
    if (row == NULL) {
        return unknown_option(usage, word, len);
    }
    if (row == &HELP_ROWS[0] || row == &HELP_ROWS[1]) {
        return row == &HELP_ROWS[0] ? help_screen(usage) : help_all(usage);
    }
    ++*index;
    bool needs_value = row->kind != OPTION_FLAG && row->kind != OPTION_NOT;
    if (needs_value && value == NULL) {
        if (*index == argc) {
            return usage_error(usage, "--%s needs a value, %s", row->name, row->value);
        }
        value = argv[(*index)++];
    } else if (!needs_value && value != NULL) {
        return usage_error(usage, "--%s takes no value", row->name);
    }
    return option_store(usage, row, value, target);
}

static int operands_check(const struct command_usage *usage, const struct operands *operands)
{
    if (operands->count < usage->operands_min) {
        return usage_error(usage, "too few arguments: conclave %s %s", usage->name,
                           usage->forms[0]);
    }
    if (operands->count > usage->operands_max) {
        return usage_error(usage, "there is an argument too many, \"%s\"%s",
                           operands->words[usage->operands_max],
                           usage->runs_command ? "; the command to run stands behind \"--\"" : "");
    }
    return OPTIONS_GO_ON;
}

int options_parse(const struct command_usage *usage, int argc, char **argv, void *target,
                  struct operands *ret)
{
    struct operands operands = {.words = argv + 1};
    int index = 1;
    while (index < argc) {
        char *word = argv[index];
        if (strcmp(word, "--") == 0) {
            index++;
            if (usage->runs_command) {
                operands.command = argv + index;
                break;
            }
            while (index < argc) {
                operands.words[operands.count++] = argv[index++];
            }
        } else if (word[0] == '-' && word[1] != '\0') {
            int result = option_take(usage, argc, argv, &index, target);
            if (result != OPTIONS_GO_ON) {
                return result;
            }
        } else {
            operands.words[operands.count++] = word;
            index++;
        }
    }
    if (operands.command != NULL && operands.command[0] == NULL) {
        return usage_error(usage, "no command stands behind \"--\"");
    }
    int result = operands_check(usage, &operands);
    if (result == OPTIONS_GO_ON) {
        *ret = operands;
    }
    return result;
}
