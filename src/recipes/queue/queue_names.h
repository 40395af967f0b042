/*
 * Names of a queue's items in all layouts: how they are made, read and ordered. Pure.
 *
 *   native            PPP-<guid>[|<id>|]-q_<sequence>, delayed: d<11 hex digits of ms>- in front
 *   plain             <any prefix><sequence>
 *   kazoo             entry-PPP-<sequence>
 *   Curator           queue-<sequence>, queue-|<id>|<sequence>
 *   Curator, priority queue-<0 or 1><8 hex digits><sequence>
 *   Curator, delay    queue-|<hex digits of ms>|<sequence>
 *
 * The sequence number is the server's. Everything else below the queue is foreign and ignored; so releases before the
 * delayed items ignore those. Smaller priorities come first; within one the sequence number decides, on the circle of
 * 2^32 numbers (contender_names.h). A dead letter has its item's name; if that is taken (a queue that was deleted numbers
 * its items from the beginning), "<guid>~" stands before it. Sources: Curator's DistributedQueue, DistributedPriorityQueue, DistributedDelayQueue
 * and DistributedIdQueue; kazoo's recipe/queue.py.
 */
#ifndef RECIPES_QUEUE_QUEUE_NAMES_H
#define RECIPES_QUEUE_QUEUE_NAMES_H

#include "recipes/engine/contender_names.h"

#include <conclave/queue.h>

/* How the items of a queue are named. */
struct queue_naming {
    enum conclave_queue_layout layout;
    const char *prefix; /* of the plain layout; NULL: all prefixes are read, "qn-" is written */
    bool dead;          /* names of dead letters are read */
};

struct queue_name {
    const char *name; /* borrowed, as the id */
    const char *id;   /* id_len bytes */
    size_t id_len;    /* 0: none */
    int priority;
    int32_t sequence;
    int64_t due_ms;   /* Unix time before which nobody may take it; 0: at once */
    int64_t order_ms; /* the first key of the order (queue_names_order) */
};

/* Of a new item. */
struct queue_label {
    int priority;
    int64_t due_ms;
    const char *id; /* NULL: none */
};

/* Writes the digits of a fresh guid and a NUL: NAME_PREFIX_MAX bytes are enough. */
void queue_guid(char *buf);

/* Whether the layout can say all that the label says. */
bool queue_label_valid(const struct queue_naming *naming, const struct queue_label *label);

/* Writes the name before its sequence number, of at most CONCLAVE_QUEUE_NAME_MAX bytes. */
void queue_name_make_prefix(const struct queue_naming *naming, const struct queue_label *label,
                            char *buf);

/* Another name for the dead letter of this item, which no other has. Free it with free; NULL: no memory. */
char *queue_name_make_dead(const char *item);

/* The item's name within a dead letter's. */
const char *queue_name_of_dead(const char *name);

/* Whether name is an item's, and what it says. name is borrowed. */
bool queue_name_parse(const struct queue_naming *naming, const char *name, struct queue_name *ret);

/* The items among children, names borrowed: first the *ret_due that may be taken at now_ms, in the order in which they are
 * to be taken, then the delayed ones by their time. 0 and *ret (free with free), CONCLAVE_ENOMEM. */
int queue_names_order(const struct queue_naming *naming, const char *const *children, size_t count,
                      int64_t now_ms, struct queue_name **ret, size_t *ret_count,
                      size_t *ret_due) CONCLAVE_MUST_USE;

#endif
