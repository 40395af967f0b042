/*
 * Accounts of bytes: the memory that the server keeps on behalf of an owner, by use. Accounts form a tree
 * (connection, address, total): a charge counts for its own account and for all above it, so that each level has a
 * limit of its own. The module only counts; the caller compares with a limit before it keeps anything.
 *
 * A block that comes and goes as a whole (a request, a watch) is charged and credited; for a buffer that
 * grows and shrinks the holder states its present size (account_hold). Do not mix both for one use.
 * Not counted: what the allocator adds.
 */
#ifndef BASE_ACCOUNT_H
#define BASE_ACCOUNT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

enum account_use {
    ACCOUNT_INPUT,    /* unfinished requests, and those that are not read on purpose */
    ACCOUNT_OUTPUT,   /* replies and events that the peer has not taken */
    ACCOUNT_IDS,      /* authenticated ids */
    ACCOUNT_REQUESTS, /* requests being worked on */
    ACCOUNT_WATCHES,  /* watches with their paths */
    ACCOUNT_NODES,    /* znodes: names, data, lists of permissions */
    ACCOUNT_SESSIONS, /* sessions */
    ACCOUNT_RESULTS,  /* answers that are remembered, so that no write is done twice */
    ACCOUNT_USES,
};

struct account {
    struct account *above;        /* which this one is a part of; NULL: none */
    size_t bytes[ACCOUNT_USES];   /* its own and those of all below */
    size_t charges[ACCOUNT_USES]; /* charged and not credited yet, likewise */
};

static inline void account_init(struct account *a, struct account *above)
{
    *a = (struct account){.above = above};
}

/* Nothing may be left in it. */
static inline void account_finish(const struct account *a)
{
    for (int use = 0; use < ACCOUNT_USES; use++) {
        assert(a->bytes[use] == 0 && a->charges[use] == 0);
    }
}

/* One more block. `a` may be NULL: nobody counts. */
static inline void account_charge(struct account *a, enum account_use use, size_t bytes)
{
    for (; a != NULL; a = a->above) {
        a->bytes[use] += bytes;
        a->charges[use]++;
    }
}

/* The block is gone. */
static inline void account_credit(struct account *a, enum account_use use, size_t bytes)
{
    for (; a != NULL; a = a->above) {
        assert(a->bytes[use] >= bytes && a->charges[use] > 0);
        a->bytes[use] -= bytes;
        a->charges[use]--;
    }
}

/* From now on the account itself keeps `bytes` for this use. No account may be below it. Takes NULL. */
static inline void account_hold(struct account *a, enum account_use use, size_t bytes)
{
    size_t before = a != NULL ? a->bytes[use] : bytes;
    if (before == bytes) {
        return;
    }
    for (; a != NULL; a = a->above) {
        assert(a->bytes[use] >= before);
        a->bytes[use] = a->bytes[use] - before + bytes;
    }
}

/* What a connection's buffers take: not what it asked the server to remember. */
static inline size_t account_buffers(const struct account *a)
{
    return a->bytes[ACCOUNT_INPUT] + a->bytes[ACCOUNT_OUTPUT] + a->bytes[ACCOUNT_IDS];
}

/* The bytes of the replicated state. */
static inline size_t account_state(const struct account *a)
{
    return a->bytes[ACCOUNT_NODES] + a->bytes[ACCOUNT_SESSIONS] + a->bytes[ACCOUNT_RESULTS];
}

#endif
