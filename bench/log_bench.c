/*
 * How fast the log is by itself: entries of a given size, a given number in flight, on the real
 * disk.
 *
 *   log_bench DIR [BYTES] [SECONDS]
 *
 * Prints one line per number in flight: entries and syncs per second, the median and the 99th
 * percentile of the time from submit to apply. DIR must not exist; it is left behind. Limits: one
 * entry per submit, so what the server packs into one entry comes on top; no snapshots. Compiled with the folders
 * src, include and test for its headers.
 */
#include "replication/replication_uv.h"
#include "support/log_turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES (1u << 20)

struct bench {
    struct replication *r;
    uint64_t applied;
    uint64_t submitted;
    bool stop;
    uint64_t n_in_flight; /* wanted */
    size_t bytes;
    uint64_t started[4096]; /* by entry number */
    uint32_t *samples_us;
    size_t n;
};

static void submit(struct bench *b)
{
    struct buf payload;
    buf_init(&payload, 0);
    if (buf_reserve(&payload, b->bytes) != 0) {
        abort();
    }
    memset(payload.data, 'x', b->bytes);
    payload.len = b->bytes;
    b->started[b->submitted++ % 4096] = uv_hrtime();
    if (replication_submit(b->r, &payload) != 0) {
        fprintf(stderr, "log_bench: an entry was refused\n");
        exit(1);
    }
}

static void apply(void *ctx, uint64_t index, struct slice payload)
{
    struct bench *b = ctx;
    if (payload.len != b->bytes || b->r == NULL) {
        return;
    }
    uint64_t us = (uv_hrtime() - b->started[b->applied++ % 4096]) / 1000;
    if (b->n < SAMPLES) {
        b->samples_us[b->n++] = (uint32_t)us;
    }
}

/* As a closed loop of clients: each answer brings the next request, in the same turn of the
 * loop. */
static void apply_done(void *ctx)
{
    struct bench *b = ctx;
    if (b->r == NULL || b->stop) {
        return;
    }
    for (uint64_t missing = b->n_in_flight - (b->submitted - b->applied); missing > 0; missing--) {
        submit(b);
    }
}

static int snapshot_begin(void *ctx)
{
    return CONCLAVE_EUNSUPPORTED;
}

static int snapshot_step(void *ctx, size_t max_bytes, struct buf *out)
{
    return CONCLAVE_EUNSUPPORTED;
}

static void snapshot_abort(void *ctx)
{
}

static int restore(void *ctx, struct slice snapshot)
{
    return CONCLAVE_EUNSUPPORTED;
}

static void role_changed(void *ctx, enum replication_role role, uint64_t leader, uint64_t term)
{
}

static void failed(void *ctx, int error, const char *text)
{
    fprintf(stderr, "log_bench: %s\n", text);
    exit(1);
}

static void note(void *ctx, bool warning, const char *event, const char *text)
{
    if (warning) {
        fprintf(stderr, "log_bench: %s %s\n", event, text);
    }
}

static int compare(const void *a, const void *b)
{
    uint32_t x;
    uint32_t y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void run(struct bench *b, uv_loop_t *loop, unsigned in_flight, double seconds)
{
    struct replication_stats before;
    struct replication_stats after;
    b->n = 0;
    b->stop = false;
    b->n_in_flight = in_flight;
    replication_stats(b->r, &before);
    uint64_t start = uv_hrtime();
    uint64_t first = b->applied;
    for (unsigned i = 0; i < in_flight; i++) {
        submit(b);
    }
    while ((double)(uv_hrtime() - start) < seconds * 1e9) {
        uv_run(loop, UV_RUN_ONCE);
    }
    b->stop = true;
    double took = (double)(uv_hrtime() - start) / 1e9;
    uint64_t done = b->applied - first;
    replication_stats(b->r, &after);
    while (replication_in_flight(b->r) > 0) {
        uv_run(loop, UV_RUN_ONCE);
    }
    qsort(b->samples_us, b->n, sizeof *b->samples_us, compare);
    printf("in_flight=%u entries_per_s=%.0f syncs_per_s=%.0f p50_us=%u p99_us=%u sync_us=%.0f\n",
           in_flight, (double)done / took, (double)(after.syncs - before.syncs) / took,
           b->samples_us[b->n / 2], b->samples_us[b->n * 99 / 100],
           (double)(after.sync_total_us - before.sync_total_us) /
               (double)(after.syncs - before.syncs));
}

static void closed(void *ctx)
{
    log_turns_stop(ctx);
}

int main(int argc, char **argv)
{
    static const unsigned in_flight[] = {1, 16, 256, 2048};
    struct bench b = {0};
    struct log_turns turns;
    uv_loop_t loop;
    char *text = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: log_bench DIR [BYTES] [SECONDS]\n");
        return 64;
    }
    b.bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
    double seconds = argc > 3 ? strtod(argv[3], NULL) : 2;
    b.samples_us = calloc(SAMPLES, sizeof *b.samples_us);
    if (b.samples_us == NULL || uv_loop_init(&loop) != 0) {
        return 1;
    }
    struct replication_options options = {
        .dir = argv[1],
        .server_id = 1,
        .segment_bytes = 64u << 20,
        .snapshots_kept = 2,
        .sync = true,
    };
    struct replication_callbacks callbacks = {
        .ctx = &b,
        .apply = apply,
        .apply_done = apply_done,
        .snapshot_begin = snapshot_begin,
        .snapshot_step = snapshot_step,
        .snapshot_abort = snapshot_abort,
        .restore = restore,
        .role_changed = role_changed,
        .failed = failed,
        .note = note,
    };
    uint64_t start = uv_hrtime();
    struct replication_loop *log;
    int rv = replication_loop_open(&loop, &options, &callbacks, NULL, NULL, &log, &text);
    if (rv != 0) {
        fprintf(stderr, "log_bench: %s\n", text);
        free(text);
        return 1;
    }
    log_turns_start(&turns, &loop, log);
    b.r = replication_loop_log(log);
    printf("open_ms=%.1f bytes=%zu\n", (double)(uv_hrtime() - start) / 1e6, b.bytes);
    for (size_t i = 0; i < sizeof in_flight / sizeof *in_flight; i++) {
        run(&b, &loop, in_flight[i], seconds);
    }
    replication_loop_close(log, closed, &turns);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    free(b.samples_us);
    return 0;
}
