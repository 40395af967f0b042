/*
 * conclave bench: how fast any ZooKeeper server answers.
 *
 * Promise: everything it makes is below one node that did not exist before, and is removed at the end, also after Ctrl-C; no
 * other node is touched. With --rate no latency is hidden: an operation's counts from the moment at which it was due, so a
 * server that stalls delays all that was due meanwhile, as it would in production. Memory does not grow with time.
 */
#include "cli/bench/bench.h"

#include "cli/common/connection.h"
#include "cli/common/values.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { WEIGHT_MAX = 1000000 };

static const struct option_row ROWS[] = {
    {"mix", 0, OPTION_STRING, offsetof(struct bench_options, mix), "OP=N,...",
     "What is done, and how often: get, exists, set, create, children, multi, watch, lock; default "
     "get=80,set=20."},
    {"rate", 0, OPTION_INTEGER, offsetof(struct bench_options, rate), "N",
     "Begin N operations per second, whatever the servers do. Without it: as fast as they answer."},
    {"sessions", 0, OPTION_INTEGER, offsetof(struct bench_options, sessions), "N",
     "Sessions, spread evenly over the servers; default 8."},
    {"outstanding", 0, OPTION_INTEGER, offsetof(struct bench_options, outstanding), "N",
     "Operations that one session has under way at a time; default 1."},
    {"data", 0, OPTION_INTEGER, offsetof(struct bench_options, data_bytes), "BYTES",
     "Data of each node; default 100."},
    {"nodes", 0, OPTION_INTEGER, offsetof(struct bench_options, nodes), "N",
     "Nodes that are read and written; default 1000."},
    {"warm-up", 0, OPTION_DURATION, offsetof(struct bench_options, warm_up_ms), "TIME",
     "Time before it counts; default 2s."},
    {"duration", 0, OPTION_DURATION, offsetof(struct bench_options, duration_ms), "TIME",
     "Time that counts; default 10s."},
    {"parent", 0, OPTION_STRING, offsetof(struct bench_options, parent), "PATH",
     "The node to make, with everything below it; default /conclave-bench-HOST:PID-RANDOM."},
    {"keep", 0, OPTION_FLAG, offsetof(struct bench_options, keep), NULL,
     "Leave the nodes at the end."},
    {"progress", 0, OPTION_FLAG, offsetof(struct bench_options, progress), NULL,
     "A line per second on stderr, also where that is no terminal."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "bench",
    .forms = (const char *const[]){"[SERVERS] [options]", NULL},
    .about =
        "Measures any ZooKeeper server, ours or Apache's: throughput, latencies and errors of a mix "
        "of operations. SERVERS is the same as --server.\n"
        "\n"
        "With --rate, an operation's latency counts from the moment at which it was due. So a "
        "server that stalls for a second delays all that was due in it, and the percentiles show "
        "it. Without --rate each session waits for its answers before it asks again: this measures "
        "throughput, and hides stalls.\n"
        "\n"
        "Everything is below one node that the command makes and removes, also after Ctrl-C.",
    .rows = ROWS,
    .more =
        "With --json: {\"loop\",\"rate\",\"sessions\",\"outstanding\",\"servers\",\"nodes\",\n"
        "\"data_bytes\",\"seconds\",\"operations\":[{\"name\",\"count\",\"per_second\",\"p50_us\",\n"
        "\"p90_us\",\"p99_us\",\"p999_us\",\"max_us\",\"errors\"}],\"total\",\"unfinished\",\n"
        "\"errors\":{NAME:N},\"requests\",\"set_up_requests\",\"parent\"}.\n"
        "\n"
        "Exit codes: 0 no errors, 1 some operations failed, 128 + signal after a signal.\n",
    .client = true,
    .operands = {0, 1},
};

/* "get=80,set" into the weights. False: it is malformed, and the error was printed. */
static bool mix_parse(struct bench *b, const char *text)
{
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, ",");
        size_t name = strcspn(at, "=,");
        char number[16] = "1";
        int64_t weight = 0;
        size_t row = 0;
        while (row < BENCH_MIXED &&
               (strlen(BENCH_NAMES[row]) != name || memcmp(BENCH_NAMES[row], at, name) != 0)) {
            row++;
        }
        if (name < len) {
            snprintf(number, sizeof number, "%.*s", (int)(len - name - 1), at + name + 1);
        }
        if (row == BENCH_MIXED || !integer_parse(number, 0, WEIGHT_MAX, &weight)) {
            usage_error(
                &USAGE,
                "--mix: \"%.*s\": want OPERATION=N with get, exists, set, create, children, "
                "multi, watch or lock",
                (int)len, at);
            return false;
        }
        b->weights_total += (unsigned)weight;
        b->weights[row] += (unsigned)weight;
        at += len + (at[len] == ',');
    }
    if (b->weights_total == 0) {
        usage_error(&USAGE, "--mix names no operation");
    }
    return b->weights_total > 0;
}

static int check_values(const struct bench_options *o)
{
    const struct usage_rule rules[] = {
        {o->sessions < 1 || o->sessions > BENCH_SESSIONS_MAX, "--sessions wants 1 to 4096"},
        {o->outstanding < 1 || o->outstanding > BENCH_OUTSTANDING_MAX,
         "--outstanding wants 1 to 4096"},
        {o->sessions * o->outstanding > BENCH_SLOTS_MAX,
         "--sessions times --outstanding may be at most 100000"},
        {o->data_bytes < 0 || o->data_bytes > BENCH_DATA_MAX, "--data wants 0 to 1000000"},
        {o->nodes < 1 || o->nodes > BENCH_NODES_MAX, "--nodes wants 1 to 1000000"},
        {o->rate < 0 || o->rate > 10000000, "--rate wants at most 10000000"},
        {o->duration_ms < 1, "--duration wants a time"},
        {o->parent != NULL && (strlen(o->parent) >= BENCH_PARENT_MAX || o->parent[1] == '\0'),
         "--parent wants a path of at most 99 bytes, and not the root"},
        {false, NULL},
    };
    if (o->parent != NULL) {
        int code = path_check(&USAGE, o->parent);
        if (code != OPTIONS_GO_ON) {
            return code;
        }
    }
    return usage_check(&USAGE, rules);
}

static void servers_free(struct bench *b)
{
    for (size_t i = 0; i < b->n_servers; i++) {
        free(b->servers[i]);
    }
    free(b->servers);
}

/* Each server by itself, with the chroot, so that the sessions spread evenly and stay. */
static int servers_split(struct bench *b)
{
    struct conclave_server_list *list = NULL;
    int code = connection_servers(USAGE.name, &b->options->common, &list);
    if (code != 0) {
        return code;
    }
    b->servers = calloc(list->count + 1, sizeof *b->servers);
    for (size_t i = 0; b->servers != NULL && i < list->count; i++) {
        size_t len = strlen(list->addresses[i]) + strlen(list->chroot) + 1;
        b->servers[i] = malloc(len);
        if (b->servers[i] == NULL) {
            break;
        }
        snprintf(b->servers[i], len, "%s%s", list->addresses[i], list->chroot);
        b->n_servers++;
    }
    code = b->n_servers == list->count && b->n_servers > 0
               ? 0
               : fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    conclave_server_list_free(list);
    return code;
}

/* The name of the parent, and what the nodes hold. */
static bool prepare(struct bench *b)
{
    char own[HOST_PID_MAX];
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) {
        number = (uint32_t)bench_now_us();
    }
    b->random = UINT64_C(88172645463325252) ^ number;
    if (b->options->parent != NULL) {
        snprintf(b->parent, sizeof b->parent, "%s", b->options->parent);
    } else {
        snprintf(b->parent, sizeof b->parent, "/conclave-bench-%.60s-%08x", host_pid_text(own),
                 number);
    }
    b->data = malloc((size_t)b->options->data_bytes + 1);
    if (b->data != NULL) {
        memset(b->data, 'x', (size_t)b->options->data_bytes);
    }
    return b->data != NULL;
}

static uint64_t errors_of(const struct bench *b)
{
    uint64_t errors = b->unfinished;
    for (int i = 0; i < BENCH_ROWS; i++) {
        errors += b->rows[i].errors;
    }
    return errors;
}

static int bench_measure(struct bench *b)
{
    struct waiter w;
    int number = 0;
    int error = waiter_init(&w, WAITER_END_SIGNALS, false);
    if (error != 0) {
        return fail(USAGE.name, NULL, error);
    }
    int code = bench_make_nodes(b);
    if (code == 0) {
        code = bench_run(b, w.signal_fd, &number);
    }
    if (code == 0 && (number == 0 || b->measured_us > 0)) {
        error = bench_report(b);
        code = error != 0 ? fail(USAGE.name, NULL, error) : errors_of(b) > 0 ? CLI_EXIT_FAILED : 0;
    }
    int removed = b->options->keep ? 0 : bench_remove_nodes(b);
    waiter_finish(&w);
    return code == 0 && removed != 0 ? removed : number != 0 ? 128 + number : code;
}

int command_bench(int argc, char **argv)
{
    struct bench_options options = {.common = COMMON_OPTIONS_INIT,
                                    .mix = "get=80,set=20",
                                    .sessions = 8,
                                    .outstanding = 1,
                                    .data_bytes = 100,
                                    .nodes = 1000,
                                    .warm_up_ms = 2000,
                                    .duration_ms = 10000};
    struct operands operands;
    struct bench *b = calloc(1, sizeof *b);
    int code = b != NULL ? options_parse(&USAGE, argc, argv, &options, &operands)
                         : fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    if (code != OPTIONS_GO_ON) {
        free(b);
        return code;
    }
    if (operands.count > 0) {
        options.common.server = operands.words[0];
    }
    options.progress = options.progress || isatty(STDERR_FILENO) == 1;
    b->options = &options;
    b->epoll_fd = -1;
    code = check_values(&options);
    if (code == OPTIONS_GO_ON) {
        code = mix_parse(b, options.mix) ? servers_split(b) : CLI_EXIT_USAGE;
    }
    if (code == 0) {
        code = prepare(b) ? bench_measure(b) : fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    servers_free(b);
    free(b->data);
    free(b);
    return output_end(USAGE.name, code);
}
