/*
 * The members of an ensemble as a configuration entry holds them, in libraft's encoding (format 1):
 *   version u8 = 1, count u64, then for each {id u64, address with its NUL, role u8}, zeroes up to
 *   a multiple of eight; little-endian.
 * Decoding here checks every length: libraft's own decoder reads past the end of short input and asserts that no id is
 * 0. So libraft may get only what passed here.
 */
#ifndef REPLICATION_DISK_CONFIGURATION_H
#define REPLICATION_DISK_CONFIGURATION_H

#include "base/buf.h"
#include "base/slice.h"

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMBERS_MAX 255u
#define MEMBER_ADDRESS_MAX 1024u /* bytes, without the NUL */

/* libraft's numbers. */
enum configuration_role {
    MEMBER_OBSERVER = 0, /* receives the log, has no vote */
    MEMBER_VOTER = 1,
    MEMBER_SPARE = 2, /* receives nothing */
};

struct configuration_member {
    uint64_t id; /* not 0 */
    enum configuration_role role;
    const char *address; /* not empty; no two members have the same */
};

/* Appends the encoding, ordered by ids (libraft keeps its progress by position, so the same members must always have
 * the same order). 0, CONCLAVE_ENOMEM, or CONCLAVE_EINVAL: no voter, a duplicate id or address, or out of range. */
int configuration_encode(const struct configuration_member *members, size_t n,
                         struct buf *out) CONCLAVE_MUST_USE;

/* Decodes up to MEMBERS_MAX members; their addresses are borrowed from bytes. 0 or CONCLAVE_ECORRUPT, also for a
 * configuration without a voter. */
int configuration_decode(struct slice bytes, struct configuration_member ret[MEMBERS_MAX],
                         size_t *ret_n) CONCLAVE_MUST_USE;

/* NULL: no such member. */
const struct configuration_member *configuration_find(const struct configuration_member *members,
                                                      size_t n, uint64_t id);

size_t configuration_voters(const struct configuration_member *members, size_t n);

/* The number of members that are only in one of the two, or differ in role or address; in any order. */
size_t configuration_differences(const struct configuration_member *a, size_t n_a,
                                 const struct configuration_member *b, size_t n_b);

static inline bool configuration_equal(const struct configuration_member *a, size_t n_a,
                                       const struct configuration_member *b, size_t n_b)
{
    return configuration_differences(a, n_a, b, n_b) == 0;
}

#endif
