/* Names and ports of the servers. Nothing is sent: ports are bound or connected to, and closed again. */
#include "cli/doctor/doctor.h"
#include "net/address.h"
#include "replication/disk/configuration.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_MS = 2000 };

static bool is_loopback(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    return a->ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
                                   : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static socklen_t address_length(const struct sockaddr_storage *a)
{
    assert(a->ss_family == AF_INET || a->ss_family == AF_INET6);
    return a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* What a host of a server.N line means here. */
enum host_place { HOST_NOWHERE, HOST_HERE, HOST_ELSEWHERE };

static enum host_place place_of(const struct net_address *host)
{
    struct sockaddr_storage at;
    bool known = net_address_resolve(host, &at) == 0;
    return !known ? HOST_NOWHERE : is_loopback(&at) ? HOST_HERE : HOST_ELSEWHERE;
}

/* Hosts of server.N lines: whether they have an address, and one that others can reach. */
void doctor_hosts(struct doctor *d)
{
    const struct ensemble_options *e = &d->config->options.ensemble;
    const struct net_address *here[MEMBERS_MAX];
    size_t n_here = 0;
    size_t elsewhere = 0;
    for (size_t i = 0; e->enabled && i < e->n_members; i++) {
        for (size_t k = 0; k < e->members[i].n_hosts; k++) {
            const struct net_address *host = &e->members[i].hosts[k];
            enum host_place place = place_of(host);
            elsewhere += place == HOST_ELSEWHERE;
            if (place == HOST_NOWHERE) {
                finding_add(&d->findings, FOUND_HOST_UNKNOWN, host->host,
                            "this name has no address here");
            } else if (place == HOST_HERE && n_here < MEMBERS_MAX) {
                here[n_here++] = host;
            }
        }
    }
    for (size_t i = 0; elsewhere > 0 && i < n_here; i++) {
        finding_add(&d->findings, FOUND_HOST_LOOPBACK, here[i]->host,
                    "it means this machine itself, and other servers of the ensemble are "
                    "elsewhere: they cannot reach it by this name");
    }
}

/* Own ports */

static void look_at_port(struct doctor *d, const struct net_address *a, const char *key)
{
    struct sockaddr_storage at;
    char text[NET_TEXT_MAX];
    int on = 1;
    if (a->port == 0) {
        return;
    }
    net_address_format(a, text);
    if (net_address_resolve(a, &at) != 0) {
        finding_add(&d->findings, FOUND_HOST_UNKNOWN, a->host, "%s: this name has no address here",
                    key);
        return;
    }
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (const struct sockaddr *)&at, address_length(&at)) != 0) {
        if (errno == EADDRNOTAVAIL) {
            finding_add(&d->findings, FOUND_ADDRESS_ELSEWHERE, text,
                        "%s: no network of this machine has this address", key);
        } else {
            finding_add(&d->findings, FOUND_PORT_IN_USE, text, "%s: %s", key,
                        errno == EADDRINUSE ? "another program has this port" : strerror(errno));
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

void doctor_ports(struct doctor *d)
{
    const struct server_options *o = &d->config->options;
    const struct admin_options *a = &d->config->admin.options;
    if (d->owner != 0) {
        return; /* the server has them */
    }
    if (o->plain) {
        look_at_port(d, &o->listen, "client port");
    }
    if (o->secure) {
        look_at_port(d, &o->listen_secure, "secureClientPort");
    }
    for (size_t i = 0; o->ensemble.enabled && i < o->ensemble.n_listen; i++) {
        look_at_port(d, &o->ensemble.listen[i], "peer port");
    }
    if (a->http) {
        look_at_port(d, &a->listen, "admin port");
    }
    if (a->metrics) {
        look_at_port(d, &a->metrics_listen, "metricsProvider.httpPort");
    }
}

/* Ports of the others */

/* 0 or an errno. */
static int try_connect(const struct sockaddr_storage *at)
{
    int error = 0;
    socklen_t len = sizeof error;
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return errno;
    }
    if (connect(fd, (const struct sockaddr *)at, address_length(at)) != 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        error = errno;
        if (error == EINPROGRESS) {
            int n = poll(&p, 1, CONNECT_MS);
            error = n == 0 ? ETIMEDOUT : n < 0 ? errno : 0;
            if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
                error = errno;
            }
        }
    }
    close(fd);
    return error;
}

void doctor_peers(struct doctor *d)
{
    const struct ensemble_options *e = &d->config->options.ensemble;
    if (!e->enabled || (d->owner == 0 && d->members_answered == 0)) {
        return; /* nothing runs yet */
    }
    for (size_t i = 0; i < e->n_members; i++) {
        for (size_t k = 0; i != e->me && k < e->members[i].n_hosts; k++) {
            struct sockaddr_storage at;
            char text[NET_TEXT_MAX];
            if (net_address_resolve(&e->members[i].hosts[k], &at) != 0) {
                continue; /* host-unknown */
            }
            int error = try_connect(&at);
            if (error != 0) {
                finding_add(&d->findings, FOUND_PEER_UNREACHABLE,
                            net_address_format(&e->members[i].hosts[k], text),
                            "no connection to the peer port of server.%llu: %s",
                            (unsigned long long)(e->members[i].id & 255), strerror(error));
            }
        }
    }
}
