/* Who sent a command, from its ids, as short texts of whole characters that always end with NUL. Never the hash of a digest. */
#ifndef ADMIN_CONSOLE_CALLER_NAMES_H
#define ADMIN_CONSOLE_CALLER_NAMES_H

#include "wire/records.h"

/* Copies a text; cuts it where a character of UTF-8 begins. */
void name_copy(char *to, size_t room, struct slice text);

/* The first id besides the address: "digest:anna". False, and nothing is copied: there is none. */
bool caller_name(struct wire_vector ids, char *to, size_t room);

/* All of them: "digest:anna, sasl:anna"; "" without any. */
void caller_names(struct wire_vector ids, char *to, size_t room);

/* The client's address without port; "": unknown. */
void caller_address(struct wire_vector ids, char *to, size_t room);

#endif
