/* What a run gives: a line per second, a table, or JSON. */
#include "base/json.h"
#include "cli/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static double ms(uint64_t us)
{
    return (double)us / 1000;
}

void bench_progress(const struct bench *b, int64_t at_s)
{
    const struct latency_histogram *h = &b->second;
    fprintf(stderr,
            "%4" PRId64 " s  %9" PRIu64 "/s  p50 %.2f  p99 %.2f  max %.2f ms  %" PRIu64
            " errors%s\n",
            at_s, h->count, ms(latency_histogram_at(h, 0.5)), ms(latency_histogram_at(h, 0.99)),
            ms(h->max_us), b->second_errors, at_s <= 0 ? "  (warm-up)" : "");
}

static double per_second(const struct bench *b, uint64_t count)
{
    return b->measured_us > 0 ? (double)count * 1e6 / (double)b->measured_us : 0;
}

static void row_print(const struct bench *b, const char *name, const struct bench_result *r)
{
    const struct latency_histogram *h = &r->latencies;
    printf("%-9s %10" PRIu64 " %10.0f %9.2f %9.2f %9.2f %9.2f %9.2f %8" PRIu64 "\n", name, h->count,
           per_second(b, h->count), ms(latency_histogram_at(h, 0.5)),
           ms(latency_histogram_at(h, 0.9)), ms(latency_histogram_at(h, 0.99)),
           ms(latency_histogram_at(h, 0.999)), ms(h->max_us), r->errors);
}

static void row_json(const struct bench *b, struct json *j, const char *name,
                     const struct bench_result *r)
{
    const struct latency_histogram *h = &r->latencies;
    json_object_begin(j);
    json_member_string(j, "name", name);
    json_member_uint(j, "count", h->count);
    json_key(j, "per_second");
    json_real(j, per_second(b, h->count), 1);
    json_member_uint(j, "p50_us", latency_histogram_at(h, 0.5));
    json_member_uint(j, "p90_us", latency_histogram_at(h, 0.9));
    json_member_uint(j, "p99_us", latency_histogram_at(h, 0.99));
    json_member_uint(j, "p999_us", latency_histogram_at(h, 0.999));
    json_member_uint(j, "max_us", h->max_us);
    json_member_uint(j, "errors", r->errors);
    json_object_end(j);
}

static bool is_used(const struct bench_result *r)
{
    return r->latencies.count > 0 || r->errors > 0;
}

static int report_json(const struct bench *b, const struct bench_result *total)
{
    const struct bench_options *o = b->options;
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "loop", o->rate > 0 ? "open" : "closed");
    json_member_int(&j, "rate", o->rate);
    json_member_int(&j, "sessions", o->sessions);
    json_member_int(&j, "outstanding", o->outstanding);
    json_member_uint(&j, "servers", b->n_servers);
    json_member_int(&j, "nodes", o->nodes);
    json_member_int(&j, "data_bytes", o->data_bytes);
    json_key(&j, "seconds");
    json_real(&j, (double)b->measured_us / 1e6, 3);
    json_key(&j, "operations");
    json_array_begin(&j);
    for (int i = 0; i < BENCH_ROWS; i++) {
        if (is_used(&b->rows[i])) {
            row_json(b, &j, BENCH_NAMES[i], &b->rows[i]);
        }
    }
    json_array_end(&j);
    json_key(&j, "total");
    row_json(b, &j, "total", total);
    json_member_uint(&j, "unfinished", b->unfinished);
    json_key(&j, "errors");
    json_object_begin(&j);
    for (int i = 0; i < BENCH_ERRORS_MAX && b->errors[i].count > 0; i++) {
        json_member_uint(&j, conclave_errname(b->errors[i].code), b->errors[i].count);
    }
    json_object_end(&j);
    json_member_uint(&j, "requests", b->requests);
    json_member_uint(&j, "set_up_requests", b->set_up_requests);
    json_member_string(&j, "parent", b->parent);
    return json_line_print(&j, stdout);
}

static void report_text(const struct bench *b, const struct bench_result *total)
{
    const struct bench_options *o = b->options;
    printf("%-9s %10s %10s %9s %9s %9s %9s %9s %8s\n", "", "COUNT", "PER SECOND", "P50 ms", "P90",
           "P99", "P99.9", "MAX", "ERRORS");
    for (int i = 0; i < BENCH_ROWS; i++) {
        if (is_used(&b->rows[i])) {
            row_print(b, BENCH_NAMES[i], &b->rows[i]);
        }
    }
    row_print(b, "total", total);
    for (int i = 0; i < BENCH_ERRORS_MAX && b->errors[i].count > 0; i++) {
        printf("%" PRIu64 " times %s (%s)\n", b->errors[i].count,
               conclave_strerror(b->errors[i].code), conclave_errname(b->errors[i].code));
    }
    if (b->unfinished > 0) {
        printf("%" PRIu64 " operations were due and not answered: the servers are slower than "
               "--rate\n",
               b->unfinished);
    }
    if (o->rate > 0) {
        printf("latency from the moment at which each operation was due, at %" PRId64
               " per second\n",
               o->rate);
    } else {
        printf("latency from sending: a stall delays only %" PRId64 " operations; see --rate\n",
               o->sessions * o->outstanding);
    }
}

int bench_report(const struct bench *b)
{
    struct bench_result *total = calloc(1, sizeof *total);
    int error = CONCLAVE_ENOMEM;
    for (int i = 0; total != NULL && i < BENCH_ROWS; i++) {
        latency_histogram_merge(&total->latencies, &b->rows[i].latencies);
        total->errors += b->rows[i].errors;
    }
    if (total != NULL) {
        error = 0;
        if (b->options->common.json) {
            error = report_json(b, total);
        } else {
            report_text(b, total);
        }
    }
    free(total);
    return error;
}
