/* The blocks of Java's SnappyOutputStream: a header of 16 bytes, then for each block its length and a raw snappy
 * buffer. Source: snappy-java's SnappyInputStream. */
#ifndef APACHE_SNAPPY_BLOCKS_H
#define APACHE_SNAPPY_BLOCKS_H

#include "base/buf.h"

struct snappy_blocks;

/* Reads from the descriptor, which stays the caller's. NULL: out of memory. */
struct snappy_blocks *snappy_blocks_create(int fd);
void snappy_blocks_destroy(struct snappy_blocks *b);

/* Appends the next block. Its length, 0: the end, or -1 with *ret_error. name: of the file, for the error. */
long snappy_blocks_next(struct snappy_blocks *b, const char *name, struct buf *out,
                        char **ret_error);

#endif
