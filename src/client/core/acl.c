#include "client/core/acl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool acl_is_valid(const struct conclave_acl *acl, size_t count)
{
    for (size_t i = 0; acl != NULL && i < count; i++) {
        if (acl[i].scheme == NULL || acl[i].id == NULL) {
            return false;
        }
    }
    return acl != NULL || count == 0;
}

/* Copies a string to *at and advances *at. */
static const char *acl_copy_text(char **at, const char *text)
{
    char *copy = *at;
    size_t size = strlen(text) + 1;
    (void)snprintf(copy, size, "%s", text);
    *at += size;
    return copy;
}

struct conclave_acl *acl_copy(const struct conclave_acl *acl, size_t count)
{
    assert(count > 0);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(acl[i].scheme) + strlen(acl[i].id) + 2;
    }
    struct conclave_acl *copy = malloc(count * sizeof *copy + bytes);
    if (copy == NULL) {
        return NULL;
    }
    char *text = (char *)(copy + count);
    for (size_t i = 0; i < count; i++) {
        copy[i].perms = acl[i].perms;
        copy[i].scheme = acl_copy_text(&text, acl[i].scheme);
        copy[i].id = acl_copy_text(&text, acl[i].id);
    }
    return copy;
}

bool acl_copy_option(const struct conclave_acl *acl, size_t count, struct conclave_acl **ret,
                     size_t *ret_count)
{
    bool given = acl != NULL && count > 0;
    *ret = given ? acl_copy(acl, count) : NULL;
    *ret_count = *ret != NULL ? count : 0;
    return !given || *ret != NULL;
}
