/*
 * The inside of the fake ZooKeeper, shared by its two files: fake_zk.c (links, sessions, requests: the
 * serving thread) and fake_zk_control.c (commands and queries of tests). One lock guards all of
 * it. See fake_zk.h.
 */
#ifndef SUPPORT_FAKE_ZK_SERVER_H
#define SUPPORT_FAKE_ZK_SERVER_H

#include "base/buf.h"
#include "base/list.h"
#include "support/fake_zk.h"
#include "support/fake_zk_tree.h"

#include <pthread.h>

enum { FAKE_HOOKS_MAX = 64, FAKE_COUNTS = 128 };

/* The numbers are those of removeWatches, where 3 is all of them. */
enum fake_watch_kind {
    FAKE_WATCH_CHILD = 1,
    FAKE_WATCH_DATA = 2,
    FAKE_WATCH_PERSISTENT = 4,
    FAKE_WATCH_RECURSIVE = 5,
};

struct fake_watch {
    struct list link;
    enum fake_watch_kind kind;
    char path[]; /* NUL-terminated */
};

struct fake_session {
    struct list link;
    int64_t id;
    int64_t timeout_ms;
    int64_t heard_ms;
    struct conn *conn;
};

struct conn {
    struct list link;
    int fd;
    int endpoint;
    bool connected; /* handshake done */
    bool stalled;   /* requests are held: only pings are answered */
    bool ending;    /* close when all is written */
    bool cut;       /* close now */
    struct fake_session *session;
    struct buf in;
    struct buf out;
    struct buf held; /* frames */
    struct list watches;
};

struct endpoint {
    int listener;
    char address[32];
    enum fake_link link;
    int32_t hold; /* op that is held, 0: none */
    bool frozen;
    bool read_only;
    bool old;              /* does not know persistent watches */
    struct fake_tree view; /* while frozen */
    size_t counts[FAKE_COUNTS + 2];
};

struct fake_zk {
    pthread_t thread;
    pthread_mutex_t lock;
    int wake[2];
    bool stopping;
    bool refuse_auth;
    int64_t session_max_ms; /* 0: none */
    struct endpoint endpoints[FAKE_ENDPOINTS];
    struct fake_tree tree;
    struct list conns;
    struct list sessions;
    int64_t last_session;
    struct fake_hook hooks[FAKE_HOOKS_MAX];
    size_t hooks_count;
    size_t events;
};

/* Call these with the lock held. */
void fake_server_wake(struct fake_zk *zk); /* with or without the lock */
void fake_server_fire(struct fake_zk *zk, int type, const char *path);
void fake_server_expire(struct fake_zk *zk, struct fake_session *s);
void fake_server_thaw(struct endpoint *ep);
/* Serves the held requests of a link. */
void fake_server_resume(struct fake_zk *zk, struct conn *c);

#endif
