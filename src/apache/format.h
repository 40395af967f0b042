/* Numbers of Apache ZooKeeper's files. Source: FileSnap, FileTxnLog, SnapStream. */
#ifndef APACHE_FORMAT_H
#define APACHE_FORMAT_H

#define APACHE_SNAPSHOT_MAGIC 0x5a4b534e /* ZKSN */
#define APACHE_LOG_MAGIC 0x5a4b4c47      /* ZKLG */
enum { APACHE_FORMAT_VERSION = 2, APACHE_ENTRY_END = 'B' };
#define APACHE_SNAPSHOT_PREFIX "snapshot."
#define APACHE_LOG_PREFIX "log."
#define APACHE_VERSION_FOLDER "version-2"
#define APACHE_EPOCH_FILE "currentEpoch" /* decimal */

#endif
