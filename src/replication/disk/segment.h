/* Segments and frames as bytes (see folder_format.h), and a window for reading a segment file. */
#ifndef REPLICATION_DISK_SEGMENT_H
#define REPLICATION_DISK_SEGMENT_H

#include "base/buf.h"
#include "replication/disk/file_ops.h"
#include "replication/disk/folder_format.h"

#include <stdbool.h>
#include <stdint.h>

struct segment_header {
    uint8_t cluster[FORMAT_CLUSTER_SIZE];
    uint32_t flags;       /* SEGMENT_RECYCLED */
    uint64_t sequence;    /* as in the file's name */
    uint64_t first_index; /* index of the next entry when the segment began */
    uint64_t salt; /* random, so that frames of the file's former content have a wrong checksum */
    uint64_t previous; /* checksum of the last frame before it; 0 in the very first segment */
    uint64_t size;     /* bytes of the file at that time */
    uint64_t checksum; /* of the header; set by encode and decode */
};

void segment_header_encode(struct segment_header *h, uint8_t out[SEGMENT_HEADER_SIZE]);
bool segment_header_decode(const uint8_t in[SEGMENT_HEADER_SIZE], struct segment_header *ret);

struct segment_frame {
    uint64_t checksum;
    uint64_t previous;
    uint64_t index;  /* of the first entry */
    uint32_t count;  /* entries; 0 for a seal */
    uint32_t length; /* bytes of the body */
    const uint8_t *body;
};

struct frame_entry {
    uint64_t term;
    uint32_t kind;
    uint32_t length;
    const uint8_t *payload; /* borrowed from the frame */
};

/* Builds a frame in b: begin, any number of adds, finish. Check buf_ok at the end. */
void frame_begin(struct buf *b);
void frame_add(struct buf *b, uint64_t term, uint32_t kind, struct slice payload);
uint64_t frame_finish(struct buf *b, uint64_t salt, uint64_t previous, uint64_t index,
                      uint32_t count);

/* The size that the frame at data claims to have, including the header; 0: it does not look like a frame. */
size_t frame_size(const uint8_t data[FRAME_HEADER_SIZE]);

/* Whether the frame header at data was written with this salt: a cheap check, sufficient to trust its length. Data from
 * clients cannot pass it. */
bool frame_header_check(const uint8_t data[FRAME_HEADER_SIZE], uint64_t salt);

/* Where a frame ends, and what it holds, as its header says. */
struct segment_place {
    size_t size;
    uint64_t index; /* of the first entry */
    uint32_t count;
};

/* False: there is no frame with this salt. */
bool frame_place(const uint8_t data[FRAME_HEADER_SIZE], uint64_t salt, struct segment_place *ret);

/* Whether len bytes are exactly one intact frame with this salt. */
bool frame_decode(const uint8_t *data, size_t len, uint64_t salt, struct segment_frame *ret);

/* Takes the next entry out of a body. 1: taken; 0: the end; -1: malformed. */
int frame_next(struct segment_frame *f, struct frame_entry *ret);

/* Reads a file in pieces, so that a large segment is never in memory as a whole. */
struct window {
    const struct file_ops *ops;
    int fd;
    uint64_t size;   /* of the file */
    uint64_t offset; /* of data[0] in the file */
    struct buf data;
};

void window_init(struct window *w, const struct file_ops *ops, int fd, uint64_t size);
void window_finish(struct window *w);

/* Makes [offset, offset + len) readable, which must be in the file. Valid until the next call. 0 or a negative
 * errno. */
int window_read(struct window *w, uint64_t offset, size_t len, const uint8_t **ret);

/* Moves *at, in steps of 8, to the next place where a frame header may begin, which has the magic; to the end of the
 * file if there is none. Much faster than a check of each place: most of a new segment is zeroes. 0 or a negative
 * errno. */
int window_find_frame(struct window *w, uint64_t *at);

#endif
