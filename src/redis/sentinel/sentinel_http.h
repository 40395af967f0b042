/* The answer to an HTTP request, for load balancers: 200 or 503 for one server. Pure. */
#ifndef REDIS_SENTINEL_SENTINEL_HTTP_H
#define REDIS_SENTINEL_SENTINEL_HTTP_H

#include "redis/sentinel/sentinel_request.h"
#include "redis/sentinel/sentinel_session.h"

/* GET, HEAD or OPTIONS of /redis/NAME/master?server=HOST:PORT: 200 if clients may write to this server. /redis/NAME/replica
 * the same for reads. Without ?server= the first says whether there is a master at all. */
void sentinel_http(struct sentinel_session *s, const struct sentinel_request *request,
                   struct buf *out);

#endif
