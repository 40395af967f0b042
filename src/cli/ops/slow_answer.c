/* A file of its own, because base/json.h and jansson share names. */
#include "cli/ops/slow_answer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies a member, without what would move a terminal's cursor. */
static void slow_copy(const json_t *object, const char *key, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    size_t len = text != NULL ? strnlen(text, size - 1) : 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        to[i] = c < ' ' || c == 0x7f ? '?' : text[i];
    }
    to[len] = '\0';
}

static void copy_parts(const json_t *parts, char to[SLOW_PARTS_TEXT_MAX])
{
    static const char *const NAMES[] = {"queue", "forward", "disk", "quorum", "apply", "send"};
    size_t at = 0;
    to[0] = '\0';
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        double ms = json_number_value(json_object_get(parts, NAMES[i]));
        if (ms >= 0.1 && at < SLOW_PARTS_TEXT_MAX) {
            at += (size_t)snprintf(to + at, SLOW_PARTS_TEXT_MAX - at, "%s%s %.1f",
                                   at > 0 ? ", " : "", NAMES[i], ms);
        }
    }
}

static void slow_row_read(const json_t *item, int64_t server, struct slow_row *ret)
{
    *ret = (struct slow_row){.server = server};
    ret->at_ms = (int64_t)json_integer_value(json_object_get(item, "at_ms"));
    ret->ms = json_number_value(json_object_get(item, "ms"));
    slow_copy(item, "slowest", ret->slowest, sizeof ret->slowest);
    slow_copy(item, "operation", ret->operation, sizeof ret->operation);
    slow_copy(item, "session", ret->session, sizeof ret->session);
    slow_copy(item, "client", ret->client, sizeof ret->client);
    slow_copy(item, "path", ret->path, sizeof ret->path);
    copy_parts(json_object_get(item, "parts_ms"), ret->parts);
}

bool slow_answer_read(const void *text, size_t len, struct slow_answer *ret, struct slow_rows *rows)
{
    *ret = (struct slow_answer){.server = -1};
    json_t *answer = json_loadb(text, len, 0, NULL);
    const json_t *requests = json_object_get(answer, "requests");
    bool good = json_is_integer(json_object_get(answer, "server")) && json_is_array(requests);
    if (good) {
        size_t n = json_array_size(requests);
        struct slow_row *items = realloc(rows->items, (rows->count + n + 1) * sizeof *rows->items);
        ret->server = (int64_t)json_integer_value(json_object_get(answer, "server"));
        ret->threshold_ms = (int64_t)json_integer_value(json_object_get(answer, "threshold_ms"));
        ret->json = json_dumps(answer, JSON_COMPACT);
        good = items != NULL && ret->json != NULL;
        rows->items = items != NULL ? items : rows->items;
        for (size_t i = 0; good && i < n; i++) {
            slow_row_read(json_array_get(requests, i), ret->server, &items[rows->count++]);
        }
    }
    json_decref(answer);
    return good;
}

void slow_answer_finish(struct slow_answer *a)
{
    free(a->json);
    *a = (struct slow_answer){.server = -1};
}
