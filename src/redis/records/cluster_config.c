/* The defaults, and reading the list of servers. */
#include "redis/records/cluster_config.h"

#include <conclave/error.h>

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_PORT 6379

const char *const REDIS_STRATEGIES[] = {"majority", "consensus", "single", NULL};
const char *const REDIS_PREFERENCES[] = {"offset", "latency", NULL};
const char *const REDIS_UNFENCEABLES[] = {"wait", "block", NULL};

void redis_config_init(struct redis_config *config)
{
    *config = (struct redis_config){
        .strategy = REDIS_STRATEGY_MAJORITY,
        .preference = REDIS_PREFER_OFFSET,
        .unfenceable = REDIS_UNFENCEABLE_WAIT,
        .managers = 1,
        .period_ms = 1000,
        .op_timeout_ms = 1000,
        .max_failures = 3,
        .min_down_ms = 500,
        .min_successes = 2,
        .busy_down_ms = 30000,
        .max_lag_bytes = -1,
        .max_link_down_ms = 30000,
        .cooldown_ms = 60000,
        .parallel_syncs = 1,
        .min_replicas_lag_s = 10,
        .pause_ms = 10000,
        .settle_ms = 1000,
        .promote_timeout_ms = 5000,
        .repoint_timeout_ms = 30000,
        .request_timeout_ms = 10000,
    };
}

static int read_port(const char *text, size_t len, int *ret)
{
    int port = 0;
    if (len == 0 || len > 5) {
        return CONCLAVE_EINVAL;
    }
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i])) {
            return CONCLAVE_EINVAL;
        }
        port = port * 10 + (text[i] - '0');
    }
    if (port == 0 || port > 65535) {
        return CONCLAVE_EINVAL;
    }
    *ret = port;
    return 0;
}

static bool host_is_plain(const char *host, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)host[i] <= ' ' || host[i] == '"' || host[i] == ',' || host[i] == '/') {
            return false;
        }
    }
    return len > 0 && len < REDIS_HOST_SIZE - 3;
}

int redis_address_parse(const char *text, size_t len, struct redis_node_config *ret)
{
    struct redis_node_config node = {.port = DEFAULT_PORT};
    const char *host = text;
    size_t host_len = len;
    const char *rest = text + len; /* ":port", or nothing */
    bool v6 = len > 0 && text[0] == '[';
    if (v6) {
        const char *end = memchr(text, ']', len);
        if (end == NULL) {
            return CONCLAVE_EINVAL;
        }
        host = text + 1;
        host_len = (size_t)(end - host);
        rest = end + 1;
    } else {
        const char *colon = memchr(text, ':', len);
        if (colon != NULL) {
            host_len = (size_t)(colon - text);
            rest = colon;
        }
    }
    size_t rest_len = (size_t)(text + len - rest);
    if (!host_is_plain(host, host_len) ||
        (rest_len > 0 && (rest[0] != ':' || read_port(rest + 1, rest_len - 1, &node.port) != 0))) {
        return CONCLAVE_EINVAL;
    }
    memcpy(node.host, host, host_len);
    snprintf(node.address, sizeof node.address, v6 ? "[%s]:%d" : "%s:%d", node.host, node.port);
    *ret = node;
    return 0;
}

int redis_config_nodes(struct redis_config *config, const char *text, const char **ret_bad)
{
    struct redis_config read = {0};
    const char *at = text;
    for (;;) {
        size_t len = strcspn(at, ",");
        const char *first = at;
        size_t used = len;
        while (used > 0 && isspace((unsigned char)*first)) {
            first++;
            used--;
        }
        while (used > 0 && isspace((unsigned char)first[used - 1])) {
            used--;
        }
        struct redis_node_config node;
        if (read.node_count == REDIS_NODES_MAX || redis_address_parse(first, used, &node) != 0 ||
            redis_config_find(&read, node.address) != REDIS_NONE) {
            *ret_bad = at;
            return CONCLAVE_EINVAL;
        }
        read.nodes[read.node_count++] = node;
        if (at[len] == '\0') {
            break;
        }
        at += len + 1;
    }
    assert(read.node_count > 0 && read.node_count <= REDIS_NODES_MAX);
    memcpy(config->nodes, read.nodes, sizeof read.nodes);
    config->node_count = read.node_count;
    return 0;
}

int redis_config_find(const struct redis_config *config, const char *address)
{
    for (size_t i = 0; i < config->node_count; i++) {
        if (strcasecmp(config->nodes[i].address, address) == 0) {
            return (int)i;
        }
    }
    return REDIS_NONE;
}

int redis_config_required(const struct redis_config *config)
{
    if (config->required_managers > 0) {
        return config->required_managers;
    }
    return config->strategy == REDIS_STRATEGY_SINGLE ? 1 : config->managers / 2 + 1;
}
