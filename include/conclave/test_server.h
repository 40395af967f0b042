/*
 * A server for tests: a child process, `conclave server --test`, that keeps nothing on disk and does to its clients what
 * the test says: it lets a session expire, loses the answer of a committed write, pauses, lets time pass, and tells what
 * happened. docs/testing.md describes the orders; every ZooKeeper client can use the server.
 *
 *     struct conclave_test_server *server;
 *     char *problem = NULL;
 *     if (conclave_test_server_open(NULL, &server, &problem) != 0) {
 *         fprintf(stderr, "%s\n", problem);  // and free it
 *     }
 *     options.servers = conclave_test_server_hosts(server);
 *
 * The child ends with this process, however that ends: it reads a pipe whose other end is here. Programs that this process
 * starts do not inherit that end.
 *
 * All functions block, for some milliseconds as a rule, and may be called from any thread, but no other function may run
 * on a handle that is closed. An order that fails returns
 *   CONCLAVE_NO_NODE        there is no such session, or it has no connection
 *   CONCLAVE_EINVAL         an argument is out of range
 *   CONCLAVE_EBUSY          too many orders are in effect: conclave_test_server_clear
 *   CONCLAVE_EDISCONNECTED  the server has ended, or does not answer
 *   CONCLAVE_EIO            the server cannot do it now
 *   CONCLAVE_ECORRUPT       the answer is not one of a server for tests
 *   CONCLAVE_ENOMEM
 * and conclave_test_server_problem says why. session is the id of a session; CONCLAVE_TEST_ALL: every session.
 */
#ifndef CONCLAVE_TEST_SERVER_H
#define CONCLAVE_TEST_SERVER_H

#include <conclave/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_test_server;

#define CONCLAVE_TEST_ALL 0      /* every session */
#define CONCLAVE_TEST_FOREVER -1 /* until another order */

/* Begin with CONCLAVE_TEST_SERVER_OPTIONS_INIT, then set what differs. */
struct conclave_test_server_options {
    size_t size;
    /* the program `conclave`; NULL: the environment variable CONCLAVE, or "conclave" in PATH */
    const char *program;
    /* further options of `conclave server`, such as "--tickTime", "2000", NULL; NULL: none */
    const char *const *arguments;
    int64_t timeout_ms; /* until it must be ready; 0: 30 s */
};
#define CONCLAVE_TEST_SERVER_OPTIONS_INIT CONCLAVE_INIT(conclave_test_server_options)

/* Starts a server and waits until it is ready. options may be NULL. What the server logs goes to this process's stderr.
 * 0 and *ret, to be ended with conclave_test_server_close. CONCLAVE_EINVAL (options), CONCLAVE_EIO (the program cannot
 * be started, or it ended), CONCLAVE_ETIMEDOUT, CONCLAVE_ENOMEM; then *ret_problem (ret_problem may be NULL) says what
 * happened and what to do: free it with free(). It is NULL if memory is out. */
CONCLAVE_API int conclave_test_server_open(const struct conclave_test_server_options *options,
                                           struct conclave_test_server **ret,
                                           char **ret_problem) CONCLAVE_MUST_USE;

/* Ends the server and frees the handle. NULL does nothing. 0; CONCLAVE_EIO: the server had ended before, or did not end
 * as it should. */
CONCLAVE_API int conclave_test_server_close(struct conclave_test_server *server);

/* "127.0.0.1:PORT" for clients, and of the HTTP port for orders by other means. Valid until the handle is closed. */
CONCLAVE_API const char *conclave_test_server_hosts(const struct conclave_test_server *server);
CONCLAVE_API const char *conclave_test_server_admin(const struct conclave_test_server *server);

/* The process id of the server. */
CONCLAVE_API int64_t conclave_test_server_pid(const struct conclave_test_server *server);

/* Why the last order failed; "": none did. Valid until the next order or the end of the handle. */
CONCLAVE_API const char *conclave_test_server_problem(const struct conclave_test_server *server);

/* --- orders -------------------------------------------------------------------- */

/* Ends a session as if its timeout had passed. Its ephemeral nodes are gone when the call returns. */
CONCLAVE_API int conclave_test_server_expire(struct conclave_test_server *server,
                                             int64_t session) CONCLAVE_MUST_USE;

enum conclave_test_when {
    CONCLAVE_TEST_NOW,    /* the connection ends now; with a session */
    CONCLAVE_TEST_BEFORE, /* it ends when the next request comes, which is not carried out */
    CONCLAVE_TEST_AFTER, /* the next request is carried out, a write committed, and its answer lost */
};

/* Ends the connection of a session, once. request: which one, by its name in the protocol ("create", "setData"), or "write"
 * for any write; NULL: any but those that keep a session. The session lives on. */
CONCLAVE_API int conclave_test_server_drop(struct conclave_test_server *server, int64_t session,
                                           enum conclave_test_when when,
                                           const char *request) CONCLAVE_MUST_USE;

/* Delays answers by ms (0 to a day); 0: no longer. */
CONCLAVE_API int conclave_test_server_delay(struct conclave_test_server *server, int64_t session,
                                            int64_t ms) CONCLAVE_MUST_USE;

/* Reads and sends nothing for ms, or until conclave_test_server_resume (CONCLAVE_TEST_FOREVER). */
CONCLAVE_API int conclave_test_server_pause(struct conclave_test_server *server, int64_t session,
                                            int64_t ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_test_server_resume(struct conclave_test_server *server,
                                             int64_t session) CONCLAVE_MUST_USE;

/* Closes new connections at once, for ms or until conclave_test_server_accept (CONCLAVE_TEST_FOREVER). */
CONCLAVE_API int conclave_test_server_refuse(struct conclave_test_server *server,
                                             int64_t ms) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_test_server_accept(struct conclave_test_server *server) CONCLAVE_MUST_USE;

/* Lets ms (0 to a day) pass at once for sessions. Those that were silent for their timeout have ended when the call
 * returns: *ret_expired of them; ret_expired may be NULL. A session is silent unless its client is connected, not paused,
 * and has sent something within two thirds of its timeout. */
CONCLAVE_API int conclave_test_server_advance(struct conclave_test_server *server, int64_t ms,
                                              uint64_t *ret_expired) CONCLAVE_MUST_USE;

/* Stops the clock of sessions, or lets it go on. */
CONCLAVE_API int conclave_test_server_freeze(struct conclave_test_server *server,
                                             bool frozen) CONCLAVE_MUST_USE;

/* Drops all orders: nothing is held, refused, delayed or frozen. */
CONCLAVE_API int conclave_test_server_clear(struct conclave_test_server *server) CONCLAVE_MUST_USE;

/* The same; then ends all sessions and deletes all nodes. */
CONCLAVE_API int conclave_test_server_reset(struct conclave_test_server *server) CONCLAVE_MUST_USE;

/* --- what happened ------------------------------------------------------------- */

struct conclave_test_session {
    int64_t id;
    int32_t timeout_ms;
    bool connected;
    uint64_t watches; /* set now */
};

struct conclave_test_requests {
    const char *name; /* "create" */
    uint64_t count;
};

/* Since the start or the last conclave_test_server_mark. */
struct conclave_test_report {
    size_t size;
    int64_t since_ms;
    uint64_t connections_open; /* now, with a session */
    uint64_t connections_accepted;
    uint64_t connections_refused;
    uint64_t connections_dropped; /* by orders */
    uint64_t sessions_open;       /* now */
    uint64_t sessions_created;
    uint64_t sessions_expired;
    uint64_t sessions_closed;
    uint64_t requests;
    uint64_t watches_set;                         /* now */
    uint64_t watches_told;                        /* events */
    const struct conclave_test_session *sessions; /* the open ones, up to 1000 */
    size_t session_count;
    const struct conclave_test_requests *kinds; /* only those that came */
    size_t kind_count;
};

/* Counts from now on. */
CONCLAVE_API int conclave_test_server_mark(struct conclave_test_server *server) CONCLAVE_MUST_USE;

/* 0 and a report, to be freed with conclave_test_report_free. */
CONCLAVE_API int conclave_test_server_report(struct conclave_test_server *server,
                                             struct conclave_test_report **ret) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_test_report_free(struct conclave_test_report *report);

/* How many requests of this kind came; 0: none. */
CONCLAVE_API uint64_t conclave_test_report_requests(const struct conclave_test_report *report,
                                                    const char *name);

#ifdef __cplusplus
}
#endif
#endif
