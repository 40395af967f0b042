/*
 * Rules for paths of znodes: those of Apache ZooKeeper's PathUtils, for UTF-8 bytes. Malformed UTF-8 is an invalid path
 * (ZooKeeper reads it as U+FFFD, which its rules forbid as well).
 */
#ifndef TREE_PATH_H
#define TREE_PATH_H

#include "base/slice.h"

/* Whether a znode may have this path: absolute, without empty, "." or ".." components, without "/" at the end (except
 * "/" itself), without control characters, surrogates, private use or U+FFF0 and above. */
bool path_valid(struct slice path);

/* Whether ZooKeeper accepts it as a path before all further checks: not null, with a '/', without NUL. */
bool path_plausible(struct slice path);

/* Offset of the last '/' in a path that contains one. */
size_t path_last_slash(struct slice path);

/* Length in UTF-16 units, as ZooKeeper counts a valid path (which has no characters beyond U+FFFF). */
size_t path_chars(struct slice path);

/* The nodes that every tree has and that cannot be deleted: "/", /zookeeper, its quota and config. */
bool path_special(struct slice path);

#endif
