/*
 * How often peers that were refused are told of in the log: for each address the first refusal of a minute for each of
 * a few reasons, then one line with the count of the others when the minute is over. So nobody fills a disk by being
 * refused, and nobody is refused without a trace.
 *
 * Limits: REFUSALS_REASONS reasons of an address in a minute, REFUSALS_ADDRESSES addresses; of more the oldest minute is
 * ended early. Knows no clock and writes no line: the caller does.
 */
#ifndef BASE_REFUSALS_H
#define BASE_REFUSALS_H

#include "base/list.h"
#include "base/map.h"

enum {
    REFUSALS_MINUTE_MS = 60000,
    REFUSALS_REASONS = 8,
    REFUSALS_ADDRESSES = 1024,
};

struct refusals {
    struct map by_host;
    struct list minutes; /* the oldest first */
};

/* The end of an address's minute: `untold` refusals had no line. Not called when there are none. */
typedef void (*refusals_fn)(void *ctx, const char *host, unsigned long long untold);

void refusals_init(struct refusals *r);

/* What was not told is given to fn; fn may be NULL. */
void refusals_finish(struct refusals *r, refusals_fn fn, void *ctx);

/* One more refusal of host: whether it is to be told now. Calls fn when it ended somebody's minute early. True when
 * memory is out. */
bool refusals_add(struct refusals *r, const char *host, const char *reason, int64_t now_ms,
                  refusals_fn fn, void *ctx);

/* Ends the minutes that are over. */
void refusals_tick(struct refusals *r, int64_t now_ms, refusals_fn fn, void *ctx);

/* When the next minute is over, INT64_MAX: none is running. */
int64_t refusals_deadline(const struct refusals *r);

#endif
