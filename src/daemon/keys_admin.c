#include "daemon/keys_admin.h"

#include "daemon/key_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMETHEUS "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

void keys_admin_init(struct keys_admin *a)
{
    *a = (struct keys_admin){
        .enabled = true,
        .listen = {.host = "127.0.0.1", .port = 8080},
        .idle_ms = 30000,
        .backup_interval_ms = 300000,
        .answer_bytes = 1 << 20,
        .memb = true,
        .metrics_listen = {.port = 7000},
    };
}

void keys_admin_finish(struct keys_admin *a)
{
    free(a->command_url);
    free(a->words);
    free(a->allowed_hosts);
    a->command_url = a->words = a->allowed_hosts = NULL;
}

int key_set_admin(struct zoo_cfg *c, const char *value)
{
    struct keys_admin *a = &c->admin;
    a->have_option = true;
    a->enabled = strcmp(value, "off") != 0;
    if (a->enabled && net_address_parse(value, &a->listen) != 0) {
        return key_fail(c, "--admin: '%s' is neither HOST:PORT, such as 127.0.0.1:8080, nor off",
                        value);
    }
    return 0;
}

static int set_host(struct zoo_cfg *c, struct net_address *address, const char *key,
                    const char *value, const char *where)
{
    if (value[0] == '\0' || strlen(value) >= sizeof address->host) {
        return key_fail(c, "%s: %s: '%s' is not a host name or address", where, key, value);
    }
    /* ZooKeeper writes 0.0.0.0 for every interface. Conclave then listens on IPv6, too. */
    snprintf(address->host, sizeof address->host, "%s", strcmp(value, "0.0.0.0") == 0 ? "" : value);
    return 0;
}

int key_set_admin_address(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    struct net_address ignored;
    return set_host(c, c->admin.have_option ? &ignored : &c->admin.listen, key, value, where);
}

int key_set_admin_port(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    int64_t port;
    if (!key_number(value, &port) || port < 0 || port > 65535) {
        return key_fail(c, "%s: %s: '%s' is not a number from 0 to 65535", where, key, value);
    }
    if (!c->admin.have_option) {
        c->admin.listen.port = (uint16_t)port;
    }
    return 0;
}

int key_set_admin_enabled(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    bool on;
    if (!key_boolean(value, &on)) {
        return key_fail(c, "%s: %s: '%s' is not yes or no", where, key, value);
    }
    if (!c->admin.have_option) {
        c->admin.enabled = on;
    }
    return 0;
}

int key_set_command_url(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    size_t len = strlen(value);
    if (value[0] != '/' || len < 2 || value[len - 1] == '/' || strpbrk(value, "?#\"<> ") != NULL) {
        return key_fail(c, "%s: %s: '%s' is not a path such as /commands", where, key, value);
    }
    return key_copy(c, &c->admin.command_url, value);
}

int key_set_metrics_provider(struct zoo_cfg *c, const char *key, const char *value,
                             const char *where)
{
    c->admin.metrics = strcmp(value, PROMETHEUS) == 0;
    if (!c->admin.metrics) {
        buf_printf(&c->notices,
                   "conclave: %s: no effect: only " PROMETHEUS " opens a separate port; the admin "
                   "port always serves /metrics\n",
                   key);
    }
    return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
}

int key_set_metrics_host(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    return set_host(c, &c->admin.metrics_listen, key, value, where);
}
