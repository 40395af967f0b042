/* Encodes and decodes libraft's form of a configuration; allocates only the output. */
#include "replication/disk/configuration.h"

#include "base/endian.h"

#include <stdlib.h>
#include <string.h>

#define ENCODING_VERSION 1u

static bool usable(const struct configuration_member *m)
{
    size_t len = m->address == NULL ? 0 : strnlen(m->address, MEMBER_ADDRESS_MAX + 1);
    return m->id != 0 && len > 0 && len <= MEMBER_ADDRESS_MAX &&
           (m->role == MEMBER_OBSERVER || m->role == MEMBER_VOTER || m->role == MEMBER_SPARE);
}

/* Conditions for every configuration, encoded or decoded. */
static bool well_formed(const struct configuration_member *members, size_t n)
{
    if (n == 0 || n > MEMBERS_MAX || configuration_voters(members, n) == 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!usable(&members[i])) {
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            if (members[i].id == members[j].id ||
                strcmp(members[i].address, members[j].address) == 0) {
                return false;
            }
        }
    }
    return true;
}

static void append_le64(struct buf *out, uint64_t v)
{
    uint8_t bytes[8];
    put_le64(bytes, v);
    buf_append(out, bytes, sizeof bytes);
}

static int configuration_by_id(const void *a, const void *b)
{
    uint64_t x = (*(const struct configuration_member *const *)a)->id,
             y = (*(const struct configuration_member *const *)b)->id;
    return (x > y) - (x < y);
}

int configuration_encode(const struct configuration_member *members, size_t n, struct buf *out)
{
    const struct configuration_member *order[MEMBERS_MAX];
    if (n > MEMBERS_MAX || !well_formed(members, n)) {
        return CONCLAVE_EINVAL;
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = &members[i];
    }
    qsort(order, n, sizeof order[0], configuration_by_id);
    size_t start = out->len;
    buf_append_u8(out, ENCODING_VERSION);
    append_le64(out, n);
    for (size_t i = 0; i < n; i++) {
        append_le64(out, order[i]->id);
        buf_append(out, order[i]->address, strlen(order[i]->address) + 1);
        buf_append_u8(out, (uint8_t)order[i]->role);
    }
    while (buf_ok(out) && (out->len - start) % 8 != 0) {
        buf_append_u8(out, 0);
    }
    return buf_ok(out) ? 0 : CONCLAVE_ENOMEM;
}

int configuration_decode(struct slice bytes, struct configuration_member ret[MEMBERS_MAX],
                         size_t *ret_n)
{
    size_t at = 9;
    if (bytes.len < at || bytes.data[0] != ENCODING_VERSION) {
        return CONCLAVE_ECORRUPT;
    }
    uint64_t n = get_le64(bytes.data + 1);
    if (n > MEMBERS_MAX) {
        return CONCLAVE_ECORRUPT;
    }
    for (size_t i = 0; i < n; i++) {
        if (bytes.len - at < 8) {
            return CONCLAVE_ECORRUPT;
        }
        ret[i].id = get_le64(bytes.data + at);
        at += 8;
        const uint8_t *end = memchr(bytes.data + at, 0, bytes.len - at);
        if (end == NULL || end + 1 == bytes.data + bytes.len) {
            return CONCLAVE_ECORRUPT;
        }
        ret[i].address = (const char *)bytes.data + at;
        ret[i].role = (enum configuration_role)end[1];
        at = (size_t)(end + 2 - bytes.data);
    }
    if (bytes.len - at >= 8 || !well_formed(ret, n)) {
        return CONCLAVE_ECORRUPT;
    }
    *ret_n = n;
    return 0;
}

const struct configuration_member *configuration_find(const struct configuration_member *members,
                                                      size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++) {
        if (members[i].id == id) {
            return &members[i];
        }
    }
    return NULL;
}

size_t configuration_voters(const struct configuration_member *members, size_t n)
{
    size_t voters = 0;
    for (size_t i = 0; i < n; i++) {
        voters += members[i].role == MEMBER_VOTER;
    }
    return voters;
}

size_t configuration_differences(const struct configuration_member *a, size_t n_a,
                                 const struct configuration_member *b, size_t n_b)
{
    size_t differences = 0, common = 0;
    for (size_t i = 0; i < n_a; i++) {
        const struct configuration_member *other = configuration_find(b, n_b, a[i].id);
        common += other != NULL;
        differences +=
            other == NULL || other->role != a[i].role || strcmp(other->address, a[i].address) != 0;
    }
    return differences + (n_b - common);
}
