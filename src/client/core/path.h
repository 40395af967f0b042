/*
 * Paths on the client's side: ZooKeeper's rules for a valid path (PathUtils), and the chroot, a prefix that is added to
 * every sent path and removed from every received one. A path that begins with "//" is beyond the chroot: it is sent
 * without it and without the first "/"; only the library itself makes such paths, because they are not valid.
 */
#ifndef CLIENT_CORE_PATH_H
#define CLIENT_CORE_PATH_H

#include "base/buf.h"

/* Whether path is valid. sequential: a final '/' is allowed, because the server appends the number. NULL is not
 * valid. */
bool path_is_valid(const char *path, bool sequential);

static inline bool path_is_beyond(const char *path)
{
    return path[0] == '/' && path[1] == '/';
}

/* Appends chroot + path as a string of the wire. chroot is "" or "/a/b". */
void path_write(struct buf *b, struct slice chroot, const char *path);

/* Bytes of chroot + path. */
size_t path_full_len(struct slice chroot, const char *path);

/* Removes the chroot from a server's path: true and *ret, borrowed from full (the chroot itself gives "/"); false: it
 * is not below the chroot. */
bool path_strip(struct slice chroot, struct slice full, struct slice *ret);

#endif
