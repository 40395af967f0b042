/*
 * The list of servers: which address to try next, and when. No I/O and no clock: the caller looks up names and provides
 * time and randomness.
 *
 * Servers are tried in random order, round robin; the server of a lost link comes last. The first round has no pauses.
 * After each round without success the pause grows from 50 ms to 1 s, or to a tenth of the session's timeout, so that a
 * lease survives a short failure. It has jitter, so that many clients do not return at the same time. Each round looks
 * a name up again; a slow or failed lookup does not delay the other servers.
 */
#ifndef CLIENT_CORE_HOSTS_H
#define CLIENT_CORE_HOSTS_H

#include "base/random.h"
#include "base/slice.h"

#include <conclave/error.h>

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HOSTS_DEFAULT_PORT = 2181,
    HOSTS_MAX = 64,      /* servers in a list */
    HOST_NAME_LEN = 255, /* bytes of a name */
    HOST_ADDRESSES = 8,  /* addresses used of one name */
};

union host_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

enum host_state {
    HOST_IDLE,   /* not tried in this round */
    HOST_LOOKUP, /* its name must be looked up */
    HOST_ASKED,  /* the caller has begun the lookup */
    HOST_READY,  /* has addresses to try */
    HOST_DONE,   /* tried in this round */
};

struct server_host {
    char name[HOST_NAME_LEN + 1];
    uint16_t port;
    bool numeric; /* addresses[0] never changes */
    enum host_state state;
    unsigned count; /* addresses */
    unsigned next;  /* first address not tried in this round */
    union host_address addresses[HOST_ADDRESSES];
};

struct hosts {
    struct server_host *list;
    size_t count;
    size_t cursor;         /* where the search for the next host begins */
    unsigned failures;     /* consecutive rounds without success */
    int64_t not_before_ns; /* pause until then; 0: no pause */
    int64_t pause_min_ms;
    int64_t pause_max_ms;
    int64_t connect_ms; /* of one attempt; 0: see hosts_connect_timeout_ms */
    struct slice bad;   /* after CONCLAVE_EINVAL: the part of the text that is malformed */
    struct prng prng;
};

/* Parses "host[:port],host[:port]...[/chroot]": names, IPv4, [IPv6]. *ret_chroot is "" or "/a/b"; free it. Shuffles the
 * order by seed. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM. */
int hosts_parse(struct hosts *h, const char *text, uint64_t seed,
                char **ret_chroot) CONCLAVE_MUST_USE;
/* The same in the order of the text: for callers that only read the list. */
int hosts_parse_in_order(struct hosts *h, const char *text, char **ret_chroot) CONCLAVE_MUST_USE;
/* Limits the pauses to suit this timeout; the default limit is 1 s. */
void hosts_for_session(struct hosts *h, int64_t session_timeout_ms);
void hosts_finish(struct hosts *h);

/* The entry for this server, or NULL. */
struct server_host *hosts_find(const struct hosts *h, const char *name, uint16_t port);

/* Replaces the list by that of `next`, which is empty afterwards, and keeps the settings. name: of the server that a
 * client uses now (NULL: none). True: the client should leave it, and the servers to try first are the first ones of
 * the list (see conclave_client_set_servers). */
bool hosts_replace(struct hosts *h, struct hosts *next, const char *name, uint16_t port);

enum hosts_step {
    HOSTS_CONNECT, /* try *ret_address of *ret_host */
    HOSTS_WAIT,    /* nothing to try before not_before_ns */
    HOSTS_LOOKUP,  /* nothing to try before a lookup ends */
};

/* What to do now. */
enum hosts_step hosts_next(struct hosts *h, int64_t now_ns, const struct server_host **ret_host,
                           const union host_address **ret_address);

/* A host whose name the caller must look up now, marked as begun; NULL: none. */
struct server_host *hosts_lookup_begin(struct hosts *h);

/* The end of a lookup: count addresses (0: it failed); this function sets their port. */
void hosts_lookup_end(struct hosts *h, struct server_host *host,
                      const union host_address *addresses, unsigned count);

/* The link, which was up for lived_ns, was lost. Begins a new round, at once unless the link lived only for a short
 * time. */
void hosts_lost(struct hosts *h, int64_t now_ns, int64_t lived_ns);

/* How long one attempt to connect may take, so that all servers can be tried within the session
 * timeout. */
int64_t hosts_connect_timeout_ms(const struct hosts *h, int64_t session_timeout_ms);

#endif
