/* Numbers of Apache ZooKeeper's files. Source: FileSnap, FileTxnLog, SnapStream. */
#ifndef APACHE_FORMAT_H
#define APACHE_FORMAT_H

#include "tree/acl.h"

#define APACHE_SNAPSHOT_MAGIC 0x5a4b534e /* ZKSN */
#define APACHE_LOG_MAGIC 0x5a4b4c47      /* ZKLG */
enum { APACHE_FORMAT_VERSION = 2, APACHE_ENTRY_END = 'B' };
#define APACHE_SNAPSHOT_PREFIX "snapshot."
#define APACHE_LOG_PREFIX "log."
#define APACHE_VERSION_FOLDER "version-2"
#define APACHE_EPOCH_FILE "currentEpoch" /* decimal */

/* Apache numbers its lists of permissions from 1, and calls the open one -1. */
static inline int64_t apache_acl_number(uint32_t id)
{
    return id == ACL_OPEN ? -1 : (int64_t)id;
}

#endif
