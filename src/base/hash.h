/*
 * A hash for keys that clients choose: SipHash-1-3 (Aumasson and Bernstein, 2012) with a key that they do not know, so
 * that no client can fill one bucket of a table. Limits: not a signature. The value differs in each process, so nothing
 * that leaves the process may depend on it, or on the order of a table. For values that are compared or stored use
 * hash_bytes.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t words[2]; /* random */
};

/* For tests and benchmarks: runs are repeatable, and all keys are trusted. */
extern const struct hash_key hash_key_fixed;

uint64_t hash_keyed(const struct hash_key *key, const void *data, size_t len);

/* The same hash for bytes that come in pieces. It can be read after each piece, so the hashes of all prefixes of a path
 * cost as much as the hash of the path. */
struct hash_stream {
    uint64_t v[4];
    uint64_t len;    /* bytes so far */
    uint8_t tail[8]; /* the last len % 8 bytes */
};

void hash_stream_begin(struct hash_stream *h, const struct hash_key *key);
void hash_stream_add(struct hash_stream *h, const void *data, size_t len);

/* hash_keyed of all bytes so far. */
uint64_t hash_stream_value(const struct hash_stream *h);

#endif
