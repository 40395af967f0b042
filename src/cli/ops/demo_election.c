/* The demo's main scene: who leads, after a kill -9 and after a clean stop. */
#include "cli/ops/demo.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CANDIDATES 3
#define SESSION_TEXT "2s"
#define PATH "/demo/leader"

/* What a candidate's command says when it runs; it is the child of the guardian. */
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

static int candidate_start(struct election_scene *e, int index)
{
    char id[32];
    snprintf(id, sizeof id, "candidate-%d", index + 1);
    char *argv[] = {"conclave",  "elect",      PATH,        "--server", e->stage->address,
                    "--session", SESSION_TEXT, "--timeout", "60s",      "--id",
                    id,          "--",         "sh",        "-c",       (char *)SCRIPT,
                    NULL};
    return stage_start(e->stage, argv, &e->candidates[index]);
}

/* Waits for the command of the next leader to speak. */
static int leader_wait(struct election_scene *e, struct leader *ret)
{
    struct stage *s = e->stage;
    const char *words[5];
    int64_t values[3] = {0};
    int code = stage_hear(s, "leads", words, 5);
    for (int i = 0; i < 3 && code == 0; i++) {
        code = stage_number(s, words[2 + i], &values[i]);
    }
    if (code != 0) {
        return code;
    }
    int number = words[1][strlen(words[1]) - 1] - '0';
    if (strncmp(words[1], "candidate-", 10) != 0 || number < 1 || number > CANDIDATES) {
        return stage_failed(s, "\"%s\" leads, whom we did not start", words[1]);
    }
    ret->candidate = number - 1;
    snprintf(ret->id, sizeof ret->id, "candidate-%d", number);
    ret->token = values[0];
    ret->guardian = (pid_t)values[1];
    ret->command = (pid_t)values[2];
    return 0;
}

static int next_leader(struct election_scene *e, struct leader *next)
{
    int code = leader_wait(e, next);
    if (code == 0 && (next->token <= e->leader.token || next->candidate == e->leader.candidate)) {
        code = stage_failed(e->stage, "%s got token %" PRId64 " after %" PRId64, next->id,
                            next->token, e->leader.token);
    }
    return code;
}

static int first_leader(struct election_scene *e)
{
    struct stage *s = e->stage;
    s->step = "start three candidates";
    for (int i = 0; i < CANDIDATES; i++) {
        int code = candidate_start(e, i);
        if (code != 0) {
            return code;
        }
    }
    stage_say(s, "three candidates started: processes %d, %d and %d, session timeout " SESSION_TEXT,
              (int)e->candidates[0], (int)e->candidates[1], (int)e->candidates[2]);
    s->step = "elect the first leader";
    int code = leader_wait(e, &e->leader);
    if (code == 0) {
        stage_say(s, "%s leads, fencing token %" PRId64 "; its command runs as process %d",
                  e->leader.id, e->leader.token, (int)e->leader.command);
    }
    return code;
}

/* As if the leader's machine had failed: nothing of it is left to say good-bye. */
static int kill_leader(struct election_scene *e)
{
    struct stage *s = e->stage;
    struct leader next = {0};
    pid_t pid = e->candidates[e->leader.candidate];
    s->step = "hand over after kill -9";
    kill(pid, SIGSTOP);
    kill(e->leader.guardian, SIGKILL);
    kill(e->leader.command, SIGKILL);
    kill(pid, SIGKILL);
    int64_t killed_ns = stage_now_ns();
    stage_say(s, "%s is killed with -9, and its guardian and command with it", e->leader.id);
    stage_reap(s, pid, STAGE_STOP_TIMEOUT_MS);
    int code = next_leader(e, &next);
    if (code == 0) {
        stage_say(s,
                  "%s leads %.3fs after the kill: the dead session had to time out first; token "
                  "%" PRId64 " > %" PRId64,
                  next.id, stage_seconds_since(killed_ns), next.token, e->leader.token);
        e->leader = next;
    }
    return code;
}

static int stop_leader(struct election_scene *e)
{
    struct stage *s = e->stage;
    struct leader next = {0};
    pid_t pid = e->candidates[e->leader.candidate];
    s->step = "hand over after a clean stop";
    int64_t told_ns = stage_now_ns();
    stage_say(s, "%s is told to stop (SIGTERM)", e->leader.id);
    kill(pid, SIGTERM);
    int code = next_leader(e, &next);
    if (code != 0) {
        return code;
    }
    stage_say(s, "%s leads %.3fs later, nothing had to time out; token %" PRId64 " > %" PRId64,
              next.id, stage_seconds_since(told_ns), next.token, e->leader.token);
    int exit_code = stage_reap(s, pid, STAGE_STOP_TIMEOUT_MS);
    if (exit_code != 128 + SIGTERM) {
        return stage_failed(s, "%s ended with %d, not with its command's %d", e->leader.id,
                            exit_code, 128 + SIGTERM);
    }
    return 0;
}

int demo_election(struct stage *s)
{
    struct election_scene e = {.stage = s};
    int code = first_leader(&e);
    if (code == 0) {
        code = kill_leader(&e);
    }
    if (code == 0) {
        code = stop_leader(&e);
    }
    stage_end_all(s);
    return code;
}
