/* What one server answers about slow requests: admin/answers/slow_answers.h. */
#ifndef CLI_OPS_SLOW_ANSWER_H
#define CLI_OPS_SLOW_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOW_PARTS_TEXT_MAX = 160 };

struct slow_row {
    int64_t server;
    int64_t at_ms; /* wall clock */
    double ms;
    char slowest[16];
    char operation[32];
    char session[24];
    char client[72];
    char path[168];
    char parts[SLOW_PARTS_TEXT_MAX]; /* "disk 701.2, quorum 0.3": those that are not 0 */
};

struct slow_rows {
    struct slow_row *items;
    size_t count;
};

struct slow_answer {
    int64_t server;
    int64_t threshold_ms;
    char *json; /* the whole answer on one line */
};

/* Reads the JSON, and adds its rows to `rows`. False: it is none, or memory is out. Finish both in either case. */
bool slow_answer_read(const void *text, size_t len, struct slow_answer *ret,
                      struct slow_rows *rows);
void slow_answer_finish(struct slow_answer *a);

#endif
