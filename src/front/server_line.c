#include "front/server_line.h"

#include "state/members/member_line.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static_assert((int)MEMBER_HOSTS_MAX == (int)SERVER_HOSTS_MAX, "room for every host");
static_assert((int)MEMBER_HOST_MAX <= (int)NET_HOST_MAX, "room for its name");

static void set_address(struct net_address *a, struct slice host, uint16_t port)
{
    assert(host.len <= MEMBER_HOST_MAX);
    memcpy(a->host, host.data, host.len);
    a->host[host.len] = '\0';
    a->port = port;
}

int server_line_parse(const char *text, struct server_line *ret, const char **ret_why)
{
    struct member_line line;
    if (member_line_parse(slice_str(text), &line, ret_why) != 0) {
        return CONCLAVE_EINVAL;
    }
    struct server_line l = {.observer = line.observer, .has_client = line.has_client};
    l.hosts = calloc(SERVER_HOSTS_MAX, sizeof *l.hosts);
    l.election_ports = calloc(SERVER_HOSTS_MAX, sizeof *l.election_ports);
    if (l.hosts == NULL || l.election_ports == NULL) {
        server_line_finish(&l);
        return CONCLAVE_ENOMEM;
    }
    for (; l.n_hosts < line.n_hosts; l.n_hosts++) {
        const struct member_host *host = &line.hosts[l.n_hosts];
        set_address(&l.hosts[l.n_hosts], host->host, host->port);
        l.election_ports[l.n_hosts] = host->election_port;
    }
    if (l.has_client) {
        set_address(&l.client, line.client_host, line.client_port);
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
    struct member_line line = {.has_client = l->has_client,
                               .client_host = slice_str(l->client.host),
                               .client_port = l->client.port};
    for (; line.n_hosts < l->n_hosts; line.n_hosts++) {
        const struct net_address *a = &l->hosts[line.n_hosts];
        line.hosts[line.n_hosts] =
            (struct member_host){slice_str(a->host), a->port, l->election_ports[line.n_hosts]};
    }
    member_line_print(&line, l->observer, out);
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
