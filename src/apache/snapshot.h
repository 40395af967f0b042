/* One snapshot of Apache ZooKeeper: snapshot.ZXID, with .gz or .snappy when it is compressed. Versions 3.4 to 3.9. */
#ifndef APACHE_SNAPSHOT_H
#define APACHE_SNAPSHOT_H

#include "apache/snapshot_records.h"

/* What Apache notes behind the nodes, since 3.6 and 3.9. */
struct apache_snapshot_end {
    bool has_digest;
    struct wire_file_digest digest;
    bool has_zxid;
    int64_t zxid; /* last transaction that was applied when the snapshot was complete */
    uint64_t
        offset; /* where reading ended, before compression: behind the last byte, or at the damage */
};

/* Gives all that the file holds to the taker, and checks its checksums. zxid: from the file's name. 0, CONCLAVE_ENOMEM,
 * CONCLAVE_EIO or CONCLAVE_ECORRUPT with *ret_error, which the caller frees. */
int apache_snapshot_read(const char *file, int64_t zxid, const struct apache_snapshot_taker *to,
                         struct apache_snapshot_end *ret, char **ret_error) CONCLAVE_MUST_USE;

#endif
