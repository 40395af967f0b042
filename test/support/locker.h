/*
 * A client with one lock, and a record of its callbacks' calls; shared by the tests of locks
 * and semaphores, in addition to candidate.h. The record lists the turns: two of them must not
 * overlap, and their tokens must grow.
 */
#ifndef SUPPORT_LOCKER_H
#define SUPPORT_LOCKER_H

#include "support/candidate.h"

#include <conclave/lock.h>

#define LOCK_PATH "/app/lock"

enum { TURNS_MAX = 1200, UNTOLD = -9999 };

struct locker {
    const char *name;
    struct fake_zk *zk;
    int endpoint;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_lock *lock;
    bool shares; /* client and recipes belong to another locker */

    pthread_mutex_t mutex; /* guards the members below */
    int lost;
    int lost_why;
    int64_t stop_within_ms;
    int revokes;
    int closed;
    bool after_end;   /* a callback came after on_closed: must stay false */
    int answers;      /* of asynchronous acquires */
    int answer;       /* the last one, UNTOLD at first */
    int64_t token;    /* with it */
    int releases;     /* answers of asynchronous releases */
    bool release_in;  /* acquired and released inside the callbacks */
    int inside_error; /* of a blocking call inside a callback */
};

/* Several connect to endpoint 0 to 3; servers NULL: the endpoint's address. */
void locker_connect_to(struct locker *l, struct fake_zk *zk, int endpoint, const char *name,
                       const char *servers, int64_t session_ms);
void locker_connect(struct locker *l, struct fake_zk *zk, int endpoint, const char *name);

/* Another handle on the same client and recipes. */
void locker_share(struct locker *l, const struct locker *with, const char *name);

struct conclave_lock_options locker_options(const char *name);
void locker_create_with(struct locker *l, const struct conclave_lock_options *options);
void locker_create(struct locker *l);

/* connect and create; the client is connected when it returns. */
void locker_open(struct locker *l, struct fake_zk *zk, int endpoint, const char *name);
void locker_open_kind(struct locker *l, struct fake_zk *zk, int endpoint, const char *name,
                      enum conclave_lock_kind kind);

/* Closes the lock, checks what must always hold, and ends the client. */
void locker_close(struct locker *l);
void locker_finish(struct locker *l);

int locker_get(struct locker *l, const int *field);
#define LOST(l) locker_get((l), &(l)->lost)
#define ANSWER(l) locker_get((l), &(l)->answer)
#define ANSWERS(l) locker_get((l), &(l)->answers)
#define HELD(l) conclave_lock_is_held((l)->lock)

/* Acquires without waiting, as owner 1, and releases. */
void locker_ask(struct locker *l, int64_t timeout_ms);
void locker_let_go(struct locker *l);

/* Its node's path; false: it has none. */
bool locker_node(struct locker *l, char *buf, size_t len);
int64_t locker_session(struct locker *l);
bool locker_suspended(struct locker *l); /* it has noticed that its link is lost */

/* Waits until its node exists and no request is pending. */
void locker_settled(struct locker *l);

/* Waits until the path has no children. */
void all_gone(struct fake_zk *zk, const char *path);

#endif
