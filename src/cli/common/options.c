/*
 * The options module: finds each option in the command's own table, then in the common one, and
 * writes its value into the command's target.
 */
#include "cli/common/options.h"

#include "base/buf.h"
#include "cli/common/command.h"
#include "cli/common/help.h"
#include "cli/common/values.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row HELP_ROWS[] = {
    {"help", 'h', OPTION_FLAG, 0, NULL, "Show the most important options."},
    {"help-all", 0, OPTION_FLAG, 0, NULL, "Show everything about this command."},
    {.name = NULL},
};

static const struct option_row COMMON_ROWS[] = {
    {"server", 's', OPTION_STRING, offsetof(struct common_options, server), "HOSTS",
     "Servers to use: HOST:PORT,HOST:PORT[/CHROOT]. Default $CONCLAVE_SERVER, else "
     "127.0.0.1:2181."},
    {"session", 0, OPTION_DURATION, offsetof(struct common_options, session_ms), "DURATION",
     "Session timeout to ask the server for; default 10s."},
    {"timeout", 0, OPTION_DURATION, offsetof(struct common_options, timeout_ms), "DURATION",
     "Wait this long for a connection and each answer. Default 5s."},
    {"json", 0, OPTION_FLAG, offsetof(struct common_options, json), NULL,
     "Write JSON, one object per line."},
    {.name = NULL},
};

/* How a client proves its identity, and TLS: shown by "conclave help connection" only. */
static const struct option_row LOGIN_ROWS[] = {
    {"auth", 0, OPTION_SECRET, offsetof(struct common_options, auth), "SCHEME:CREDENTIALS",
     "Credentials, such as digest:USER:PASSWORD; default $CONCLAVE_AUTH, which may hold several, one "
     "per line."},
    {"auth-file", 0, OPTION_STRING, offsetof(struct common_options, auth_file), "FILE",
     "The same from a file, one per line, which no list of processes shows."},
    {"sasl-mechanism", 0, OPTION_STRING, offsetof(struct common_options, sasl_mechanism), "NAME",
     "SASL: DIGEST-MD5, or GSSAPI, which takes the identity from Kerberos; default "
     "$CONCLAVE_SASL_MECHANISM, else DIGEST-MD5 when there is a user."},
    {"sasl-user", 0, OPTION_STRING, offsetof(struct common_options, sasl_user), "USER",
     "SASL: name of the user; default $CONCLAVE_SASL_USER."},
    {"sasl-password-file", 0, OPTION_STRING, offsetof(struct common_options, sasl_password_file),
     "FILE",
     "SASL: a file whose first line is the password; default $CONCLAVE_SASL_PASSWORD_FILE, else "
     "$CONCLAVE_SASL_PASSWORD is the password."},
    {"sasl-service", 0, OPTION_STRING, offsetof(struct common_options, sasl_service), "NAME",
     "SASL: the servers' name in Kerberos; default $CONCLAVE_SASL_SERVICE, else zookeeper."},
    {"sasl-host", 0, OPTION_STRING, offsetof(struct common_options, sasl_host), "NAME",
     "SASL: the host in that name; default $CONCLAVE_SASL_HOST, else the name in --server."},
    {"tls", 0, OPTION_FLAG, offsetof(struct common_options, tls), NULL,
     "Speak TLS; so do the options below, and $CONCLAVE_TLS=1."},
    {"ca", 0, OPTION_STRING, offsetof(struct common_options, tls_ca), "FILE",
     "TLS: certificates that servers' must come from; default $CONCLAVE_TLS_CA, else the system's."},
    {"cert", 0, OPTION_STRING, offsetof(struct common_options, tls_cert), "FILE",
     "TLS: own certificate, PEM or PKCS12; default $CONCLAVE_TLS_CERT."},
    {"key", 0, OPTION_STRING, offsetof(struct common_options, tls_key), "FILE",
     "TLS: its key, unless --cert holds it; default $CONCLAVE_TLS_KEY. The password of either is "
     "taken from $CONCLAVE_TLS_PASSWORD."},
    {"tls-name", 0, OPTION_STRING, offsetof(struct common_options, tls_name), "NAME",
     "TLS: name that servers' certificates must have; default $CONCLAVE_TLS_NAME, else the name in "
     "--server."},
    {.name = NULL},
};

const struct option_row ACL_ROWS[] = {
    {"acl", 0, OPTION_ADD, offsetof(struct common_options, acl), "SPEC",
     "ACL of the created nodes, parents included. Entries SCHEME:ID:PERMS, such as "
     "digest:USER:HASH:cdrwa, with commas between; \"auth\" for all to the credentials given and "
     "nothing to others. May be given several times. Default $CONCLAVE_ACL, else "
     "world:anyone:cdrwa."},
    {.name = NULL},
};

const struct option_row READ_ROWS[] = {
    {"linearizable", 0, OPTION_FLAG, offsetof(struct common_options, linearizable), NULL,
     "Show everything that was acknowledged before. The server asks the leader first."},
    {"read-only", 0, OPTION_FLAG, offsetof(struct common_options, read_only), NULL,
     "Read also from a server without a quorum. The server has to permit it "
     "(readonlymode.enabled), and what it shows may be old."},
    {.name = NULL},
};

const struct option_row FENCED_BY_ROWS[] = {
    {"fenced-by", 0, OPTION_STRING, 0, "NODE",
     "Write only while this node exists: that of the holder of a lock, or of the leader, on whose "
     "behalf this is done. Otherwise nothing is written, and the exit code is 76."},
    {.name = NULL},
};

const struct option_row ALLOW_SETUID_ROWS[] = {
    {"allow-setuid", 0, OPTION_FLAG, 0, NULL,
     "Let CMD change its user by setuid, as sudo does. This process may then be unable to end CMD, "
     "and two may run at once. Default: such files give no other user to CMD, and are refused as "
     "CMD."},
    {.name = NULL},
};

/* --- rows ------------------------------------------------------------------------------------- */

/* A row, and where its value is in the target. */
struct option_found {
    const struct option_row *row; /* NULL: none */
    size_t offset;
};

/* Counts *index down to the row that is wanted. */
static struct option_found row_find(const struct option_row *rows, size_t *index, size_t offset)
{
    struct option_found found = {NULL, 0};
    for (; found.row == NULL && (rows->name != NULL || rows->kind == OPTION_ROWS); rows++) {
        if (rows->kind == OPTION_ROWS) {
            found = row_find(rows->value, index, offset + rows->offset);
        } else if ((*index)-- == 0) {
            found = (struct option_found){rows, offset + rows->offset};
        }
    }
    return found;
}

static struct option_found found_at(const struct command_usage *usage, int table, size_t index)
{
    const struct option_row *const tables[OPTION_TABLES] = {
        [OPTION_TABLE_OWN] = usage->rows,
        [OPTION_TABLE_COMMON] = usage->client ? COMMON_ROWS : NULL,
        [OPTION_TABLE_LOGIN] = usage->client ? LOGIN_ROWS : NULL,
        [OPTION_TABLE_HELP] = HELP_ROWS,
    };
    return tables[table] != NULL ? row_find(tables[table], &index, 0)
                                 : (struct option_found){NULL, 0};
}

const struct option_row *option_at(const struct command_usage *usage, int table, size_t index)
{
    return found_at(usage, table, index).row;
}

const struct option_row *option_by_name(const struct command_usage *usage, int table,
                                        const char *name)
{
    const struct option_row *row;
    for (size_t i = 0; (row = option_at(usage, table, i)) != NULL; i++) {
        if (strcmp(row->name, name) == 0) {
            break;
        }
    }
    return row;
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

int usage_check(const struct command_usage *usage, const struct usage_rule *rules)
{
    while (rules->text != NULL && !rules->broken) {
        rules++;
    }
    return rules->text != NULL ? usage_error(usage, "%s", rules->text) : OPTIONS_GO_ON;
}

/* The names of all options of a command, for nearest_name. */
static const char *option_name(size_t index, const void *ctx)
{
    const struct option_row *row;
    for (int table = 0; table < OPTION_TABLES; table++) {
        for (size_t i = 0; (row = option_at(ctx, table, i)) != NULL; i++) {
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

/* choices: the words, "|" between them. */
static bool choice_parse(const char *choices, const char *text, int *ret)
{
    size_t len = strlen(text);
    for (int i = 0; choices != NULL; i++) {
        if (strcspn(choices, "|") == len && memcmp(choices, text, len) == 0) {
            *ret = i;
            return true;
        }
        choices = strchr(choices, '|');
        choices += choices != NULL;
    }
    return false;
}

/* A copy of an argument, which is overwritten. The text itself where memory is out. */
static const char *secret_take(char *text)
{
    static char *secret;
    text_wipe(&secret);
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
static int option_store(const struct command_usage *usage, struct option_found found, char *text,
                        void *target)
{
    const struct option_row *row = found.row;
    char *field = (char *)target + found.offset;
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
        if (!choice_parse(row->value, text, (int *)(void *)field)) {
            wanted = row->value;
        }
        break;
    case OPTION_ADD:
        if (!list_add((struct option_list *)(void *)field, row->name, text)) {
            return usage_error(usage, "--%s is given too often", row->name);
        }
        break;
    case OPTION_ROWS:
        break;
    }
    if (wanted != NULL) {
        return usage_error(usage, "--%s wants %s, not \"%s\"", row->name, wanted, text);
    }
    return OPTIONS_GO_ON;
}

/* word: "--name" or "-n", of len bytes. */
static struct option_found option_find(const struct command_usage *usage, const char *word,
                                       size_t len)
{
    struct option_found found;
    for (int table = 0; table < OPTION_TABLES; table++) {
        for (size_t i = 0; (found = found_at(usage, table, i)).row != NULL; i++) {
            const char *name = found.row->name;
            if (word[1] == '-' ? strlen(name) == len - 2 && memcmp(name, word + 2, len - 2) == 0
                               : len == 2 && found.row->letter == word[1]) {
                return found;
            }
        }
    }
    return found;
}

/* One option at argv[*index], with its value; advances *index beyond both. */
static int option_take(const struct command_usage *usage, int argc, char **argv, int *index,
                       void *target)
{
    char *word = argv[*index];
    char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    struct option_found found = option_find(usage, word, len);
    const struct option_row *row = found.row;
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
            return usage_error(usage, "--%s needs a value, %s", row->name,
                               (const char *)row->value);
        }
        value = argv[(*index)++];
    } else if (!needs_value && value != NULL) {
        return usage_error(usage, "--%s takes no value", row->name);
    }
    return option_store(usage, found, value, target);
}

static int verb_unknown(const struct command_usage *usage, const char *word)
{
    char names[256] = "";
    size_t len = 0;
    for (const struct command_verb *verb = usage->verbs; verb->name != NULL; verb++) {
        const char *between = verb == usage->verbs ? "" : verb[1].name != NULL ? ", " : " and ";
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", between, verb->name);
        assert(len < sizeof names);
    }
    return usage_error(usage, "\"%s\" is none of %s", word, names);
}

static int too_few(const struct command_usage *usage, const char *verb)
{
    const char *const *form = usage->forms;
    while (strncmp(*form, verb, strlen(verb)) != 0 && form[1] != NULL) {
        form++;
    }
    return usage_error(usage, "too few arguments: conclave %s %s", usage->name, *form);
}

static int operands_check(const struct command_usage *usage, struct operands *operands)
{
    int min = usage->operands.min;
    int max = usage->operands.max;
    const char *verb = "";
    if (usage->first_verb_default && operands->count == 0) {
        operands->verb = 0;
        return OPTIONS_GO_ON;
    }
    if (usage->verbs != NULL && operands->count > 0) {
        const struct command_verb *row = usage->verbs;
        verb = operands->words[0];
        while (row->name != NULL && strcmp(row->name, verb) != 0) {
            row++;
        }
        if (row->name == NULL) {
            return verb_unknown(usage, verb);
        }
        if (operands->command != NULL && !row->runs_command) {
            return usage_error(usage, "%s runs no command", verb);
        }
        operands->verb = (int)(row - usage->verbs);
        min = row->operands_min + 1;
        max = row->operands_max + 1;
    }
    if (operands->count < min || (usage->verbs != NULL && operands->count == 0)) {
        return too_few(usage, verb);
    }
    if (operands->count > max) {
        return usage_error(usage, "there is an argument too many, \"%s\"%s", operands->words[max],
                           usage->runs_command ? "; put the command to run behind \"--\"" : "");
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
        return usage_error(usage, "there is no command behind \"--\"");
    }
    int result = operands_check(usage, &operands);
    if (result == OPTIONS_GO_ON) {
        *ret = operands;
    }
    return result;
}
