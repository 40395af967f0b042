/* Reading an event: apart from writing, since two writers of JSON share names. */
#include "redis/records/event.h"

#include <jansson.h>
#include <stdio.h>

static void copy_text(const json_t *object, const char *key, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(to, size, "%s", text != NULL ? text : "");
}

static int64_t number(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

int redis_event_read(const void *json, size_t len, struct redis_event_read *ret)
{
    json_t *object = json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object) || !json_is_string(json_object_get(object, "event"))) {
        json_decref(object);
        return CONCLAVE_ECORRUPT;
    }
    copy_text(object, "event", ret->name, sizeof ret->name);
    copy_text(object, "text", ret->text, sizeof ret->text);
    copy_text(object, "node", ret->node, sizeof ret->node);
    copy_text(object, "manager", ret->manager, sizeof ret->manager);
    ret->epoch = number(object, "epoch", 0);
    ret->bytes = number(object, "bytes", -1);
    ret->at_ms = number(object, "at_ms", 0);
    json_decref(object);
    return 0;
}
