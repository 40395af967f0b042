/*
 * A client with a cache whose events are applied to a copy of the tree, for the cache's tests. What no sequence of
 * events may do (a child without its parent, an older version, a call after the end) is noted in `broken`.
 */
#ifndef SUPPORT_CACHE_USER_H
#define SUPPORT_CACHE_USER_H

#include "support/candidate.h"

#include <conclave/cache.h>

enum { USER_NODES = 512 };

struct user_node {
    char path[128];
    char data[64];
    int64_t czxid, mzxid;
};

struct cache_user {
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_cache *cache;
    pthread_mutex_t lock; /* guards what follows */
    struct user_node nodes[USER_NODES];
    size_t count;
    char log[2048]; /* "+/a ~/a -/a" : created, changed, deleted */
    const char *broken;
    int64_t settled; /* zxid of the last on_settled */
    int settles, loads, statuses, closed;
    bool fresh;
    int error;
    void (*inside)(struct cache_user *u); /* in on_event */
};

/* Options of a cache of all below path. */
struct conclave_cache_options cache_user_options(const char *path);

/* Without checks: 0 or an error. options NULL: of "/app". */
int cache_user_open(struct cache_user *u, struct conclave_recipes *recipes,
                    const struct conclave_cache_options *options);
void cache_user_init(struct cache_user *u);

/* The same with a client of its own, not started yet, at these servers; session_ms 0: a long session. 0 or an error. */
int cache_user_connect(struct cache_user *u, const char *servers, int64_t session_ms,
                       const struct conclave_cache_options *options);

/* "/app=0 /app/a=3 /app/b=1 /app/b/c=2" on the server. */
void cache_user_tree(struct fake_zk *zk);

/* A client at the endpoint with a cache that has loaded, unless `later`. */
void cache_user_start(struct cache_user *u, struct fake_zk *zk, int endpoint,
                      const struct conclave_cache_options *options, bool later);
/* Closes all; fails the test when something was broken. */
void cache_user_finish(struct cache_user *u);

/* The nodes as "/a=1 /a/b=2", by path: by the events, by lookups, and as the server has them. 4096 bytes each. */
void cache_user_told(struct cache_user *u, char *buf);
void cache_user_looked(struct cache_user *u, const char *path, char *buf);
void cache_user_server(struct fake_zk *zk, const char *path, char *buf);

/* Whether the events, the lookups and the server agree. */
bool cache_user_agrees(struct cache_user *u, struct fake_zk *zk, const char *path);

bool cache_user_log_is(struct cache_user *u, const char *log);
void cache_user_log_clear(struct cache_user *u);
int cache_user_get(struct cache_user *u, const int *field);
struct conclave_cache_status cache_user_status(struct cache_user *u);

#endif
