/* The demo's main scene: hand-overs of leadership, after a kill -9 and after a clean stop. */
#include "cli/ops/demo.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CANDIDATES 3
#define SESSION_TEXT "2s"
#define PATH "/demo/leader"

/* The output of a candidate's command; it runs as the child of the guardian. */
struct leader {
    int candidate; /* from 0 */
    char id[32];
    int64_t token;
    pid_t guardian;
    pid_t command;
};

struct election_scene {
    struct stage *stage;
    pid_t candidates[CANDIDATES];
    struct leader leader;
};

/* One line for us, then a job that takes longer than the demo. */
static const char SCRIPT[] = "echo \"leads $CONCLAVE_ID $CONCLAVE_TOKEN $PPID $$\"; exec sleep 60";

static pid_t candidate_start(struct stage *s, int index)
{
    char id[32];
    snprintf(id, sizeof id, "candidate-%d", index + 1);
    char *argv[] = {"conclave",   "elect",     PATH,           "--server", s->address, "--session",
                    SESSION_TEXT, "--timeout", "60s",          "--id",     id,         "--",
                    "sh",         "-c",        (char *)SCRIPT, NULL};
    return stage_start(s, argv);
}

/* Waits for the command of the next leader to speak. */
static struct leader leader_wait(struct election_scene *e)
{
    struct stage *s = e->stage;
    struct leader next = {0};
    const char *words[5];
    stage_hear(s, "leads", words, 5);
    int number = words[1][0] != '\0' ? words[1][strlen(words[1]) - 1] - '0' : 0;
    if (strncmp(words[1], "candidate-", 10) != 0 || number < 1 || number > CANDIDATES) {
        stage_failed(s, "\"%s\" leads, which we did not start", words[1]);
        return next;
    }
    next.candidate = number - 1;
    snprintf(next.id, sizeof next.id, "candidate-%d", number);
    next.token = stage_number(s, words[2]);
    next.guardian = (pid_t)stage_number(s, words[3]);
    next.command = (pid_t)stage_number(s, words[4]);
    return next;
}

static struct leader next_leader(struct election_scene *e)
{
    struct leader next = leader_wait(e);
    if (next.token <= e->leader.token || next.candidate == e->leader.candidate) {
        stage_failed(e->stage, "%s got token %" PRId64 " after %" PRId64, next.id, next.token,
                     e->leader.token);
    }
    return next;
}

static void first_leader(struct election_scene *e)
{
    struct stage *s = e->stage;
    s->step = "start three candidates";
    for (int i = 0; i < CANDIDATES; i++) {
        e->candidates[i] = candidate_start(s, i);
    }
    stage_say(s, "three candidates started: processes %d, %d and %d, session timeout " SESSION_TEXT,
              (int)e->candidates[0], (int)e->candidates[1], (int)e->candidates[2]);
    s->step = "elect the first leader";
    e->leader = leader_wait(e);
    stage_say(s, "%s leads, fencing token %" PRId64 "; its command runs as process %d",
              e->leader.id, e->leader.token, (int)e->leader.command);
}

/* As if the leader's machine had failed: nothing of it can close its session. */
static void kill_leader(struct election_scene *e)
{
    struct stage *s = e->stage;
    pid_t pid = e->candidates[e->leader.candidate];
    s->step = "hand over after kill -9";
    kill(pid, SIGSTOP);
    kill(e->leader.guardian, SIGKILL);
    kill(e->leader.command, SIGKILL);
    kill(pid, SIGKILL);
    int64_t killed_ns = stage_now_ns();
    stage_say(s, "%s is killed with -9, and its guardian and command with it", e->leader.id);
    stage_reap(s, pid, STAGE_STOP_TIMEOUT_MS);
    struct leader next = next_leader(e);
    stage_say(
        s,
        "%s leads %.3fs after the kill: the dead session had to time out first; token %" PRId64
        " > %" PRId64,
        next.id, stage_seconds_since(killed_ns), next.token, e->leader.token);
    e->leader = next;
}

static void stop_leader(struct election_scene *e)
{
    struct stage *s = e->stage;
    pid_t pid = e->candidates[e->leader.candidate];
    s->step = "hand over after a clean stop";
    int64_t told_ns = stage_now_ns();
    stage_say(s, "%s is told to stop (SIGTERM)", e->leader.id);
    kill(pid, SIGTERM);
    struct leader next = next_leader(e);
    stage_say(s, "%s leads %.3fs later, nothing had to time out; token %" PRId64 " > %" PRId64,
              next.id, stage_seconds_since(told_ns), next.token, e->leader.token);
    int exit_code = stage_reap(s, pid, STAGE_STOP_TIMEOUT_MS);
    if (exit_code != 128 + SIGTERM) {
        stage_failed(s, "%s ended with %d, not with its command's %d", e->leader.id, exit_code,
                     128 + SIGTERM);
    }
}

void demo_election(struct stage *s)
{
    static void (*const acts[])(struct election_scene * e) = {first_leader, kill_leader,
                                                              stop_leader};
    struct election_scene e = {.stage = s};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0] && s->code == 0; i++) {
        acts[i](&e); /* after a failure there is no leader to be signalled */
    }
    stage_end_all(s);
}
