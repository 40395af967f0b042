/*
 * The data that a holder of the drill (drill_actor.c) shares with the test, in a file that both map. Times are
 * nanoseconds of the test's CLOCK_MONOTONIC, whatever clocks the holder has. drill_test.py reads the same layout.
 */
#ifndef SYSTEM_DRILL_PAGE_H
#define SYSTEM_DRILL_PAGE_H

#include <stdint.h>

enum { KINDS = 3, CLAIMS_MAX = 16384, GAPS_MAX = 16384 };

/* One term of one holder. */
struct claim {
    int64_t kind; /* index in the order election, lock, semaphore */
    int64_t token;
    int64_t first_ns;       /* first moment at which the library said that it holds */
    int64_t last_ns;        /* last such moment, as far as was asked */
    int64_t lease_until_ns; /* end of the lease, as last seen */
    int64_t granted_ns;     /* start of the callback, or return of the call; 0: not yet */
    int64_t told_ns;        /* start of the callback that ends it, or of the call; 0: not yet */
    int64_t within_ms;      /* with it: how long nobody else is granted */
    int64_t why;
};

/* The holder did not run from the one to the other. */
struct gap {
    int64_t from_ns;
    int64_t to_ns;
};

struct page {
    int64_t claims_count;
    int64_t gaps_count;
    int64_t now_ns; /* when the holder last looked */
    char server[64];
    struct claim claims[CLAIMS_MAX];
    struct gap gaps[GAPS_MAX];
};

#endif
