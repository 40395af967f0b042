#include "support/starve.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct starve {
    atomic_long to_go; /* allocations until one fails; negative: none will fail */
    atomic_bool armed;
    atomic_long live;
};

static _Thread_local struct starve *mine;

#ifdef STARVE_SANITIZED
#define BELOW(name) __interceptor_##name
#else
#define BELOW(name) __libc_##name
#endif

void *BELOW(malloc)(size_t size);
void *BELOW(calloc)(size_t count, size_t size);
void *BELOW(realloc)(void *block, size_t size);
void BELOW(free)(void *block);

/* --- which counter a block belongs to ----------------------------------------------------------------------
 *
 * A block counts for the thread that allocated it, whichever thread frees it. */

enum { SHARDS = 256, SHARD_MAX = 2048 };

struct shard {
    atomic_flag busy;
    unsigned count;
    struct {
        void *block;
        struct starve *owner;
        void *place; /* in the program, where it was allocated */
    } blocks[SHARD_MAX];
};

static struct shard shards[SHARDS];
static atomic_bool any; /* a counter exists: blocks may belong to it */

static struct shard *shard_lock(const void *block)
{
    struct shard *shard = &shards[((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15u >> 56];
    while (atomic_flag_test_and_set_explicit(&shard->busy, memory_order_acquire)) {}
    return shard;
}

static void shard_unlock(struct shard *shard)
{
    atomic_flag_clear_explicit(&shard->busy, memory_order_release);
}

static void own(void *block, struct starve *owner, void *place)
{
    if (block == NULL || owner == NULL) {
        return;
    }
    struct shard *shard = shard_lock(block);
    if (shard->count == SHARD_MAX) {
        abort();
    }
    shard->blocks[shard->count].block = block;
    shard->blocks[shard->count].place = place;
    shard->blocks[shard->count++].owner = owner;
    shard_unlock(shard);
    atomic_fetch_add(&owner->live, 1);
}

/* Call it before the block is freed: then another thread can get the block. */
static struct starve *disown(const void *block)
{
    struct starve *owner = NULL;
    if (block == NULL || !atomic_load_explicit(&any, memory_order_relaxed)) {
        return NULL;
    }
    struct shard *shard = shard_lock(block);
    for (unsigned i = shard->count; i > 0 && owner == NULL; i--) {
        if (shard->blocks[i - 1].block == block) {
            owner = shard->blocks[i - 1].owner;
            shard->blocks[i - 1] = shard->blocks[--shard->count];
        }
    }
    shard_unlock(shard);
    if (owner != NULL) {
        atomic_fetch_sub(&owner->live, 1);
    }
    return owner;
}

static bool refuse(void)
{
    bool refused =
        mine != NULL && atomic_load(&mine->armed) && atomic_fetch_sub(&mine->to_go, 1) == 0;
    if (refused) {
        if (getenv("CONCLAVE_ALLOCATION") != NULL) { /* a person searches for this allocation */
            struct starve *counter = mine;
            void *frames[32];
            mine = NULL;
            backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
            mine = counter;
        }
        errno = ENOMEM; /* as the C library's functions do */
    }
    return refused;
}

/* --- in place of the C library's: visible, so that its functions call these, too ------------- */

#pragma GCC visibility push(default)

void *malloc(size_t size)
{
    if (refuse()) {
        return NULL;
    }
    void *block = BELOW(malloc)(size);
    own(block, mine, __builtin_return_address(0));
    return block;
}

void *calloc(size_t count, size_t size)
{
    if (refuse()) {
        return NULL;
    }
    void *block = BELOW(calloc)(count, size);
    own(block, mine, __builtin_return_address(0));
    return block;
}

void *realloc(void *block, size_t size)
{
    if (refuse()) {
        return NULL;
    }
    struct starve *owner = disown(block);
    void *moved = BELOW(realloc)(block, size);
    if (moved == NULL && size > 0) {
        own(block, owner, __builtin_return_address(0));
    } else {
        own(moved,
            owner != NULL   ? owner
            : block == NULL ? mine
                            : NULL,
            __builtin_return_address(0));
    }
    return moved;
}

void free(void *block)
{
    (void)disown(block);
    BELOW(free)(block);
}

struct start {
    struct starve *counter;
    void *(*fn)(void *arg);
    void *arg;
};

static void *started(void *arg)
{
    struct start start = *(struct start *)arg;
    BELOW(free)(arg);
    mine = start.counter;
    return start.fn(start.arg);
}

/* The C library keeps a thread's stack and control block for the next thread: they do not count. */
int pthread_create(pthread_t *restrict ret, const pthread_attr_t *restrict attr,
                   void *(*fn)(void *), void *restrict arg)
{
    static int (*below)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    struct starve *counter = mine;
    if (below == NULL) {
        *(void **)&below = dlsym(RTLD_NEXT, "pthread_create");
    }
    if (counter == NULL) {
        return below(ret, attr, fn, arg);
    }
    struct start *start = BELOW(malloc)(sizeof *start);
    *start = (struct start){counter, fn, arg};
    mine = NULL;
    int rc = below(ret, attr, started, start);
    mine = counter;
    return rc;
}

#pragma GCC visibility pop

/* --- the counters ------------------------------------------------------------------------------- */

struct starve *starve_create(void)
{
    struct starve *s = BELOW(calloc)(1, sizeof *s);
    atomic_store(&any, true);
    return s;
}

void starve_destroy(struct starve *s)
{
    BELOW(free)(s);
}

void starve_enter(struct starve *s)
{
    mine = s;
}

void starve_leave(void)
{
    mine = NULL;
}

void starve_arm(struct starve *s, long n)
{
    atomic_store(&s->armed, false);
    atomic_store(&s->to_go, n);
    atomic_store(&s->armed, n >= 0);
}

bool starve_failed(const struct starve *s)
{
    return atomic_load(&s->armed) && atomic_load(&s->to_go) < 0;
}

long starve_live(const struct starve *s)
{
    return atomic_load(&s->live);
}

void starve_print_live(const struct starve *s)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        for (unsigned k = 0; k < shards[i].count; k++) {
            if (shards[i].blocks[k].owner == s) {
                backtrace_symbols_fd(&shards[i].blocks[k].place, 1, 2);
            }
        }
    }
}
