/*
 * Names of contenders' nodes: how they are made, read and ordered. Pure.
 *
 * A contender is a child whose name ends in the naming's marker and a sequence number exactly
 * as the server prints it ("%010d" of a signed 32-bit number, which is eleven characters for
 * the most negative ones). Everything else under the parent is foreign and ignored. Sequence
 * numbers wrap, so they are compared by serial arithmetic; where that cannot decide (equal
 * numbers, or numbers further apart than 2^30) the order is that of creation (czxid), which
 * the caller has to fetch.
 */
#ifndef RECIPES_ENGINE_CONTENDER_NAMES_H
#define RECIPES_ENGINE_CONTENDER_NAMES_H

#include <conclave/recipes.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NAME_PREFIX_MAX = 64, /* guid and marker, with the NUL */
    NAME_MAX_LEN = 96,    /* a contender's whole name, with the NUL */
    NAMES_SPAN = 1 << 30, /* numbers further apart than this are ordered by czxid */
    HAND_OVER_MARK_BYTES = 8,
    HAND_OVER_NAME_MAX = NAME_MAX_LEN + 32, /* of a request to hand over, with the NUL */
};

/* The kind of hold that a contender's name asks for; in elections and semaphores only NAME_PLAIN. */
enum name_kind {
    NAME_PLAIN, /* to be alone */
    NAME_READ,  /* to share with others that read */
    NAME_WRITE, /* to be alone, among readers */
};

/* One contender under a parent. */
struct line_entry {
    const char *name; /* borrowed from the list of children */
    int32_t sequence;
    enum name_kind kind;
    int32_t weight; /* permits that it asks for */
    int64_t czxid;  /* 0: not fetched */
    bool gone;      /* vanished between the list and the fetch */
};

/* The marker between guid and sequence ("n_"). Static. */
const char *name_marker(enum conclave_naming naming);

/* Whether the folder and its parents must not be containers: the other clients of this naming make them once, and not again
 * after the server took them away while they were empty. */
bool naming_needs_persistent(enum conclave_naming naming);

/* Writes a fresh random prefix ("<guid>-n_") to buf, of at least NAME_PREFIX_MAX bytes. Readers
 * and writers have no names in CONCLAVE_NAMING_CURATOR_LATCH and CONCLAVE_NAMING_PLAIN; in the latter the
 * prefix is a guid that is in no name. */
void name_make_prefix(enum conclave_naming naming, enum name_kind kind, char *buf);

/* Adds to such a prefix that the contender asks for several permits ("<guid>-w3-n_"); only in
 * CONCLAVE_NAMING_NATIVE. */
void name_add_weight(int32_t weight, char *prefix);
int32_t name_weight(const char *name);

/* Whether name is a contender's under this naming, and its sequence number. */
bool name_parse(enum conclave_naming naming, const char *name, int32_t *ret_sequence);

/* The same for locks, which have contenders of all kinds in one folder. */
bool name_parse_kind(enum conclave_naming naming, const char *name, int32_t *ret_sequence,
                     enum name_kind *ret_kind);

/* The number that digits are, exactly as the server prints one; false: they are not a number. */
bool sequence_parse(const char *digits, int32_t *ret_sequence);

/* a comes before b in a circle of 2^32 numbers. */
static inline bool sequence_before(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
}

/* The contenders among the children of an answer, unordered, names borrowed; kinds: readers and writers, too. 0 and
 * *ret (free with free), CONCLAVE_ENOMEM. */
int contenders_filter(enum conclave_naming naming, bool kinds, const struct conclave_reply *reply,
                      struct line_entry **ret, size_t *ret_count) CONCLAVE_MUST_USE;

/* Of a list that was sorted by them: whether sequence numbers alone do not order these: two are
 * equal, or they span more than NAMES_SPAN. */
bool contenders_need_czxid(const struct line_entry *list, size_t count);

/* Sorts, first come first. by_czxid: by czxid, those without one (gone) last. */
void contenders_sort(struct line_entry *list, size_t count, bool by_czxid);

/* An operator's request to hand over to a contender: a child beside it, of no naming, that carries the contender's name
 * and a random mark. */
void hand_over_name(const char *to, char buf[HAND_OVER_NAME_MAX]);

/* Whether a child is such a request, and of which contender. */
bool hand_over_parse(const char *name, char ret_to[NAME_MAX_LEN]);

/* The contender that the children's requests name, "" without one. Of several (there is one at a time) always the same. */
void hand_over_find(const struct conclave_reply *reply, char ret_to[NAME_MAX_LEN]);

/* Position of a name, or count when it is not there. */
size_t contenders_find(const struct line_entry *list, size_t count, const char *name);

#endif
