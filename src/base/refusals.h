/*
 * Limits the log lines about refused peers: per address and minute, the first refusal for each of a few reasons gets a
 * line, then one line counts the others when the minute is over. So refused peers cannot fill a disk, but no refusal
 * goes unnoticed.
 *
 * Limits: REFUSALS_REASONS reasons of an address per minute, REFUSALS_ADDRESSES addresses; beyond that the oldest
 * minute ends early. Has no clock and writes no line: the caller does.
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

/* The end of an address's minute: `untold` refusals had no line. Not called for 0. */
typedef void (*refusals_fn)(void *ctx, const char *host, unsigned long long untold);

void refusals_init(struct refusals *r);

/* Reports the refusals without a line to fn; fn may be NULL. */
void refusals_finish(struct refusals *r, refusals_fn fn, void *ctx);

/* Counts a refusal of host; returns whether to log it now. Calls fn if it ends another minute early. True if memory is
 * out. */
bool refusals_add(struct refusals *r, const char *host, const char *reason, int64_t now_ms,
                  refusals_fn fn, void *ctx);

/* Whether a minute of host is running. */
bool refusals_counts(const struct refusals *r, const char *host);

/* Ends the minutes that are over. */
void refusals_tick(struct refusals *r, int64_t now_ms, refusals_fn fn, void *ctx);

/* When the next minute ends; INT64_MAX: none is running. */
int64_t refusals_deadline(const struct refusals *r);

#endif
