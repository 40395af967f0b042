/* Which user a TCP connection from this machine belongs to, as Linux' /proc/net/tcp tells. */
#ifndef NET_PEER_USER_H
#define NET_PEER_USER_H

#include "net/address.h"

#include <stdbool.h>

/* Whether the other end is a process on this machine, of the same user as this process or of root. False, if that cannot be
 * told. Reads a line per connection of the machine: not for each request. */
bool peer_user_is_own(const struct net_address *peer, const struct net_address *own);

#endif
