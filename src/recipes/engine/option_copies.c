#include "recipes/engine/option_copies.h"

#include "base/random.h"
#include "client/core/path.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool option_path_valid(const char *path)
{
    return path != NULL && path_is_valid(path, false) && strcmp(path, "/") != 0;
}

char *default_id(void)
{
    char host[256];
    char id[300];
    if (gethostname(host, sizeof host) != 0) {
        (void)strcpy(host, "localhost");
    }
    host[sizeof host - 1] = '\0';
    (void)snprintf(id, sizeof id, "%s:%ld", host, (long)getpid());
    return strdup(id);
}

char *text_concat(const char *a, const char *b)
{
    size_t len = strlen(a) + strlen(b) + 1;
    char *text = malloc(len);
    if (text != NULL) {
        (void)snprintf(text, len, "%s%s", a, b);
    }
    return text;
}

char *block_add(char **at, const void *bytes, size_t len)
{
    char *text = *at;
    if (len > 0) {
        memcpy(text, bytes, len);
    }
    text[len] = '\0';
    *at = text + len + 1;
    return text;
}

char **texts_copy(const char *const *texts, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(texts[i]) + 1;
    }
    char **copy = malloc((count + 1) * sizeof *copy + bytes);
    if (copy != NULL) {
        char *at = (char *)(copy + count + 1);
        for (size_t i = 0; i < count; i++) {
            copy[i] = block_add(&at, texts[i], strlen(texts[i]));
        }
    }
    return copy;
}

void *struct_list(size_t count, size_t size, size_t texts, char **ret_texts)
{
    void **list = calloc(1, (count + 1) * (sizeof *list + size) + texts);
    if (list == NULL) {
        return NULL;
    }
    char *at = (char *)(list + count + 1);
    assert(size % sizeof *list == 0); /* what follows is aligned */
    for (size_t i = 0; i < count; i++, at += size) {
        list[i] = at;
    }
    if (ret_texts != NULL) {
        *ret_texts = at;
    }
    return list;
}

void *struct_list_copy(const void *structs, size_t count, size_t size)
{
    void **list = struct_list(count, size, 0, NULL);
    if (list != NULL && count > 0) {
        memcpy(list[0], structs, count * size);
    }
    return list;
}

char *bytes_copy(const void *data, size_t len)
{
    char *at = malloc(len + 1);
    return at == NULL ? NULL : block_add(&at, data, len);
}
