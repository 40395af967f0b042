/*
 * Four-letter words: which there are, which are allowed, and who answers. Recognised in the first four bytes of a
 * connection only. A word that is not on the whitelist (4lw.commands.whitelist) is refused with ZooKeeper's sentence; one
 * that needs clients to be served says so when they are not.
 */
#ifndef ADMIN_FOUR_LETTER_WORDS_H
#define ADMIN_FOUR_LETTER_WORDS_H

#include "admin/answers/server_view.h"

/* Answers the word at the start of bytes: see struct service_words. */
int four_letter_answer(struct view *v, struct slice bytes, struct buf *out);

/* Whether the word (four bytes) is on the whitelist. */
bool four_letter_allowed(const struct admin_options *options, const char *word);

#endif
