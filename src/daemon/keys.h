/*
 * The table of all keys of zoo.cfg (Apache ZooKeeper 3.9: QuorumPeerConfig and the administrator's
 * guide): what a key sets, or what is said about it.
 */
#ifndef DAEMON_KEYS_H
#define DAEMON_KEYS_H

#include "daemon/zoo_cfg.h"

enum key_kind {
    KEY_INT,     /* a number from min to max, times scale, into `size` bytes at offset */
    KEY_BOOL,    /* true/false/yes/no, into a bool at offset; min == 1: the value is turned round */
    KEY_TEXT,    /* kept as it is in the char * at offset, which zoo_cfg.c frees */
    KEY_SPECIAL, /* set does it */
    KEY_IDLE,    /* no effect: text says why */
    KEY_REFUSED, /* an error unless the value is one of `harmless`: text says what to do */
};

struct key_row {
    const char *name; /* a final * stands for any rest */
    enum key_kind kind;
    size_t offset; /* in struct zoo_cfg */
    size_t size;   /* of the field: 1, 2, 4 or 8 */
    int64_t min;
    int64_t max;
    int64_t scale;
    int (*set)(struct zoo_cfg *c, const char *key, const char *value, const char *where);
    const char *harmless; /* KEY_REFUSED: values that ask for nothing, divided by '|', or NULL */
    const char *text;     /* for --help, or the reason */
};

extern const struct key_row key_table[];
extern const size_t key_table_count;

/* The row for a key, exact names first; NULL for a key that nobody knows. */
const struct key_row *key_find(const char *key);

#endif
