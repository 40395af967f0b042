#include "base/hash.h"

#include "base/endian.h"

#include <string.h>

const struct hash_key hash_key_fixed = {{1, 2}};

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* The last bytes, fewer than eight, and the low byte of the length on top. */
static inline uint64_t last_word(const uint8_t *p, size_t len)
{
    uint64_t word = (uint64_t)len << 56;
    switch (len & 7) {
    case 7:
        word |= (uint64_t)p[6] << 48; /* fallthrough */
    case 6:
        word |= (uint64_t)p[5] << 40; /* fallthrough */
    case 5:
        word |= (uint64_t)p[4] << 32; /* fallthrough */
    case 4:
        return word | get_le32(p);
    case 3:
        word |= (uint64_t)p[2] << 16; /* fallthrough */
    case 2:
        word |= (uint64_t)p[1] << 8; /* fallthrough */
    case 1:
        word |= p[0]; /* fallthrough */
    default:
        return word;
    }
}

static inline void sip_begin(uint64_t v[4], const struct hash_key *key)
{
    v[0] = key->words[0] ^ 0x736f6d6570736575u; /* "somepseudorandomlygeneratedbytes" */
    v[1] = key->words[1] ^ 0x646f72616e646f6du;
    v[2] = key->words[0] ^ 0x6c7967656e657261u;
    v[3] = key->words[1] ^ 0x7465646279746573u;
}

static inline uint64_t sip_end(uint64_t v[4], uint64_t last)
{
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t hash_keyed(const struct hash_key *key, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t v[4];
    sip_begin(v, key);
    for (size_t left = len; left >= 8; left -= 8, p += 8) {
        sip_word(v, get_le64(p));
    }
    return sip_end(v, last_word(p, len));
}

void hash_stream_begin(struct hash_stream *h, const struct hash_key *key)
{
    sip_begin(h->v, key);
    h->len = 0;
}

void hash_stream_add(struct hash_stream *h, const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t used = h->len & 7;
    h->len += len;
    if (used + len >= 8 && used > 0) {
        memcpy(h->tail + used, p, 8 - used);
        sip_word(h->v, get_le64(h->tail));
        p += 8 - used;
        len -= 8 - used;
        used = 0;
    }
    for (; used + len >= 8; len -= 8, p += 8) {
        sip_word(h->v, get_le64(p));
    }
    if (len > 0) {
        memcpy(h->tail + used, p, len);
    }
}

uint64_t hash_stream_value(const struct hash_stream *h)
{
    uint64_t v[4] = {h->v[0], h->v[1], h->v[2], h->v[3]};
    return sip_end(v, last_word(h->tail, h->len));
}
