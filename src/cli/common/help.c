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

/* --- text ------------------------------------------------------------------------------------- */

/* Words from text up to its first newline, broken before HELP_WIDTH; the cursor stands at
 * column. */
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

static void print_row(FILE *out, const struct option_row *row, const char *help)
{
    char head[64];
    char letter[8] = "    ";
    if (row->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    }
    snprintf(head, sizeof head, "  %s--%s%s%s", letter, row->name, row->value != NULL ? " " : "",
             row->value != NULL ? row->value : "");
    fprintf(out, "%-*s", HELP_COLUMN, head);
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
    const struct option_row *own = option_table(usage, OPTION_TABLE_OWN);
    for (const struct option_row *row = option_table(usage, table); row->name != NULL; row++) {
        if (table == OPTION_TABLE_OWN ||
            option_by_name(own, row->name, strlen(row->name)) == NULL) {
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
    for (int table = 0; table < OPTION_TABLES; table++) {
        for (const struct option_row *row = option_table(usage, table); row->name != NULL; row++) {
            if (row->kind == OPTION_DURATION) {
                return true;
            }
        }
    }
    return false;
}

static int end_of_output(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : CLI_EXIT_IO;
}

/* --- one screen ------------------------------------------------------------------------------- */

/* A part of the screen, printed into memory first so that its lines can be counted. */
struct help_part {
    FILE *out;
    char *text;
    size_t len;
};

static bool part_open(struct help_part *part)
{
    *part = (struct help_part){.text = NULL};
    part->out = open_memstream(&part->text, &part->len);
    return part->out != NULL;
}

static int part_lines(struct help_part *part)
{
    int lines = 0;
    if (fflush(part->out) == 0) {
        for (size_t i = 0; i < part->len; i++) {
            lines += part->text[i] == '\n';
        }
    }
    return lines;
}

/* Prints the part, unless it is only measured, and frees it. */
static void part_close(struct help_part *part, bool print)
{
    if (fclose(part->out) == 0 && print) {
        fwrite(part->text, 1, part->len, stdout);
    }
    free(part->text);
}

static void screen_head(FILE *out, const struct command_usage *usage)
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

static void screen_tail(FILE *out, const struct command_usage *usage)
{
    print_rows(out, usage, OPTION_TABLE_COMMON, print_short_row);
    print_rows(out, usage, OPTION_TABLE_HELP, print_short_row);
    if (usage->client) {
        fprintf(out, "\nLogin and TLS: \"conclave help connection\".\n");
    }
}

/* The first rows with a sentence, the others by name. */
static void screen_options(FILE *out, const struct option_row *rows, int shown)
{
    char names[1024] = "Also:";
    size_t len = strlen(names);
    for (int i = 0; rows[i].name != NULL; i++) {
        if (i < shown) {
            print_short_row(out, &rows[i]);
        } else {
            len += (size_t)snprintf(names + len, sizeof names - len, "%s --%s",
                                    i == shown ? "" : ",", rows[i].name);
            assert(len < sizeof names);
        }
    }
    if (len > strlen("Also:")) {
        fprintf(out, "      ");
        print_line(out, names, 6, 6);
    }
}

int help_screen(const struct command_usage *usage)
{
    struct help_part head;
    struct help_part tail;
    struct help_part options;
    const struct option_row *rows = option_table(usage, OPTION_TABLE_OWN);
    int shown = 0;
    while (rows[shown].name != NULL) {
        shown++;
    }
    if (!part_open(&head)) {
        return CLI_EXIT_IO;
    }
    screen_head(head.out, usage);
    int room = HELP_LINES - part_lines(&head);
    part_close(&head, true);
    if (!part_open(&tail)) {
        return CLI_EXIT_IO;
    }
    screen_tail(tail.out, usage);
    room -= part_lines(&tail);
    for (;; shown--) {
        if (!part_open(&options)) {
            part_close(&tail, false);
            return CLI_EXIT_IO;
        }
        screen_options(options.out, rows, shown);
        if (part_lines(&options) <= room || shown == 0) {
            break;
        }
        part_close(&options, false);
    }
    part_close(&options, true);
    part_close(&tail, true);
    return end_of_output();
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
    if (usage->client) {
        printf("\nLogin and TLS: \"conclave help connection\".\n");
    }
    if (has_durations(usage)) {
        printf("\nA DURATION is a number with its unit: 500ms, 10s, 2m, 1h.\n");
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
    printf("\nA DURATION is a number with its unit: 500ms, 10s, 2m, 1h.\n\n");
    print_text(stdout, CONNECTION_MORE, 0);
    return end_of_output();
}
