/*
 * sim: runs simulations with the seeds from N on. Exit code 1 and a line per seed when a promise was broken;
 * the same seed gives the same run, which --twice compares. --plants shows that faults are noticed.
 */
#include "sim/sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLANT_SEEDS = 300 };

static uint64_t seed_now;

static void on_abort(int signal_number)
{
    char line[64];
    int n = snprintf(line, sizeof line, "seed %" PRIu64 ": the program ended by signal %d\n",
                     seed_now, signal_number);
    (void)!write(STDOUT_FILENO, line, (size_t)n);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int usage(void)
{
    fprintf(stderr, "usage: sim [--seed N] [--count K] [--members 1..5] [--seconds S] [--twice] "
                    "[--plant NAME | --plants] [--verbose]\n");
    return 64;
}

struct choice {
    struct sim_options options;
    uint64_t count;
    bool twice;
    bool plants;
};

static bool read_number(struct choice *ret, const char *name, const char *value)
{
    char *end;
    uint64_t number = strtoull(value, &end, 10);
    if (*value == '\0' || *end != '\0') {
        return false;
    }
    if (strcmp(name, "--seed") == 0) {
        ret->options.seed = number;
    } else if (strcmp(name, "--count") == 0) {
        ret->count = number;
    } else if (strcmp(name, "--members") == 0 && number >= 1 && number <= MACHINES_MAX) {
        ret->options.members = (unsigned)number;
    } else if (strcmp(name, "--seconds") == 0 && number >= 1) {
        ret->options.seconds = (int64_t)number;
    } else {
        return false;
    }
    return true;
}

static bool read_options(int argc, char **argv, struct choice *ret)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--verbose") == 0) {
            ret->options.verbose = true;
        } else if (strcmp(name, "--twice") == 0) {
            ret->twice = true;
        } else if (strcmp(name, "--plants") == 0) {
            ret->plants = true;
        } else if (i + 1 == argc) {
            return false;
        } else if (strcmp(name, "--plant") == 0) {
            if (!plant_parse(argv[++i], &ret->options.plant)) {
                return false;
            }
        } else if (!read_number(ret, name, argv[++i])) {
            return false;
        }
    }
    return true;
}

static void run_one(const struct choice *choice, struct sim_result *ret)
{
    seed_now = choice->options.seed;
    sim_run(&choice->options, ret);
    if (choice->options.verbose) {
        printf("trace %016" PRIx64 ", %" PRIu64 " events\n", ret->trace, ret->events);
    }
    if (choice->twice) {
        uint64_t trace = ret->trace;
        sim_run(&choice->options, ret);
        if (ret->trace != trace) {
            snprintf(ret->violation, sizeof ret->violation,
                     "two runs differ: %016" PRIx64 " and %016" PRIx64, trace, ret->trace);
        }
    }
}

/* A planted fault that ends a run by an assertion is noticed as well. */
static bool is_noticed(const struct choice *choice, struct sim_result *ret)
{
    int fds[2];
    if (pipe(fds) != 0) {
        exit(70);
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        run_one(choice, ret);
        (void)!write(fds[1], ret, sizeof *ret);
        _exit(0);
    }
    close(fds[1]);
    if (pid < 0 || read(fds[0], ret, sizeof *ret) != (ssize_t)sizeof *ret) {
        snprintf(ret->violation, sizeof ret->violation, "an assertion of the program itself");
    }
    close(fds[0]);
    (void)waitpid(pid, NULL, 0);
    return ret->violation[0] != '\0';
}

/* Each fault in turn, with seed after seed until one notices it. */
static int run_plants(struct choice choice)
{
    struct sim_result result;
    unsigned passed = 0;
    uint64_t first = choice.options.seed;
    for (int plant = PLANT_NONE + 1; plant < PLANT_COUNT; plant++) {
        choice.options.plant = (enum plant)plant;
        choice.options.seed = first;
        while (!is_noticed(&choice, &result) && choice.options.seed < first + PLANT_SEEDS) {
            choice.options.seed++;
        }
        bool noticed = result.violation[0] != '\0';
        passed += noticed;
        printf("%s %s (%s): seed %" PRIu64 ": %s\n", noticed ? "ok" : "NOT NOTICED",
               plant_name(choice.options.plant), plant_rule(choice.options.plant),
               choice.options.seed, result.violation);
    }
    printf("%u passed, %u failed\n", passed, PLANT_COUNT - 1 - passed);
    return passed < PLANT_COUNT - 1;
}

static int run_seeds(struct choice choice)
{
    struct sim_result result;
    uint64_t failed = 0;
    uint64_t events = 0;
    uint64_t acknowledged = 0;
    int64_t us = 0;
    for (uint64_t i = 0; i < choice.count; i++) {
        run_one(&choice, &result);
        if (result.violation[0] != '\0') {
            printf("seed %" PRIu64 ": %s\n", choice.options.seed, result.violation);
            failed++;
        }
        events += result.events;
        acknowledged += result.acknowledged;
        us += result.end_us;
        choice.options.seed++;
    }
    printf("%" PRIu64 " events in %" PRId64 " virtual minutes, %" PRIu64 " writes acknowledged\n",
           events, us / SECOND / 60, acknowledged);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", choice.count - failed, failed);
    return failed > 0;
}

int main(int argc, char **argv)
{
    struct choice choice = {.options = {.seed = 1}, .count = 1};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!read_options(argc, argv, &choice)) {
        return usage();
    }
    if (choice.plants) {
        return run_plants(choice);
    }
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    return run_seeds(choice);
}
