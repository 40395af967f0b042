/*
 * The bytes of an input as a program: a fuzzer takes its choices from them one after the other. Behind their end there are
 * zeroes, so every input is a whole program.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct input {
    const uint8_t *pos;
    const uint8_t *end;
};

struct input input_make(struct slice bytes);

bool input_ended(const struct input *in);

uint8_t take(struct input *in);

/* Big-endian. */
uint32_t take_u32(struct input *in);

/* A length of at most `max`, then as many bytes as there are of it; borrowed from the input. */
struct slice take_bytes(struct input *in, size_t max);

/* The same as a text without NUL inside, of the caller: free it. */
char *take_text(struct input *in, size_t max);

/* All that is left. */
struct slice take_rest(struct input *in);

/* A copy as a text, which ends at the first NUL: free it. */
char *text_of(struct slice bytes);

/* Calls the target that the first byte chooses with the bytes behind it. */
typedef void (*fuzz_target)(struct slice bytes);
void fuzz_choose(const fuzz_target *targets, size_t count, const uint8_t *data, size_t size);

#endif
