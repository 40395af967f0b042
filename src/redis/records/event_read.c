/* Reading an event: apart from writing, since two writers of JSON share names. */
#include "redis/records/event.h"

#include <jansson.h>
#include <stdio.h>

static void event_read_copy_text(const json_t *object, const char *key, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(to, size, "%s", text != NULL ? text : "");
}

static int64_t event_read_number(const json_t *object, const char *key, int64_t otherwise)
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
    event_read_copy_text(object, "event", ret->name, sizeof ret->name);
    event_read_copy_text(object, "text", ret->text, sizeof ret->text);
    event_read_copy_text(object, "node", ret->node, sizeof ret->node);
    event_read_copy_text(object, "manager", ret->manager, sizeof ret->manager);
    ret->epoch = event_read_number(object, "epoch", 0);
    ret->bytes = event_read_number(object, "bytes", -1);
    ret->at_ms = event_read_number(object, "at_ms", 0);
    json_decref(object);
    return 0;
}
