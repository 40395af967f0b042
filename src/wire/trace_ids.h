/*
 * The ids of a request's trace. Client and server derive them from what both know anyway: the session, the newest zxid
 * that the client named when it connected, whether it resumed a session, and the request's xid. So no byte of the protocol
 * carries them, and requests of any client have them. Pure.
 *
 * Limits: a hash, not a secret. The ids return if a session's client starts again, resumes the session with the same zxid,
 * and numbers its requests from the beginning.
 */
#ifndef WIRE_TRACE_IDS_H
#define WIRE_TRACE_IDS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WIRE_TRACE_ID_LEN = 16,
    WIRE_SPAN_ID_LEN = 8,
};

struct wire_trace {
    uint8_t id[WIRE_TRACE_ID_LEN];
};

/* The spans of a trace. Those of the parts of a request follow TRACE_SPAN_PARTS. */
enum {
    TRACE_SPAN_CLIENT,
    TRACE_SPAN_SERVER,
    TRACE_SPAN_PARTS,
};

/* What one connection adds. seen_zxid and resumed: lastZxidSeen of its ConnectRequest, and whether that names a session. */
uint64_t wire_trace_link(int64_t seen_zxid, bool resumed);

/* What all requests of a session on one connection have in common, so that each of them costs less. */
uint64_t wire_trace_seed(int64_t session_id, uint64_t link);

#define WIRE_TRACE_STEP                                                                            \
    UINT64_C(0x9e3779b97f4a7c15) /* large and odd, without a pattern in its bits */

/* Each bit of the input changes about half of the bits of the result. */
static inline uint64_t wire_trace_spread(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 29) * UINT64_C(0xa0761d6478bd642f);
    return x ^ x >> 32;
}

/* For sampling, equal to the last eight bytes of the trace id: numbers that are evenly spread over those of a connection, as
 * multiples of an irrational number are. In the header, as every request needs it. 0 for one of 2^64 only. */
static inline uint64_t wire_trace_lot(uint64_t seed, int32_t xid)
{
    return seed + (uint32_t)xid * WIRE_TRACE_STEP;
}

/* The id, which is never all zero. */
struct wire_trace wire_trace_of(int64_t session_id, uint64_t link, int32_t xid);

/* The id of a span, which is never all zero. */
void wire_span_id(const struct wire_trace *trace, unsigned span, uint8_t ret[WIRE_SPAN_ID_LEN]);

#endif
