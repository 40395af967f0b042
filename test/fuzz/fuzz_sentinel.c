/*
 * The bytes of a client of Sentinel's protocol. The first byte chooses whether the manager has contact to the ensemble, whether
 * clients must log in, and the size of the pieces in which the rest arrives.
 * What must hold: no harm; a session never keeps more bytes than a request may have; the answers are bounded; without
 * contact no answer contains the master's name.
 */
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "redis/sentinel/sentinel_request.h"
#include "redis/sentinel/sentinel_session.h"

#include <stdlib.h>

const struct cost_bound fuzz_bound = {
    .cpu_us = 50000,
    .cpu_ns_per_byte = 200000,
    .alloc_bytes = 4 << 20,
    .alloc_per_byte = 20000,
};

enum { WITHOUT_CONTACT = 1, PIECES = 2 };

static const char MASTER[] = "themaster";
static struct redis_config config;
static struct redis_node nodes[REDIS_NODES_MAX];
static struct redis_current current = {
    .epoch = 3, .state = REDIS_STATE_OK, .master = "themaster:6379"};
static struct redis_managers *managers;
static bool in_contact;

static void fuzz_facts(void *ctx, struct sentinel_facts *ret)
{
    *ret = (struct sentinel_facts){.name = "shop",
                                   .id = "m1",
                                   .config = &config,
                                   .nodes = nodes,
                                   .current = &current,
                                   .managers = managers,
                                   .in_contact = in_contact,
                                   .proved = in_contact,
                                   .writable = in_contact,
                                   .now_ms = 1000};
}

static int fuzz_failover(void *ctx, uint64_t session_id)
{
    return CONCLAVE_ENOMEM;
}

static void facts_init(void)
{
    const char *bad;
    if (managers != NULL) {
        return;
    }
    cost_pause();
    managers = calloc(1, sizeof *managers);
    must(managers != NULL);
    redis_config_init(&config);
    must(redis_config_nodes(&config, "themaster:6379,b:1", &bad) == 0);
    for (size_t i = 0; i < config.node_count; i++) {
        redis_node_init(&nodes[i]);
    }
    cost_resume();
}

static bool names_master(struct slice text)
{
    for (size_t i = 0; i + sizeof MASTER - 1 <= text.len; i++) {
        if (memcmp(text.data + i, MASTER, sizeof MASTER - 1) == 0) {
            return true;
        }
    }
    return false;
}

void fuzz_input(const uint8_t *data, size_t size)
{
    struct input in = input_make(slice_make(data, size));
    struct sentinel_backend backend = {
        .facts = fuzz_facts, .failover = fuzz_failover, .failover_allowed = true};
    struct sentinel_session session;
    struct buf unread;
    struct buf out;
    facts_init();
    uint8_t choice = take(&in);
    size_t piece = (choice & PIECES) != 0 ? (size_t)1 + (choice >> 4) : SIZE_MAX;
    in_contact = (choice & WITHOUT_CONTACT) == 0;
    struct slice rest = take_rest(&in);
    bool said = names_master(rest); /* an error may repeat a client's own words */
    sentinel_session_init(&session, &backend, 1);
    buf_init(&unread, 0);
    buf_init(&out, 0);
    while (rest.len > 0 && session.state == SENTINEL_OPEN) {
        size_t len = rest.len < piece ? rest.len : piece;
        buf_append(&unread, rest.data, len);
        rest = slice_make(rest.data + len, rest.len - len);
        size_t taken;
        do {
            taken = sentinel_session_take(&session, buf_slice(&unread), &out);
            must(taken <= unread.len);
            buf_consume(&unread, taken);
            must(out.len < SENTINEL_ANSWERS_MAX + 64 * 1024);
            must(in_contact || said || !names_master(buf_slice(&out)));
            buf_reset(&out);
            sentinel_session_publish(&session, "+switch-master", "shop a 1 b 1", &out);
            buf_reset(&out);
        } while (taken > 0 && session.state == SENTINEL_OPEN);
        must(session.state != SENTINEL_OPEN || unread.len < SENTINEL_REQUEST_MAX);
        must(session.channel_count <= SENTINEL_CHANNELS_MAX);
    }
    sentinel_session_finish(&session);
    buf_finish(&unread);
    buf_finish(&out);
}
