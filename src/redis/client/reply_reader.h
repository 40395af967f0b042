/*
 * Bytes of Redis' protocol in, replies of conclave/redis_client.h out, by hiredis' parser. A reply that would take more
 * than a limit of memory, or whose bytes do, is an error; the peer cannot make it allocate more.
 */
#ifndef REDIS_CLIENT_REPLY_READER_H
#define REDIS_CLIENT_REPLY_READER_H

#include "base/slice.h"

#include <conclave/redis_client.h>

struct reply_reader;

/* NULL: out of memory. */
struct reply_reader *reply_reader_create(size_t limit);
void reply_reader_destroy(struct reply_reader *r);

/* Takes bytes of the stream. 0, or CONCLAVE_ENOMEM, which is final. */
int reply_reader_feed(struct reply_reader *r, struct slice bytes) CONCLAVE_MUST_USE;

/* The next reply. 0: *ret is it, or NULL: more bytes are needed. CONCLAVE_ENOMEM, CONCLAVE_ETOOBIG, CONCLAVE_EPROTO;
 * these are final. */
int reply_reader_next(struct reply_reader *r, struct conclave_redis_reply **ret) CONCLAVE_MUST_USE;

/* Notes where a whole reply comes from. 0 or CONCLAVE_ENOMEM. */
int reply_set_server(struct conclave_redis_reply *reply, const char *server,
                     int64_t epoch) CONCLAVE_MUST_USE;

#endif
