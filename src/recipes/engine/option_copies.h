/* Copies that recipes make of what their options give. Pure memory; NULL: out of memory. */
#ifndef RECIPES_ENGINE_OPTION_COPIES_H
#define RECIPES_ENGINE_OPTION_COPIES_H

#include <stdbool.h>

/* Whether a recipe can stand at this path: given, valid and not the root. */
bool option_path_valid(const char *path);

/* "host:pid". */
char *default_id(void);

/* a and b in one string. */
char *text_concat(const char *a, const char *b);

#endif
