/*
 * The parts of conclave bench. One thread runs all sessions on one epoll descriptor.
 *
 *   schedule ──start──> slot (one operation of one session, of one or more requests) ──answer──> histogram of its operation
 *
 * Every session has `outstanding` slots. With a rate, operation k is due at begin + k / rate, whatever the server does, and
 * its latency counts from that moment, also when no slot was free; without one a slot begins its next operation as soon as
 * it has its answer.
 */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

#include "cli/bench/latency_histogram.h"
#include "cli/common/options.h"

#include <conclave/client.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_PARENT_MAX = 100,
    BENCH_PATH_MAX = 160,
    BENCH_ERRORS_MAX = 16,    /* kinds of errors that are counted by name */
    BENCH_SLOTS_MAX = 100000, /* sessions times outstanding */
    BENCH_SESSIONS_MAX = 4096,
    BENCH_OUTSTANDING_MAX = 4096,
    BENCH_NODES_MAX = 1000000,
    BENCH_DATA_MAX = 1000000,
};

/* Rows of the result. Those behind BENCH_MIXED are parts of others, not for --mix. */
enum bench_row {
    BENCH_GET,
    BENCH_EXISTS,
    BENCH_SET,
    BENCH_CREATE, /* create, then delete */
    BENCH_CHILDREN,
    BENCH_MULTI, /* two sets and a check in one transaction */
    BENCH_WATCH, /* get with a watch, then set: until the event arrives */
    BENCH_LOCK,  /* ephemeral node and list of children, then delete: until it is held */
    BENCH_MIXED,
    BENCH_DELETE = BENCH_MIXED,
    BENCH_UNLOCK,
    BENCH_ROWS,
};
extern const char *const BENCH_NAMES[BENCH_ROWS];

struct bench_options {
    struct common_options common;
    const char *mix;
    int64_t rate; /* operations per second of all sessions; 0: as fast as they are answered */
    int64_t sessions;
    int64_t outstanding;
    int64_t data_bytes;
    int64_t nodes;
    int64_t warm_up_ms;
    int64_t duration_ms;
    const char *parent; /* NULL: a name of its own below the root */
    bool keep;
    bool progress;
};

struct bench;

/* One operation of one session at a time. */
struct bench_slot {
    struct bench *bench;
    uint32_t session;
    uint8_t row;  /* enum bench_row of the operation */
    uint8_t step; /* requests of the operation that were sent */
    bool busy;
    bool watching;    /* a watch has not fired yet */
    bool failed;      /* this operation counted as an error */
    int64_t due_us;   /* from here its latency counts */
    int64_t begin_us; /* of the present request */
    char *made;       /* the node that it made, and deletes; NULL: none */
    struct bench_slot *next_free;
};

struct bench_session {
    struct conclave_client *client;
    bool connected;
};

struct bench_result {
    uint64_t errors;
    struct latency_histogram latencies;
};

struct bench_error {
    int code;
    uint64_t count;
};

struct bench {
    const struct bench_options *options;
    unsigned weights[BENCH_MIXED];
    unsigned weights_total;
    char **servers; /* "host:port/chroot", one each */
    size_t n_servers;
    char parent[BENCH_PARENT_MAX];
    char *data; /* data_bytes bytes */

    struct bench_session *sessions;
    size_t n_sessions;
    struct bench_slot *slots;
    size_t n_slots;
    struct bench_slot *free_slots;
    size_t busy;
    int epoll_fd;

    uint64_t random;
    int64_t begin_us;  /* of the schedule */
    int64_t record_us; /* operations due from here count */
    int64_t end_us;    /* operations due from here are not begun */
    uint64_t next;     /* number of the next scheduled operation */
    bool stopped;

    struct bench_result rows[BENCH_ROWS];
    struct latency_histogram second; /* all of the present second, for the progress */
    uint64_t second_errors;
    struct bench_error errors[BENCH_ERRORS_MAX];
    uint64_t unfinished; /* scheduled, and without an answer at the end */
    uint64_t measured_us;
    uint64_t requests; /* sent while it ran */
    uint64_t set_up_requests;
};

int64_t bench_now_us(void);

/* --- bench_nodes.c: the nodes, on a connection of their own. Exit codes; errors were printed. --- */
int bench_make_nodes(struct bench *b);
int bench_remove_nodes(struct bench *b);

/* --- bench_operations.c --- */
/* Begins an operation on a free slot. */
void bench_operation_begin(struct bench *b, struct bench_slot *slot, int64_t due_us);
void bench_count_error(struct bench *b, int error, uint64_t times);

/* --- bench_run.c: opens the sessions, runs, closes them. The exit code; *ret_signal: what stopped it, or 0. --- */
int bench_run(struct bench *b, int signal_fd, int *ret_signal);

/* --- bench_report.c --- */
void bench_progress(const struct bench *b, int64_t at_s);
/* 0 or the error of the output. */
int bench_report(const struct bench *b);

#endif
