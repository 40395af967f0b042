#include "daemon/keys_admin.h"

#include "daemon/key_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PROMETHEUS "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

void keys_admin_init(struct keys_admin *a)
{
    *a = (struct keys_admin){.options = admin_options_default()};
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
    a->options.http = strcmp(value, "off") != 0;
    if (a->options.http && net_address_parse(value, &a->options.listen) != 0) {
        return key_fail(c, "--admin: '%s' is neither HOST:PORT, such as 127.0.0.1:8080, nor off",
                        value);
    }
    return 0;
}

/* "" is every interface, which Apache ZooKeeper calls 0.0.0.0; ours takes in IPv6. */
static int set_interface(struct zoo_cfg *c, struct net_address *address, const char *key,
                         const char *value, const char *where)
{
    int rc = key_set_host(c, address, key, value, where);
    if (rc == 0 && strcmp(value, "0.0.0.0") == 0) {
        address->host[0] = '\0';
    }
    return rc;
}

int key_set_admin_address(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    struct net_address ignored;
    struct net_address *address = c->admin.have_option ? &ignored : &c->admin.options.listen;
    return set_interface(c, address, key, value, where);
}

int key_set_admin_port(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    int64_t port;
    if (!key_number(value, &port) || port < 0 || port > 65535) {
        return key_fail(c, "%s: %s: '%s' is not a number from 0 to 65535", where, key, value);
    }
    if (!c->admin.have_option) {
        c->admin.options.listen.port = (uint16_t)port;
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
        c->admin.options.http = on;
    }
    return 0;
}

int key_set_console(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    bool acts = strcasecmp(value, "on") == 0;
    bool on = acts || strcasecmp(value, "read") == 0;
    if (!on && strcasecmp(value, "off") != 0 && !key_boolean(value, &on)) {
        return key_fail(c, "%s: %s: '%s' is not off, read or on", where, key, value);
    }
    c->admin.options.console = on;
    c->admin.options.console_acts = acts;
    return 0;
}

int key_set_command_url(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    size_t len = strlen(value);
    if (value[0] != '/' || len < 2 || value[len - 1] == '/' || strpbrk(value, "?#\"<> ") != NULL) {
        return key_fail(c, "%s: %s: '%s' is not a path such as /commands", where, key, value);
    }
    return text_replace(&c->admin.command_url, value);
}

int key_set_metrics_provider(struct zoo_cfg *c, const char *key, const char *value,
                             const char *where)
{
    c->admin.options.metrics = strcmp(value, PROMETHEUS) == 0;
    if (!c->admin.options.metrics) {
        buf_printf(&c->notices,
                   "conclave: %s: no effect: only " PROMETHEUS " opens a separate port; the admin "
                   "port always serves /metrics\n",
                   key);
    }
    return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
}

int key_set_metrics_host(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    return set_interface(c, &c->admin.options.metrics_listen, key, value, where);
}

void keys_admin_conclude(struct zoo_cfg *c)
{
    struct keys_admin *a = &c->admin;
    struct admin_options *o = &a->options;
    o->https = a->force_https || a->unified;
    o->plain_too = !a->force_https;
    o->tls_reload = c->options.tls_reload;
    o->read_only_word = c->options.read_only_mode;
    o->words = a->words;
    o->allowed_hosts = a->allowed_hosts;
    o->command_url = a->command_url != NULL ? a->command_url : o->command_url;
    o->given = &c->given;
}
