/* Reading an instance: by jansson, whose names do not go together with those of base/json.h. */
#include "recipes/instance.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A text that grows. */
struct text {
    char *at; /* heap; NUL at its end once something was added */
    size_t len;
    size_t room;
};

static bool text_add(struct text *t, const char *more)
{
    size_t len = strlen(more);
    if (t->len + len + 1 > t->room) {
        size_t room = 2 * (t->len + len) + 32;
        char *at = realloc(t->at, room);
        if (at == NULL) {
            return false;
        }
        t->at = at;
        t->room = room;
    }
    memcpy(t->at + t->len, more, len + 1);
    t->len += len;
    return true;
}

/* NULL: not a text, or with a NUL in it, which no string of ours can hold. */
static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

static int port_of(const json_t *object, const char *key)
{
    json_int_t port = json_integer_value(json_object_get(object, key));
    return port > 0 && port <= 65535 ? (int)port : 0;
}

/* The payload as text: *ret_dumped (free it) where it is no string. */
static const char *payload_of(const json_t *object, char **ret_dumped)
{
    const json_t *payload = json_object_get(object, "payload");
    *ret_dumped = NULL;
    if (payload == NULL || json_is_null(payload)) {
        return NULL;
    }
    if (json_is_string(payload)) {
        return text_of(object, "payload");
    }
    *ret_dumped = json_dumps(payload, JSON_COMPACT | JSON_ENCODE_ANY);
    return *ret_dumped;
}

/* As text: what stands for itself, fields in braces, and braces that stand for themselves as the
 * fields that mean them. */
static bool part_append(struct text *out, const json_t *part)
{
    const char *value = text_of(part, "value");
    bool field = json_is_true(json_object_get(part, "variable"));
    if (value == NULL || (field && strpbrk(value, "{}") != NULL)) {
        return false;
    }
    if (field) {
        return text_add(out, "{") && text_add(out, value) && text_add(out, "}");
    }
    for (; *value != '\0'; value++) {
        char one[] = {*value, '\0'};
        if (!text_add(out, *value == '{' ? "{[}" : *value == '}' ? "{]}" : one)) {
            return false;
        }
    }
    return true;
}

/* NULL: none, or none that we could read. To be freed. */
static char *uri_spec_of(const json_t *object)
{
    const json_t *parts = json_object_get(json_object_get(object, "uriSpec"), "parts");
    struct text out = {.len = 0};
    bool good = json_is_array(parts);
    for (size_t i = 0; good && i < json_array_size(parts); i++) {
        good = part_append(&out, json_array_get(parts, i));
    }
    if (!good || !text_add(&out, "")) {
        free(out.at);
        return NULL;
    }
    return out.at;
}

int instance_read(const void *json, size_t len, struct conclave_instance *ret, char **ret_block)
{
    json_t *object = len == 0 ? NULL : json_loadb(json, len, 0, NULL);
    char *dumped = NULL;
    char *uri_spec = NULL;
    struct conclave_instance found = {.enabled = true};
    found.name = text_of(object, "name");
    found.id = text_of(object, "id");
    found.address = text_of(object, "address");
    found.type = text_of(object, "serviceType");
    int error = found.name == NULL || found.id == NULL ? CONCLAVE_ECORRUPT : 0;
    if (error == 0) {
        found.address = found.address == NULL ? "" : found.address;
        found.type = found.type == NULL ? "DYNAMIC" : found.type;
        found.payload = payload_of(object, &dumped);
        found.uri_spec = uri_spec = uri_spec_of(object);
        found.port = port_of(object, "port");
        found.ssl_port = port_of(object, "sslPort");
        found.registered_ms = json_integer_value(json_object_get(object, "registrationTimeUTC"));
        const json_t *enabled = json_object_get(object, "enabled"); /* not in Curator before 3.0 */
        found.enabled = enabled == NULL || !json_is_false(enabled);
        struct conclave_instance *copy = instances_copy(&found, 1);
        error = copy == NULL ? CONCLAVE_ENOMEM : 0;
        if (copy != NULL) {
            *ret = *copy;
            *ret_block = (char *)copy;
        }
    }
    free(dumped);
    free(uri_spec);
    json_decref(object);
    return error;
}
