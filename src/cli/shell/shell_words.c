#define _GNU_SOURCE /* explicit_bzero */
#include "cli/shell/shell_words.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Reading one line; text is written no faster than it is read, so it fits where it came from. */
struct scan {
    const char *at;
    const char *end;
    char *out;
    char quote; /* the open one, 0: none */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The character behind a backslash. */
static void scan_escape(struct scan *s)
{
    char c = *s->at++;
    if (s->quote == '"' && (c == 'n' || c == 't')) {
        *s->out++ = c == 'n' ? '\n' : '\t';
        return;
    }
    int high = s->quote == '"' && c == 'x' && s->end - s->at >= 2 ? hex_digit(s->at[0]) : -1;
    int low = high >= 0 ? hex_digit(s->at[1]) : -1;
    /* A NUL would end the word, which is a string. */
    if (low >= 0 && (high | low) != 0) {
        *s->out++ = (char)(high * 16 + low);
        s->at += 2;
        return;
    }
    *s->out++ = c;
}

/* One word, up to the blank behind it or the end. */
static void scan_word(struct scan *s)
{
    while (s->at < s->end && (s->quote != 0 || !is_blank(*s->at))) {
        char c = *s->at++;
        if (c == '\\' && s->quote != '\'' && s->at < s->end) {
            scan_escape(s);
        } else if (c == s->quote) {
            s->quote = 0;
        } else if (s->quote == 0 && (c == '"' || c == '\'')) {
            s->quote = c;
        } else {
            *s->out++ = c;
        }
    }
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && is_blank(*s->at)) {
        s->at++;
    }
}

int shell_words_split(const char *line, struct shell_words *ret)
{
    size_t len = strlen(line);
    struct shell_words words = {.text = malloc(len + 2), .text_len = len + 2};
    int room = 8;
    words.items = malloc((size_t)room * sizeof *words.items);
    struct scan s = {.at = line, .end = line + len, .out = words.text};
    int error = words.text == NULL || words.items == NULL ? CONCLAVE_ENOMEM : 0;
    for (skip_blanks(&s); error == 0 && s.at < s.end && *s.at != '#'; skip_blanks(&s)) {
        if (words.count + 1 == room) {
            room *= 2;
            char **items = realloc(words.items, (size_t)room * sizeof *items);
            if (items == NULL) {
                error = CONCLAVE_ENOMEM;
                break;
            }
            words.items = items;
        }
        words.items[words.count++] = s.out;
        scan_word(&s);
        *s.out++ = '\0';
        error = s.quote != 0 ? CONCLAVE_EINVAL : 0;
    }
    if (error != 0) {
        shell_words_free(&words);
        return error;
    }
    words.items[words.count] = NULL;
    *ret = words;
    return 0;
}

void shell_words_free(struct shell_words *words)
{
    if (words->text != NULL) {
        explicit_bzero(words->text, words->text_len);
    }
    free(words->text);
    free(words->items);
    *words = (struct shell_words){0};
}

int shell_word_at_end(const char *text, size_t len, size_t *ret_start, char **ret_word,
                      int *ret_index)
{
    char *word = malloc(len + 1);
    if (word == NULL) {
        return CONCLAVE_ENOMEM;
    }
    struct scan s = {.at = text, .end = text + len};
    int index = -1;
    do {
        skip_blanks(&s);
        *ret_start = (size_t)(s.at - text);
        s.out = word;
        s.quote = 0;
        scan_word(&s);
        index++;
    } while (s.at < s.end);
    *s.out = '\0';
    *ret_word = word;
    *ret_index = index;
    return 0;
}

char *shell_word_quote(const char *word)
{
    char *quoted = malloc(2 * strlen(word) + 1);
    char *out = quoted;
    for (const char *p = word; quoted != NULL && *p != '\0'; p++) {
        if (strchr(" \t\"'\\", *p) != NULL || (*p == '#' && p == word)) {
            *out++ = '\\';
        }
        *out++ = *p;
    }
    if (quoted != NULL) {
        *out = '\0';
    }
    return quoted;
}
