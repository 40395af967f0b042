/*
 * Fingerprints of the newest transactions in the logs of a folder: they show whether two folders are of one ensemble, because
 * within an ensemble a zxid belongs to one transaction only.
 *
 * Limit: the newest HISTORY_MAX transactions.
 */
#ifndef APACHE_HISTORY_H
#define APACHE_HISTORY_H

#include "state/adopt/outcome.h"

enum { HISTORY_MAX = 65536 };

struct history_entry {
    int64_t zxid;
    uint64_t print; /* not 0 */
};

/* Begins as {0}. */
struct apache_history {
    struct history_entry *entries; /* a ring when it is full */
    size_t count;
    size_t cap;
    size_t oldest;
};
void apache_history_finish(struct apache_history *h);

/* 0 or CONCLAVE_ENOMEM. */
int apache_history_add(struct apache_history *h, const struct outcome *o) CONCLAVE_MUST_USE;

/* The fingerprint of the transaction with this zxid; 0: it is not known here. */
uint64_t apache_history_find(const struct apache_history *h, int64_t zxid);

#endif
