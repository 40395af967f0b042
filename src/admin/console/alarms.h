/*
 * What needs an operator's attention now, in words, with advice. Pure: facts in, alarms out, the most serious first.
 */
#ifndef ADMIN_CONSOLE_ALARMS_H
#define ADMIN_CONSOLE_ALARMS_H

#include "base/json.h"

/* The facts of one server, as it sees its ensemble. */
struct alarm_facts {
    const char *not_ready; /* why the server does not serve, or NULL; fixed text */
    bool grouped;          /* there are other members */
    uint64_t leader;       /* 0: none known */
    size_t voters;
    size_t voters_linked; /* this server included if it is a voter */
    size_t members_down;  /* other members without a link to this one */
    uint64_t first_down;  /* id of one of them */
    uint64_t most_behind; /* entries that the slowest linked member lacks, on a leader */
    uint64_t behind_id;   /* that member */
    bool damaged;
    bool aside;
    int data_level; /* 1: near the limit, 2: at it */
    int64_t oldest_write_ms;
    uint32_t fsync_p99_us; /* of the newest samples */
    uint32_t stall_ms;
    size_t connections;
    size_t connections_max; /* 0: none */
    int64_t files;          /* -1: unknown */
    int64_t files_max;
};

struct alarm {
    bool critical; /* clients are, or soon will be, without service */
    char text[160];
    const char *advice; /* fixed text */
};

/* Calls fn for each alarm; the alarm is valid until fn returns. Returns their number. */
size_t alarms_find(const struct alarm_facts *f, void (*fn)(void *ctx, const struct alarm *a),
                   void *ctx);

/* Writes them as a value: a list of objects. */
void alarms_write(const struct alarm_facts *f, struct json *j);

#endif
