/* Copies that recipes make of options and answers. Pure memory; NULL: out of memory. */
#ifndef RECIPES_ENGINE_OPTION_COPIES_H
#define RECIPES_ENGINE_OPTION_COPIES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a recipe can use this path: given, valid and not the root. */
bool option_path_valid(const char *path);

/* "host:pid". */
char *default_id(void);

/* a and b in one string. */
char *text_concat(const char *a, const char *b);

/* The list and its texts in one block, to be freed with free. */
char **texts_copy(const char *const *texts, size_t count);

/* An array of pointers to zeroed structs of this size, and room for `texts` bytes from *ret_texts (may be NULL)
 * on, in one block to be freed with free: a public list, whose structs may grow. */
void *struct_list(size_t count, size_t size, size_t texts, char **ret_texts);

/* The same with a copy of these structs. */
void *struct_list_copy(const void *structs, size_t count, size_t size);

/* Puts bytes and a NUL into a block that has room for them, and moves on behind them. */
char *block_add(char **at, const void *bytes, size_t len);

/* len bytes with a NUL behind them. data may be NULL when len is 0. */
char *bytes_copy(const void *data, size_t len);

#endif
