/*
 * How often each of many may do something: so many at once, then so many a second. Whoever they are
 * (addresses, names), they are known by a hash under a key, and what they did is kept in two rows of
 * slots; somebody is over the rate when both of his slots say so. So memory is fixed, taken when
 * the first is counted, and nothing has to be forgotten in time. Limit: with thousands of offenders at the same time somebody else is
 * taken for one of them. Knows no clock.
 */
#ifndef BASE_RATES_H
#define BASE_RATES_H

#include "base/hash.h"

#include <stdbool.h>

enum {
    RATES_ROWS = 2,
    RATES_SLOTS = 2048, /* in a row */
};

struct rates {
    struct hash_key key;
    int64_t (
        *busy_until_ns)[RATES_SLOTS]; /* rows: when what was done is done at the rate; or NULL */
};

/* The key decides who shares slots with whom: strangers must not know it. */
void rates_init(struct rates *r, const struct hash_key *key);
void rates_finish(struct rates *r);

/* Whether `who` keeps within `burst` at once and `per_second`; counts one if so. False also when memory is out. */
bool rates_take(struct rates *r, const char *who, int64_t per_second, int64_t burst,
                int64_t now_ns);

/* The same without counting. */
bool rates_allow(const struct rates *r, const char *who, int64_t per_second, int64_t burst,
                 int64_t now_ns);

#endif
