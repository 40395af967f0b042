/*
 * What the clients of one address have and do together: sessions made from there, bytes of requests
 * being worked on, requests by time. An address is known as long as it has a connection or a session.
 */
#ifndef SERVER_ADDRESS_H
#define SERVER_ADDRESS_H

#include "base/hash.h"
#include "base/map.h"

struct address {
    struct map_node node;  /* in addresses.by_host */
    size_t users;          /* connections and sessions */
    size_t sessions;       /* made from there through this server, and not ended */
    size_t bytes;          /* of requests being worked on */
    int64_t busy_until_ns; /* when the requests so far would be done at the rate allowed */
    char host[];
};

struct addresses {
    struct map by_host;
    struct map sessions; /* whose each session is */
    struct hash_key key; /* of by_host: clients have many addresses to choose from */
};

void addresses_init(struct addresses *a, const struct hash_key *key);
/* No connection may hold an address any more. */
void addresses_finish(struct addresses *a);

enum { ADDRESS_NAME_MAX = 64 };

/* What the server calls the address of a numeric host: the host itself, or for IPv6 its network. */
void address_name(const char *host, char out[ADDRESS_NAME_MAX]);

/* The address of a connection; NULL when memory is out. */
struct address *address_hold(struct addresses *a, const char *host);
void address_release(struct addresses *a, struct address *address); /* takes NULL */

/* Whether one more request keeps within so many a second, over one second; counts it if so. */
bool address_may_ask(struct address *address, int64_t per_second, int64_t now_ns);

/* A session was made from there, and a session ended, wherever it came from. 0 or CONCLAVE_ENOMEM. */
int address_add_session(struct addresses *a, struct address *address,
                        int64_t session_id) CONCLAVE_MUST_USE;
void addresses_end_session(struct addresses *a, int64_t session_id);

#endif
