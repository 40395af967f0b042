/*
 * Reads a data folder and tells what is wrong in it, without changing a byte: marker, metadata, every frame of the log and
 * every snapshot, with their checksums. For operators' commands, also while a server uses the folder: what it removes or
 * writes meanwhile is no fault.
 *
 * Limit: one frame and one snapshot are in memory, or mapped, at a time.
 */
#ifndef REPLICATION_DISK_FOLDER_CHECK_H
#define REPLICATION_DISK_FOLDER_CHECK_H

#include "base/slice.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/metadata.h"

enum folder_fault_kind {
    FOLDER_FAULT_FOREIGN,  /* another program's, or a version that is not known */
    FOLDER_FAULT_IDENTITY, /* marker or metadata are damaged or missing */
    FOLDER_FAULT_LOG,
    FOLDER_FAULT_SNAPSHOT,
    FOLDER_FAULT_TORN,  /* no damage: the last write was never complete, and never acknowledged */
    FOLDER_FAULT_ASIDE, /* no damage: files that were put aside earlier (damage.h) */
    FOLDER_FAULT_IO,    /* a file cannot be read */
};

struct folder_fault {
    enum folder_fault_kind kind;
    const char *path;
    uint64_t offset; /* in the file; 0: its header, or the file as a whole */
    const char *what;
};

/* What the folder holds. */
struct folder_facts {
    bool fresh; /* there is no data yet, or no folder */
    struct marker marker;
    struct metadata metadata;
    uint64_t first_index; /* of the log's entries; 0: there are none */
    uint64_t last_index;
    uint64_t log_bytes;
    size_t segments;
    size_t snapshots;
    uint64_t newest_snapshot; /* its index; 0: none */
    uint64_t snapshot_bytes;  /* of all snapshots */
    uint64_t end_offset;      /* behind the last good frame of the last segment; 0: there is none */
};

/* A segment of the log, or a snapshot, with what it holds. */
struct folder_file {
    bool snapshot;
    bool damaged; /* faults of it were told before */
    const char *path;
    uint64_t bytes;
    uint64_t first_index; /* entries of a segment; 0: it has none */
    uint64_t last_index;  /* of a segment, or the last one that a snapshot contains */
    uint64_t first_term;
    uint64_t last_term;
    struct slice content; /* of a snapshot that is good; valid until the call returns */
};

/* What is told while the folder is read. */
struct folder_listener {
    void *ctx;
    void (*fault)(void *ctx, const struct folder_fault *fault);
    void (*file)(void *ctx, const struct folder_file *file); /* or NULL */
};

/* All files are read to their ends, and all faults are told. ops NULL: the system's files. 0 when everything was read that
 * could be, CONCLAVE_ENOMEM otherwise. *ret is always filled. */
int folder_check(const char *dir, const struct file_ops *ops, const struct folder_listener *told,
                 struct folder_facts *ret) CONCLAVE_MUST_USE;

/* The process that runs a server on the folder; 0: none, or it cannot be told. Takes no lock. */
long folder_check_owner(const char *dir);

#endif
