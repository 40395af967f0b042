#include "base/rates.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PER_SECOND = 1000000000 };

void rates_init(struct rates *r, const struct hash_key *key)
{
    r->key = *key;
    r->busy_until_ns = NULL;
}

void rates_finish(struct rates *r)
{
    free(r->busy_until_ns);
    r->busy_until_ns = NULL;
}

static size_t rates_slot(uint64_t hash, int row)
{
    return (size_t)(hash >> (32 * row)) % RATES_SLOTS;
}

/* When the first of the two slots is free. */
static int64_t rates_busy_until(const struct rates *r, uint64_t hash)
{
    if (r->busy_until_ns == NULL) {
        return INT64_MIN / 2; /* no events yet */
    }
    int64_t a = r->busy_until_ns[0][rates_slot(hash, 0)];
    int64_t b = r->busy_until_ns[1][rates_slot(hash, 1)];
    return a < b ? a : b;
}

static bool rates_within(int64_t busy_until_ns, int64_t per_second, int64_t burst, int64_t now_ns)
{
    int64_t room_ns = (burst - 1) * (NS_PER_SECOND / per_second);
    return busy_until_ns - now_ns <= room_ns;
}

bool rates_allow(const struct rates *r, const char *who, int64_t per_second, int64_t burst,
                 int64_t now_ns)
{
    uint64_t hash = hash_keyed(&r->key, who, strlen(who));
    return rates_within(rates_busy_until(r, hash), per_second, burst, now_ns);
}

bool rates_take(struct rates *r, const char *who, int64_t per_second, int64_t burst, int64_t now_ns)
{
    uint64_t hash = hash_keyed(&r->key, who, strlen(who));
    if (!rates_within(rates_busy_until(r, hash), per_second, burst, now_ns)) {
        return false;
    }
    if (r->busy_until_ns == NULL) {
        r->busy_until_ns = calloc(RATES_ROWS, sizeof *r->busy_until_ns);
        if (r->busy_until_ns == NULL) {
            return false;
        }
    }
    for (int row = 0; row < RATES_ROWS; row++) {
        int64_t *busy = &r->busy_until_ns[row][rates_slot(hash, row)];
        *busy = (*busy > now_ns ? *busy : now_ns) + NS_PER_SECOND / per_second;
    }
    return true;
}
