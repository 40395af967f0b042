/*
 * One question to each of several servers at once, without a session: what is sent, and all that comes until the server
 * ends the connection. For four-letter words, and for HTTP with "Connection: close".
 *
 * Limits: the time does not bound the lookup of a name; an answer has at most ASK_ANSWER_MAX bytes.
 */
#ifndef CLI_COMMON_SERVER_QUERY_H
#define CLI_COMMON_SERVER_QUERY_H

#include "base/buf.h"
#include "cli/common/options.h"

enum { ASK_ANSWER_MAX = 64 << 20, ASK_WHY_MAX = 160, SERVER_QUERY_HOST_MAX = 280 };

struct server_query {
    char host[SERVER_QUERY_HOST_MAX]; /* name or numeric address, without brackets */
    uint16_t port;
    size_t index;          /* of the caller: which server this is */
    struct slice question; /* borrowed */
    struct buf answer;     /* made by server_query_all, finished by the caller */
    /* Takes the bytes of the answer as they come, instead of `answer`; an error (below 0) ends the question. The time then
     * is that between two pieces. Or NULL. */
    int (*take)(void *ctx, struct slice bytes);
    void *take_ctx;
    int error;             /* 0, CONCLAVE_ERESOLVE, _EDISCONNECTED, _ETIMEDOUT, _ETLS, _ENOMEM */
    char why[ASK_WHY_MAX]; /* of an error: its text */
};

/* Sets host and port from "host:port" or "[v6]:port". False when text is neither. */
bool server_query_address(struct server_query *ask, const char *text);

/* Replaces what would move a terminal's cursor or change its colours: control characters other than tab and newline, and a
 * carriage return before that. */
void server_query_clean(struct buf *answer);

/* Asks all of them within timeout_ms, over TLS where the options or the environment want it. 0, or the exit code of an error
 * that concerns all servers and was printed. */
int server_query_all(const char *command, const struct common_options *options, int64_t timeout_ms,
                     struct server_query *asks, size_t count);

#endif
