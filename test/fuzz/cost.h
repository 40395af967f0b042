/*
 * What an input may cost. Every fuzzer gives fuzz_input and fuzz_bound; cost.c holds libFuzzer's entry, measures the CPU
 * time of the thread and the bytes allocated while fuzz_input runs, and aborts with a message when an input passes the
 * bound: cost that grows faster than the input is a fault like a crash.
 *
 * The bound is a constant plus a factor for each byte. The bytes of the input count, and the bytes that the fuzzer makes
 * of it (cost_stands_for), as a program of few bytes may make long requests. The factors hold for a build with
 * AddressSanitizer, which is about ten times slower than a plain one.
 *
 * Limits: allocations of shared libraries are not counted; CPU time of other threads is not either.
 */
#ifndef FUZZ_COST_H
#define FUZZ_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cost_bound {
    int64_t cpu_us; /* for any input */
    int64_t cpu_ns_per_byte;
    int64_t alloc_bytes; /* for any input */
    int64_t alloc_per_byte;
};

/* Each fuzzer defines these two. The same input must cost about the same each time. */
extern const struct cost_bound fuzz_bound;
void fuzz_input(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Counts `bytes` more than the input has. */
void cost_stands_for(size_t bytes);

/* The fuzzer's own checks in between do not count. Pauses do not nest. */
void cost_pause(void);
void cost_resume(void);

/* Like assert, but also in a build without asserts. */
void must(bool holds);

#endif
