/*
 * Four-letter words: the table of words, which of them are allowed, and their answers. A word is recognised only in the
 * first four bytes of a connection. A word that is not on the whitelist (4lw.commands.whitelist) gets ZooKeeper's
 * refusal. A word that needs a serving server says so if the server does not serve.
 */
#ifndef ADMIN_FOUR_LETTER_WORDS_H
#define ADMIN_FOUR_LETTER_WORDS_H

#include "admin/answers/server_view.h"

/* Answers the word at the start of bytes: see struct service_words. */
int four_letter_answer(struct view *v, struct slice bytes, struct buf *out);

/* Whether the word (four bytes) is on the whitelist. */
bool four_letter_allowed(const struct admin_options *options, const char *word);

#endif
