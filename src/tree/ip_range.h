/*
 * Addresses in access control lists, as Apache ZooKeeper's IPAuthenticationProvider reads them: an IPv4 or IPv6
 * address, in an entry followed by "/" and the number of bits that count.
 */
#ifndef TREE_IP_RANGE_H
#define TREE_IP_RANGE_H

#include "base/slice.h"

#include <stdbool.h>

enum { IP_MAX = 16 };

struct ip_address {
    int len; /* 4 or 16 */
    uint8_t bytes[IP_MAX];
};

struct ip_range {
    struct ip_address address;
    int bits; /* number of bits that count */
};

/* False: not an address, or not a range. */
bool ip_parse(struct slice text, struct ip_address *ret);
bool ip_range_parse(struct slice text, struct ip_range *ret);

bool ip_range_has(const struct ip_range *range, const struct ip_address *address);

#endif
