#include "recipes/group/service_instance.h"

#include "base/json.h"
#include "recipes/engine/option_copies.h"
#include "recipes/group/uri_spec.h"

#include <stdlib.h>
#include <string.h>

static void write_port(struct json *j, const char *key, int port)
{
    json_key(j, key);
    if (port == 0) {
        json_null(j);
    } else {
        json_int(j, port);
    }
}

char *instance_write(const struct conclave_instance *instance, size_t *ret_len)
{
    struct json j;
    char *text = NULL;
    json_line_begin(&j);
    json_member_string(&j, "name", instance->name);
    json_member_string(&j, "id", instance->id);
    json_member_string(&j, "address", instance->address);
    write_port(&j, "port", instance->port);
    write_port(&j, "sslPort", instance->ssl_port);
    json_key(&j, "payload");
    if (instance->payload == NULL) {
        json_null(&j);
    } else {
        json_string(&j, instance->payload);
    }
    json_member_int(&j, "registrationTimeUTC", instance->registered_ms);
    json_member_string(&j, "serviceType", instance->type);
    json_key(&j, "uriSpec");
    uri_spec_json(&j, instance->uri_spec);
    json_member_bool(&j, "enabled", instance->enabled);
    json_object_end(&j);
    if (!j.out.failed && (text = malloc(j.out.len + 1)) != NULL) {
        memcpy(text, j.out.data, j.out.len);
        text[j.out.len] = '\0';
        *ret_len = j.out.len;
    }
    json_finish(&j);
    return text;
}

enum { TEXTS = 6 };

static void texts_of(struct conclave_instance *i, const char **texts[TEXTS])
{
    texts[0] = &i->name;
    texts[1] = &i->id;
    texts[2] = &i->address;
    texts[3] = &i->payload;
    texts[4] = &i->type;
    texts[5] = &i->uri_spec;
}

static size_t texts_size(const struct conclave_instance *instance)
{
    const char **texts[TEXTS];
    struct conclave_instance one = *instance;
    size_t bytes = 0;
    texts_of(&one, texts);
    for (size_t t = 0; t < TEXTS; t++) {
        bytes += *texts[t] == NULL ? 0 : strlen(*texts[t]) + 1;
    }
    return bytes;
}

/* The texts go to *at, which moves on. */
static void instance_copy_to(struct conclave_instance *copy,
                             const struct conclave_instance *instance, char **at)
{
    const char **texts[TEXTS];
    *copy = *instance;
    texts_of(copy, texts);
    for (size_t t = 0; t < TEXTS; t++) {
        if (*texts[t] != NULL) {
            *texts[t] = block_add(at, *texts[t], strlen(*texts[t]));
        }
    }
}

struct conclave_instance *instance_copy(const struct conclave_instance *instance)
{
    struct conclave_instance *copy = malloc(sizeof *copy + texts_size(instance));
    if (copy != NULL) {
        char *at = (char *)(copy + 1);
        instance_copy_to(copy, instance, &at);
    }
    return copy;
}

struct conclave_instance **instances_copy(const struct conclave_instance *const *list, size_t count)
{
    size_t bytes = 0;
    char *at;
    for (size_t i = 0; i < count; i++) {
        bytes += texts_size(list[i]);
    }
    struct conclave_instance **copy = struct_list(count, sizeof **copy, bytes, &at);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        instance_copy_to(copy[i], list[i], &at);
    }
    return copy;
}

void conclave_instance_free(struct conclave_instance *instance)
{
    free(instance);
}

void conclave_instances_free(struct conclave_instance **list, size_t count)
{
    free(list);
}
