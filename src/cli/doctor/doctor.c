/*
 * conclave doctor: looks a server and its ensemble over, and says what is wrong, where, and what to do.
 *
 * Promise: it changes nothing. It reads files, binds free ports for a moment, connects to others, and writes 8 MiB to a
 * nameless file beside the data, for at most a few seconds. It needs no running server, and disturbs none.
 */
#define _GNU_SOURCE /* asprintf */
#include "cli/doctor/doctor.h"

#include "cli/common/connection.h"
#include "replication/disk/folder_check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WAIT_MS = 3000,
    SLOW_SYNC_MS = 20,
    MIN_FREE_MIB = 1024,
    CERT_DAYS = 30,
    STEP_MS = 200,
    EXIT_WARNINGS = 1,
    EXIT_PROBLEMS = 2,
};

static const struct option_row ROWS[] = {
    {"data", 0, OPTION_STRING, offsetof(struct doctor_options, data), "DIR",
     "The data folder, as that of conclave server."},
    {"key", 0, OPTION_ADD, offsetof(struct doctor_options, keys), "KEY=VALUE",
     "A key as on the command line of conclave server. Can be given several times."},
    {"slow-sync", 0, OPTION_DURATION, offsetof(struct doctor_options, slow_sync_ms), "TIME",
     "Warn of a disk whose median sync takes longer; default 20ms."},
    {"min-free", 0, OPTION_INTEGER, offsetof(struct doctor_options, min_free_mib), "MIB",
     "Space that must be free on the disk of the data; default 1024."},
    {"days", 0, OPTION_INTEGER, offsetof(struct doctor_options, days), "N",
     "Warn of certificates that end within so many days; default 30."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "doctor",
    .forms = (const char *const[]){"[zoo.cfg] [--data DIR] [--key KEY=VALUE]... [options]",
                                   "--server HOSTS [options]", NULL},
    .about =
        "Looks a server and its ensemble over: configuration, files, certificates, disk, limits, "
        "names, ports, clocks, versions, data. Says for each finding what is wrong, where, and "
        "what to do. Changes nothing; the server may run or not.\n"
        "\n"
        "Without a file, --data, --key and --server it looks at the server that conclave server "
        "starts without arguments. With --server alone it asks these servers and those that they "
        "name, and looks at nothing on this machine.",
    .rows = ROWS,
    .more = "With --json: {\"verdict\":V,\"problems\":N,\"warnings\":N,\"notes\":N,\"findings\":\n"
            "[{\"name\",\"level\",\"where\",\"what\",\"do\"}],\"disk\":{\"sync_median_us\",\n"
            "\"sync_max_us\",\"write_kib_s\"}}; V is \"ok\", \"warnings\" or \"problems\".\n"
            "\n"
            "Exit codes: 0 nothing, or only notes; 1 warnings; 2 problems; 64 wrong arguments.\n",
    .client = true,
    .operands = {0, 1},
};

static int64_t clock_ms(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Looks at this machine. Without memory for the words it looks at nothing. */
static void look_here(struct doctor *d, const char *file)
{
    const struct doctor_options *o = d->options;
    size_t n = 0;
    char *words[OPTION_LIST_MAX + 4] = {"server"};
    char *made[OPTION_LIST_MAX + 1] = {NULL};
    size_t n_made = 0;
    n = 1;
    if (file != NULL) {
        words[n++] = (char *)(uintptr_t)file;
    }
    if (o->data != NULL) {
        n_made += asprintf(&made[n_made], "--data=%s", o->data) > 0;
    }
    for (size_t i = 0; i < o->keys.count; i++) {
        n_made += asprintf(&made[n_made], "--%s", o->keys.items[i].text) > 0;
    }
    for (size_t i = 0; i < n_made; i++) {
        words[n++] = made[i];
    }
    assert(n <= sizeof words / sizeof words[0]);
    bool valid = doctor_config(d, (int)n, words);
    for (size_t i = 0; i < n_made; i++) {
        free(made[i]);
    }
    doctor_secrets(d);
    if (!valid) {
        return;
    }
    d->owner = folder_check_owner(d->config->options.data_dir);
    doctor_certificates(d);
    doctor_folder(d);
    doctor_import(d);
    doctor_disk(d);
    doctor_limits(d);
    doctor_hosts(d);
    doctor_ports(d);
}

static const char *verdict_of(const struct doctor *d, int *ret_code)
{
    bool problems = findings_of_level(&d->findings, FINDING_PROBLEM) > 0;
    bool warnings = findings_of_level(&d->findings, FINDING_WARNING) > 0;
    *ret_code = problems ? EXIT_PROBLEMS : warnings ? EXIT_WARNINGS : 0;
    assert(problems || warnings ||
           findings_of_level(&d->findings, FINDING_NOTE) == d->findings.count);
    return problems ? "problems" : warnings ? "warnings" : "ok";
}

static int doctor_json(struct doctor *d, const char *verdict)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "verdict", verdict);
    json_member_uint(&j, "problems", findings_of_level(&d->findings, FINDING_PROBLEM));
    json_member_uint(&j, "warnings", findings_of_level(&d->findings, FINDING_WARNING));
    json_member_uint(&j, "notes", findings_of_level(&d->findings, FINDING_NOTE));
    findings_json(&d->findings, &j);
    json_key(&j, "disk");
    if (d->disk.measured) {
        json_object_begin(&j);
        json_member_int(&j, "sync_median_us", d->disk.sync_median_us);
        json_member_int(&j, "sync_max_us", d->disk.sync_max_us);
        json_member_int(&j, "write_kib_s", d->disk.write_kib_s);
        json_object_end(&j);
    } else {
        json_null(&j);
    }
    return json_line_print(&j, stdout);
}

static void doctor_print(struct doctor *d, const char *verdict)
{
    findings_print(&d->findings);
    if (d->disk.measured) {
        printf("disk: a sync takes %.2f ms (median), %.2f ms at most; %" PRId64 " MiB/s\n",
               (double)d->disk.sync_median_us / 1000, (double)d->disk.sync_max_us / 1000,
               d->disk.write_kib_s / 1024);
    }
    printf("%s: %zu problems, %zu warnings, %zu notes\n", verdict,
           findings_of_level(&d->findings, FINDING_PROBLEM),
           findings_of_level(&d->findings, FINDING_WARNING),
           findings_of_level(&d->findings, FINDING_NOTE));
}

static int look_over(struct doctor *d, const char *file)
{
    int64_t wall = clock_ms(CLOCK_REALTIME);
    int64_t steady = clock_ms(CLOCK_MONOTONIC);
    if (d->config != NULL) {
        look_here(d, file);
    }
    int code = doctor_members(d);
    if (code != 0) {
        return code;
    }
    if (d->config != NULL && d->config->error == NULL) {
        doctor_peers(d);
    }
    int64_t step = clock_ms(CLOCK_REALTIME) - wall - (clock_ms(CLOCK_MONOTONIC) - steady);
    if (step > STEP_MS || step < -STEP_MS) {
        finding_add(&d->findings, FOUND_CLOCK_STEPPED, "this machine",
                    "while this ran, its clock was set by %" PRId64 " ms", step);
    }
    if (d->findings.failed) {
        return fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    const char *verdict = verdict_of(d, &code);
    int error = 0;
    if (d->options->common.json) {
        error = doctor_json(d, verdict);
    } else {
        doctor_print(d, verdict);
    }
    return error != 0 ? fail(USAGE.name, NULL, error) : code;
}

int command_doctor(int argc, char **argv)
{
    struct doctor_options options = {.common = COMMON_OPTIONS_INIT,
                                     .slow_sync_ms = SLOW_SYNC_MS,
                                     .min_free_mib = MIN_FREE_MIB,
                                     .days = CERT_DAYS};
    struct operands operands;
    struct zoo_cfg config;
    struct doctor d = {.options = &options};
    options.common.timeout_ms = WAIT_MS;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    for (size_t i = 0; i < options.keys.count; i++) {
        if (strchr(options.keys.items[i].text, '=') == NULL) {
            return usage_error(&USAGE, "--key wants KEY=VALUE, not \"%s\"",
                               options.keys.items[i].text);
        }
    }
    bool here = operands.count > 0 || options.data != NULL || options.keys.count > 0 ||
                options.common.server == NULL;
    zoo_cfg_init(&config);
    d.config = here ? &config : NULL;
    d.file = operands.count > 0 ? operands.words[0] : NULL;
    code = look_over(&d, d.file);
    findings_finish(&d.findings);
    zoo_cfg_finish(&config);
    return output_end(USAGE.name, code);
}
