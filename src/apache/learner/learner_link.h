/*
 * A learner with its connection: asks the servers of the source in turn until one of them leads, and begins again when the
 * connection ends, with pauses that grow. Only the leader of an ensemble listens on its quorum port.
 *
 * With TLS or a login by SASL, as the source's servers want them of each other (source_access.h), these come first.
 *
 * Limits: at most LEARNER_SERVERS_MAX servers; a leader that says nothing for LEARNER_SILENCE_MS is given up.
 */
#ifndef APACHE_LEARNER_LEARNER_LINK_H
#define APACHE_LEARNER_LEARNER_LINK_H

#include "apache/learner/learner.h"
#include "apache/learner/source_access.h"
#include "net/address.h"

#include <uv.h>

enum { LEARNER_SERVERS_MAX = 32, LEARNER_SILENCE_MS = 15000 };

struct learner_link;

/* Besides these, those of the learner. */
struct learner_link_callbacks {
    struct learner_callbacks learner;

    /* A new attempt begins: the zxid of the last transaction that the caller has, 0: it wants the whole state; -1: not now,
     * ask again soon. */
    int64_t (*last_zxid)(void *ctx);

    /* The connection ended, or an attempt that a server accepted, or all servers refused one: why, in one line. */
    void (*trouble)(void *ctx, const struct net_address *server, const char *why);
};

struct learner_link_options {
    const struct net_address *servers; /* copied */
    size_t count;                      /* at least 1 */
    int64_t server_id;                 /* as in learner_options */
    const struct hash_key *key;
    const struct source_access *access; /* borrowed */
    size_t data_max;                    /* as in learner_options */
};

/* Splits "host:port,host:port" into ret. The number, or 0: it is malformed, or has too many. */
size_t learner_servers_parse(struct slice text, struct net_address ret[LEARNER_SERVERS_MAX]);

/* Begins with the loop's next turn. NULL: out of memory. */
struct learner_link *learner_link_open(uv_loop_t *loop, const struct learner_link_options *options,
                                       const struct learner_link_callbacks *callbacks);

/* No callback comes any more; cb, when all is closed and l is freed. */
void learner_link_close(struct learner_link *l, void (*cb)(void *ctx), void *ctx);

/* A callback said CONCLAVE_EBUSY, and can take more now. */
void learner_link_resume(struct learner_link *l);

/* Ends the connection, and begins anew soon. */
void learner_link_restart(struct learner_link *l);

/* As learner_barrier. CONCLAVE_EBUSY: it is not live. */
int learner_link_barrier(struct learner_link *l) CONCLAVE_MUST_USE;

bool learner_link_is_live(const struct learner_link *l);

/* The server that is asked now, or was last. */
const struct net_address *learner_link_server(const struct learner_link *l);

#endif
