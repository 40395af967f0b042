#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { NETWORK_BYTES = 8 }; /* of an IPv6 address: the smallest network that a site gets */

int net_address_parse(const char *text, struct net_address *ret)
{
    const char *host = text;
    const char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return CONCLAVE_EINVAL;
    }
    size_t len = (size_t)(colon - text);
    if (len > 0 && host[0] == '[') {
        if (len < 2 || host[len - 1] != ']') {
            return CONCLAVE_EINVAL;
        }
        host++;
        len -= 2;
    } else if (memchr(host, ':', len) != NULL) {
        return CONCLAVE_EINVAL; /* a bare IPv6 address: its port cannot be found */
    }
    char *end = NULL;
    const char *digits = colon + 1;
    unsigned long port = strtoul(digits, &end, 10);
    if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || port > UINT16_MAX ||
        len >= NET_HOST_MAX) {
        return CONCLAVE_EINVAL;
    }
    memcpy(ret->host, host, len);
    ret->host[len] = '\0';
    ret->port = (uint16_t)port;
    return 0;
}

const char *net_address_format(const struct net_address *a, char out[NET_TEXT_MAX])
{
    bool v6 = strchr(a->host, ':') != NULL;
    snprintf(out, NET_TEXT_MAX, v6 ? "[%s]:%u" : "%s:%u", a->host, (unsigned)a->port);
    return out;
}

void net_address_of(const struct sockaddr *sa, struct net_address *ret)
{
    *ret = (struct net_address){.host = "?"};
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, ret->host, sizeof ret->host);
        ret->port = ntohs(in.sin_port);
    } else if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof in6);
        if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
            inet_ntop(AF_INET, &in6.sin6_addr.s6_addr[12], ret->host, sizeof ret->host);
        } else {
            inet_ntop(AF_INET6, &in6.sin6_addr, ret->host, sizeof ret->host);
        }
        ret->port = ntohs(in6.sin6_port);
    }
}

int net_address_resolve(const struct net_address *a, struct sockaddr_storage *ret)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    if (a->host[0] == '\0') {
        hints.ai_family = AF_INET6; /* dual stack: "::" also accepts IPv4 */
    }
    snprintf(port, sizeof port, "%u", (unsigned)a->port);
    if (getaddrinfo(a->host[0] == '\0' ? NULL : a->host, port, &hints, &found) != 0) {
        return CONCLAVE_ERESOLVE;
    }
    memset(ret, 0, sizeof *ret);
    memcpy(ret, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

/* A link-local address ends in the name of its interface, which does not belong to the network. */
void net_network_name(const char *host, char out[NET_NETWORK_MAX])
{
    char bare[INET6_ADDRSTRLEN] = "";
    struct in6_addr in6;
    size_t len = strcspn(host, "%");
    size_t all = strlen(host);
    if (all < NET_NETWORK_MAX && memchr(host, ':', all) == NULL) {
        memcpy(out, host, all + 1); /* IPv4 */
        return;
    }
    if (len < sizeof bare) {
        memcpy(bare, host, len);
    }
    if (inet_pton(AF_INET6, bare, &in6) == 1) {
        memset(&in6.s6_addr[NETWORK_BYTES], 0, sizeof in6.s6_addr - NETWORK_BYTES);
        inet_ntop(AF_INET6, &in6, bare, sizeof bare);
        snprintf(out, NET_NETWORK_MAX, "%s/%d", bare, NETWORK_BYTES * 8);
    } else {
        snprintf(out, NET_NETWORK_MAX, "%s", host);
    }
}
