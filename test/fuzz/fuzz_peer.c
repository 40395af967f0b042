/*
 * Any bytes as what comes in on a link between servers: frames are cut within their bounds, and a
 * hello, an age or a refusal that is read is the one that was written. Input: the bytes.
 */
#include "cluster/links/peer_hello.h"
#include "fuzz/cost.h"

#include <stdlib.h>

/* What was read, written again: the same frame. */
static void fuzz_control(const struct peer_frame *f)
{
    struct slice rest = SLICE_NULL;
    struct hello h;
    struct peer_identity who = {0};
    unsigned reason;
    struct buf again;
    unsigned kind = control_kind(f->bytes, &rest);
    buf_init(&again, 0);
    if (kind == CONTROL_HELLO && hello_read(rest, &h) == 0 && h.version == HELLO_VERSION) {
        must(h.from.id != 0);
        hello_append(&again, &h);
    } else if (kind == CONTROL_AGE && age_read(rest, &who) == 0) {
        age_append(&again, &who);
    } else if (kind == CONTROL_REFUSE && refuse_read(rest, &reason) == 0) {
        must(hello_reason_text(reason)[0] != '\0');
    }
    if (again.len > 0) {
        struct slice all = buf_slice(&again);
        struct peer_frame g;
        must(frame_take(&all, HELLO_FRAME_MAX, &g) == 1 && all.len == 0 && g.channel == 0);
        must(slice_equal(g.bytes, f->bytes));
    }
    buf_finish(&again);
}

const struct cost_bound fuzz_bound = {
    .cpu_us = 20000,
    .cpu_ns_per_byte = 5000,
    .alloc_bytes = 1 << 16,
    .alloc_per_byte = 200,
};

void fuzz_input(const uint8_t *data, size_t size)
{
    struct slice rest = slice_make(data, size);
    struct peer_frame f;
    while (frame_take(&rest, HELLO_FRAME_MAX, &f) == 1) {
        must(f.bytes.len <= HELLO_FRAME_MAX);
        must(f.bytes.data + f.bytes.len == rest.data && rest.data + rest.len == data + size);
        if (f.channel == 0) {
            fuzz_control(&f);
        }
    }
}
