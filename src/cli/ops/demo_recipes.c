/* The demo's short scenes: a lock, a queue, a configuration, each by the command of that name. */
#include "cli/ops/demo.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 3, JOBS = 3, CONSUMERS = 2, READERS = 2, NAME_MAX_LEN = 32 };

/* `conclave WORDS --server ADDRESS OPTION NAME -- sh -c SCRIPT NAME`, running. */
static int start_named(struct stage *s, char *command, char *verb, char *path, char *option,
                       const char *kind, int number, const char *script)
{
    char name[NAME_MAX_LEN];
    char *argv[16];
    int n = 0;
    pid_t pid = 0;
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
    return stage_start(s, argv, &pid);
}

/* --- lock ------------------------------------------------------------------------------------- */

#define LOCK_PATH "/demo/lock"

static const char LOCK_SCRIPT[] =
    "echo \"in $0 $CONCLAVE_TOKEN\"; sleep 0.1; echo \"out $0 $CONCLAVE_TOKEN\"";

/* One works under the lock: nobody else may speak between its first and its last word. */
static int lock_turn(struct stage *s, const char *before, int64_t *token, int64_t *out_ns,
                     char *ret_name)
{
    const char *words[3];
    int64_t mine = 0;
    s->step = "hold the lock one at a time";
    int code = stage_hear(s, "in", words, 3);
    if (code == 0) {
        code = stage_number(s, words[2], &mine);
    }
    if (code != 0) {
        return code;
    }
    snprintf(ret_name, NAME_MAX_LEN, "%.*s", NAME_MAX_LEN - 1, words[1]);
    if (mine <= *token) {
        return stage_failed(s, "%s got token %" PRId64 " after %" PRId64, ret_name, mine, *token);
    }
    if (before[0] == '\0') {
        stage_say(s, "lock: %s works, token %" PRId64, ret_name, mine);
    } else {
        stage_say(s, "lock: %s is done; %s works %.3fs later, token %" PRId64 " > %" PRId64, before,
                  ret_name, stage_seconds_since(*out_ns), mine, *token);
    }
    *token = mine;
    code = stage_hear(s, NULL, words, 3);
    if (code == 0 && (strcmp(words[0], "out") != 0 || strcmp(words[1], ret_name) != 0)) {
        code = stage_failed(s, "%s spoke while %s had the lock", words[1], ret_name);
    }
    *out_ns = stage_now_ns();
    return code;
}

int demo_lock(struct stage *s)
{
    char name[NAME_MAX_LEN] = "";
    char before[NAME_MAX_LEN] = "";
    int64_t token = 0;
    int64_t out_ns = 0;
    int code = 0;
    s->step = "start three workers";
    stage_say(s, "lock: three processes want to work under " LOCK_PATH " at the same time");
    for (int i = 1; i <= WORKERS && code == 0; i++) {
        code = start_named(s, "lock", NULL, LOCK_PATH, "--id", "worker", i, LOCK_SCRIPT);
    }
    for (int i = 0; i < WORKERS && code == 0; i++) {
        code = lock_turn(s, before, &token, &out_ns, name);
        memcpy(before, name, sizeof before);
    }
    if (code == 0) {
        stage_say(s, "lock: %s is done; never were two at work", name);
    }
    stage_end_all(s);
    return code;
}

/* --- queue ------------------------------------------------------------------------------------ */

#define QUEUE_PATH "/demo/queue"

/* The first try of the first job never comes to its end. */
static const char QUEUE_SCRIPT[] = "read -r job; [ \"$job $CONCLAVE_ATTEMPT\" != 'job-1 1' ] || "
                                   "{ echo \"takes $0 $$ $job\"; exec sleep 60; }; sleep 0.05; "
                                   "echo \"done $0 $CONCLAVE_ATTEMPT $job\"";

static int queue_kill(struct stage *s)
{
    const char *words[4];
    int64_t pid = 0;
    s->step = "take a job";
    int code = stage_hear(s, "takes", words, 4);
    if (code == 0) {
        code = stage_number(s, words[2], &pid);
    }
    if (code == 0) {
        kill((pid_t)pid, SIGKILL);
        stage_say(s, "queue: %s takes %s, and the process that works on it is killed with -9",
                  words[1], words[3]);
    }
    return code;
}

static int queue_done(struct stage *s, bool *again)
{
    const char *words[4];
    s->step = "do all jobs";
    int code = stage_hear(s, "done", words, 4);
    if (code == 0 && strcmp(words[2], "1") == 0) {
        stage_say(s, "queue: %s has done %s", words[1], words[3]);
    } else if (code == 0) {
        *again = strcmp(words[2], "2") == 0 && strcmp(words[3], "job-1") == 0;
        stage_say(s, "queue: %s has done %s at attempt %s: it was not lost", words[1], words[3],
                  words[2]);
    }
    return code;
}

int demo_queue(struct stage *s)
{
    bool again = false;
    int code = 0;
    s->step = "put three jobs";
    for (int i = 1; i <= JOBS && code == 0; i++) {
        char job[NAME_MAX_LEN];
        snprintf(job, sizeof job, "job-%d", i);
        char *argv[] = {"conclave", "queue", "put", QUEUE_PATH, job, "--server", s->address, NULL};
        code = stage_run(s, argv);
    }
    if (code == 0) {
        stage_say(s, "queue: three jobs are put into " QUEUE_PATH ", two consumers take them");
    }
    for (int i = 1; i <= CONSUMERS && code == 0; i++) {
        code = start_named(s, "queue", "take", QUEUE_PATH, "--id", "consumer", i, QUEUE_SCRIPT);
    }
    if (code == 0) {
        code = queue_kill(s);
    }
    for (int i = 0; i < JOBS && code == 0; i++) {
        code = queue_done(s, &again);
    }
    if (code == 0 && !again) {
        code = stage_failed(s, "job-1 was not handed out again");
    }
    stage_end_all(s);
    return code;
}

/* --- config ----------------------------------------------------------------------------------- */

#define CONFIG_PATH "/demo/config"

static const char CONFIG_SCRIPT[] = "echo \"runs $0 $CONCLAVE_MZXID $(cat \"$CONCLAVE_FILE\")\"";

static int config_put(struct stage *s, char *value, pid_t *ret_pid)
{
    char *argv[] = {"conclave", "config", "put", CONFIG_PATH, value, "--server", s->address, NULL};
    return stage_start(s, argv, ret_pid);
}

/* All readers run with this value, by the number of its change. */
static int config_reached(struct stage *s, const char *value, int64_t *ret_change)
{
    const char *words[4];
    int code = 0;
    for (int i = 0; i < READERS && code == 0; i++) {
        code = stage_hear(s, "runs", words, 4);
        if (code == 0 && strcmp(words[3], value) != 0) {
            code = stage_failed(s, "%s runs with %s, not with %s", words[1], words[3], value);
        }
        code = code == 0 ? stage_number(s, words[2], ret_change) : code;
    }
    return code;
}

static int config_ended(struct stage *s, pid_t pid)
{
    int code = stage_reap(s, pid, STAGE_STEP_TIMEOUT_MS);
    return code == 0 ? 0 : stage_failed(s, "\"conclave config\" ended with %d", code);
}

static int config_push(struct stage *s, int64_t *ret_change)
{
    pid_t pid = 0;
    s->step = "push a change to all readers";
    int64_t put_ns = stage_now_ns();
    int code = config_put(s, "colour=green", &pid);
    if (code == 0) {
        code = config_reached(s, "colour=green", ret_change);
    }
    if (code == 0) {
        stage_say(s, "config: colour=green is put; both run with it %.3fs later",
                  stage_seconds_since(put_ns));
        code = config_ended(s, pid);
    }
    return code;
}

static int config_acknowledged(struct stage *s, int64_t change)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, change);
    char *argv[] = {"conclave",   "config", "ack",      CONFIG_PATH, number,
                    "--at-least", "2",      "--server", s->address,  NULL};
    s->step = "have the change acknowledged";
    int code = stage_run(s, argv);
    if (code == 0) {
        stage_say(s, "config: both have acknowledged change %" PRId64 "; a roll-out may go on",
                  change);
    }
    return code;
}

int demo_config(struct stage *s)
{
    pid_t pid = 0;
    int64_t change = 0;
    s->step = "watch a value";
    int code = config_put(s, "colour=blue", &pid);
    if (code == 0) {
        code = config_ended(s, pid);
    }
    for (int i = 1; i <= READERS && code == 0; i++) {
        code = start_named(s, "config", "watch", CONFIG_PATH, "--ack", "reader", i, CONFIG_SCRIPT);
    }
    if (code == 0) {
        code = config_reached(s, "colour=blue", &change);
    }
    if (code == 0) {
        stage_say(s, "config: two readers watch " CONFIG_PATH ", both run with colour=blue");
        code = config_push(s, &change);
    }
    if (code == 0) {
        code = config_acknowledged(s, change);
    }
    stage_end_all(s);
    return code;
}
