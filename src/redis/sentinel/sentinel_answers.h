/* The answers of SENTINEL MASTERS, MASTER, REPLICAS, SENTINELS, CKQUORUM and INFO: names, order and types of the fields are
 * those of Redis Sentinel 7. Pure. */
#ifndef REDIS_SENTINEL_SENTINEL_ANSWERS_H
#define REDIS_SENTINEL_SENTINEL_ANSWERS_H

#include "redis/sentinel/sentinel_facts.h"
#include "redis/sentinel/sentinel_out.h"

/* The version that INFO and HELLO report: clients choose commands by it. */
#define SENTINEL_VERSION "7.0.0"

/* There must be a record with a master. */
void answer_master(struct sentinel_out *out, const struct sentinel_facts *facts);
/* All servers but the master. */
void answer_replicas(struct sentinel_out *out, const struct sentinel_facts *facts);
/* The other managers that serve this protocol. */
void answer_sentinels(struct sentinel_out *out, const struct sentinel_facts *facts);
void answer_quorum(struct sentinel_out *out, const struct sentinel_facts *facts);
/* section NULL: all. */
void answer_info(struct sentinel_out *out, const struct sentinel_facts *facts,
                 const struct slice *section);

#endif
