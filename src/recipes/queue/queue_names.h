/*
 * Names of a queue's items: how they are made, read and ordered. Pure.
 *
 * "<priority>-<guid>-q_<sequence>": the priority has three digits, the sequence number is the
 * server's. Everything else below the queue is foreign and ignored. Smaller priorities come
 * first; within one the sequence number decides, on the circle of 2^32 numbers (contender_names.h).
 */
#ifndef RECIPES_QUEUE_QUEUE_NAMES_H
#define RECIPES_QUEUE_QUEUE_NAMES_H

#include "recipes/engine/contender_names.h"

struct queue_name {
    const char *name; /* borrowed */
    int priority;
    int32_t sequence;
};

/* Writes a fresh prefix ("500-<guid>-q_"), of at least NAME_PREFIX_MAX bytes. */
void queue_name_make_prefix(int priority, char *buf);

/* Whether name is an item's, and what it says. name is borrowed. */
bool queue_name_parse(const char *name, struct queue_name *ret);

/* The items among children in the order in which they are to be taken; names borrowed. 0 and *ret
 * (free with free), CONCLAVE_ENOMEM. */
int queue_names_order(const char *const *children, size_t count, struct queue_name **ret,
                      size_t *ret_count) CONCLAVE_MUST_USE;

#endif
