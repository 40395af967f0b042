/* Copies that recipes make of what their options give. Pure memory; NULL: out of memory. */
#ifndef RECIPES_COPIES_H
#define RECIPES_COPIES_H

#include <conclave/recipes.h>

#include <stddef.h>

/* The list with its strings in one block: free it with free. count is not 0. */
struct conclave_acl *acl_copy(const struct conclave_acl *acl, size_t count);

/* "host:pid". */
char *default_id(void);

/* a and b in one string. */
char *text_concat(const char *a, const char *b);

#endif
