/*
 * A line of the shell and its words. Blanks separate words; quotes keep blanks and each other: "a b", 'a b'; a
 * backslash takes the next character as it is, outside quotes and inside double ones (where \n, \t and \xHH stand for
 * what they do in C). An unquoted # at the beginning of a word begins a comment.
 */
#ifndef CLI_SHELL_SHELL_WORDS_H
#define CLI_SHELL_SHELL_WORDS_H

#include <stddef.h>

struct shell_words {
    char **items; /* NULL-ended, inside text */
    int count;
    char *text;
    size_t text_len; /* bytes of text, for wiping */
};

/* 0, CONCLAVE_ENOMEM, CONCLAVE_EINVAL (a quote is not closed). Free with shell_words_free. */
int shell_words_split(const char *line, struct shell_words *ret);

/* Wipes and frees; lines may hold credentials. */
void shell_words_free(struct shell_words *words);

/* The word that a cursor at the end of text stands in, for completion: *ret_start is where it begins in text,
 * *ret_word its value so far on the heap, *ret_index how many words are before it. 0 or CONCLAVE_ENOMEM. */
int shell_word_at_end(const char *text, size_t len, size_t *ret_start, char **ret_word,
                      int *ret_index);

/* A word with what it needs to be read as one, on the heap; NULL when memory is out. */
char *shell_word_quote(const char *word);

#endif
