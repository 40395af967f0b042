#include "front/limits/client_limits.h"

#include "wire/ops.h"

struct client_limits client_limits_default(void)
{
    return (struct client_limits){
        .tick_ms = 2000,
        .session_min_ms = 2 * 2000,
        .session_max_ms = 20 * 2000,
        .sessions_max = 1000000,
        .frame_max = WIRE_FRAME_MAX,
        .connections_max = 0,
        .address_max = 60,
        .handshake_ms = 10000,
        .handshakes_max = 1000,
        .address_handshakes_max = 200,
        .outstanding_max = 1000,
        .outstanding_bytes_max = (size_t)64 << 20,
        .pipelined_max = 1000,
        .pipelined_bytes_max = (size_t)4 << 20,
        .output_pause = (size_t)256 << 10,
        .output_max = (size_t)16 << 20,
        .address_sessions_max = 100000,
        .address_bytes_max = (size_t)32 << 20,
        .address_rate_max =
            10000000, /* more than a server can handle: lower it to share the server */
        .watches_max = 1000000,
        .watches_total_max = 20000000,
        .watch_bytes_max = (size_t)64 << 20,
        .ended_sessions_max = 1000,
        .slow_ms = 100,
        .slow_max = 128,
        .session_results_max = 1000,
        .session_result_bytes_max = (size_t)128 << 10,
        .identity_max = (size_t)4 << 10,
        .command = {.parts = 10000,
                    .path_bytes = 8192,
                    .path_depth = 256,
                    .acl = {.entries = 256, .bytes = 16384},
                    .ids = 32},
    };
}

static void limit_default(size_t *limit, size_t value)
{
    if (*limit == 0) {
        *limit = value;
    }
}

/* The data get a quarter: a server that receives a snapshot briefly holds its old state, the snapshot and the new
 * state. */
void client_limits_share(struct client_limits *limits, size_t memory)
{
    limit_default(&limits->data_max, memory / 4);
    limit_default(&limits->watch_bytes_total_max, memory / 8);
    limit_default(&limits->buffers_max, memory / 8);
    limit_default(&limits->address_buffers_max, limits->buffers_max / 4);
}
