/*
 * The search of the web console: nodes whose path has a text in it, the letters A to Z in either case, as a JSON object on
 * one line. The text must reach into the node's own name, so "app/con" finds /app/config and not all that is below it.
 *
 *   {"found": [[path, children, bytes, kind]], "after": PATH or null, "looked": N, "hidden": N, "left_out": N}
 *
 * children, bytes and kind as in node_page.h. A search goes through the tree from parents to children, these in the order of
 * their creation, and through the children of nodes that the reader may read; `hidden` counts the others. A part of it ends
 * with NODE_SEARCH_LOOKS of work, with `count` results, or with a full answer: "after" is where the next one continues; null:
 * that was all. If that node was deleted meanwhile, the next part begins again at the oldest child of the nearest node above.
 *
 * Limits: NODE_SEARCH_TEXT_MAX bytes of text. Nodes with a path of more than NODE_TEXT_MAX bytes are left out with all that is below
 * them, and counted: no "after" could carry them.
 */
#ifndef ADMIN_CONSOLE_NODE_SEARCH_H
#define ADMIN_CONSOLE_NODE_SEARCH_H

#include "admin/console/node_page.h"

enum { NODE_SEARCH_LOOKS = 20000, NODE_SEARCH_FOUND_MAX = 200, NODE_SEARCH_TEXT_MAX = 256 };

struct node_search_request {
    struct slice root;  /* the search is there and below */
    struct slice text;  /* slashes at its end do not count */
    struct slice after; /* null: from the beginning */
    struct node_reader reader;
    size_t count;        /* results, up to NODE_SEARCH_FOUND_MAX */
    size_t answer_bytes; /* the part ends when it has so many */
};

/* Appends the object; adds to *work what it cost, a node with a short name counts 1. 0; CONCLAVE_NO_NODE (the root),
 * CONCLAVE_BAD_ARGUMENTS, CONCLAVE_ENOMEM: nothing is appended. */
int node_search_write(const struct state *s, const struct node_search_request *request,
                      size_t *work, struct buf *out) CONCLAVE_MUST_USE;

#endif
