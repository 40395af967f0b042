#include "base/random.h"

#include "base/hex.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *data, size_t len)
{
    uint8_t *p = data;
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            perror("conclave: getrandom failed: cannot continue safely");
            abort();
        }
        p += n;
        len -= (size_t)n;
    }
}

void random_text(char *ret, size_t bytes)
{
    uint8_t data[RANDOM_TEXT_BYTES];
    assert(bytes <= sizeof data);
    random_bytes(data, bytes);
    hex_encode(data, bytes, ret);
}

uint64_t random_below(uint64_t bound)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t v;
    do {
        random_bytes(&v, sizeof v);
    } while (v >= limit);
    return v % bound;
}
