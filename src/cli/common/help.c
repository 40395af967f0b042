#define _GNU_SOURCE /* open_memstream */
#include "cli/common/help.h"

#include "cli/common/command.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_WIDTH 80
#define HELP_COLUMN 26
#define SENTENCE_MAX 512

static const char CONNECTION_ABOUT[] =
    "Options of all commands that connect to a server. Most have a default in the environment, so "
    "a shell or a service sets them once. conclave(1) has examples.";

static const char CONNECTION_MORE[] =
    "CONCLAVE_AUTH and the passwords are not handed on to the programs that a command starts, unless "
    "CONCLAVE_KEEP_CREDENTIALS=1.";

static const char DURATION_NOTE[] = "\nA DURATION is a number with its unit: 500ms, 10s, 2m, 1h.";

/* --- text ------------------------------------------------------------------------------------- */

/* Words from text up to its first newline, broken before HELP_WIDTH; the cursor is at column. */
static const char *print_line(FILE *out, const char *text, int indent, int column)
{
    while (*text != '\0' && *text != '\n') {
        int word = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + word > HELP_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    putc('\n', out);
    return *text == '\n' ? text + 1 : text;
}

static void print_text(FILE *out, const char *text, int indent)
{
    while (*text != '\0') {
        if (*text == ' ') {
            int len = (int)strcspn(text, "\n");
            fprintf(out, "%*s%.*s\n", indent, "", len, text);
            text += len + (text[len] == '\n');
        } else if (*text == '\n') {
            putc('\n', out);
            text++;
        } else {
            fprintf(out, "%*s", indent, "");
            text = print_line(out, text, indent, indent);
        }
    }
}

void help_text(const char *text, int indent)
{
    print_text(stdout, text, indent);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Prints the head of a row. A list of choices that is wider than the page is broken behind a "|". */
static void print_row_head(FILE *out, const char *head)
{
    const char *rest = head;
    if (strlen(head) > HELP_WIDTH) {
        rest = head + HELP_WIDTH;
        while (rest > head && rest[-1] != '|') {
            rest--;
        }
        fprintf(out, "%.*s\n%*s", (int)(rest - head), head, HELP_COLUMN, "");
    }
    fprintf(out, "%-*s", HELP_COLUMN, rest);
}

static void print_row(FILE *out, const struct option_row *row, const char *help)
{
    char head[128];
    char letter[8] = "    ";
    if (row->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    }
    const char *value = row->value;
    snprintf(head, sizeof head, "  %s--%s%s%s", letter, row->name, value != NULL ? " " : "",
             value != NULL ? value : "");
    print_row_head(out, head);
    if (strlen(head) >= HELP_COLUMN) {
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    }
    print_line(out, help, HELP_COLUMN, HELP_COLUMN);
}

static void print_short_row(FILE *out, const struct option_row *row)
{
    char sentence[SENTENCE_MAX];
    const char *end = strstr(row->help, ". ");
    int len = end != NULL ? (int)(end - row->help) + 1 : (int)strlen(row->help);
    assert(len < SENTENCE_MAX);
    snprintf(sentence, sizeof sentence, "%.*s", len, row->help);
    print_row(out, row, sentence);
}

/* The rows of a table that no row of the command's own hides. */
static void print_rows(FILE *out, const struct command_usage *usage, int table,
                       void (*print)(FILE *out, const struct option_row *row))
{
    const struct option_row *row;
    for (size_t i = 0; (row = option_at(usage, table, i)) != NULL; i++) {
        if (table == OPTION_TABLE_OWN ||
            option_by_name(usage, OPTION_TABLE_OWN, row->name) == NULL) {
            print(out, row);
        }
    }
}

static void print_long_row(FILE *out, const struct option_row *row)
{
    print_row(out, row, row->help);
}

static void print_forms(FILE *out, const struct command_usage *usage)
{
    for (size_t i = 0; usage->forms[i] != NULL; i++) {
        fprintf(out, "%s conclave %s%s%s\n", i == 0 ? "usage:" : "      ", usage->name,
                usage->forms[i][0] != '\0' ? " " : "", usage->forms[i]);
    }
    putc('\n', out);
}

static bool has_durations(const struct command_usage *usage)
{
    const struct option_row *row;
    for (int table = 0; table < OPTION_TABLES; table++) {
        for (size_t i = 0; (row = option_at(usage, table, i)) != NULL; i++) {
            if (row->kind == OPTION_DURATION) {
                return true;
            }
        }
    }
    return false;
}

static void print_login(FILE *out, const struct command_usage *usage)
{
    if (usage->client) {
        fprintf(out, "\nLogin and TLS: \"conclave help connection\".\n");
    }
}

static int end_of_output(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : CLI_EXIT_IO;
}

/* --- one screen ------------------------------------------------------------------------------- */

/* Forms and the first paragraph, and the next one if its lines stay as they are. */
static void print_head(FILE *out, const struct command_usage *usage)
{
    char about[2048];
    const char *end = strstr(usage->about, "\n\n");
    if (end != NULL && end[2] == ' ') {
        end = strstr(end + 2, "\n\n");
    }
    int len = end != NULL ? (int)(end - usage->about) : (int)strlen(usage->about);
    assert((size_t)len < sizeof about);
    snprintf(about, sizeof about, "%.*s", len, usage->about);
    print_forms(out, usage);
    print_text(out, about, 0);
    fprintf(out, "\nOptions:\n");
}

/* The first `shown` rows with a sentence, the others by name. */
static void print_own_rows(FILE *out, const struct command_usage *usage, size_t shown)
{
    char names[1024] = "Also:";
    size_t len = strlen(names);
    const struct option_row *row;
    for (size_t i = 0; (row = option_at(usage, OPTION_TABLE_OWN, i)) != NULL; i++) {
        if (i < shown) {
            print_short_row(out, row);
        } else {
            len += (size_t)snprintf(names + len, sizeof names - len, "%s --%s",
                                    i == shown ? "" : ",", row->name);
            assert(len < sizeof names);
        }
    }
    if (len > strlen("Also:")) {
        fprintf(out, "      ");
        print_line(out, names, 6, 6);
    }
}

/* Prints the screen with that many rows of its own. -1: it cannot be written; else the number of its lines, which are on
 * stdout only when they are no more than HELP_LINES, or `shown` is 0. */
static int print_screen(const struct command_usage *usage, size_t shown)
{
    char *text = NULL;
    size_t len = 0;
    int lines = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return -1;
    }
    print_head(out, usage);
    print_own_rows(out, usage, shown);
    print_rows(out, usage, OPTION_TABLE_COMMON, print_short_row);
    print_rows(out, usage, OPTION_TABLE_HELP, print_short_row);
    print_login(out, usage);
    bool written = fclose(out) == 0;
    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n';
    }
    if (written && (lines <= HELP_LINES || shown == 0)) {
        written = fwrite(text, 1, len, stdout) == len;
    }
    free(text);
    return written ? lines : -1;
}

int help_screen(const struct command_usage *usage)
{
    size_t shown = 0;
    while (option_at(usage, OPTION_TABLE_OWN, shown) != NULL) {
        shown++;
    }
    int lines;
    while ((lines = print_screen(usage, shown)) > HELP_LINES && shown > 0) {
        shown--;
    }
    return lines < 0 ? CLI_EXIT_IO : end_of_output();
}

/* --- everything ------------------------------------------------------------------------------- */

int help_all(const struct command_usage *usage)
{
    print_forms(stdout, usage);
    print_text(stdout, usage->about, 0);
    printf("\nOptions:\n");
    print_rows(stdout, usage, OPTION_TABLE_OWN, print_long_row);
    print_rows(stdout, usage, OPTION_TABLE_COMMON, print_long_row);
    print_rows(stdout, usage, OPTION_TABLE_HELP, print_long_row);
    print_login(stdout, usage);
    if (has_durations(usage)) {
        puts(DURATION_NOTE);
    }
    if (usage->more != NULL) {
        putchar('\n');
        print_text(stdout, usage->more, 0);
    }
    return end_of_output();
}

int help_connection(void)
{
    static const struct command_usage CONNECTION = {.client = true};
    print_text(stdout, CONNECTION_ABOUT, 0);
    putchar('\n');
    print_rows(stdout, &CONNECTION, OPTION_TABLE_COMMON, print_long_row);
    print_rows(stdout, &CONNECTION, OPTION_TABLE_LOGIN, print_long_row);
    printf("%s\n\n", DURATION_NOTE);
    print_text(stdout, CONNECTION_MORE, 0);
    return end_of_output();
}
