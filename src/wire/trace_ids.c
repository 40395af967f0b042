#include "wire/trace_ids.h"

#include "base/endian.h"

uint64_t wire_trace_link(int64_t seen_zxid, bool resumed)
{
    return wire_trace_spread((uint64_t)seen_zxid + (resumed ? WIRE_TRACE_STEP : 0));
}

uint64_t wire_trace_seed(int64_t session_id, uint64_t link)
{
    return wire_trace_spread((uint64_t)session_id ^ link);
}

struct wire_trace wire_trace_of(int64_t session_id, uint64_t link, int32_t xid)
{
    struct wire_trace trace;
    uint64_t lot = wire_trace_lot(wire_trace_seed(session_id, link), xid);
    uint64_t high = wire_trace_spread(lot + (uint64_t)session_id * WIRE_TRACE_STEP);
    put_be64(trace.id, high != 0 ? high : 1);
    put_be64(trace.id + 8, lot);
    return trace;
}

void wire_span_id(const struct wire_trace *trace, unsigned span, uint8_t ret[WIRE_SPAN_ID_LEN])
{
    uint64_t id = wire_trace_spread(get_be64(trace->id) ^
                                    (get_be64(trace->id + 8) + (span + 1) * WIRE_TRACE_STEP));
    put_be64(ret, id != 0 ? id : 1);
}
