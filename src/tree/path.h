/*
 * Rules for paths of znodes: those of Apache ZooKeeper's PathUtils, over UTF-8 bytes. Malformed
 * UTF-8 is an invalid path (ZooKeeper reads it as U+FFFD, which its rules forbid as well).
 */
#ifndef TREE_PATH_H
#define TREE_PATH_H

#include "base/slice.h"

/* Whether a znode may have this path: absolute, no empty, "." or ".." component, no "/" at the end
 * (but for "/" itself), no control characters, surrogates, private use or U+FFF0 and above. */
bool path_valid(struct slice path);

/* Whether ZooKeeper takes it for a path at all before it looks further: not null, has a '/', no
 * NUL. */
bool path_plausible(struct slice path);

/* Offset of the last '/' in a path that has one. */
size_t path_last_slash(struct slice path);

/* Length in UTF-16 units, as ZooKeeper counts the size of a valid path (which has none beyond
 * U+FFFF). */
size_t path_chars(struct slice path);

/* The nodes that every tree has and nobody may delete: "/", /zookeeper, its quota and config. */
bool path_special(struct slice path);

#endif
