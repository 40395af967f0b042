/*
 * Replaces the planner in a `conclave redis-failover` of the tests, and stops the leading manager at one step of a
 * fail-over, once: CONCLAVE_TEST_REDIS_STOP_AT=STEP:HOW
 *
 *     exit        the process is killed before it executes the step
 *     exit-after  the process is killed after the step, before it records anything of it
 *     stop        the process is stopped (SIGSTOP) before it executes the step
 *     drop-lease  the manager gives up its lead before it executes the step
 */
#include "redis/planner/planner.h"

#include <conclave/election.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REDIS_STOP_PAUSE_MS = 100 };

bool __real_conclave_election_is_leader(const struct conclave_election *election);
bool __wrap_conclave_election_is_leader(const struct conclave_election *election);
void __real_redis_steps_next(const struct redis_situation *now, struct redis_memory *memory,
                             struct redis_action *ret);
void __wrap_redis_steps_next(const struct redis_situation *now, struct redis_memory *memory,
                             struct redis_action *ret);
void __real_redis_steps_done(struct redis_memory *memory, const struct redis_action *action,
                             const struct redis_outcome *outcome, int64_t now_ms);
void __wrap_redis_steps_done(struct redis_memory *memory, const struct redis_action *action,
                             const struct redis_outcome *outcome, int64_t now_ms);

/* The manager's election: before each decision the manager checks that it leads. */
static struct conclave_election *redis_stop_election;

static void redis_stop_refuse(const char *text)
{
    fprintf(
        stderr,
        "CONCLAVE_TEST_REDIS_STOP_AT must be STEP:exit|exit-after|stop|drop-lease, not \"%s\"\n",
        text);
    exit(64);
}

/* Whether the process must stop in this way at this step. True once. */
static bool redis_stop_takes(const char *step, const char *how)
{
    static bool over;
    const char *text = getenv("CONCLAVE_TEST_REDIS_STOP_AT");
    size_t len = strlen(step);
    if (over || text == NULL || strncmp(text, step, len) != 0 || text[len] != ':' ||
        strcmp(text + len + 1, how) != 0) {
        return false;
    }
    over = true;
    return true;
}

/* With a wrong name of a step nothing would stop, and the test would pass. */
static void redis_stop_check(void)
{
    static const char *const HOW[] = {":exit", ":exit-after", ":stop", ":drop-lease"};
    const char *text = getenv("CONCLAVE_TEST_REDIS_STOP_AT");
    bool good = text == NULL;
    for (const char *const *step = redis_step_names(); !good && *step != NULL; step++) {
        size_t len = strlen(*step);
        for (size_t i = 0; i < sizeof HOW / sizeof HOW[0]; i++) {
            good = good || (strncmp(text, *step, len) == 0 && strcmp(text + len, HOW[i]) == 0);
        }
    }
    if (!good) {
        redis_stop_refuse(text);
    }
}

bool __wrap_conclave_election_is_leader(const struct conclave_election *election)
{
    redis_stop_election = (struct conclave_election *)(uintptr_t)election;
    return __real_conclave_election_is_leader(election);
}

void __wrap_redis_steps_next(const struct redis_situation *now, struct redis_memory *memory,
                             struct redis_action *ret)
{
    redis_stop_check();
    __real_redis_steps_next(now, memory, ret);
    if (ret->kind == REDIS_ACTION_WAIT) {
        return;
    }
    if (redis_stop_takes(ret->step, "exit")) {
        raise(SIGKILL);
    } else if (redis_stop_takes(ret->step, "stop")) {
        raise(SIGSTOP);
    } else if (redis_stop_takes(ret->step, "drop-lease")) {
        if (conclave_election_resign(redis_stop_election, true) != 0) {
            abort(); /* the election is open */
        }
        *ret = (struct redis_action){.kind = REDIS_ACTION_WAIT,
                                     .u.until_ms = now->now_ms + REDIS_STOP_PAUSE_MS};
    }
}

void __wrap_redis_steps_done(struct redis_memory *memory, const struct redis_action *action,
                             const struct redis_outcome *outcome, int64_t now_ms)
{
    if (redis_stop_takes(action->step, "exit-after")) {
        raise(SIGKILL);
    }
    __real_redis_steps_done(memory, action, outcome, now_ms);
}
