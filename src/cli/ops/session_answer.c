/* A file of its own, because base/json.h and jansson share names. */
#include "cli/ops/session_answer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Replaces what would move a terminal's cursor. */
static void clean(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++) {
        if ((*at < ' ' && *at != '\n') || *at == 0x7f) {
            *at = '?';
        }
    }
}

static void answer_copy(const json_t *object, const char *key, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    size_t len = text != NULL ? strlen(text) : 0;
    len = len < size ? len : size - 1;
    memcpy(to, text != NULL ? text : "", len);
    to[len] = '\0';
    clean(to);
}

static bool answer_copy_all(const char *text, char **to)
{
    *to = strdup(text != NULL ? text : "");
    if (*to != NULL) {
        clean(*to);
    }
    return *to != NULL;
}

/* The texts of an array as lines. */
static bool join(const json_t *array, char **to)
{
    size_t size = 1;
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        size += json_string_length(json_array_get(array, i)) + 1;
    }
    *to = malloc(size);
    if (*to == NULL) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *line = json_array_get(array, i);
        size_t len = json_string_length(line);
        memcpy(*to + at, len > 0 ? json_string_value(line) : "", len);
        at += len;
        (*to)[at++] = '\n';
    }
    (*to)[at] = '\0';
    clean(*to);
    return true;
}

static bool answer_record_read(const json_t *record, struct session_answer *ret)
{
    ret->recorded = true;
    answer_copy(record, "cause", ret->cause, sizeof ret->cause);
    ret->weight = (int64_t)json_integer_value(json_object_get(record, "weight"));
    ret->at_ms = (int64_t)json_integer_value(json_object_get(record, "at_ms"));
    return answer_copy_all(json_string_value(json_object_get(record, "verdict")), &ret->verdict) &&
           join(json_object_get(record, "notes"), &ret->notes);
}

bool session_answer_read(const void *text, size_t len, struct session_answer *ret)
{
    *ret = (struct session_answer){.server = -1};
    json_t *answer = json_loadb(text, len, 0, NULL);
    const json_t *server = json_object_get(answer, "server");
    const json_t *record = json_object_get(answer, "record");
    bool good = json_is_integer(server);
    if (good) {
        ret->server = (int64_t)json_integer_value(server);
        ret->recording = json_is_true(json_object_get(answer, "recording"));
        ret->lives = json_is_true(json_object_get(answer, "lives"));
        answer_copy(answer, "mode", ret->mode, sizeof ret->mode);
        ret->json = json_dumps(answer, JSON_COMPACT);
        good = ret->json != NULL && (!json_is_object(record) || answer_record_read(record, ret));
    }
    json_decref(answer);
    return good;
}

void session_answer_finish(struct session_answer *a)
{
    free(a->verdict);
    free(a->notes);
    free(a->json);
    *a = (struct session_answer){.server = -1};
}
