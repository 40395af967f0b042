/*
 * What the state machine costs by itself: nanoseconds per create, getData and setData, bytes per
 * znode, milliseconds per snapshot, restore and digest, for a number of nodes (default 1,000,000)
 * with 100 bytes of data and names of ten bytes, in directories of 1,000. One line per figure:
 * name, value, unit.
 *
 * Build: gcc -std=gnu11 -O2 -Isrc -Iinclude -Itest bench/tree_bench.c test/support/requests.c \
 *            src/base/buf.c src/base/hash.c src/base/map.c src/base/properties.c src/wire/codec.c \
 *            src/wire/fence_records.c src/wire/records.c \
 *            src/tree/[a-z]*.c src/state/[a-z]*.c -lxxhash
 */
#include "support/requests.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PER_DIR = 1000, DATA_LEN = 100, READS = 2000000 };

struct bench {
    struct state *s;
    struct effects e;
    struct maker m;
    struct buf requests; /* bodies made beforehand: only the machine is measured */
    size_t nodes;
    char data[DATA_LEN + 1];
    struct prng prng;
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static size_t rss_bytes(void)
{
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%*s %zu", &pages) != 1) {
        fprintf(stderr, "tree_bench: cannot read /proc/self/statm\n");
        exit(1);
    }
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void figure(const char *name, double value, const char *unit)
{
    printf("%-16s %10.1f %s\n", name, value, unit);
}

static void node_path(char *out, size_t size, size_t i)
{
    snprintf(out, size, "/dir%06zu/node%06zu", i / PER_DIR, i % PER_DIR);
}

/* One command; a refusal is a mistake of this program. */
static void run(struct bench *b, int32_t type, struct slice body)
{
    if (apply(b->s, &b->e, &b->m, 1, type, body) != 0) {
        fprintf(stderr, "tree_bench: command refused: %d\n", b->e.err);
        exit(1);
    }
}

static void create_all(struct bench *b)
{
    char path[64];
    double spent = 0;
    for (size_t i = 0; i < b->nodes; i++) {
        if (i % PER_DIR == 0) {
            snprintf(path, sizeof path, "/dir%06zu", i / PER_DIR);
            run(b, WIRE_CREATE, make_create(&b->m, path, "", 0));
        }
        node_path(path, sizeof path, i);
        struct slice body = make_create(&b->m, path, b->data, 0);
        double start = now_ns();
        run(b, WIRE_CREATE, body);
        spent += now_ns() - start;
    }
    figure("create", spent / (double)b->nodes, "ns");
}

/* Requests for random nodes, all of one length, one behind the other. */
static size_t make_requests(struct bench *b, size_t count, bool set)
{
    char path[64];
    buf_reset(&b->requests);
    for (size_t i = 0; i < count; i++) {
        node_path(path, sizeof path, prng_next(&b->prng) % b->nodes);
        struct slice body =
            set ? make_set_data(&b->m, path, b->data, -1) : make_read(&b->m, path, false);
        buf_append_slice(&b->requests, body);
    }
    return b->requests.len / count;
}

static void get_data(struct bench *b)
{
    struct state_watch watch;
    struct buf out;
    size_t len = make_requests(b, READS, false);
    buf_init(&out, 0);
    double start = now_ns();
    for (size_t i = 0; i < READS; i++) {
        buf_reset(&out);
        struct slice body = slice_make(b->requests.data + i * len, len);
        if (state_query(b->s, WIRE_GET_DATA, WIRE_VECTOR_NULL, body, &out, &watch) != 0) {
            exit(1);
        }
    }
    figure("getData", (now_ns() - start) / READS, "ns");
    buf_finish(&out);
}

static void set_data(struct bench *b)
{
    size_t count = READS / 4;
    size_t len = make_requests(b, count, true);
    double start = now_ns();
    for (size_t i = 0; i < count; i++) {
        run(b, WIRE_SET_DATA, slice_make(b->requests.data + i * len, len));
    }
    figure("setData", (now_ns() - start) / (double)count, "ns");
}

static void snapshot(struct bench *b)
{
    enum { STEP_BYTES = 1 << 16 };
    struct buf out;
    struct state *restored;
    buf_init(&out, 0);
    double start = now_ns();
    double worst = 0;
    int rc = state_snapshot_begin(b->s);
    while (rc == 0 || rc == 1) {
        double step = now_ns();
        rc = state_snapshot_step(b->s, STEP_BYTES, &out);
        step = now_ns() - step;
        worst = step > worst ? step : worst;
        if (rc != 1) {
            break;
        }
    }
    figure("snapshot", (now_ns() - start) / 1e6, "ms");
    figure("snapshot size", (double)out.len / (double)b->nodes, "bytes/znode");
    figure("slowest step", worst / 1e3, "us");
    start = now_ns();
    if (rc != 0 || state_restore(buf_slice(&out), &hash_key_fixed, &restored) != 0) {
        fprintf(stderr, "tree_bench: the snapshot does not come back\n");
        exit(1);
    }
    figure("restore", (now_ns() - start) / 1e6, "ms");
    start = now_ns();
    bool same = state_digest(restored) == state_digest(b->s);
    figure("digest", (now_ns() - start) / 2e6, "ms");
    if (!same) {
        fprintf(stderr, "tree_bench: the restored state is another\n");
        exit(1);
    }
    state_destroy(restored);
    buf_finish(&out);
}

int main(int argc, char **argv)
{
    struct bench b = {.nodes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000, .prng = {1}};
    if (b.nodes == 0) {
        fprintf(stderr, "usage: tree_bench [nodes]\n");
        return 64;
    }
    memset(b.data, 'x', DATA_LEN);
    b.s = state_create(&hash_key_fixed);
    effects_init(&b.e);
    maker_init(&b.m);
    buf_init(&b.requests, 0);
    run(&b, WIRE_CREATE_SESSION, make_session(&b.m, 1, 4000));
    size_t before = rss_bytes();
    create_all(&b);
    figure("memory", (double)(rss_bytes() - before) / (double)b.nodes, "bytes/znode");
    get_data(&b);
    set_data(&b);
    buf_finish(&b.requests);
    snapshot(&b);
    state_destroy(b.s);
    effects_finish(&b.e);
    maker_finish(&b.m);
    return 0;
}
