/* What one server answers about a session: admin/answers/session_answers.h. */
#ifndef CLI_OPS_SESSION_ANSWER_H
#define CLI_OPS_SESSION_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session_answer {
    int64_t server; /* number of the server */
    char mode[16];
    bool recording;
    bool lives;
    bool recorded; /* there is a record, with the fields that follow */
    char cause[32];
    int64_t weight;
    int64_t at_ms; /* wall clock */
    char *verdict;
    char *notes; /* lines */
    char *json;  /* the whole answer on one line */
};

/* Reads the JSON. False: it is none, or memory is out. Finish in either case. */
bool session_answer_read(const void *text, size_t len, struct session_answer *ret);
void session_answer_finish(struct session_answer *a);

#endif
