/*
 * Limits how often each subject (an address, a name) may do something: a burst at once, then a number per second. A
 * keyed hash of the subject selects a slot in each of two rows; a subject is over the rate when both of its slots are.
 * So the memory is fixed, taken when the first event is counted, and no entry has to expire. Limit: with thousands of
 * offenders at the same time another subject may be taken for one of them. Reads no clock.
 */
#ifndef BASE_RATES_H
#define BASE_RATES_H

#include "base/hash.h"

#include <stdbool.h>

enum {
    RATES_ROWS = 2,
    RATES_SLOTS = 2048, /* per row */
};

struct rates {
    struct hash_key key;
    /* Per row and slot: the time from which on the events so far are within the rate. NULL: no event yet. */
    int64_t (*busy_until_ns)[RATES_SLOTS];
};

/* The key decides which subjects share slots: clients must not know it. */
void rates_init(struct rates *r, const struct hash_key *key);
void rates_finish(struct rates *r);

/* Whether `who` is within `burst` at once and `per_second`; if so, counts one event. False also if memory is out. */
bool rates_take(struct rates *r, const char *who, int64_t per_second, int64_t burst,
                int64_t now_ns);

/* The same without counting. */
bool rates_allow(const struct rates *r, const char *who, int64_t per_second, int64_t burst,
                 int64_t now_ns);

#endif
