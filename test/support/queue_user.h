/* Shared parts of the queue's tests: a client with one queue handle, and short functions to put, take
 * and look at the tree. */
#ifndef SUPPORT_QUEUE_USER_H
#define SUPPORT_QUEUE_USER_H

#include "recipes/queue/queue.h"
#include "support/candidate.h"

#define QUEUE_PATH "/app/queue"
#define CLAIMS_PATH QUEUE_PATH ".claims"
#define DEAD_PATH QUEUE_PATH ".dead"
#define LINE_PATH QUEUE_PATH ".line"
#define PUTS_PATH QUEUE_PATH ".puts"

struct queue_user {
    struct candidate link; /* client and runtime; no election */
    struct conclave_queue *queue;
    pthread_mutex_t lock; /* guards the members below */
    int lost;
    int closed;
    _Atomic int64_t size; /* last reported, -1: none */
    int sizes;            /* number of reports */
    unsigned after_end;
};

/* Makes the permanent nodes, so that the first write is that of the put. */
void queue_make(struct fake_zk *zk);

struct conclave_queue_options queue_options(void);

/* servers NULL: the endpoint's address. */
void queue_user_open(struct queue_user *u, struct fake_zk *zk, int endpoint,
                     const struct conclave_queue_options *options);
void queue_user_open_for(struct queue_user *u, struct fake_zk *zk, int endpoint,
                         const struct conclave_queue_options *options, int64_t session_ms);
/* Another handle on the same client; do not finish its link. */
void queue_user_share(struct queue_user *u, const struct queue_user *with,
                      const struct conclave_queue_options *options);
/* queue_make, then a user at endpoint 0 with the usual options. */
void queue_user_begin(struct queue_user *u, struct fake_zk *zk);
void queue_user_close(struct queue_user *u); /* the handle */
void queue_user_finish(struct queue_user *u);

int queue_user_get(struct queue_user *u, const int *field);

void put_text(struct queue_user *u, int priority, const char *text);
struct conclave_item *take_one(struct queue_user *u);
/* Acknowledges it, or gives it back, and frees it. */
void ack_one(struct conclave_item *item);
void nack_one(struct conclave_item *item);
/* Takes an item, checks its text, acknowledges it. */
void take_text(struct queue_user *u, const char *text);
bool item_is(const struct conclave_item *item, const char *text);
size_t items_in(struct fake_zk *zk, const char *path);

#endif
