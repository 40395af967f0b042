#include "cli/common/acl_text.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    char letter;
    int32_t perm;
} LETTERS[] = {
    {'c', CONCLAVE_PERM_CREATE}, {'d', CONCLAVE_PERM_DELETE}, {'r', CONCLAVE_PERM_READ},
    {'w', CONCLAVE_PERM_WRITE},  {'a', CONCLAVE_PERM_ADMIN},
};
enum { LETTER_COUNT = sizeof LETTERS / sizeof LETTERS[0] };

const char *acl_perms_text(int32_t perms, char buf[ACL_PERMS_TEXT_MAX])
{
    size_t len = 0;
    for (int i = 0; i < LETTER_COUNT; i++) {
        if (perms & LETTERS[i].perm) {
            buf[len++] = LETTERS[i].letter;
        }
    }
    buf[len] = '\0';
    return buf;
}

/* Letters only, at least one. */
static bool perms_parse(const char *text, size_t len, int32_t *ret)
{
    int32_t perms = 0;
    for (size_t i = 0; i < len; i++) {
        int32_t perm = 0;
        for (int l = 0; l < LETTER_COUNT; l++) {
            perm = LETTERS[l].letter == text[i] ? LETTERS[l].perm : perm;
        }
        if (perm == 0) {
            return false;
        }
        perms |= perm;
    }
    *ret = perms;
    return len > 0;
}

/* The entry at the beginning of text, which is cut into its parts; *ret_next is the text after its comma, or NULL. */
static bool entry_parse(char *text, struct conclave_acl *ret, char **ret_next)
{
    if (strncmp(text, "auth", 4) == 0 && (text[4] == '\0' || text[4] == ',')) {
        *ret_next = text[4] == ',' ? text + 5 : NULL;
        text[4] = '\0';
        *ret = (struct conclave_acl){CONCLAVE_PERM_ALL, text, ""};
        return true;
    }
    char *scheme_end = strchr(text, ':');
    if (scheme_end == NULL || scheme_end == text) {
        return false;
    }
    char *colon = strchr(scheme_end + 1, ':'); /* the one before the permissions */
    for (; colon != NULL; colon = strchr(colon + 1, ':')) {
        size_t len = strcspn(colon + 1, ":,");
        char *end = colon + 1 + len;
        if (*end != ':' && perms_parse(colon + 1, len, &ret->perms)) {
            *ret_next = *end == ',' ? end + 1 : NULL;
            *scheme_end = *colon = *end = '\0';
            ret->scheme = text;
            ret->id = scheme_end + 1;
            return true;
        }
    }
    return false;
}

static int list_add(struct acl_entries *list, const struct conclave_acl *entry)
{
    struct conclave_acl *entries = realloc(list->entries, (list->count + 1) * sizeof *entries);
    if (entries == NULL) {
        return CONCLAVE_ENOMEM;
    }
    entries[list->count++] = *entry;
    list->entries = entries;
    return 0;
}

int acl_entries_parse(const char *const *texts, int count, struct acl_entries *ret,
                      const char **ret_wrong)
{
    *ret = (struct acl_entries){.texts = calloc((size_t)count + 1, sizeof *ret->texts)};
    if (ret->texts == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (int i = 0; i < count; i++) {
        char *copy = strdup(texts[i]);
        if (copy == NULL) {
            return CONCLAVE_ENOMEM;
        }
        ret->texts[ret->texts_count++] = copy;
        for (char *at = copy; at != NULL;) {
            struct conclave_acl entry;
            char *next;
            if (!entry_parse(at, &entry, &next)) {
                *ret_wrong = at;
                return CONCLAVE_EINVAL;
            }
            int rc = list_add(ret, &entry);
            if (rc != 0) {
                return rc;
            }
            at = next;
        }
    }
    return 0;
}

void acl_entries_free(struct acl_entries *list)
{
    for (size_t i = 0; i < list->texts_count; i++) {
        free(list->texts[i]);
    }
    free(list->texts);
    free(list->entries);
    *list = (struct acl_entries){0};
}
