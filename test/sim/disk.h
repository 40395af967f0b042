/*
 * A server's disk in memory. What is written can be read at once; what a power cut leaves is, of each
 * file, the synced bytes and any choice of the 512-byte sectors written since, and of each folder, the
 * synced names and the first few changes since. A killed process loses nothing that it wrote, but may
 * have stopped in the middle of a write.
 *
 * Limit: one folder's changes are kept or lost in their order, as a journal does it.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include "base/random.h"
#include "replication/disk/file_ops.h"

struct disk;

/* Chance comes from a stream of its own, begun with seed. */
struct disk *disk_create(uint64_t seed);
void disk_destroy(struct disk *d);
const struct file_ops *disk_ops(struct disk *d);

/* The process is ending: after so many more calls that change something every call fails; the last
 * of them may be carried out in part. 0: from now on. */
void disk_stop(struct disk *d, uint64_t after_calls);

/* The process is gone, all handles are closed: the disk can be used again. */
void disk_restart(struct disk *d, bool power_cut);

/* The nth call from now that changes something fails once with EIO. */
void disk_fail(struct disk *d, uint64_t nth);

/* No room for anything new until said otherwise. */
void disk_set_full(struct disk *d, bool full);

/* Syncs report success and do nothing: to show that this is noticed. */
void disk_set_lying(struct disk *d, bool lying);

/* Everything is gone, as on a new disk. All handles must be closed. */
void disk_wipe(struct disk *d);

#endif
