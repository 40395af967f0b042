/*
 * Reads the nodes of one recipe from the tree and recognises it (layout.h). Nodes that a client without ids may not read
 * count as unreadable, unless the server checks no ACLs.
 */
#ifndef ADMIN_CONSOLE_RECIPE_READ_H
#define ADMIN_CONSOLE_RECIPE_READ_H

#include "admin/console/layout.h"
#include "base/buf.h"

struct service;
struct znode;

/* Its memory is used for one recipe after the other. */
struct recipe_reader {
    struct service *service;
    size_t children_max; /* so many of the oldest children are read */
    struct buf path;     /* of the current node */
    struct buf other;    /* of a node around it */
    struct layout_child *children;
    size_t count;
    struct layout_place *places;
};

/* False: out of memory. Finish it in either case. */
bool recipe_reader_init(struct recipe_reader *r, struct service *service, size_t children_max);
void recipe_reader_finish(struct recipe_reader *r);

bool recipe_readable(const struct recipe_reader *r, const struct znode *node);

/* Recognises the recipe whose contenders or members are children of this node. gone: a child that was there until now and
 * counts as one, as the first in `children`; or NULL. False: the node's path is too long. What r and *ret have is valid
 * until the next call and the next change of the tree. */
bool recipe_read(struct recipe_reader *r, const struct znode *node, const struct layout_child *gone,
                 struct layout *ret);

/* Elections, locks, semaphores and pairs: somebody holds them. */
bool recipe_is_held(enum layout_kind kind);

#endif
