#define _GNU_SOURCE /* strcasestr */
#include "daemon/effective_config.h"

#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void effective_config_init(struct effective_config *g)
{
    *g = (struct effective_config){.pairs = NULL};
    buf_init(&g->file, 0);
}

void effective_config_finish(struct effective_config *g)
{
    for (size_t i = 0; i < g->count; i++) {
        free(g->pairs[i].key);
        free(g->pairs[i].value);
    }
    free(g->pairs);
    buf_finish(&g->file);
    effective_config_init(g);
}

/* A file that holds a password is not itself a secret: operators may see its name. */
bool effective_config_is_secret(const char *key)
{
    size_t len = strlen(key);
    if (len > 4 && strcmp(key + len - 4, "Path") == 0) {
        return false;
    }
    return strcasestr(key, "passw") != NULL || strcasestr(key, "superdigest") != NULL ||
           strcasestr(key, "secret") != NULL;
}

static struct effective_config_pair *config_pair(const struct effective_config *g, const char *key)
{
    for (size_t i = 0; i < g->count; i++) {
        if (strcmp(g->pairs[i].key, key) == 0) {
            return &g->pairs[i];
        }
    }
    return NULL;
}

int effective_config_note(struct effective_config *g, const char *key, const char *value)
{
    char *copy = strdup(effective_config_is_secret(key) ? GIVEN_HIDDEN : value);
    uint64_t mark = hash_bytes(value, strlen(value));
    struct effective_config_pair *old = config_pair(g, key);
    if (copy != NULL && old != NULL) {
        free(old->value);
        old->value = copy;
        old->mark = mark;
        return 0;
    }
    char *name = strdup(key);
    struct effective_config_pair *grown =
        name != NULL && copy != NULL ? realloc(g->pairs, (g->count + 1) * sizeof *grown) : NULL;
    if (grown == NULL) {
        free(name);
        free(copy);
        return CONCLAVE_ENOMEM;
    }
    g->pairs = grown;
    g->pairs[g->count++] = (struct effective_config_pair){name, copy, mark};
    return 0;
}

int effective_config_take(struct effective_config *g, const struct effective_config_pair *pair)
{
    int rc = effective_config_note(g, pair->key, pair->value);
    struct effective_config_pair *own = config_pair(g, pair->key);
    if (rc == 0) {
        own->mark = pair->mark; /* the value may be hidden */
    }
    return rc;
}

void effective_config_forget(struct effective_config *g, const char *key)
{
    struct effective_config_pair *old = config_pair(g, key);
    if (old == NULL) {
        return;
    }
    free(old->key);
    free(old->value);
    for (struct effective_config_pair *end = g->pairs + --g->count; old < end; old++) {
        *old = old[1]; /* the order is that of the file */
    }
}

const struct effective_config_pair *effective_config_find(const struct effective_config *g,
                                                          const char *key)
{
    return config_pair(g, key);
}

/* Whether a line of a Java properties file continues on the next line. */
static bool goes_on(const char *line, size_t len)
{
    size_t backslashes = 0;
    if (len > 0 && line[len - 1] == '\r') {
        len--;
    }
    while (backslashes < len && line[len - 1 - backslashes] == '\\') {
        backslashes++;
    }
    return backslashes % 2 == 1;
}

/* Number of bytes of a line that may be shown: all, or for a secret those before its value. A key with a backslash
 * hides its whole line, because a Java escape may spell any name. */
static size_t shown(const char *line, size_t len)
{
    char key[128];
    size_t start = 0;
    while (start < len && strchr(" \t\f", line[start]) != NULL) {
        start++;
    }
    if (start == len || line[start] == '#' || line[start] == '!') {
        return len;
    }
    size_t end = start;
    while (end < len && strchr("=: \t\f", line[end]) == NULL) {
        end++;
    }
    size_t n = end - start < sizeof key - 1 ? end - start : sizeof key - 1;
    memcpy(key, line + start, n);
    key[n] = '\0';
    if (!effective_config_is_secret(key) && strchr(key, '\\') == NULL) {
        return len;
    }
    while (end < len && strchr("=: \t\f", line[end]) != NULL) {
        end++;
    }
    return end;
}

int effective_config_note_file(struct effective_config *g, struct slice text)
{
    const char *at = (const char *)text.data;
    const char *end = at + text.len;
    bool hidden = false; /* the previous line holds a secret and continues */
    bool continued = false;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = newline != NULL ? (size_t)(newline - at) : (size_t)(end - at);
        size_t part = continued ? (hidden ? 0 : len) : shown(at, len);
        assert(part <= len);
        bool cut = part < len || (continued && hidden);
        buf_append(&g->file, at, part);
        if (cut && !continued) {
            buf_append_str(&g->file, GIVEN_HIDDEN);
        }
        if (newline != NULL && !(continued && hidden)) {
            buf_append_u8(&g->file, '\n');
        }
        hidden = cut;
        continued = goes_on(at, len);
        at += len + (newline != NULL);
    }
    return buf_ok(&g->file) ? 0 : CONCLAVE_ENOMEM;
}
