/*
 * What a server may send to a client. The input is a program for one connection core: requests submitted, raw bytes,
 * replies to the newest requests with any error and body, events, session answers, time, links that end.
 * What must hold: nothing asserts; every request that was taken is answered once.
 */
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "support/core_peer.h"

#include <stdlib.h>

enum { STEPS_MAX = 300 };

const struct cost_bound fuzz_bound = {
    .cpu_us = 50000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 4 << 20,
    .alloc_per_byte = 2000,
};

struct client {
    struct peer p;
    int taken;   /* requests */
    int32_t xid; /* newest that it sent */
    bool linked; /* the next frame that it sends is the session request */
};

static const char *const paths[] = {"/a", "/a/b", "/", "/long/path/of/some/components"};

/* What it sends is of right form, and its xid is what replies need. */
static void take_output(struct client *c)
{
    struct peer_frame f;
    while (peer_take(&c->p, &f, c->linked)) {
        if (!c->linked) {
            c->xid = f.xid;
        }
        c->linked = false;
    }
}

static void no_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
    abort(); /* the core calls no function of the program */
}

static void submit(struct client *c, struct input *in)
{
    static const enum conclave_op_type types[] = {CONCLAVE_OP_GET, CONCLAVE_OP_EXISTS,
                                                  CONCLAVE_OP_GET_CHILDREN, CONCLAVE_OP_SYNC};
    uint8_t which = take(in);
    int id = c->taken + 1;
    const char *path = paths[which / 8 % 4];
    struct conclave_op op = {.size = sizeof op, .type = types[which % 4], .path = path};
    if (which % 8 < 3) {
        op = conclave_op_watch(types[which % 8], path, no_watch, (void *)(intptr_t)id);
    } else if (which % 8 == 3) {
        op = conclave_op_add_watch(path, CONCLAVE_WATCH_RECURSIVE, no_watch, (void *)(intptr_t)id);
    } else if (which % 8 == 7) {
        op = (struct conclave_op){.size = sizeof op,
                                  .type = CONCLAVE_OP_SET,
                                  .path = path,
                                  .data = "x",
                                  .data_len = 1,
                                  .version = -1};
    }
    c->taken += peer_submit(&c->p, &op, id) == 0;
}

static void link_up(struct client *c)
{
    if (c->p.core.link == LINK_NONE && core_wants_link(&c->p.core)) {
        buf_reset(&c->p.sent); /* of the link before */
        c->p.sent_at = 0;
        core_link_up(&c->p.core, c->p.now_ns, 3000);
        c->linked = c->p.core.link == LINK_HANDSHAKE;
    }
}

static void feed(struct client *c, struct slice bytes, struct input *in)
{
    cost_stands_for(bytes.len);
    if (c->p.core.link != LINK_NONE) {
        peer_feed(&c->p, bytes, take(in) % 16);
    }
}

static void send_reply(struct client *c, struct input *in)
{
    struct buf b;
    uint8_t how = take(in);
    buf_init(&b, 0);
    peer_put_reply(&b, c->xid - how % 4, take(in), how < 128 ? 0 : -(int32_t)take(in),
                   take_bytes(in, 120));
    feed(c, buf_slice(&b), in);
    buf_finish(&b);
}

static void step(struct client *c, struct input *in)
{
    struct buf b;
    buf_init(&b, 0);
    switch (take(in) % 9) {
    case 0:
        submit(c, in);
        break;
    case 1:
        feed(c, take_bytes(in, 120), in);
        break;
    case 2:
        send_reply(c, in);
        break;
    case 3:
        peer_put_event(&b, (int32_t)take(in) % 7 - 1, paths[take(in) % 4]);
        feed(c, buf_slice(&b), in);
        break;
    case 4:
        link_up(c);
        break;
    case 5:
        peer_put_connect(&b, take(in) * 100, take(in) % 4, take(in) % 4 == 3 ? 8 : 16);
        feed(c, buf_slice(&b), in);
        break;
    case 6:
        peer_advance_ms(&c->p, take(in) * 20);
        break;
    case 7:
        core_link_down(&c->p.core, c->p.now_ns, CONCLAVE_CONNECTION_LOSS);
        break;
    default:
        if (c->p.core.link == LINK_LOGIN) {
            core_login(&c->p.core, (enum core_login_step)(take(in) % 3), take_bytes(in, 20),
                       c->p.now_ns);
        }
    }
    buf_finish(&b);
    take_output(c);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    struct input in = input_make(slice_make(data, size));
    struct client c = {0};
    uint8_t first = take(&in);
    struct core_options options = peer_options(first % 2 == 0 ? "" : "/chroot");
    options.exactly_once = first / 2 % 2 == 0;
    options.read_only = first / 4 % 2 == 0;
    options.login = first / 8 % 4 == 0;
    options.max_reply = 4096;
    peer_init_with(&c.p, &options);
    for (int steps = 0; !input_ended(&in) && steps < STEPS_MAX && c.p.states_count < 48; steps++) {
        step(&c, &in);
    }
    core_close(&c.p.core, c.p.now_ns, 0);
    must(c.p.replies_count == (size_t)c.taken);
    peer_finish(&c.p);
}
