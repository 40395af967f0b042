/*
 * What the clients of one address have and do together: connections, sessions made from there, an account of what the
 * server keeps for them, requests by time. An address is known as long as it has a socket or a session.
 *
 * All addresses of an IPv6 network of 64 bits count as one: a host that has one of them has all of them.
 */
#ifndef FRONT_LIMITS_CLIENT_ADDRESS_H
#define FRONT_LIMITS_CLIENT_ADDRESS_H

#include "base/account.h"
#include "base/hash.h"
#include "base/map.h"

struct connection;

struct client_address {
    struct map_node node; /* in addresses.by_name */
    size_t users;         /* sockets, connections and sessions */
    size_t sockets;       /* accepted and not closed yet; counted by who accepts */
    size_t sessions;      /* made from there through this server, and not ended */
    struct account account;
    /* the one that goes on with its request although there is no room; NULL: none */
    struct connection *reads_on;
    int64_t busy_until_ns; /* when the requests so far would be done at the rate allowed */
    char name[];           /* the host, or the network of an IPv6 host */
};

struct client_addresses {
    struct map by_name;
    struct map sessions;   /* whose each session is */
    struct account *total; /* what the accounts of addresses are part of */
    struct hash_key key;   /* of by_name: clients have many addresses to choose from */
};

void client_addresses_init(struct client_addresses *a, const struct hash_key *key,
                           struct account *total);
/* No connection may hold an address any more. */
void client_addresses_finish(struct client_addresses *a);

enum { ADDRESS_NAME_MAX = 64 };

/* What the server calls the address of a numeric host: the host itself, or for IPv6 its network. */
void client_address_name(const char *host, char out[ADDRESS_NAME_MAX]);

/* The address of a numeric host; NULL when memory is out. */
struct client_address *client_address_hold(struct client_addresses *a, const char *host);
void client_address_release(struct client_addresses *a,
                            struct client_address *address); /* takes NULL */

/* Whether one more request keeps within so many a second, over one second; counts it if so. */
bool client_address_may_ask(struct client_address *address, int64_t per_second, int64_t now_ns);

/* A session was made from there, and a session ended, wherever it came from. 0 or CONCLAVE_ENOMEM. */
int client_address_add_session(struct client_addresses *a, struct client_address *address,
                               int64_t session_id) CONCLAVE_MUST_USE;
void client_addresses_end_session(struct client_addresses *a, int64_t session_id);

#endif
