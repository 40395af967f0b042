/* Reading the records: by jansson, whose names do not go together with those of base/json.h. */
#include "redis/records/records.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* False: no text, too long for ret, or with a NUL in it; ret is then unchanged. */
static bool get_text(const json_t *object, const char *key, char *ret, size_t size)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    if (text == NULL || len >= size || strlen(text) != len) {
        return false;
    }
    memcpy(ret, text, len + 1);
    return true;
}

#define GET_TEXT(object, key, field) get_text(object, key, field, sizeof(field))

/* A text that may be null or missing ("" then). False: it is something else. */
static bool get_optional(const json_t *object, const char *key, char *ret, size_t size)
{
    const json_t *value = json_object_get(object, key);
    ret[0] = '\0';
    return value == NULL || json_is_null(value) || get_text(object, key, ret, size);
}

#define GET_OPTIONAL(object, key, field) get_optional(object, key, field, sizeof(field))

/* For what is only shown: what is too long or no text is left out. */
static void get_note(const json_t *object, const char *key, char *ret, size_t size)
{
    if (!get_text(object, key, ret, size)) {
        ret[0] = '\0';
    }
}

#define GET_NOTE(object, key, field) get_note(object, key, field, sizeof(field))

static int64_t get_int(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : otherwise;
}

static bool get_bool(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* Place of the text in names, or -1. */
static int get_name(const json_t *object, const char *key, const char *(*name)(int), int count)
{
    const char *text = json_string_value(json_object_get(object, key));
    for (int i = 0; text != NULL && i < count; i++) {
        if (strcmp(text, name(i)) == 0) {
            return i;
        }
    }
    return -1;
}

/* An address, and an empty text or null where that is allowed. */
static bool get_address(const json_t *object, const char *key, bool needed,
                        char ret[REDIS_ADDRESS_SIZE])
{
    struct redis_node_config node;
    char text[REDIS_ADDRESS_SIZE];
    if (!get_optional(object, key, text, sizeof text)) {
        return false;
    }
    if (text[0] == '\0') {
        ret[0] = '\0';
        return !needed;
    }
    if (redis_address_parse(text, strlen(text), &node) != 0) {
        return false;
    }
    memcpy(ret, node.address, sizeof node.address);
    return true;
}

/* A list of addresses, which may be missing. */
static bool get_addresses(const json_t *object, const char *key, char (*ret)[REDIS_ADDRESS_SIZE],
                          size_t *ret_count)
{
    const json_t *list = json_object_get(object, key);
    size_t count = json_array_size(list);
    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        struct redis_node_config node;
        if (text == NULL || i == REDIS_NODES_MAX ||
            redis_address_parse(text, strlen(text), &node) != 0) {
            return false;
        }
        memcpy(ret[(*ret_count)++], node.address, sizeof node.address);
    }
    return list == NULL || json_is_array(list);
}

/* An object of a version that we know (1, or none). NULL: it is none; else json_decref it. */
static json_t *load(const void *json, size_t len)
{
    json_t *object = len == 0 ? NULL : json_loadb(json, len, 0, NULL);
    if (!json_is_object(object) || get_int(object, "version", 1) != 1) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* "0x1f" */
static int64_t get_token(const json_t *object)
{
    char text[32] = "";
    char *end = text;
    GET_NOTE(object, "token", text);
    unsigned long long value = strtoull(text, &end, 16);
    return *end == '\0' ? (int64_t)value : 0;
}

static const char *state_name(int i)
{
    return redis_state_name((enum redis_state)i);
}

static const char *step_name(int i)
{
    return redis_step_name((enum redis_step)i);
}

static const char *kind_name(int i)
{
    return redis_request_kind_name((enum redis_request_kind)i);
}

int redis_current_read(const void *json, size_t len, struct redis_current *ret)
{
    struct redis_current read = {0};
    json_t *object = load(json, len);
    int state = get_name(object, "state", state_name, REDIS_STATE_PAUSED + 1);
    read.epoch = get_int(object, "epoch", -1);
    bool good = object != NULL && state >= 0 && read.epoch >= 0 &&
                get_address(object, "master", false, read.master) &&
                GET_OPTIONAL(object, "run_id", read.run_id) &&
                GET_OPTIONAL(object, "replid", read.replid) &&
                GET_OPTIONAL(object, "replid2", read.replid2) &&
                get_addresses(object, "replicas", read.replicas, &read.replica_count) &&
                get_addresses(object, "unavailable", read.unavailable, &read.unavailable_count);
    if (good) {
        read.state = (enum redis_state)state;
        read.token = get_token(object);
        read.second_offset = get_int(object, "second_offset", -1);
        read.since_ms = get_int(object, "since_ms", 0);
        read.failover_ms = get_int(object, "failover_ms", 0);
        read.lease_ms = get_int(object, "lease_ms", 0);
        read.lease_replicas = (int)get_int(object, "lease_replicas", 0);
        read.paused = get_bool(object, "paused");
        GET_NOTE(object, "reason", read.reason);
        *ret = read;
    }
    json_decref(object);
    return good ? 0 : CONCLAVE_ECORRUPT;
}

int redis_plan_read(const void *json, size_t len, struct redis_plan *ret)
{
    struct redis_plan read = {0};
    json_t *object = load(json, len);
    int step = get_name(object, "step", step_name, REDIS_STEP_HANDOVER + 1);
    read.epoch = get_int(object, "epoch", -1);
    bool good = object != NULL && step >= 0 && read.epoch >= 0 && GET_TEXT(object, "id", read.id) &&
                get_address(object, "old", true, read.old) &&
                GET_OPTIONAL(object, "old_run_id", read.old_run_id) &&
                GET_OPTIONAL(object, "old_replid", read.old_replid) &&
                GET_OPTIONAL(object, "old_replid2", read.old_replid2) &&
                GET_OPTIONAL(object, "returned_replid", read.returned_replid) &&
                get_address(object, "target", false, read.target) &&
                get_address(object, "wanted", false, read.wanted) &&
                get_addresses(object, "tried", read.tried, &read.tried_count) &&
                GET_OPTIONAL(object, "fenced", read.fenced) &&
                GET_OPTIONAL(object, "request", read.request);
    if (good) {
        read.step = (enum redis_step)step;
        read.old_second_offset = get_int(object, "old_second_offset", -1);
        read.old_offset = get_int(object, "old_offset", -1);
        read.started_ms = get_int(object, "started_ms", 0);
        read.force = get_bool(object, "force");
        GET_NOTE(object, "reason", read.reason);
        *ret = read;
    }
    json_decref(object);
    return good ? 0 : CONCLAVE_ECORRUPT;
}

int redis_request_read(const void *json, size_t len, const char *name, struct redis_request *ret)
{
    struct redis_request read = {0};
    json_t *object = load(json, len);
    int kind = get_name(object, "kind", kind_name, REDIS_REQUEST_FORGET + 1);
    bool good = object != NULL && kind >= 0 && strlen(name) < sizeof read.name &&
                get_address(object, "target", false, read.target);
    if (good) {
        memcpy(read.name, name, strlen(name) + 1);
        read.kind = (enum redis_request_kind)kind;
        read.force = get_bool(object, "force");
        read.timeout_ms = get_int(object, "timeout_ms", 0);
        read.expires_ms = get_int(object, "expires_ms", 0);
        GET_NOTE(object, "id", read.id);
        GET_NOTE(object, "by", read.by);
        *ret = read;
    }
    json_decref(object);
    return good ? 0 : CONCLAVE_ECORRUPT;
}

int redis_result_read(const void *json, size_t len, struct redis_result *ret)
{
    struct redis_result read = {0};
    json_t *object = load(json, len);
    bool good = json_is_boolean(json_object_get(object, "ok"));
    if (good) {
        read.ok = get_bool(object, "ok");
        read.epoch = get_int(object, "epoch", 0);
        read.lost_bytes = get_int(object, "lost_bytes", -1);
        GET_NOTE(object, "text", read.text);
        GET_NOTE(object, "master", read.master);
        *ret = read;
    }
    json_decref(object);
    return good ? 0 : CONCLAVE_ECORRUPT;
}

static void read_report_node(const json_t *object, struct redis_report_node *node)
{
    char word[16] = "";
    GET_NOTE(object, "state", word);
    node->state = redis_node_state_find(word);
    GET_NOTE(object, "role", word);
    node->role = redis_role_find(word);
    GET_NOTE(object, "link", word);
    node->link_up = strcmp(word, "up") == 0;
    GET_NOTE(object, "run_id", node->run_id);
    GET_NOTE(object, "replid", node->replid);
    GET_NOTE(object, "replid2", node->replid2);
    GET_NOTE(object, "master", node->master);
    node->second_offset = get_int(object, "second_offset", -1);
    node->offset = get_int(object, "offset", -1);
    node->age_ms = get_int(object, "age_ms", -1);
    node->link_down_ms = get_int(object, "link_down_ms", -1);
    node->latency_us = get_int(object, "latency_us", -1);
    node->priority = (int)get_int(object, "priority", 100);
    node->failures = (int)get_int(object, "failures", 0);
}

int redis_report_read(const void *json, size_t len, struct redis_report *ret)
{
    struct redis_report *read = calloc(1, sizeof *read);
    if (read == NULL) {
        return CONCLAVE_ENOMEM;
    }
    json_t *object = load(json, len);
    json_t *nodes = json_object_get(object, "nodes");
    bool good = object != NULL && GET_TEXT(object, "id", read->id) && read->id[0] != '\0' &&
                GET_TEXT(object, "incarnation", read->incarnation) &&
                json_is_integer(json_object_get(object, "seq")) && json_is_object(nodes);
    if (good) {
        read->seq = (uint64_t)get_int(object, "seq", 0);
        read->managers = (int)get_int(object, "managers", 0);
        read->period_ms = get_int(object, "period_ms", 0);
        const char *key;
        json_t *value;
        json_object_foreach(nodes, key, value)
        {
            struct redis_node_config address;
            if (read->node_count < REDIS_NODES_MAX && json_is_object(value) &&
                redis_address_parse(key, strlen(key), &address) == 0) {
                struct redis_report_node *node = &read->nodes[read->node_count++];
                memcpy(node->address, address.address, sizeof node->address);
                read_report_node(value, node);
            }
        }
        *ret = *read;
    }
    json_decref(object);
    free(read);
    return good ? 0 : CONCLAVE_ECORRUPT;
}

bool redis_gem_request_read(const void *data, size_t len, struct redis_request *ret)
{
    struct redis_node_config node;
    if (len == 0) {
        return false;
    }
    *ret = (struct redis_request){.kind = REDIS_REQUEST_FAILOVER};
    memcpy(ret->by, "manual_failover", sizeof "manual_failover");
    bool any = len == 9 && memcmp(data, "ANY_SLAVE", 9) == 0;
    if (!any && redis_address_parse(data, len, &node) == 0) {
        memcpy(ret->target, node.address, sizeof ret->target);
    } else if (!any) {
        memcpy(ret->target, "?",
               2); /* no address: refused as an unknown server, not taken for any */
    }
    return true;
}
