/*
 * The text after `server.N=`, as Apache ZooKeeper 3.9 writes it:
 *
 *     host:port:port[:role][|host:port:port[:role]]...[;[[host:]clientPort]]
 *
 * Other servers connect to the first port; the second, ZooKeeper's election port, is kept but not used. IPv6 addresses
 * are in brackets. Names are not looked up.
 */
#ifndef FRONT_SERVER_LINE_H
#define FRONT_SERVER_LINE_H

#include "base/buf.h"
#include "net/address.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SERVER_HOSTS_MAX = 8,   /* addresses of one server */
    SERVER_TEXT_MAX = 1024, /* of the text, with NUL */
};

struct server_line {
    uint64_t id;               /* as in state/members/members.h; set by the caller */
    bool observer;             /* else a participant */
    struct net_address *hosts; /* addresses for other servers */
    uint16_t *election_ports;  /* one per host */
    size_t n_hosts;            /* at least 1 */
    bool has_client;
    struct net_address client; /* address for clients; host "0.0.0.0" if not given */
};

/* 0; CONCLAVE_EINVAL with *ret_why, a fixed text; CONCLAVE_ENOMEM. Free with server_line_finish. */
int server_line_parse(const char *text, struct server_line *ret,
                      const char **ret_why) CONCLAVE_MUST_USE;

/* Accepts a struct that is all zero. */
void server_line_finish(struct server_line *l);

/* Appends the text in a canonical form: with the role, and with the client's host. */
void server_line_print(const struct server_line *l, struct buf *out);

/* Whether the host, a name or an address, is certainly this machine. */
bool server_host_is_loopback(const char *host);

#endif
