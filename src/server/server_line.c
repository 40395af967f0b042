#include "server/server_line.h"

#include "server/config_values.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELDS_MAX = 4 };

/* Parts of one address: a host, then what ':' divides. */
struct fields {
    char text[SERVER_TEXT_MAX];
    const char *at[FIELDS_MAX];
    size_t count;
};

static const char *const bad_form =
    "is not host:port:port[:role][;[[host:]clientPort]], IPv6 addresses in brackets";

static bool host_is_good(const char *host)
{
    size_t len = strlen(host);
    return len > 0 && len < NET_HOST_MAX &&
           strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%") ==
               len;
}

/* Splits "host:a:b" or "[v6]:a:b". */
static bool fields_split(struct fields *f, struct slice text)
{
    if (text.len >= sizeof f->text) {
        return false;
    }
    memcpy(f->text, text.data, text.len);
    f->text[text.len] = '\0';
    char *at = f->text;
    f->count = 0;
    if (*at == '[') {
        char *end = strchr(at, ']');
        if (end == NULL || end[1] != ':') {
            return false;
        }
        *end = '\0';
        f->at[f->count++] = at + 1;
        at = end + 2;
    }
    for (;;) {
        char *colon = strchr(at, ':');
        if (f->count == FIELDS_MAX) {
            return false;
        }
        f->at[f->count++] = at;
        if (colon == NULL) {
            return true;
        }
        *colon = '\0';
        at = colon + 1;
    }
}

static bool port_parse(const char *text, uint16_t *ret)
{
    int64_t port;
    if (!config_number(text, &port) || port < 1 || port > 65535) {
        return false;
    }
    *ret = (uint16_t)port;
    return true;
}

/* -1: no such role. */
static int role_parse(const char *text)
{
    if (strcasecmp(text, "observer") == 0) {
        return 1;
    }
    return strcasecmp(text, "participant") == 0 ? 0 : -1;
}

/* One of the addresses. Returns what is wrong, or NULL. */
static const char *line_add_host(struct server_line *l, struct slice text, int *role)
{
    struct fields f;
    uint16_t port;
    uint16_t election;
    if (!fields_split(&f, text) || f.count < 3) {
        return bad_form;
    }
    if (!host_is_good(f.at[0])) {
        return "has no host name or address in it";
    }
    if (!port_parse(f.at[1], &port) || !port_parse(f.at[2], &election)) {
        return "has a port that is no number from 1 to 65535";
    }
    if (port == election) {
        return "has the same port twice";
    }
    if (f.count == 4) {
        int said = role_parse(f.at[3]);
        if (said < 0) {
            return "has a role that is neither participant nor observer";
        }
        if (*role >= 0 && *role != said) {
            return "has addresses of different roles";
        }
        *role = said;
    }
    struct net_address *a = &l->hosts[l->n_hosts];
    memcpy(a->host, f.at[0], strlen(f.at[0]) + 1);
    a->port = port;
    l->election_ports[l->n_hosts++] = election;
    return NULL;
}

static const char *line_set_client(struct server_line *l, const char *text)
{
    struct fields f;
    if (!fields_split(&f, slice_str(text)) || f.count > 2) {
        return bad_form;
    }
    const char *host = f.count == 2 ? f.at[0] : "0.0.0.0";
    if (!host_is_good(host)) {
        return "has no client address behind ';'";
    }
    if (!port_parse(f.at[f.count - 1], &l->client.port)) {
        return "has no client port behind ';'";
    }
    memcpy(l->client.host, host, strlen(host) + 1);
    l->has_client = true;
    return NULL;
}

static const char *line_fill(struct server_line *l, const char *text)
{
    int role = -1;
    size_t servers = strcspn(text, ";");
    const char *why = NULL;
    if (strlen(text) >= SERVER_TEXT_MAX) {
        return "is too long";
    }
    for (const char *at = text, *end = text + servers; why == NULL; at++) {
        size_t len = strcspn(at, "|;");
        if (l->n_hosts == SERVER_HOSTS_MAX) {
            return "has more than 8 addresses";
        }
        why = line_add_host(l, slice_make(at, len), &role);
        at += len;
        if (at >= end) {
            break;
        }
    }
    l->observer = role == 1;
    if (why == NULL && text[servers] == ';' && text[servers + 1] != '\0') {
        why = line_set_client(l, text + servers + 1);
    }
    return why;
}

int server_line_parse(const char *text, struct server_line *ret, const char **ret_why)
{
    struct server_line l = {0};
    l.hosts = calloc(SERVER_HOSTS_MAX, sizeof *l.hosts);
    l.election_ports = calloc(SERVER_HOSTS_MAX, sizeof *l.election_ports);
    if (l.hosts == NULL || l.election_ports == NULL) {
        server_line_finish(&l);
        return CONCLAVE_ENOMEM;
    }
    const char *why = line_fill(&l, text);
    if (why != NULL) {
        server_line_finish(&l);
        *ret_why = why;
        return CONCLAVE_EINVAL;
    }
    *ret = l;
    return 0;
}

void server_line_finish(struct server_line *l)
{
    free(l->hosts);
    free(l->election_ports);
    *l = (struct server_line){0};
}

void server_line_print(const struct server_line *l, struct buf *out)
{
    char text[NET_TEXT_MAX];
    for (size_t i = 0; i < l->n_hosts; i++) {
        buf_printf(out, "%s%s:%u", i > 0 ? "|" : "", net_address_format(&l->hosts[i], text),
                   (unsigned)l->election_ports[i]);
    }
    buf_append_str(out, l->observer ? ":observer" : ":participant");
    if (l->has_client) {
        buf_printf(out, ";%s", net_address_format(&l->client, text));
    }
}

bool server_host_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcasecmp(host, "localhost") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}
