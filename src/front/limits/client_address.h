/*
 * What the clients of one address use together: connections, sessions created from there, an account of the memory that
 * the server keeps for them, and requests per second. An address is known as long as it has a socket or a session.
 *
 * All addresses of an IPv6 network of 64 bits count as one, because a host that has one of them can use all of them.
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
    size_t sockets;       /* accepted and not closed yet; the caller that accepts counts */
    size_t sessions;      /* created from there through this server, and not ended */
    struct account account;
    /* the connection whose request continues although there is no room; NULL: none */
    struct connection *reads_on;
    int64_t busy_until_ns; /* when the requests so far would end at the allowed rate */
    char name[];           /* the host, or the network of an IPv6 host */
};

struct client_addresses {
    struct map by_name;
    struct map sessions;   /* the address of each session */
    struct account *total; /* includes the accounts of all addresses */
    struct hash_key key;   /* for by_name, because clients can choose among many addresses */
};

void client_addresses_init(struct client_addresses *a, const struct hash_key *key,
                           struct account *total);
/* No connection may hold an address when this is called. */
void client_addresses_finish(struct client_addresses *a);

/* The address of a numeric host; NULL: out of memory. */
struct client_address *client_address_hold(struct client_addresses *a, const char *host);
void client_address_release(struct client_addresses *a,
                            struct client_address *address); /* takes NULL */

/* Counts one more request and returns true, if the rate of the last second permits it. */
bool client_address_may_ask(struct client_address *address, int64_t per_second, int64_t now_ns);

/* Records that a session was created from there, or that a session ended, wherever it was created. 0 or
 * CONCLAVE_ENOMEM. */
int client_address_add_session(struct client_addresses *a, struct client_address *address,
                               int64_t session_id) CONCLAVE_MUST_USE;
void client_addresses_end_session(struct client_addresses *a, int64_t session_id);

#endif
