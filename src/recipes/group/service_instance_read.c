/* Reading an instance: by jansson, whose names do not go together with those of base/json.h. */
#include "recipes/group/service_instance.h"

#include "base/buf.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { PARSE_FACTOR = 8, PARSE_LEAST = 4096 }; /* bytes of memory per byte of text, about */

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

/* The payload as text, NULL when there is none; *ret_dumped (free it) where it is no string. */
static int payload_of(const json_t *object, const char **ret, char **ret_dumped)
{
    const json_t *payload = json_object_get(object, "payload");
    *ret = NULL;
    if (payload == NULL || json_is_null(payload)) {
        return 0;
    }
    if (json_is_string(payload)) {
        *ret = text_of(object, "payload");
        return 0;
    }
    *ret = *ret_dumped = json_dumps(payload, JSON_COMPACT | JSON_ENCODE_ANY);
    return *ret == NULL ? CONCLAVE_ENOMEM : 0;
}

/* jansson tells a lack of memory as a fault of the text: what it refuses is read again when there is
 * memory for it. NULL and 0: it is no JSON. */
static int parse(const void *json, size_t len, json_t **ret)
{
    *ret = len == 0 ? NULL : json_loadb(json, len, 0, NULL);
    if (*ret != NULL || len == 0) {
        return 0;
    }
    void *room = malloc(PARSE_FACTOR * len + PARSE_LEAST);
    if (room == NULL) {
        return CONCLAVE_ENOMEM;
    }
    free(room);
    *ret = json_loadb(json, len, 0, NULL);
    return 0;
}

/* As text: what stands for itself, fields in braces, and braces that stand for themselves as the
 * fields that mean them. */
static bool part_append(struct buf *out, const json_t *part)
{
    const char *value = text_of(part, "value");
    bool field = json_is_true(json_object_get(part, "variable"));
    if (value == NULL || (field && strpbrk(value, "{}") != NULL)) {
        return false;
    }
    if (field) {
        buf_printf(out, "{%s}", value);
        return true;
    }
    for (; *value != '\0'; value++) {
        if (*value == '{' || *value == '}') {
            buf_append_str(out, *value == '{' ? "{[}" : "{]}");
        } else {
            buf_append_u8(out, (uint8_t)*value);
        }
    }
    return true;
}

/* *ret: NULL: none, or none that we could read. To be freed. */
static int uri_spec_of(const json_t *object, char **ret)
{
    const json_t *parts = json_object_get(json_object_get(object, "uriSpec"), "parts");
    struct buf out;
    bool good = json_is_array(parts);
    buf_init(&out, 0);
    for (size_t i = 0; good && i < json_array_size(parts); i++) {
        good = part_append(&out, json_array_get(parts, i));
    }
    buf_append_u8(&out, 0);
    *ret = good && buf_ok(&out) ? strdup((const char *)out.data) : NULL;
    int error = good && *ret == NULL ? CONCLAVE_ENOMEM : 0;
    buf_finish(&out);
    return error;
}

int instance_read(const void *json, size_t len, struct conclave_instance *ret, char **ret_block)
{
    json_t *object;
    char *dumped = NULL;
    char *uri_spec = NULL;
    int error = parse(json, len, &object);
    if (error != 0) {
        return error;
    }
    struct conclave_instance found = {.enabled = true};
    found.name = text_of(object, "name");
    found.id = text_of(object, "id");
    found.address = text_of(object, "address");
    found.type = text_of(object, "serviceType");
    error = found.name == NULL || found.id == NULL ? CONCLAVE_ECORRUPT : 0;
    if (error == 0) {
        found.address = found.address == NULL ? "" : found.address;
        found.type = found.type == NULL ? "DYNAMIC" : found.type;
        error = payload_of(object, &found.payload, &dumped);
        error = error == 0 ? uri_spec_of(object, &uri_spec) : error;
        found.uri_spec = uri_spec;
        found.port = port_of(object, "port");
        found.ssl_port = port_of(object, "sslPort");
        found.registered_ms = json_integer_value(json_object_get(object, "registrationTimeUTC"));
        const json_t *enabled = json_object_get(object, "enabled"); /* not in Curator before 3.0 */
        found.enabled = enabled == NULL || !json_is_false(enabled);
        struct conclave_instance *copy = error == 0 ? instance_copy(&found) : NULL;
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
