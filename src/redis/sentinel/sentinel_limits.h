/*
 * What the clients of the port use together, and those of each network (net_network_name): connections, unsent bytes and
 * subscriptions; and how often a network connects and asks. A bound of all that is exceeded is paid by the network that
 * uses the most. Keeps numbers only, and reads no clock.
 */
#ifndef REDIS_SENTINEL_SENTINEL_LIMITS_H
#define REDIS_SENTINEL_SENTINEL_LIMITS_H

#include "base/rates.h"
#include "net/address.h"

#include <stddef.h>

enum {
    SENTINEL_UNSENT_TOTAL = 16 * 1024 * 1024, /* bytes */
    SENTINEL_CHANNELS_TOTAL = 4096,           /* subscriptions */
    SENTINEL_NETWORKS = 1024,                 /* by the hash of their name */
};

/* What a network may do per second, and at once. */
struct sentinel_rate {
    int64_t per_second;
    int64_t burst;
};

struct sentinel_rates {
    struct sentinel_rate connects;
    struct sentinel_rate requests;
};

/* The usual ones: fifty clients of an address that all try again and again while no master is named stay below. */
#define SENTINEL_RATES ((struct sentinel_rates){.connects = {200, 2000}, .requests = {1000, 10000}})

struct sentinel_use {
    size_t clients;
    size_t unsent; /* bytes */
    size_t channels;
};

/* The bound of all clients that is exceeded. */
enum sentinel_excess { SENTINEL_EXCESS_NONE, SENTINEL_EXCESS_UNSENT, SENTINEL_EXCESS_CHANNELS };

struct sentinel_limits {
    struct hash_key key; /* because clients can choose among many addresses */
    struct sentinel_use networks[SENTINEL_NETWORKS];
    struct sentinel_use all;
    struct sentinel_rates most;
    struct rates connects;
    struct rates requests;
};

/* One client. */
struct sentinel_share {
    char name[NET_NETWORK_MAX];   /* of its network */
    struct sentinel_use *network; /* in sentinel_limits.networks */
    struct sentinel_use own;
};

void sentinel_limits_init(struct sentinel_limits *l, const struct sentinel_rates *rates);
void sentinel_limits_finish(struct sentinel_limits *l);

/* A client of this host begins, and ends. */
void sentinel_limits_join(struct sentinel_limits *l, struct sentinel_share *share,
                          const char *host);
void sentinel_limits_leave(struct sentinel_limits *l, struct sentinel_share *share);

/* What it uses now. */
void sentinel_limits_count(struct sentinel_limits *l, struct sentinel_share *share, size_t unsent,
                           size_t channels);

enum sentinel_excess sentinel_limits_excess(const struct sentinel_limits *l);

/* Whether `a` should rather end than `b` because of this excess. */
bool sentinel_limits_worse(const struct sentinel_share *a, const struct sentinel_share *b,
                           enum sentinel_excess excess);

/* Counts a connection of its network. False: there were too many. */
bool sentinel_limits_connects(struct sentinel_limits *l, const struct sentinel_share *share,
                              int64_t now_ns);

/* Whether its network may ask now; counts what it has asked. */
bool sentinel_limits_may_ask(const struct sentinel_limits *l, const struct sentinel_share *share,
                             int64_t now_ns);
void sentinel_limits_asked(struct sentinel_limits *l, const struct sentinel_share *share,
                           unsigned requests, int64_t now_ns);

#endif
