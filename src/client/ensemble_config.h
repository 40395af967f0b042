/*
 * The ensemble's configuration as /zookeeper/config has it: one line "server.N=HOST:PORT:PORT[:ROLE][;[ADDRESS:]PORT]" for
 * each member, where the part behind ";" is for clients, then "version=...".
 */
#ifndef CLIENT_ENSEMBLE_CONFIG_H
#define CLIENT_ENSEMBLE_CONFIG_H

#include "base/buf.h"
#include "base/slice.h"

/* Appends the members' client addresses, "host:port,host:port" and a NUL. A member without one is left out; an address
 * for all interfaces is replaced by the member's host. 0, or CONCLAVE_EEMPTY: no member has one; CONCLAVE_ENOMEM. */
int ensemble_config_servers(struct slice text, struct buf *ret) CONCLAVE_MUST_USE;

#endif
