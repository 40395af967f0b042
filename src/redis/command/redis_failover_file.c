#define _GNU_SOURCE /* explicit_bzero, fmemopen */

/* The file of options that --config names: lines NAME=VALUE, or the YAML of the Ruby gem redis_failover. */
#include "cli/common/command.h"
#include "cli/common/credentials.h"
#include "redis/command/gem_config.h"
#include "redis/command/redis_failover.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- lines NAME=VALUE */

enum { FILE_LINES_MAX = 128, LINE_SIZE = 1024 };

/* One line as "--name=value" or "--name". NULL: an empty line, or out of memory (*ret_failed). */
static char *file_option(char *line, bool *ret_failed)
{
    char *text = line + strspn(line, " \t");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL) {
        text[--len] = '\0';
    }
    if (len == 0 || text[0] == '#') {
        return NULL;
    }
    char *option = malloc(len + 3);
    *ret_failed = option == NULL;
    if (option != NULL) {
        snprintf(option, len + 3, "--%s", text);
    }
    return option;
}

static int file_refuse(const char *file, const char *why)
{
    fprintf(stderr, "conclave redis-failover: cannot read %s: %s\n", file, why);
    return CLI_EXIT_USAGE;
}

/* Puts the file's options into all[1..FILE_LINES_MAX]. NULL, or why not all of them could be read. */
static const char *file_options(FILE *f, char **all, int *ret_count)
{
    char line[LINE_SIZE];
    bool failed = false;
    int count = 1;
    while (fgets(line, sizeof line, f) != NULL) {
        if (strchr(line, '\n') == NULL && !feof(f)) {
            return "a line of it is too long";
        }
        char *option = file_option(line, &failed);
        if (failed) {
            return "out of memory";
        }
        if (option != NULL && count > FILE_LINES_MAX) {
            free(option);
            return "it has too many options";
        }
        if (option != NULL) {
            all[count++] = option;
        }
    }
    *ret_count = count;
    return ferror(f) ? strerror(errno) : NULL;
}

/* --- YAML */

/* It is one by its name, by an environment, or by its first line. */
static bool file_is_yaml(const char *file, const char *environment, const char *text)
{
    const char *end = strrchr(file, '.');
    return environment != NULL ||
           (end != NULL && (strcmp(end, ".yml") == 0 || strcmp(end, ".yaml") == 0)) ||
           strncmp(text, "---", 3) == 0;
}

/* Whether there is such an option that a file may have. */
static bool option_known(const char *name, bool *ret_flag)
{
    for (const struct option_row *row = REDIS_USAGE.rows;
         row->name != NULL || row->kind == OPTION_ROWS; row++) {
        const struct option_row *found = row;
        if (row->kind == OPTION_ROWS) {
            found = row->value;
            while (found->name != NULL && strcmp(found->name, name) != 0) {
                found++;
            }
        }
        if (found->name != NULL && strcmp(found->name, name) == 0) {
            *ret_flag = found->kind == OPTION_FLAG;
            return true;
        }
    }
    return false;
}

static int yaml_options(const char *file, const char *text, size_t len, struct redis_cli *cli,
                        const char *environment, char **all, int *ret_count)
{
    struct gem_config config;
    char why[GEM_CONFIG_WHY];
    if (!gem_config_read(text, len, environment, option_known, &config, why)) {
        fprintf(stderr, "conclave redis-failover: %s: %s\n", file, why);
        return CLI_EXIT_USAGE;
    }
    assert(config.count <= FILE_LINES_MAX);
    memcpy(all + 1, config.options, config.count * sizeof *all);
    *ret_count = (int)config.count + 1;
    cli->redis_password = config.password;
    if (config.password != NULL) {
        credentials_check_file(REDIS_USAGE.name, file);
    }
    return 0;
}

/* --- both */

/* Found by hand: options are parsed only once, because parsing overwrites secrets among them. */
static const char *file_find(int argc, char **argv, const char *name, const char *letter)
{
    size_t len = strlen(name);
    const char *found = NULL;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if ((strcmp(argv[i], letter) == 0 || strcmp(argv[i], name) == 0) && i + 1 < argc) {
            found = argv[i + 1];
        } else if (strncmp(argv[i], name, len) == 0 && argv[i][len] == '=') {
            found = argv[i] + len + 1;
        }
    }
    return found;
}

/* The same for a text of lines. */
static const char *text_options(char *text, size_t len, char **all, int *ret_count)
{
    if (len == 0) {
        return NULL;
    }
    if (len > GEM_CONFIG_SIZE_MAX) {
        return "it is too large";
    }
    FILE *lines = fmemopen(text, len, "r");
    if (lines == NULL) {
        return strerror(errno);
    }
    const char *why = file_options(lines, all, ret_count);
    fclose(lines);
    return why;
}

/* Puts the options of an open file into all[1..]. It is read once, from its beginning: it may be a pipe. 0, or the exit
 * code. */
static int file_take(FILE *f, const char *file, const char *environment, struct redis_cli *cli,
                     char **all, int *ret_count)
{
    static char text[GEM_CONFIG_SIZE_MAX + 2];
    int code;
    (void)setvbuf(f, NULL, _IONBF, 0); /* no other copy of a password in it */
    size_t len = fread(text, 1, sizeof text - 1, f);
    text[len] = '\0';
    if (ferror(f) == 0 && file_is_yaml(file, environment, text)) {
        code = yaml_options(file, text, len, cli, environment, all, ret_count);
    } else {
        const char *why =
            ferror(f) != 0 ? strerror(errno) : text_options(text, len, all, ret_count);
        code = why == NULL ? 0 : file_refuse(file, why);
    }
    explicit_bzero(text, sizeof text);
    return code;
}

int redis_cli_file(int argc, char **argv, struct redis_cli *cli, char ***ret_argv, int *ret_argc)
{
    const char *file = file_find(argc, argv, "--config", "-C");
    const char *environment = file_find(argc, argv, "--environment", "-E");
    int count = 1;
    if (file == NULL) {
        return environment == NULL
                   ? 0
                   : usage_error(&REDIS_USAGE, "--environment is for a file (--config)");
    }
    char **all = calloc((size_t)argc + FILE_LINES_MAX + 1, sizeof *all);
    FILE *f = all == NULL ? NULL : fopen(file, "re");
    int code = f == NULL ? file_refuse(file, all == NULL ? "out of memory" : strerror(errno))
                         : file_take(f, file, environment, cli, all, &count);
    if (f != NULL) {
        fclose(f);
    }
    if (code != 0) {
        free(all);
        return code;
    }
    assert(argc > 0 && count > 0 && count <= FILE_LINES_MAX + 1);
    all[0] = argv[0];
    memcpy(all + count, argv + 1, (size_t)(argc - 1) * sizeof *argv);
    *ret_argc = count + argc - 1;
    *ret_argv = all;
    return 0;
}
