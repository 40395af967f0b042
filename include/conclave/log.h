/*
 * What a client reports besides its states: why a server could not be used, that the list of
 * servers or the TLS files changed, and more. The library itself writes nothing to stderr.
 */
#ifndef CONCLAVE_LOG_H
#define CONCLAVE_LOG_H

#include <conclave/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_client;

enum conclave_log_level {
    CONCLAVE_LOG_ERROR,   /* does not get better by itself: credentials refused, files not usable */
    CONCLAVE_LOG_WARNING, /* a server could not be used, a link or a session was lost */
    CONCLAVE_LOG_INFO,    /* states, lists of servers, files that were read again */
    CONCLAVE_LOG_DEBUG,   /* each attempt to connect */
};

/* Name of a level ("WARNING"). Static. */
CONCLAVE_API const char *conclave_log_level_name(enum conclave_log_level level);

/* One line. May grow at its end. */
struct conclave_log_line {
    enum conclave_log_level level;
    const char *message; /* a short fixed text: "cannot use the server" */
    /* key, value, key, value, ..., NULL: "server", "10.0.0.1:2181", "why", "connection refused" */
    const char *const *fields;
    const char *text; /* all of it: cannot use the server server=10.0.0.1:2181 why="..." */
};

/* Called as the client's other callbacks, in order with them. Lines contain no secrets. If the
 * program is slow, at most 1000 lines wait; the next one has the field "dropped" with the number of
 * lines that were lost before it. */
typedef void (*conclave_log_fn)(struct conclave_client *client,
                                const struct conclave_log_line *line, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
