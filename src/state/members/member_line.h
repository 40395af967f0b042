/*
 * The text after `server.N=`, as Apache ZooKeeper 3.9 writes and reads it:
 *
 *     host:port:port[:role][|host:port:port[:role]]...[;[host:]clientPort]
 *
 * Other servers connect to the first port; the second, ZooKeeper's election port, is kept. IPv6 addresses are in
 * brackets. Names are not looked up. The parser follows Java (String.split, Integer.parseInt) as far as that decides
 * what is accepted and with which error. Source: QuorumServer's constructor, ConfigUtils.getHostAndPort.
 */
#ifndef STATE_MEMBERS_MEMBER_LINE_H
#define STATE_MEMBERS_MEMBER_LINE_H

#include "base/buf.h"

#include <conclave/error.h>

enum {
    MEMBER_HOSTS_MAX = 8,  /* addresses of one server */
    MEMBER_HOST_MAX = 254, /* size of a host's name, with NUL */
    MEMBER_LINE_MAX = 1024 /* size of the whole text, with NUL */
};

struct member_host {
    struct slice host;
    uint16_t port;          /* port for other servers */
    uint16_t election_port; /* port for ZooKeeper's elections */
};

/* Borrows from the text. */
struct member_line {
    struct member_host hosts[MEMBER_HOSTS_MAX];
    size_t n_hosts; /* at least 1 */
    bool observer;  /* else a participant */
    bool has_client;
    struct slice client_host; /* "0.0.0.0" if only a port is given */
    uint16_t client_port;
};

/* 0; CONCLAVE_BAD_ARGUMENTS, or CONCLAVE_MARSHALLING_ERROR where ZooKeeper uses that; *ret_why is then a fixed text
 * that completes "the text ...". */
int member_line_parse(struct slice text, struct member_line *ret,
                      const char **ret_why) CONCLAVE_MUST_USE;

/* Appends the text in a canonical form, with this role. */
void member_line_print(const struct member_line *l, bool observer, struct buf *out);

/* Whether two servers share an address and port, other than of this machine alone or of all
 * interfaces. Names are compared as they are written. */
bool member_lines_clash(const struct member_line *a, const struct member_line *b);

#endif
