/*
 * One node of the tree for the web console, as a JSON object on one line: stat, ACL, data, quota and a page of its
 * children. Of a node that the reader (by default a client without any id) may not read it tells only that: {"path": .., "readable": false}.
 *
 *   {"path": .., "stat": {..}, "readable": bool, "acl": [{"scheme","id","perms"}],
 *    "data" or "data_base64": .., "bytes": N, "cut": bool,
 *    "quota": {"path", "limits", "counts"} or null,
 *    "watches": {"data", "child", "persistent", "recursive"} (those of this server at exactly this path, up to NODE_WATCHES_MAX each),
 *    "writer": who wrote the data (last_writers.h),
 *    "children": {"count": N, "order": "name" or "creation", "names": [[name, children, bytes, kind]], "more": bool,
 *                 "left_out": N}}
 *
 * kind: "persistent", "ephemeral", "container" or "ttl". "data" is null for null data. The children, bytes and kind of a child
 * that may not be read are null.
 *
 * Limits: NODE_PAGE_MAX children, in the order of their names; of more than NODE_SORT_MAX children in the order of their
 * creation, because finding the first by name looks at all. NODE_DATA_MAX bytes of data, NODE_ACL_MAX entries of an
 * ACL; NODE_TEXT_MAX bytes of each of their ids and of the texts of a quota. A page ends behind the child that fills the
 * answer. Children with names above NODE_TEXT_MAX are left out, and counted: no cursor could carry them.
 */
#ifndef ADMIN_CONSOLE_NODE_PAGE_H
#define ADMIN_CONSOLE_NODE_PAGE_H

#include "admin/answers/server_view.h"

enum {
    NODE_PAGE_MAX = 500,
    NODE_SORT_MAX = 250000,
    NODE_DATA_MAX = 65536,
    NODE_ACL_MAX = 100,
    NODE_TEXT_MAX = 4096,
    NODE_WATCHES_MAX = 1000,
};

struct json;
struct last_writers;
struct state;
struct watch_table;
struct znode;

/* The reader, and what the ACLs permit to it. */
struct node_reader {
    bool all_readable;      /* with skipACL: everything may be read */
    struct wire_vector ids; /* count 0: none */
};

/* Whether the node's ACL lets it read data and children. */
bool node_readable(const struct state *s, const struct node_reader *reader,
                   const struct znode *node);

/* Number of children, bytes and kind, as elements of an array; null if the node may not be read. */
void node_facts_write(const struct znode *node, bool readable, struct json *j);

struct node_request {
    struct slice path;
    const struct watch_table *watches;  /* of this server; NULL: they are left out */
    const struct last_writers *writers; /* NULL: they are left out */
    struct slice after;                 /* the page begins behind this name; null: with the first */
    struct slice
        from; /* without `after`: it begins with the first name that is not before this text; null: any */
    size_t count;        /* children of the page, up to NODE_PAGE_MAX */
    size_t answer_bytes; /* the page ends when it has so many */
    struct node_reader reader;
};

/* Appends the object; adds to *work what it cost, in children that were looked at. 0; CONCLAVE_NO_NODE, CONCLAVE_BAD_ARGUMENTS (the path), CONCLAVE_ENOMEM: nothing is appended. */
int node_page_write(const struct state *s, const struct node_request *request, size_t *work,
                    struct buf *out) CONCLAVE_MUST_USE;

#endif
