/* Random bytes: from the kernel for values that must not be guessed, from a seed for repeatable tests. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Fills data with bytes of the kernel's generator. Aborts if the kernel has none, because nothing else is safe. */
void random_bytes(void *data, size_t len);

/* Writes `bytes` random bytes as 2 * bytes hex digits and a null byte. bytes: at most RANDOM_TEXT_BYTES. */
enum { RANDOM_TEXT_BYTES = 64 };
void random_text(char *ret, size_t bytes);

/* A random number from 0 to bound - 1 (bound > 0), from the kernel's generator. */
uint64_t random_below(uint64_t bound);

/* Reproducible stream (splitmix64): the same seed gives the same numbers. Not for secrets. */
struct prng {
    uint64_t state;
};

static inline uint64_t prng_next(struct prng *p)
{
    uint64_t z = (p->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
