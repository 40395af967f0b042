/*
 * The format of a snapshot, for snapshot.c and restore.c. Integers are big-endian.
 */
#ifndef STATE_SNAPSHOT_FORMAT_H
#define STATE_SNAPSHOT_FORMAT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct list;
struct state;
struct znode;

#define SNAPSHOT_MAGIC "CONCLAVE"
enum {
    SNAPSHOT_VERSION = 3,
    SNAPSHOT_VERSION_STANDALONE =
        1,                       /* sessions without owner, no origins; read but never written */
    SNAPSHOT_HEADER_LEN = 8 + 4, /* magic, version i32 */
    SNAPSHOT_BLOCK_HEAD = 8,     /* length of the records i64 */
    SNAPSHOT_BLOCK_TAIL = 8,     /* checksum i64 */
};
enum snapshot_record {
    SNAPSHOT_COUNTERS = 'C', /* zxid i64, next ACL number i32, time_ms i64 */
    SNAPSHOT_SESSION = 'S',  /* id i64, timeout_ms i32, passwd 16 bytes, owner i64 */
    SNAPSHOT_RESULTS = 'R',  /* for the session before it: see put_results in snapshot.c */
    SNAPSHOT_ORIGIN = 'O',   /* id i64, sequence i64; ids ascend */
    SNAPSHOT_MEMBER = 'M',   /* in the target boolean, id i64, role i32, address string */
    SNAPSHOT_CONFIG = 'K',   /* version i64, unpublished boolean, reconfig: zxid, origin, session_id
                                i64, cxid i32; after the members, once, if there are any */
    SNAPSHOT_LEAVING = 'L',  /* empty; after K, if the target's configuration.leaving is set */
    SNAPSHOT_MIRROR = 'W',   /* id i64, any_reader, synced boolean, source string */
    SNAPSHOT_ACL = 'A',      /* number i32, entries (vector of acl) */
    SNAPSHOT_NODE = 'N', /* path string, data buffer, ACL number i32, owner, czxid, mzxid, ctime,
                                mtime i64, version, aversion, cversion i32, pzxid i64 */
    SNAPSHOT_END = 'E',  /* records so far, i64: sessions, ACLs, nodes, others */
};
/* The checksum after the next block. */
uint64_t snapshot_chain(uint64_t chain, struct slice records);

/* --- restore.c: nodes on their way into a tree, also those of a foreign snapshot --- */

/* A node as a snapshot has it. */
struct node_image {
    struct slice path;
    struct slice data;
    uint32_t acl;
    int64_t owner;
    int64_t czxid;
    int64_t mzxid;
    int64_t ctime;
    int64_t mtime;
    int32_t version;
    int32_t aversion;
    int32_t cversion;
    int64_t pzxid;
};
/* Adds the node without counting a create at its parent, and refers to its ACL; not yet what node_image_stat sets, nor
 * the digest. `owned`: the list of its session's nodes, or NULL. NULL: out of memory. */
struct znode *node_image_add(struct state *s, struct znode *parent, const struct node_image *image,
                             struct list *owned);
/* Sets mzxid, mtime, the versions and pzxid. False: out of memory. */
bool node_image_stat(const struct node_image *image, struct znode *node);

#endif
