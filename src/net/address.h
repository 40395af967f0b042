/*
 * Numeric socket addresses as text, and the HOST:PORT form of options. An IPv4 address that arrives through an IPv6
 * socket is shown as IPv4, so that one client has one name.
 */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <conclave/error.h>

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NET_HOST_MAX = 256, /* longest host name, with NUL */
    NET_TEXT_MAX = 264, /* [host]:port, with NUL */
    NET_NETWORK_MAX = 64,
};

struct net_address {
    char host[NET_HOST_MAX]; /* name or numeric address, without brackets */
    uint16_t port;
};

/* Splits "host:port", "[v6]:port" or ":port" (host ""). 0 or CONCLAVE_EINVAL. */
int net_address_parse(const char *text, struct net_address *ret) CONCLAVE_MUST_USE;

/* "host:port", an IPv6 host in brackets. Returns out. */
const char *net_address_format(const struct net_address *a, char out[NET_TEXT_MAX]);

/* The numeric form of a socket address; "?" and port 0 for families other than IPv4 and IPv6. */
void net_address_of(const struct sockaddr *sa, struct net_address *ret);

/* The first address of host (name or number; "": every interface) and port. 0 or CONCLAVE_ERESOLVE. Blocks during a
 * name look-up. */
int net_address_resolve(const struct net_address *a,
                        struct sockaddr_storage *ret) CONCLAVE_MUST_USE;

/* The part of a numeric host that one site has, by which limits count, because a site can use all of its addresses: the
 * host itself, or for IPv6 its network of 64 bits. */
void net_network_name(const char *host, char out[NET_NETWORK_MAX]);

#endif
