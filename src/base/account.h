/*
 * Accounts of bytes: the memory that the server keeps for an owner, by use. Accounts form a tree (connection, address,
 * total): a charge counts in its own account and in all above it, so that each level has its own limit. This module
 * only counts; the caller compares with a limit before it keeps anything.
 *
 * A block that comes and goes as a whole (a request, a watch) is charged and credited. For a buffer that grows and
 * shrinks, the owner reports its current size (account_hold). Do not mix both for one use. The overhead of the
 * allocator does not count.
 */
#ifndef BASE_ACCOUNT_H
#define BASE_ACCOUNT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

enum account_use {
    ACCOUNT_INPUT,    /* unfinished requests, and input that is left unread on purpose */
    ACCOUNT_OUTPUT,   /* replies and events that the client has not read */
    ACCOUNT_IDS,      /* authenticated ids */
    ACCOUNT_REQUESTS, /* requests in progress */
    ACCOUNT_WATCHES,  /* watches with their paths */
    ACCOUNT_NODES,    /* znodes: names, data, lists of permissions */
    ACCOUNT_SESSIONS, /* sessions */
    ACCOUNT_RESULTS,  /* remembered answers, so that no write is done twice */
    ACCOUNT_USES,
};

struct account {
    struct account *above;        /* the account that includes this one; NULL: none */
    size_t bytes[ACCOUNT_USES];   /* its own bytes and those of all accounts below */
    size_t charges[ACCOUNT_USES]; /* number of charged blocks that are not credited, likewise */
};

static inline void account_init(struct account *a, struct account *above)
{
    *a = (struct account){.above = above};
}

/* The account must be empty. */
static inline void account_finish(const struct account *a)
{
    for (int use = 0; use < ACCOUNT_USES; use++) {
        assert(a->bytes[use] == 0 && a->charges[use] == 0);
    }
}

/* Counts one more block. `a` may be NULL: nothing is counted. */
static inline void account_charge(struct account *a, enum account_use use, size_t bytes)
{
    for (; a != NULL; a = a->above) {
        a->bytes[use] += bytes;
        a->charges[use]++;
    }
}

/* The block was freed. */
static inline void account_credit(struct account *a, enum account_use use, size_t bytes)
{
    for (; a != NULL; a = a->above) {
        assert(a->bytes[use] >= bytes && a->charges[use] > 0);
        a->bytes[use] -= bytes;
        a->charges[use]--;
    }
}

/* Sets the bytes that the account itself keeps for this use. No account may be below it. NULL does nothing. */
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

/* The bytes of a connection's buffers, without what it asked the server to store. */
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
