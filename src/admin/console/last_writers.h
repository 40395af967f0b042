/*
 * Who wrote a node last: session, address and ids of the command, taken from the effects of applied commands, so every server
 * tells the same, also from the log when it starts. A record is found by the node's path and its mzxid, so it is never
 * another write's.
 *
 * Bounded: LAST_WRITERS_MAX nodes and the words for WRITER_CALLERS_MAX callers (addresses with identities), 200 KB that are
 * allocated with the first write. Of two nodes the one that was written first makes room; a caller that makes room for
 * another one leaves the session known. The creation of nodes with a sequence number is not recorded: queues and locks
 * would push out the rest. The creation of an ephemeral node needs no record: its session is kept with it.
 */
#ifndef ADMIN_CONSOLE_LAST_WRITERS_H
#define ADMIN_CONSOLE_LAST_WRITERS_H

#include "base/json.h"
#include "front/service.h"

enum {
    LAST_WRITERS_MAX = 4096,
    WRITER_CALLERS_MAX = 512,
    WRITER_CLIENT_MAX = 46,
    WRITER_IDS_MAX = 74,
};

struct writer_table;
struct znode;

struct last_writers {
    struct service *service;    /* NULL: none is looked at */
    uint64_t generation;        /* of its state */
    int64_t since_zxid;         /* later writes are recorded */
    struct writer_table *table; /* NULL: nothing is recorded yet */
};

void last_writers_init(struct last_writers *w);
void last_writers_finish(struct last_writers *w);

/* Looks at the writes of another service from now on, NULL: of none. The one before it still exists. */
void last_writers_attach(struct last_writers *w, struct service *service);

/* An object: {"by": "client", "session": ID or null, "client": address, "ids": "digest:anna, ..."};
 * {"by": "server"}; {"by": "mirror"}: the Apache ZooKeeper that this state mirrors; {"by": "unknown", "why": "before" (it was
 * written before since_zxid), "numbered" or "pushed out"}. */
void last_writers_write(const struct last_writers *w, const struct znode *node, struct slice path,
                        struct json *j);

#endif
