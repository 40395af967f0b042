#include "wire/trace_ids.h"

#include "base/endian.h"

/* Large odd numbers without a pattern in their bits. */
#define STEP UINT64_C(0x9e3779b97f4a7c15)
#define FIRST UINT64_C(0xd6e8feb86659fd93)
#define SECOND UINT64_C(0xa0761d6478bd642f)

/* Each bit of the input changes about half of the bits of the result. */
static uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 32) * FIRST;
    x = (x ^ x >> 29) * SECOND;
    return x ^ x >> 32;
}

uint64_t wire_trace_link(int64_t seen_zxid, bool resumed)
{
    return spread((uint64_t)seen_zxid + (resumed ? STEP : 0));
}

uint64_t wire_trace_lot(int64_t session_id, uint64_t link, int32_t xid)
{
    uint64_t lot = spread(spread((uint64_t)session_id ^ link) + (uint32_t)xid * STEP);
    return lot != 0 ? lot : 1;
}

struct wire_trace wire_trace_of(int64_t session_id, uint64_t link, int32_t xid)
{
    struct wire_trace trace;
    uint64_t lot = wire_trace_lot(session_id, link, xid);
    put_be64(trace.id, spread(lot + (uint64_t)session_id * STEP));
    put_be64(trace.id + 8, lot);
    return trace;
}

void wire_span_id(const struct wire_trace *trace, unsigned span, uint8_t ret[WIRE_SPAN_ID_LEN])
{
    uint64_t id = spread(get_be64(trace->id) ^ (get_be64(trace->id + 8) + (span + 1) * STEP));
    put_be64(ret, id != 0 ? id : 1);
}
