#include "fuzz/cost.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A measurement above the bound counts only if it comes again: on a busy machine the caches are cold now and then. */
enum { REPEATS = 3 };

static struct {
    int64_t alloc_bytes;
    int64_t cpu_ns;
    int64_t started_ns;
    int64_t bytes;
    bool running;
} cost;

void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* --- counting ------------------------------------------------------------------------------------- */

/* The linker puts these in place of the allocator (--wrap), and names the allocator __real_. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static void count(size_t size)
{
    if (cost.running) {
        cost.alloc_bytes += (int64_t)size;
    }
}

void *__wrap_malloc(size_t size)
{
    count(size);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t items, size_t size)
{
    count(items * size);
    return __real_calloc(items, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    count(size);
    return __real_realloc(old, size);
}

static int64_t cpu_now_ns(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void cost_stands_for(size_t bytes)
{
    cost.bytes += (int64_t)bytes;
}

void cost_resume(void)
{
    cost.running = true;
    cost.started_ns = cpu_now_ns();
}

void cost_pause(void)
{
    cost.cpu_ns += cpu_now_ns() - cost.started_ns;
    cost.running = false;
}

/* --- the bound ------------------------------------------------------------------------------------ */

static int64_t allowed_ns(void)
{
    return fuzz_bound.cpu_us * 1000 + fuzz_bound.cpu_ns_per_byte * cost.bytes;
}

static int64_t allowed_alloc(void)
{
    return fuzz_bound.alloc_bytes + fuzz_bound.alloc_per_byte * cost.bytes;
}

static void measure(const uint8_t *data, size_t size)
{
    cost.alloc_bytes = 0;
    cost.cpu_ns = 0;
    cost.bytes = (int64_t)size;
    cost_resume();
    fuzz_input(data, size);
    cost_pause();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        measure(data, size);
        least_ns = cost.cpu_ns < least_ns ? cost.cpu_ns : least_ns;
        if (least_ns <= allowed_ns() && cost.alloc_bytes <= allowed_alloc()) {
            return 0;
        }
    }
    (void)fprintf(stderr,
                  "cost: an input of %zu bytes, counted as %" PRId64 ", took %" PRId64
                  " us of CPU time and allocated %" PRId64 " bytes; the bound is %" PRId64
                  " us and %" PRId64 " bytes\n",
                  size, cost.bytes, least_ns / 1000, cost.alloc_bytes, allowed_ns() / 1000,
                  allowed_alloc());
    abort();
}
