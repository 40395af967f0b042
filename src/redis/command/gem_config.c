/* The gem's YAML: one row for each of its keys. */
#include "redis/command/gem_config.h"

#include "base/foreign/late_library.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { NAME_MAX_BYTES = 64, KEYS_MAX = 128, MERGES_MAX = 64, BRACKETS_MAX = 2048 };

#define YAML(F)                                                                                    \
    F(yaml_parser_initialize)                                                                      \
    F(yaml_parser_set_input_string)                                                                \
    F(yaml_parser_load)                                                                            \
    F(yaml_parser_delete)                                                                          \
    F(yaml_document_get_node) F(yaml_document_get_root_node) F(yaml_document_delete)
LATE_LIBRARY(yaml, YAML, "libyaml-0.so.2")

/* A pass through the file. */
struct gem_reader {
    const struct yaml_functions *yaml;
    yaml_document_t *document;
    bool (*known)(const char *name, bool *ret_flag);
    struct gem_config *config;
    char *why;
    const yaml_node_t *seen[KEYS_MAX]; /* keys that were taken: the first one counts, then merges */
    size_t seen_count;
    int merges;
    bool layout_set;
};

/* Says what is wrong at a node. False. */
static bool gem_refuse(struct gem_reader *r, const yaml_node_t *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool gem_refuse(struct gem_reader *r, const yaml_node_t *at, const char *fmt, ...)
{
    int len = snprintf(r->why, GEM_CONFIG_WHY, "line %zu: ", at->start_mark.line + 1);
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->why + len, GEM_CONFIG_WHY - (size_t)len, fmt, args);
    va_end(args);
    return false;
}

/* --- nodes */

static const yaml_node_t *gem_node(const struct gem_reader *r, int id)
{
    return r->yaml->yaml_document_get_node(r->document, id);
}

/* NULL: it is not a text, or has a NUL in it. */
static const char *gem_text(const yaml_node_t *node)
{
    bool text = node->type == YAML_SCALAR_NODE &&
                strlen((const char *)node->data.scalar.value) == node->data.scalar.length;
    return text ? (const char *)node->data.scalar.value : NULL;
}

/* A key without Ruby's colon and with "-" for "_". False: it is no text, or too long. */
static bool gem_key(const yaml_node_t *node, char name[NAME_MAX_BYTES])
{
    const char *text = gem_text(node);
    if (text == NULL) {
        return false;
    }
    text += text[0] == ':' ? 1 : 0;
    size_t len = strlen(text);
    if (len == 0 || len >= NAME_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i <= len; i++) {
        name[i] = (char)(text[i] == '_' ? '-' : text[i]);
    }
    return true;
}

/* --- options */

/* Adds "--name=value", or "--name" for NULL. */
static bool gem_add(struct gem_reader *r, const yaml_node_t *at, const char *name,
                    const char *value)
{
    struct gem_config *c = r->config;
    size_t size = strlen(name) + (value == NULL ? 0 : strlen(value)) + 4;
    char *option = c->count == GEM_CONFIG_OPTIONS ? NULL : malloc(size);
    if (option == NULL) {
        return gem_refuse(r, at, "%s",
                          c->count == GEM_CONFIG_OPTIONS ? "too many keys" : "out of memory");
    }
    (void)snprintf(option, size, "--%s%s%s", name, value == NULL ? "" : "=",
                   value == NULL ? "" : value);
    c->options[c->count++] = option;
    return true;
}

/* "host:port" of a text, or of a map with host and port. */
static bool gem_server(struct gem_reader *r, const yaml_node_t *node, char *buf, size_t size)
{
    const char *host = gem_text(node);
    const char *port = NULL;
    if (node->type == YAML_MAPPING_NODE) {
        for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
             pair < node->data.mapping.pairs.top; pair++) {
            char name[NAME_MAX_BYTES] = "";
            const yaml_node_t *key = gem_node(r, pair->key);
            const char *value = gem_text(gem_node(r, pair->value));
            bool is_host = gem_key(key, name) && strcmp(name, "host") == 0;
            if (value == NULL || (!is_host && strcmp(name, "port") != 0)) {
                return gem_refuse(r, key, "a server has the keys host and port only");
            }
            host = is_host ? value : host;
            port = is_host ? port : value;
        }
    }
    if (host == NULL || host[0] == '\0') {
        return gem_refuse(r, node, "a server is HOST:PORT, or a map of host and port");
    }
    int len =
        snprintf(buf, size, "%s%s%s", host, port == NULL ? "" : ":", port == NULL ? "" : port);
    return len > 0 && (size_t)len < size ? true
                                         : gem_refuse(r, node, "this server's name is too long");
}

/* A list of servers, or one text. */
static bool gem_servers(struct gem_reader *r, const yaml_node_t *value, const char *option)
{
    char all[8192] = "";
    size_t len = 0;
    if (value->type != YAML_SEQUENCE_NODE) {
        return gem_text(value) != NULL ? gem_add(r, value, option, gem_text(value))
                                       : gem_refuse(r, value, "a list of servers is expected");
    }
    for (const yaml_node_item_t *item = value->data.sequence.items.start;
         item < value->data.sequence.items.top; item++) {
        char one[512];
        const yaml_node_t *node = gem_node(r, *item);
        if (!gem_server(r, node, one, sizeof one)) {
            return false;
        }
        if (len + strlen(one) + 2 > sizeof all) {
            return gem_refuse(r, node, "too many servers");
        }
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", len > 0 ? "," : "", one);
    }
    return len > 0 ? gem_add(r, value, option, all) : gem_refuse(r, value, "the list is empty");
}

/* The gem's nodes stay where they are, and those of this cluster are below them. */
static bool gem_znode_path(struct gem_reader *r, const yaml_node_t *value, const char *option)
{
    char below[512];
    const char *path = gem_text(value);
    size_t len = path == NULL ? 0 : strlen(path);
    if (len < 2 || path[0] != '/' || path[len - 1] == '/' ||
        len + sizeof "/default" > sizeof below) {
        return gem_refuse(r, value, "a path such as /redis_failover is expected");
    }
    (void)snprintf(below, sizeof below, "%s/default", path);
    return gem_add(r, value, option, path) && gem_add(r, value, "znode-path", below);
}

static bool gem_password(struct gem_reader *r, const yaml_node_t *value, const char *option)
{
    const char *text = gem_text(value);
    if (text == NULL) {
        return gem_refuse(r, value, "the password must be a text");
    }
    free(r->config->password);
    r->config->password = strdup(text);
    return r->config->password != NULL ? true : gem_refuse(r, value, "out of memory");
}

static bool gem_plain(struct gem_reader *r, const yaml_node_t *value, const char *option)
{
    const char *text = gem_text(value);
    if (text == NULL) {
        return gem_refuse(r, value, "one value is expected");
    }
    return gem_add(r, value, option, text[0] == ':' ? text + 1 : text); /* :majority */
}

/* Any other option: a flag with true or false, or one with a value. */
static bool gem_option(struct gem_reader *r, const yaml_node_t *key, const yaml_node_t *value,
                       const char *name)
{
    bool flag = false;
    const char *text = gem_text(value);
    if (!r->known(name, &flag)) {
        return gem_refuse(r, key, "\"%.60s\" is no key", name);
    }
    r->layout_set = r->layout_set || strcmp(name, "gem-layout") == 0;
    if (!flag) {
        return gem_plain(r, value, name);
    }
    if (text == NULL || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)) {
        return gem_refuse(r, value, "%.60s is true or false", name);
    }
    return strcmp(text, "true") != 0 || gem_add(r, value, name, NULL);
}

static const struct gem_row {
    const char *key;
    const char *option;
    bool (*take)(struct gem_reader *r, const yaml_node_t *value, const char *option);
} GEM_ROWS[] = {
    {"nodes", "nodes", gem_servers},
    {"zkservers", "zkservers", gem_servers},
    {"znode-path", "gem-path", gem_znode_path},
    {"password", NULL, gem_password},
    {"max-failures", "max-failures", gem_plain},
    {"node-strategy", "node-strategy", gem_plain},
    {"failover-strategy", "failover-strategy", gem_plain},
    {"required-node-managers", "required-node-managers", gem_plain},
    {"required-node-managers-up", "required-node-managers", gem_plain},
    {"chroot", "with-chroot", gem_plain},
};
enum { GEM_ROW_COUNT = sizeof GEM_ROWS / sizeof GEM_ROWS[0] };

/* --- maps */

static bool gem_take(struct gem_reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    static const char *const refused[] = {"config", "environment", "to", "force", NULL};
    char name[NAME_MAX_BYTES];
    size_t row = 0;
    if (!gem_key(key, name)) {
        return gem_refuse(r, key, "this key is no short text");
    }
    for (size_t i = 0; refused[i] != NULL; i++) {
        if (strcmp(name, refused[i]) == 0) {
            return gem_refuse(r, key, "%s is for the command line only", name);
        }
    }
    while (row < GEM_ROW_COUNT && strcmp(GEM_ROWS[row].key, name) != 0) {
        row++;
    }
    if (value->type == YAML_MAPPING_NODE && row == GEM_ROW_COUNT) {
        return gem_refuse(
            r, key, "\"%.60s\" is no key; for an environment of this name, give --environment",
            name);
    }
    bool empty = gem_text(value) != NULL &&
                 (gem_text(value)[0] == '\0' || strcmp(gem_text(value), "~") == 0);
    if (empty) {
        return true; /* as if it was not there */
    }
    return row < GEM_ROW_COUNT ? GEM_ROWS[row].take(r, value, GEM_ROWS[row].option)
                               : gem_option(r, key, value, name);
}

/* Whether the key is among those that were taken, from this place on. */
static bool gem_seen(const struct gem_reader *r, const yaml_node_t *key, size_t from)
{
    char name[NAME_MAX_BYTES];
    char other[NAME_MAX_BYTES];
    for (size_t i = from; i < r->seen_count; i++) {
        if (gem_key(key, name) && gem_key(r->seen[i], other) && strcmp(name, other) == 0) {
            return true;
        }
    }
    return false;
}

static bool gem_is_merge(const yaml_node_t *key)
{
    return gem_text(key) != NULL && strcmp(gem_text(key), "<<") == 0;
}

static bool gem_map(struct gem_reader *r, const yaml_node_t *map, int depth);

/* What `<<` names: a map or a list of maps. */
static bool gem_merge(struct gem_reader *r, const yaml_node_t *value, int depth)
{
    if (value->type != YAML_SEQUENCE_NODE) {
        return gem_map(r, value, depth + 1);
    }
    for (const yaml_node_item_t *item = value->data.sequence.items.start;
         item < value->data.sequence.items.top; item++) {
        if (!gem_map(r, gem_node(r, *item), depth + 1)) {
            return false;
        }
    }
    return true;
}

/* The map's own keys, then those of its merges that are not there yet. */
static bool gem_map(struct gem_reader *r, const yaml_node_t *map, int depth)
{
    if (depth > GEM_CONFIG_DEPTH_MAX || r->merges++ > MERGES_MAX) {
        return gem_refuse(r, map, "too many merges");
    }
    if (map->type != YAML_MAPPING_NODE) {
        return gem_refuse(r, map, "a map of keys and values is expected");
    }
    size_t from = r->seen_count;
    const yaml_node_pair_t *end = map->data.mapping.pairs.top;
    for (const yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < end; pair++) {
        const yaml_node_t *key = gem_node(r, pair->key);
        if (gem_is_merge(key)) {
            continue;
        }
        if (gem_seen(r, key, from)) {
            return gem_refuse(r, key, "this key is there twice");
        }
        if (gem_seen(r, key, 0)) {
            continue;
        }
        if (r->seen_count == KEYS_MAX) {
            return gem_refuse(r, key, "too many keys");
        }
        if (!gem_take(r, key, gem_node(r, pair->value))) {
            return false;
        }
        r->seen[r->seen_count++] = key;
    }
    for (const yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < end; pair++) {
        if (gem_is_merge(gem_node(r, pair->key)) &&
            !gem_merge(r, gem_node(r, pair->value), depth)) {
            return false;
        }
    }
    return true;
}

/* The map of the environment. NULL: said why. */
static const yaml_node_t *gem_environment(struct gem_reader *r, const yaml_node_t *root,
                                          const char *environment)
{
    if (root->type == YAML_MAPPING_NODE) {
        for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
             pair < root->data.mapping.pairs.top; pair++) {
            const char *name = gem_text(gem_node(r, pair->key));
            if (name != NULL && strcmp(name + (name[0] == ':' ? 1 : 0), environment) == 0) {
                return gem_node(r, pair->value);
            }
        }
    }
    (void)gem_refuse(r, root, "there is no environment \"%.60s\"", environment);
    return NULL;
}

static bool gem_document(struct gem_reader *r, const char *environment)
{
    const yaml_node_t *root = r->yaml->yaml_document_get_root_node(r->document);
    if (root == NULL) {
        snprintf(r->why, GEM_CONFIG_WHY, "line 1: it is empty");
        return false;
    }
    const yaml_node_t *map = environment == NULL ? root : gem_environment(r, root, environment);
    return map != NULL && gem_map(r, map, 0) &&
           (r->layout_set || gem_add(r, root, "gem-layout", NULL));
}

/* Opening brackets. libyaml looks at all open ones for each token, so nested ones cost their square. */
static size_t gem_brackets(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        count += text[i] == '[' || text[i] == '{';
    }
    return count;
}

bool gem_config_read(const void *text, size_t len, const char *environment,
                     bool (*known)(const char *name, bool *ret_flag), struct gem_config *ret,
                     char why[GEM_CONFIG_WHY])
{
    yaml_parser_t parser;
    yaml_document_t document;
    const struct yaml_functions *yaml = yaml_load();
    struct gem_reader r = {
        .yaml = yaml, .document = &document, .known = known, .config = ret, .why = why};
    *ret = (struct gem_config){.count = 0};
    if (len > GEM_CONFIG_SIZE_MAX) {
        snprintf(why, GEM_CONFIG_WHY, "it is larger than %d bytes", GEM_CONFIG_SIZE_MAX);
        return false;
    }
    if (gem_brackets(text, len) > BRACKETS_MAX) {
        snprintf(why, GEM_CONFIG_WHY, "it has more than %d brackets", BRACKETS_MAX);
        return false;
    }
    if (yaml == NULL) {
        snprintf(why, GEM_CONFIG_WHY, "libyaml is missing: install it");
        return false;
    }
    if (!yaml->yaml_parser_initialize(&parser)) {
        snprintf(why, GEM_CONFIG_WHY, "out of memory");
        return false;
    }
    yaml->yaml_parser_set_input_string(&parser, text, len);
    bool good = yaml->yaml_parser_load(&parser, &document) == 1;
    if (good) {
        good = gem_document(&r, environment);
        yaml->yaml_document_delete(&document);
    } else {
        snprintf(why, GEM_CONFIG_WHY, "line %zu: %s", parser.problem_mark.line + 1,
                 parser.problem == NULL ? "out of memory" : parser.problem);
    }
    yaml->yaml_parser_delete(&parser);
    if (!good) {
        gem_config_finish(ret);
    }
    assert(ret->count <= GEM_CONFIG_OPTIONS);
    return good;
}

void gem_config_finish(struct gem_config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        free(config->options[i]);
    }
    free(config->password);
    *config = (struct gem_config){.count = 0};
}
