/*
 * The data folder, byte by byte. Integers are little-endian. To check a text file, its values are written again and
 * compared with the text, so that a single changed byte is noticed.
 *
 *   conclave.format          text: version, cluster id, server id, whether the first start is complete
 *   lock                     locked while a server runs; holds its process id
 *   metadata                 text: term, vote, first and last log segment, newest snapshot, the one
 *                            that is about to replace the log, and whether this server
 *                            is silent until a leader admits it (join.h)
 *   log/%016u.log            segments by sequence number
 *   log/spare-%u             prepared or emptied segments, ready to be renamed
 *   snapshot/%020u.snapshot  by the index of the last entry that they contain
 *   snapshot/incoming-%x-%u  the received part of another server's snapshot: its identity and size
 *   damaged-<time>/          damaged files that were put aside, under the same names
 *   healing                  text: while they are moved, until the following first start is complete;
 *                            their destination, and the cluster id
 *   members                  the members of the newest applied configuration (members_file.h)
 *   *.new                    unfinished, removed at the next start
 *
 * Text files are replaced as a whole: written under another name, synced, renamed, the folder synced.
 *
 * Segment: a header block of 512 bytes, frames, then unused bytes (zeroes, or the former content of a recycled segment,
 * whose frames have another salt and a wrong checksum).
 *     0  magic "CONCLSEG"
 *     8  version u32
 *    12  flags u32              1: recycled
 *    16  cluster id
 *    32  sequence u64           as in the file's name
 *    40  first index u64        index of the next entry when the segment was started
 *    48  salt u64               random
 *    56  previous u64           checksum of the last frame before this segment
 *    64  size u64               size of the file at that time; it never gets shorter
 *   504  checksum u64           over 0..503
 *
 * Frame: what one write and one sync put on the disk; a multiple of eight bytes long.
 *     0  checksum u64           hash_u64(salt ^ hash_bytes(the rest of the frame))
 *     8  magic u32
 *    12  length u32             of the body
 *    16  previous u64           checksum of the frame before it; of the header for the first
 *    24  index u64              of the first entry
 *    32  count u32              of entries
 *    36  header checksum u32    low half of hash_u64(salt ^ hash_bytes(8..35))
 *    40  body                   entries {term u64, length u32, kind u32, payload}, zeroes
 *
 * A frame without entries is a seal: written at a clean end, it proves that the log is complete. A frame whose index is
 * not greater than the last index cuts the log there before its own entries follow: to replace a suffix is one atomic
 * append, and nothing is ever deleted for it.
 *
 * A frame is written only after the previous one was synced. So a bad frame before a good one, or in any segment but
 * the last, is damage; only the very last frame may be torn, and it was never acknowledged.
 *
 * Snapshot: header, configuration, content, trailer.
 *     0  magic "CONCLSNP"
 *     8  version u32
 *    12  length u32             of the configuration
 *    16  cluster id
 *    32  index u64              of the last entry it contains
 *    40  term u64               of that entry
 *    48  configuration index u64
 *    56  zeroes
 *    88  checksum u64           hash_u64(hash_bytes(0..87) ^ hash_bytes(configuration))
 *    96  configuration, content
 *   +0   magic "CONCLEND"       the trailer
 *   +8   size u64               of the content
 *  +16   checksum u64           c = checksum of the header, then for each 256 KiB of content
 *                               c = hash_u64(c ^ hash_bytes(block))
 *  +24   checksum u64           over the trailer's first 24 bytes
 */
#ifndef REPLICATION_DISK_FOLDER_FORMAT_H
#define REPLICATION_DISK_FOLDER_FORMAT_H

#define FORMAT_VERSION 1u
#define FORMAT_CLUSTER_SIZE 16

#define SEGMENT_MAGIC "CONCLSEG"
#define SEGMENT_HEADER_SIZE 512u
#define SEGMENT_RECYCLED 1u

#define FRAME_MAGIC 0x4d524643u
#define FRAME_HEADER_SIZE 40u
#define ENTRY_HEADER_SIZE 16u
#define FRAME_BODY_MAX (1u << 30)

#define SNAPSHOT_MAGIC "CONCLSNP"
#define SNAPSHOT_END "CONCLEND"
#define SNAPSHOT_HEADER_SIZE 96u
#define SNAPSHOT_TRAILER_SIZE 32u
#define SNAPSHOT_BLOCK_SIZE (256u * 1024)

/* Kinds of entries, as stored on the disk. */
enum entry_kind {
    ENTRY_COMMAND = 1,       /* bytes of the state machine */
    ENTRY_BARRIER = 2,       /* empty; by committing it a leader proves its term */
    ENTRY_CONFIGURATION = 3, /* the members, as raft_configuration_encode writes them */
};

#endif
