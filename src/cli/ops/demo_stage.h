/*
 * The common parts of the scenes of `conclave demo`: lines with the time in front of them, processes that each run this
 * program, and the one pipe to which they write.
 *
 * A scene (demo.h) starts processes, reads what they say, checks it and prints it. The first failure is printed and
 * kept (`code`): from then on all functions but stage_reap and stage_end_all do nothing, so scenes need few checks.
 */
#ifndef CLI_OPS_DEMO_STAGE_H
#define CLI_OPS_DEMO_STAGE_H

#include "cli/common/waiter.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STAGE_STEP_TIMEOUT_MS 10000
#define STAGE_STOP_TIMEOUT_MS 3000

enum { STAGE_PROCESSES_MAX = 8, STAGE_LINE_MAX = 256 };

struct stage {
    int64_t began_ns;
    const char *step;  /* the present attempt */
    int code;          /* 0, or the exit code after the failure of a step was printed */
    char address[264]; /* of the server */
    struct waiter waiter;
    pid_t processes[STAGE_PROCESSES_MAX]; /* 0: none */
    int words[2];                         /* the pipe */
    char line[STAGE_LINE_MAX];
    size_t line_len;
    /* Why the server no longer serves; NULL: it does. */
    const char *(*trouble)(struct stage *stage);
};

void stage_init(struct stage *s);

/* Ends what still runs, too. */
void stage_finish(struct stage *s);

int64_t stage_now_ns(void);
double stage_seconds_since(int64_t ns);

/* A line for the reader. */
void stage_say(const struct stage *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The step did not come out as promised. */
void stage_failed(struct stage *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* `conclave` with these arguments (argv[0] too, NULL-ended) in a group of its own; it writes to the pipe. 0 after a
 * failure. */
pid_t stage_start(struct stage *s, char *const argv[]);

/* Reaps a process within the limit; its exit code, 128 + n after signal n, -1 when it still runs. */
int stage_reap(struct stage *s, pid_t pid, int64_t limit_ms);

/* Fails unless the process ends with 0; words: of its command. */
void stage_expect_end(struct stage *s, pid_t pid, const char *words);

/* Tells all that run to stop, and kills those that do not. */
void stage_end_all(struct stage *s);

/* The next line of the pipe of exactly `count` words that begins with `word` (NULL: with any); other lines are skipped.
 * The last word holds all the rest. The words are valid until the next call, and empty after a failure. */
void stage_hear(struct stage *s, const char *word, const char *ret_words[], int count);

/* A decimal number of at least 1 that was said; 0 after a failure. */
int64_t stage_number(struct stage *s, const char *text);

#endif
