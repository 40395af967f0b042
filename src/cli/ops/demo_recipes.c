/* The demo's short scenes: a lock, a queue, a configuration, each by the command of that name. */
#include "cli/ops/demo.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 3, JOBS = 3, CONSUMERS = 2, READERS = 2, NAME_MAX_LEN = 32 };

/* `conclave WORDS --server ADDRESS OPTION NAME -- sh -c SCRIPT NAME`, running. */
static void start_named(struct stage *s, char *command, char *verb, char *path, char *option,
                        const char *kind, int number, const char *script)
{
    char name[NAME_MAX_LEN];
    char *argv[16];
    int n = 0;
    snprintf(name, sizeof name, "%s-%d", kind, number);
    argv[n++] = "conclave";
    argv[n++] = command;
    if (verb != NULL) {
        argv[n++] = verb;
    }
    argv[n++] = path;
    argv[n++] = "--server";
    argv[n++] = s->address;
    argv[n++] = option;
    argv[n++] = name;
    if (strcmp(command, "queue") == 0) {
        argv[n++] = "--follow";
    }
    argv[n++] = "--";
    argv[n++] = "sh";
    argv[n++] = "-c";
    argv[n++] = (char *)script;
    argv[n++] = name;
    argv[n] = NULL;
    (void)stage_start(s, argv);
}

/* --- lock ------------------------------------------------------------------------------------- */

#define LOCK_PATH "/demo/lock"

static const char LOCK_SCRIPT[] =
    "echo \"in $0 $CONCLAVE_TOKEN\"; sleep 0.1; echo \"out $0 $CONCLAVE_TOKEN\"";

/* One process works under the lock: no other may print between its first and last line. */
static void lock_turn(struct stage *s, const char *before, int64_t *token, int64_t *out_ns,
                      char *ret_name)
{
    const char *words[3];
    s->step = "hold the lock one at a time";
    stage_hear(s, "in", words, 3);
    int64_t mine = stage_number(s, words[2]);
    snprintf(ret_name, NAME_MAX_LEN, "%.*s", NAME_MAX_LEN - 1, words[1]);
    if (mine <= *token) {
        stage_failed(s, "%s got token %" PRId64 " after %" PRId64, ret_name, mine, *token);
    }
    if (before[0] == '\0') {
        stage_say(s, "lock: %s works, token %" PRId64, ret_name, mine);
    } else {
        stage_say(s, "lock: %s is done; %s works %.3fs later, token %" PRId64 " > %" PRId64, before,
                  ret_name, stage_seconds_since(*out_ns), mine, *token);
    }
    *token = mine;
    stage_hear(s, NULL, words, 3);
    if (strcmp(words[0], "out") != 0 || strcmp(words[1], ret_name) != 0) {
        stage_failed(s, "%s spoke while %s had the lock", words[1], ret_name);
    }
    *out_ns = stage_now_ns();
}

void demo_lock(struct stage *s)
{
    char name[NAME_MAX_LEN] = "";
    char before[NAME_MAX_LEN] = "";
    int64_t token = 0;
    int64_t out_ns = 0;
    s->step = "start three workers";
    stage_say(s, "lock: three processes want to work under " LOCK_PATH " at the same time");
    for (int i = 1; i <= WORKERS; i++) {
        start_named(s, "lock", NULL, LOCK_PATH, "--id", "worker", i, LOCK_SCRIPT);
    }
    for (int i = 0; i < WORKERS; i++) {
        lock_turn(s, before, &token, &out_ns, name);
        memcpy(before, name, sizeof before);
    }
    stage_say(s, "lock: %s is done; never were two at work", name);
    stage_end_all(s);
}

/* --- queue ------------------------------------------------------------------------------------ */

#define QUEUE_PATH "/demo/queue"

/* The first try of the first job never comes to its end. */
static const char QUEUE_SCRIPT[] = "read -r job; [ \"$job $CONCLAVE_ATTEMPT\" != 'job-1 1' ] || "
                                   "{ echo \"takes $0 $$ $job\"; exec sleep 60; }; sleep 0.05; "
                                   "echo \"done $0 $CONCLAVE_ATTEMPT $job\"";

static void queue_kill(struct stage *s)
{
    const char *words[4];
    s->step = "take a job";
    stage_hear(s, "takes", words, 4);
    int64_t pid = stage_number(s, words[2]);
    if (s->code == 0) {
        kill((pid_t)pid, SIGKILL);
    }
    stage_say(s, "queue: %s takes %s, and the process that works on it is killed with -9", words[1],
              words[3]);
}

/* True when the killed job was done at its second attempt. */
static bool queue_done(struct stage *s)
{
    const char *words[4];
    s->step = "do all jobs";
    stage_hear(s, "done", words, 4);
    if (strcmp(words[2], "1") == 0) {
        stage_say(s, "queue: %s has done %s", words[1], words[3]);
        return false;
    }
    stage_say(s, "queue: %s has done %s at attempt %s: it was not lost", words[1], words[3],
              words[2]);
    return strcmp(words[2], "2") == 0 && strcmp(words[3], "job-1") == 0;
}

void demo_queue(struct stage *s)
{
    bool again = false;
    s->step = "put three jobs";
    for (int i = 1; i <= JOBS; i++) {
        char job[NAME_MAX_LEN];
        snprintf(job, sizeof job, "job-%d", i);
        char *argv[] = {"conclave", "queue", "put", QUEUE_PATH, job, "--server", s->address, NULL};
        stage_expect_end(s, stage_start(s, argv), "queue put");
    }
    stage_say(s, "queue: three jobs are put into " QUEUE_PATH ", two consumers take them");
    for (int i = 1; i <= CONSUMERS; i++) {
        start_named(s, "queue", "take", QUEUE_PATH, "--id", "consumer", i, QUEUE_SCRIPT);
    }
    queue_kill(s);
    for (int i = 0; i < JOBS; i++) {
        again |= queue_done(s);
    }
    if (!again) {
        stage_failed(s, "job-1 was not handed out again");
    }
    stage_end_all(s);
}

/* --- config ----------------------------------------------------------------------------------- */

#define CONFIG_PATH "/demo/config"

static const char CONFIG_SCRIPT[] = "echo \"runs $0 $CONCLAVE_MZXID $(cat \"$CONCLAVE_FILE\")\"";

static pid_t config_put(struct stage *s, char *value)
{
    char *argv[] = {"conclave", "config", "put", CONFIG_PATH, value, "--server", s->address, NULL};
    return stage_start(s, argv);
}

/* All readers run with this value; the number of its change. */
static int64_t config_reached(struct stage *s, const char *value)
{
    const char *words[4];
    int64_t change = 0;
    for (int i = 0; i < READERS; i++) {
        stage_hear(s, "runs", words, 4);
        if (strcmp(words[3], value) != 0) {
            stage_failed(s, "%s runs with %s, not with %s", words[1], words[3], value);
        }
        change = stage_number(s, words[2]);
    }
    return change;
}

static void config_acknowledged(struct stage *s, int64_t change)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, change);
    char *argv[] = {"conclave",   "config", "ack",      CONFIG_PATH, number,
                    "--at-least", "2",      "--server", s->address,  NULL};
    s->step = "have the change acknowledged";
    stage_expect_end(s, stage_start(s, argv), "config ack");
    stage_say(s, "config: both have acknowledged change %" PRId64 "; a roll-out may go on", change);
}

void demo_config(struct stage *s)
{
    s->step = "watch a value";
    stage_expect_end(s, config_put(s, "colour=blue"), "config put");
    for (int i = 1; i <= READERS; i++) {
        start_named(s, "config", "watch", CONFIG_PATH, "--ack", "reader", i, CONFIG_SCRIPT);
    }
    (void)config_reached(s, "colour=blue");
    stage_say(s, "config: two readers watch " CONFIG_PATH ", both run with colour=blue");
    s->step = "push a change to all readers";
    int64_t put_ns = stage_now_ns();
    pid_t pid = config_put(s, "colour=green");
    int64_t change = config_reached(s, "colour=green");
    stage_say(s, "config: colour=green is put; both run with it %.3fs later",
              stage_seconds_since(put_ns));
    stage_expect_end(s, pid, "config put");
    config_acknowledged(s, change);
    stage_end_all(s);
}
