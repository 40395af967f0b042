/* The list of servers at run time: given by the program, or read from the ensemble's configuration. */
#include "client/ensemble_config.h"
#include "client/handle.h"

#include <stdio.h>
#include <stdlib.h>

/* Beyond the chroot, if there is one: see path.h. */
static const char *config_path(const struct conclave_client *client)
{
    /* Events inside the chroot have paths without it. */
    if (strcmp(client->chroot, "/zookeeper") == 0) {
        return "/config";
    }
    if (strcmp(client->chroot, "/zookeeper/config") == 0) {
        return "/";
    }
    return client->chroot[0] != '\0' ? "//zookeeper/config" : "/zookeeper/config";
}

static void servers_text(const struct hosts *hosts, char *buf, size_t len)
{
    size_t used = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < hosts->count && used < len; i++) {
        const struct server_host *host = &hosts->list[i];
        bool v6 = strchr(host->name, ':') != NULL;
        used += (size_t)snprintf(buf + used, len - used, "%s%s%s%s:%u", i > 0 ? "," : "",
                                 v6 ? "[" : "", host->name, v6 ? "]" : "", (unsigned)host->port);
    }
}

/* Whether both lists have the same servers. */
static bool same_servers(const struct hosts *a, const struct hosts *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++) {
        same = hosts_find(b, a->list[i].name, a->list[i].port) != NULL;
    }
    for (size_t i = 0; i < b->count && same; i++) {
        same = hosts_find(a, b->list[i].name, b->list[i].port) != NULL;
    }
    return same;
}

static void replace_servers(struct conclave_client *client, struct hosts *next)
{
    char text[1024];
    bool linked = client->sock >= 0;
    loop_forget_servers(client);
    bool move = hosts_replace(&client->hosts, next, linked ? client->trying_name : NULL,
                              client->trying_port);
    servers_text(&client->hosts, text, sizeof text);
    client_log(client, CONCLAVE_LOG_INFO, "new list of servers", "servers", text, "link",
               move ? "moves" : "stays");
    if (move && client->core.link != LINK_NONE) {
        core_leave(&client->core, client_now_ns(client));
    } else if (move) {
        client->connect_by_ns = 0; /* the attempt ends in the next step of the loop */
    }
    loop_wake(client);
    handle_wake_pump(client);
}

int client_set_servers(struct conclave_client *client, const char *servers)
{
    struct hosts next;
    char *chroot = NULL;
    int rc = hosts_parse_in_order(&next, servers, &chroot);
    if (rc != 0) {
        return rc;
    }
    if (chroot[0] != '\0' && strcmp(chroot, client->chroot) != 0) {
        rc = CONCLAVE_EINVAL;
    } else if (!same_servers(&client->hosts, &next)) {
        replace_servers(client, &next);
    }
    free(chroot);
    hosts_finish(&next);
    return rc;
}

int conclave_client_set_servers(struct conclave_client *client, const char *servers)
{
    int rc = client_check(client);
    if (rc != 0) {
        return rc;
    }
    if (servers == NULL) {
        return CONCLAVE_EINVAL;
    }
    client_lock(client);
    rc = client_set_servers(client, servers);
    client_unlock(client);
    return rc;
}

void conclave_client_servers(const struct conclave_client *client, char *buf, size_t len)
{
    if (len == 0) {
        return;
    }
    struct conclave_client *c = (struct conclave_client *)(uintptr_t)client; /* for the lock */
    client_lock(c);
    servers_text(&client->hosts, buf, len);
    client_unlock(c);
}

/* --- the ensemble's configuration
 * ------------------------------------------------------------------- */

static void on_config_event(struct conclave_client *client, enum conclave_event_type type,
                            const char *path, void *ctx)
{
    client->reading_ensemble = false;
    if (type != CONCLAVE_EVENT_LOST) {
        client_follow_ensemble(client);
    }
}

static void on_config(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    /* Without an answer, or with an error, no watch was set: the next session or link asks again. */
    client->reading_ensemble = reply->error == 0;
    const char *why = reply->error != 0 ? conclave_strerror(reply->error) : NULL;
    struct buf servers;
    buf_init(&servers, 0);
    if (why == NULL) {
        int rc = ensemble_config_servers(slice_make(reply->data, reply->data_len), &servers);
        rc = rc == 0 ? client_set_servers(client, (const char *)servers.data) : rc;
        why = rc == CONCLAVE_EEMPTY ? "no member has a client address"
              : rc != 0             ? conclave_strerror(rc)
                                    : NULL;
    }
    if (why != NULL && reply->error != CONCLAVE_CONNECTION_LOSS &&
        reply->error != CONCLAVE_ECLOSED) {
        client_log(client, CONCLAVE_LOG_WARNING, "cannot follow the ensemble", "why", why);
    }
    buf_finish(&servers);
}

void client_follow_ensemble(struct conclave_client *client)
{
    if (!client->follow_ensemble || client->reading_ensemble) {
        return;
    }
    static const struct conclave_retry_options policy = CONCLAVE_RETRY_OPTIONS_INIT;
    struct conclave_op op =
        conclave_op_watch(CONCLAVE_OP_GET, config_path(client), on_config_event, NULL);
    op.retry = &policy;
    client->reading_ensemble = handle_submit(client, &op, on_config, NULL, SUBMIT_BEYOND) == 0;
}
