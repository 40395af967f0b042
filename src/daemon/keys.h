/*
 * The table of all keys of zoo.cfg (from Apache ZooKeeper 3.9: QuorumPeerConfig and the administrator's guide). A row
 * says what its key sets, or why the key has no effect.
 */
#ifndef DAEMON_KEYS_H
#define DAEMON_KEYS_H

#include "daemon/zoo_cfg.h"

enum key_kind {
    KEY_INT,     /* a number from min to max, times scale, into `size` bytes at offset */
    KEY_BOOL,    /* true/false/yes/no, into a bool at offset; min == 1: the value is inverted */
    KEY_TEXT,    /* copied to the char * at offset, which zoo_cfg.c frees */
    KEY_PATH,    /* the same, for the path of a file: it must not be empty */
    KEY_SPECIAL, /* the function `set` reads the value */
    KEY_IDLE,    /* no effect: text says why */
    KEY_REFUSED, /* an error, unless the value is in `harmless`; text says what to do */
};

/* When another value takes effect. */
enum key_effect {
    KEY_AT_START, /* at the next start */
    KEY_LIVE,     /* with the next reload: config_reload.h */
};

struct key_row {
    const char *name; /* a final * matches any rest */
    enum key_kind kind;
    enum key_effect effect;
    size_t offset; /* in struct zoo_cfg */
    size_t size;   /* of the field: 1, 2, 4 or 8 */
    int64_t min;
    int64_t max;
    int64_t scale;
    int (*set)(struct zoo_cfg *c, const char *key, const char *value, const char *where);
    const char *harmless; /* KEY_REFUSED: values that change nothing, separated by '|', or NULL */
    const char *text;     /* for --help, or the reason */
};

extern const struct key_row key_table[];
extern const size_t key_table_count;

/* The key without the prefix "zookeeper.": as in QuorumPeerConfig, the name of the same system property. */
const char *key_plain_name(const char *key);

/* The row for a key; exact names come before patterns. NULL: unknown key. */
const struct key_row *key_find(const char *key);

#endif
